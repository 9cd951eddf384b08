"""What one mail costs: processor time beside the bare graph's, statements, and bytes that stay in the database."""

import asyncio
import re
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from tests.benchmark.rows.figures import Limit, Reading, RowProgress, Size, SpeedUnknown
from tests.benchmark.rows.floor import FloorSettings
from tests.benchmark.rows.outside import Outside, Way, outside
from tests.benchmark.rows.processes import cpu_seconds
from tests.benchmark.rows.stage import OURS, Server, Stage, postgres, scratch, staged

WAYS: tuple[Way, ...] = get_args(Way)
_ROUNDS = 3
_WARM = 8
_MOST_CPU = 2.0
_MOST_STATEMENTS: Mapping[Way, float] = {"ignored": 25, "accepted": 90}
_MOST_KILOBYTES = {"waiting": 8.0, "accepted": 6.0}

_ENDS = re.compile(r"begin|commit|rollback|savepoint|release", re.IGNORECASE)
_LESSONS = re.compile(r"from corrections|learned_at is null|learning_until", re.IGNORECASE)
_STATEMENTS = """
select query, sum(calls)::int from pg_stat_statements
where dbid = (select oid from pg_database where datname = %s) and query not like %s group by query"""
_IDLE_SECONDS = 5.0


async def cpu(size: Size, progress: RowProgress) -> list[Reading]:
    """Milliseconds of processor time that a mail takes of the program and of Postgres, and that it takes of a bare
    graph and of Postgres; each in turn, since a machine is not equally fast all the time."""
    mails, took = size.of(40, 2), {(who, way): list[float]() for who in ("ours", "floor") for way in WAYS}
    with scratch() as folder, postgres(folder) as server:
        async with staged(server, folder, "ours") as stage, _floor(server, folder) as floor:
            progress("both get warm")
            for way in WAYS:
                await stage.handle(way, size.of(_WARM))
                await floor.handle(way, size.of(_WARM))
            for round_ in range(_ROUNDS):
                progress(f"round {round_ + 1} of {_ROUNDS}")
                for way in WAYS:
                    took["ours", way].append(await of_each(stage, way, mails))
                    with stage.program.frozen():  # what it does by itself is not the floor's
                        took["floor", way].append(await of_each(floor, way, mails))
    note = f"of the program and Postgres, {mails} mails that come in together, {_ROUNDS} rounds"
    return [
        Reading(f"CPU of a mail, {way}", "ms", took["ours", way], Limit(_MOST_CPU), took["floor", way], note)
        for way in WAYS
    ]


async def of_each(whose: "Stage | _Floor", way: Way, mails: int) -> float:
    began = whose.cpu()
    await whose.handle(way, mails)
    return (whose.cpu() - began) / mails * 1000


@dataclass(frozen=True)
class _Floor:
    process: Process
    server: Server
    outside: Outside

    def cpu(self) -> float:
        return cpu_seconds(self.process.pid, self.server.pid)

    async def handle(self, way: Way, mails: int) -> None:
        await self.outside.deliver(way, mails)
        await self.order(f"{way} {mails}")

    async def order(self, line: str) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{line}\n".encode())
        if not await self.process.stdout.readline():
            raise SpeedUnknown("the bare graph ended before it was done")


@asynccontextmanager
async def _floor(server: Server, folder: Path) -> AsyncIterator[_Floor]:
    home = folder / "floor"
    home.mkdir()
    url = server.create("floor")
    async with outside(home) as around:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.benchmark.rows.floor",
            stdin=PIPE, stdout=PIPE, start_new_session=True,
        )  # fmt: skip
        try:
            floor = _Floor(process, server, around)
            settings = FloorSettings(
                database=url, google_root=around.root, token=around.token, model_url=around.model_url
            )
            await floor.order(settings.model_dump_json())
            yield floor
        finally:
            assert process.stdin is not None
            process.stdin.close()
            await process.wait()


