"""Every answer to every kind of item, over HTTP: what becomes of it at Google, in the prompts and in memory."""

import json
import re
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from tests.doubles.daemon import Daemon
from tests.doubles.google import Google
from tests.doubles.model import Model, ModelRequest, tool
from tests.integration import shared
from tests.integration.scene import BOB, DONE, NEXT_WEEK, PROFILES, by_subject, meeting, reply

daemon, google, model, database_url = shared.daemon, shared.google, shared.model, shared.database_url

ANSWERS = ("accept", "edit", "ignore", "response")


def deliver(google: Google, *subjects: str) -> dict[str, str]:
    """One mail of each subject; returns their Gmail ids."""
    return {subject: google.deliver(BOB, subject, "Does Friday suit you?") for subject in subjects}


def heeds(otherwise: str) -> Callable[[ModelRequest], str]:
    """A model that sorts a mail as the rule says that bears its subject."""

    def said(request: ModelRequest) -> str:
        rules = re.findall(r"^\d+\. (\w+)", str(request.messages[0]["content"]), re.MULTILINE)
        means = {"ignore": "ignore", "response": "respond"}
        return means[request.mail.subject] if request.mail.subject in {*rules} & {*means} else otherwise

    return said


def name_the_lesson(request: ModelRequest) -> dict[str, Any]:
    """A rule that says which answer the lesson is about."""
    words = re.search(r"^The person's words: ", request.text, re.MULTILINE)
    answer = "response" if words else "edit" if "The person edited" in request.text else "ignore"
    return {"action": "add", "rule": None, "text": answer, "reason": "Told."}


def begins(event: dict[str, Any]) -> datetime:
    return datetime.fromisoformat(event["start"]["dateTime"])


def lessons(daemon: Daemon, model: Model, count: int) -> dict[str, list[str]]:
    """The rules in each profile, once there are so many."""

    def learned() -> dict[str, list[str]]:
        shown = daemon.cli("memory", "show", "--json")
        return {profile: sorted(rule["text"] for rule in shown[profile]) for profile in PROFILES}

    daemon.wait_for(lambda: len(model.calls("memory")) == count, f"{count} lessons are put to the model")
    daemon.wait_for(lambda: sum(map(len, learned().values())) == count, f"{count} rules are learned")
    return learned()


class TestAReply:
    def test_takes_all_four_answers(self, daemon: Daemon, google: Google, model: Model) -> None:
        model.on_triage(heeds("respond"))
        model.on_memory(name_the_lesson)
        proposed = [reply("Friday is fine."), DONE]
        model.script(
            {
                "accept": [proposed],
                "edit": [proposed],
                "ignore": [proposed],
                "response": [proposed, [reply("Rather Thursday."), DONE]],
            }
        )
        mails = deliver(google, *ANSWERS)
        items = by_subject(daemon.pending(4))
        assert all(set(item["allowed"]) == set(ANSWERS) for item in items.values())

        daemon.accept(items["accept"])
        edited = {
            **items["edit"]["args"],
            "response_text": "Yes.",
            "additional_recipients": "c@example.org; d@example.org",
        }
        daemon.answer(items["edit"], "edit", edited)
        daemon.answer(items["ignore"], "ignore")
        daemon.answer(items["response"], "response", "Offer Thursday.")

        daemon.until_done(mails["accept"], mails["edit"], mails["ignore"])
        daemon.until_item(items["response"], "applied")
        [again] = daemon.pending()
        assert "Offer Thursday." in model.calls("response")[-1].tool_results[0]
        daemon.accept(again)
        daemon.until_done(mails["response"])
        sent = {mail.thread_id: (mail.text, mail.addresses("To"), mail.addresses("Cc")) for mail in google.sent}
        assert sent == {
            mails["accept"]: ("Friday is fine.", ["bob@example.org"], []),
            mails["edit"]: ("Yes.", ["bob@example.org"], ["c@example.org", "d@example.org"]),
            mails["response"]: ("Rather Thursday.", ["bob@example.org"], []),
        }
        assert len(google.sent) == 3
        assert [subject for subject, mail_id in mails.items() if google.message(mail_id).is_unread] == ["ignore"]
        assert lessons(daemon, model, 3) == {
            "triage_preferences": ["ignore"],
            "response_preferences": ["edit", "response"],
            "cal_preferences": [],
        }


