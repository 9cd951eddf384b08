"""Kill everywhere: mail comes in, a person answers, and processes, servers and the database die all the while."""

import asyncio
import json
import os
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from random import Random
from statistics import median
from typing import Any, Literal

import httpx

from tests.chaos.person import Item, Person
from tests.chaos.slots import Kill, Tally, Weather
from tests.chaos.stage import Stage
from tests.chaos.verdict import Verdict, judge
from tests.chaos.world import TYPED, World, teach

_AHEAD = 6
"""Mails that wait to be looked at, at most."""
_TO_HIT = 2
"""Mails that wait to be looked at, at least, so that there is something to kill."""
_SETTLE_SECONDS = 150.0
_QUIET_SECONDS = 4.0
"""How long nothing may move before it counts as settled."""
_TIDY_SECONDS = 30.0
_STOP_SECONDS = 20.0


@dataclass(frozen=True)
class Size:
    """How much of everything."""

    seed: int
    kills: int
    mails: int
    processes: Sequence[str] = ("up", "worker", "worker")
    database_kills: int = 2

    @classmethod
    def from_environment(cls) -> "Size":
        """The seed is fixed, so that two runs differ by nothing but the program and the machine's timing."""

        def number(name: str, default: int) -> int:
            return int(os.environ.get(f"EMAIL_ASSISTANT_CHAOS_{name}", default))

        processes = os.environ.get("EMAIL_ASSISTANT_CHAOS_PROCESSES", "up,worker,worker").split(",")
        return cls(number("SEED", 1), number("KILLS", 60), number("MAILS", 100), processes)


@dataclass
class Report:
    """What a sceptic needs to see."""

    size: Size
    seconds: float
    settled_in: float
    weather: Tally
    verdict: Verdict
    model_calls: Counter[str]
    exits: Sequence[str]
    """Each process with its exit code; None if it had to be killed at the end."""

    @property
    def table(self) -> dict[str, object]:
        tally, kills = self.weather, self.weather.kills
        between = [sum(kill.effects.values()) for kill in kills]
        return {
            "seed": self.size.seed,
            "processes": ", ".join(self.size.processes),
            "duration": f"{self.seconds:.0f} s, then settled in {self.settled_in:.0f} s",
            "kills": len(kills),
            "kills by process": _counts(kill.role for kill in kills),
            "kills by place": _counts(_place(kill) for kill in kills),
            "kills by moment": _counts(kill.moment for kill in kills),
            "effects of a process between its kills": _spread(between),
            "kills with no effect before them": between.count(0),
            "processes frozen for longer than their lease": tally.freezes,
            "kills of Postgres": ", ".join(tally.database_kills) or "none",
            "requests seen": _counts(tally.requests.elements()),
            "effects seen": _counts(tally.effects.elements()),
            "faults injected": f"{tally.faults.total()} ({_counts(tally.faults.elements())})",
            "processes that ended by themselves": len(tally.ended),
            "ended while the database was down": tally.ended_without_database,
            "model calls": _counts(self.model_calls.elements()),
            **self.verdict.figures,
            "exit codes after SIGTERM": ", ".join(self.exits),
            "breaches": len(self.verdict.breaches),
        }

    def __str__(self) -> str:
        width = max(map(len, self.table))
        lines = [f"{name:<{width}}  {value}" for name, value in self.table.items()]
        return "\n".join([*lines, *(f"BREACH: {breach}" for breach in self.verdict.breaches)])

    def write(self, path: Path) -> None:
        kills = [asdict(kill) for kill in self.weather.kills]
        path.write_text(json.dumps({**self.table, "breaches": self.verdict.breaches, "each kill": kills}, indent=1))


def _counts(things: Iterable[str]) -> str:
    return ", ".join(f"{thing} {n}" for thing, n in Counter(things).most_common())


def _place(kill: Kill) -> str:
    return f"{kill.request.place} {kill.request.name}" if kill.request.place != "postgres" else kill.request.name


def _spread(numbers: Sequence[int]) -> str:
    return f"{min(numbers)} to {max(numbers)}, median {median(numbers):g}" if numbers else "none"


