"""Whatever is wrong around the program, it says so in one line with what to do next, and loses nothing."""

import contextlib
import fcntl
import gzip
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from datetime import datetime
from html import unescape
from pathlib import Path

import psycopg
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from email_assistant.settings import Settings
from email_assistant.settings.environment import SettingsError
from tests.doubles import warm
from tests.doubles.daemon import Daemon, Process
from tests.doubles.google import Google
from tests.doubles.model import Model, tool
from tests.doubles.serving import Hold, Server

ADA = "ada@example.com"
BOB = "Bob Berg <bob@example.org>"
PASSWORD = "the-password-of-the-test"
CLOSED = "http://127.0.0.1:1"
"""Nothing listens on port 1."""

Finished = subprocess.CompletedProcess[str]
Make = Callable[..., Daemon]


@pytest.fixture
def google() -> Iterator[Google]:
    with Google(ADA) as double:
        yield double


@pytest.fixture
def model() -> Iterator[Model]:
    with Model() as double:
        double.on_triage("respond")
        reply = tool("send_email_tool", response_text="Yes.", email_address="bob@example.org")
        double.script(lambda _: [reply, tool("Done", done=True)])
        yield double


@pytest.fixture
def make(tmp_path: Path, database_url: str, google: Google, model: Model) -> Iterator[Make]:
    """The program on one home folder and database; nothing runs yet. Keywords in capitals are variables as they are."""
    made: list[Daemon] = []

    def make_one(**settings: object) -> Daemon:
        ours = {name: value for name, value in settings.items() if not name.isupper()}
        made.append(Daemon(tmp_path, database_url, google, model, **ours))
        made[-1].environment.update({name: str(value) for name, value in settings.items() if name.isupper()})
        return made[-1]

    yield make_one
    for daemon in made:
        daemon.close()


@pytest.fixture
def program(make: Make) -> Daemon:
    return make()


def complaint(done: Finished) -> str:
    """The one line that a refused command leaves."""
    assert done.returncode == 1, (done.stdout, done.stderr)
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("Error: ")
    assert PASSWORD not in done.stderr
    return lines[0]


def complains(process: Process) -> str:
    """The line with which a process that was meant to run for long ended."""
    deadline = time.monotonic() + 60
    while process.is_running and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not process.is_running, process.log
    assert "Traceback" not in process.log
    (line,) = [line for line in process.log.splitlines() if line.startswith("Error: ")]
    return line


class TestDatabase:
    @pytest.mark.parametrize(
        ("url", "says"),
        [
            ("foo", "DATABASE_URL can't be read; it looks like postgresql://"),
            (f"mysql://ada:{PASSWORD}@127.0.0.1/mail", "DATABASE_URL can't be read; it looks like postgresql://"),
            (f"postgresql://ada:{PASSWORD}@127.0.0.1/mail?nonsense=1", '"nonsense"'),
            (f"postgresql://ada:1@{PASSWORD}@127.0.0.1:1/mail", "in a password @ is written %40"),
            (f"postgresql://ada:1/{PASSWORD}@127.0.0.1/mail", "in a password @ is written %40, / %2F"),
            (f"postgresql://ada:{PASSWORD}/1@127.0.0.1/mail", "in a password @ is written %40, / %2F"),
            (f"postgresql://ada:{PASSWORD}@nowhere.invalid/mail", "nowhere.invalid"),
            (f"postgresql://ada:{PASSWORD}@127.0.0.1:1/mail", "Connection refused; check DATABASE_URL"),
        ],
    )
    def test_url_that_leads_nowhere(self, make: Make, url: str, says: str) -> None:
        assert says in complaint(make(DATABASE_URL=url).run("status"))

    def test_up_says_the_same(self, make: Make) -> None:
        daemon = make(DATABASE_URL=f"postgresql://ada:{PASSWORD}@127.0.0.1:1/mail")
        assert "Connection refused; check DATABASE_URL" in complains(daemon._start("up", "up", "--port", "0"))

    def test_no_such_database(self, make: Make, postgres_url: str) -> None:
        said = complaint(make(DATABASE_URL=postgres_url.replace("/postgres?", "/missing?")).run("status"))
        assert 'database "missing" does not exist' in said

    @pytest.mark.parametrize("option", ["sslmode=nonsense", "options=-c%20nonsense%3D1"])
    def test_option_with_a_bad_value(self, make: Make, database_url: str, option: str) -> None:
        assert "nonsense" in complaint(make(DATABASE_URL=f"{database_url}&{option}").run("status"))

    def test_wrong_password(self, make: Make, database_url: str) -> None:
        with _person(database_url) as url:
            said = complaint(make(DATABASE_URL=url.replace(":right@", f":{PASSWORD}@")).run("status"))
        assert "password authentication failed" in said
        assert "check DATABASE_URL" in said

    def test_no_right_to_make_a_schema(self, make: Make, empty_database_url: str) -> None:
        with _person(empty_database_url) as url:
            said = complaint(make(DATABASE_URL=url).run("status"))
            assert f"create schema email_assistant authorization {PERSON}" in said
            with psycopg.connect(empty_database_url, autocommit=True) as conn:
                conn.execute(said.partition("administrator run: ")[2].partition(" in database")[0])
            assert make(DATABASE_URL=url).cli("status", "--json")["mails"] == 0

    def test_read_only(self, make: Make, database_url: str) -> None:
        url = f"{database_url}&options=-c%20default_transaction_read_only%3Don"
        assert "takes no writes; name the primary server" in complaint(make(DATABASE_URL=url).run("status"))

    @pytest.mark.parametrize(
        ("name", "value", "says"),
        [
            ("PGCONNECT_TIMEOUT", "abc", "PGCONNECT_TIMEOUT in the environment, takes a number of seconds"),
            ("PGSERVICE", "work", "check DATABASE_URL, and PGSERVICE in the environment"),
            ("PGREQUIREAUTH", "scram-sha-256", "check DATABASE_URL, and PGREQUIREAUTH in the environment"),
        ],
    )
    def test_variable_of_libpq_that_leads_nowhere(self, make: Make, name: str, value: str, says: str) -> None:
        assert says in complaint(make(**{name: value}).run("status"))

    def test_texts_come_in_utf8_whatever_the_environment_says(self, make: Make) -> None:
        assert make(PGCLIENTENCODING="SQL_ASCII").cli("status", "--json")["mails"] == 0

    def test_the_embedded_one_heeds_no_variable_of_libpq(self, make: Make, tmp_path: Path) -> None:
        """A person's tools may still be told by them where that person's other databases are."""
        variables = {
            "PGSERVICE": "work",
            "PGHOSTADDR": "10.0.0.1",
            "PGREQUIREAUTH": "scram-sha-256",
            "PGCONNECT_TIMEOUT": "abc",
            "PGCLIENTENCODING": "SQL_ASCII",
        }
        program = make(DATABASE_URL="", PGPASSWORD=PASSWORD, **variables)
        (tmp_path / "assistant").mkdir()
        command = '{command: [ledger], env: {PGPASSWORD: "${PGPASSWORD}"}}'
        (tmp_path / "assistant/tools.yaml").write_text(f"servers: {{ledger: {command}}}\n")
        program.account_add(ADA)
        program.up()
        program.cli("backup", str(tmp_path / "backup.tar.gz"))
        for name in variables:
            del program.environment[name]
        assert program.cli("account", "list", "--json")["items"][0]["address"] == ADA

    def test_too_old(self, make: Make) -> None:
        with _old_server("12.22") as port:
            said = complaint(make(DATABASE_URL=f"postgresql://ada@127.0.0.1:{port}/mail?sslmode=disable").run("status"))
        assert "PostgreSQL 12; use 13 or newer" in said


