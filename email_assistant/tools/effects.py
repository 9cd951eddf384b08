"""The ledger of outside effects: each happens exactly once where the other side can be asked, at most once otherwise.

A row is `planned → started → done | failed | refused | unknown`. About what a person decided and the other side
refused, or of which nobody can tell whether it happened, they are asked again: their word leads back to `planned`, or
to `failed`.
Only starts are fenced by the lease: a result that comes late is still a result. All SQL on `effects` stands here.
"""

import asyncio
import hashlib
import json
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, Literal, TypeVar
from uuid import UUID

from psycopg.rows import class_row
from psycopg.types.json import Json

from email_assistant.db.lease import Lease, LeaseLost
from email_assistant.db.pool import Connection, Pool
from email_assistant.errors import AssistantError
from email_assistant.google.errors import RateLimited
from email_assistant.mail.address import address_of

State = Literal["planned", "started", "done", "failed", "refused", "unknown"]
T = TypeVar("T")

_LOOKS = 4
"""Times that Google is asked, on later and later tries, before an effect is called unknown."""
_LATE: Final = timedelta(hours=2)
"""So long after a letter was sent is looked for a draft of it whose creation was not answered."""
_LIMIT_BORNE: Final = timedelta(hours=1)
"""So long a limit of the other side's is waited out before a person is asked."""


class EffectMismatch(AssistantError):
    """Another action was asked for under the id of an effect that exists."""


class Declined(AssistantError):
    """The other side refused what a person decided; they are asked about it again."""


class InDoubt(AssistantError):
    """It can't be known whether the effect happened; a person must say what to do."""


class NotYetClear(AssistantError):
    """It can't be known yet whether the effect happened; look again later."""

    passes = "by itself"

    def __init__(self, reason: str, until: datetime | None = None) -> None:
        """
        Args:
            until: a look before that time tells nothing.
        """
        super().__init__(reason)
        self.until = until


@dataclass(frozen=True, slots=True)
class Effect:
    run_id: UUID
    call_id: str
    account_id: UUID
    thread_id: UUID
    tool: str
    args: dict[str, Any]
    state: State
    draft_id: str | None
    orphans: list[str]
    external_id: str | None
    result: str | None
    """What came of it; of a refused one, why it was refused."""
    looks: int
    started_at: datetime | None
    left_as: Literal["refused", "unknown"] | None
    """As what the person said to leave it, when they were asked about it again."""
    gmail_thread: str | None
    """Gmail's id of the thread that a mail goes into."""
    lost_draft: str | None
    """What a draft of it is recognised by whose creation was not answered, and that may come to be later."""
    busy_until: datetime | None
    """A worker that is gone has started it, and its write may be under way until then; None: it is over."""

    @property
    def is_refused(self) -> bool:
        return self.state in ("failed", "refused")


_COLUMNS = """run_id, call_id, account_id, thread_id, tool, args, state, draft_id, orphans, external_id, result, looks,
              started_at, left_as, gmail_thread, lost_draft, (
                  select over.at from threads t,
                         (select last_started_at + make_interval(secs => %s) as at) as over
                  where t.id = effects.thread_id and effects.epoch <= t.cut_short and over.at > clock_timestamp()
              ) as busy_until"""
_INTO = "(account_id, gmail_thread) = (select account_id, gmail_id from threads where id = %s)"


