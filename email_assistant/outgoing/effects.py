"""The ledger of outside effects: each happens exactly once where the other side can be asked, at most once otherwise.

| state   | who sets it                               | what comes next                                               |
|---------|-------------------------------------------|---------------------------------------------------------------|
| planned | `plan`, `plan_keyed`, `put_back`, `again` | `start`, just before the call outside                         |
| started | `start`                                   | the outcome; where nobody knows it, the other side is asked   |
| done    | `finish`                                  | nothing                                                       |
| failed  | `fail`, `leave`                           | nothing; after `fail` of what a person approved: `refuse`     |
| refused | `refuse`                                  | the person is asked: `again` or `leave`                       |
| unknown | `not_found`, `lose`                       | likewise, unless it is found after all                        |

Only starts are fenced by the lease: a result that comes late is still a result. All SQL on `effects` stands here.
"""

import asyncio
import hashlib
import json
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import nullcontext
from datetime import datetime, timedelta
from typing import Any, Final, NoReturn, TypeVar
from uuid import UUID

from psycopg.types.json import Json

from email_assistant.db.lease import HELD, Lease, LeaseLost
from email_assistant.db.order import lock_account
from email_assistant.db.pool import Connection, Pool, fetched, fetched_as
from email_assistant.google.errors import RateLimited
from email_assistant.mail.address import address_of
from email_assistant.meters import meters
from email_assistant.outgoing.entry import (
    WITHOUT_TEXT,
    Declined,
    Effect,
    EffectMismatch,
    Entry,
    InDoubt,
    NotYetClear,
    State,
)

log = logging.getLogger(__name__)

T = TypeVar("T")
Expect = Callable[[Connection], Awaitable[None]]

_LOOKS: Final = 4  # times that Google is asked, on later and later tries, before an effect is called unknown
_LATE: Final = timedelta(hours=2)  # so long after a letter was sent, a draft of it is looked for that nobody answered
_RATE_LIMITED_FOR: Final = timedelta(hours=1)  # the longest; then a person is asked

_ENTRY = """account_id, key, tool, state, draft_id, orphans, external_id, result, looks, started_at, mark,
            gmail_thread, sent_thread, lost_draft"""
_EFFECT = f"""{_ENTRY}, run_id, call_id, thread_id, args, place, left_as, (
                  select over.at from threads t,
                         (select last_started_at + make_interval(secs => %s) as at) as over
                  where t.id = effects.thread_id and effects.epoch <= t.cut_short and over.at > clock_timestamp()
              ) as busy_until"""
