"""What the program needs of Google, asked of doubles of other people's making."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests import tables
from tests.contract.google_stage import ADDRESS, TIMEZONE, Double, Stage
from tests.contract.test_google_doubles import cases, check
from tests.doubles.emulator import EmulatedGoogle
from tests.doubles.front import Front
from tests.doubles.myworld import MyWorld, MyWorldGoogle
from tests.tools import need


@pytest.fixture(scope="module")
def stages(myworld: MyWorld) -> Iterator[Callable[[Double], Stage]]:
    """Opens each double once, with an empty mailbox."""
    known: dict[Double, Stage] = {}
    with ExitStack() as open_stages:

        def stage(double: Double) -> Stage:
            if double not in known:
                known[double] = Stage(open_stages.enter_context(_google(double, myworld)))
            return known[double]

        yield stage


def _google(double: Double, myworld: MyWorld) -> Front:
    if double == "myworld":
        return MyWorldGoogle(myworld, ADDRESS, TIMEZONE)
    need("Node 20", "the emulated Google")
    return EmulatedGoogle(ADDRESS)


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(("name", "double"), list(cases("emulators/google", "myworld")))
async def test_outsider(
    name: str, double: Double, stages: Callable[[Double], Stage], record_property: tables.Record
) -> None:
    await check(name, double, stages(double), record_property)
