"""What a person sees of the program itself: whether it is there, what it does, and what is whose."""

import os
import re
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version

import psycopg
import pytest

from email_assistant.db.embedded import EmbeddedPostgres
from email_assistant.inbox.standing import SNOOZES
from tests.doubles.daemon import Daemon
from tests.doubles.google import Google
from tests.doubles.model import Model
from tests.integration.conftest import Start
from tests.integration.scene import ADA, BOB, DONE, reply

MIGRATING = 0x6D61696C
"""The lock of whoever makes the tables (`db/migrate.py`)."""


@pytest.fixture
def program(connect: Start) -> Daemon:
    """One connected mailbox; nothing runs."""
    return connect()


def test_a_command_that_had_the_server_may_end_while_it_starts(program: Daemon) -> None:
    """The command's end is the end of the server that it had started."""
    del program.environment["DATABASE_URL"]
    with EmbeddedPostgres(program.home / "assistant" / "postgres") as server, ThreadPoolExecutor(1) as beside:
        with psycopg.connect(server.url(), autocommit=True) as conn:
            conn.execute("create database email_assistant")
        with psycopg.connect(server.url("email_assistant"), autocommit=True) as at_the_tables:
            at_the_tables.execute("select pg_advisory_lock(%s)", (MIGRATING,))
            starting = beside.submit(program.up)
            others = (
                "select count(*) from pg_stat_activity where datname = 'email_assistant' and pid <> pg_backend_pid()"
            )
            program.wait_for(lambda: at_the_tables.execute(others).fetchone() != (0,), "it waits for the tables")
            server.stop()
        assert starting.result().is_running
    assert program.cli("status", "--json")["accounts"] == []


class TestAccountAdded:
    def test_it_begins_in_shadow_mode_and_says_how_to_end_that(self, connect: Start, google: Google) -> None:
        program = connect()
        program.cli("account", "remove", ADA, "--yes")
        token = google.write_token_file(program.home / "token.json")
        said = program.cli("account", "add", ADA, "--token-file", str(token))
        assert program.cli("account", "list", "--json")["items"][0]["mode"] == "shadow"
        assert "shadow mode: you are shown what would have been done" in said
        assert f"`email-assistant account mode {ADA} send` ends that" in said

    def test_adding_it_again_keeps_its_mode(self, connect: Start, google: Google) -> None:
        program = connect()
        token = google.write_token_file(program.home / "token.json")
        program.cli("account", "add", ADA, "--token-file", str(token))
        assert program.cli("account", "list", "--json")["items"][0]["mode"] == "send"


class TestNobodyAtHome:
    def test_every_answer_says_so(self, connect: Start, google: Google, model: Model) -> None:
        program = connect()
        model.script(lambda _: [reply("Friday is fine."), DONE])
        assert program.cli("status").startswith("Nothing is running yet; start `email-assistant up`.")
        for subject in ("Lunch?", "Dinner?"):
            google.deliver(BOB, subject, "Does Friday suit you?")
        program.up()
        first, second = program.pending(2)
        assert program.cli("status", "--json")["running"] is True
        assert "✓ at work: mail is worked on" in program.run("doctor").stdout
        assert "running" not in program.http.get("/").text
        assert "running" not in program.cli("inbox", "show", first["id"])

        program.kill()
        program.api()

        program.wait_for(lambda: program.cli("status").startswith("Nothing is running since "), "it is noticed")
        doctor = program.run("doctor")
        assert (doctor.returncode, "✗ at work: nothing is running since" in doctor.stdout) == (1, True)
        page = program.http.get("/").text
        assert "Nothing works on your mail since" in page
        assert "What you answer is kept until then; an agent that asks is answered at once." in page
        taken = program.cli("inbox", "accept", first["id"])
        assert "It is kept, and done once something works on it: nothing is running since" in taken
        assert "start `email-assistant up`" in taken
        told = program.decide(second["id"], "accept").json()
        assert told["notice"].startswith("It is kept, and done once something works on it: nothing is running since")
        assert google.sent == []
        program.stop()

        program.up()
        program.wait_for(lambda: len(google.sent) == 2, "what was kept is done")

    def test_who_works_on_another_provider_is_not_at_home_here(self, connect: Start) -> None:
        program = connect()
        program.worker()
        program.wait_for(lambda: program.cli("status", "--json")["running"], "it works")
        program.environment["EMAIL_ASSISTANT_GOOGLE_NAME"] = "another"
        assert program.cli("status", "--json")["running"] is False

    def test_an_answer_for_a_mailbox_that_is_left_alone_says_why(
        self, start: Start, google: Google, model: Model
    ) -> None:
        program = start(max_tries=1)
        model.script(lambda _: [reply("Friday is fine."), DONE])
        for subject in ("Lunch?", "Dinner?"):
            google.deliver(BOB, subject, "Does Friday suit you?")
        first, second = program.pending(2)
        program.environment["EMAIL_ASSISTANT_GOOGLE_NAME"] = "another"
        assert "kept" not in program.cli("inbox", "accept", first["id"])  # who works on it may be another process
        program.stop()
        program.up()
        taken = program.cli("inbox", "accept", second["id"])
        assert f"It is kept, and not done as things are: {ADA} belongs to the server double on this machine" in taken
        assert "nothing is running" not in taken

    def test_one_that_stops_in_good_order_is_gone_at_once(self, daemon: Daemon) -> None:
        daemon.stop()
        assert daemon.cli("status", "--json")["running"] is False