class TestAMeeting:
    def test_takes_all_four_answers(self, daemon: Daemon, google: Google, model: Model) -> None:
        model.on_triage(heeds("respond"))
        model.on_memory(name_the_lesson)
        noon = NEXT_WEEK + timedelta(hours=3)
        model.script(
            {
                "accept": [[meeting(title="accept"), DONE]],
                "edit": [[meeting(title="edit")], [DONE]],
                "ignore": [[meeting(title="ignore"), DONE]],
                "response": [[meeting(title="response"), DONE], [meeting(noon, title="At noon"), DONE]],
            }
        )
        mails = deliver(google, *ANSWERS)
        items = by_subject(daemon.pending(4))
        assert all(set(item["allowed"]) == set(ANSWERS) for item in items.values())
        assert google.events == {}

        daemon.accept(items["accept"])
        as_from_a_form = {
            "attendees": "bob@example.org, dan@example.net",
            "title": "Edited",
            "start_time": f"{noon:%Y-%m-%d}T14:00",
            "end_time": f"{noon:%Y-%m-%d} 15:30",
            "timezone": "Europe/London",
        }
        daemon.answer(items["edit"], "edit", as_from_a_form)
        daemon.answer(items["ignore"], "ignore")
        daemon.answer(items["response"], "response", "Rather at noon.")

        daemon.until_done(mails["accept"], mails["edit"], mails["ignore"])
        daemon.until_item(items["response"], "applied")
        [again] = daemon.pending()
        told = [request.tool_results for request in model.calls("response") if request.mail.subject == "response"]
        assert "Rather at noon." in told[-1][0]
        daemon.accept(again)
        daemon.until_done(mails["response"])
        events = {event["summary"]: event for event in google.events.values()}
        assert set(events) == {"accept", "Edited", "At noon"}
        assert begins(events["accept"]) == NEXT_WEEK
        assert begins(events["Edited"]) == noon.replace(hour=15)  # two o'clock in London
        assert [guest["email"] for guest in events["Edited"]["attendees"]] == ["bob@example.org", "dan@example.net"]
        assert begins(events["At noon"]) == noon
        [(_, shown)] = [
            request.tool_calls[0]
            for request in model.calls("response")
            if request.tool_results and request.mail.subject == "edit"
        ]
        assert shown["title"] == "Edited"
        assert [subject for subject, mail_id in mails.items() if google.message(mail_id).is_unread] == ["ignore"]
        assert lessons(daemon, model, 3) == {
            "triage_preferences": ["ignore"],
            "response_preferences": [],
            "cal_preferences": ["edit", "response"],
        }


class TestAnEdit:
    def test_that_cannot_be_carried_out_leaves_the_item_waiting(
        self, daemon: Daemon, google: Google, model: Model
    ) -> None:
        impossible: dict[str, list[dict[str, Any]]] = {
            "send_email_tool": [
                {"response_text": None},
                {"response_text": ""},
                {"additional_recipients": json.dumps(["nobody at all"])},
                {"email_address": "nobody at all"},
                {"email_id": "no-such-mail"},
                {"colour": "red"},
            ],
            "schedule_meeting_tool": [
                {"end_time": NEXT_WEEK.isoformat()},
                {"start_time": "soon"},
                {"start_time": f"{NEXT_WEEK:%Y-%m-%dT%H:%M}"},
                {"attendees": "nobody at all"},
                {"organizer_email": "boss@example.org"},
                {"timezone": "Mars/Olympus"},
            ],
        }
        model.script([[reply("Friday is fine."), meeting(), DONE]])
        mail_id = google.deliver(BOB, "Lunch?", "Does Friday suit you?")
        items = daemon.pending(2)
        for item in items:
            for change in impossible[item["action"]]:
                answer = daemon.decide(item["id"], "edit", {**item["args"], **change})
                assert answer.status_code == 422, change
            for args in (None, "Yes.", ["Yes."]):
                assert daemon.decide(item["id"], "edit", args).status_code == 422, args
            assert daemon.item(item["id"]) == item
        for item in items:
            daemon.accept(item)
        daemon.until_done(mail_id)
        assert [sent.text for sent in google.sent] == ["Friday is fine."]
        assert [begins(event) for event in google.events.values()] == [NEXT_WEEK]


class TestANotice:
    def test_is_done_with_ignored_or_answered(self, daemon: Daemon, google: Google, model: Model) -> None:
        model.on_triage(heeds("notify"))
        model.on_memory(name_the_lesson)
        model.script([[reply("We will be there."), DONE]])
        mails = deliver(google, "accept", "ignore", "response")
        items = by_subject(daemon.pending(3))
        for item in items.values():
            assert (item["action"], item["args"]) == ("Email Assistant: notify", {})
            assert item["allowed"] == ["accept", "ignore", "response"]
            assert daemon.decide(item["id"], "edit", {}).status_code == 422

        daemon.answer(items["accept"], "accept")
        daemon.answer(items["ignore"], "ignore")
        daemon.answer(items["response"], "response", "Say that we come anyway.")

        daemon.until_item(items["response"], "applied")
        [draft] = daemon.pending()
        assert "Say that we come anyway." in model.calls("response")[0].text
        daemon.accept(draft)
        daemon.until_done(*mails.values())
        assert [(sent.thread_id, sent.text) for sent in google.sent] == [(mails["response"], "We will be there.")]
        assert google.message(mails["ignore"]).is_unread
        assert len(model.calls("response")) == 1
        assert lessons(daemon, model, 2) == {
            "triage_preferences": ["ignore", "response"],
            "response_preferences": [],
            "cal_preferences": [],
        }


