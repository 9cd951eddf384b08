"""Backup and restore: all comes back, and nothing is carried out from an old state of things."""

import re
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest
from cryptography.fernet import Fernet

from email_assistant.db.backup import back_up
from email_assistant.db.pool import session_settings
from email_assistant.db.restore import restore as put_back
from email_assistant.features.notices.telling import Telling
from email_assistant.mail.address import Address
from email_assistant.mail.compose import compose_mail
from email_assistant.outgoing.letters import Letter, Posted
from tests.doubles.daemon import Daemon
from tests.doubles.google import Google
from tests.doubles.model import LEARN_ONE_RULE, Model
from tests.doubles.serving import Hold
from tests.integration.conftest import Start
from tests.integration.home import Home, OpenHome, in_one_loop
from tests.integration.scene import ADA, BOB, DONE, meeting, reply


@pytest.fixture
def file(tmp_path: Path) -> str:
    return str(tmp_path / "backup.tar.gz")


def restore(daemon: Daemon, file: str) -> None:
    daemon.stop()
    daemon.cli("restore", file, "--replace")
    daemon.up()


def test_what_happened_since_is_found_and_nothing_is_done_twice(
    daemon: Daemon, google: Google, model: Model, file: str
) -> None:
    model.script([[reply("Dear Sir.")], [DONE], [reply("Saturday is fine."), DONE]])
    before = google.deliver(BOB, "Lunch?", "Does Friday suit you?")
    [first] = daemon.pending()
    daemon.answer(first, "edit", {**first["args"], "response_text": "Friday it is."})
    daemon.until_done(before)
    daemon.wait_for(lambda: daemon.rules("response_preferences"), "the edit is learned from")
    waiting = google.deliver(BOB, "Dinner?", "Does Saturday suit you?")
    [item] = daemon.pending()
    daemon.cli("backup", file)
    daemon.accept(item)
    daemon.until_done(waiting)

    restore(daemon, file)
    model.on_triage("ignore")
    later = google.deliver(BOB, "Thanks", "See you.")

    daemon.until_done(later, waiting)
    assert daemon.item(item["id"])["status"] == "superseded"
    assert "yourself" in daemon.mail(waiting)["reason"]
    assert [sent.text for sent in google.sent] == ["Friday it is.", "Saturday is fine."]
    assert daemon.rules("response_preferences") == [LEARN_ONE_RULE["text"]]
    assert [request.mail.subject for request in model.calls("triage")] == ["Lunch?", "Dinner?", "Thanks"]


def test_an_answer_before_the_next_look_into_the_mailbox_sends_nothing_again(
    daemon: Daemon, google: Google, model: Model, file: str
) -> None:
    model.script([[reply("Friday is fine."), DONE]])
    mail = google.deliver(BOB, "Lunch?", "Does Friday suit you?")
    [item] = daemon.pending()
    looking = Hold()
    google.fault("history.list", hold=looking)
    looking.reached()
    daemon.cli("backup", file)  # in the middle of a look, which no process goes on with once it is restored
    looking.release()
    daemon.accept(item)
    daemon.until_done(mail)
    daemon.stop()
    daemon.cli("restore", file, "--replace")
    daemon.environment["EMAIL_ASSISTANT_POLL_SECONDS"] = "3600"
    looks = len(google.calls("history.list"))
    google.fault("history.list", status=503)
    daemon.up()
    daemon.wait_for(lambda: len(google.calls("history.list")) > looks, "the only poll fails")

    daemon.accept(item)

    daemon.until_item(item, "superseded")
    assert len(google.sent) == 1


def test_what_was_being_done_is_shown_and_not_done(start: Start, google: Google, model: Model, file: str) -> None:
    model.script([[reply("Friday is fine."), DONE], [reply("Friday is fine, still."), DONE]])
    daemon = start(google_timeout_seconds=60, lease_seconds=120)
    mail = google.deliver(BOB, "Lunch?", "Does Friday suit you?")
    [item] = daemon.pending()
    sending = Hold()
    google.fault("drafts.create", hold=sending)
    daemon.accept(item)
    sending.reached()
    daemon.cli("backup", file)
    sending.release()
    daemon.until_done(mail)

    restore(daemon, file)

    assert "restored from a backup" in daemon.until_mail(mail, "failed")["reason"]
    assert daemon.item(item["id"])["status"] == "applied"
    assert len(google.sent) == 1


