"""What an installed distribution adds by its entry points: tools, a mail provider, an agent; and its faults."""

import inspect
import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from email_assistant.accounts.provider import CalendarServer, MailServer
from email_assistant.cli import app
from email_assistant.gate.call import Proposed
from email_assistant.gate.policy import GateSession, decide
from email_assistant.google.calendar import Calendar
from email_assistant.google.gmail import Gmail
from email_assistant.plugins import BadPlugin, plugin
from email_assistant.tools.spec import ServerDown
from tests.doubles.google import Google
from tests.doubles.model import Model
from tests.doubles.oracle import Function, Oracle
from tests.integration.home import OpenHome, in_one_loop
from tests.integration.scene import ADA, DONE, reply
from tests.integration.test_chat_tools import begin
from tests.plugins import ENTRY_POINTS, install

NOTES = """
servers:
  pad: {plugin: NAME}
tools:
  add_note: {backend: pad, type: notes}
"""
BROKEN = """
[email_assistant.tools]
gone = acme_plugins:not_there
broken = acme_plugins:broken
nothing = acme_plugins:KEPT
"""


@pytest.fixture(autouse=True)
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where packages are installed; one is."""
    folder = install(tmp_path / "packages")
    monkeypatch.syspath_prepend(folder)
    yield folder
    sys.modules.pop("acme_plugins", None)


def write_tools(tmp_path: Path, name: str = "notes") -> None:
    (tmp_path / "home").mkdir(exist_ok=True)
    (tmp_path / "home" / "tools.yaml").write_text(NOTES.replace("NAME", name))


@in_one_loop
class TestTools:
    async def test_its_tools_are_those_of_a_server_that_is_not_ours(self, open_home: OpenHome, tmp_path: Path) -> None:
        write_tools(tmp_path)
        async with open_home() as home:
            row, _ = await home.app.overview.row("add_note")
            assert (row.state, row.backend, row.is_own, row.labels) == ("ready", "pad", False, None)
            offered = await home.app.tools.offered("chat", home.account_id, ["notes"])
            assert "add_note" in [tool.spec.name for tool in offered.tools]
            arguments = {"text": "Buy milk."}
            proposed = Proposed("add_note", home.app.tools.subject("add_note"), arguments)
            assert decide(GateSession(), proposed).do == "ask"  # nobody has said what it touches

            turn = await begin(home)
            turn.run["allowed_tool_types"] = ["notes"]
            assert "Kept note 1." in await turn.does("add_note", **arguments)
            assert sys.modules["acme_plugins"].KEPT == ["Buy milk."]

    @pytest.mark.parametrize(
        ("name", "said"),
        [
            (
                "notes2",
                "no installed distribution adds 'notes2' to email_assistant.tools; there is broken, gone, notes",
            ),
            ("gone", "gone, of bad-plugins 1.0, can't be used: AttributeError"),
            ("broken", "broken, of bad-plugins 1.0, can't be used: OSError: no disk"),
            ("nothing", "nothing, of bad-plugins 1.0,: acme_plugins:KEPT is nothing that can be called"),
        ],
    )
    async def test_what_is_wrong_is_told_with_its_distribution(
        self, open_home: OpenHome, tmp_path: Path, packages: Path, name: str, said: str
    ) -> None:
        install(packages, BROKEN, name="bad-plugins")
        write_tools(tmp_path, name)
        async with open_home() as home:
            row, _ = await home.app.overview.row("add_note")
            assert row.state == "down"
            assert said in (row.reason or "")
            with pytest.raises(ServerDown):
                await home.app.tools.get("chat", home.account_id, "add_note")


class TestMailProvider:
    @in_one_loop
    async def test_its_mail_is_answered(
        self, open_home: OpenHome, google: Google, model: Model, tmp_path: Path
    ) -> None:
        model.script([[reply("Friday is fine."), DONE]])
        token = json.loads(google.write_token_file(tmp_path / "token.json").read_text()) | {"root": google.root}
        async with open_home(mail_provider="post") as home:
            since = datetime.now(UTC) - timedelta(days=2)
            account = await home.app.accounts.add(home.app.user_id, ADA, token, since, mode="send")
            assert account.provider == "plugin:post"
            mail = await home.receive()
            [item] = await home.pending()
            await home.answer(item, "accept")
            assert await home.is_done(mail)
            assert [sent.text for sent in google.sent] == ["Friday is fine."]
        async with open_home() as home:
            away = home.app.accounts.away(account)
            assert away is not None
            assert "belongs to the provider post" in away

    def test_no_more_is_asked_of_one_than_its_protocol_says(self) -> None:
        for ours, protocol in ((Gmail, MailServer), (Calendar, CalendarServer)):
            assert methods(ours).keys() == methods(protocol).keys()
            for name, method in methods(ours).items():
                told = inspect.signature(methods(protocol)[name]).parameters
                assert list(inspect.signature(method).parameters) == list(told), name

    def test_a_mailbox_is_added_by_a_token_that_it_takes(
        self, google: Google, tmp_path: Path, database_url: str
    ) -> None:
        token = tmp_path / "token.json"
        google.write_token_file(token)
        environment = {
            "EMAIL_ASSISTANT_HOME": str(tmp_path / "home"),
            "EMAIL_ASSISTANT_MAIL_PROVIDER": "post",
            "DATABASE_URL": database_url,
        }
        add = ["account", "add", ADA, "--token-file", str(token)]
        refused = CliRunner().invoke(app, add, env=environment)
        assert (refused.exit_code, "a value in it can't be read" in refused.output) == (1, True)
        token.write_text(json.dumps(json.loads(token.read_text()) | {"root": google.root}))
        added = CliRunner().invoke(app, add, env=environment)
        assert f"Added {ADA}." in added.output
        login = CliRunner().invoke(app, ["auth", "login", ADA], env=environment)
        assert "account add ADDRESS --token-file FILE" in login.output
        found = CliRunner().invoke(app, ["doctor"], env=environment).output
        assert "✓ plugin notes: acme-plugins 1.0, tools" in found
        assert "✓ plugin post: acme-plugins 1.0, mail providers" in found
        assert "✓ plugin rhymer: acme-plugins 1.0, agents" in found
        assert f"✓ {ADA}: active, Gmail answers" in found


class TestAgent:
    @pytest.fixture
    def environment(self, tmp_path: Path) -> dict[str, str]:
        return {"EMAIL_ASSISTANT_HOME": str(tmp_path / "home"), "OPENAI_API_KEY": "none"}

    def test_it_runs_on_the_models_of_the_settings(self, environment: dict[str, str]) -> None:
        def line(functions: list[Function]) -> list[tuple[str, str]]:
            return [("say", '{"text": "A mail in the morning"}')]

        with Oracle(lambda query, step: line) as model:  # type: ignore[arg-type, return-value]
            given = environment | {"OPENAI_BASE_URL": model.url}
            done = CliRunner().invoke(app, ["agent", "rhymer", "Begin."], env=given)
        assert (done.exit_code, done.stdout.strip()) == (0, "Said: A mail in the morning")
        assert json.loads(CliRunner().invoke(app, ["agent", "--json"], env=environment).stdout) == {
            "items": [{"name": "rhymer", "distribution": "acme-plugins 1.0"}]
        }

    def test_two_of_one_name_are_none(self, packages: Path, environment: dict[str, str]) -> None:
        install(packages, ENTRY_POINTS, name="other-plugins")
        with pytest.raises(BadPlugin, match=r"acme-plugins 1\.0 and other-plugins 1\.0 both add 'rhymer'"):
            plugin("agents", "rhymer")
        assert CliRunner().invoke(app, ["agent", "rhymer"], env=environment).exit_code == 1


def methods(kind: type) -> dict[str, Any]:
    return {name: each for name, each in vars(kind).items() if not name.startswith("_") and callable(each)}
