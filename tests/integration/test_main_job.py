"""The main job from end to end: mail arrives, a person answers over HTTP or the command line, and Google shows it.

The program runs as its users run it; Google and the model are doubles that speak the real protocols.
"""

import json
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4
from zoneinfo import ZoneInfo

import httpx
import pytest

from tests.doubles.daemon import Daemon
from tests.doubles.google import Google
from tests.doubles.model import LEARN_ONE_RULE, Model, ToolCall, broken_tool, tool
from tests.doubles.serving import Hold

pytestmark = pytest.mark.slow

ADA = "ada@example.com"
BOB = "Bob Berg <bob@example.org>"
BERLIN = ZoneInfo("Europe/Berlin")
NEXT_WEEK = datetime.now(BERLIN).replace(hour=9, minute=0, second=0, microsecond=0) + timedelta(days=7)
DONE = tool("Done", done=True)
PROFILES = ("triage_preferences", "response_preferences", "cal_preferences")

Item = dict[str, Any]
Start = Callable[..., Daemon]


def reply(text: str) -> ToolCall:
    return tool("send_email_tool", response_text=text, email_address="bob@example.org")


def meeting(start: datetime) -> ToolCall:
    return tool(
        "schedule_meeting_tool",
        attendees=["bob@example.org"],
        title="Plan",
        start_time=start.isoformat(),
        end_time=(start + timedelta(minutes=45)).isoformat(),
        organizer_email=ADA,
        timezone="Europe/Berlin",
    )


@pytest.fixture
def google() -> Iterator[Google]:
    with Google(ADA, timezone="Europe/Berlin") as double:
        yield double
        assert double.calls("unknown") == []


@pytest.fixture
def model() -> Iterator[Model]:
    with Model() as double:
        double.on_triage("respond")
        yield double
        assert double.violations == []


@pytest.fixture
def start(tmp_path: Path, database_url: str, google: Google, model: Model) -> Iterator[Start]:
    """Start the daemon with one connected mailbox, and settings of the test's own."""
    running: list[Daemon] = []

    def start_one(**settings: object) -> Daemon:
        daemon = Daemon(tmp_path, database_url, google, model, **settings)
        running.append(daemon)
        daemon.account_add(ADA)
        daemon.up()
        daemon.wait_for(lambda: google.calls("history.list"), "the mailbox is polled")
        return daemon

    yield start_one
    for daemon in running:
        daemon.close()


@pytest.fixture
def daemon(start: Start) -> Daemon:
    return start()


def pending(daemon: Daemon, count: int = 1) -> list[Item]:
    """The items that wait for the person, once there are `count`."""
    daemon.wait_for(lambda: len(daemon.items(status="pending")) == count, f"{count} items wait")
    return daemon.items(status="pending")


def accept(daemon: Daemon, item: Item) -> None:
    assert daemon.decide(item["id"], "accept").status_code == 200


def wait_until_done(daemon: Daemon, mail_id: str) -> Item:
    return wait_for_state(daemon, mail_id, "done")


def wait_for_state(daemon: Daemon, mail_id: str, state: str) -> Item:
    daemon.wait_for(lambda: daemon.mail(mail_id).get("state") == state, f"the mail is {state}")
    return daemon.mail(mail_id)


def wait_for_status(daemon: Daemon, item: Item, status: str) -> Item:
    daemon.wait_for(lambda: daemon.item(item["id"])["status"] == status, f"the item is {status}")
    return daemon.item(item["id"])


def wait_for_polls(daemon: Daemon, google: Google, count: int) -> None:
    """Let the daemon look for new mail `count` more times."""
    before = len(google.calls("history.list"))
    daemon.wait_for(lambda: len(google.calls("history.list")) >= before + count, f"{count} polls")


def is_unread(google: Google, mail_id: str) -> bool:
    return "UNREAD" in google.message(mail_id).labels


def taught_one_rule(daemon: Daemon, model: Model, profile: str) -> bool:
    """Whether the one rule of the memory model stands in this profile, after one call, and in no other."""
    daemon.wait_for(lambda: daemon.rules(profile), f"a rule is learned in {profile}")
    learned = {name: daemon.rules(name) for name in PROFILES}
    expected = {name: [LEARN_ONE_RULE["text"]] if name == profile else [] for name in PROFILES}
    return learned == expected and len(model.calls("memory")) == 1