NO_MODEL = {"OPENAI_API_KEY": "", "OPENAI_BASE_URL": ""}


class TestDemo:
    @pytest.fixture
    def program(self, connect: Start) -> Daemon:
        """One's own mailbox, and no model of one's own: the demo brings its."""
        program = connect()
        program.environment |= NO_MODEL
        return program

    @pytest.mark.long
    def test_nothing_of_it_stands_among_ones_own(self, program: Daemon, database_url: str) -> None:
        summary = program.cli("demo", "--exit-when-idle", "--json", "--port", "0")

        assert [account["address"] for account in program.cli("account", "list", "--json")["items"]] == [ADA]
        assert program.cli("inbox", "list", "--json")["items"] == []
        assert program.cli("status", "--json")["mails"] == 0
        with psycopg.connect(database_url) as conn:
            assert conn.execute("select count(*) from email_assistant.mails").fetchone() == (0,)
        assert not (program.home / "assistant" / "sandbox").exists()
        own_token = program.environment["EMAIL_ASSISTANT_API_TOKEN"]
        assert summary["inbox_url"].partition("token=")[2] not in ("", own_token)

        [account] = program.cli("account", "list", "--json", "--demo")["items"]
        items = program.cli("--demo", "inbox", "list", "--json")["items"]
        assert account["address"] != ADA
        assert (len(items), summary["mails"]) == (
            summary["waiting"],
            program.cli("status", "--demo", "--json")["mails"],
        )
        served = program.run("--demo", "mcp", "serve", "mail", "--account", ADA)
        assert f"no account {ADA}; there are: {account['address']}" in served.stderr
        program.environment["EMAIL_ASSISTANT_UNDO_SECONDS"] = "30"
        taken = program.cli("--demo", "inbox", "ignore", items[0]["id"][:8])
        assert "nothing is running since" in taken
        assert "start `email-assistant demo`" in taken
        assert f"`email-assistant --demo inbox undo {items[0]['id'][:8]}` takes it back" in taken
        program.cli("--demo", "inbox", "snooze", items[1]["id"], "3d")
        again = program.cli("demo", "--exit-when-idle", "--json", "--port", "0")
        assert again["waiting"] == program.cli("status", "--demo", "--json")["waiting"] == len(items) - 2
        with psycopg.connect(database_url) as conn:
            assert conn.execute("select count(*) from email_assistant.inbox_items").fetchone() == (0,)

    @pytest.mark.long
    def test_it_says_that_a_database_of_ones_own_is_left_alone(self, program: Daemon) -> None:
        done = program.run("demo", "--exit-when-idle", "--json", "--port", "0")
        assert "DATABASE_URL is left alone" in done.stderr

    def test_it_runs_beside_ones_own_and_is_talked_to(self, program: Daemon) -> None:
        demo = program._start("demo", "demo", "--port", "0")
        program.wait_for(lambda: "Your inbox:" in demo.log, "the demo is there")
        program.environment |= {"OPENAI_API_KEY": "model-key", "OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}
        program.up()
        program.environment |= NO_MODEL
        program.wait_for(lambda: program.cli("status", "--demo", "--json")["waiting"], "something waits in the demo")
        assert program.cli("status", "--json")["waiting"] == 0

        second = program.run("demo", "--port", "0")
        assert (second.returncode, "a demo is running here already" in second.stderr) == (1, True)
        talk = program.cli("chat", "--demo", "--json", "what waits for me?")
        assert talk["status"] == "success"
        asked = program.run("--demo", "chat", "Put lunch with Bob on my calendar on Friday at 12").stdout
        found = re.search(r"Waits for you: email-assistant (--demo chat answer .*)", asked)
        assert found, asked
        assert program.run(*found[1].split()).returncode == 0
        assert program.cli("chat", "--list", "--json") == []

    @pytest.mark.long
    def test_chat_says_that_it_is_not_running(self, program: Daemon) -> None:
        program.cli("demo", "--exit-when-idle", "--json", "--port", "0")
        done = program.run("--demo", "chat", "what waits for me?")
        assert done.returncode == 1
        assert "nothing is running since" in done.stderr
        assert "start `email-assistant demo`" in done.stderr

    def test_the_mailbox_of_another_is_named(self, program: Daemon, database_url: str) -> None:
        with psycopg.connect(database_url) as conn:
            conn.execute("update email_assistant.accounts set provider = 'loopback:sandbox:scripted'")
        remedy = f"`email-assistant account remove {ADA}` removes it"
        assert remedy in program.cli("status")
        assert f"✗ {ADA}: is the mailbox of another demo" in program.run("doctor").stdout
        program.cli("account", "remove", ADA, "--yes")
        assert remedy not in program.cli("status")


@pytest.mark.parametrize("command", ["up", "doctor", "chat"])
def test_without_a_model_all_that_set_one_are_named(program: Daemon, command: str) -> None:
    program.environment |= NO_MODEL
    done = program.run(command, *(["hello"] if command == "chat" else []))
    assert done.returncode == 1
    assert "give OPENAI_API_KEY, or GOOGLE_API_KEY alone, or OPENAI_BASE_URL" in done.stdout + done.stderr


class TestHelp:
    def test_where_a_browser_is_added(self, daemon: Daemon) -> None:
        assert "the button on the page Accounts" in " ".join(daemon.cli("notify", "--help").split())
        assert "Tell me in this browser" in daemon.http.get("/accounts").text

    def test_its_version(self, program: Daemon) -> None:
        assert program.cli("--version") == f"email-assistant {version('email-assistant')}\n"

    def test_every_time_to_sleep_until_by_its_name(self, program: Daemon) -> None:
        told = re.findall(r"\w+", program.cli("inbox", "snooze", "--help"))
        assert set(SNOOZES) <= set(told)

    @pytest.mark.parametrize("command", [(), ("up",), ("inbox",), ("inbox", "accept"), ("account", "add"), ("chat",)])
    def test_it_is_had_by_h_everywhere(self, program: Daemon, command: tuple[str, ...]) -> None:
        assert "Usage: " in program.cli(*command, "-h")


class TestUp:
    """What it tells, where its output is no terminal and where it is one."""

    def test_without_a_terminal_it_tells_no_word_of_mail(self, start: Start, google: Google, model: Model) -> None:
        daemon = start()
        [up] = daemon.processes
        assert f"Mailbox: {ADA}, in send mode: what you accept is done.\n" in up.log
        assert "Model: stub-model, at 127.0.0.1\n" in up.log
        assert "Your inbox: http://" in up.log

        model.script(lambda _: [reply("Friday is fine."), DONE])
        google.deliver(BOB, "Lunch?", "Does Friday suit you?")
        [item] = daemon.pending()
        waits = f"Waits for you: a reply, {ADA}; `email-assistant inbox show {item['id'][:8]}`\n"
        daemon.wait_for(lambda: waits in up.log, "it says what waits")
        assert re.search(rf"^\d\d:\d\d:\d\d  Mail came, {ADA}$", up.log, re.MULTILINE)
        daemon.accept(item)
        daemon.wait_for(lambda: f"Sent, {ADA}\n" in up.log, "it says what was sent")
        assert up.log.count("Sent") == up.log.count("Mail came") == 1
        assert "\x1b" not in up.log
        for word in ("Lunch", "Friday", "bob@"):
            assert word not in up.log

    def test_in_a_terminal_it_names_mail_that_steers_nothing(
        self, connect: Start, google: Google, model: Model
    ) -> None:
        program = connect()
        program.environment["TTY_COMPATIBLE"] = "1"
        model.script(lambda _: [reply("Friday is fine.")])
        up = program.up()
        google.deliver("Bob <bob@example.org>", "Lunch\x1b[2J\x07? " + "x" * 200, "Does Friday suit you?")
        program.pending()
        program.wait_for(lambda: "Waits for you" in up.log, "it says what waits")
        line = next(line for line in up.log.splitlines() if "Mail came" in line)
        assert re.search(rf"Mail came, {ADA}; bob@example.org: Lunch\S*\? x+…$", line)
        assert "\x07" not in up.log
        assert "\x1b[2J" not in up.log

    def test_a_mailbox_that_waits_a_while_before_its_next_look_is_watched(
        self, program: Daemon, database_url: str
    ) -> None:
        with psycopg.connect(database_url) as conn:
            conn.execute("update email_assistant.accounts set poll_after = clock_timestamp() + interval '1 hour'")
        up = program.up()
        assert f"Mailbox: {ADA}, in send mode: what you accept is done.\n" in up.log
        assert "No account is watched" not in up.log

    def test_a_paused_mailbox_is_not(self, program: Daemon) -> None:
        program.cli("account", "pause", ADA)
        up = program.up()
        assert f"Mailbox: {ADA}, not watched now; `email-assistant status` says more.\n" in up.log
        assert "No account is watched" not in up.log

    def test_it_says_that_other_machines_reach_it(self, program: Daemon) -> None:
        refused = program.run("up", "--host", "0.0.0.0", "--no-token")
        assert "--no-token works on a loopback address only, not on 0.0.0.0" in refused.stderr
        assert "It is reachable from other machines: put TLS in front.\n" in program.up("--host", "0.0.0.0").log
        assert "other machines" not in program.up().log

    def test_it_tells_what_failed(self, start: Start, google: Google, model: Model) -> None:
        daemon = start(max_tries=1)
        [up] = daemon.processes
        model.fault("triage", status=400, times=9)
        mail_id = google.deliver(BOB, "Lunch?", "Does Friday suit you?")
        daemon.until_mail(mail_id, "failed")
        daemon.wait_for(lambda: f"Failed, {ADA}\n" in up.log, "it says what failed")


class TestPatience:
    """Ten seconds, and some for the command to start on a busy machine."""

    AT_MOST = 25

    def ended(self, program: Daemon, *command: str) -> str:
        """What the command complains of, in one line."""
        began = time.monotonic()
        done = program.run(*command)
        assert 9 < time.monotonic() - began < self.AT_MOST
        assert done.returncode == 1
        [line] = done.stderr.splitlines()
        assert line.startswith("Error: ")
        return line

    @pytest.fixture
    def program(self, program: Daemon) -> Daemon:
        program.cli("backup", str(program.home / "there.tar.gz"))
        return program

    @pytest.mark.long
    @pytest.mark.parametrize("command", [("status",), ("backup", "new.tar.gz"), ("restore", "there.tar.gz")])
    def test_a_database_that_does_not_answer(self, program: Daemon, command: tuple[str, ...]) -> None:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            program.environment["DATABASE_URL"] = f"postgresql://ada@127.0.0.1:{silent.getsockname()[1]}/mail"
            assert "has not answered for 10 s" in self.ended(program, *command)

    @pytest.mark.parametrize(
        "command",
        [("inbox", "list"), ("status",), ("backup", "new.tar.gz"), ("restore", "there.tar.gz", "--replace")],
    )
    def test_a_locked_table(self, program: Daemon, database_url: str, command: tuple[str, ...]) -> None:
        with psycopg.connect(database_url) as conn:
            conn.execute("lock table email_assistant.inbox_items")
            assert "another process holds the database's tables" in self.ended(program, *command)

    @pytest.mark.long
    @pytest.mark.parametrize(
        "command", [("status",), ("backup", "new.tar.gz"), ("restore", "there.tar.gz", "--replace")]
    )
    def test_a_migration_that_does_not_end(self, program: Daemon, database_url: str, command: tuple[str, ...]) -> None:
        with psycopg.connect(database_url, autocommit=True) as conn:
            conn.execute("delete from email_assistant.procrastinate_versions")
            conn.execute("select pg_advisory_lock(%s)", (MIGRATING,))
            assert "bringing the database up to date for 10 s" in self.ended(program, *command)

    @pytest.mark.long
    def test_a_file_that_can_not_be_read(self, program: Daemon) -> None:
        """A pipe that nobody writes to hangs as a disk does that is gone."""
        folder = program.home / "assistant"
        os.mkfifo(folder / "secret_key.txt")
        del program.environment["EMAIL_ASSISTANT_SECRET_KEY"]
        assert f"the database, or {folder}, has not answered for 10 s" in self.ended(program, "status")

    @pytest.mark.long
    def test_what_stays_waits_and_says_so(self, program: Daemon) -> None:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            program.environment["DATABASE_URL"] = f"postgresql://ada@127.0.0.1:{silent.getsockname()[1]}/mail"
            worker = program.worker()
            program.wait_for(lambda: "Waiting for the database to answer" in worker.log, "it says so")
            assert worker.is_running
