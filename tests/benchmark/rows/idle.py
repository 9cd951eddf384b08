"""What it costs that nothing happens: polls that find nothing, and accounts that nobody writes to."""

import asyncio
import time
from collections.abc import Sequence

from tests.benchmark.rows.figures import Limit, Reading, RowProgress, Size
from tests.benchmark.rows.processes import resident_bytes, threads
from tests.benchmark.rows.stage import Stage, postgres, scratch, staged

_FEW = 10
_POLL_SECONDS = 20.0  # as it ships
_ROUNDS = 3
_MOST_POLL_MS, _MOST_SHARE = 4.0, 20.0
_MOST_KILOBYTES, _MOST_THREADS = 100.0, 0.0
_MOST_IDLE_SHARE, _MOST_TRANSACTIONS = 0.5, 60.0


async def accounts(size: Size, progress: RowProgress) -> list[Reading]:
    """Many mailboxes that nobody writes to, polled as it ships: share of a core, time of one poll, and what each adds
    to the process, beside a process with few."""
    many = size.of(1000, _FEW * 2)
    seconds = max(1.0, _POLL_SECONDS * min(1.0, size.share * 4))
    with scratch() as folder, postgres(folder) as server:
        progress(f"{_FEW} accounts")
        async with staged(server, folder, "few", _addresses(_FEW), poll_seconds=seconds) as stage:
            await stage.until_at_rest()
            await asyncio.sleep(seconds)
            few = resident_bytes(stage.program.pid), threads(stage.program.pid)
        progress(f"{many} accounts are looked at for the first time")
        async with staged(server, folder, "many", _addresses(many), poll_seconds=seconds) as stage:
            await stage.until_at_rest()
            shares, each = [], []
            for round_ in range(_ROUNDS):
                progress(f"{many} accounts, round {round_ + 1} of {_ROUNDS}")
                share, polls = await _rest(stage, seconds)
                shares.append(share * 100)
                each.append(share * seconds / max(1, polls) * 1000)
            memory = (resident_bytes(stage.program.pid) - few[0]) / (many - _FEW) / 1000
            more = (threads(stage.program.pid) - few[1]) / (many - _FEW)
    note = f"{many} accounts, polled every {seconds:g} s; of the program and Postgres"
    beside = f"of a process with {many} accounts beside one with {_FEW}"
    return [
        Reading("an empty poll", "ms", each, Limit(_MOST_POLL_MS), note=note),
        Reading(f"{many} idle accounts", "% of a core", shares, Limit(_MOST_SHARE), note=note),
        Reading("memory of an idle account", "kB", [memory], Limit(_MOST_KILOBYTES), note=beside),
        Reading("threads of an idle account", "", [round(more, 2)], Limit(_MOST_THREADS), note=beside),
    ]


async def alone(size: Size, progress: RowProgress) -> list[Reading]:
    """One account, with everything as it ships, while nothing happens."""
    seconds = size.of(40, 4)
    shares, transactions = [], []
    with scratch() as folder, postgres(folder) as server:
        async with staged(server, folder, "alone", poll_seconds=_POLL_SECONDS) as stage:
            await stage.until_at_rest()
            for round_ in range(_ROUNDS):
                progress(f"round {round_ + 1} of {_ROUNDS}")
                before = _transactions(stage)
                share, _ = await _rest(stage, seconds)
                shares.append(share * 100)
                transactions.append((_transactions(stage) - before) * 60 / seconds)
    note = f"{_ROUNDS} × {seconds} s; of the program and Postgres"
    return [
        Reading("idle with one account", "% of a core", shares, Limit(_MOST_IDLE_SHARE), note=note),
        Reading("idle with one account", "transactions a minute", transactions, Limit(_MOST_TRANSACTIONS), note=note),
    ]


async def _rest(stage: Stage, seconds: float) -> tuple[float, int]:
    """Share of a core that is used while nothing happens, and how often a mailbox was looked at."""
    polls = stage.outside.line.polls
    began, used = time.monotonic(), stage.cpu()
    await asyncio.sleep(seconds)
    return (stage.cpu() - used) / (time.monotonic() - began), stage.outside.line.polls - polls


def _transactions(stage: Stage) -> int:
    """That ended so far in the program's database."""
    with stage.server.watch() as conn:
        query = "select xact_commit + xact_rollback from pg_stat_database where datname = 'alone'"
        return int(conn.execute(query).fetchall()[0][0])


def _addresses(count: int) -> Sequence[str]:
    return [f"ada{number}@bench.example" for number in range(count)]
