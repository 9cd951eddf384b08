"""A person's mailbox, as it is kept: address, timezone, state, and what mail from it bears."""

from dataclasses import dataclass, replace
from datetime import datetime, tzinfo
from http import HTTPStatus
from math import isfinite
from typing import Final, Literal
from uuid import UUID
from zoneinfo import ZoneInfo

from email_assistant.db.presence import clock_time
from email_assistant.db.values import zone_named
from email_assistant.errors import AssistantError
from email_assistant.mail.address import Address, untagged
from email_assistant.settings import ADDED, GOOGLE, LOCAL_SERVER, is_of_demo

NOWHERE: Final = "none"
"""Provider of the account that stands for a person without a mailbox: nobody looks for it anywhere."""
WITHOUT_MAILBOX: Final = "no mailbox"
"""Its address."""
_MEASURED_SECONDS = 5.0
"""A pace from less than this is not told."""

State = Literal["active", "paused", "stopped", "login", "removing"]
"""`stopped`: it was active when the person stopped everything, and is again when they go on."""
Mode = Literal["shadow", "draft", "send"]
"""What becomes of proposals: only shown; left as drafts at Gmail as well; or carried out once the person accepts."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the fetching of older mail is."""

    done: int
    total: int
    seconds_left: int | None
    """How long the rest takes at the pace of late; None until that is known."""

    def __str__(self) -> str:
        far = f"{self.done:,} of {self.total:,}"
        return far if self.seconds_left is None else f"{far}, {_about(self.seconds_left)} left"


@dataclass(frozen=True, slots=True)
class Identity:
    """An address that the account may send from, with what a mail from it bears."""

    address: str
    """In lower case."""
    name: str
    signature: str
    """Plain text; empty if there is none."""
    default: bool = False
    """The person writes new mail from it."""

    @property
    def mailbox(self) -> Address:
        return Address(self.name, self.address)


