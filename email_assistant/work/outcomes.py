"""What each mail turned out to need, by what the person said and did; and their own decisions on mail like one that is
to be triaged. What a model or the program thought is none."""

import asyncio
import re
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar
from uuid import UUID

from email_assistant.agents.mail.prompts import Classification, Precedent
from email_assistant.agents.mail.run import Thought
from email_assistant.db.lease import HELD, Lease, RowChange
from email_assistant.db.pool import Connection, Pool, fetched_as
from email_assistant.db.statements import statements
from email_assistant.inbox.standing import EXPIRY
from email_assistant.mail.phrases import subject_of_conversation
from email_assistant.sync.fetch import RID_OF

if TYPE_CHECKING:
    from email_assistant.work.conversations import Conversations

T = TypeVar("T")
_MOST: Final = 3
_LIKE: Final = 0.5
"""The share of the words of two subjects that both must have, where somebody else wrote."""
_WORD: Final = re.compile(r"[^\W\d_]+")
_SQL = statements("work", "outcomes.sql", held=HELD)


class Coalesced(Generic[T]):
    """Each gets what was begun after they asked, so nobody misses what was there by then."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._begun = 0
        self._ended: tuple[int, T] | None = None

    async def get(self, do: Callable[[], Awaitable[T]]) -> T:
        before = self._begun
        async with self._turn:
            if self._ended and self._ended[0] > before:
                return self._ended[1]
            self._begun += 1
            self._ended = (self._begun, await do())
            return self._ended[1]


@dataclass(frozen=True, slots=True)
class _Decided:
    sender: str
    subject: str
    truth: Classification


def recorded(thread_id: UUID, mail_id: str, thought: Thought | None) -> RowChange:
    """Goes along with the mail's class: one is never kept without the other. A repeat changes nothing."""
    t = thought
    told = (t.outcome, t.confidence, t.version, t.decides, t.checked) if t else (None, None, None, False, False)
    return RowChange(_SQL["record"], (*told, thread_id, mail_id))


async def corrected(conn: Connection, account_id: UUID, mail_id: str, truth: str) -> None:
    """The person has said what a mail is, which counts at once and above all else."""
    given = {"account": account_id, "mail": mail_id, "truth": truth}
    await conn.execute(_SQL["corrected"].encode(), given)


class Outcomes:
    """Implements `agents.mail.run.KnownOutcomes`."""

    def __init__(self, pool: Pool, conversations: "Conversations") -> None:
        self._pool = pool
        self._conversations = conversations
        self._looks: defaultdict[UUID, Coalesced[None]] = defaultdict(Coalesced)

    async def note_known(self, account_id: UUID) -> None:
        """Note what has become known of an account's mails."""
        await self._looks[account_id].get(lambda: self._note_known(account_id))

    async def _note_known(self, account_id: UUID) -> None:
        given = {"account": account_id, "name": str(account_id), "rid_of": list(RID_OF), "expiry": EXPIRY}
        async with self._pool.connection() as conn:
            await conn.execute(_SQL["note_known"].encode(), given)

    async def decided_alike(self, run: Mapping[str, Any], lease: Lease) -> Sequence[Precedent]:
        """A few of the person's decisions, those on mail most like the run's first."""
        conversation = self._conversations.under(lease)
        mail = await self._conversations.letter(conversation, run["mail"])
        sender = mail.sender.email.lower() if mail.sender else ""
        return await precedents(self._pool, conversation.account.id, run["mail"], sender, mail.subject)


async def precedents(
    pool: Pool, account_id: UUID, mail_id: str, sender: str, subject: str, *, known_by: datetime | None = None
) -> Sequence[Precedent]:
    """A few decisions on other mail, those most like this one first. `known_by`: nothing later is looked at."""
    words = _words(subject)
    given = {"account": account_id, "mail": mail_id, "by": known_by}
    decided = await fetched_as(_Decided, pool, _SQL["decided"], given)
    like = [(each.sender == sender, _shared(words, _words(each.subject)), each) for each in decided]
    near = [each for each in like if each[0] or each[1] >= _LIKE]
    near.sort(key=lambda each: each[:2], reverse=True)
    return [Precedent(each.truth, each.subject, same) for same, _, each in near[:_MOST]]


def _words(subject: str) -> frozenset[str]:
    return frozenset(_WORD.findall(subject_of_conversation(subject)))


def _shared(some: Collection[str], others: frozenset[str]) -> float:
    return len(others.intersection(some)) / len(others.union(some)) if others and some else 0.0
