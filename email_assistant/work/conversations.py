"""What is to be done next in a conversation, read from the tables, and its mails as prompts show them.

Nothing here says *that* there is work: it is always derived, so a lost or doubled wake-up changes nothing.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from pydantic import TypeAdapter, ValidationError

from email_assistant.accounts.accounts import Accounts
from email_assistant.agents.mail.prompts import Classification
from email_assistant.agents.mail.run import ReplyNeeds, Run
from email_assistant.db.beside import BESIDE, UNTOLD
from email_assistant.db.lease import Lease
from email_assistant.db.pool import Pool, fetched
from email_assistant.db.serializer import ForeignCheckpoint
from email_assistant.mail.excerpt import tokens
from email_assistant.mail.message import Mail, references_of
from email_assistant.mail.prompt import FEW_LISTED, MOST_LISTED, for_prompt
from email_assistant.tools.senders import MOST_NAMED, addressed_to, answered_at, everybody
from email_assistant.work.rows import Standing
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


_FOREMOST = f"""
select m.gmail_id from mails m
where m.thread_id = t.id and not m.own and m.state in ('triaging', 'waiting')
  and m.classification in ('notify', 'respond')
  and not exists (select from runs r where r.thread_id = m.thread_id and r.state = 'waiting' and {BESIDE})
order by m.classification = 'respond' desc, m.received_at desc, m.gmail_id desc limit 1"""


class UnreadableMail(ForeignCheckpoint):
    """What is stored of a conversation's mails can't be read."""


@dataclass(frozen=True, slots=True)
class MailStanding:
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

    @property
    def is_open(self) -> bool:
        return self.state in ("new", "triaging", "waiting", "acting")


@dataclass(frozen=True, slots=True)
class StoredMail:
    gmail_id: str
    own: bool
    mail: Mail


@dataclass(frozen=True, slots=True)
class Conversation(Standing):
    """One Gmail thread with everything that decides what comes next."""

    id: UUID
    gmail_id: str
    mails: Sequence[MailStanding]
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
    is_unsettled: bool
    """Effects were started in it of which it is not known what became of them."""
    has_left_drafts: bool
    """Drafts are left for the person at Gmail, or are to be."""
    letters: list[StoredMail] = field(default_factory=list)
    """What the mails say, once it was read (`Conversations.letters`)."""

    @property
    def new(self) -> list[MailStanding]:
        return [m for m in self.mails if m.state == "new"]

    @property
    def uncovered(self) -> list[MailStanding]:
        """Triaged mails that no open run answers."""
        open_ids = {run.id for run in self.open_runs}
        return [m for m in self.mails if m.state == "triaging" and m.run_id not in open_ids]

    @property
    def next_mail(self) -> tuple[MailStanding, bool] | None:
        """The mail to start a run for, and whether that run only triages; None if there is none.

        New mail is triaged oldest first. When all is, the foremost mail's run covers the others, those of a run that
        waits included.
        """
        if new := self.new:
            return new[0], len(new) > 1
        if self.uncovered and self.foremost:
            return self.mail(self.foremost), False
        return None

    def mail(self, gmail_id: str) -> MailStanding:
        return {m.gmail_id: m for m in self.mails}[gmail_id]


class Conversations:
    def __init__(self, pool: Pool, provider: str, accounts: Accounts, runs: Runs) -> None:
        self._pool = pool
        self._provider = provider
        self._accounts = accounts
        self._runs = runs
        self._at_hand: dict[Lease, Conversation] = {}

    async def load(self, thread_id: UUID) -> Conversation | None:
        """The conversation as it stands; None if its account is gone or not to be worked on.

        Raises:
            ForeignCheckpoint: it can't be read.
        """
        rows = await self._rows(
            f"""select t.account_id, t.gmail_id, t.drafted, t.complete, ({_FOREMOST}) as foremost,
                   exists (select from effects e where e.thread_id = t.id and e.state = 'started') as is_unsettled,
                   exists (select from left_drafts d where d.account_id = t.account_id and d.thread_id = t.id
                           and d.state <> 'gone') as has_left_drafts,
                   (select r.id from runs r join mails m on m.account_id = r.account_id and m.gmail_id = r.closed_with
                    where r.thread_id = t.id and m.put_away is null
                    order by m.classification = 'respond' desc, r.created_at desc limit 1) as back
               from threads t join accounts a on a.id = t.account_id
               where t.id = %s and a.state = 'active' and a.provider = %s""",
            thread_id,
            self._provider,
        )
        if not rows:
            return None
        runs = await self._runs.open_in(thread_id)
        if any(run.unreadable for run in runs):
            raise ForeignCheckpoint
        mails = await self._rows(
            """select gmail_id, own, state, classification, run_id, received_at, put_away,
                      own and (content->'auto_submitted' = 'true') is true as by_program,
                      (select count(*) from runs r where r.thread_id = m.thread_id and r.mail_id = m.gmail_id) as runs
               from mails m where thread_id = %s order by received_at, gmail_id""",
            thread_id,
        )
        row = rows[0]
        return Conversation(
            await self._accounts.get(row["account_id"]),
            runs,
            thread_id,
            row["gmail_id"],
            [MailStanding(**mail) for mail in mails],
            row["drafted"],
            row["back"],
            row["foremost"],
            row["complete"],
            row["is_unsettled"],
            row["has_left_drafts"],
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
    def at_hand(self, lease: Lease, conversation: Conversation) -> Iterator[None]:
        """Have what the lease's holder has read for whoever works under the lease within the block."""
        self._at_hand[lease] = conversation
        try:
            yield
        finally:
            del self._at_hand[lease]

    def under(self, lease: Lease) -> Conversation:
        """The conversation as it stood when its worker looked."""
        return self._at_hand[lease]

    async def foremost(self, thread_id: UUID) -> str | None:
        """Gmail's id of the newest mail of the highest class among a thread's unanswered ones.

        Those that wait with the run of another mail are left out.
        """
        [row] = await self._rows(f"select ({_FOREMOST}) as gmail_id from threads t where t.id = %s", thread_id)
        foremost: str | None = row["gmail_id"]
        return foremost

    async def read(self, thread_id: UUID) -> list[StoredMail]:
        """What the mails of a thread say now, oldest first. Raises UnreadableMail."""
        rows = await self._rows(
            "select gmail_id, own, content from mails where thread_id = %s order by received_at, gmail_id", thread_id
        )
        return await asyncio.to_thread(_read, rows)

    async def has_more_waiting(self, thread_id: UUID, mail_id: str) -> bool:
        """Whether anything waits in a thread beside a mail: a run for the person, or other mail for one."""
        rows = await self._rows(
            """select exists (select from runs where thread_id = %s and state = 'waiting')
                   or exists (select from mails m where m.thread_id = %s and m.gmail_id <> %s and m.state = 'triaging'
                              and not exists (select from runs r where r.id = m.run_id
                                              and r.state in ('running', 'waiting', 'acting'))) as waits""",
            thread_id,
            thread_id,
            mail_id,
        )
        return bool(rows[0]["waits"])

    async def classified(self, run_id: UUID) -> tuple[Classification, str] | None:
        """The class of a run's own mail, and why, if this run has come so far before."""
        rows = await self._rows(
            """select m.classification, coalesce(m.triage_reason, '') as reason
               from runs r join mails m on m.account_id = r.account_id and m.gmail_id = r.mail_id
               where r.id = %s and m.classification is not null""",
            run_id,
        )
        return (rows[0]["classification"], rows[0]["reason"]) if rows else None

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
    conversation: Conversation, letters: Sequence[StoredMail], answered: MailStanding, *, triage_only: bool
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
        text=triage_text(stored, account.zone),
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