PERSON = f"test_person_{os.getpid()}"


@contextlib.contextmanager
def _person(url: str) -> Iterator[str]:
    """A URL by which somebody with few rights logs in."""
    with psycopg.connect(url, autocommit=True) as conn, contextlib.ExitStack() as stack:
        rules = Path(f"/proc/{conn.info.backend_pid}/cwd/pg_hba.conf")
        alone = stack.enter_context(rules.open())  # of all who test at once on this server
        fcntl.flock(alone, fcntl.LOCK_EX)
        before = rules.read_text()
        conn.execute(f"create role {PERSON} login password 'right'")
        try:
            rules.write_text(f"local all {PERSON} scram-sha-256\n{before}")
            conn.execute("select pg_reload_conf()")
            _until(lambda: not _refused(url.replace("postgres@", f"{PERSON}:right@")))
            yield url.replace("postgres@", f"{PERSON}:right@")
        finally:
            rules.write_text(before)
            conn.execute("select pg_reload_conf()")
            conn.execute(f"drop owned by {PERSON} cascade")
            conn.execute(f"drop role {PERSON}")


def _refused(url: str) -> bool:
    try:
        psycopg.connect(url).close()
    except psycopg.OperationalError:
        return True
    return False


@contextlib.contextmanager
def _old_server(version: str) -> Iterator[int]:
    """Speaks as much of Postgres's protocol as a log-in needs, and says that it is of this version."""

    def message(kind: bytes, content: bytes) -> bytes:
        return kind + (len(content) + 4).to_bytes(4, "big") + content

    def answer() -> None:
        with contextlib.suppress(OSError):
            while True:
                caller, _ = listener.accept()
                caller.recv(4096)
                caller.sendall(
                    message(b"R", bytes(4))
                    + message(b"S", b"server_version\0" + version.encode() + b"\0")
                    + message(b"S", b"client_encoding\0UTF8\0")
                    + message(b"Z", b"I")
                )

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=answer, daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


