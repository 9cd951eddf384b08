"""How many workers a day's mail needs, how long it waits, and what it costs: a simulation, which connects to nothing.

Mail comes in at random, as many in each hour as the day's shape says. A worker process has a number of slots, each of
which holds one mail from its first step to its last, and one core, which the mails in its slots take in turns: before
and after each call of a model, which takes its time. Mail waits for a slot in one queue, the oldest first.

Accounts are spread evenly over clusters, each with a Postgres server and workers of its own; one of them is simulated.
"""

import argparse
import heapq
import json
import math
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

from email_assistant.settings import Settings
from email_assistant.settings.values import Price

HOURS = (1, 1, 1, 1, 1, 2, 3, 5, 8, 10, 10, 9, 7, 8, 9, 9, 8, 6, 4, 3, 3, 2, 2, 1)
"""How much of a day's mail comes in each hour, as weights: that of people who work in one time zone."""
_DAY = 86_400.0
_SEED = 20260521
_BUSIEST_SECONDS = 1800.0
"""Of the day's busiest time, by which the number of workers is chosen."""


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--mails", type=int, default=1_000_000, help="that come in on a day, on all accounts")
    parser.add_argument("--accounts", type=int, default=10_000, help="mailboxes")
    parser.add_argument("--answered", type=float, default=0.2, help="share of mails to which a reply is sent")
    parser.add_argument("--model-seconds", type=float, default=2.0, help="median time of a model call")
    parser.add_argument("--model-spread", type=float, default=0.5, help="of its logarithm")
    parser.add_argument("--clusters", type=int, default=4, help="Postgres servers, each with accounts of its own")
    parser.add_argument("--slots", type=int, default=32, help="mails at once in a worker process")
    parser.add_argument("--most-p99", type=float, default=10.0, help="seconds that 99 of 100 mails may wait")
    parser.add_argument("--measured", type=Path, help="what `speed --json` wrote; left out: the ceilings' costs")


def main(given: argparse.Namespace) -> None:
    settings = Settings()
    costs = Costs.measured(_figures(given.measured)) if given.measured else Costs()
    demand = Demand(given.mails, given.accounts, given.answered, given.model_seconds, given.model_spread)
    fleet = planned(demand, costs, Fleet(given.clusters, 1, given.slots), given.most_p99)
    delays = day(demand, costs, fleet)
    print(f"taken for granted: {json.dumps(asdict(demand) | asdict(costs))}")
    print(f"{fleet.workers} workers of {fleet.slots} slots in each cluster, their cores busy to {delays.busy:.0%}")
    print(f"wait for a slot: p50 {delays.p50:.2f} s, p95 {delays.p95:.2f} s, p99 {delays.p99:.2f} s")
    for polling in POLLS:
        each = load(demand, costs, fleet.clusters, polling)
        print(
            f"busiest hour, {polling}: {each.polls:.0f} polls/s, {each.statements:,.0f} statements/s, "
            f"{each.postgres_cores:.2f} cores of Postgres"
        )
    prompt, completion = costs.tokens(demand)
    triage, response = (settings.prices.get(settings.model_for(role)) for role in ("triage", "response"))
    spent = f"{money(demand, costs, triage, response):,.2f} {settings.currency}" if triage and response else "no price"
    print(f"models: {prompt / 1e6:,.0f} million tokens of prompts, {completion / 1e6:,.0f} of answers a day: {spent}")


def _figures(path: Path) -> dict[str, float]:
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return {each["figure"]: each["ours"]["median"] for each in lines if "figure" in each}


@dataclass(frozen=True, slots=True)
class Costs:
    """What one mail, and one look at a mailbox, take. Milliseconds are of processor time."""

    ignored_ms: float = 45
    answered_ms: float = 130
    postgres: float = 0.3
    """Share of Postgres in that; the rest is the worker's."""
    poll_ms: float = 4
    ignored_statements: float = 25
    answered_statements: float = 90
    poll_statements: float = 4
    ignored_tokens: tuple[float, float] = (283, 60)
    """Of prompts, as `cost` counts, and of answers, which depend on the model: an assumption."""
    answered_tokens: tuple[float, float] = (943, 260)

    def tokens(self, demand: "Demand") -> tuple[float, float]:
        """Of prompts and of answers, a day."""
        prompt, completion = (
            demand.mails * (answered * demand.answered + ignored * (1 - demand.answered))
            for answered, ignored in zip(self.answered_tokens, self.ignored_tokens, strict=True)
        )
        return prompt, completion

    @classmethod
    def measured(cls, figures: Mapping[str, float]) -> "Costs":
        """By figures of `speed`, as far as they are there; else as it stands above."""
        names = {
            "ignored_ms": "CPU of a mail, ignored",
            "answered_ms": "CPU of a mail, accepted",
            "poll_ms": "an empty poll",
            "ignored_statements": "statements of a mail, ignored",
            "answered_statements": "statements of a mail, accepted",
        }
        known: dict[str, Any] = {field: figures[name] for field, name in names.items() if name in figures}
        return cls(**known)


