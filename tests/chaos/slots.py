"""One process of the program at a time, behind proxies of its own; killed at requests that the seed chose."""

import asyncio
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Literal, NamedTuple
from urllib.parse import urlsplit

from tests.chaos.proxies import DEFERS, Fault, HttpProxy, Moment, PostgresProxy, Proxy, Request
from tests.doubles.nursery import Child, Nursery

_PATIENCE_SECONDS = 8.0
"""How long a process may work without meeting the request that it is to die of; then another one is chosen."""
_UNREACHABLE_SECONDS = 30.0
"""How long after the database was down a process may still end because of it."""
_FAULTS: list[Fault] = ["429", "500", "502", "503", "drop before", "drop after", "truncated", "short", "slow", "slow"]
_SLOW_SECONDS = (0.1, 1.8)
_REFUSABLE = ("POST drafts", "POST drafts/send", "POST events")
"""Requests by which an answer of the person is carried out."""
_REFUSED = 0.1
"""Share of them that Google refuses for good."""


class Aim(NamedTuple):
    """A kind of request to kill at."""

    hits: Callable[[Request, bool], bool]
    """Given a request, and whether the process has just changed something at Google."""
    most: int
    """Up to the how many-th of them, from the start of the process."""
    weight: int


_AIMS = {
    "Google write": Aim(lambda r, _: r.place == "google" and r.writes, 2, 30),
    "what follows a Google write": Aim(lambda r, just: r.place == "postgres" and just, 8, 20),
    "Google read": Aim(lambda r, _: r.place == "google" and not r.writes, 15, 5),
    "model": Aim(lambda r, _: r.place == "model", 4, 15),
    "answer taken": Aim(lambda r, _: r.name == "commit of update inbox_items", 3, 10),
    "commit": Aim(lambda r, _: r.place == "postgres" and r.writes, 60, 15),
    "statement": Aim(lambda r, _: r.place == "postgres", 300, 5),
}
_JUST = 8
"""Requests to Postgres that count as what follows a Google write."""
_FREEZES = 0.15
"""Share of the chosen requests at which a process is not killed, but stopped for a while without knowing."""
_FROZEN_SECONDS = 3.0
"""Longer than its lease, so that others take over what it is at."""
_MOMENTS: list[Moment] = ["before", "unanswered", "after"]


@dataclass(frozen=True)
class Kill:
    role: str
    request: Request
    moment: Moment
    effects: Mapping[str, int]
    """What this process had changed by then, by place."""


@dataclass
class Tally:
    """What went wrong, as it happened."""

    kills: list[Kill] = field(default_factory=list)
    freezes: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    requests: Counter[str] = field(default_factory=Counter)
    effects: Counter[str] = field(default_factory=Counter)
    """By what changed."""
    last_effect_at: float = field(default_factory=time.monotonic)
    ended: list[str] = field(default_factory=list)
    """Processes that ended by themselves, with the last lines of their logs."""
    ended_without_database: int = 0
    own_errors: list[str] = field(default_factory=list)
    """Mistakes of this suite itself."""
    database_kills: list[str] = field(default_factory=list)


@dataclass
class Weather:
    """What may go wrong now."""

    seed: int
    kills: int
    """Kills that are wanted in all."""
    fault_share: float = 0.05
    faults_on: bool = True
    kills_on: bool = True
    database_down_at: float = -1e9
    tally: Tally = field(default_factory=Tally)

    @property
    def wants_kills(self) -> bool:
        return self.kills_on and len(self.tally.kills) < self.kills

    @property
    def database_was_down(self) -> bool:
        return time.monotonic() - self.database_down_at < _UNREACHABLE_SECONDS


