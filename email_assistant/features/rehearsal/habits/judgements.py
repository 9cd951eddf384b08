"""What is learned from the outcomes of mail, and what the judgements on it prove, so that they may decide."""

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from email_assistant.db.pool import Connection, Pool, fetched_as
from email_assistant.db.statements import statements
from email_assistant.db.values import time_in_json
from email_assistant.features.rehearsal.habits.learned import Backtested, Truth
from email_assistant.features.rehearsal.habits.proof import Judgement, Proof, prove, take
from email_assistant.work.outcomes import Coalesced

_BEGINNING: Final[tuple[datetime | str, str]] = ("-infinity", "")
_TEACHES = "j.known_by <> 'silence' or j.checked or not j.decided"
"""What may be learned from: not what was decided with nobody else asked, and let stand."""
_SQL = statements("features/rehearsal/habits", "judgements.sql", teaches=_TEACHES)


@dataclass(frozen=True, slots=True)
class Version:
    """A classifier that was tried: what it learned is all that was known at a time."""

    version: datetime
    examples: int  # that were known when it was tried
    kept: bool


@dataclass(frozen=True, slots=True)
class Basis:
    """What an account's mail is judged by."""

    versions: Sequence[Version]
    """The classifiers that were tried, oldest first."""
    examples: int
    """How much there is to learn from."""
    proof: Proof | None
    """What the judgements prove; None where no classifier is gone by."""


@dataclass(frozen=True, slots=True)
class _Standing:
    versions: Sequence[Mapping[str, Any]]
    taught: int  # mails that there is to learn from
    known: int  # mails of which it is known what was right
    later: int  # of those, what became known after all that was looked at before
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
    upto: tuple[datetime | str, str] = _BEGINNING  # when it became known what was right, and the mail's id

    def take(self, rows: Sequence[_Settled]) -> None:
        for row in rows:
            if case := row.case:
                take(self.proof, case)
        self.known += len(rows)
        if rows:
            self.upto = rows[-1].known_at, rows[-1].mail_id


async def drop_outcomes(conn: Connection, account_id: UUID, thread_ids: Sequence[UUID]) -> None:
    """What these conversations have taught is about to be deleted."""
    await conn.execute(_SQL["drop_outcomes"].encode(), {"account": account_id, "threads": list(thread_ids)})


class Judgements:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._proofs: dict[UUID, _Proving] = {}
        # One at a time, so that no case counts twice.
        self._looks: defaultdict[UUID, Coalesced[Basis]] = defaultdict(Coalesced)

    async def basis(self, account_id: UUID) -> Basis:
        """By all that is known now. A proof goes on from what the judgements before proved: of years of them, most are
        looked at again only where one of them has changed."""
        return await self._looks[account_id].get(lambda: self._look(account_id))

    async def _look(self, account_id: UUID) -> Basis:
        found = self._proofs.get(account_id)
        at, mail = found.upto if found else _BEGINNING
        [now] = await fetched_as(
            _Standing, self._pool, _SQL["standing"], {"account": account_id, "at": at, "mail": mail}
        )
        versions = [Version(time_in_json(each["version"]), each["examples"], each["kept"]) for each in now.versions]
        proof = await self._proof(account_id, found, now) if any(each.kept for each in versions) else None
        return Basis(versions, now.taught, proof)

    async def _proof(self, account_id: UUID, found: _Proving | None, now: _Standing) -> Proof:
        if found is None or found.past != now.past or not await self._goes_on(account_id, found, now):
            past = await fetched_as(Judgement, self._pool, _SQL["past"], {"account": account_id})
            found = self._proofs[account_id] = _Proving(len(past), await asyncio.to_thread(prove, past))
            await asyncio.to_thread(found.take, await self._since(account_id, found))
        return found.proof

    async def _goes_on(self, account_id: UUID, found: _Proving, now: _Standing) -> bool:
        """Whether all that is known besides lies after what was; then it is taken."""
        rows = await self._since(account_id, found) if now.later else []
        if found.known + len(rows) != now.known:
            return False
        await asyncio.to_thread(found.take, rows)
        return True

    async def _since(self, account_id: UUID, found: _Proving) -> list[_Settled]:
        at, mail = found.upto
        return await fetched_as(_Settled, self._pool, _SQL["since"], {"account": account_id, "at": at, "mail": mail})

    async def keep_backtest(self, account_id: UUID, past: Sequence[Backtested]) -> None:
        """Keep what would have been thought of the past; what is kept of a mail already stays."""
        columns = [list(each) for each in zip(*map(astuple, past), strict=True)]
        if columns:
            async with self._pool.connection() as conn:
                await conn.execute(_SQL["backtest"].encode(), (*columns, account_id))

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