@dataclass(frozen=True, slots=True)
class Demand:
    """What comes in, and what the model does."""

    mails: int
    """A day, on all accounts."""
    accounts: int
    answered: float
    """Share of mails to which a reply is proposed and sent; the others are ignored."""
    model_seconds: float
    """Median of one call."""
    model_spread: float
    """Of its logarithm: 0.5 means that one call in forty takes more than 2.7 times as long."""


@dataclass(frozen=True, slots=True)
class Fleet:
    clusters: int
    workers: int
    """Processes of each cluster."""
    slots: int
    """Of each process."""


@dataclass(frozen=True, slots=True)
class Delays:
    """Seconds that mail waited for a slot, and how much of the processes' cores was used."""

    p50: float
    p95: float
    p99: float
    busy: float


@dataclass(frozen=True, slots=True)
class MailWork:
    """One mail's work: processor time of each step, and the model's time between them, in seconds."""

    arrives: float
    steps: tuple[float, ...]
    waits: tuple[float, ...]


def simulate(mails: Sequence[MailWork], workers: int, slots: int) -> tuple[list[float], float]:
    """Seconds that each mail waited for a slot, in the order in which they got one, and when the last one ended."""
    return _Simulation(workers, slots).run(mails)


class _Simulation:
    def __init__(self, workers: int, slots: int) -> None:
        self._events: list[tuple[float, int, int, int, MailWork]] = []  # time, order, process, step, mail
        self._order = 0
        self._free = [(0, process) for process in range(workers)]  # slots taken, process: the emptiest first
        self._taken = [0] * workers
        self._core_free = [0.0] * workers
        self._slots = slots
        self._queue: deque[MailWork] = deque()
        self._delays: list[float] = []
        self._end = 0.0

    def run(self, mails: Sequence[MailWork]) -> tuple[list[float], float]:
        coming = iter(sorted(mails, key=lambda mail: mail.arrives))
        mail = next(coming, None)
        while mail or self._events:
            if mail and (not self._events or mail.arrives <= self._events[0][0]):
                self._queue.append(mail)
                self._begin(mail.arrives)
                mail = next(coming, None)
            else:
                now, _, process, step, done = heapq.heappop(self._events)
                self._step(now, process, step, done)
        return self._delays, self._end

    def _begin(self, now: float) -> None:
        """Give the oldest mail a slot of the emptiest process, if there is one."""
        while self._free and self._queue:
            taken, process = heapq.heappop(self._free)
            if taken != self._taken[process] or taken == self._slots:
                continue  # an older note of this process
            mail = self._queue.popleft()
            self._taken[process] += 1
            heapq.heappush(self._free, (self._taken[process], process))
            self._delays.append(now - mail.arrives)
            self._step(now, process, 0, mail)

    def _step(self, now: float, process: int, step: int, mail: MailWork) -> None:
        """Take the core for a step, after those who asked before, then wait for the model, or end."""
        if step == len(mail.steps):
            self._taken[process] -= 1
            heapq.heappush(self._free, (self._taken[process], process))
            self._end = now
            self._begin(now)
            return
        over = max(now, self._core_free[process]) + mail.steps[step]
        self._core_free[process] = over
        wait = mail.waits[step] if step < len(mail.waits) else 0.0
        self._order += 1
        heapq.heappush(self._events, (over + wait, self._order, process, step + 1, mail))


