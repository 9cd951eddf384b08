"""What a person looks at before they decide: the conversation, why the mail is here, and what was decided before."""

from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from email_assistant.db.pool import Pool, fetched_as
from email_assistant.db.statements import statements
from email_assistant.inbox.items import Item
from email_assistant.inbox.kept import decision_in
from email_assistant.memory.profiles import Memory
from email_assistant.memory.rules import PROFILES, Profile, Rule
from email_assistant.tools.spec import Answer, Kind

_MOST_MAILS = 50
_MOST_CHARACTERS = 20_000
_SIMILAR = 5

_SQL = statements("trail", "context.sql")


@dataclass(frozen=True, slots=True)
class PastMail:
    """One mail of the conversation, as sanitised text."""

    id: str
    own: bool  # sent by the account itself
    sender: str
    name: str | None
    recipients: list[str]
    subject: str
    received_at: datetime
    text: str
    cut: bool  # whether the text goes on
    attachments: list[str | None]  # their names


@dataclass(frozen=True, slots=True)
class TriageNote:
    classification: str
    reason: str | None
    at: datetime | None


@dataclass(frozen=True, slots=True)
class Before:
    """What was decided on an earlier item of the same kind about mail from the same sender."""

    id: UUID
    sender: str
    subject: str
    kind: Kind
    decision: Answer
    decided_by: str | None
    decided_at: datetime


@dataclass(frozen=True, slots=True)
class Context:
    conversation: list[PastMail]  # oldest first; of a long conversation its newest mails
    triage: TriageNote | None  # None for mail that was not triaged
    before: list[Before]  # latest first
    rules: dict[Profile, list[Rule]]  # all that stood in the prompts


class Contexts:
    def __init__(self, pool: Pool, memory: Memory) -> None:
        self._pool = pool
        self._memory = memory

    async def of(self, item: Item) -> Context:
        """The context of an item of the inbox."""
        given = {
            "user": item.user_id,
            "account": item.account_id,
            "thread": item.thread_id,
            "mail": item.mail_id,
            "sender": item.sender,
            "kind": item.kind,
            "item": item.id,
            "most": _MOST_MAILS,
            "characters": _MOST_CHARACTERS,
            "similar": _SIMILAR,
        }
        # Of a report nothing is shown beside what the item itself says of it.
        letters = [] if item.undelivered else await fetched_as(PastMail, self._pool, _SQL["conversation"], given)
        triage = await fetched_as(TriageNote, self._pool, _SQL["triage"], given)
        before = [
            replace(each, decision=decision["type"])
            for each in await fetched_as(Before, self._pool, _SQL["before"], given)
            if (decision := decision_in(each.decision))
        ]
        rules = {profile: [] for profile in PROFILES} if item.is_held else await self._memory.in_force(item.account_id)
        return Context(letters[::-1], triage[0] if triage else None, before, rules)

    async def letter(self, user_id: UUID, account_id: UUID, mail_id: str) -> PastMail | None:
        """One mail by itself; None if it is not there any more."""
        given = {"user": user_id, "account": account_id, "mail": mail_id, "characters": _MOST_CHARACTERS}
        found = await fetched_as(PastMail, self._pool, _SQL["one"], given)
        return found[0] if found else None