class TestSettings:
    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("EMAIL_ASSISTANT_CONCURRENCY", "0"),
            ("EMAIL_ASSISTANT_CONCURRENCY", "many"),
            ("EMAIL_ASSISTANT_LOG_LEVEL", "LOUD"),
            ("EMAIL_ASSISTANT_POLL_SECONDS", "nan"),
            ("EMAIL_ASSISTANT_POLL_SECONDS", "inf"),
            ("EMAIL_ASSISTANT_UNDO_SECONDS", "1e308"),
            ("EMAIL_ASSISTANT_EXPIRE_DAYS", "99999999999"),
            ("EMAIL_ASSISTANT_LEASE_SECONDS", "1"),
            ("EMAIL_ASSISTANT_SECRET_KEY", "short"),
            ("EMAIL_ASSISTANT_PRICES", "[1]"),
        ],
    )
    def test_value_out_of_range(self, make: Make, name: str, value: str) -> None:
        assert name in complaint(make(**{name: value}).run("status"))

    def test_no_json(self, make: Make) -> None:
        assert "prices" in complaint(make(EMAIL_ASSISTANT_PRICES="{").run("status"))

    def test_token_that_could_be_guessed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("EMAIL_ASSISTANT_API_TOKEN", "sixteen-or-more.")
        assert Settings.load().api_token
        monkeypatch.setenv("EMAIL_ASSISTANT_API_TOKEN", "fifteen-letters")
        with pytest.raises(SettingsError, match="EMAIL_ASSISTANT_API_TOKEN: takes at least 16") as refused:
            Settings.load()
        assert "fifteen-letters" not in str(refused.value)

    @pytest.mark.parametrize("place", ["file", "file/below"])
    def test_home_is_a_file(self, make: Make, tmp_path: Path, place: str) -> None:
        (tmp_path / "file").touch()
        said = complaint(make(EMAIL_ASSISTANT_HOME=tmp_path / place, DATABASE_URL="").run("status"))
        assert f"EMAIL_ASSISTANT_HOME: {tmp_path / place} can't be made" in said

    @pytest.mark.parametrize("embedded", [True, False])
    @pytest.mark.parametrize("command", ["status", "up", "demo"])
    def test_home_cannot_be_written_to(self, make: Make, command: str, embedded: bool) -> None:
        # Linux lets nobody make files there, not even root.
        changes = {"DATABASE_URL": ""} if embedded else {}
        daemon = make(EMAIL_ASSISTANT_HOME="/sys", EMAIL_ASSISTANT_SECRET_KEY="", **changes)
        daemon.environment.pop("EMAIL_ASSISTANT_API_TOKEN")
        port = ["--port", "0"] if command == "up" else []
        said = complains(daemon._start(command, command, *port))
        assert "/sys/" in said
        assert "EMAIL_ASSISTANT_HOME" in said

    @pytest.mark.parametrize("arguments", [("up", "--port", "70000"), ("demo", "--host", "nowhere.invalid")])
    def test_address_that_there_is_not(self, program: Daemon, arguments: tuple[str, ...]) -> None:
        assert "choose others with --host, --port" in complains(program._start("up", *arguments))

    def test_port_is_taken(self, program: Daemon) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            said = complains(program._start("up", "up", "--port", str(taken.getsockname()[1])))
        assert "Address already in use" in said
        assert "--port" in said