def test_a_decision_that_could_still_be_undone_is_asked_for_again(
    start: Start, google: Google, model: Model, file: str
) -> None:
    model.script([[reply("Friday is fine."), DONE]])
    daemon = start(undo_seconds=600)
    google.deliver(BOB, "Lunch?", "Does Friday suit you?")
    [item] = daemon.pending()
    daemon.accept(item)
    daemon.cli("backup", file)

    restore(daemon, file)

    [again] = daemon.pending()
    assert (again["id"], again["decision"]) == (item["id"], None)
    assert again["asked_because"] == "a backup was restored from before what you decided was done"


@in_one_loop
async def test_an_approval_of_before_does_not_come_back_with_an_answer_that_is_taken_back(
    open_home: OpenHome, model: Model, database_url: str, file: str
) -> None:
    model.script(lambda _: [reply("An invitation follows."), meeting(), DONE])
    async with open_home(undo_seconds=600) as home:
        await home.receive()
        parts = {item.kind: item for item in await home.pending()}
        await home.decide(parts["draft"], "accept")
        await home.decide(parts["meeting"], "ignore")  # so they are asked about the draft once more
        back_up(database_url, {"secret_key": "key"}, Path(file))
    await put_back(database_url, Path(file), replace=True)

    async with open_home(undo_seconds=600) as home:
        await home.decide(parts["meeting"], "ignore")
        await home.app.inbox.undo(home.app.user_id, parts["meeting"].id)
        assert {item.kind for item in await home.pending()} == {"draft", "meeting"}


@pytest.mark.parametrize("state", ["wanted", "started"])
def test_no_draft_is_left_at_gmail_that_was_only_to_be(
    daemon: Daemon, google: Google, model: Model, database_url: str, file: str, state: str
) -> None:
    model.script([[reply("Friday is fine."), DONE]])
    google.deliver(BOB, "Lunch?", "Does Friday suit you?")
    daemon.pending()
    daemon.stop()
    with psycopg.connect(database_url, options=session_settings(database_url)["options"]) as conn:
        conn.execute(
            """insert into left_drafts (run_id, call_id, user_id, account_id, thread_id, args, state)
               select run_id, call_id, user_id, account_id, thread_id, args, %s from inbox_items""",
            (state,),
        )
    daemon.cli("backup", file)

    restore(daemon, file)
    model.on_triage("ignore")
    daemon.until_done(google.deliver(BOB, "Thanks", "See you."))  # what was due before it is done

    daemon.stop()
    assert google.calls("drafts.create") == []
    with psycopg.connect(database_url, options=session_settings(database_url)["options"]) as conn:
        assert conn.execute("select state from left_drafts").fetchall() == [("gone",)]


@in_one_loop
class TestUnderAKey:
    """A program's key, or a day's digest, that the backup does not know is found in Sent."""

    async def test_what_was_sent_since_is_not_sent_again(
        self, open_home: OpenHome, google: Google, model: Model, database_url: str, file: str
    ) -> None:
        model.script([[reply("Friday is fine."), DONE]])
        async with open_home(digest_at="00:00") as home:
            await home.receive()
            back_up(database_url, {"secret_key": "key"}, Path(file))
            first = await self._send(home, "a")
            await Telling.of(home.app).digests.send_due()
            assert len(google.sent) == 2
        await put_back(database_url, Path(file), replace=True)

        async with open_home(digest_at="00:00") as home:
            again = await self._send(home, "a")
            await Telling.of(home.app).digests.send_due()
            assert len(google.sent) == 2
            assert (first.before, again.before, again.message_id) == (False, True, first.message_id)
            assert await Telling.of(home.app).digests.last_errors(home.app.user_id) == {}

            other = await self._send(home, "b")  # of the same words, but of another key
            assert (other.before, len(google.sent)) == (False, 3)
            looks = len(google.calls("messages.list"))
            assert (await self._send(home, "b")).before
            assert len(google.calls("messages.list")) == looks

    async def _send(self, home: Home, key: str) -> Posted:
        async def write() -> Letter:
            sender, date = Address("Ada", ADA), datetime.now(UTC)
            return Letter(compose_mail(to=[BOB], sender=sender, subject="Hi", text="Hello.", date=date), None)

        account = await home.account()
        gmail = (await home.app.clients.get(account.id)).gmail
        return await home.app.outbox.send(gmail, account, "program", key, {"text": "Hello."}, write)


