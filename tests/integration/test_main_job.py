"""The main job from end to end: mail arrives, a person answers over HTTP or the command line, and Google shows it.

The program runs as its users run it; Google and the model are doubles that speak the real protocols.
"""

import time
from datetime import datetime, timedelta
from uuid import uuid4

import httpx
import pytest

from tests.doubles.daemon import Daemon
from tests.doubles.google import Google
from tests.doubles.model import Model, ToolCall, broken_tool, tool
from tests.doubles.serving import Hold
from tests.integration import shared
from tests.integration.scene import ADA, BERLIN, BOB, DONE, NEXT_WEEK, meeting, reply

daemon, google, model, database_url = shared.daemon, shared.google, shared.model, shared.database_url


class TestReply:
    def test_an_accepted_reply_is_sent_in_its_thread(self, daemon: Daemon, google: Google, model: Model) -> None:
        model.script([[reply("Friday is fine.")], [DONE]])
        mail_id = google.deliver(BOB, "Lunch?", "Does Friday suit you?", headers={"Cc": "dan@example.net"})
        [item] = daemon.pending()
        assert item["action"] == "send_email_tool"
        assert item["args"]["response_text"] == "Friday is fine."
        assert set(item["allowed"]) == {"accept", "edit", "ignore", "response"}
        assert (item["account"], item["mail_id"]) == (ADA, mail_id)
        assert google.drafts == google.sent == []

        daemon.accept(item)

        assert daemon.until_mail(mail_id, "done")["classification"] == "respond"
        [sent] = google.sent
        asked = google.message(mail_id).message_id
        assert sent.text == "Friday is fine."
        assert (sent.addresses("From"), sent.addresses("To")) == ([ADA], ["bob@example.org"])
        assert (sent.subject, sent.thread_id) == ("Re: Lunch?", mail_id)
        assert (sent.parsed["In-Reply-To"], sent.parsed["References"]) == (asked, asked)
        assert google.drafts == []
        assert not google.message(mail_id).is_unread
        assert daemon.item(item["id"])["status"] == "applied"
        assert model.calls("memory") == []

    def test_the_command_line_takes_every_answer(self, daemon: Daemon, google: Google, model: Model) -> None:
        proposed = [reply("Friday is fine."), DONE]
        subjects = ("accept", "edit", "ignore", "respond")
        model.script(
            {subject: [proposed] for subject in subjects[:3]}
            | {"respond": [proposed, [reply("Rather Thursday."), DONE]]}
        )
        mails = {subject: google.deliver(BOB, subject, "Does Friday suit you?") for subject in subjects}
        daemon.pending(4)

        items = {item["subject"]: item for item in daemon.cli("inbox", "list", "--json")["items"]}
        assert "Friday is fine." in daemon.cli("inbox", "show", items["accept"]["id"])
        for subject, *text in (
            ("accept",),
            ("edit", "response_text=Yes."),
            ("ignore",),
            ("respond", "Offer Thursday."),
        ):
            daemon.cli("inbox", subject, items[subject]["id"], *text)

        daemon.until_item(items["respond"], "applied")
        [again] = daemon.pending()
        assert model.calls("response")[-1].tool_results[0] == "Offer Thursday."
        daemon.cli("inbox", "accept", again["id"])
        daemon.until_done(*mails.values())
        assert {sent.thread_id: sent.text for sent in google.sent} == {
            mails["accept"]: "Friday is fine.",
            mails["edit"]: "Yes.",
            mails["respond"]: "Rather Thursday.",
        }
        assert len(google.sent) == 3
        assert [mail["state"] for mail in daemon.cli("mails", "--json")["items"]] == ["done"] * 4
        assert daemon.run("inbox", "accept", items["accept"]["id"]).returncode == 0  # it repeats what was taken
        assert daemon.run("inbox", "ignore", items["accept"]["id"]).returncode != 0


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

        [proposed] = daemon.pending()
        [calendar] = model.calls("response")[1].tool_results
        assert "Dentist" in calendar
        assert "09:00" in calendar
        assert proposed["action"] == "schedule_meeting_tool"
        assert set(proposed["allowed"]) == {"accept", "edit", "ignore", "response"}
        assert [event["summary"] for event in google.events.values()] == ["Dentist"]

        daemon.accept(proposed)
        daemon.until_item(proposed, "applied")
        [draft] = daemon.pending()
        daemon.accept(draft)

        daemon.until_done(mail_id)
        [_, event] = google.events.values()
        assert event["summary"] == "Plan"
        assert [guest["email"] for guest in event["attendees"]] == ["bob@example.org"]
        assert datetime.fromisoformat(event["start"]["dateTime"]) == eleven
        assert [call.get("sendUpdates") for call in google.calls("events.insert")] == ["all"]
        assert [sent.text for sent in google.sent] == ["See you at eleven."]
        assert [request.kind for request in model.requests] == ["triage", "response", "response", "response"]


