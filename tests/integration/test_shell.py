"""What a person reads and types in a shell while the program runs: what waits, times, ids, and how to take it back."""

import json
import re
import shlex
import subprocess
import sys
from datetime import datetime
from zoneinfo import ZoneInfo

import psycopg
import pytest

from tests.doubles.daemon import Daemon
from tests.doubles.google import Google
from tests.doubles.model import Model
from tests.integration import shared
from tests.integration.scene import ADA, BOB, DONE, reply

daemon, google, model, database_url = shared.daemon, shared.google, shared.model, shared.database_url


class TestStatus:
    def test_it_counts_items(self, daemon: Daemon, google: Google, model: Model) -> None:
        model.script(lambda _: [reply("One."), reply("Two.")])
        google.deliver(BOB, "Lunch?", "Does Friday suit you?")
        daemon.pending(2)
        assert "Waiting for you: 2\n" in daemon.cli("status")
        assert daemon.cli("status", "--json")["waiting"] == 2

    def test_commands_that_only_read_load_no_models_tools_and_pages(self, daemon: Daemon) -> None:
        """Whoever asks again and again pays for each import: they were two thirds of what `status` took."""
        script = (
            "import json, sys\n"
            "from email_assistant.cli import main\n"
            "for words in ['status', 'status --json', 'inbox list', 'inbox list --json', 'mails', 'activity']:\n"
            "    sys.argv = ['email-assistant', *words.split()]\n"
            "    try:\n"
            "        main()\n"
            "    except SystemExit as end:\n"
            "        assert not end.code, (words, end.code)\n"
            "print(json.dumps(sorted(sys.modules)), file=sys.stderr)\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", script], env=daemon.environment, cwd=daemon.home, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        loaded = set(json.loads(done.stderr.splitlines()[-1]))
        assert "email_assistant.inbox.person" in loaded
        assert not loaded & {"fastapi", "jinja2", "langchain_core", "mcp", "openai", "sklearn", "starlette"}

    def test_an_unexpected_error_of_a_poll_stands_there(
        self, daemon: Daemon, google: Google, model: Model, database_url: str
    ) -> None:
        model.script([[reply("Friday is fine.")]])
        with psycopg.connect(database_url) as conn:
            conn.execute("alter table email_assistant.mails add constraint none_fits check (false) not valid")
        google.deliver(BOB, "Secret plan", "Does Friday suit you?")
        daemon.wait_for(lambda: "unexpected CheckViolation" in daemon.cli("status"), "status says so")
        doctor = daemon.run("doctor")
        assert f"✗ {ADA}, last look: unexpected CheckViolation while new mail was looked for" in doctor.stdout
        assert "Secret plan" not in doctor.stdout
        with psycopg.connect(database_url) as conn:
            conn.execute("alter table email_assistant.mails drop constraint none_fits")
        daemon.pending()
        assert "unexpected" not in daemon.cli("status")


class TestTimes:
    def test_they_are_in_the_timezone_of_the_mailbox_and_say_so(
        self, daemon: Daemon, google: Google, model: Model
    ) -> None:
        google.timezone = "Asia/Tokyo"
        shared.look_at_the_settings_again(daemon, google)
        model.script(lambda _: [reply("Friday is fine."), DONE])
        google.deliver(BOB, "Lunch?", "Does Friday suit you?")
        [item] = daemon.pending()
        received = datetime.fromisoformat(daemon.mails()[0]["received_at"]).astimezone(ZoneInfo("Asia/Tokyo"))
        assert f"{received:%Y-%m-%d %H:%M} JST" in daemon.cli("mails")
        assert f"{received:%Y-%m-%d %H:%M:%S} JST  It came in" in daemon.cli("why", item["mail_id"])
        undo = f"email-assistant inbox undo {item['id'][:8]}"
        told = rf"Back at [-\d]+ [:\d]+ JST; before, by `{undo}`\.\n"
        assert re.fullmatch(told, daemon.cli("inbox", "snooze", item["id"], "1d"))
        assert "Back at " in (told := daemon.cli("inbox", "snooze", item["id"], "monday"))
        assert " 08:00 JST; before" in told
        assert "that time has passed" in (ended := daemon.run("inbox", "snooze", item["id"], "0m")).stderr
        assert ended.returncode == 1
        assert "or tomorrow, hour, later, monday" in daemon.run("inbox", "snooze", item["id"], "sunday").stderr
        assert daemon.cli("inbox", "undo", item["id"]) == "Taken back; it waits for you again.\n"
        assert daemon.item(item["id"])["snoozed_until"] is None
        assert daemon.cli("inbox", "list", "--search", "supper") == "Nothing found.\n"


