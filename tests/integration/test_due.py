"""What is due, against a plain query that reads all tables whole, on tables filled by chance."""

import random
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
import pytest_asyncio
from psycopg.types.json import Json

from email_assistant.db.pool import Pool, make_pool
from email_assistant.db.presence import Holder
from email_assistant.work.due import DueWork

DEAD, ALIVE = 1, 2
_PROVIDER = "google"

_LABEL_WORK = """
select m.thread_id, m.account_id from mails m join accounts a on a.id = m.account_id
where a.state = 'active' and a.mode <> 'shadow' and m.labelled is null and m.classification is not null
  and m.triaged_at > clock_timestamp() - interval '7 days'
union all
select m.thread_id, m.account_id from mails m join accounts a on a.id = m.account_id
where a.state = 'active' and a.mode <> 'shadow' and m.relabelled is not null
  and m.state in ('waiting', 'done', 'failed')
  and not exists (select from runs r where r.thread_id = m.thread_id and r.state in ('running', 'acting'))
  and not exists (select from inbox_items i where i.run_id = m.run_id and i.status = 'decided')"""
_DUE = f"""
with work (thread_id, kind) as (
    select thread_id, case when own then 'person' else 'mail' end from mails where state = 'new'
    union select m.thread_id, 'mail' from mails m left join runs r on r.id = m.run_id
          where m.state = 'triaging' and (r.id is null or r.state not in ('running', 'waiting', 'acting'))
    union select m.thread_id, 'person' from mails m join runs r on r.id = m.run_id and r.mail_id = m.gmail_id
          where m.state = 'waiting' and m.put_away is not null and r.state = 'waiting'
          and not exists (select from inbox_items i where i.run_id = r.id and i.status = 'decided')
    union select t.id, 'person' from threads t where t.drafted is not null
          and not exists (select from runs r where r.thread_id = t.id and r.state = 'running')
    union select r.thread_id, 'person' from runs r join mails m on m.account_id = r.account_id
          and m.gmail_id = r.closed_with where r.closed_with is not null and m.put_away is null
    union select thread_id, 'person' from left_drafts where state in ('wanted', 'started')
    union select d.thread_id, 'person' from left_drafts d where d.state in ('left', 'ending') and not exists (
          select from inbox_items i where i.run_id = d.run_id and i.call_id = d.call_id
          and i.status in ('pending', 'decided'))
    union select thread_id, 'mail' from runs where state = 'running'
    union select thread_id, 'decided' from runs where state = 'acting'
    union select d.thread_id, 'decided' from inbox_items d where d.status = 'decided'
          and not exists (select from inbox_items o where o.run_id = d.run_id and o.status in ('pending', 'decided')
                          and (o.status = 'pending' or o.undo_until > clock_timestamp()))
    union select thread_id, 'label' from ({_LABEL_WORK}) as labels where %(labels)s)
select t.id, bool_or(work.kind = 'decided') as decided
from work join threads t on t.id = work.thread_id join accounts a on a.id = t.account_id
where (t.lease_until < clock_timestamp() or t.holder = any(%(dead)s::bigint[]))
  and t.not_before <= clock_timestamp()
  and (work.kind <> 'label' or t.label_after <= clock_timestamp())
  and a.state = 'active' and a.provider in ('{_PROVIDER}', 'none')
  and (work.kind <> 'mail' or a.spent_until <= clock_timestamp() or not %(waits)s)
  and (work.kind = 'label' or not exists (
                  select from runs r join inbox_items i on i.run_id = r.id
                  where r.thread_id = t.id and r.state = 'acting'
                  and (i.status = 'pending' or i.status = 'decided' and i.undo_until > clock_timestamp())))
group by t.id order by decided desc, bool_and(work.kind = 'label'), t.id"""
_MOVES = f"""
with ours as (select id, listed_at, backfilled_at, spent_until <= clock_timestamp() as pays
              from accounts a where a.provider in ('{_PROVIDER}', 'none') and state = 'active')
select exists (select from ours where listed_at is null or backfilled_at is null)
    or exists (select from runs r join ours a on a.id = r.account_id where r.state = 'running' and a.pays)
    or exists (select from runs r join ours a on a.id = r.account_id join threads t on t.id = r.thread_id
               where r.state = 'acting' and (a.pays or t.not_before <= clock_timestamp())
               and not exists (select from inbox_items i where i.run_id = r.id and i.status = 'pending'))
    or exists (select from mails m join ours a on a.id = m.account_id
               where (m.state = 'new' and (a.pays or not %(waits)s) or m.state = 'triaging' and a.pays)
               and not exists (select from runs r join inbox_items i on i.run_id = r.id
                               where r.thread_id = m.thread_id and r.state = 'acting' and i.status = 'pending'))
    or exists (select from inbox_items i join ours a on a.id = i.account_id
               where i.status = 'decided' or i.status = 'applied' and i.teaches and i.learned_at is null and a.pays)
    or exists (select from corrections c join ours a on a.id = c.account_id where c.learned_at is null)
    or %(labels)s and exists (select from ({_LABEL_WORK}) as labels join ours a on a.id = labels.account_id)
    as moves"""


_BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)


def _past() -> datetime:
    return datetime.now(UTC) - timedelta(hours=1)


def _future() -> datetime:
    return datetime.now(UTC) + timedelta(hours=1)


class FixedHolder(Holder):
    """Knows of one that is dead, without a look at the database."""

    def __init__(self) -> None:
        super().__init__("")

    @property
    def dead(self) -> list[int]:
        return [DEAD]


class Chance:
    """Fills tables with conversations in every state, likely or not."""

    def __init__(self, pool: Pool, dice: random.Random) -> None:
        self._pool = pool
        self._dice = dice

    async def fill(self, *, accounts: int = 6, threads: int = 150) -> list[UUID]:
        owners = [await self.account() for _ in range(accounts)]
        made = [await self.conversation(self._dice.choice(owners)) for _ in range(threads)]
        for thread in made * 3:
            await self.change(thread)
        return made

    async def account(self, **given: object) -> UUID:
        user = await self._insert("users", {"name": str(uuid4())})
        return await self._insert(
            "accounts",
            {
                "user_id": user,
                "address": "ada@example.org",
                "provider": self._pick(_PROVIDER, _PROVIDER, "none", "elsewhere"),
                "token": b"",
                "triage_since": _past(),
                "listed_at": self._pick(*[_past()] * 6, None),
                "backfilled_at": self._pick(*[_past()] * 6, None),
                "state": self._pick(*["active"] * 4, "paused", "login"),
                "mode": self._pick("send", "send", "shadow"),
                "spent_until": self._pick(_past(), _past(), _future()),
            }
            | given,
        )

    async def conversation(self, account: UUID) -> UUID:
        dice = self._dice
        thread = await self.thread(account)
        runs = [await self.run(account, thread, n) for n in range(dice.choice((0, 1, 1, 2)))]
        for _ in range(dice.choice((0, 1, 2))):
            run, mail = self._pick(*runs, (None, None))
            await self.mail(account, thread, run, **({"gmail_id": mail} if mail and not await self._has(mail) else {}))
        for run, _ in runs:
            for call in range(dice.choice((0, 0, 1, 2))):
                await self.item(account, thread, run, str(call))
            if dice.random() < 0.2:
                states = ("wanted", "started", "left", "ending", "gone")
                row = {"account_id": account, "thread_id": thread, "run_id": run, "call_id": "0", "args": Json({})}
                await self._insert("left_drafts", {**row, "state": self._pick(*states)}, key="run_id")
        return thread

    async def change(self, thread: UUID) -> None:
        """What happens to a conversation once all of it is there, such as a failure, or an answer."""
        when = self._pick(_past(), _future(), _BEGINNING)
        status = self._pick("pending", "decided", "applied", "expired")
        await self._set("threads set not_before = %(value)s where id = %(thread)s", thread, when, 0.2)
        await self._set("threads set label_after = %(value)s where id = %(thread)s", thread, when, 0.1)
        await self._set("inbox_items set status = %(value)s where thread_id = %(thread)s", thread, status, 0.2)
        await self._set(
            "mails set state = %(value)s where thread_id = %(thread)s", thread, self._pick("new", "done"), 0.1
        )
        await self._set("runs set state = %(value)s where thread_id = %(thread)s", thread, "running", 0.1)

    async def _set(self, change: str, thread: UUID, value: object, chance: float) -> None:
        if self._dice.random() < chance:
            given = {"thread": thread, "value": value}
            await rows(self._pool, f"update {change} returning true", given)

    async def thread(self, account: UUID, *, ready: bool = False) -> UUID:
        leased = not ready and self._dice.random() < 0.2
        return await self._insert(
            "threads",
            {
                "account_id": account,
                "gmail_id": str(uuid4()),
                "lease_until": _future() if leased else self._pick(_past(), _BEGINNING),
                "holder": self._pick(DEAD, ALIVE, None) if leased else None,
                "not_before": _past() if ready else self._pick(*[_past()] * 6, _future()),
                "label_after": _past() if ready else self._pick(*[_past()] * 4, _future()),
                "drafted": None if ready else self._pick(*[None] * 6, "draft"),
            },
        )

    async def run(self, account: UUID, thread: UUID, attempt: int) -> tuple[UUID, str]:
        mail = str(uuid4())
        states = ("running", "waiting", "waiting", "acting", "done", "done", "done", "failed", "superseded")
        row = {
            "id": uuid4(),
            "account_id": account,
            "thread_id": thread,
            "mail_id": mail,
            "attempt": attempt,
            "input": Json({}),
            "state": self._pick(*states),
            "closed_with": self._pick(mail, None, None),
        }
        return await self._insert("runs", row), mail

    async def mail(self, account: UUID, thread: UUID, run: UUID | None, **given: object) -> None:
        row = {
            "account_id": account,
            "gmail_id": str(uuid4()),
            "thread_id": thread,
            "own": self._dice.random() < 0.3,
            "sender": "bob@example.org",
            "subject": "Lunch?",
            "content": Json({}),
            "received_at": _past(),
            "state": self._pick("new", "triaging", "waiting", "acting", "done", "done", "done", "failed"),
            "put_away": self._pick("archived", None),
            "classification": self._pick(None, "ignore", "notify"),
            "triaged_at": self._pick(None, _past(), _BEGINNING),
            "labelled": self._pick(None, "ignore", "none", "notify"),
            "relabelled": self._pick(None, None, "respond"),
            "run_id": run,
        }
        await self._insert("mails", row | given, key="account_id")

    async def item(self, account: UUID, thread: UUID, run: UUID, call: str) -> None:
        row = {
            "account_id": account,
            "thread_id": thread,
            "run_id": run,
            "call_id": call,
            "interrupt_id": str(uuid4()),
            "kind": "draft",
            "action": "send_email_tool",
            "args": Json({}),
            "allowed": [],
            "mail_text": "",
            "marks": Json([]),
            "teaches": self._dice.random() < 0.5,
            "status": self._pick("pending", "decided", "decided", "applied", "superseded", "expired"),
            "undo_until": self._pick(_past(), _future()),
            "learned_at": self._pick(_past(), None),
        }
        await self._insert("inbox_items", row)

    async def _has(self, mail: str) -> bool:
        return bool(await rows(self._pool, "select 1 as one from mails where gmail_id = %(mail)s", {"mail": mail}))

    async def _insert(self, table: str, row: dict[str, Any], key: str = "id") -> UUID:
        if "account_id" in row:
            owner = "select user_id from accounts where id = %(account_id)s"
            [found] = await rows(self._pool, owner, row)
            row = row | found
        values = ", ".join(f"%({name})s" for name in row)
        [made] = await rows(
            self._pool, f"insert into {table} ({', '.join(row)}) values ({values}) returning {key} as id", row
        )
        return UUID(str(made["id"]))

    def _pick(self, *values: Any) -> Any:
        return self._dice.choice(values)