class TestReply:
    def test_an_accepted_reply_is_sent_in_its_thread(self, daemon: Daemon, google: Google, model: Model) -> None:
        model.script([[reply("Friday is fine.")], [DONE]])
        mail_id = google.deliver(BOB, "Lunch?", "Does Friday suit you?", headers={"Cc": "dan@example.net"})
        [item] = pending(daemon)
        assert item["action"] == "send_email_tool"
        assert item["args"]["response_text"] == "Friday is fine."
        assert set(item["allowed"]) == {"accept", "edit", "ignore", "response"}
        assert (item["account"], item["mail_id"]) == (ADA, mail_id)
        assert google.drafts == google.sent == []

        accept(daemon, item)

        assert wait_until_done(daemon, mail_id)["classification"] == "respond"
        [sent] = google.sent
        asked = google.message(mail_id).message_id
        assert sent.text == "Friday is fine."
        assert (sent.addresses("From"), sent.addresses("To")) == ([ADA], ["bob@example.org"])
        assert (sent.subject, sent.thread_id) == ("Re: Lunch?", mail_id)
        assert (sent.parsed["In-Reply-To"], sent.parsed["References"]) == (asked, asked)
        assert google.drafts == []
        assert not is_unread(google, mail_id)
        assert daemon.item(item["id"])["status"] == "applied"
        assert model.calls("memory") == []

    def test_the_command_line_shows_and_accepts(self, daemon: Daemon, google: Google, model: Model) -> None:
        model.script([[reply("Friday is fine."), DONE]])
        mail_id = google.deliver(BOB, "Lunch?", "Does Friday suit you?")
        pending(daemon)

        [item] = daemon.cli("inbox", "list", "--json")["items"]
        assert "Friday is fine." in daemon.cli("inbox", "show", item["id"])
        daemon.cli("inbox", "accept", item["id"])

        wait_until_done(daemon, mail_id)
        assert [sent.text for sent in google.sent] == ["Friday is fine."]
        assert [mail["state"] for mail in daemon.cli("mails", "--json")["items"]] == ["done"]
        assert daemon.run("inbox", "accept", item["id"]).returncode != 0

    def test_an_edit_is_what_is_sent_and_teaches_one_rule(self, daemon: Daemon, google: Google, model: Model) -> None:
        model.script([[reply("Friday is fine, dear Sir or Madam.")], [DONE]])
        mail_id = google.deliver(BOB, "Lunch?", "Does Friday suit you?")
        [item] = pending(daemon)
        edited = {
            **item["args"],
            "response_text": "Friday it is.",
            "additional_recipients": json.dumps(["carol@example.org", "dan@example.net"]),
        }

        assert daemon.decide(item["id"], "edit", edited).status_code == 200

        wait_until_done(daemon, mail_id)
        [sent] = google.sent
        assert sent.text == "Friday it is."
        assert sent.addresses("To") == ["bob@example.org"]
        assert sent.addresses("Cc") == ["carol@example.org", "dan@example.net"]
        [(_, shown)] = model.calls("response")[1].tool_calls
        assert shown["response_text"] == "Friday it is."
        assert taught_one_rule(daemon, model, "response_preferences")

    def test_an_ignored_reply_is_not_sent_and_teaches_one_rule(
        self, daemon: Daemon, google: Google, model: Model
    ) -> None:
        model.script([[reply("Friday is fine.")]])
        mail_id = google.deliver(BOB, "Lunch?", "Does Friday suit you?")
        [item] = pending(daemon)

        daemon.cli("inbox", "ignore", item["id"])

        wait_until_done(daemon, mail_id)
        assert google.sent == google.drafts == []
        assert is_unread(google, mail_id)
        assert len(model.calls("response")) == 1
        assert taught_one_rule(daemon, model, "triage_preferences")

    def test_a_response_is_told_to_the_model_and_teaches_one_rule(
        self, daemon: Daemon, google: Google, model: Model
    ) -> None:
        model.script([[reply("Friday is fine.")], [reply("Rather Thursday."), DONE]])
        mail_id = google.deliver(BOB, "Lunch?", "Does Friday suit you?")
        [first] = pending(daemon)

        daemon.cli("inbox", "respond", first["id"], "Offer Thursday instead.")

        wait_for_status(daemon, first, "applied")
        [second] = pending(daemon)
        assert "Offer Thursday instead." in model.calls("response")[1].tool_results[0]
        accept(daemon, second)
        wait_until_done(daemon, mail_id)
        assert [sent.text for sent in google.sent] == ["Rather Thursday."]
        assert taught_one_rule(daemon, model, "response_preferences")

    @pytest.mark.parametrize("done_first", [False, True])
    def test_done_in_the_same_message_costs_no_call_of_its_own(
        self, daemon: Daemon, google: Google, model: Model, done_first: bool
    ) -> None:
        calls = [reply("Friday is fine."), DONE]
        model.script([calls[::-1] if done_first else calls])
        mail_id = google.deliver(BOB, "Lunch?", "Does Friday suit you?")
        [item] = pending(daemon)
        accept(daemon, item)
        wait_until_done(daemon, mail_id)
        assert len(google.sent) == 1
        assert not is_unread(google, mail_id)
        assert [request.kind for request in model.requests] == ["triage", "response"]

    def test_a_reply_goes_where_the_sender_wants_it(self, daemon: Daemon, google: Google, model: Model) -> None:
        model.script([[tool("send_email_tool", response_text="Fine."), DONE]])
        mail_id = google.deliver(BOB, "Lunch?", "Friday?", headers={"Reply-To": "office@example.org"})
        [item] = pending(daemon)
        accept(daemon, item)
        wait_until_done(daemon, mail_id)
        assert [sent.recipients for sent in google.sent] == [["office@example.org"]]