class Life:
    """One process and all that its requests do. Implements `proxies.Overseer`."""

    def __init__(self, name: str, role: str, child: Child, weather: Weather, again: Callable[[], None]) -> None:
        self.child = child
        self._name, self._role, self._weather, self._again = name, role, weather, again
        self._effects: Counter[str] = Counter()
        self._counts: Counter[str] = Counter()
        self._faultable = 0
        self._since_google = _JUST
        self._drawn = 0
        self._drawn_at = 0.0
        self._plan: tuple[str, int, Moment | Literal["freeze"]] | None = None
        self._is_dying = False

    def kill_moment(self, request: Request) -> Moment | None:
        self._weather.tally.requests[request.place] += 1
        if request.place == "postgres":
            self._since_google += 1
        if not self._weather.wants_kills or not self._effects:
            return None
        if (self._plan is None and not self._is_dying) or time.monotonic() - self._drawn_at > _PATIENCE_SECONDS:
            self._plan = self._draw_plan()
        if self._plan is None:
            return None
        aim, left, moment = self._plan
        if not _AIMS[aim].hits(request, self._since_google <= _JUST):
            return None
        self._plan = aim, left - 1, moment
        if left > 1:
            return None
        self._plan = None
        if moment == "freeze":
            self._freeze()
            return None
        self._is_dying = True
        return moment

    def fault(self, request: Request) -> tuple[Fault, float] | None:
        # By the number of the request, so that it doesn't depend on what the other processes do meanwhile.
        self._faultable += 1
        random = Random(f"{self._weather.seed}/fault/{self._name}/{self._faultable}")
        if not self._weather.faults_on:
            return None
        if request.place == "google" and request.name in _REFUSABLE and random.random() < _REFUSED:
            self._weather.tally.faults["403"] += 1
            return "403", 0.0
        if random.random() >= self._weather.fault_share:
            return None
        kind = random.choice(_FAULTS)
        self._weather.tally.faults[kind] += 1
        return kind, random.uniform(*_SLOW_SECONDS)

    def effect(self, request: Request) -> None:
        tally = self._weather.tally
        if request.name == DEFERS and self._role != "scheduler":
            return  # every process that polls does so all the time; only of this one it is the work
        tally.effects[f"{request.place} {request.name}"] += 1
        self._effects[request.place] += 1
        if request.name != DEFERS:
            tally.last_effect_at = time.monotonic()
        if request.place == "google":
            self._since_google = 0

    def kill(self, request: Request, moment: Moment) -> None:
        if self.child.poll() is not None:
            return
        self.end()
        self._weather.tally.kills.append(Kill(self._role, request, moment, dict(self._effects)))
        self._again()

    def end(self) -> None:
        """End the process at once."""
        self.child.send_signal(signal.SIGKILL)
        self.child.wait()

    def _freeze(self) -> None:
        """The request goes on, and its answer finds nobody until the process is let go."""
        self.child.send_signal(signal.SIGSTOP)
        self._weather.tally.freezes += 1
        asyncio.get_running_loop().call_later(_FROZEN_SECONDS, self.child.send_signal, signal.SIGCONT)

    def _draw_plan(self) -> tuple[str, int, Moment | Literal["freeze"]]:
        self._drawn += 1
        self._drawn_at = time.monotonic()
        self._is_dying = False
        random = Random(f"{self._weather.seed}/kill/{self._name}/{self._drawn}")
        aim = random.choices(list(_AIMS), [a.weight for a in _AIMS.values()])[0]
        moment = "freeze" if random.random() < _FREEZES else random.choice(_MOMENTS)
        return aim, random.randint(1, _AIMS[aim].most), moment


class Slot:
    """The place of one process, which is started again whenever it ends, behind proxies that stay."""

    def __init__(
        self,
        number: int,
        role: str,
        arguments: list[str],
        environment: dict[str, str],
        folder: Path,
        nursery: Nursery,
        weather: Weather,
    ) -> None:
        self.role = role
        self._name = f"{number}-{role}"
        self._arguments, self._environment, self._folder = arguments, environment, folder
        self._nursery, self._weather = nursery, weather
        self._proxies: list[Proxy] = []
        self._lives = 0
        self._life: Life | None = None
        self._keeper: asyncio.Task[None] | None = None

    @property
    def life(self) -> Life:
        """The process that is there now."""
        assert self._life
        return self._life

    async def open(self, google: str, model: str, postgres: int, database_url: Callable[[int], str]) -> None:
        """Put proxies before the three servers, and start the first process."""
        google_port, model_port = (urlsplit(url).port or 0 for url in (google, model))
        self._proxies = [
            HttpProxy("google", google_port, lambda: self.life),
            HttpProxy("model", model_port, lambda: self.life),
            PostgresProxy(postgres, lambda: self.life),
        ]
        ports = [await proxy.start() for proxy in self._proxies]
        self._environment = self._environment | {
            "EMAIL_ASSISTANT_GOOGLE_ROOT": f"http://127.0.0.1:{ports[0]}",
            "OPENAI_BASE_URL": f"http://127.0.0.1:{ports[1]}/v1",
            "DATABASE_URL": database_url(ports[2]),
        }
        self._start()
        self._keeper = asyncio.create_task(self._keep())

    async def stop(self, seconds: float) -> int | None:
        """Ask the process to stop; returns its exit code, None if it did not end in time and was killed."""
        await self._release()
        child = self.life.child
        child.send_signal(signal.SIGCONT)
        child.send_signal(signal.SIGTERM)
        try:
            return await asyncio.to_thread(child.wait, seconds)
        except subprocess.TimeoutExpired:
            return None
        finally:
            await self.close()

    async def close(self) -> None:
        """End everything at once."""
        await self._release()
        if self._life:
            self._life.end()
        for proxy in self._proxies:
            await proxy.stop()

    async def _release(self) -> None:
        if self._keeper:
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)
            self._keeper = None

    def _start(self) -> None:
        self._lives += 1
        name = f"{self._name}-{self._lives}"
        log = self._folder / f"{name}.log"
        child = self._nursery.start(self._arguments, self._environment, self._folder, log)
        self._life = Life(name, self.role, child, self._weather, self._start)

    async def _keep(self) -> None:
        """Start the process again when it ends by itself, as a supervisor would."""
        while True:
            await asyncio.sleep(0.3)
            code = self.life.child.poll()
            if code is None:
                continue
            if self._weather.database_was_down:
                self._weather.tally.ended_without_database += 1
            else:
                log = self._folder / f"{self._name}-{self._lives}.log"
                last = log.read_text(errors="replace")[-1500:]
                self._weather.tally.ended.append(f"{log.name} ended with {code}:\n{last}")
            self._start()