def test_it_takes_the_place_of_nothing_unasked(daemon: Daemon, google: Google, file: str, tmp_path: Path) -> None:
    daemon.cli("backup", file)
    assert Path(file).stat().st_mode & 0o777 == 0o600
    assert "is there already" in daemon.run("backup", file).stderr
    assert "stop `up`" in daemon.run("restore", file, "--replace").stderr
    daemon.stop()
    assert "--replace" in daemon.run("restore", file).stderr
    damaged = tmp_path / "damaged.tar.gz"
    damaged.write_bytes(Path(file).read_bytes()[:-2000])
    for bad in (damaged, tmp_path, tmp_path / "missing.tar.gz"):
        refused = daemon.run("restore", str(bad), "--replace")
        assert (refused.returncode, refused.stdout) == (1, "")
        assert refused.stderr.startswith("Error: ")
        assert refused.stderr.count("\n") == 1
    [account] = daemon.cli("account", "list", "--json")["items"]
    assert account["address"] == google.address


def test_a_new_home_gets_the_key_along(tmp_path: Path, daemon: Daemon, google: Google, file: str) -> None:
    daemon.cli("backup", file)
    daemon.stop()
    daemon.environment["EMAIL_ASSISTANT_SECRET_KEY"] = ""
    daemon.environment["EMAIL_ASSISTANT_HOME"] = str(tmp_path / "new-home")
    daemon.cli("restore", file, "--replace")
    daemon.up()

    daemon.until_polled(2)

    [account] = daemon.cli("account", "list", "--json")["items"]
    assert account["last_error"] is None


class TestDrill:
    def test_it_tells_what_a_backup_holds_and_touches_nothing(
        self, daemon: Daemon, google: Google, model: Model, file: str, database_url: str
    ) -> None:
        model.script([[reply("Friday is fine."), DONE]])
        google.deliver(BOB, "Lunch?", "Does Friday suit you?")
        [item] = daemon.pending()
        daemon.cli("memory", "add", "response_preferences", "Sign with Ada.")
        daemon.cli("backup", file)
        daemon.environment["DATABASE_URL"] = (
            "postgresql://nobody@127.0.0.1:1/nowhere"  # of the real one nothing is asked
        )

        found = daemon.cli("restore", "--check", file, "--json")

        told = {name: found[name] for name in ("accounts", "mails", "waiting", "rules", "secrets")}
        assert told == {"accounts": [ADA], "mails": 1, "waiting": 1, "rules": 1, "secrets": 1}
        assert found["last_mail"] is not None
        assert found["seconds"] > 0
        said = daemon.cli("restore", "--check", file)
        assert "can be restored: in " in said
        assert re.search(r"1 mails, the last of 20\d\d-", said)
        assert daemon.item(item["id"])["status"] == "pending"
        daemon.until_polled(2)

    def test_a_backup_whose_key_is_another_fails(self, daemon: Daemon, file: str, tmp_path: Path) -> None:
        daemon.cli("backup", file)
        daemon.stop()
        other = str(tmp_path / "other.tar.gz")
        settings = daemon.environment["DATABASE_URL"]
        back_up(settings, {"secret_key": Fernet.generate_key().decode()}, Path(other))
        daemon.cli("restore", "--check", file)
        refused = daemon.run("restore", "--check", other)
        assert (refused.returncode, "can't be read with this key" in refused.stderr) == (1, True)
