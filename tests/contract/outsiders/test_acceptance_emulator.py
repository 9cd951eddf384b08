"""The main job on Google doubles of other people's making: mail and login on @emulators/google, calendars on myworld.

The program runs as its users run it. Our own double is made by those who made the program, and may share a mistake.
"""

import json
import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import httpx
import pytest

from tests.doubles.consent import agree
from tests.doubles.daemon import Daemon
from tests.doubles.emulator import EmulatedGoogle
from tests.doubles.front import Moment
from tests.doubles.model import Model, tool
from tests.doubles.serving import Hold
from tests.integration.scene import ADA, BOB, DONE, NEXT_WEEK, meeting, reply

ASKS = "Does Friday suit you?"


@pytest.fixture
def daemon(tmp_path: Path, database_url: str, google: EmulatedGoogle, model: Model) -> Iterator[Daemon]:
    """Runs on Ada's mailbox."""
    with Daemon(tmp_path, database_url, google, model) as program:
        program.account_add(ADA)
        program.up()
        program.until_polled(2)
        yield program


def test_a_login_by_browser_connects_the_mailbox(
    tmp_path: Path, database_url: str, google: EmulatedGoogle, model: Model
) -> None:
    model.script([[reply("Friday is fine."), DONE]])
    client = tmp_path / "client.json"
    client.write_text(json.dumps({"installed": {name: google.login[name] for name in ("client_id", "client_secret")}}))
    with Daemon(tmp_path, database_url, google, model) as program:
        login = program._start("login", "auth", "login", "--no-browser", "--client-secret", str(client))
        [page] = program.wait_for(lambda: re.findall(r"^http\S+$", login.log, re.MULTILINE), "the page's address")
        with httpx.Client(trust_env=False, follow_redirects=True, timeout=30) as browser:
            assert "You can close this page" in agree(browser, page).text
        program.wait_for(lambda: not login.is_running, "the command ends")
        assert f"Connected {ADA}." in login.log, login.log
        program.cli("account", "mode", ADA, "send")
        program.up()
        program.until_polled(2)
        mail_id = google.deliver(BOB, "After the login", ASKS)
        [item] = program.pending()
        program.accept(item)
        program.until_done(mail_id)
        assert [sent.text for sent in google.sent if sent.thread_id == google.thread_of(mail_id)] == ["Friday is fine."]


def test_a_mail_becomes_a_meeting_and_a_reply(daemon: Daemon, google: EmulatedGoogle, model: Model) -> None:
    eleven = NEXT_WEEK + timedelta(hours=2)
    model.script(
        [[tool("check_calendar_tool", dates=[f"{NEXT_WEEK:%d-%m-%Y}"])], [meeting(eleven)], [reply("At eleven."), DONE]]
    )
    mail_id = google.deliver(BOB, "Planning", "Could we meet next week?")
    for action in ("schedule_meeting_tool", "send_email_tool"):
        [item] = daemon.pending()
        assert item["action"] == action
        daemon.accept(item)
        daemon.until_item(item, "applied")
    assert daemon.until_mail(mail_id, "done")["classification"] == "respond"

    asked = google.message(mail_id)
    [event] = google.events
    assert datetime.fromisoformat(event["start"]["dateTime"]) == eleven
    assert "bob@example.org" in [guest["email"] for guest in event["attendees"]]
    [sent] = [sent for sent in google.sent if sent.thread_id == asked.thread_id]
    assert (sent.text, sent.subject) == ("At eleven.", "Re: Planning")
    assert (sent.addresses("From"), sent.addresses("To")) == ([ADA], ["bob@example.org"])
    assert (sent.parsed["In-Reply-To"], sent.parsed["References"]) == (asked.message_id, asked.message_id)
    assert not asked.is_unread
    assert google.drafts == []


def test_what_came_while_it_was_stopped_is_caught_up_with(daemon: Daemon, google: EmulatedGoogle, model: Model) -> None:
    model.script(lambda _: [reply("Friday is fine."), DONE])
    first = google.deliver(BOB, "First", ASKS)
    [waiting] = daemon.pending()
    daemon.stop()
    answered_by_hand = google.person_sends(google.thread_of(first), "See you there.")
    second = google.deliver(BOB, "Second", ASKS)
    google.deliver(BOB, "Gone", ASKS, labels=["SPAM"])

    google.fault("history.list", empty_page=True)
    daemon.up()

    daemon.until_item(waiting, "superseded")
    [item] = daemon.pending()
    assert item["mail_id"] == second
    assert daemon.mail(first)["state"] == "done"
    with google.at_once():
        third = google.deliver(BOB, "Third", ASKS)
        google.expire_history()
    assert {found["mail_id"] for found in daemon.pending(2)} == {second, third}
    assert answered_by_hand in [message.id for message in google.sent]


def test_a_mail_that_is_ignored_costs_one_look_at_it(daemon: Daemon, google: EmulatedGoogle, model: Model) -> None:
    model.on_triage("ignore")
    daemon.until_polled(1)
    asked = len(google.requests)
    mail_id = google.deliver(BOB, "Offers", "Only today.")
    daemon.until_done(mail_id)
    daemon.until_polled(2)
    model.on_triage("respond")
    of_the_account = {"history.list", "labels.list", "labels.create"}  # whatever mail there is
    calls = [call for call in google.requests[asked:] if call.name not in of_the_account]
    assert [call.name for call in calls].count("messages.get") == 1
    assert google.units(calls) <= 26


@pytest.mark.parametrize(
    ("call", "moment"), [("drafts.create", "after"), ("drafts.send", "before"), ("drafts.send", "after")]
)
def test_a_kill_in_the_middle_of_a_send_costs_nothing(
    daemon: Daemon, google: EmulatedGoogle, model: Model, call: str, moment: Moment
) -> None:
    model.script(lambda _: [reply(f"Killed {moment} {call}."), DONE])
    mail_id = google.deliver(BOB, f"Killed {moment} {call}", ASKS)
    [item] = daemon.pending()
    hold = Hold()
    google.fault(call, hold=hold, at=moment)
    daemon.accept(item)
    hold.reached()
    daemon.kill()
    hold.abandon()
    daemon.up()

    daemon.until_mail(mail_id, "done", timeout=60)

    daemon.wait_for(lambda: not google.drafts, "no draft is left over")
    daemon.stop()
    texts = [sent.text for sent in google.sent if sent.thread_id == google.thread_of(mail_id)]
    assert texts == [f"Killed {moment} {call}."]