class Ledger:
    """
    Args:
        write_deadline: seconds that one write to Google takes at most; a lease must outlast it for a write to start.
    """

    def __init__(self, pool: Pool, write_deadline: float) -> None:
        self._pool = pool
        self._deadline = write_deadline
        self._under_way: set[asyncio.Task[Any]] = set()

    async def uninterrupted(self, effect: Coroutine[Any, Any, T]) -> T:
        """Run to the end even if the caller is cancelled: a write on the wire can't be called back, so its outcome
        must still be recorded, and a fenced worker's draft deleted."""
        task = asyncio.ensure_future(effect)
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        return await asyncio.shield(task)

    async def drain(self) -> None:
        """Wait for the effects under way; each ends within a few write deadlines."""
        await asyncio.gather(*self._under_way, return_exceptions=True)

    async def plan(
        self, run_id: UUID, call_id: str, tool: str, args: Mapping[str, Any], recipient: str | None
    ) -> Effect:
        """The row of this call, made if there is none.

        Raises:
            EffectMismatch: the id already stands for another action.
            NotYetClear: as `expect_over`.
        """
        digest = _digest(tool, args)
        async with self._pool.connection() as conn, conn.transaction():
            await conn.execute(
                """insert into effects (run_id, call_id, user_id, account_id, thread_id, tool, args, args_hash,
                                        recipient)
                   select id, %s, user_id, account_id, thread_id, %s, %s, %s, %s from runs where id = %s
                   on conflict do nothing""",
                (call_id, tool, Json(dict(args)), digest, recipient, run_id),
            )
            cursor = await conn.execute(
                "select args_hash from effects where run_id = %s and call_id = %s", (run_id, call_id)
            )
            row = await cursor.fetchone()
        if row is None or row["args_hash"] != digest:
            raise EffectMismatch(f"call {call_id} of run {run_id} already stands for another action")
        effect = await self.get(run_id, call_id)
        self.expect_over(effect)
        return effect

    def expect_over(self, effect: Effect) -> None:
        """Nothing may be done or asked about an effect while a worker that is gone may still have its write under way.

        Raises:
            NotYetClear: it may.
        """
        if effect.state == "started" and effect.busy_until:
            raise NotYetClear("it was under way when the program ended; looking in a moment", effect.busy_until)

    async def get(self, run_id: UUID, call_id: str) -> Effect:
        found = await self._effects("run_id = %s and call_id = %s", run_id, call_id)
        return found[0]

    async def has_happened(self, run_id: UUID) -> bool:
        """Whether anything of this run has, or may have."""
        return bool(await self._effects("run_id = %s and state in ('started', 'done', 'unknown')", run_id))

    async def started_in(self, thread_id: UUID) -> list[Effect]:
        return await self._effects("thread_id = %s and state = 'started'", thread_id)

    async def unknown_in(self, run_id: UUID) -> list[Effect]:
        return await self._effects("run_id = %s and state = 'unknown' order by call_id", run_id)

    async def hanging_in(self, run_id: UUID) -> list[Effect]:
        """Those that a person must say something about before the run can go on."""
        return await self._effects("run_id = %s and state in ('refused', 'unknown') order by call_id", run_id)

    async def of_run(self, run_id: UUID) -> list[Effect]:
        return await self._effects("run_id = %s", run_id)

    async def done_of(self, run_ids: Sequence[UUID]) -> list[Effect]:
        """What has happened in these runs, in order."""
        return await self._effects("run_id = any(%s) and state = 'done' order by finished_at", list(run_ids))

    async def done_in(self, thread_id: UUID) -> list[Effect]:
        return await self._effects("thread_id = %s and state = 'done' order by finished_at", thread_id)

    async def doubtful_in(self, thread_id: UUID) -> list[Effect]:
        return await self._effects("thread_id = %s and state = 'unknown' order by started_at", thread_id)

    async def drafts_in(self, thread_id: UUID) -> list[str]:
        """Google's ids of drafts that we stored in this conversation, from a chat too, and that may still be there."""
        effects = await self._effects(
            f"(thread_id = %s or {_INTO}) and draft_id is not null and state <> 'done'", thread_id, thread_id
        )
        return [str(effect.draft_id) for effect in effects]

    async def own_ids(self, thread_id: UUID) -> set[str]:
        """Google's ids of what was done in this conversation by its own runs."""
        return {e.external_id for e in await self.done_in(thread_id) if e.external_id}

    async def sent_from_chats(self, thread_id: UUID) -> set[str]:
        """Google's ids of what the person had us send into this conversation when they talked to us."""
        sent = await self._effects(f"{_INTO} and thread_id <> %s and state = 'done'", thread_id, thread_id)
        return {str(effect.external_id) for effect in sent}

    async def is_sent_into(self, thread_id: UUID) -> bool:
        """Whether a mail from a chat is under way into this conversation: a draft in it may be of our own making."""
        return bool(await self._effects(f"{_INTO} and thread_id <> %s and state = 'started'", thread_id, thread_id))

    async def kept_drafts(self, account_id: UUID, draft_ids: Sequence[str]) -> set[str]:
        """Those of the drafts that are stored as some effect's own."""
        effects = await self._effects("account_id = %s and draft_id = any(%s)", account_id, list(draft_ids))
        return {str(effect.draft_id) for effect in effects}

    async def claimed(self, account_id: UUID, external_ids: Sequence[str]) -> set[str]:
        """Those of Google's ids that are known as what some effect came to."""
        effects = await self._effects("account_id = %s and external_id = any(%s)", account_id, list(external_ids))
        return {str(effect.external_id) for effect in effects}

    async def replies_since(self, account_id: UUID, recipient: str, since: datetime) -> int:
        async with self._pool.connection() as conn:
            cursor = await conn.execute(
                """select count(*) as n from effects where account_id = %s and recipient = %s and state = 'done'
                   and finished_at >= %s""",
                (account_id, recipient, since),
            )
            row = await cursor.fetchone()
        return int(row["n"]) if row else 0

    async def start(self, effect: Effect, lease: Lease, *, into: str | None = None) -> None:
        """Mark it started, immediately before the outside call.

        Args:
            into: Gmail's id of the thread that a mail goes into.

        Raises:
            LeaseLost: this worker may not, or there is too little time left.
        """
        async with self._pool.connection() as conn, conn.transaction():
            await lease.check(conn, margin=self._deadline, account_active=True)
            cursor = await conn.execute(
                """update effects set state = 'started', epoch = %s, gmail_thread = coalesce(%s, gmail_thread),
                          started_at = coalesce(started_at, clock_timestamp()), last_started_at = clock_timestamp()
                   where run_id = %s and call_id = %s and state in ('planned', 'started')""",
                (lease.epoch, into, effect.run_id, effect.call_id),
            )
            if cursor.rowcount == 0:
                raise LeaseLost(f"call {effect.call_id} of run {effect.run_id} was settled by another worker")

    async def keep_draft(self, effect: Effect, draft_id: str, lease: Lease) -> bool:
        """Store the draft that may be sent; False if another worker has taken over or disowned it."""
        async with self._pool.connection() as conn:
            cursor = await conn.execute(
                """update effects set draft_id = %s where run_id = %s and call_id = %s and draft_id is null
                   and state = 'started' and epoch = %s and not %s = any(orphans)""",
                (draft_id, effect.run_id, effect.call_id, lease.epoch, draft_id),
            )
        return cursor.rowcount == 1

    async def disown_draft(self, effect: Effect, draft_id: str) -> bool:
        """Mark a draft as never to be sent, so that it can be deleted; False if it is the stored one."""
        async with self._pool.connection() as conn:
            cursor = await conn.execute(
                """update effects set orphans = array_append(orphans, %s) where run_id = %s and call_id = %s
                   and draft_id is distinct from %s""",
                (draft_id, effect.run_id, effect.call_id, draft_id),
            )
        return cursor.rowcount == 1

    async def finish(self, effect: Effect, external_id: str, result: str) -> str:
        """It happened. Returns the result that is stored, the first one if two workers report."""
        return await self._settle(effect, "done", result, external_id)

    async def fail(self, effect: Effect, why: str) -> str:
        """It was refused and did not happen."""
        return await self._settle(effect, "failed", why, None)

    async def not_found(self, effect: Effect) -> None:
        """The other side was asked and it is not there, though it may have been done.

        Raises:
            NotYetClear: look again later.
            InDoubt: looked often enough.
        """
        async with self._pool.connection() as conn:
            cursor = await conn.execute(
                """update effects set looks = looks + 1, state = case when looks + 1 >= %s then 'unknown' else state end
                   where run_id = %s and call_id = %s and state = 'started' returning state""",
                (_LOOKS, effect.run_id, effect.call_id),
            )
            row = await cursor.fetchone()
        if row is not None and row["state"] == "unknown":
            raise InDoubt(effect.call_id)
        raise NotYetClear("it is not clear yet whether it was done; looking again")

    async def put_back(self, effect: Effect) -> None:
        """It was started and surely did not happen; it may be started again."""
        async with self._pool.connection() as conn:
            await conn.execute(
                """update effects set state = 'planned', started_at = null
                   where run_id = %s and call_id = %s and state = 'started'""",
                (effect.run_id, effect.call_id),
            )

    async def lose(self, effect: Effect) -> None:
        """Nobody can be asked whether it happened.

        Raises:
            InDoubt: always.
        """
        async with self._pool.connection() as conn:
            await conn.execute(
                "update effects set state = 'unknown' where run_id = %s and call_id = %s and state = 'started'",
                (effect.run_id, effect.call_id),
            )
        raise InDoubt(effect.call_id)

    async def refuse(self, run_id: UUID, call_id: str, tool: str, args: Mapping[str, Any], why: str) -> None:
        """What a person decided can't be done; without effect where they have said already to leave it.

        Raises:
            Declined: they are to be asked again.
        """
        await self.plan(run_id, call_id, tool, args, None)
        async with self._pool.connection() as conn:
            cursor = await conn.execute(
                """update effects set state = 'refused', result = %s where run_id = %s and call_id = %s
                   and state in ('planned', 'failed') and left_as is null""",
                (why, run_id, call_id),
            )
        if cursor.rowcount == 1:
            raise Declined(call_id)

    async def bear(self, effect: Effect, limited: RateLimited) -> None:
        """Nothing happened, for a limit of the other side's; return once that has been so for an hour.

        Raises:
            RateLimited: come back later, and no later than when the hour is over.
        """
        async with self._pool.connection() as conn:
            cursor = await conn.execute(
                """update effects set limited_since = coalesce(limited_since, clock_timestamp())
                   where run_id = %s and call_id = %s
                   returning limited_since + %s as ends, limited_since + %s <= clock_timestamp() as ended""",
                (effect.run_id, effect.call_id, _LIMIT_BORNE, _LIMIT_BORNE),
            )
            row = await cursor.fetchone()
        assert row is not None
        if not row["ended"]:
            raise RateLimited(str(limited), limited.until and min(limited.until, row["ends"])) from limited

    async def lose_draft(self, effect: Effect, mark: str) -> None:
        """A draft of it may be at Gmail, or come to be there, that is stored nowhere."""
        async with self._pool.connection() as conn:
            await conn.execute(
                "update effects set lost_draft = %s where run_id = %s and call_id = %s",
                (mark, effect.run_id, effect.call_id),
            )

    async def lost_drafts(self) -> list[Effect]:
        """Letters that were sent of late, and of which another draft may still come to be."""
        late = "state = 'done' and lost_draft is not null and finished_at > clock_timestamp() - %s"
        return await self._effects(late, _LATE)

    async def again(self, conn: Connection, run_id: UUID, call_id: str, args: Mapping[str, Any]) -> None:
        """Carry out a person's word on a refused or unknown effect: do it, from the start. A look may have found
        meanwhile that it has failed.

        Args:
            args: its arguments as they were shown, or as the person changed them.
        """
        cursor = await conn.execute(
            """update effects set state = 'planned', looks = 0, draft_id = null, result = null,
                      started_at = null, limited_since = null,
                      orphans = case when draft_id is null then orphans else array_append(orphans, draft_id) end
               where run_id = %s and call_id = %s and state in ('refused', 'unknown', 'failed') returning tool""",
            (run_id, call_id),
        )
        row = await cursor.fetchone()
        if row is not None:
            to = address_of(str(args.get("email_address") or ""))
            await conn.execute(
                """update effects set args = %s, args_hash = %s,
                          recipient = case when recipient is not null then %s end
                   where run_id = %s and call_id = %s""",
                (Json(dict(args)), _digest(row["tool"], args), to, run_id, call_id),
            )

    async def leave(self, conn: Connection, run_id: UUID, call_id: str) -> None:
        """Carry out a person's word on a refused or unknown effect: leave it."""
        await conn.execute(
            """update effects set state = 'failed', left_as = case state when 'unknown' then state else 'refused' end,
                      result = case state when 'unknown' then %s else result end
               where run_id = %s and call_id = %s and state in ('refused', 'unknown', 'failed')""",
            ("It is unknown whether this was done; the person said to leave it.", run_id, call_id),
        )

    async def _settle(self, effect: Effect, state: State, result: str, external_id: str | None) -> str:
        async with self._pool.connection() as conn:
            await conn.execute(
                """update effects set state = %s, result = %s, external_id = %s, finished_at = clock_timestamp()
                   where run_id = %s and call_id = %s and state in ('planned', 'started', 'unknown')""",
                (state, result, external_id, effect.run_id, effect.call_id),
            )
        return (await self.get(effect.run_id, effect.call_id)).result or result

    async def _effects(self, where: str, *parameters: object) -> list[Effect]:
        async with self._pool.connection() as conn, conn.cursor(row_factory=class_row(Effect)) as cursor:
            await cursor.execute(
                f"select {_COLUMNS} from effects where {where}".encode(), (self._deadline, *parameters)
            )
            return await cursor.fetchall()


def _digest(tool: str, args: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps([tool, args], sort_keys=True).encode()).hexdigest()
