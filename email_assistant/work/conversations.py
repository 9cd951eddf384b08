"""What is to be done next in a conversation, read from the tables, and its mails as prompts show them.

Nothing here says *that* there is work: it is always derived, so a lost or doubled wake-up changes nothing.
"""

import asyncio
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from itertools import takewhile
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from pydantic import TypeAdapter, ValidationError

from email_assistant.accounts.rows import COLUMNS, account_in
from email_assistant.agents.mail.prompts import Classification
from email_assistant.agents.mail.run import ReplyNeeds, Run
from email_assistant.db.checkpoints import ForeignCheckpoint
from email_assistant.db.lease import Lease
from email_assistant.db.mails import BESIDE, UNTOLD
from email_assistant.db.pool import Pool, fetched
from email_assistant.db.statements import statements
from email_assistant.db.values import time_in_json
from email_assistant.gate.policy import GateSession
from email_assistant.mail.excerpt import tokens
from email_assistant.mail.history import Quoted
from email_assistant.mail.message import Mail, references_of
from email_assistant.mail.prompt import FEW_LISTED, MOST_LISTED, for_prompt, kept_history
from email_assistant.mail.stored import StoredTexts, not_stored
from email_assistant.tools.senders import MOST_NAMED, addressed_to, answered_at, everybody
from email_assistant.work.rows import OpenRuns
from email_assistant.work.runs import Runs

_MAIL = TypeAdapter(Mail)
_TRIAGE_TOKENS = 1400
"""Of a mail's text, as all of these; headers come on top."""
_TRIAGE_TOKENS_OF_BULK = 560
_DRAFTING_TOKENS = 3000
"""Of all mails together."""
_ANSWERED_TOKENS = 2000
"""Of the mail to be answered, where there are others."""
_OTHER_TOKENS = 600
_OTHER_MAILS = 8


_SQL = statements("work", "conversations.sql", beside=BESIDE, account=COLUMNS)


class UnreadableMail(ForeignCheckpoint):
    """What is stored of a conversation's mails can't be read."""


@dataclass(frozen=True, slots=True)
class ThreadMail:
    """Where a mail stands, without what it says."""

    gmail_id: str
    own: bool
    """Sent by the account itself."""
    state: str
    classification: Classification | None
    run_id: UUID | None
    received_at: datetime
    put_away: str | None
    """What the person did with it in Gmail, so that it needs no work."""
    by_program: bool
    """A program of the account's own sent it and says so, such as one that replies in a holiday."""
    runs: int
    """How many there were of it."""

    @classmethod
    def kept(cls, mail: Mapping[str, Any]) -> "ThreadMail":
        """As Postgres writes it into JSON."""
        run_id = UUID(mail["run_id"]) if mail["run_id"] else None
        return cls(**{**mail, "run_id": run_id, "received_at": time_in_json(mail["received_at"])})

    @property
    def is_open(self) -> bool:
        return self.state in ("new", "triaging", "waiting", "acting")


@dataclass(frozen=True, slots=True)
class StoredMail:
    gmail_id: str
    own: bool
    mail: Mail


@dataclass(frozen=True, slots=True)
class Conversation(OpenRuns):
    """One Gmail thread with everything that decides what comes next."""

    id: UUID
    gmail_id: str
    mails: Sequence[ThreadMail]
    """Oldest first."""
    drafted: str | None
    """Gmail's message id of a draft that was written or deleted in it, and not looked at yet."""
    back: UUID | None
    """Of the runs that ended when a mail was put away in Gmail which is in the inbox again by now, the newest of those
    whose mail asks most."""
    foremost: str | None
    """Gmail's id of the mail to be answered: the newest of the highest class among the unanswered ones."""
    complete: bool
    """It has the mails from before the account was watched, too."""
    effects: Collection[str]
    """States that there are among the effects of its runs."""
    has_left_drafts: bool
    """Drafts are left for the person at Gmail, or are to be."""
    letters: list[StoredMail] = field(default_factory=list)
    """What the mails say, once it was read (`Conversations.letters`)."""
    judged: dict[str, GateSession] = field(default_factory=dict)
    """What the gate has judged calls by that were proposed since, by their ids."""

    @property
    def is_unsettled(self) -> bool:
        """Effects were started in it of which it is not known what became of them."""
        return "started" in self.effects

    @property
    def new(self) -> list[ThreadMail]:
        return [m for m in self.mails if m.state == "new"]

    @property
    def uncovered(self) -> list[ThreadMail]:
        """Triaged mails that no open run answers."""
        open_ids = {run.id for run in self.open_runs}
        return [m for m in self.mails if m.state == "triaging" and m.run_id not in open_ids]

    @property
    def next_mail(self) -> tuple[ThreadMail, bool] | None:
        """The mail to start a run for, and whether that run only triages; None if there is none.

        New mail is triaged oldest first. When all is, the foremost mail's run covers the others, those of a run that
        waits included.
        """
        if new := self.new:
            return new[0], len(new) > 1
        if self.uncovered and self.foremost:
            return self.mail(self.foremost), False
        return None

    def mail(self, gmail_id: str) -> ThreadMail:
        return {m.gmail_id: m for m in self.mails}[gmail_id]


