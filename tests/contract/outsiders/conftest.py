"""Other people's Google doubles as processes, and the program before one of them."""

from collections.abc import Iterator

import pytest

from tests.doubles.emulator import EmulatedGoogle
from tests.doubles.model import Model
from tests.doubles.myworld import MyWorld
from tests.integration.scene import ADA
from tests.tools import need


@pytest.fixture(scope="session")
def myworld() -> Iterator[MyWorld]:
    with MyWorld() as host:
        yield host


@pytest.fixture(scope="module")
def google(request: pytest.FixtureRequest) -> Iterator[EmulatedGoogle]:
    """Ada's account, for all tests of a file."""
    need("Node 20", "the emulated Google")
    with EmulatedGoogle(ADA, request.getfixturevalue("myworld")) as double:
        yield double
        assert [call for call in double.calls("unknown") if not call.path.startswith("/o/oauth2/")] == []


@pytest.fixture(scope="module")
def model() -> Iterator[Model]:
    """Every mail is to be answered, until a test says otherwise."""
    with Model() as double:
        double.on_triage("respond")
        yield double
        assert double.violations == []