class TestDecision:
    def test_it_is_taken_once(self, daemon: Daemon, google: Google, model: Model) -> None:
        model.script([[reply("Friday is fine."), DONE]])
        mail_id = google.deliver(BOB, "Lunch?", "Does Friday suit you?")
        [item] = daemon.pending()
        daemon.accept(item)
        assert daemon.decide(item["id"], "ignore").status_code == 409
        daemon.until_done(mail_id)
        assert daemon.decide(item["id"], "accept").status_code == 200  # it repeats what was taken
        assert daemon.decide(item["id"], "ignore").status_code == 409
        assert daemon.item(item["id"])["decision"]["type"] == "accept"
        assert len(google.sent) == 1

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

    @pytest.mark.parametrize("running", [{"undo_seconds": 60}], indirect=True)
    def test_it_can_be_undone_before_anything_happens(self, daemon: Daemon, google: Google, model: Model) -> None:
        model.script([[reply("Friday is fine."), DONE]])
        google.deliver(BOB, "Lunch?", "Does Friday suit you?")
        [item] = daemon.pending()

        daemon.accept(item)
        decided = daemon.item(item["id"])
        assert decided["status"] == "decided"
        assert datetime.fromisoformat(decided["undo_until"]) > datetime.now(BERLIN)
        assert daemon.undo(item["id"]).status_code == 200

        assert daemon.item(item["id"])["status"] == "pending"
        assert daemon.undo(item["id"]).status_code == 409
        daemon.until_polled(2)
        assert google.calls("drafts.create", "drafts.send", "messages.send") == []
        daemon.cli("inbox", "ignore", item["id"])
        daemon.cli("inbox", "undo", item["id"])
        assert daemon.item(item["id"])["status"] == "pending"

    @pytest.mark.parametrize("running", [{"undo_seconds": 3}], indirect=True)
    def test_nothing_happens_before_the_undo_window_has_passed(
        self, daemon: Daemon, google: Google, model: Model
    ) -> None:
        model.script([[reply("Friday is fine."), DONE]])
        mail_id = google.deliver(BOB, "Lunch?", "Does Friday suit you?")
        [item] = daemon.pending()
        accepted = time.monotonic()
        daemon.accept(item)
        daemon.until_done(mail_id)
        [created] = google.calls("drafts.create")
        assert created.time - accepted >= 3
        assert len(google.sent) == 1
        assert daemon.undo(item["id"]).status_code == 409

    def test_it_waits_while_the_account_is_paused(self, daemon: Daemon, google: Google, model: Model) -> None:
        model.script([[reply("Friday is fine."), DONE]])
        mail_id = google.deliver(BOB, "Lunch?", "Does Friday suit you?")
        [item] = daemon.pending()
        daemon.cli("account", "pause", ADA)
        daemon.accept(item)
        assert [account["state"] for account in daemon.cli("account", "list", "--json")["items"]] == ["paused"]
        assert daemon.item(item["id"])["status"] == "decided"
        assert google.calls("drafts.create") == []
        daemon.cli("account", "resume", ADA)
        daemon.until_done(mail_id)
        assert len(google.sent) == 1


class TestThread:
    def test_a_second_mail_supersedes_the_waiting_draft(self, daemon: Daemon, google: Google, model: Model) -> None:
        model.script(lambda request: [reply(f"{len(request.mails)} mails read."), DONE])
        first = google.deliver(BOB, "Lunch?", "Does Friday suit you?")
        [old] = daemon.pending()

        second = google.deliver(BOB, "Re: Lunch?", "Or rather Thursday?", thread=first)

        superseded = daemon.until_item(old, "superseded")
        [new] = daemon.pending()
        assert superseded["superseded_by"]
        assert superseded["args"] == old["args"]
        assert (new["mail_id"], new["args"]["response_text"]) == (second, "2 mails read.")
        assert [mail.id for mail in model.calls("response")[-1].mails] == [first, second]
        assert daemon.decide(old["id"], "accept").status_code == 409
        daemon.accept(new)
        daemon.until_done(second)
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
        [item] = daemon.pending()

        second = google.deliver(BOB, "Out of office", "I am away.", thread=first, headers=headers)

        assert daemon.until_mail(second, "done")["classification"] == "ignore"
        assert daemon.item(item["id"])["status"] == "pending"
        daemon.accept(item)
        daemon.until_done(first)
        assert len(google.sent) == 1

    def test_the_persons_own_answer_supersedes_the_draft(self, daemon: Daemon, google: Google, model: Model) -> None:
        model.script([[reply("Friday is fine."), DONE]])
        mail_id = google.deliver(BOB, "Lunch?", "Does Friday suit you?")
        [item] = daemon.pending()
        google.person_sends(mail_id, "See you there.")
        daemon.until_item(item, "superseded")
        assert daemon.decide(item["id"], "accept").status_code == 409
        daemon.until_done(mail_id)
        assert google.sent == google.drafts == []
        assert len(model.requests) == 2

    @pytest.mark.parametrize("running", [{"undo_seconds": 3}], indirect=True)
    def test_the_persons_own_answer_wins_over_a_decision_that_waits(
        self, daemon: Daemon, google: Google, model: Model
    ) -> None:
        model.script([[reply("Friday is fine."), DONE]])
        mail_id = google.deliver(BOB, "Lunch?", "Does Friday suit you?")
        [item] = daemon.pending()
        daemon.accept(item)
        google.person_sends(mail_id, "See you there.")
        daemon.until_item(item, "superseded")
        daemon.until_done(mail_id)
        assert google.sent == google.drafts == []