async def statements(size: Size, progress: RowProgress) -> list[Reading]:
    """Statements of a mail that comes alone, from its arrival to its end: the poll that fetches it, jobs, and of an
    accepted one the look at its item and the decision by HTTP. What runs meanwhile while there is no mail is not
    counted, nor what looks for something to learn from. Of a burst, the jobs, each of which a worker takes up."""
    mails, burst, figures = size.of(20, 2), size.of(200, 5), list[Reading]()
    with scratch() as folder, postgres(folder) as server:
        async with staged(server, folder, "mail") as stage:
            for way in WAYS:
                await stage.handle(way, size.of(_WARM))
            idle = await _rates(stage, _IDLE_SECONDS)
            for way in WAYS:
                counted = []
                for number in range(mails):
                    progress(f"{way}, mail {number + 1} of {mails}")
                    counted.append(await _counted(stage, way, idle))
                ends = sorted(sum(n for text, n in each.items() if _ENDS.match(text)) for each in counted)
                note = f"a mail at a time; {ends[len(ends) // 2]:.0f} of them begin or end a transaction"
                all_ = [sum(n for text, n in each.items() if not _LESSONS.search(text)) for each in counted]
                figures.append(
                    Reading(f"statements of a mail, {way}", "", all_, Limit(_MOST_STATEMENTS[way]), note=note)
                )
            progress(f"a burst of {burst}")
            before = _jobs(stage)
            await stage.handle("ignored", burst)
            jobs = (_jobs(stage) - before) / burst
    return [*figures, Reading("jobs of a mail", "", [jobs], note=f"{burst} mails that come in together")]


def _jobs(stage: Stage) -> int:
    """How many jobs there have been."""
    query = f"select n_tup_ins from pg_stat_user_tables where relname = 'procrastinate_jobs' {OURS}"
    return int(stage.watch.execute(query.encode()).fetchall()[0][0])


def _calls(stage: Stage) -> dict[str, int]:
    with stage.server.watch() as conn:
        return dict(conn.execute(_STATEMENTS, ("mail", f"%{OURS}%")).fetchall())


def _forget(stage: Stage) -> None:
    with stage.server.watch() as conn:
        conn.execute("select pg_stat_statements_reset()")


async def _rates(stage: Stage, seconds: float) -> dict[str, float]:
    """How often each statement runs in a second without mail."""
    _forget(stage)
    await asyncio.sleep(seconds)
    return {text: calls / seconds for text, calls in _calls(stage).items()}


async def _counted(stage: Stage, way: Way, idle: Mapping[str, float]) -> dict[str, float]:
    _forget(stage)
    began = time.monotonic()
    await stage.handle(way, 1)
    took = time.monotonic() - began
    return {text: max(0.0, calls - idle.get(text, 0) * took) for text, calls in _calls(stage).items()}


async def stored(size: Size, progress: RowProgress) -> list[Reading]:
    """Kilobytes of rows that a mail adds to the database at once, before anything is tidied up: while its reply waits,
    and when that was accepted and the mail is done."""
    mails, found = size.of(60, 4), {}
    with scratch() as folder, postgres(folder) as server:
        async with staged(server, folder, "bytes") as stage:
            await stage.handle("accepted", size.of(_WARM))
            before, whole = _row_bytes(stage), _file_bytes(stage)
            progress(f"{mails} mails wait")
            delivered = await stage.outside.deliver("accepted", mails)
            await stage.program.look()
            await stage.waiting(set(delivered), mails)
            found["waiting"] = _row_bytes(stage) - before, _file_bytes(stage) - whole
            progress(f"{mails} mails are accepted")
            await stage.accept(delivered)
            await stage.until_done(delivered)
            found["accepted"] = _row_bytes(stage) - before, _file_bytes(stage) - whole
    return [
        Reading(
            f"stored of a mail, {state}",
            "kB",
            [rows / mails / 1000],
            Limit(_MOST_KILOBYTES[state]),
            note=f"rows as they are stored; with indexes and free space {files / mails / 1000:.1f} kB; {mails} mails",
        )
        for state, (rows, files) in found.items()
    ]


_COLUMNS = """
select format('%I.%I', c.table_schema, c.table_name),
       string_agg(format('coalesce(pg_column_size(%I), 0)', c.column_name), ' + ')
from information_schema.columns c join information_schema.tables t using (table_schema, table_name)
where c.table_schema in ('email_assistant', 'public') and t.table_type = 'BASE TABLE'
group by c.table_schema, c.table_name /* asked by the bench */"""
_ROW_HEAD = 28  # bytes: a row's header, and where it is in its page


def _row_bytes(stage: Stage) -> int:
    """What is in all rows, compressed as it is stored, without indexes and free space."""
    total = 0
    for table, columns in stage.watch.execute(_COLUMNS.encode()).fetchall():
        query = f"select coalesce(sum({columns} + {_ROW_HEAD}), 0)::bigint from {table} {OURS}"
        total += stage.watch.execute(query.encode()).fetchall()[0][0]
    return total


def _file_bytes(stage: Stage) -> int:
    return int(stage.watch.execute(f"select pg_database_size(current_database()) {OURS}".encode()).fetchall()[0][0])