class TestIds:
    def test_they_are_whole_in_a_pipe_and_every_prefix_is_taken(
        self, daemon: Daemon, google: Google, model: Model, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(daemon.environment, "COLUMNS", "40")
        subject = "A subject that is much longer than forty columns can hold"
        model.on_triage("notify")
        google.deliver(BOB, subject, "Does Friday suit you?")
        [item] = daemon.pending()
        _, row = daemon.cli("inbox", "list").splitlines()
        assert row.startswith(item["id"][:8])
        assert subject in row
        _, row = daemon.cli("mails").splitlines()
        assert row.startswith(item["mail_id"])
        for length in (1, 4, 8, 20, 36):
            assert subject in daemon.cli("inbox", "show", item["id"][:length])

    def test_they_are_whole_in_a_narrow_terminal(
        self, daemon: Daemon, google: Google, model: Model, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name, value in (("TTY_COMPATIBLE", "1"), ("COLUMNS", "40"), ("NO_COLOR", "1")):
            monkeypatch.setitem(daemon.environment, name, value)
        model.on_triage("notify")
        mail_id = google.deliver(BOB, "A subject that is much longer than forty columns", "Does Friday suit you?")
        [item] = daemon.pending()
        assert item["id"][:8] in daemon.cli("inbox", "list")
        assert mail_id in daemon.cli("mails")

    def test_a_row_is_no_wider_than_can_be_read_whatever_stands_in_the_mail(
        self, daemon: Daemon, google: Google, model: Model, database_url: str
    ) -> None:
        model.on_triage("notify")
        google.deliver(f'"{"N" * 2_000}" <eve@evil.example.net>', "A" * 5_000, "Does Friday suit you?")
        google.deliver(BOB, "Lunch?", "Does Friday suit you?")
        items = daemon.pending(2)
        assert max(len(item["subject"]) for item in items) == 998
        with psycopg.connect(database_url) as conn:  # longer than any that is stored
            conn.execute("update email_assistant.mails set subject = repeat('A', 900000) where subject like 'AAA%'")
        for command in (("inbox", "list"), ("mails",)):
            listed = daemon.cli(*command)
            assert "Lunch?" in listed
            assert "AAA…" in listed
            assert max(map(len, listed.splitlines())) < 1_000

    def test_an_ambiguous_one_says_which(self, daemon: Daemon, google: Google, model: Model, database_url: str) -> None:
        model.on_triage("notify")
        for subject in ("Lunch?", "Dinner?"):
            google.deliver(BOB, subject, "Does Friday suit you?")
        daemon.pending(2)
        ids = [f"abcd1234-0000-4000-8000-00000000000{number}" for number in (1, 2)]
        with psycopg.connect(database_url) as conn:
            for new, item in zip(ids, daemon.pending(2), strict=True):
                conn.execute("update email_assistant.inbox_items set id = %s where id = %s", (new, item["id"]))
        done = daemon.run("inbox", "show", "abcd1234")
        assert done.returncode == 1
        assert all(each in done.stderr for each in ids)


class TestUndo:
    @pytest.mark.parametrize("running", [{"undo_seconds": 1}], indirect=True)
    def test_a_command_leaves_time_to_type_another(self, daemon: Daemon, google: Google, model: Model) -> None:
        model.script(lambda _: [reply("Friday is fine."), DONE])
        google.deliver(BOB, "Lunch?", "Does Friday suit you?")
        [item] = daemon.pending()
        taken = daemon.cli("inbox", "accept", item["id"][:8])
        found = re.search(r"`email-assistant (inbox undo [0-9a-f]{8})` takes it back within (\d+) s\.", taken)
        assert found, taken
        assert int(found[2]) in range(25, 31)
        assert "Taken back" in daemon.cli(*found[1].split())
        assert daemon.item(item["id"])["status"] == "pending"
        assert google.sent == []

    @pytest.mark.parametrize("running", [{"undo_seconds": 1}], indirect=True)
    def test_what_is_printed_is_for_the_same_settings(self, daemon: Daemon, google: Google, model: Model) -> None:
        model.script(lambda _: [reply("Friday is fine."), DONE])
        google.deliver(BOB, "Lunch?", "Does Friday suit you?")
        [item] = daemon.pending()
        file = daemon.home / "my own.env"
        file.touch()
        option = f"--env-file '{file}'"
        taken = daemon.cli("inbox", "respond", item["id"], "cheaper", "--env-file", str(file))
        found = re.search(rf"`email-assistant ({re.escape(option)} inbox undo {item['id'][:8]})` takes it back", taken)
        assert found, taken
        back = daemon.cli(*shlex.split(found[1]))
        assert f"to go on from it: email-assistant {option} inbox respond {item['id'][:8]} cheaper\n" in back
        refused = daemon.run("--env-file", str(file), "retry", "none").stderr
        assert f"`email-assistant {option} mails --state failed` shows what can be tried" in refused

    @pytest.mark.parametrize("running", [{"undo_seconds": 1}], indirect=True)
    def test_notices_that_were_put_away_come_back(self, daemon: Daemon, google: Google, model: Model) -> None:
        model.on_triage("notify")
        for subject in ("Notice one", "Notice two"):
            google.deliver(BOB, subject, "The office is closed.")
        ids = [item["id"] for item in daemon.pending(2)]
        daemon.kill()
        *told, kept = daemon.cli("inbox", "done", *ids).splitlines()
        for item_id, line in zip(ids, told, strict=True):
            undo = f"`email-assistant inbox undo {item_id[:8]}` takes it back within "
            assert re.fullmatch(rf"{item_id[:8]}: put away\. {re.escape(undo)}\d+ s\.", line)
        assert kept.startswith("It is kept, and done once something works on it: nothing is running since")
        assert "Taken back" in daemon.cli("inbox", "undo", ids[1][:8])
        assert [item["id"] for item in daemon.cli("inbox", "list", "--json")["items"]] == ids[1:]

    @pytest.mark.parametrize("running", [{"undo_seconds": 1, "undo_seconds_in_terminal": 2}], indirect=True)
    def test_it_is_a_setting(self, daemon: Daemon, google: Google, model: Model) -> None:
        model.script(lambda _: [reply("Friday is fine."), DONE])
        google.deliver(BOB, "Lunch?", "Does Friday suit you?")
        [item] = daemon.pending()
        assert "takes it back within 2 s" in daemon.cli("inbox", "accept", item["id"])
        daemon.wait_for(lambda: google.sent, "it is sent after that")
