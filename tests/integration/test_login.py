"""Logging in at Google by the real command line; a person's browser is an HTTP client, Google is the sandbox."""

import asyncio
import json
import re
import signal
import socket
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import psycopg
import pytest

from email_assistant.db.pool import session_settings
from tests.contract.faulty_http import Answer, FaultyServer, ok
from tests.doubles import warm
from tests.doubles.daemon import Daemon, Process
from tests.doubles.google import Google
from tests.doubles.model import Model
from tests.doubles.serving import Hold
from tests.integration.conftest import Start
from tests.integration.home import Home, in_one_loop, reached
from tests.integration.scene import ADA

ALEX = "alex@sandbox.example"
EVE = "eve@sandbox.example"
ROOT = "https://www.googleapis.com/auth"
GMAIL = f"{ROOT}/gmail.modify"
ASKED = [GMAIL, *(f"{ROOT}/calendar.{name}" for name in ("events", "calendarlist.readonly", "settings.readonly"))]
CLOSED = "http://127.0.0.1:9"


class Sandbox:
    """One person's account at Google, under a client of the test's own."""

    def __init__(self, folder: Path, address: str, *options: str) -> None:
        self.data = folder / f"{address}.sqlite"
        given = ("--exit-with-parent", *options, "--data", str(self.data), "--address", address)
        self.process = subprocess.Popen(
            warm.command("-m", "email_assistant_servers.google_sandbox", *given),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout
        self.root = json.loads(self.process.stdout.readline())["root"]
        self.sql("update facts set value = 'the-client' where name = 'client_id'")
        self.sql("update facts set value = 'the-client-secret' where name = 'client_secret'")

    def sql(self, query: str) -> list[tuple[Any, ...]]:
        with sqlite3.connect(self.data, timeout=10) as db:
            db.execute("pragma foreign_keys = on")
            return db.execute(query).fetchall()

    @property
    def logins(self) -> list[str]:
        """The refresh tokens that are good now."""
        return [token for (token,) in self.sql("select refresh_token from grants")]

    def close(self) -> None:
        self.process.communicate("", timeout=30)


Open = Callable[..., Sandbox]
Make = Callable[..., Daemon]


@pytest.fixture
def model() -> Iterator[Model]:
    """Answers what `doctor` asks, as far as it matters here."""
    with Model() as double:
        yield double


@pytest.fixture
def open_sandbox(tmp_path: Path) -> Iterator[Open]:
    opened: list[Sandbox] = []

    def open_one(address: str, *options: str) -> Sandbox:
        opened.append(Sandbox(tmp_path, address, *options))
        return opened[-1]

    yield open_one
    for sandbox in opened:
        sandbox.close()


@pytest.fixture(scope="module")
def alex(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    opened = Sandbox(tmp_path_factory.mktemp("alex"), ALEX)
    yield opened
    opened.close()


@pytest.fixture
def sandbox(alex: Sandbox) -> Sandbox:
    """Alex's account, which nobody has logged in to."""
    alex.sql("delete from grants")
    return alex


@pytest.fixture
def make(tmp_path: Path, database_url: str, google: Google, model: Model) -> Iterator[Make]:
    """The program on one home folder and database, with settings of the test's own."""
    made: list[Daemon] = []

    def make_one(**settings: object) -> Daemon:
        key = {"secret_key": made[0].environment["EMAIL_ASSISTANT_SECRET_KEY"]} if made else {}
        made.append(Daemon(tmp_path, database_url, google, model, **key, **settings))
        return made[-1]

    yield make_one
    for daemon in made:
        daemon.close()


@pytest.fixture
def program(make: Make, sandbox: Sandbox) -> Daemon:
    return make(google_root=sandbox.root, google_timeout_seconds=10, lease_seconds=60)


@pytest.fixture
def client_file(tmp_path: Path) -> Path:
    file = tmp_path / "client.json"
    file.write_text(json.dumps({"installed": {"client_id": "the-client", "client_secret": "the-client-secret"}}))
    return file


def begin(program: Daemon, *arguments: str | Path) -> Process:
    return program._start("login", "auth", "login", "--no-browser", *map(str, arguments))


def page(program: Daemon, login: Process) -> str:
    """The address of Google's page, once it is printed."""
    return program.wait_for(lambda: re.search(r"^http\S+$", login.log, re.M) or not login.is_running, login.log)[0]  # type: ignore[index]


def consent(url: str, scopes: list[str] | None = None, decision: str = "continue") -> httpx.Response:
    """The person answers in the browser; what the browser shows last."""
    with httpx.Client(trust_env=False, follow_redirects=True, timeout=30) as browser:
        assert "wants to use" in browser.get(url).text
        return browser.post(url, data={"scope": ASKED if scopes is None else scopes, "decision": decision})


def log_in(
    program: Daemon, *arguments: str | Path, scopes: list[str] | None = None, decision: str = "continue"
) -> Process:
    """Log in as a person does, to the end of the command."""
    login = begin(program, *arguments)
    assert "You can close this page" in consent(page(program, login), scopes, decision).text
    program.wait_for(lambda: not login.is_running, "the command ends")
    return login


def said(login: Process) -> str:
    """The one line with which a login ended that did not come about."""
    assert login.exit_code == 1, login.log
    [line] = [line for line in login.log.splitlines() if line.startswith("Error: ")]
    assert login.log.rstrip().endswith(line)
    return line


def status(program: Daemon) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = program.cli("auth", "status", "--json")["items"]
    return items


def stored_tokens(database_url: str) -> bytes:
    with psycopg.connect(database_url, **session_settings(database_url)) as conn:
        return b"".join(bytes(row[0]) for row in conn.execute("select token from accounts"))


class TestLogin:
    def test_it_connects_the_mailbox(
        self, program: Daemon, sandbox: Sandbox, client_file: Path, database_url: str
    ) -> None:
        login = begin(program, ALEX, "--client-secret", client_file, "--since", "7d")
        url = page(program, login)
        asked = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
        home = asked["redirect_uri"]
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/", home)
        assert f"ssh -L {urlsplit(home).port}:127.0.0.1:{urlsplit(home).port} " in login.log
        assert asked["scope"].split() == ASKED
        assert len(asked.pop("state")) >= 32
        assert len(asked.pop("code_challenge")) == 43
        assert asked == {
            "client_id": "the-client",
            "redirect_uri": home,
            "response_type": "code",
            "scope": asked["scope"],
            "code_challenge_method": "S256",
            "access_type": "offline",
            "prompt": "consent",
            "login_hint": ALEX,
        }

        strays = ("favicon.ico", "?code=theirs", "?code=theirs&state=theirs", "?error=access_denied&state=")
        refused = [httpx.get(home + stray, trust_env=False).status_code for stray in strays]
        assert refused == [404, 400, 400, 400]
        shown = consent(url)
        assert "You can close this page" in shown.text
        assert "<script" not in shown.text
        assert "http" not in shown.text
        program.wait_for(lambda: not login.is_running, "the command ends")

        assert login.exit_code == 0, login.log
        assert f"Connected {ALEX}." in login.log
        [refresh_token] = sandbox.logins
        code = parse_qs(urlsplit(str(shown.url)).query)["code"][0]
        bearers = [token for (token,) in sandbox.sql("select token from bearers")]
        for secret in (refresh_token, code, *bearers, "the-client-secret"):
            assert secret not in login.log
            assert secret.encode() not in stored_tokens(database_url)
        assert "nothing is sent or changed in Gmail" in login.log
        [listed] = program.cli("account", "list", "--json")["items"]
        assert (listed["address"], listed["mode"]) == (ALEX, "shadow")
        [account] = status(program)
        assert (account["state"], account["missing"], account["todo"]) == ("active", [], [])
        assert sorted(account["granted"]) == sorted(ASKED)

    def test_the_browser_is_opened_unless_it_must_not_be(
        self, program: Daemon, sandbox: Sandbox, client_file: Path, tmp_path: Path
    ) -> None:
        opened = tmp_path / "opened"
        script = tmp_path / "browser"
        script.write_text(f'#!/bin/sh\necho "$1" >> {opened}\n')
        script.chmod(0o755)
        program.environment["BROWSER"] = f"{script} %s"
        log_in(program, "--client-secret", client_file)
        assert not opened.exists()
        login = program._start("login", "auth", "login")
        url = page(program, login)
        assert program.wait_for(lambda: opened.exists() and opened.read_text()) == f"{url}\n"
        consent(url)
        program.wait_for(lambda: not login.is_running, "the command ends")
        assert f"Connected {ALEX}." in login.log

    def test_a_second_account_needs_no_file(
        self, program: Daemon, make: Make, open_sandbox: Open, client_file: Path
    ) -> None:
        log_in(program, "--client-secret", client_file)
        other = make(google_root=open_sandbox(EVE).root, google_timeout_seconds=10, lease_seconds=60)
        assert log_in(other, EVE).exit_code == 0
        assert [(a["address"], a["state"]) for a in status(other)] == [(ALEX, "active"), (EVE, "active")]

    @pytest.mark.parametrize("days", ["7", "2"])
    def test_a_login_that_ends_by_itself_is_said_to(
        self, make: Make, open_sandbox: Open, client_file: Path, days: str
    ) -> None:
        sandbox = open_sandbox(ALEX, "--login-days", days)
        program = make(google_root=sandbox.root, google_timeout_seconds=10, lease_seconds=60)
        login = log_in(program, "--client-secret", client_file)
        assert "choose Publish app" in login.log
        [account] = status(program)
        left = datetime.fromisoformat(account["login_ends"]) - datetime.now(UTC)
        assert timedelta(days=int(days)) - timedelta(minutes=5) < left <= timedelta(days=int(days))
        [todo] = account["todo"]
        assert ("the login ends soon" in todo) == (days == "2")
        assert todo in program.run("doctor").stdout


class TestPartialConsent:
    def test_without_gmail_nothing_is_stored(self, program: Daemon, sandbox: Sandbox, client_file: Path) -> None:
        line = said(log_in(program, "--client-secret", client_file, scopes=ASKED[1:]))
        assert "tick “Read, compose, and send emails from your Gmail account”" in line
        assert status(program) == []
        assert sandbox.logins == []

    def test_without_the_calendar_it_goes_on_and_says_what_is_lost(
        self, program: Daemon, sandbox: Sandbox, client_file: Path
    ) -> None:
        login = log_in(program, "--client-secret", client_file, scopes=[GMAIL])
        assert login.exit_code == 0, login.log
        lost = "without “View and edit events on all your calendars” your calendar is not looked into"
        assert lost in login.log
        [account] = status(program)
        assert account["missing"] == ASKED[1:]
        assert lost in program.run("auth", "status").stdout
        doctor = program.run("doctor")
        assert f"✗ {ALEX}, allowed: {lost}" in doctor.stdout
        assert f"✓ {ALEX}: active, Gmail answers" in doctor.stdout

        log_in(program, ALEX)
        [account] = status(program)
        assert (account["missing"], account["todo"]) == ([], [])


class TestRefused:
    def test_another_account_than_the_one_that_was_meant(
        self, program: Daemon, sandbox: Sandbox, client_file: Path
    ) -> None:
        line = said(log_in(program, EVE, "--client-secret", client_file))
        assert f"you chose {ALEX} in the browser, not {EVE}" in line
        assert status(program) == []
        assert sandbox.logins == []

    def test_which_ends_no_login_that_is_in_use(self, program: Daemon, sandbox: Sandbox, client_file: Path) -> None:
        log_in(program, "--client-secret", client_file)
        said(log_in(program, EVE))
        said(log_in(program, scopes=ASKED[1:]))
        assert [account["address"] for account in status(program)] == [ALEX]
        assert f"✓ {ALEX}: active, Gmail answers" in program.run("doctor").stdout

    def test_consent(self, program: Daemon, sandbox: Sandbox, client_file: Path) -> None:
        assert "you did not allow it (access_denied)" in said(
            log_in(program, "--client-secret", client_file, decision="cancel")
        )
        assert status(program) == []
        assert sandbox.logins == []

    def test_a_code_without_the_secret_of_this_login(
        self, program: Daemon, sandbox: Sandbox, client_file: Path
    ) -> None:
        login = begin(program, "--client-secret", client_file)
        url = page(program, login)
        consent(re.sub("code_challenge=[^&]+", "code_challenge=" + "A" * 43, url))
        program.wait_for(lambda: not login.is_running, "the command ends")
        assert "Google did not complete the login (invalid_grant)" in said(login)
        assert status(program) == []

    def test_a_port_that_is_taken(self, program: Daemon, client_file: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as other:
            port = other.getsockname()[1]
            done = program.run(
                "auth", "login", "--no-browser", "--client-secret", str(client_file), "--port", str(port)
            )
        assert done.returncode == 1
        assert f"port {port} can't be used here; give another" in done.stderr

    @pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
    def test_in_a_container_the_answer_comes_to_another_address(
        self, program: Daemon, client_file: Path, host: str
    ) -> None:
        """Where it is published on the machine's loopback; and nowhere else does anybody reach it there."""
        login = begin(program, "--client-secret", client_file, "--host", host)
        url = page(program, login)
        [home] = parse_qs(urlsplit(url).query)["redirect_uri"]
        assert home.startswith("http://127.0.0.1:")
        there = home.replace("127.0.0.1", "127.0.0.2")
        if host == "0.0.0.0":
            assert httpx.get(there, trust_env=False).status_code == 400
        else:
            with pytest.raises(httpx.ConnectError):
                httpx.get(there, trust_env=False)
        assert "You can close this page" in consent(url).text
        program.wait_for(lambda: not login.is_running, "the command ends")
        assert login.exit_code == 0

    def test_a_login_that_nobody_finishes(self, make: Make, sandbox: Sandbox, client_file: Path) -> None:
        program = make(google_root=sandbox.root, login_seconds=0.2)
        done = program.run("auth", "login", "--no-browser", "--client-secret", str(client_file))
        assert done.returncode == 1
        assert "nobody answered in the browser within 0.2 s" in done.stderr

    def test_it_can_be_interrupted(self, program: Daemon, client_file: Path) -> None:
        login = begin(program, "--client-secret", client_file)
        page(program, login)
        login.kill(signal.SIGINT)
        assert login.exit_code == 130
        assert "Traceback" not in login.log
        assert "Error" not in login.log

    @pytest.mark.parametrize(
        ("content", "says"),
        [
            (None, "this needs an OAuth client"),
            ('{"web": {"client_id": "x", "client_secret": "y"}}', "type Web application; make one of type Desktop app"),
            ('{"installed": {"client_id": "x"}}', "missing client_secret"),
            ('{"installed": {"client_id": "x", "client_secret": "y", "auth_uri": "file:///etc"}}', "no web address"),
            ("[]", "not a JSON object"),
        ],
    )
    def test_a_client_that_does_not_serve(
        self, program: Daemon, tmp_path: Path, content: str | None, says: str
    ) -> None:
        file = tmp_path / "other.json"
        file.write_text(content or "")
        option = [] if content is None else ["--client-secret", str(file)]
        done = program.run("auth", "login", "--no-browser", *option)
        assert (done.returncode, done.stdout) == (1, "")
        assert says in done.stderr
        assert "choose Publish app (logins of a client in Testing end after 7 days)" in done.stderr
        assert "Google Auth Platform > Clients" in done.stderr
        assert len(done.stderr.splitlines()) == 1


class TestLogout:
    def test_it_revokes_and_a_login_revives(
        self, program: Daemon, sandbox: Sandbox, client_file: Path, database_url: str
    ) -> None:
        log_in(program, "--client-secret", client_file)
        assert "Google has revoked it" in program.cli("auth", "logout", ALEX, "--yes")
        assert sandbox.logins == []
        [account] = status(program)
        assert (account["state"], account["last_error"]) == ("login", "you logged out")
        assert account["todo"] == [f"log in again with `email-assistant auth login {ALEX}`"]
        assert "the token lacks refresh_token" in program.run("doctor").stdout
        again = program.run("auth", "logout", ALEX, "--yes")
        assert (again.returncode, "is logged out already" in again.stderr) == (1, True)

        assert log_in(program, ALEX).exit_code == 0
        [account] = status(program)
        assert (account["state"], account["last_error"]) == ("active", None)
        assert f"✓ {ALEX}: active, Gmail answers" in program.run("doctor").stdout

    def test_a_login_that_google_has_ended_already_is_fine(
        self, program: Daemon, sandbox: Sandbox, client_file: Path
    ) -> None:
        log_in(program, "--client-secret", client_file)
        sandbox.sql("delete from grants")
        doctor = program.run("doctor")
        assert "(invalid_grant)" in doctor.stdout or "401" in doctor.stdout
        assert "auth login" in doctor.stdout
        assert "Google had ended it already" in program.cli("auth", "logout", ALEX, "--yes")
        assert [account["state"] for account in status(program)] == ["login"]

    def test_without_google_it_is_forgotten_only_when_that_is_wanted(
        self, program: Daemon, make: Make, sandbox: Sandbox, client_file: Path
    ) -> None:
        log_in(program, "--client-secret", client_file)
        away = make(google_root=CLOSED)
        done = away.run("auth", "logout", ALEX, "--yes")
        assert done.returncode == 1
        assert "so nothing was changed" in done.stderr
        assert [account["state"] for account in status(program)] == ["active"]
        assert "end it at https://myaccount.google.com/connections too" in away.cli(
            "auth", "logout", ALEX, "--yes", "--force"
        )
        assert [account["state"] for account in status(program)] == ["login"]
        assert len(sandbox.logins) == 1


@in_one_loop
class TestMeanwhile:
    async def test_a_look_that_was_under_way_does_not_hide_that_the_person_logged_out(
        self, home: Home, google: Google
    ) -> None:
        google.fault("token", hold=(hold := Hold()))
        look = asyncio.create_task(home.works.sync_account(home.account_id))
        await reached(hold)
        await home.app.accounts.log_out(await home.account())
        google.revoke()
        hold.release()
        await look
        account = await home.account()
        assert (account.state, account.last_error) == ("login", "you logged out")


class TestRenewal:
    def test_two_processes_that_need_it_at_once_renew_once(
        self, connect: Start, google: Google, database_url: str
    ) -> None:
        program = connect(google_timeout_seconds=10, lease_seconds=30)
        renewals = len(google.calls("token"))
        google.fault("token", hold=(hold := Hold()))
        first, second = (program._start("doctor", "doctor", EMAIL_ASSISTANT_GOOGLE_ROOT=root) for root in google.roots)
        hold.reached()
        program.wait_for(lambda: _waiting(database_url), "the other waits for the first")
        hold.release()
        program.wait_for(lambda: not (first.is_running or second.is_running), "both are done")
        for doctor in (first, second):
            assert f"✓ {ADA}: active, Gmail answers" in doctor.log
        assert len(google.calls("token")) == renewals + 1

        program.run("doctor")
        assert len(google.calls("token")) == renewals + 1

    def test_a_renewal_does_not_overwrite_a_newer_login(self, connect: Start, google: Google, tmp_path: Path) -> None:
        program = connect(google_timeout_seconds=10, lease_seconds=30)
        google.fault("token", hold=(hold := Hold()))
        slow = program._start("doctor", "doctor")
        hold.reached()
        google.grant("refresh-2")
        token = json.loads(google.write_token_file(tmp_path / "token.json").read_text())
        (tmp_path / "token.json").write_text(json.dumps(token | {"refresh_token": "refresh-2"}))
        program.cli("account", "add", ADA, "--token-file", str(tmp_path / "token.json"))
        hold.release()
        program.wait_for(lambda: not slow.is_running, "the slow one is done")
        google.revoke()
        google.expire_access_tokens()
        assert f"✓ {ADA}: active, Gmail answers" in program.run("doctor").stdout


def _waiting(database_url: str) -> bool:
    with psycopg.connect(database_url) as conn:
        query = """select from pg_locks where locktype = 'advisory' and not granted
                   and database = (select oid from pg_database where datname = current_database())"""
        return conn.execute(query).fetchone() is not None


class TestDoctor:
    @pytest.mark.parametrize(("minutes", "says"), [(10, "10 minutes behind"), (-10, "10 minutes ahead of"), (1, None)])
    def test_clock_timezone_and_sender(self, make: Make, tmp_path: Path, minutes: int, says: str | None) -> None:
        server = FaultyServer()
        now = format_datetime(datetime.now(UTC) + timedelta(minutes=minutes), usegmt=True)
        server.answer("GET", "/token", Answer(404, b"", {"Date": now}))
        server.answer("POST", "/token", ok({"access_token": "a", "expires_in": 3600}))
        me = "/gmail/v1/users/me"
        server.answer("GET", f"{me}/profile", ok({"emailAddress": ADA, "historyId": "1"}))
        aliases = [
            {"sendAsEmail": ADA, "isPrimary": True},
            {"sendAsEmail": "info@example.com", "verificationStatus": "pending"},
        ]
        server.answer("GET", f"{me}/settings/sendAs", ok({"sendAs": aliases}))
        program = make(google_root=server.url)
        program.account_add(ADA)
        doctor = program.run("doctor").stdout
        server.close()
        assert (f"✗ clock: this machine's is {says} Google's" in doctor) == (says is not None)
        assert ("✓ clock: as Google's" in doctor) == (says is None)
        assert f"✗ {ADA}, timezone: Google does not tell it" in doctor
        assert f"✗ {ADA}, sender: Gmail has not verified info@example.com" in doctor
        assert f"✓ {ADA}, allowed: not known" in doctor
