"""What becomes of a test that needs a tool which is not there."""

from collections.abc import Mapping

import pytest

from tests import tools


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds: Mapping[str, object] = {"tea": (lambda: True, "at the shop"), "milk": (lambda: False, "from a cow")}
    monkeypatch.setattr(tools, "TOOLS", kinds)


def test_it_is_skipped_by_the_name_of_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match=r"^missing: milk \(from a cow\)$"):
        tools.need("tea", "milk")


def test_in_ci_it_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "1")
    with pytest.raises(pytest.fail.Exception, match="milk"):
        tools.need("tea", "milk")


def test_nothing_is_said_where_all_is_there() -> None:
    tools.need("tea")