class TestMeeting:
    def test_the_calendar_is_looked_at_unasked_and_the_meeting_is_reviewed(
        self, daemon: Daemon, google: Google, model: Model
    ) -> None:
        google.add_event("Dentist", NEXT_WEEK, NEXT_WEEK + timedelta(hours=1))
        eleven = NEXT_WEEK + timedelta(hours=2)
        model.script(
            [
                [tool("check_calendar_tool", dates=[f"{NEXT_WEEK:%d-%m-%Y}"])],
                [meeting(eleven)],
                [reply("See you at eleven."), DONE],
            ]
        )
        mail_id = google.deliver(BOB, "Planning", "Could we meet next week?")

        [proposed] = pending(daemon)
        [calendar] = model.calls("response")[1].tool_results
        assert "Dentist" in calendar
        assert "09:00" in calendar
        assert proposed["action"] == "schedule_meeting_tool"
        assert set(proposed["allowed"]) == {"accept", "edit", "ignore", "response"}
        assert [event["summary"] for event in google.events.values()] == ["Dentist"]

        accept(daemon, proposed)
        wait_for_status(daemon, proposed, "applied")
        [draft] = pending(daemon)
        accept(daemon, draft)

        wait_until_done(daemon, mail_id)
        [_, event] = google.events.values()
        assert event["summary"] == "Plan"
        assert [guest["email"] for guest in event["attendees"]] == ["bob@example.org"]
        assert datetime.fromisoformat(event["start"]["dateTime"]) == eleven
        assert [call.get("sendUpdates") for call in google.calls("events.insert")] == ["all"]
        assert [sent.text for sent in google.sent] == ["See you at eleven."]
        assert [request.kind for request in model.requests] == ["triage", "response", "response", "response"]

    @pytest.mark.parametrize("first", [0, 1])
    def test_two_calls_of_one_message_are_answered_in_either_order_and_run_in_their_own(
        self, daemon: Daemon, google: Google, model: Model, first: int
    ) -> None:
        model.script([[reply("See you."), meeting(NEXT_WEEK), DONE]])
        mail_id = google.deliver(BOB, "Planning", "Could we meet next week?")
        items = {item["action"]: item for item in pending(daemon, 2)}
        order = [items["send_email_tool"], items["schedule_meeting_tool"]]
        earlier, later = order[first], order[1 - first]

        accept(daemon, earlier)
        wait_for_polls(daemon, google, 3)
        assert daemon.item(earlier["id"])["status"] == "decided"
        assert daemon.item(later["id"])["status"] == "pending"
        assert (google.sent, google.drafts, google.events) == ([], [], {})
        accept(daemon, later)

        wait_until_done(daemon, mail_id)
        assert (len(google.sent), len(google.events)) == (1, 1)
        assert [c.name for c in google.calls("drafts.send", "events.insert")] == ["drafts.send", "events.insert"]