class TestMailboxFile:
    @pytest.mark.parametrize(
        ("name", "content", "says"),
        [
            ("missing.mbox", None, "there is no such file"),
            ("empty.mbox", b"", "is empty"),
            ("blank.mbox", b"\n\n\n", "is empty"),
            ("picture.png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "does not begin with a 'From ' line"),
            ("zeros.mbox", bytes(3_000_000), "does not begin with a 'From ' line"),
            ("takeout.zip", b"PK\x03\x04\x14\0\0\0", "is packed by zip"),
            ("mail.mbox.gz", gzip.compress(b"From ada Mon May  4 10:00:00 2026\n", mtime=0), "is packed by gzip"),
            ("one.eml", b"Subject: Hello\r\nFrom: bob@example.org\r\n\r\nHi\r\n", "looks like one single mail"),
            ("prose.txt", b"Dear diary,\n", "does not begin with a 'From ' line"),
        ],
    )
    def test_is_none(self, program: Daemon, tmp_path: Path, name: str, content: bytes | None, says: str) -> None:
        if content is not None:
            (tmp_path / name).write_bytes(content)
        said = complaint(program.run("demo", "--exit-when-idle", "--json", "--mbox", str(tmp_path / name)))
        assert says in said
        assert "such as Google Takeout's, unpacked" in said

    def test_is_a_folder(self, program: Daemon, tmp_path: Path) -> None:
        assert f"{tmp_path} is a folder" in complaint(program.run("demo", "--mbox", str(tmp_path)))

    def test_is_a_pipe(self, program: Daemon, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "pipe")
        assert "is no file" in complaint(program.run("demo", "--mbox", str(tmp_path / "pipe")))

    def test_cut_short_is_read_as_far_as_it_goes(self, make: Make, tmp_path: Path) -> None:
        whole = (
            b"From b Mon May  4 10:00:00 2026\nFrom: bob@example.org\nDelivered-To: ada@example.com\nSubject: One\n\nHi"
        )
        (tmp_path / "cut.mbox").write_bytes(whole + b"\n\nFrom b Tue May  5 10:00:00 2026\nFrom: eve@example.org\nSubj")
        daemon = make(OPENAI_API_KEY="", OPENAI_BASE_URL="")
        summary = daemon.cli("demo", "--exit-when-idle", "--json", "--port", "0", "--mbox", str(tmp_path / "cut.mbox"))
        assert summary["mails"] == 2
        assert summary["by_state"].get("failed", 0) == 0


class TestToken:
    @pytest.mark.parametrize(
        ("content", "says"),
        [
            (None, "no such file"),
            ("nonsense", "not a JSON file"),
            ("[1]", "not a JSON object"),
            ('{"client_id": "a", "client_secret": "b"}', "missing refresh_token"),
            ('{"client_id": "a", "client_secret": "b", "refresh_token": "c", "expiry": "soon"}', "can't be read"),
            ('{"client_id": "a", "client_secret": "b", "refresh_token": "c", "expiry": 5}', "can't be read"),
            ('{"installed": {"client_id": "a"}}', "not the token of a login"),
        ],
    )
    def test_file_is_none(self, program: Daemon, tmp_path: Path, content: str | None, says: str) -> None:
        if content is not None:
            (tmp_path / "token.json").write_text(content)
        said = complaint(program.run("account", "add", ADA, "--token-file", str(tmp_path / "token.json")))
        assert says in said
        assert "authorized-user JSON of a login" in said
        assert program.cli("account", "list", "--json")["items"] == []

    def test_google_knows_no_such_login(self, program: Daemon, google: Google, tmp_path: Path) -> None:
        token = google.write_token_file(tmp_path / "token.json")
        google.revoke()
        said = complaint(program.run("account", "add", ADA, "--token-file", str(token)))
        assert "invalid_grant" in said
        assert "account add ADDRESS --token-file FILE` and a new token" in said
        assert program.cli("account", "list", "--json")["items"] == []

    def test_google_refuses_the_access_token(self, program: Daemon, google: Google, tmp_path: Path) -> None:
        token = google.write_token_file(tmp_path / "token.json")
        google.fault("getProfile", times=2, status=401)
        assert "log in again" in complaint(program.run("account", "add", ADA, "--token-file", str(token)))

    def test_is_for_another_mailbox(self, program: Daemon, google: Google, tmp_path: Path) -> None:
        token = google.write_token_file(tmp_path / "token.json")
        said = complaint(program.run("account", "add", "eve@example.com", "--token-file", str(token)))
        assert f"this token is for {ADA}, not for eve@example.com" in said

    @pytest.mark.parametrize("address", ["ada", "not an address", ""])
    def test_address_is_none(self, make: Make, google: Google, tmp_path: Path, address: str) -> None:
        token = google.write_token_file(tmp_path / "token.json")
        program = make(google_root=CLOSED)
        assert "is no mail address" in complaint(program.run("account", "add", address, "--token-file", str(token)))

    @pytest.mark.parametrize("since", ["99999999999d", "0001-01-01", "yesterday"])
    def test_since_is_no_time(self, program: Daemon, google: Google, tmp_path: Path, since: str) -> None:
        token = google.write_token_file(tmp_path / "token.json")
        done = program.run("account", "add", ADA, "--token-file", str(token), "--since", since)
        assert "--since takes 7d, 12h or a date" in complaint(done)


class TestGoogleUnreachable:
    def test_account_is_added_and_tried_later(self, make: Make, google: Google, tmp_path: Path) -> None:
        token = google.write_token_file(tmp_path / "token.json")
        done = make(google_root=CLOSED).run("account", "add", ADA, "--token-file", str(token))
        assert done.returncode == 0, done.stderr
        assert "check the network. `up` tries it again by itself" in done.stderr
        assert len(done.stderr.splitlines()) == 1

    def test_up_waits_and_goes_on(self, make: Make, google: Google, tmp_path: Path) -> None:
        away = make(google_root=CLOSED)
        away.account_add(ADA)
        up = away.up()
        away.wait_for(lambda: "no answer" in away.run("status").stdout, "the status tells why nothing comes")
        doctor = away.run("doctor")
        assert doctor.returncode == 1
        assert "check the network" in doctor.stdout
        up.stop()
        assert "Traceback" not in up.log
        mail = google.deliver(BOB, "Lunch", "Shall we?")
        back = make(secret_key=away.environment["EMAIL_ASSISTANT_SECRET_KEY"])
        back.up()
        back.until_mail(mail, "waiting")

    @pytest.mark.long
    def test_the_demo_needs_none(self, make: Make) -> None:
        demo = make(google_root=CLOSED, OPENAI_API_KEY="", OPENAI_BASE_URL="", undo_seconds=0)
        assert demo.cli("demo", "--exit-when-idle", "--json", "--port", "0")["mails"] > 0


class Unhelpful:
    """A server under the model's address that answers every request in one wrong way."""

    def __init__(self, answer: Response | Hold) -> None:
        def endpoint(_: Request) -> Response:
            if isinstance(answer, Hold):
                answer.wait("")
                return Response(status_code=503)
            return answer

        self._server = Server(Starlette(routes=[Route("/{path:path}", endpoint, methods=["GET", "POST"])]))
        self.root = f"{self._server.urls[0]}/v1"

    def __enter__(self) -> "Unhelpful":
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop()


def _refusal(status: int) -> Response:
    return JSONResponse({"error": {"message": "no", "type": "x", "code": "x"}}, status)


MODELS: dict[str, tuple[Response | None, str]] = {
    "unreachable": (None, "can't be reached"),
    "key refused": (_refusal(401), "refuses the key; check OPENAI_API_KEY"),
    "model unknown": (_refusal(404), "check EMAIL_ASSISTANT_MODEL and OPENAI_BASE_URL"),
    "no quota": (_refusal(429), "over its rate limit or quota"),
    "no credit": (_refusal(402), "wants to be paid first"),
    "no request taken": (_refusal(400), "refuses the request"),
    "failing": (_refusal(500), "(500"),
    "HTML": (HTMLResponse("<h1>Welcome</h1>"), ""),
    "other JSON": (JSONResponse({"status": "ok"}), ""),
}


class TestModel:
    @pytest.mark.parametrize("case", MODELS)
    def test_mail_waits_with_the_reason_and_goes_on(self, make: Make, google: Google, model: Model, case: str) -> None:
        def says_why(reason: str | None) -> bool:
            return reason is not None and reason.startswith("waiting: ")

        answer, says = MODELS[case]
        with Unhelpful(answer or _refusal(500)) as unhelpful:
            root = unhelpful.root if answer else f"{CLOSED}/v1"
            daemon = make(OPENAI_BASE_URL=root, max_tries=1, model_probe_seconds=600)  # an outage is no try
            daemon.account_add(ADA)
            up = daemon.up()
            mail = google.deliver(BOB, "Lunch", "Shall we?")
            daemon.wait_for(lambda: says_why(daemon.mail(mail).get("reason")), "the reason is shown")
            shown = daemon.mail(mail)
            assert says in shown["reason"]
            assert shown["state"] in ("new", "triaging")
            assert shown["reason"] in [row["reason"] for row in daemon.cli("mails", "--json")["items"]]
            assert "Traceback" not in up.log
            self._check_what_is_told(daemon, shown["reason"].removeprefix("waiting: "))
            up.stop()
        daemon.environment["OPENAI_BASE_URL"] = model.root
        daemon.up()
        daemon.until_mail(mail, "waiting")
        assert daemon.http.get("/api/status").json()["model_refuses"] == []

    def test_mails_that_came_meanwhile_go_on_by_themselves(self, make: Make, google: Google, model: Model) -> None:
        model.on_triage("ignore")
        model.fault("*", status=402, times=10_000)
        daemon = make(max_tries=1)
        daemon.account_add(ADA)
        daemon.up()
        mails = [google.deliver(BOB, subject, "Shall we?") for subject in ("One", "Two", "Three")]
        daemon.wait_for(
            lambda: all("402" in (daemon.mail(mail).get("reason") or "") for mail in mails), "the reason is shown"
        )
        model.clear_faults()
        for mail in mails:
            daemon.until_done(mail)

    @staticmethod
    def _check_what_is_told(daemon: Daemon, reason: str) -> None:
        """Status, page and doctor say which server it is, since when, and when it is asked again."""
        [told] = daemon.http.get("/api/status").json()["model_refuses"]
        assert (told["server"], told["reason"]) == (daemon.environment["OPENAI_BASE_URL"], reason)
        assert datetime.fromisoformat(told["since"]) < datetime.fromisoformat(told["next_at"])
        [same] = daemon.cli("status", "--json")["model_refuses"]
        assert same["reason"] == reason
        said = f"{reason[1:]}; so it is since "
        assert said in daemon.run("status").stderr + daemon.run("status").stdout
        assert said in unescape(daemon.http.get("/").text)
        assert "and it is asked again at " in daemon.run("doctor").stdout

    @pytest.mark.parametrize("case", MODELS)
    def test_doctor_says_what_to_do(self, make: Make, case: str) -> None:
        answer, says = MODELS[case]
        with Unhelpful(answer or _refusal(500)) as unhelpful:
            done = make(OPENAI_BASE_URL=unhelpful.root if answer else f"{CLOSED}/v1").run("doctor")
        (line,) = [line for line in done.stdout.splitlines() if "model" in line]
        assert done.returncode == 1
        assert line.startswith("✗ model stub-model: ")
        assert (says or "speaks no OpenAI; check OPENAI_BASE_URL") in line
        assert done.stderr == ""

    def test_doctor_is_content_with_one_that_answers(self, make: Make) -> None:
        with Unhelpful(JSONResponse({"choices": [{"message": {"content": "ready"}}]})) as helpful:
            program = make(OPENAI_BASE_URL=helpful.root)
            program.account_add(ADA)
            program.worker()
            program.wait_for(lambda: program.cli("status", "--json")["running"], "the worker is there")
            done = program.run("doctor")
        assert "✓ model stub-model: answers" in done.stdout
        assert "mailbox" not in done.stdout
        assert done.returncode == 0


class TestNetwork:
    @pytest.mark.parametrize("command", [("doctor",), ("chat", "hello"), ("up", "--port", "0")])
    @pytest.mark.parametrize(
        ("name", "value", "says"),
        [
            ("HTTPS_PROXY", "http://[::1", "HTTPS_PROXY: takes the address of a proxy"),
            ("HTTP_PROXY", f"foo://ada:{PASSWORD}@proxy.example", "HTTP_PROXY: takes the address of a proxy"),
            ("ALL_PROXY", "socks4://127.0.0.1:9", "ALL_PROXY: takes the address of a proxy"),
            ("NO_PROXY", "[::1", "NO_PROXY: takes names and addresses of hosts"),
            ("SSL_CERT_FILE", "/nowhere.pem", "SSL_CERT_FILE: no certificates can be read from /nowhere.pem"),
            ("SSL_CERT_FILE", "/etc/passwd", "SSL_CERT_FILE: no certificates can be read from /etc/passwd"),
        ],
    )
    def test_variable_that_leads_nowhere(
        self, make: Make, name: str, value: str, says: str, command: tuple[str, ...]
    ) -> None:
        program = make(OPENAI_BASE_URL="http://model.invalid/v1", **{name: value})
        said = complains(program._start("refused", *command))
        assert says in said
        assert PASSWORD not in said

    def test_a_model_elsewhere_is_reached_through_a_socks_proxy(self, make: Make) -> None:
        with socket.create_server(("127.0.0.1", 0)) as proxy:
            there = f"socks5://127.0.0.1:{proxy.getsockname()[1]}"
            make(OPENAI_BASE_URL="http://model.invalid/v1", ALL_PROXY=there)._start("doctor", "doctor")
            proxy.settimeout(60)
            caller, _ = proxy.accept()
            caller.settimeout(60)
            with caller:
                assert caller.recv(16)[:1] == b"\x05"  # the version, https://www.rfc-editor.org/rfc/rfc1928

    @pytest.mark.parametrize(
        "variables",
        [
            {"ALL_PROXY": "socks5://127.0.0.1:1"},
            {"HTTP_PROXY": CLOSED, "http_proxy": CLOSED},
            {"HTTPS_PROXY": "http://[::1", "SSL_CERT_FILE": "/nowhere.pem"},
        ],
    )
    def test_a_model_on_this_machine_is_reached_without(
        self, make: Make, google: Google, variables: dict[str, str]
    ) -> None:
        program = make(**variables)
        program.account_add(ADA)
        program.up()
        google.deliver(BOB, "Lunch?", "Does Friday suit you?")
        program.pending()
        assert "langchain" not in program.logs()


class TestNoMailbox:
    def test_doctor_says_how_one_is_connected(self, program: Daemon) -> None:
        done = program.run("doctor")
        assert done.returncode == 1
        assert [line for line in done.stdout.splitlines() if line.startswith("✗")] == [
            "✗ mailbox: none is connected yet: `email-assistant auth login --help` says how"
        ]

    def test_doctor_counts_none_of_another_provider(self, program: Daemon) -> None:
        program.account_add(ADA)
        program.environment["EMAIL_ASSISTANT_GOOGLE_NAME"] = "another"
        done = program.run("doctor")
        assert done.returncode == 1
        assert "✗ mailbox: none is connected yet" in done.stdout
        assert f"✗ {ADA}: belongs to the server double on this machine" in done.stdout

    @pytest.mark.parametrize("options", [(), ("--http",), ("--vscode",)])
    def test_the_configuration_of_clients_is_printed_with_a_warning(
        self, program: Daemon, options: tuple[str, ...]
    ) -> None:
        done = program.run("mcp", "config", *options)
        assert done.returncode == 0
        assert "email-assistant-mail" in done.stdout
        assert json.loads(done.stdout)
        assert "no account yet; see `auth login --help`" in done.stderr


class TestDecision:
    @pytest.fixture
    def at_work(self, make: Make) -> Daemon:
        daemon = make()
        daemon.account_add(ADA)
        daemon.up()
        return daemon

    @pytest.mark.parametrize("answer", [("accept",), ("ignore",), ("respond", "Yes."), ("edit", "a=b"), ("undo",)])
    @pytest.mark.parametrize("item", ["zzz", "[/red]", str(uuid.UUID(int=0)), "%"])
    def test_no_such_item(self, program: Daemon, answer: tuple[str, ...], item: str) -> None:
        said = complaint(program.run("inbox", answer[0], item, *answer[1:]))
        assert f"there is no item whose id begins with {item}; `inbox list` shows them" in said

    def test_no_such_item_over_http(self, at_work: Daemon) -> None:
        for item in ("zzz", str(uuid.UUID(int=0))):
            for answered in (at_work.decide(item, "accept"), at_work.undo(item)):
                assert answered.status_code == 404
                assert answered.json()["detail"]

    def test_answered_already(self, at_work: Daemon, google: Google) -> None:
        google.deliver(BOB, "Lunch", "Shall we?")
        (item,) = at_work.pending()
        at_work.accept(item)
        at_work.until_item(item, "applied")
        said = complaint(at_work.run("inbox", "ignore", item["id"]))
        assert "already answered (approved)" in said
        assert "nothing was changed" in said
        assert at_work.cli("inbox", "accept", item["id"]) == "Approved.\n"
        assert "it can't be taken back: already answered" in complaint(at_work.run("inbox", "undo", item["id"]))
        assert at_work.decide(item["id"], "ignore").status_code == 409
        assert at_work.undo(item["id"]).status_code == 409
        at_work.until_done(item["mail_id"])
        assert len(google.sent) == 1
        assert "this mail is done" in complaint(at_work.run("retry", item["mail_id"]))

    def test_nothing_to_undo(self, at_work: Daemon, google: Google) -> None:
        google.deliver(BOB, "Lunch", "Shall we?")
        (item,) = at_work.pending()
        assert "it can't be taken back: there is nothing to undo" in complaint(at_work.run("inbox", "undo", item["id"]))

    def test_edit_that_cannot_be_taken(self, at_work: Daemon, google: Google) -> None:
        google.deliver(BOB, "Lunch", "Shall we?")
        (item,) = at_work.pending()
        for arguments, says in (
            (("--args", "{"), "--args takes a JSON object"),
            (("--args", "5"), "--args takes a JSON object"),
            (("--args", '[["response_text", "Yes."]]'), "--args takes a JSON object"),
            (("--args", '{"email_address": "bob@example.org", "response_text": 5}'), "response_text"),
            (("response_text",), "write FIELD=VALUE"),
            (("--args", '{"response_text": "Yes."}'), "email_address is left out"),
            (("weather=sunny",), "weather"),
        ):
            assert says in complaint(at_work.run("inbox", "edit", item["id"], *arguments)), arguments
        refused: list[object] = [None, "text", [], {"weather": "sunny"}, {"response_text": 5}]
        for args in refused:
            assert at_work.decide(item["id"], "edit", args).status_code == 422, args
        assert at_work.item(item["id"])["status"] == "pending"

    @pytest.mark.parametrize(
        ("arguments", "says"),
        [
            (("retry", "nothere"), "there is no mail nothere; `email-assistant mails --state failed` shows"),
            (("retry", "nothere", "--account", "eve@example.com"), "no account eve@example.com"),
            (("mails", "--account", "eve@example.com", "--json"), "no account eve@example.com"),
            (("mails", "--cursor", "!!!", "--json"), "start from the first page"),
            (("mails", "--state", "odd"), "--state takes new, triaging"),
            (("inbox", "list", "--account", "eve@example.com", "--json"), "no account eve@example.com"),
            (("inbox", "list", "--status", "odd"), "--status takes pending"),
            (("account", "pause", "eve@example.com"), "no account eve@example.com"),
            (("account", "resume", "eve@example.com"), "no account eve@example.com"),
            (("account", "remove", "--yes", "eve@example.com"), "no account eve@example.com"),
            (("memory", "show", "--account", "eve@example.com", "--json"), "no account eve@example.com"),
            (("mcp", "config", "--account", "eve@example.com"), "no account eve@example.com"),
            (("memory", "drop", ""), "an id, or its first characters, is missing"),
            (("memory", "remove", ""), "an id, or its first characters, is missing"),
            (("inbox", "accept", ""), "an item's id, or its first characters, is missing"),
        ],
    )
    def test_what_there_is_not(self, program: Daemon, arguments: tuple[str, ...], says: str) -> None:
        assert says in complaint(program.run(*arguments))

    @pytest.mark.parametrize("command", [("account", "remove"), ("auth", "logout")])
    def test_nothing_is_asked_about_what_there_is_not(self, program: Daemon, command: tuple[str, ...]) -> None:
        assert "no account eve@example.com" in complaint(program.run(*command, "eve@example.com"))

    @pytest.mark.parametrize("command", [("inbox", "show"), ("retry",), ("account", "remove", "--yes")])
    def test_what_is_in_no_encoding(self, program: Daemon, command: tuple[str, ...]) -> None:
        done = subprocess.run(
            [sys.executable, "-m", "email_assistant", *command, b"\xff\xfe"],
            env=program.environment, cwd=program.home, capture_output=True, text=True,
        )  # fmt: skip
        said = "Error: an argument is not in UTF-8: b'\\xff\\xfe'\n"
        assert (done.returncode, done.stdout, done.stderr) == (2, "", said)


class SmallDisk:
    """A folder with room for `megabytes`: a file system of its own, or else no process may write beyond a limit.

    The limit (RLIMIT_FSIZE) needs no right to mount. It is a file's, not the disk's, so it only tells full from free.
    """

    def __init__(self, folder: Path, megabytes: int) -> None:
        self.folder = folder
        folder.mkdir()
        size = f"size={megabytes}m"
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", size, "tmpfs", folder], capture_output=True)
        self.is_mounted = done.returncode == 0

    def fill(self, process: int) -> None:
        if not self.is_mounted:
            self._limit(process, 0)
            return
        with contextlib.suppress(OSError), (self.folder / "filler").open("ab", buffering=0) as filler:
            while True:
                filler.write(bytes(4096))

    def free(self, process: int) -> None:
        if self.is_mounted:
            (self.folder / "filler").unlink()
        else:
            self._limit(process, resource.RLIM_INFINITY)

    def close(self) -> None:
        if self.is_mounted:
            subprocess.run(["umount", "--lazy", self.folder], check=True)

    def _limit(self, process: int, most: int) -> None:
        for one in (process, *_descendants(process)):
            with contextlib.suppress(ProcessLookupError):
                resource.prlimit(one, resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))