def _read(rows: Sequence[Mapping[str, Any]]) -> list[StoredMail]:
    try:
        return [StoredMail(row["gmail_id"], row["own"], _MAIL.validate_python(row["content"])) for row in rows]
    except ValidationError:
        raise UnreadableMail from None


def triage_text(stored: StoredMail, zone: ZoneInfo) -> str:
    """What triage is shown of a mail."""
    limit = _TRIAGE_TOKENS_OF_BULK if stored.mail.bulk else _TRIAGE_TOKENS
    return for_prompt(stored.mail, stored.gmail_id, timezone=zone, limit=limit, measure=tokens)


def conversation_text(mails: Sequence[StoredMail], answered: str, newest: str, zone: ZoneInfo) -> str:
    """The thread up to a newest mail, each mail delimited; the one to be answered stands last and has most room."""
    upto = [m.gmail_id for m in mails].index(newest) + 1
    others = [m for m in mails[:upto] if m.gmail_id != answered][-_OTHER_MAILS:]
    [its] = [m for m in mails if m.gmail_id == answered]
    limits = {answered: _ANSWERED_TOKENS if others else _DRAFTING_TOKENS}
    left = _DRAFTING_TOKENS - min(tokens(its.mail.body), _ANSWERED_TOKENS)
    for number, m in enumerate(reversed(others)):  # what one leaves of its share is for those before it
        limits[m.gmail_id] = min(left // (len(others) - number), _OTHER_TOKENS)
        left -= min(tokens(m.mail.body), limits[m.gmail_id])
    return "\n".join(
        for_prompt(
            m.mail,
            m.gmail_id,
            timezone=zone,
            limit=limits[m.gmail_id],
            measure=tokens,
            people=MOST_LISTED if m is its else FEW_LISTED,  # whoever answers all must see them all
        )
        for m in [*others, its]
    )