@dataclass(frozen=True, slots=True)
class Account:
    id: UUID
    user_id: UUID
    address: str
    provider: str
    """The server that its login is for (`Settings.provider`); no other is ever sent it."""
    name: str
    """The person's name, for the From of what goes out from the account's own address."""
    signature: str
    """Plain text, likewise; empty if there is none."""
    aliases: tuple[Identity, ...] | None
    """Other addresses that Gmail has verified as the person's; None: not asked for yet."""
    timezone: str | None
    """IANA name from the account's calendar; None until it is known."""
    background: str
    """Who the person is, in their own words."""
    introduced: bool
    """They were asked that once, and have answered, be it with nothing."""
    history_id: int | None
    """The mailbox cursor; None until the first listing."""
    listed_at: datetime | None
    described_at: datetime | None
    """When timezone, names, signatures and aliases were last asked for."""
    triage_since: datetime
    state: State
    mode: Mode
    last_error: str | None
    login_at: datetime
    """When the person logged in, or out."""
    login_ends: datetime | None
    """When Google ends the login by itself; None if it did not say."""
    scopes: list[str] | None
    """What the person has allowed; None if it is not known."""
    backfilled_at: datetime | None
    """When the last of the older mail was fetched; None while some may be left."""
    backfill_total: int | None
    backfill_done: int | None
    backfill_at: datetime | None
    """When the last batch of it ended."""
    backfill_seconds: float
    """How long was worked on it of late."""
    backfill_messages: float
    """How many messages were fetched meanwhile."""
    watch_until: datetime | None
    """Gmail tells of new mail by itself until then; None if it does not."""
    watch_error: str | None
    """Why it does not, though it was asked to."""
    labels: dict[str, str]
    """Gmail's ids of the labels for classes, by name, as far as they are known."""
    unrecorded_since: datetime | None
    """What it sent from then until `unrecorded_until` the ledger may not know: it is that of a backup from then."""
    unrecorded_until: datetime | None
    spent_until: datetime | None
    """The day's budget for models is spent until then; None while something is left."""

    @property
    def is_the_demos(self) -> bool:
        """Whether its mailbox is one of `demo`, which alone serves it."""
        return is_of_demo(self.provider)

    @property
    def identities(self) -> tuple[Identity, ...]:
        """All that it may send from, its own address first."""
        return Identity(self.address, self.name, self.signature), *(self.aliases or ())

    @property
    def has_mailbox(self) -> bool:
        """False: it stands for a person who has connected none."""
        return self.provider != NOWHERE

    @property
    def own_addresses(self) -> frozenset[str]:
        """Every address that is the person's own, in lower case."""
        return frozenset(identity.address for identity in self.identities)

    def is_own(self, address: str) -> bool:
        """Whether mail to this address comes to the person; Gmail delivers `ada+shop@…` to `ada@…`."""
        return self.identity(address) is not None

    def identity(self, address: str) -> Identity | None:
        """What mail to this address is answered from, if it is the person's own."""
        known = {identity.address: identity for identity in self.identities}
        return known.get(address.lower()) or known.get(untagged(address))

    @property
    def new_mail_identity(self) -> Identity:
        """What mail goes out from that answers none: the person's choice in Gmail."""
        return next((alias for alias in self.identities if alias.default), self.identities[0])

    @property
    def zone(self) -> ZoneInfo:
        return zone_named(self.timezone)

    @property
    def wants_backfill(self) -> bool:
        """Whether older mail is to be fetched: the mailbox is watched already, and some may be left."""
        return self.state == "active" and self.history_id is not None and self.backfilled_at is None

    @property
    def older_mail(self) -> Progress | None:
        """None before the older mail is counted, and once all of it is there."""
        if not self.backfill_total or self.backfill_done is None:
            return None
        progress = Progress(self.backfill_done, self.backfill_total, None)
        if self.backfill_seconds < _MEASURED_SECONDS or self.backfill_messages == 0:
            return progress
        left = (self.backfill_total - self.backfill_done) * self.backfill_seconds / self.backfill_messages
        return replace(progress, seconds_left=round(left)) if isfinite(left) else progress

    def away_from(self, provider: str) -> str | None:
        """Why a process that serves this provider leaves the account alone, and what to do; to be read after its
        address. None: it does not.

        A login is sent to the server that it was made at, and to no other, whatever the settings say by now.
        """
        if self.provider == provider or not self.has_mailbox:
            return None
        again = f"log in again with `email-assistant auth login {self.address}`"
        if self.is_the_demos:
            return (
                "is the mailbox of another demo, and is not worked on here: "
                f"`email-assistant account remove {self.address}` removes it"
            )
        if self.provider.startswith(LOCAL_SERVER):
            name = self.provider.removeprefix(LOCAL_SERVER)
            return (
                f"belongs to the server {name} on this machine, and no other is sent its login: name that with "
                f"EMAIL_ASSISTANT_GOOGLE_NAME and EMAIL_ASSISTANT_GOOGLE_ROOT, or {again}"
            )
        if self.provider.startswith(ADDED):
            return (
                f"belongs to the provider {self.provider.removeprefix(ADDED)}, and no other is sent its login: name "
                "that with EMAIL_ASSISTANT_MAIL_PROVIDER"
            )
        if self.provider == GOOGLE:
            setting = "MAIL_PROVIDER" if provider.startswith(ADDED) else "GOOGLE_ROOT"
            return (
                f"belongs to Google, and EMAIL_ASSISTANT_{setting} names another server, which is not sent its login: "
                f"unset that, or {again}"
            )
        return (
            f"belongs to the server at {self.provider}, and no other is sent its login: set "
            f"EMAIL_ASSISTANT_GOOGLE_ROOT to that, or {again}"
        )


def stopped(since: datetime, zone: tzinfo | None = None) -> str:
    """What is said while everything is stopped, on this machine's clock, or on that of a zone."""
    return (
        f"Everything is stopped since {clock_time(since, zone)}. Nothing is sent, booked or changed in Gmail, and no "
        "mail is read; what you answer is kept."
    )


def _about(seconds: int) -> str:
    minutes = round(seconds / 60)
    if minutes < 1:
        return "less than a minute"
    return f"about {minutes} min" if minutes < 120 else f"about {round(minutes / 60)} h"


class UnknownAccount(AssistantError):
    """No such account; the message says which ones there are."""

    status = HTTPStatus.NOT_FOUND
    passes = "on another try"