class TestAQuestion:
    def test_is_ignored_or_answered(self, daemon: Daemon, google: Google, model: Model) -> None:
        model.on_memory(name_the_lesson)
        asked = [tool("Question", content="Which Friday?")]
        model.script({"ignore": [asked], "response": [asked, [reply("The 12th."), DONE]]})
        mails = deliver(google, "ignore", "response")
        items = by_subject(daemon.pending(2))
        for item in items.values():
            assert (item["action"], item["args"]) == ("Question", {"content": "Which Friday?"})
            assert set(item["allowed"]) == {"ignore", "response"}
            assert daemon.decide(item["id"], "accept").status_code == 422
            assert daemon.decide(item["id"], "edit", {"content": "Which?"}).status_code == 422
            assert daemon.decide(item["id"], "response", " ").status_code == 422

        daemon.answer(items["ignore"], "ignore")
        daemon.answer(items["response"], "response", "The 12th")

        daemon.until_item(items["response"], "applied")
        [draft] = daemon.pending()
        assert model.calls("response")[-1].tool_results == ["The 12th"]
        daemon.accept(draft)
        daemon.until_done(*mails.values())
        assert [(sent.thread_id, sent.text) for sent in google.sent] == [(mails["response"], "The 12th.")]
        assert google.message(mails["ignore"]).is_unread
        assert len(model.calls("response")) == 3
        assert lessons(daemon, model, 1) == {
            "triage_preferences": ["ignore"],
            "response_preferences": [],
            "cal_preferences": [],
        }


class TestTwoCallsOfOneMessage:
    def test_get_an_answer_each(self, daemon: Daemon, google: Google, model: Model) -> None:
        both = [reply("One."), reply("Two.")]
        model.script(
            {
                "first ignored": [[*both, DONE]],
                "second ignored": [[*both, DONE]],
                "one edited": [both, [DONE]],
                "one answered": [both, [reply("Three."), DONE]],
            }
        )
        mails = deliver(google, "first ignored", "second ignored", "one edited", "one answered")
        items = {(item["subject"], item["args"]["response_text"]): item for item in daemon.pending(8)}

        daemon.answer(items["first ignored", "One."], "ignore")
        daemon.accept(items["first ignored", "Two."])
        daemon.answer(items["second ignored", "Two."], "ignore")
        daemon.accept(items["second ignored", "One."])
        daemon.accept(items["one edited", "Two."])
        edited = {**items["one edited", "One."]["args"], "response_text": "One, edited."}
        daemon.answer(items["one edited", "One."], "edit", edited)
        daemon.answer(items["one answered", "One."], "response", "Shorter.")
        daemon.accept(items["one answered", "Two."])

        daemon.until_done(mails["first ignored"], mails["second ignored"], mails["one edited"])
        daemon.until_item(items["one answered", "One."], "applied")
        [third] = daemon.pending()
        assert third["args"]["response_text"] == "Three."
        daemon.accept(third)
        daemon.until_done(mails["one answered"])
        sent = {subject: [mail.text for mail in google.sent if mail.thread_id == mails[subject]] for subject in mails}
        assert sent == {
            "first ignored": ["Two."],
            "second ignored": ["One."],
            "one edited": ["One, edited.", "Two."],
            "one answered": ["Two.", "Three."],
        }
        asked_again = {r.mail.subject: r for r in model.calls("response") if r.tool_results}
        assert set(asked_again) == {"one edited", "one answered"}
        assert asked_again["one answered"].tool_results == ["Shorter.", "Sent to bob@example.org."]
        shown = [args["response_text"] for _, args in asked_again["one edited"].tool_calls]
        assert shown == ["One, edited.", "Two."]

    def test_are_answered_in_either_order_and_run_in_their_own(
        self, daemon: Daemon, google: Google, model: Model
    ) -> None:
        model.script(lambda _: [reply("See you."), meeting(), DONE])
        for number, answered_first in enumerate(("send_email_tool", "schedule_meeting_tool"), 1):
            mail_id = google.deliver(BOB, f"Planning {number}", "Could we meet next week?")
            items = {item["action"]: item for item in daemon.pending(2)}
            earlier = items.pop(answered_first)
            [later] = items.values()

            daemon.accept(earlier)
            daemon.until_polled(3)
            assert daemon.item(earlier["id"])["status"] == "decided"
            assert daemon.item(later["id"])["status"] == "pending"
            assert (len(google.sent), google.drafts, len(google.events)) == (number - 1, [], number - 1)
            daemon.accept(later)

            daemon.until_done(mail_id)
            assert (len(google.sent), len(google.events)) == (number, number)
        effects = google.calls("drafts.send", "events.insert")
        assert [call.name for call in effects] == ["drafts.send", "events.insert"] * 2