class Conversations:
    def __init__(self, pool: Pool, provider: str, runs: Runs) -> None:
        self._pool = pool
        self._provider = provider
        self._runs = runs
        self._cached: dict[Lease, Conversation] = {}

    async def load(self, thread_id: UUID) -> Conversation | None:
        """The conversation as it stands; None if its account is gone or not to be worked on.

        Raises:
            ForeignCheckpoint: it can't be read.
        """
        rows = await self._rows(_SQL["load"], thread_id, self._provider)
        if not rows:
            return None
        row = rows[0]
        runs = await self._runs.open_in(thread_id) if row["has_open_runs"] else []
        if any(run.unreadable for run in runs):
            raise ForeignCheckpoint
        return Conversation(
            account_in(row),
            runs,
            thread_id,
            row["gmail_id"],
            [ThreadMail.kept(mail) for mail in row["mails"]],
            row["drafted"],
            row["back"],
            row["foremost"],
            row["complete"],
            frozenset(row["effects"]),
            row["has_left_drafts"],
            await asyncio.to_thread(read_mails, row["letters"]) if row["letters"] else [],
        )

    async def letters(self, conversation: Conversation) -> Sequence[StoredMail]:
        """What a conversation's mails say, oldest first. Read once.

        Raises:
            UnreadableMail.
        """
        if not conversation.letters:
            conversation.letters.extend(await self.read(conversation.id))
        return conversation.letters

    async def letter(self, conversation: Conversation, gmail_id: str) -> Mail:
        return {m.gmail_id: m.mail for m in await self.letters(conversation)}[gmail_id]

    @contextmanager
    def cached(self, lease: Lease, conversation: Conversation) -> Iterator[None]:
        """Have what the lease's holder has read for whoever works under the lease within the block."""
        self._cached[lease] = conversation
        try:
            yield
        finally:
            del self._cached[lease]

    def under(self, lease: Lease) -> Conversation:
        """The conversation as it stood when its worker looked."""
        return self._cached[lease]

    async def foremost(self, thread_id: UUID) -> str | None:
        """Gmail's id of the newest mail of the highest class among a thread's unanswered ones.

        Those that wait with the run of another mail are left out.
        """
        [row] = await self._rows(f"select ({_SQL['foremost']}) as gmail_id from threads t where t.id = %s", thread_id)
        foremost: str | None = row["gmail_id"]
        return foremost

    async def read(self, thread_id: UUID) -> list[StoredMail]:
        """What the mails of a thread say now, oldest first. Raises UnreadableMail."""
        rows = await self._rows(
            "select gmail_id, own, content from mails where thread_id = %s order by received_at, gmail_id", thread_id
        )
        return await asyncio.to_thread(read_mails, rows)

    async def covered(self, run_id: UUID) -> list[str]:
        """Gmail's ids of the mails that a run answers, were it to end now."""
        rows = await self._rows(
            f"""select m.gmail_id from mails m join runs r on r.id = m.run_id
                where r.id = %s and not {UNTOLD} order by m.received_at, m.gmail_id""",
            run_id,
        )
        return [row["gmail_id"] for row in rows]

    async def _rows(self, query: str, *parameters: object) -> list[dict[str, Any]]:
        return await fetched(self._pool, query, parameters)