@pytest_asyncio.fixture
async def pool(database_url: str) -> AsyncIterator[Pool]:
    async with make_pool(database_url, size=2, idle_seconds=60) as pool:
        yield pool


@pytest.mark.parametrize("seed", range(12))
async def test_is_what_a_look_at_all_tables_finds(pool: Pool, seed: int) -> None:
    threads = await Chance(pool, random.Random(seed)).fill()
    some = 0
    for waits in (True, False):
        for labels in (True, False):
            given = {"dead": [DEAD], "waits": waits, "labels": labels}
            due = due_work(pool, waits=waits, labels=labels)
            expected = await rows(pool, _DUE, given)
            found = await due.due(len(threads))

            assert [{"id": each.id, "decided": each.decided} for each in found] == expected
            assert {thread for thread in threads if await due.is_due(thread)} == {row["id"] for row in expected}
            some += len(expected)
    assert some


@pytest.mark.parametrize("seed", range(4))
async def test_answers_come_first(pool: Pool, seed: int) -> None:
    await Chance(pool, random.Random(seed)).fill()
    expected = await rows(pool, _DUE, {"dead": [DEAD], "waits": True, "labels": True})
    answers = sum(row["decided"] for row in expected)

    for most in (1, answers // 2, answers + 1, len(expected) - 1):
        found = await due_work(pool, labels=True).due(most)
        assert {each.id for each in found} <= {row["id"] for row in expected}
        assert [each.decided for each in found] == [n < answers for n in range(most)]


async def test_labels_come_last(pool: Pool) -> None:
    chance = Chance(pool, random.Random(0))
    account = await chance.account(state="active", provider=_PROVIDER, mode="send", spent_until=_BEGINNING)
    first, second, third = sorted([await chance.thread(account, ready=True) for _ in range(3)])
    of_class = {"state": "done", "own": False, "classification": "notify", "triaged_at": _past(), "relabelled": None}
    await chance.mail(account, first, None, **of_class, labelled=None)
    await chance.mail(account, second, None, state="new", own=False)
    await chance.mail(account, third, None, **of_class, labelled="notify")

    due = due_work(pool, labels=True)
    assert [each.id for each in await due.due()] == [second, first]
    assert [each.id for each in await due.due(1)] == [second]


@pytest.mark.parametrize("seed", range(12))
async def test_is_at_rest_where_nothing_moves(pool: Pool, seed: int) -> None:
    """With few conversations, so that some of them are."""
    found = []
    for number in range(12):
        await clear(pool)
        await Chance(pool, random.Random(100 * seed + number)).fill(accounts=1, threads=1)
        for waits in (True, False):
            for labels in (True, False):
                [row] = await rows(pool, _MOVES, {"waits": waits, "labels": labels})
                found.append(await due_work(pool, waits=waits, labels=labels).is_at_rest())
                assert found[-1] is not row["moves"]
    assert set(found) == {True, False}


def due_work(pool: Pool, *, waits: bool = True, labels: bool = False) -> DueWork:
    return DueWork(pool, _PROVIDER, FixedHolder(), waits_when_spent=waits, labels=labels)


async def rows(pool: Pool, query: str, given: dict[str, Any]) -> list[dict[str, Any]]:
    async with pool.connection() as conn:
        return await (await conn.execute(query.encode(), given)).fetchall()


async def clear(pool: Pool) -> None:
    async with pool.connection() as conn:
        await conn.execute("delete from accounts")
        await conn.execute("delete from users")