class TestNotice:
    def test_a_notice_can_be_answered_with_an_instruction(self, daemon: Daemon, google: Google, model: Model) -> None:
        model.on_triage("notify")
        model.script([[reply("We will be there."), DONE]])
        mail_id = google.deliver(BOB, "The office is closed", "On Monday the office is closed.")
        [notice] = pending(daemon)
        assert (notice["action"], notice["args"]) == ("Email Assistant: notify", {})
        assert set(notice["allowed"]) == {"ignore", "response"}

        assert daemon.decide(notice["id"], "response", "Say that we come anyway.").status_code == 200

        wait_for_status(daemon, notice, "applied")
        [draft] = pending(daemon)
        assert "Say that we come anyway." in model.calls("response")[0].text
        accept(daemon, draft)
        wait_until_done(daemon, mail_id)
        assert [sent.text for sent in google.sent] == ["We will be there."]
        assert taught_one_rule(daemon, model, "triage_preferences")

    def test_an_ignored_notice_ends_there(self, daemon: Daemon, google: Google, model: Model) -> None:
        model.on_triage("notify")
        mail_id = google.deliver(BOB, "The office is closed", "On Monday the office is closed.")
        [notice] = pending(daemon)
        assert daemon.decide(notice["id"], "ignore").status_code == 200
        wait_until_done(daemon, mail_id)
        assert model.calls("response") == []
        assert is_unread(google, mail_id)
        assert taught_one_rule(daemon, model, "triage_preferences")

    def test_an_answered_question_goes_on_and_teaches_nothing(
        self, daemon: Daemon, google: Google, model: Model
    ) -> None:
        model.script([[tool("Question", content="Which Friday?")], [reply("The 12th."), DONE]])
        mail_id = google.deliver(BOB, "Lunch?", "Does Friday suit you?")
        [question] = pending(daemon)
        assert (question["action"], question["args"]["content"]) == ("Question", "Which Friday?")
        assert set(question["allowed"]) == {"ignore", "response"}

        assert daemon.decide(question["id"], "response", "The 12th").status_code == 200

        wait_for_status(daemon, question, "applied")
        [draft] = pending(daemon)
        assert "The 12th" in model.calls("response")[1].tool_results[0]
        accept(daemon, draft)
        wait_until_done(daemon, mail_id)
        assert [sent.text for sent in google.sent] == ["The 12th."]
        assert model.calls("memory") == []