def given_to_run(
    conversation: Conversation, letters: Sequence[StoredMail], answered: ThreadMail, *, triage_only: bool
) -> Run:
    """What the graph of a mail's run is started with, but for the run's id."""
    account = conversation.account
    [stored] = [letter for letter in letters if letter.gmail_id == answered.gmail_id]
    mail = stored.mail
    to = answered_at(account, mail, own=stored.own)
    everyone = everybody(account, mail, own=stored.own)
    return Run(
        id="",
        account_id=str(account.id),
        address=account.address,
        thread=conversation.gmail_id,
        mail=stored.gmail_id,
        mails=[m.gmail_id for m in conversation.mails],
        text=triage_text(stored, account.zone, letters),
        sender=mail.sender.email.lower() if mail.sender and not mail.forged else "",
        reply=ReplyNeeds(
            to=to[0] if to else None,
            also_to=to[1:],
            everyone=everyone[:MOST_NAMED],
            more=max(0, len(everyone) - MOST_NAMED),
            addressed=addressed_to(account, mail),
            subject=mail.subject,
            in_reply_to=mail.message_id,
            references=list(references_of(mail)),
        ),
        invitation=next((m.mail.event.uid for m in reversed(letters) if m.mail.event), None),
        automatic=mail.auto_submitted or mail.bulk,
        given=answered.classification,
        triage_only=triage_only,
    )


def read_mails(rows: Sequence[Mapping[str, Any]]) -> list[StoredMail]:
    try:
        return [StoredMail(row["gmail_id"], row["own"], _MAIL.validate_python(row["content"])) for row in rows]
    except ValidationError:
        raise UnreadableMail from None


def triage_text(stored: StoredMail, zone: ZoneInfo, letters: Sequence[StoredMail] | None = None) -> str:
    """What triage is shown of a mail. `letters`: those of its conversation; where they are not given, what it quotes
    counts as stored."""
    limit = _TRIAGE_TOKENS_OF_BULK if stored.mail.bulk else _TRIAGE_TOKENS
    kept = () if letters is None else quoted_alone(stored, letters)
    return for_prompt(stored.mail, stored.gmail_id, timezone=zone, limit=limit, measure=tokens, kept=kept)


def quoted_alone(stored: StoredMail, letters: Sequence[StoredMail]) -> Sequence[Quoted]:
    """What a mail quotes that no mail before it in its conversation holds."""
    before = takewhile(lambda each: each.gmail_id != stored.gmail_id, letters)
    return not_stored(stored.mail, StoredTexts(each.mail for each in before))


def conversation_text(mails: Sequence[StoredMail], answered: str, newest: str, zone: ZoneInfo) -> str:
    """The thread up to a newest mail, each mail delimited; the one to be answered stands last and has most room."""
    upto = [m.gmail_id for m in mails].index(newest) + 1
    others = [m for m in mails[:upto] if m.gmail_id != answered][-_OTHER_MAILS:]
    [its] = [m for m in mails if m.gmail_id == answered]
    limits = {answered: _ANSWERED_TOKENS if others else _DRAFTING_TOKENS}
    earlier, kept = StoredTexts(), {}
    for m in mails[:upto]:
        kept[m.gmail_id] = not_stored(m.mail, earlier)
        earlier.add(m.mail)
    sizes = {m.gmail_id: tokens(m.mail.body) + tokens(kept_history(m.mail, kept[m.gmail_id])) for m in [*others, its]}
    left = _DRAFTING_TOKENS - min(sizes[answered], _ANSWERED_TOKENS)
    for number, m in enumerate(reversed(others)):  # what one leaves of its share is for those before it
        limits[m.gmail_id] = min(left // (len(others) - number), _OTHER_TOKENS)
        left -= min(sizes[m.gmail_id], limits[m.gmail_id])
    return "\n".join(
        for_prompt(
            m.mail,
            m.gmail_id,
            timezone=zone,
            limit=limits[m.gmail_id],
            measure=tokens,
            people=MOST_LISTED if m is its else FEW_LISTED,  # whoever answers all must see them all
            kept=kept[m.gmail_id],
        )
        for m in [*others, its]
    )