def _descendants(process: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{process}/task").glob("*/children"):
        for child in map(int, task.read_text().split()):
            found += [child, *_descendants(child)]
    return found


class TestFullDisk:
    @pytest.fixture
    def small_disk(self, tmp_path: Path) -> Iterator[Callable[[int], SmallDisk]]:
        made: list[SmallDisk] = []

        def make_one(megabytes: int) -> SmallDisk:
            made.append(SmallDisk(tmp_path / "disk", megabytes))
            return made[-1]

        yield make_one
        for disk in made:
            disk.close()

    def test_at_the_first_start(self, make: Make, small_disk: Callable[[int], SmallDisk]) -> None:
        disk = small_disk(12)
        daemon = make(EMAIL_ASSISTANT_HOME=disk.folder, DATABASE_URL="")
        command = [sys.executable, "-m", "email_assistant", "status"]
        if not disk.is_mounted:
            command = ["prlimit", f"--fsize={12 << 20}:", *command]
        for _ in range(2):
            done = subprocess.run(command, env=daemon.environment, cwd=daemon.home, capture_output=True, text=True)
            assert "full" in (said := complaint(done))
            assert "free some space, then start again" in said
        if disk.is_mounted:
            subprocess.run(["mount", "-o", "remount,size=200m", disk.folder], check=True)
        assert daemon.cli("status", "--json")["mails"] == 0

    @pytest.mark.long
    def test_while_it_runs(self, make: Make, google: Google, small_disk: Callable[[int], SmallDisk]) -> None:
        disk = small_disk(120)
        daemon = make(EMAIL_ASSISTANT_HOME=disk.folder, DATABASE_URL="")
        daemon.account_add(ADA)
        up = daemon.up()
        first = google.deliver(BOB, "Before", "Shall we?")
        (item,) = daemon.pending()
        disk.fill(up.pid)
        mails = [first] + [google.deliver(BOB, f"Full {n}", os.urandom(40_000).hex()) for n in range(4)]
        daemon.wait_for(lambda: "DiskFull" in up.log or "OperationalError" in up.log, "the database can't write")
        disk.free(up.pid)
        for mail in mails:
            daemon.until_mail(mail, "waiting")
        daemon.accept(item)
        daemon.until_done(first)
        assert [sent.subject for sent in google.sent] == ["Re: Before"]
        assert up.is_running

    def test_of_the_output(self, program: Daemon) -> None:
        started = warm.command("-m", "email_assistant", "mails", "--json")
        with Path("/dev/full").open("w") as full:
            done = subprocess.run(
                started, env=program.environment, cwd=program.home, stdout=full, stderr=subprocess.PIPE, text=True
            )
        assert done.returncode == 1
        assert done.stderr == "Error: the output can't be written: No space left on device\n"


class TestInterruption:
    def test_of_what_reads_no_more_output(self, program: Daemon) -> None:
        for arguments in (("mails", "--json"), ("status",), ("--help",)):
            reader, writer = os.pipe()
            os.close(reader)
            with os.fdopen(writer, "w") as nobody_reads:
                done = subprocess.run(
                    warm.command("-m", "email_assistant", *arguments),
                    env=program.environment, cwd=program.home, stdout=nobody_reads, stderr=subprocess.PIPE, text=True,
                )  # fmt: skip
            assert (done.returncode, done.stderr) == (1, ""), arguments

    def test_of_a_command_without_output(self, program: Daemon) -> None:
        done = subprocess.run(
            [sys.executable, "-m", "email_assistant", "status"],
            env=program.environment, cwd=program.home, stderr=subprocess.PIPE, text=True,
            preexec_fn=lambda: os.close(1),
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, "")

    def test_of_a_command_that_waits_for_google(self, program: Daemon, google: Google, tmp_path: Path) -> None:
        token = google.write_token_file(tmp_path / "token.json")
        google.fault("token", hold=(hold := Hold()))
        adding = program._start("add", "account", "add", ADA, "--token-file", str(token))
        hold.reached()
        _interrupted(adding, 130)
        assert program.cli("account", "list", "--json")["items"] == []

    def test_of_a_command_that_waits_for_the_model(self, make: Make) -> None:
        hold = Hold()
        with Unhelpful(hold) as unhelpful:
            doctor = (program := make(OPENAI_BASE_URL=unhelpful.root))._start("doctor", "doctor")
            program.wait_for(lambda: hold.is_reached, "the model is asked")
            _interrupted(doctor, 130)
            hold.abandon()

    @pytest.mark.parametrize("command", ["status", "up", "worker"])
    def test_of_a_command_that_waits_for_the_database(self, make: Make, command: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            url = f"postgresql://ada@127.0.0.1:{silent.getsockname()[1]}/mail"
            waiting = make(DATABASE_URL=url)._start(command, command)
            silent.settimeout(30)
            caller, _ = silent.accept()
            _interrupted(waiting, 130)
            caller.close()

    @pytest.mark.parametrize("command", ["up", "worker", "demo", "api", "scheduler"])
    def test_of_what_runs_for_long(self, make: Make, command: str) -> None:
        program = make(**{"OPENAI_API_KEY": "", "OPENAI_BASE_URL": ""} if command == "demo" else {})
        arguments = () if command in ("worker", "scheduler") else ("--port", "0")
        running = program._start(command, command, *arguments)
        program.wait_for(lambda: any(word in running.log for word in ("Working", "Scheduling", "Your inbox:")))
        _interrupted(running, 0, 130)

    def test_of_what_is_only_being_imported(self, program: Daemon) -> None:
        importing = subprocess.Popen(
            [sys.executable, "-m", "email_assistant", "status"],
            env={**program.environment, "PYTHONPROFILEIMPORTTIME": "1"},
            cwd=program.home, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert importing.stderr
        while "typer" not in importing.stderr.readline():
            assert importing.poll() is None
        importing.send_signal(signal.SIGINT)
        _, said = importing.communicate(timeout=60)
        assert importing.returncode == 130
        assert "Traceback" not in said

    @pytest.mark.parametrize("command", ["up", "api", "worker", "scheduler", "demo"])
    def test_of_what_has_just_said_that_it_is_there(self, make: Make, command: str) -> None:
        program = make(**{"OPENAI_API_KEY": "", "OPENAI_BASE_URL": ""} if command == "demo" else {})
        arguments = () if command in ("worker", "scheduler") else ("--port", "0")
        done = subprocess.run(
            warm.command("-c", PRESSED_AS_IT_SAYS_SO, command, *arguments),
            env=program.environment, cwd=program.home, capture_output=True, text=True,
        )  # fmt: skip
        assert "Stopping; once more stops at once." in done.stderr
        assert done.returncode == 0, done.stderr

    @pytest.mark.long
    def test_of_a_server_of_tools(self, program: Daemon) -> None:
        program.account_add(ADA)
        running = program._start("mcp", "mcp", "serve", "mail", "--http", "--port", "0")
        program.wait_for(lambda: "Serving at" in running.log)
        _interrupted(running, 0)


# Ctrl-C comes as soon as the line is out.
PRESSED_AS_IT_SAYS_SO = """
import os, signal
from rich.console import Console
from email_assistant.__main__ import main

def print_and_press(console, *words, **options):
    print_only(console, *words, **options)
    if any(str(word).startswith(("Your inbox:", "Working.", "Scheduling.")) for word in words):
        os.kill(os.getpid(), signal.SIGINT)

print_only, Console.print = Console.print, print_and_press
main()
"""


def _interrupted(process: Process, *statuses: int) -> None:
    """Press Ctrl-C."""
    process.kill(signal.SIGINT)
    assert process.exit_code in statuses, process.log
    assert "Traceback" not in process.log
    assert "Error" not in process.log


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)
