"""What the stage that learned from the person thought of mail, what was right, and so what it may decide by itself."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import astuple, dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar
from uuid import UUID

from email_assistant.agents.mail.run import Thought
from email_assistant.db.lease import HELD, RowChange
from email_assistant.db.pool import Connection, Pool, fetched, fetched_as
from email_assistant.db.statements import statements
from email_assistant.db.values import time_in_json
from email_assistant.inbox.standing import EXPIRY
from email_assistant.sync.news import RID_OF
from email_assistant.triage.cascade import Judgement, prove, take
from email_assistant.triage.foretold import Foretold
from email_assistant.triage.learned import Truth
from email_assistant.triage.proof import Proof

T = TypeVar("T")


class OneForAll(Generic[T]):
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


_TEACHES = "{0}.known_by <> 'silence' or {0}.checked or not {0}.decided"
"""What may be learned from: not what was decided with nobody else asked, and let stand."""
_SQL = statements("work", "judgements.sql", held=HELD, teaches=_TEACHES.format("j"), taught_before=_TEACHES.format("o"))


@dataclass(frozen=True, slots=True)
class Version:
    """A classifier that was tried: what it learned is all that was known at a time."""

    version: datetime
    examples: int  # that were known when it was tried
    kept: bool


@dataclass(frozen=True, slots=True)
class _Standing:
    known: int
    past: int


@dataclass(frozen=True, slots=True)
class _Settled:
    """A mail that was to be judged, once it is known what was right."""

    mail_id: str
    thought: str | None
    confidence: float | None
    truth: str
    decided: bool
    checked: bool
    known_at: datetime
    is_past: bool  # it is among those of the past, which were kept before anything was thought of live mail

    @property
    def case(self) -> Judgement | None:
        if self.thought is None or self.confidence is None or self.is_past:
            return None
        return Judgement(self.thought, self.confidence, self.truth, self.decided, self.checked)


@dataclass(slots=True)
class _Proving:
    """What the judgements up to one of them prove."""

    past: int
    proof: Proof
    known: int = 0
    upto: tuple[datetime | str, str] = ("-infinity", "")  # when it became known what was right, and the mail's id

    def take(self, rows: Sequence[_Settled]) -> None:
        for row in rows:
            if case := row.case:
                take(self.proof, case)
        self.known += len(rows)
        if rows:
            self.upto = rows[-1].known_at, rows[-1].mail_id


def recorded(thread_id: UUID, mail_id: str, thought: Thought | None) -> RowChange:
    """Goes along with the mail's class: one is never kept without the other. A repeat changes nothing."""
    t = thought
    told = (t.outcome, t.confidence, t.version, t.decides, t.checked) if t else (None, None, None, False, False)
    return RowChange(_SQL["record"], (*told, thread_id, mail_id))


async def corrected(conn: Connection, account_id: UUID, mail_id: str, truth: str) -> None:
    """The person has said what a mail is, which counts at once and above all else."""
    given = {"account": account_id, "mail": mail_id, "truth": truth}
    await conn.execute(_SQL["corrected"].encode(), given)


async def let_go(conn: Connection, account_id: UUID, thread_ids: Sequence[UUID]) -> None:
    """What these conversations have taught is about to be deleted."""
    await conn.execute(_SQL["let_go"].encode(), {"account": account_id, "threads": list(thread_ids)})


class Judgements:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._settled: defaultdict[UUID, OneForAll[tuple[list[Version], int]]] = defaultdict(OneForAll)
        self._proofs: dict[UUID, _Proving] = {}
        # One at a time, so that no case counts twice.
        self._proven: defaultdict[UUID, OneForAll[Proof]] = defaultdict(OneForAll)

    async def settle(self, account_id: UUID) -> tuple[list[Version], int]:
        """Note what has become known of an account's mails.

        Returns:
            The classifiers that were tried, and how much there is to learn from.
        """
        return await self._settled[account_id].get(lambda: self._settle(account_id))

    async def _settle(self, account_id: UUID) -> tuple[list[Version], int]:
        given = {"account": account_id, "name": str(account_id), "rid_of": list(RID_OF), "expiry": EXPIRY}
        [row] = await fetched(self._pool, _SQL["settle"], given)
        versions = [Version(time_in_json(each["version"]), each["examples"], each["kept"]) for each in row["versions"]]
        return versions, int(row["known"])

    async def proof(self, account_id: UUID) -> Proof:
        """What an account's judgements prove now. It is gone on from what those before proved: of years of them, most
        are looked at again only where one of them has changed."""
        return await self._proven[account_id].get(lambda: self._proof(account_id))

    async def _proof(self, account_id: UUID) -> Proof:
        [standing] = await fetched_as(_Standing, self._pool, _SQL["standing"], {"account": account_id})
        found = self._proofs.get(account_id)
        if found is None or found.past != standing.past or not await self._goes_on(account_id, found, standing):
            found = self._proofs[account_id] = await self._prove(account_id)
        return found.proof

    async def _goes_on(self, account_id: UUID, found: _Proving, standing: _Standing) -> bool:
        """Whether all that is known besides lies after what was; then it is taken."""
        rows = await self._since(account_id, found)
        if found.known + len(rows) != standing.known:
            return False
        await asyncio.to_thread(found.take, rows)
        return True

    async def _prove(self, account_id: UUID) -> _Proving:
        past = await fetched_as(Judgement, self._pool, _SQL["past"], {"account": account_id})
        found = _Proving(len(past), await asyncio.to_thread(prove, past))
        await asyncio.to_thread(found.take, await self._since(account_id, found))
        return found

    async def _since(self, account_id: UUID, found: _Proving) -> list[_Settled]:
        at, mail = found.upto
        return await fetched_as(_Settled, self._pool, _SQL["since"], {"account": account_id, "at": at, "mail": mail})

    async def foretold(self, account_id: UUID, past: Sequence[Foretold]) -> None:
        """Keep what would have been thought of the past; what is kept of a mail already stays."""
        columns = [list(each) for each in zip(*map(astuple, past), strict=True)]
        if columns:
            async with self._pool.connection() as conn:
                await conn.execute(_SQL["foretold"].encode(), (*columns, account_id))

    async def taught(self, account_id: UUID) -> list[Truth]:
        """What may be learned from, in the order in which it became known."""
        return await fetched_as(Truth, self._pool, _SQL["taught"], (account_id,))

    async def tried(self, account_id: UUID, version: Version, why: str) -> None:
        """Note how a version did beside the one before; what another process has noted of it stays."""
        given: Mapping[str, Any] = {
            "account": account_id, "version": version.version, "examples": version.examples, "kept": version.kept,
            "why": why,
        }  # fmt: skip
        async with self._pool.connection() as conn:
            await conn.execute(_SQL["tried"].encode(), given)