class TestDecision:
    def test_it_is_taken_once(self, daemon: Daemon, google: Google, model: Model) -> None:
        model.script([[reply("Friday is fine."), DONE]])
        mail_id = google.deliver(BOB, "Lunch?", "Does Friday suit you?")
        [item] = pending(daemon)
        accept(daemon, item)
        assert daemon.decide(item["id"], "ignore").status_code == 409
        wait_until_done(daemon, mail_id)
        assert daemon.decide(item["id"], "accept").status_code == 409
        assert daemon.item(item["id"])["decision"]["type"] == "accept"
        assert len(google.sent) == 1

    @pytest.mark.parametrize(
        "change",
        [
            pytest.param({"response_text": None}, id="no text"),
            pytest.param({"additional_recipients": '["nobody at all"]'}, id="not an address"),
        ],
    )
    def test_an_edit_that_cannot_be_carried_out_leaves_the_item_waiting(
        self, daemon: Daemon, google: Google, model: Model, change: dict[str, Any]
    ) -> None:
        model.script([[reply("Friday is fine."), DONE]])
        mail_id = google.deliver(BOB, "Lunch?", "Does Friday suit you?")
        [item] = pending(daemon)
        assert daemon.decide(item["id"], "edit", {**item["args"], **change}).status_code == 422
        assert daemon.item(item["id"]) == item
        accept(daemon, item)
        wait_until_done(daemon, mail_id)
        assert [sent.text for sent in google.sent] == ["Friday is fine."]

    def test_the_door_is_locked_and_the_unknown_is_unknown(self, daemon: Daemon) -> None:
        with httpx.Client(base_url=daemon.http.base_url, trust_env=False) as stranger:
            assert stranger.get("/health").status_code == 200
            assert stranger.get("/api/inbox").status_code == 401
            assert stranger.post(f"/api/inbox/{uuid4()}/decision", json={"type": "accept"}).status_code == 401
            stranger.headers["Authorization"] = "Bearer guessed"
            assert stranger.get("/api/inbox").status_code == 401
        assert daemon.decide(str(uuid4()), "accept").status_code == 404
        assert daemon.undo(str(uuid4())).status_code == 404
        assert daemon.http.get(f"/api/inbox/{uuid4()}").status_code == 404

    def test_it_can_be_undone_before_anything_happens(self, start: Start, google: Google, model: Model) -> None:
        daemon = start(undo_seconds=60)
        model.script([[reply("Friday is fine."), DONE]])
        google.deliver(BOB, "Lunch?", "Does Friday suit you?")
        [item] = pending(daemon)

        accept(daemon, item)
        decided = daemon.item(item["id"])
        assert decided["status"] == "decided"
        assert datetime.fromisoformat(decided["undo_until"]) > datetime.now(BERLIN)
        assert daemon.undo(item["id"]).status_code == 200

        assert daemon.item(item["id"])["status"] == "pending"
        assert daemon.undo(item["id"]).status_code == 409
        wait_for_polls(daemon, google, 2)
        assert google.calls("drafts.create", "drafts.send", "messages.send") == []
        daemon.cli("inbox", "ignore", item["id"])
        daemon.cli("inbox", "undo", item["id"])
        assert daemon.item(item["id"])["status"] == "pending"

    def test_nothing_happens_before_the_undo_window_has_passed(
        self, start: Start, google: Google, model: Model
    ) -> None:
        daemon = start(undo_seconds=2)
        model.script([[reply("Friday is fine."), DONE]])
        mail_id = google.deliver(BOB, "Lunch?", "Does Friday suit you?")
        [item] = pending(daemon)
        accepted = time.monotonic()
        accept(daemon, item)
        wait_until_done(daemon, mail_id)
        [created] = google.calls("drafts.create")
        assert created.time - accepted >= 2
        assert len(google.sent) == 1
        assert daemon.undo(item["id"]).status_code == 409

    def test_it_waits_while_the_account_is_paused(self, daemon: Daemon, google: Google, model: Model) -> None:
        model.script([[reply("Friday is fine."), DONE]])
        mail_id = google.deliver(BOB, "Lunch?", "Does Friday suit you?")
        [item] = pending(daemon)
        daemon.cli("account", "pause", ADA)
        accept(daemon, item)
        assert [account["state"] for account in daemon.cli("account", "list", "--json")["items"]] == ["paused"]
        assert daemon.item(item["id"])["status"] == "decided"
        assert google.calls("drafts.create") == []
        daemon.cli("account", "resume", ADA)
        wait_until_done(daemon, mail_id)
        assert len(google.sent) == 1