_PLAN = f"""
insert into effects (key, run_id, call_id, user_id, account_id, thread_id, tool, args, args_hash, recipient, place)
select id || '/' || %s, id, %s, user_id, account_id, thread_id, %s, %s, %s, %s, %s from runs where id = %s
on conflict (account_id, key) do update set place = excluded.place
where effects.state = 'planned' and effects.args_hash = excluded.args_hash returning {_EFFECT}"""
_START = """
update effects set state = 'started', epoch = now.epoch, gmail_thread = coalesce(now.thread, gmail_thread),
       mark = coalesce(now.mark, effects.mark),
       started_at = coalesce(started_at, clock_timestamp()), last_started_at = clock_timestamp()
from (values (%s::bigint, %s::text, %s::text)) as now (epoch, thread, mark)
where account_id = %s and key = %s and state in ('planned', 'started')"""
_MAY_ACT = "(select a.state = 'active' from accounts a where a.id = effects.account_id for share)"
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
        self,
        run_id: UUID,
        call_id: str,
        tool: str,
        args: Mapping[str, Any],
        recipient: str | None,
        place: str | None,
    ) -> Effect:
        """The row of this call, made if there is none.

        Args:
            place: where it is to be done; None: nothing can be said of that.

        Raises:
            EffectMismatch: the id already stands for another action.
            NotYetClear: as `expect_over`.
            InDoubt: it was begun in another place, which nobody asks any more.
        """
        digest = _digest([tool, args])
        given = (call_id, call_id, tool, Json(dict(args)), digest, recipient, place, run_id, self._deadline)
        found = await fetched_as(Effect, self._pool, _PLAN, given)
        found = found or await self._effects("run_id = %s and call_id = %s and args_hash = %s", run_id, call_id, digest)
        if not found:
            raise EffectMismatch(f"{run_id}/{call_id} already stands for another action")
        self.expect_over(found[0])
        await self.expect_here(found[0], place)
        return found[0]

    async def expect_here(self, effect: Effect, place: str | None) -> None:
        """What was begun in one place is not taken up in another, where nobody knows of it. Raises InDoubt."""
        if effect.state == "started" and effect.place is not None and effect.place != place:
            await self.lose(effect)

    async def plan_keyed(self, account_id: UUID, key: str, tool: str, asked: Mapping[str, Any]) -> Entry:
        """The row of this key, made if there is none.

        Args:
            asked: what it stands for; only its hash is kept.

        Raises:
            EffectMismatch: the key already stands for another action.
        """
        digest = _digest(asked)
        async with self._pool.connection() as conn:
            await conn.execute(
                """insert into effects (account_id, key, user_id, tool, args_hash)
                   select id, %s, user_id, %s, %s from accounts where id = %s on conflict do nothing""",
                (key, tool, digest, account_id),
            )
        found = await self._entries("account_id = %s and key = %s and args_hash = %s", account_id, key, digest)
        if not found:
            raise EffectMismatch(f"{account_id}/{key} already stands for another action")
        return found[0]

    def expect_over(self, effect: Effect) -> None:
        """Raises NotYetClear: a worker that is gone may still have its write under way. Until that is over, nothing is
        done or asked about the effect."""
        if effect.state == "started" and effect.busy_until:
            raise NotYetClear("it was under way when the program ended; looking in a moment", effect.busy_until)

    async def now(self, entry: Entry) -> Entry:
        """As it is by now."""
        [found] = await self._entries("account_id = %s and key = %s", entry.account_id, entry.key)
        return found

    async def has_happened(self, run_id: UUID) -> bool:
        """Whether anything of this run has, or may have."""
        return bool(await self._effects("run_id = %s and state in ('started', 'done', 'unknown')", run_id))

    async def in_thread(self, thread_id: UUID, state: State) -> list[Effect]:
        """Those of a conversation that are in a state, in order."""
        return await self._effects("thread_id = %s and state = %s order by finished_at, started_at", thread_id, state)

    async def hanging_in(self, run_id: UUID) -> list[Effect]:
        """Those that a person must say something about before the run can go on."""
        return await self._effects("run_id = %s and state in ('refused', 'unknown') order by call_id", run_id)

    async def of_run(self, run_id: UUID) -> list[Effect]:
        return await self._effects("run_id = %s", run_id)

    async def of_mail(self, run_id: UUID) -> list[Effect]:
        """Of all runs of a run's mail."""
        same = "select r.id from runs r join runs this on this.account_id = r.account_id and this.mail_id = r.mail_id"
        return await self._effects(f"run_id in ({same} where this.id = %s)", run_id)

    async def done_of(self, run_ids: Sequence[UUID]) -> list[Effect]:
        """What has happened in these runs, in order."""
        return await self._effects("run_id = any(%s) and state = 'done' order by finished_at", list(run_ids))

    async def done_since_told(self, run_id: UUID) -> list[Effect]:
        """What has happened in a run since the person last said something in it."""
        told = "select from inbox_items i where i.run_id = effects.run_id and i.decision->>'type' = 'response'"
        since = f"not exists ({told} and i.applied_at > effects.finished_at)"
        return await self._effects(f"run_id = %s and state = 'done' and {since}", run_id)

    async def drafts_in(self, thread_id: UUID) -> list[str]:
        """Google's ids of drafts that we stored in this conversation and that may still be there."""
        where = f"(thread_id = %s or {_INTO}) and draft_id is not null and state <> 'done'"
        return [str(entry.draft_id) for entry in await self._entries(where, thread_id, thread_id)]

    async def own_ids(self, thread_id: UUID) -> set[str]:
        """Google's ids of what was done in this conversation by its own runs, and by those that sent its letters again:
        no other conversation by mail sends into it."""
        mail = "exists (select from threads t where t.id = effects.thread_id and t.gmail_id is not null)"
        done = await self._effects(f"state = 'done' and (thread_id = %s or {_INTO} and {mail})", thread_id, thread_id)
        return {e.external_id for e in done if e.external_id}

    async def sent_from_chats(self, thread_id: UUID) -> set[str]:
        """Google's ids of what the person had us send into this conversation when they talked to us."""
        sent = await self._effects(f"{_INTO} and thread_id <> %s and state = 'done'", thread_id, thread_id)
        return {str(effect.external_id) for effect in sent}

    async def is_sent_into(self, thread_id: UUID) -> bool:
        """Whether a mail from a chat is under way into this conversation: a draft in it may be of our own making."""
        return bool(await self._effects(f"{_INTO} and thread_id <> %s and state = 'started'", thread_id, thread_id))

    async def kept_drafts(self, account_id: UUID) -> set[str]:
        """Google's ids of drafts that are some effect's own."""
        entries = await self._entries("account_id = %s and draft_id is not null and state <> 'done'", account_id)
        return {str(entry.draft_id) for entry in entries}

    async def claimed(self, account_id: UUID, external_ids: Sequence[str]) -> set[str]:
        """Those of Google's ids that are known as what some effect came to."""
        entries = await self._entries("account_id = %s and external_id = any(%s)", account_id, list(external_ids))
        return {str(entry.external_id) for entry in entries}

    async def replies_since(self, account_id: UUID, recipient: str, since: datetime) -> int:
        sent = "account_id = %s and recipient = %s and state = 'done' and finished_at >= %s"
        return len(await self._entries(sent, account_id, recipient, since))

    async def start(
        self,
        entry: Entry,
        lease: Lease | None = None,
        *,
        mark: str | None = None,
        into: str | None = None,
        expect: Expect | None = None,
    ) -> None:
        """Mark it started, immediately before the outside call.

        Args:
            lease: that of its conversation; None: it has none.
            mark: of a letter, what it is recognised by.
            into: Gmail's id of the thread that it goes into.
            expect: raises if it may not; nothing else of the account is started meanwhile.

        Raises:
            LeaseLost: this worker may not, or there is too little time left.
        """
        values = (lease and lease.epoch, into, mark, entry.account_id, entry.key)
        async with self._pool.connection() as conn, conn.transaction() if expect else nullcontext():
            if expect:
                await lock_account(conn, entry.account_id, "no key update")
                await expect(conn)
            if lease:
                guarded = f"{_START} and {HELD} returning key"
                started = bool(await lease.guarded(conn, guarded, *values, margin=self._deadline, account_active=True))
            else:
                started = (await conn.execute(f"{_START} and {_MAY_ACT}".encode(), values)).rowcount == 1
        if not started:
            raise LeaseLost(f"{entry.key} was settled by another worker, or its account is paused")

    async def keep_draft(self, entry: Entry, draft_id: str, lease: Lease | None) -> bool:
        """Store the draft that may be sent; False if another worker has taken over, disowned it or stored one."""
        given = """draft_id is null and state = 'started' and epoch is not distinct from %(epoch)s
                   and not %(draft)s = any(orphans)"""
        return await self._change(entry, "draft_id = %(draft)s", given, draft=draft_id, epoch=lease and lease.epoch)

    async def disown_draft(self, entry: Entry, draft_id: str) -> bool:
        """Mark a draft as never to be sent, so that it can be deleted; False if it is the stored one."""
        adds, given = "orphans = array_append(orphans, %(draft)s)", "draft_id is distinct from %(draft)s"
        return await self._change(entry, adds, given, draft=draft_id)

    async def finish(self, entry: Entry, external_id: str, result: str, *, into: str | None = None) -> str:
        """It happened. Returns the result that is stored, the first one if two workers report.

        Args:
            into: Gmail's id of the thread that a letter stands in.
        """
        return await self._settle(entry, "done", result, external_id, into)

    async def fail(self, entry: Entry, why: str) -> str:
        """It did not happen, and nobody tries it again by themselves: the other side said no, or it was called off. A
        draft of it may still be at Gmail."""
        return await self._settle(entry, "failed", why)

    async def not_found(self, entry: Entry, instead: str | None = None) -> NoReturn:
        """The other side was asked and it is not there, though it may have been done; `instead`: what the person sent.

        Raises:
            NotYetClear: look again later.
            InDoubt: looked often enough.
        """
        seen = "looks = looks + 1, state = case when looks + 1 >= %(looks)s then 'unknown' else state end"
        change = f"{seen}, result = %(instead)s"
        is_counted = await self._change(entry, change, "state = 'started'", looks=_LOOKS, instead=instead)
        if is_counted and (await self.now(entry)).state == "unknown":
            _came_to(entry.tool, "unknown")
            raise InDoubt(entry.key)
        raise NotYetClear("it is not clear yet whether it was done; looking again")

    async def put_back(self, entry: Entry) -> None:
        """It was started and surely did not happen, and no draft of it is there; it may be started again."""
        change = "state = 'planned', started_at = null, draft_id = null, mark = null"
        given = "state = 'started' and draft_id is not distinct from %(draft)s"
        await self._change(entry, change, given, draft=entry.draft_id)

    async def lose(self, entry: Entry) -> NoReturn:
        """Nobody can be asked whether it happened. Raises InDoubt, always."""
        if await self._change(entry, "state = 'unknown'", "state = 'started'"):
            _came_to(entry.tool, "unknown")
        raise InDoubt(entry.key)

    async def refuse(
        self, run_id: UUID, call_id: str, tool: str, args: Mapping[str, Any], why: str, place: str
    ) -> None:
        """What a person decided can't be done, or not as they were asked; without effect where it was begun, or they
        have said already to leave it.

        Args:
            place: where it would be done if they said so again.

        Raises:
            Declined: they are to be asked again.
        """
        effect = await self.plan(run_id, call_id, tool, args, None, place)
        given = "state in ('planned', 'failed') and left_as is null"
        change = "state = 'refused', result = %(why)s, place = %(place)s"
        if await self._change(effect, change, given, why=why, place=place):
            _came_to(tool, "refused")
            raise Declined(call_id)

    async def rate_limited(self, entry: Entry, limited: RateLimited) -> None:
        """Nothing happened, for a limit of the other side's; return once that has been so for an hour.

        Raises:
            RateLimited: come back later, and no later than when the hour is over.
        """
        await self._change(entry, "limited_since = coalesce(limited_since, clock_timestamp())")
        query = """select limited_since + %s as ends from effects where account_id = %s and key = %s
                   and limited_since + %s > clock_timestamp()"""
        given = (_RATE_LIMITED_FOR, entry.account_id, entry.key, _RATE_LIMITED_FOR)
        if rows := await fetched(self._pool, query, given):
            raise RateLimited(str(limited), limited.until and min(limited.until, rows[0]["ends"])) from limited

    async def keep_words(self, entry: Entry, text: str) -> None:
        """Keep what the person wrote into its draft at Gmail, in whose place it is sent as it was made."""
        await self._change(entry, "overwritten = %(text)s", text=text)

    async def lose_draft(self, entry: Entry, mark: str) -> None:
        """A draft of it may be at Gmail, or come to be there, that is stored nowhere."""
        await self._change(entry, "lost_draft = %(mark)s", mark=mark)

    async def lost_drafts(self) -> list[Entry]:
        """Letters that were sent of late, or refused, and of which a draft may be there that is not to be sent."""
        over = "state in ('done', 'failed', 'refused')"
        return await self._entries(f"{over} and lost_draft is not null and finished_at > clock_timestamp() - %s", _LATE)

    async def again(self, conn: Connection, run_id: UUID, call_id: str, args: Mapping[str, Any]) -> None:
        """Carry out a person's word on a refused or unknown effect: do it, from the start. A look may have found
        meanwhile that it has failed.

        Args:
            args: its arguments as they were shown, or as the person changed them.
        """
        cursor = await conn.execute(
            """update effects set state = 'planned', looks = 0, draft_id = null, mark = null, result = null,
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
                (Json(dict(args)), _digest([row["tool"], args]), to, run_id, call_id),
            )

    async def leave(self, conn: Connection, run_id: UUID, call_id: str) -> None:
        """Carry out a person's word on a refused or unknown effect: leave it."""
        await conn.execute(
            """update effects set state = 'failed', left_as = case state when 'unknown' then state else 'refused' end,
                      result = case state when 'unknown' then %s else result end
               where run_id = %s and call_id = %s and state in ('refused', 'unknown', 'failed')""",
            ("It is unknown whether this was done; the person said to leave it.", run_id, call_id),
        )

    @staticmethod
    async def redact_text(conn: Connection, thread_ids: Sequence[UUID]) -> None:
        """Take out what the effects of these conversations say; that they happened, and to whom, stays."""
        await conn.execute(
            """update effects set args = without_text(args, %s), result = case when state <> 'done' then result end,
                      overwritten = null
               where thread_id = any(%s) and state <> 'started'""",
            (WITHOUT_TEXT, list(thread_ids)),
        )

    @staticmethod
    async def forget_words(conn: Connection, user_id: UUID, named: str) -> None:
        """Of letters under a key, forget the words that the person wrote into them, where they match a pattern."""
        of_key = "user_id = %s and thread_id is null and overwritten ~* %s"
        await conn.execute(f"update effects set overwritten = null where {of_key}".encode(), (user_id, named))

    async def _settle(
        self, entry: Entry, state: State, result: str, external_id: str | None = None, into: str | None = None
    ) -> str:
        settled = await self._change(
            entry,
            """state = %(state)s, result = %(result)s, external_id = %(external_id)s, sent_thread = %(into)s,
               finished_at = clock_timestamp(),
               lost_draft = case when %(state)s = 'failed' and draft_id is not null then mark else lost_draft end""",
            "state in ('planned', 'started', 'unknown')",
            state=state,
            result=result,
            external_id=external_id,
            into=into,
        )
        if settled:
            _came_to(entry.tool, state)
        return result if settled else (await self.now(entry)).result or result

    async def _change(self, entry: Entry, change: str, given: str = "true", **values: object) -> bool:
        """Change its row, if that is still as given."""
        query = f"update effects set {change} where account_id = %(account)s and key = %(key)s and {given}"
        async with self._pool.connection() as conn:
            cursor = await conn.execute(query.encode(), {**values, "account": entry.account_id, "key": entry.key})
        return cursor.rowcount == 1

    async def _entries(self, where: str, *parameters: object) -> list[Entry]:
        return await fetched_as(Entry, self._pool, f"select {_ENTRY} from effects where {where}", parameters)

    async def _effects(self, where: str, *parameters: object) -> list[Effect]:
        """Those of runs' calls."""
        given = (self._deadline, *parameters)
        return await fetched_as(Effect, self._pool, f"select {_EFFECT} from effects where {where}", given)


def _came_to(tool: str, outcome: State) -> None:
    log.info("%s: %s", tool, outcome)
    meters().effects.labels(tool, outcome).inc()


def _digest(asked: object) -> str:
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()