def arrivals(mails_a_day: float, begin: float, end: float, random: Random) -> Iterator[float]:
    """When mail comes in between two seconds of the day: at random, at each hour's rate."""
    at, most = begin, mails_a_day * max(HOURS) / sum(HOURS) / 3600
    while (at := at + random.expovariate(most)) < end:
        if random.random() < HOURS[int(at // 3600) % 24] / max(HOURS):
            yield at


def mails_of(demand: Demand, costs: Costs, clusters: int, begin: float, end: float) -> list[MailWork]:
    """One cluster's mail; the same whenever it is asked for."""
    random = Random(_SEED)
    found = []
    for at in arrivals(demand.mails / clusters, begin, end, random):
        answered = random.random() < demand.answered
        calls = 2 if answered else 1
        own = (costs.answered_ms if answered else costs.ignored_ms) * (1 - costs.postgres) / 1000
        waits = tuple(random.lognormvariate(math.log(demand.model_seconds), demand.model_spread) for _ in range(calls))
        found.append(MailWork(at, (own / (calls + 1),) * (calls + 1), waits))
    return found


def busiest(demand: Demand, costs: Costs, clusters: int) -> list[MailWork]:
    """One cluster's mail of the day's busiest time."""
    begin = HOURS.index(max(HOURS)) * 3600.0
    return mails_of(demand, costs, clusters, begin, begin + _BUSIEST_SECONDS)


def workers_needed(demand: Demand, costs: Costs, fleet: Fleet, most_p99: float) -> int:
    """The fewest processes with which, in the day's busiest time, 99 of 100 mails wait no longer than that."""
    mails = busiest(demand, costs, fleet.clusters)
    low, high = 1, 1
    while _quantile(simulate(mails, high, fleet.slots)[0], 0.99) > most_p99:
        low, high = high + 1, high * 2
    while low < high:
        middle = (low + high) // 2
        if _quantile(simulate(mails, middle, fleet.slots)[0], 0.99) > most_p99:
            low = middle + 1
        else:
            high = middle
    return high


def day(demand: Demand, costs: Costs, fleet: Fleet) -> Delays:
    """A whole day of one cluster."""
    mails = mails_of(demand, costs, fleet.clusters, 0, _DAY)
    delays, end = simulate(mails, fleet.workers, fleet.slots)
    used = sum(sum(mail.steps) for mail in mails)
    p50, p95, p99 = (_quantile(delays, share) for share in (0.5, 0.95, 0.99))
    return Delays(p50, p95, p99, used / (fleet.workers * max(end, _DAY)))


@dataclass(frozen=True, slots=True)
class Load:
    """What one cluster's Postgres is asked for at the day's busiest hour, a second."""

    mails: float
    polls: float
    statements: float
    postgres_cores: float


POLLS = ("every 20 s", "adaptive", "push")
"""Each mailbox every 20 s; those that had mail within the last hour every 20 s and the others every 5 minutes; or when
Gmail tells of mail, and every 30 minutes besides."""


def load(demand: Demand, costs: Costs, clusters: int, polling: str) -> Load:
    """By a way of polling, one of `POLLS`."""
    mails = demand.mails / clusters * max(HOURS) / sum(HOURS) / 3600
    accounts = demand.accounts / clusters
    lively = accounts * (1 - math.exp(-mails * 3600 / accounts))
    polls = {
        "every 20 s": accounts / 20,
        "adaptive": lively / 20 + (accounts - lively) / 300,
        "push": mails + accounts / 1800,
    }[polling]
    answered = demand.answered
    statements = answered * costs.answered_statements + (1 - answered) * costs.ignored_statements
    cpu = (answered * costs.answered_ms + (1 - answered) * costs.ignored_ms) * mails + costs.poll_ms * polls
    return Load(mails, polls, mails * statements + polls * costs.poll_statements, cpu / 1000 * costs.postgres)


def money(demand: Demand, costs: Costs, triage: Price, response: Price) -> float:
    """What the models cost a day: the first call of each mail sorts it, the second answers it."""
    prompt, completion = costs.ignored_tokens
    more = [answered - ignored for answered, ignored in zip(costs.answered_tokens, costs.ignored_tokens, strict=True)]
    return float(triage.of(prompt, completion)) * demand.mails + float(response.of(*more)) * demand.mails * (
        demand.answered
    )


def planned(demand: Demand, costs: Costs, fleet: Fleet, most_p99: float) -> Fleet:
    """The fleet with as many workers as are needed."""
    return replace(fleet, workers=workers_needed(demand, costs, fleet, most_p99))


def _quantile(values: Sequence[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))] if values else 0.0