class TestThread:
    def test_a_second_mail_supersedes_the_waiting_draft(self, daemon: Daemon, google: Google, model: Model) -> None:
        model.script(lambda request: [reply(f"{len(request.mails)} mails read."), DONE])
        first = google.deliver(BOB, "Lunch?", "Does Friday suit you?")
        [old] = pending(daemon)

        second = google.deliver(BOB, "Re: Lunch?", "Or rather Thursday?", thread=first)

        superseded = wait_for_status(daemon, old, "superseded")
        [new] = pending(daemon)
        assert superseded["superseded_by"]
        assert superseded["args"] == old["args"]
        assert (new["mail_id"], new["args"]["response_text"]) == (second, "2 mails read.")
        assert [mail.id for mail in model.calls("response")[-1].mails] == [first, second]
        assert daemon.decide(old["id"], "accept").status_code == 409
        accept(daemon, new)
        wait_until_done(daemon, second)
        [sent] = google.sent
        assert sent.text == "2 mails read."
        assert sent.parsed["In-Reply-To"] == google.message(second).message_id
        assert daemon.mail(first)["state"] == "done"

    @pytest.mark.parametrize(
        "headers",
        [pytest.param({"Auto-Submitted": "auto-replied"}, id="automatic"), pytest.param({}, id="by the model")],
    )
    def test_an_ignored_second_mail_leaves_the_draft(
        self, daemon: Daemon, google: Google, model: Model, headers: dict[str, str]
    ) -> None:
        model.on_triage({"Lunch?": "respond", "Out of office": "ignore"})
        model.script([[reply("Friday is fine."), DONE]])
        first = google.deliver(BOB, "Lunch?", "Does Friday suit you?")
        [item] = pending(daemon)

        second = google.deliver(BOB, "Out of office", "I am away.", thread=first, headers=headers)

        assert wait_until_done(daemon, second)["classification"] == "ignore"
        assert daemon.item(item["id"])["status"] == "pending"
        accept(daemon, item)
        wait_until_done(daemon, first)
        assert len(google.sent) == 1

    def test_the_persons_own_answer_supersedes_the_draft(self, daemon: Daemon, google: Google, model: Model) -> None:
        model.script([[reply("Friday is fine."), DONE]])
        mail_id = google.deliver(BOB, "Lunch?", "Does Friday suit you?")
        [item] = pending(daemon)
        google.person_sends(mail_id, "See you there.")
        wait_for_status(daemon, item, "superseded")
        assert daemon.decide(item["id"], "accept").status_code == 409
        wait_until_done(daemon, mail_id)
        assert google.sent == google.drafts == []
        assert len(model.requests) == 2

    def test_the_persons_own_answer_wins_over_a_decision_that_waits(
        self, start: Start, google: Google, model: Model
    ) -> None:
        daemon = start(undo_seconds=3)
        model.script([[reply("Friday is fine."), DONE]])
        mail_id = google.deliver(BOB, "Lunch?", "Does Friday suit you?")
        [item] = pending(daemon)
        accept(daemon, item)
        google.person_sends(mail_id, "See you there.")
        wait_for_status(daemon, item, "superseded")
        wait_until_done(daemon, mail_id)
        assert google.sent == google.drafts == []


class TestPolling:
    def test_ten_polls_with_nothing_new_are_ten_questions_for_the_history(
        self, daemon: Daemon, google: Google, model: Model
    ) -> None:
        model.script([[reply("Friday is fine."), DONE]])
        google.deliver(BOB, "Lunch?", "Does Friday suit you?")
        pending(daemon)
        wait_for_polls(daemon, google, 2)
        settled = len(google.requests)
        asked = len(model.requests)
        wait_for_polls(daemon, google, 10)
        assert {call.name for call in google.requests[settled:]} == {"history.list"}
        assert len(model.requests) == asked

    def test_what_the_account_sends_itself_is_not_processed(self, daemon: Daemon, google: Google, model: Model) -> None:
        model.on_triage("ignore")
        google.deliver(ADA, "Note to self", "Buy milk.", labels=("INBOX", "UNREAD", "SENT"))
        first = google.deliver(BOB, "Lunch?", "Does Friday suit you?")
        wait_until_done(daemon, first)
        google.person_sends(first, "Yes.")
        wait_for_polls(daemon, google, 2)
        second = google.deliver(BOB, "Dinner?", "And in the evening?")
        wait_until_done(daemon, second)
        assert [request.mail.id for request in model.requests] == [first, second]
        assert daemon.items() == []

    def test_mail_from_before_the_account_was_connected_is_left_alone(
        self, google: Google, model: Model, start: Start
    ) -> None:
        google.deliver(BOB, "Old", "Long ago.", age=timedelta(days=2))
        daemon = start()
        model.on_triage("ignore")
        new = google.deliver(BOB, "New", "Just now.")
        wait_until_done(daemon, new)
        assert [request.mail.id for request in model.requests] == [new]

    def test_an_expired_cursor_loses_no_mail(self, daemon: Daemon, google: Google, model: Model) -> None:
        model.on_triage("ignore")
        first = google.deliver(BOB, "First", "One.")
        wait_until_done(daemon, first)
        poll = Hold()
        google.fault("history.list", hold=poll)
        poll.reached()
        second = google.deliver(BOB, "Second", "Two.")
        google.expire_history()
        poll.release()
        wait_until_done(daemon, second)
        wait_for_polls(daemon, google, 2)
        assert [request.mail.id for request in model.requests] == [first, second]


