"""What calls cost of Google's quota, what Google allows, and whose calls go first."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Final, Protocol

# https://developers.google.com/workspace/gmail/api/reference/quota, as of 2026-05, of what is called. A method that
# gives whole messages costs 20 each since then; a call to Calendar counts as one request.
UNITS: Final[Mapping[str, int]] = {
    "gmail.users.drafts.create": 10,
    "gmail.users.drafts.delete": 10,
    "gmail.users.drafts.get": 20,
    "gmail.users.drafts.list": 5,
    "gmail.users.drafts.send": 100,
    "gmail.users.getProfile": 1,
    "gmail.users.history.list": 2,
    "gmail.users.labels.create": 5,
    "gmail.users.labels.list": 1,
    "gmail.users.messages.attachments.get": 20,
    "gmail.users.messages.get": 20,
    "gmail.users.messages.list": 5,
    "gmail.users.messages.modify": 5,
    "gmail.users.settings.sendAs.list": 1,
    "gmail.users.stop": 50,
    "gmail.users.threads.get": 40,
    "gmail.users.watch": 100,
}
_SENDING: Final = "gmail.users.drafts.send"
_DEAREST: Final = 100  # of Google's table; what a method costs that stands neither there nor in the settings

# What a bucket loses in a minute, of what Google allows in one. With the fifth that it can hold (below), no 60 s see
# more than 98 %; the rest is for calls that reach Google up to 1.5 s later than others after they were admitted.
_DRAINED: Final = 0.78


class Urgency(Enum):
    """Whose call it is, by how high it may fill a bucket: a part of what Google allows in a minute."""

    PERSON = 0.2
    """It carries out what a person has decided."""
    MAIL = 0.15
    """Polling, triage and drafting. The rest holds a whole answer: look at the thread (40 units) and at a message that
    came meanwhile (20), draft (10), send (100), change labels (5)."""
    BACKFILL = 0.02
    """Older mail has only what drains while nobody else calls, and so an even pace."""


_urgency: Final = ContextVar("whose call it is", default=Urgency.MAIL)


@contextmanager
def calls_are(urgency: Urgency) -> Iterator[None]:
    """What is called within the block, by tasks started in it too, is as urgent as this."""
    token = _urgency.set(urgency)
    try:
        yield
    finally:
        _urgency.reset(token)


@dataclass(frozen=True, slots=True)
class Share:
    """What one call takes of one bucket. Units are Google's; without a limit the call costs nothing and has room."""

    cost: float = 0.0
    room: float = float("inf")
    """The level that the call may bring the bucket to."""
    rate: float = 1.0
    """What the bucket loses in a second."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What Google allows in a minute, None where it is no matter, and prices that differ from `UNITS`."""

    user: int | None
    """Gmail units of one account."""
    project: int | None
    """Gmail units of all accounts that log in with one OAuth client."""
    calendar: int | None
    """Calendar requests of one account."""
    units: Mapping[str, int]

    def rates(self) -> dict[str, float]:
        """What each kind of bucket loses in a second, in units."""
        limits = {"gmail": self.user, "calendar": self.calendar, "project": self.project}
        return {name: _rate(limit) for name, limit in limits.items() if limit is not None}

    def cost(self, method: str) -> int:
        """Units of one call, by its methodId."""
        return self.units.get(method, 1 if is_calendar(method) else UNITS.get(method, _DEAREST))

    def shares(self, method: str) -> tuple[Share, Share | None]:
        """What a call now, by its methodId, takes of its account's bucket, and of its project's if that is limited."""
        units = self.cost(method)
        if is_calendar(method):
            return _share(self.calendar, units), None
        return _share(self.user, units), None if self.project is None else _share(self.project, units)


class Quota(Protocol):
    """One account's part of what Google allows, shared by all processes."""

    async def admit(self, method: str, seconds: float) -> None:
        """Return when a call may be made. At most half of the `seconds` that the call has are spent on waiting.

        Raises:
            RateLimited: it would have to wait longer.
            Transient: it can't be known now.
        """

    async def close(self, method: str, until: datetime) -> None:
        """Admit no call of the same kind before a time that Google has named, but for what another process was admitted
        to within the last second; a refusal to send closes nothing."""


def is_sending(method: str) -> bool:
    """Whether it also counts to Gmail's limit of mails a day, which holds up nothing but sending, and that for hours.

    https://developers.google.com/workspace/gmail/api/guides/handle-errors
    """
    return method == _SENDING


def is_calendar(method: str) -> bool:
    return method.startswith("calendar.")


def _share(limit: int | None, units: int) -> Share:
    if limit is None:
        return Share()
    # An empty bucket takes any call, or a dear one would wait for ever.
    room = max(_urgency.get().value * limit, units)
    return Share(float(units), room, rate=_rate(limit))


def _rate(limit: int) -> float:
    return _DRAINED * limit / 60
