"""The simulation of `capacity`, against what queueing theory knows exactly."""

import math
from random import Random

import pytest

from email_assistant.settings.values import Price
from tests.benchmark.capacity import (
    POLLS,
    Costs,
    Demand,
    Fleet,
    MailWork,
    arrivals,
    busiest,
    day,
    load,
    mails_of,
    money,
    planned,
    simulate,
)

DEMAND = Demand(mails=20_000, accounts=500, answered=0.2, model_seconds=2, model_spread=0.5)


def erlang_c_wait(offered: float, servers: int, service: float) -> float:
    """The mean wait of an M/M/c queue."""
    blocked = 1.0
    for n in range(1, servers + 1):
        blocked = offered * blocked / (n + offered * blocked)
    waits = blocked / (1 - offered / servers * (1 - blocked))
    return waits * service / (servers - offered)


@pytest.mark.parametrize(("workers", "slots"), [(1, 8), (4, 2)])
def test_the_wait_for_a_slot_is_that_of_the_theory(workers: int, slots: int) -> None:
    random, at, mails = Random(7), 0.0, []
    for _ in range(60_000):
        at += random.expovariate(3.2)
        mails.append(MailWork(at, (0.0, 0.0), (random.expovariate(0.5),)))

    delays, _ = simulate(mails, workers, slots)

    assert sum(delays) / len(delays) == pytest.approx(erlang_c_wait(6.4, 8, 2.0), rel=0.15)


def test_one_core_holds_up_what_slots_alone_would_not() -> None:
    mails = [MailWork(0.0, (1.0, 1.0), (0.5,)) for _ in range(10)]

    assert simulate(mails, 1, 10)[1] == pytest.approx(20.0)  # seconds of one core
    assert simulate(mails, 2, 5)[1] == pytest.approx(10.0)


def test_mail_comes_in_as_the_day_goes() -> None:
    found = list(arrivals(50_000, 0, 86_400, Random(3)))

    assert len(found) == pytest.approx(50_000, rel=0.02)
    by_hour = [sum(int(at // 3600) == hour for at in found) for hour in (3, 9)]
    assert by_hour[1] == pytest.approx(10 * by_hour[0], rel=0.2)


def test_the_fleet_is_the_smallest_that_keeps_its_promise() -> None:
    costs, fleet = Costs(), Fleet(clusters=1, workers=1, slots=2)

    found = planned(DEMAND, costs, fleet, most_p99=10)

    assert day(DEMAND, costs, found).p99 <= 10
    delays, _ = simulate(busiest(DEMAND, costs, 1), found.workers - 1, 2)
    assert sorted(delays)[int(len(delays) * 0.99)] > 10
    assert planned(DEMAND, costs, Fleet(1, 1, 4), most_p99=10).workers < found.workers
    assert mails_of(DEMAND, costs, 1, 0, 3600) == mails_of(DEMAND, costs, 1, 0, 3600)


def test_fewer_polls_are_less_to_ask_of_postgres() -> None:
    each = [load(DEMAND, Costs(), 1, polling) for polling in POLLS]

    assert each[0].polls == 25
    assert each[0].statements > each[1].statements > each[2].statements
    assert each[2].mails == pytest.approx(20_000 * 10 / 115 / 3600, rel=0.1)


def test_what_a_day_costs_is_what_its_tokens_cost() -> None:
    costs = Costs(ignored_tokens=(100, 10), answered_tokens=(300, 50))
    price = Price.model_validate({"prompt": 1, "completion": 10})

    assert costs.tokens(DEMAND) == (20_000 * 140, 20_000 * 18)
    assert math.isclose(money(DEMAND, costs, price, price), (20_000 * 140 + 20_000 * 18 * 10) / 1e6)


def test_figures_of_speed_take_the_place_of_what_is_assumed() -> None:
    costs = Costs.measured({"CPU of a mail, ignored": 33.0, "an empty poll": 2.5, "`status`": 1})

    assert (costs.ignored_ms, costs.poll_ms, costs.answered_ms) == (33.0, 2.5, Costs().answered_ms)