class TestTrouble:
    @pytest.mark.parametrize(
        "fault",
        [
            pytest.param({"status": 503}, id="503"),
            pytest.param({"html502": True}, id="a proxy's 502"),
            pytest.param({"status": 429, "reason": "rateLimitExceeded", "retry_after": 1}, id="over quota"),
            pytest.param({"drop": "before"}, id="the request is lost"),
            pytest.param({"drop": "after"}, id="the answer is lost"),
            pytest.param({"truncated": True}, id="the answer is cut"),
        ],
    )
    def test_an_approved_mail_is_sent_once_through_a_fault_of_google(
        self, daemon: Daemon, google: Google, model: Model, fault: dict[str, Any]
    ) -> None:
        model.script([[reply("Friday is fine."), DONE]])
        mail_id = google.deliver(BOB, "Lunch?", "Does Friday suit you?")
        [item] = pending(daemon)
        google.fault("drafts.create", **fault)
        google.fault("drafts.send", **fault)
        accept(daemon, item)
        wait_until_done(daemon, mail_id)
        assert [sent.text for sent in google.sent] == ["Friday is fine."]
        assert google.drafts == []
        assert daemon.item(item["id"])["status"] == "applied"
        assert len(model.requests) == 2

    def test_a_failing_memory_never_repeats_a_send(self, daemon: Daemon, google: Google, model: Model) -> None:
        model.script([[reply("Friday is fine."), DONE]])
        model.fault("memory", status=500)
        mail_id = google.deliver(BOB, "Lunch?", "Does Friday suit you?")
        [item] = pending(daemon)
        assert daemon.decide(item["id"], "edit", {**item["args"], "response_text": "Yes."}).status_code == 200
        wait_until_done(daemon, mail_id)
        daemon.wait_for(lambda: daemon.rules("response_preferences"), "the rule is learned after all")
        assert [sent.text for sent in google.sent] == ["Yes."]

    def test_broken_calls_go_back_to_the_model(self, daemon: Daemon, google: Google, model: Model) -> None:
        broken = [broken_tool("send_email_tool", '{"response_text": '), tool("delete_everything")]
        model.script([broken, [reply("Friday is fine."), DONE]])
        mail_id = google.deliver(BOB, "Lunch?", "Does Friday suit you?")
        [item] = pending(daemon)
        accept(daemon, item)
        wait_until_done(daemon, mail_id)
        assert len(model.calls("response")[1].tool_results) == 2
        assert [sent.text for sent in google.sent] == ["Friday is fine."]

    def test_servers_that_repeat_call_ids_lose_no_action(self, daemon: Daemon, google: Google, model: Model) -> None:
        def always_call_0(text: str, *more: ToolCall) -> list[ToolCall]:
            return [ToolCall("send_email_tool", reply(text).args, id="call_0"), *more]

        model.script([always_call_0("First."), always_call_0("Second.", DONE)])
        mail_id = google.deliver(BOB, "Lunch?", "Does Friday suit you?")
        for _ in range(2):
            [item] = pending(daemon)
            accept(daemon, item)
            wait_for_status(daemon, item, "applied")
        wait_until_done(daemon, mail_id)
        assert [sent.text for sent in google.sent] == ["First.", "Second."]

    def test_a_mail_that_failed_says_why_and_can_be_retried(self, start: Start, google: Google, model: Model) -> None:
        daemon = start(max_tries=2)
        model.fault("*", nonsense=True, times=100)
        bad = google.deliver(BOB, "Lunch?", "Does Friday suit you?")
        assert wait_for_state(daemon, bad, "failed")["reason"]
        model.clear_faults()
        model.on_triage("ignore")
        other = google.deliver(BOB, "Dinner?", "And in the evening?")
        wait_until_done(daemon, other)
        assert daemon.mail(bad)["state"] == "failed"
        daemon.cli("retry", bad)
        assert wait_until_done(daemon, bad)["classification"] == "ignore"