@dataclass
class Storm:
    """The program's processes between the doubles and the person."""

    size: Size
    stage: Stage
    person: Person
    world: World

    @classmethod
    def on(cls, stage: Stage, size: Size) -> "Storm":
        """Bring the person and everybody who writes to them."""
        world = World(stage.google, size.seed)
        teach(stage.model, world)
        return cls(size, stage, Person(stage.apis[0], stage.google, size.seed), world)

    @property
    def weather(self) -> Weather:
        return self.stage.weather

    async def run(self) -> Report:
        """Let it blow, let it settle, stop everything, and look."""
        began = time.monotonic()
        async with _beside(self.person.live()):
            async with _beside(self._kill_database()):
                await self._blow()
            self.weather.kills_on = self.weather.faults_on = False
            blown = time.monotonic()
            unsettled = await self._settle()
            unsettled += await self._tidy()
        settled = time.monotonic()
        items, mails = await self.person.items(), await self.person.mails()
        codes = await asyncio.gather(*(slot.stop(_STOP_SECONDS) for slot in self.stage.slots))
        verdict = judge(self.stage.google, self.world.mails, items, mails, self.person.attempts)
        verdict.breaches += [f"it did not settle within {_SETTLE_SECONDS:g} s: {what}" for what in unsettled]
        verdict.breaches += [f"the model was shown: {what}" for what in self.stage.model.violations]
        verdict.breaches += [f"process {ended}" for ended in self.weather.tally.ended]
        verdict.breaches += self.person.complaints
        verdict.figures["deadlocks in Postgres"] = deadlocks = self.stage.postgres.deadlocks
        verdict.breaches += [f"{deadlocks} deadlocks in Postgres"] if deadlocks else []
        kinds = Counter[str](request.kind for request in self.stage.model.requests)
        exits = [f"{slot.role} {code}" for slot, code in zip(self.stage.slots, codes, strict=True)]
        return Report(self.size, blown - began, settled - blown, self.weather.tally, verdict, kinds, exits)

    async def _blow(self) -> None:
        """Deliver mail in step with the kills, until there were enough of both."""
        tally = self.weather.tally
        while self.weather.wants_kills or len(self.world.mails) < self.size.mails:
            in_step = (len(tally.kills) + 1) * self.size.mails / max(1, self.size.kills)
            is_behind = not self.weather.wants_kills or len(self.world.mails) < in_step
            if self.world.untriaged < (_AHEAD if is_behind else _TO_HIT):
                self.world.deliver()
            self.world.type_into_a_draft()
            await asyncio.sleep(0.05)
        await _until(lambda: len(tally.database_kills) >= self.size.database_kills)

    async def _kill_database(self) -> None:
        """Kill Postgres when a share of the kills is reached; it comes back after a while."""
        tally, random = self.weather.tally, Random(f"{self.size.seed}/database")
        for number in range(self.size.database_kills):
            share = self.size.kills * (number + 1) / (self.size.database_kills + 1)
            await _until(partial(lambda share: len(tally.kills) >= share, share))
            down = random.uniform(0.2, 3)
            how: Literal["kill", "immediate"] = "kill" if number % 2 == 0 else "immediate"
            self.weather.database_down_at = time.monotonic()
            await asyncio.to_thread(self.stage.postgres.kill, how)
            await asyncio.sleep(down)
            await asyncio.to_thread(self.stage.postgres.start)
            self.weather.database_down_at = time.monotonic()
            tally.database_kills.append(f"{how}, {down:.1f} s down")

    async def _settle(self) -> list[str]:
        """Wait until nothing moves any more; returns what still does when the time is up."""
        deadline = time.monotonic() + _SETTLE_SECONDS
        moving = ["nothing could be read"]
        while time.monotonic() < deadline:
            with suppress(httpx.TransportError):
                moving = self._moving(await self.person.items(), await self.person.mails())
                if not moving and time.monotonic() - self.weather.tally.last_effect_at > _QUIET_SECONDS:
                    return []
            await asyncio.sleep(0.5)
        return moving

    async def _tidy(self) -> list[str]:
        """A draft that came to be long after it was given up goes at the next tidying; the person's own words stay."""

        def left() -> list[str]:
            return [f"the draft {each.text}" for each in self.stage.google.drafts if not each.text.startswith(TYPED)]

        await asyncio.to_thread(self.stage.tidy)
        with suppress(TimeoutError):
            async with asyncio.timeout(_TIDY_SECONDS):
                await _until(lambda: not left())
        return left()

    def _moving(self, items: Sequence[Item], mails: Sequence[Item]) -> list[str]:
        open_runs = {item["run"] for item in items if item["status"] == "pending"}
        unread = {mail.id for mail in self.world.mails} - {mail["id"] for mail in mails}
        waiting = {mail["id"] for mail in mails if mail["state"] == "waiting"}
        return [
            *(f"mail {mail_id} was not fetched" for mail_id in unread),
            *(f"{mail}" for mail in mails if mail["state"] not in ("done", "waiting", "failed")),
            *(f"{i}" for i in items if i["status"] == "pending" and i["id"] not in self.person.left),
            *(
                f"{i}"
                for i in items
                if i["run"] not in open_runs
                and i["ended_because"] is None  # its mail may wait with a newer one
                and (i["status"] == "decided" or (i["status"] == "applied" and i["mail_id"] in waiting))
            ),
        ]


async def _until(holds: Callable[[], bool]) -> None:
    while True:
        if holds():
            return
        await asyncio.sleep(0.05)


@asynccontextmanager
async def _beside(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Do something beside the block, until it ends."""
    task = asyncio.create_task(work)
    try:
        yield
        if task.done():
            task.result()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