class TestPolling:
    def test_mail_from_before_the_account_was_connected_is_left_alone(
        self, daemon: Daemon, google: Google, model: Model
    ) -> None:
        daemon.cli("account", "remove", ADA, "--yes")
        google.deliver(BOB, "Old", "Long ago.", age=timedelta(days=2))
        daemon.account_add(ADA)
        model.on_triage("ignore")
        new = google.deliver(BOB, "New", "Just now.")
        daemon.until_done(new)
        assert [request.mail.id for request in model.requests] == [new]

    def test_an_expired_cursor_loses_no_mail(self, daemon: Daemon, google: Google, model: Model) -> None:
        model.on_triage("ignore")
        first = google.deliver(BOB, "First", "One.")
        daemon.until_done(first)
        poll = Hold()
        google.fault("history.list", hold=poll)
        poll.reached()
        second = google.deliver(BOB, "Second", "Two.")
        google.expire_history()
        poll.release()
        daemon.until_done(second)
        daemon.until_polled(2)
        assert [request.mail.id for request in model.requests] == [first, second]


class TestTrouble:
    @pytest.mark.parametrize(
        "arguments",
        [
            '{"response_text": ',
            r'{"response_text": "Friday is fine. \ud83d"}',
            r'{"response_text": "Friday \u0000 is fine."}',
            f'{{"response_text": {"[" * 300 + "]" * 300}}}',
            f'{{"response_text": {"[" * 2000 + "]" * 2000}}}',
        ],
        ids=["no JSON", "half a surrogate pair", "NUL", "deep", "too deep to be read"],
    )
    def test_broken_calls_go_back_to_the_model(
        self, daemon: Daemon, google: Google, model: Model, arguments: str
    ) -> None:
        broken = [broken_tool("send_email_tool", arguments), tool("delete_everything")]
        model.script([broken, [reply("Friday is fine."), DONE]])
        mail_id = google.deliver(BOB, "Lunch?", "Does Friday suit you?")
        [item] = daemon.pending()
        daemon.accept(item)
        daemon.until_done(mail_id)
        assert len(model.calls("response")[1].tool_results) == 2
        assert [sent.text for sent in google.sent] == ["Friday is fine."]

    def test_servers_that_repeat_call_ids_lose_no_action(self, daemon: Daemon, google: Google, model: Model) -> None:
        def always_call_0(text: str, *more: ToolCall) -> list[ToolCall]:
            return [ToolCall("send_email_tool", reply(text).args, id="call_0"), *more]

        model.script([always_call_0("First."), always_call_0("Second.", DONE)])
        mail_id = google.deliver(BOB, "Lunch?", "Does Friday suit you?")
        for _ in range(2):
            [item] = daemon.pending()
            daemon.accept(item)
            daemon.until_item(item, "applied")
        daemon.until_done(mail_id)
        assert [sent.text for sent in google.sent] == ["First.", "Second."]

    @pytest.mark.parametrize("running", [{"max_tries": 2}], indirect=True)
    def test_a_mail_that_failed_says_why_and_can_be_retried(self, daemon: Daemon, google: Google, model: Model) -> None:
        model.fault("*", nonsense=True, times=100)
        bad = google.deliver(BOB, "Lunch?", "Does Friday suit you?")
        assert daemon.until_mail(bad, "failed")["reason"]
        model.clear_faults()
        model.on_triage("ignore")
        other = google.deliver(BOB, "Dinner?", "And in the evening?")
        daemon.until_done(other)
        assert daemon.mail(bad)["state"] == "failed"
        daemon.cli("retry", bad)
        assert daemon.until_mail(bad, "done")["classification"] == "ignore"
