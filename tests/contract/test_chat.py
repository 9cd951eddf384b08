"""`/run`, `/resume` and `/health-check`: the program as a process, a scripted model, a calendar server over MCP."""

import html
import json
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote

import httpx
import psycopg
import pytest

from email_assistant.db.pool import session_settings
from tests.contract.chat_stage import (
    NOON,
    TEN,
    Eavesdropper,
    Stage,
    ask,
    event,
    listing,
    move,
    open_stage,
)
from tests.databases import databases
from tests.doubles.calendar_server import OFFERED
from tests.doubles.chat import Json, Reply, Talk, approved, at_once, check_body, checked, rejected
from tests.doubles.daemon import API_TOKEN, Item
from tests.doubles.model import ModelRequest, ToolCall, broken_tool, tool
from tests.doubles.serving import Hold
from tests.integration.scene import ADA, BERLIN

CONFIRMED = {"calendar_id": "primary", "start": TEN, "name": "Team Meeting", "duration_minutes": 30}


@pytest.fixture(scope="module")
def database(postgres_url: str) -> Iterator[str]:
    with databases(postgres_url).migrated() as url:
        yield url


@pytest.fixture(scope="module")
def running(database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """One program for all tests of this file; their threads keep them apart."""
    home = tmp_path_factory.mktemp("home")
    # A busy machine renews no lease of 4 s in time.
    with open_stage(home, database, max_steps=6, lease_seconds=60, google_timeout_seconds=20) as stage:
        stage.up()
        yield stage


@pytest.fixture
def stage(running: Stage) -> Iterator[Stage]:
    running.forget()
    yield running
    assert running.model.violations == []


@pytest.fixture
def talk(stage: Stage) -> Talk:
    return stage.talk()


@pytest.fixture
def pending(stage: Stage, talk: Talk) -> str:
    """The id of a call that waits for approval: a meeting at ten."""
    stage.model.on_chat({"plan": [[event()], "Done."]})
    return talk.run("plan").call_id


def results(request: ModelRequest) -> dict[str, str]:
    """What the model was told of each call: id → text."""
    told = [message for message in request.messages if message["role"] == "tool"]
    assert len({message["tool_call_id"] for message in told}) == len(told)
    return {message["tool_call_id"]: str(message["content"]) for message in told}


def page_of(talk: Talk) -> str:
    """The chat as a person sees it."""
    answer = talk.daemon.http.get(f"/chat/{quote(talk.thread_id, safe='')}")
    assert answer.status_code == 200, answer.text
    return html.unescape(answer.text)


def call_ids(request: ModelRequest) -> list[str]:
    """The ids of all calls in a conversation."""
    return [call["id"] for message in request.messages for call in message.get("tool_calls") or []]


def tells(prompt: str, at: datetime) -> bool:
    """Whether a prompt names this minute."""
    day = f"{at:%Y-%m-%d}", f"{at.day} {at:%B %Y}", f"{at:%B} {at.day}, {at.year}"
    return any(each in prompt for each in day) and f"{at:%H:%M}" in prompt


class TestHealthCheck:
    @pytest.mark.parametrize("headers", [{}, {"authorization": "Bearer another"}, {"x-api-key": API_TOKEN}])
    def test_it_is_open_to_everybody(self, stage: Stage, headers: dict[str, str]) -> None:
        answer = httpx.get(f"{stage.daemon.http.base_url}/health-check", headers=headers, trust_env=False)
        assert (answer.status_code, answer.json()) == (200, {"status": "ok"})


@pytest.mark.parametrize("path", ["/run", "/resume"])
class TestWhoMayCall:
    @pytest.mark.parametrize("headers", [{}, {"authorization": "Bearer another"}, {"x-api-key": "another"}])
    def test_nobody_without_the_token(self, stage: Stage, talk: Talk, path: str, headers: dict[str, str]) -> None:
        answer = httpx.post(f"{stage.daemon.http.base_url}{path}", json=both(talk), headers=headers, trust_env=False)
        assert checked(answer, talk.thread_id).refusal == (401, "error")
        assert stage.model.requests == []

    @pytest.mark.parametrize("origin", ["http://evil.example", "https://127.0.0.1.evil.example", "null"])
    def test_no_other_sites_page_even_with_the_token(self, stage: Stage, talk: Talk, path: str, origin: str) -> None:
        answer = stage.daemon.http.post(path, json=both(talk), headers={"origin": origin})
        assert answer.status_code == 403
        assert stage.model.requests == []

    def test_no_other_name_of_this_machine(self, stage: Stage, talk: Talk, path: str) -> None:
        answer = stage.daemon.http.post(path, json=both(talk), headers={"host": "evil.example"})
        assert answer.status_code == 400
        assert stage.model.requests == []


def both(talk: Talk) -> Json:
    """A body that both paths would take as well-formed."""
    return {"thread_id": talk.thread_id, "user_request": "plan", "approvals": approved("call")}


class TestMalformed:
    @pytest.mark.parametrize(
        ("path", "body"),
        [
            ("/run", {}),
            ("/run", []),
            ("/run", {"thread_id": "t"}),
            ("/run", {"user_request": "plan"}),
            ("/run", {"thread_id": 1, "user_request": "plan"}),
            ("/run", {"thread_id": "t", "user_request": None}),
            ("/run", {"thread_id": "t", "user_request": ["plan"]}),
            ("/resume", {}),
            ("/resume", {"approvals": approved("call")}),
            ("/resume", {"thread_id": "t", "approvals": "all"}),
            ("/resume", {"thread_id": "t", "approvals": [{"approved": True}]}),
            ("/resume", {"thread_id": "t", "approvals": [{"call_id": "call"}]}),
            ("/resume", {"thread_id": "t", "approvals": [{"call_id": "call", "approved": None}]}),
            ("/resume", {"thread_id": "t", "approvals": [{"call_id": "call", "approved": "perhaps"}]}),
            ("/resume", {"thread_id": "t", "clarification_responses": [{"call_id": "call"}]}),
            ("/resume", {"thread_id": "t", "clarification_responses": [{"response": "at ten"}]}),
            ("/resume", {"thread_id": "t", "clarification_responses": {"call": "at ten"}}),
        ],
    )
    def test_a_body_of_another_form_gets_fastapis_own_refusal(self, stage: Stage, path: str, body: object) -> None:
        answer = stage.daemon.http.post(path, json=body)
        assert answer.status_code == 422
        assert all({"loc", "msg", "type"} <= set(fault) for fault in answer.json()["detail"])
        assert stage.model.requests == []

    @pytest.mark.parametrize("path", ["/run", "/resume"])
    def test_a_body_that_is_no_json(self, stage: Stage, path: str) -> None:
        answer = stage.daemon.http.post(path, content=b"{plan", headers={"content-type": "application/json"})
        assert (answer.status_code, bool(answer.json()["detail"])) == (422, True)

    @pytest.mark.parametrize("path", ["/run", "/resume"])
    @pytest.mark.parametrize("body", [b"\xff\xfe", b"x" * 100_000])
    def test_a_body_that_is_no_text_or_endless_is_not_given_back(self, stage: Stage, path: str, body: bytes) -> None:
        answer = stage.daemon.http.post(path, content=body, headers={"content-type": "text/plain"})
        assert answer.status_code == 422
        assert len(answer.content) < 1_000

    @pytest.mark.parametrize("text", ["nul \x00", "half a pair \ud800"])
    @pytest.mark.parametrize("field", ["thread_id", "user_request", "account"])
    def test_text_that_no_database_takes_is_the_callers_fault(self, stage: Stage, field: str, text: str) -> None:
        body = json.dumps({"thread_id": "t", "user_request": "plan", field: text}).encode()
        answer = stage.daemon.http.post("/run", content=body, headers={"content-type": "application/json"})
        assert answer.status_code in (400, 404, 422)

    @pytest.mark.parametrize("thread_id", ["any-string", "1", "a/b?c#d", "Grüße ✓", "../api", "x" * 100])
    def test_any_string_names_a_thread(self, stage: Stage, talk: Talk, thread_id: str) -> None:
        stage.model.on_chat({"plan": ["Done."]})
        named = Talk(stage.daemon, f"{thread_id} {talk.thread_id}")
        assert named.run("plan").response == "Done."


class TestABadAnswerToAThreadThatIsNotThere:
    @pytest.mark.parametrize(
        "answers",
        [
            {},
            {"approvals": []},
            {"clarification_responses": []},
            {"approvals": approved("call"), "clarification_responses": [{"call_id": "call", "response": "ten"}]},
            {"approvals": approved("call", "call")},
            {"approvals": [{"call_id": "call", "approved": False}]},
            {"approvals": [rejected("call", "  ")]},
        ],
    )
    def test_is_refused_for_its_body(self, talk: Talk, answers: Json) -> None:
        assert talk.resume(**answers).refusal == (400, "error")

    def test_a_good_one_is_told_that_it_is_not_there(self, talk: Talk) -> None:
        assert talk.approve("call").refusal == (404, "error")


class TestAfterAQuestionHasEnded:
    """However it ended, the chat is shown, and goes on."""

    QUESTION = ask("What would you like to schedule?")

    @pytest.fixture(params=["a question", "a confirmation", "both"])
    def waiting(self, request: pytest.FixtureRequest, stage: Stage, talk: Talk) -> Talk:
        asked = {"a question": [self.QUESTION], "a confirmation": [event()], "both": [self.QUESTION, event()]}
        stage.model.on_chat({"plan": [asked[request.param], "Done.", "Done."], "hello": ["Hello."]})
        assert talk.run("plan").code == 202
        return talk

    def goes_on(self, talk: Talk) -> None:
        assert "Traceback" not in page_of(talk)
        assert talk.run("hello").response == "Hello."
        again = talk.run("plan")
        assert again.code == 202
        assert "plan" in page_of(talk)

    def test_by_a_new_request(self, waiting: Talk) -> None:
        assert waiting.run("hello").response == "Hello."
        assert "Not done: set aside" in page_of(waiting)
        self.goes_on(waiting)

    def test_with_its_turn(self, stage: Stage, waiting: Talk, database: str) -> None:
        with psycopg.connect(database, options=session_settings(database)["options"]) as conn:
            conn.execute("update inbox_items set status = 'expired' where status = 'pending'")
            conn.execute("update email_assistant.runs set state = 'failed', reason = 'x' where state = 'waiting'")
        assert "Not done: it can no longer be answered" in page_of(waiting)
        self.goes_on(waiting)

    def test_ignored_in_the_inbox(self, stage: Stage, waiting: Talk) -> None:
        while items := [item for item in waiting.shown()["turns"][-1]["items"] if item["status"] == "pending"]:
            stage.daemon.answer(items[0], "ignore")
            stage.daemon.until_item(items[0], "applied")
        stage.daemon.wait_for(lambda: waiting.shown()["status"] != "working", "it rests")
        assert waiting.run_when_free("hello").response == "Hello."
        self.goes_on(waiting)


class TestTheFourFlows:
    def test_a_clarification_then_a_confirmation(self, stage: Stage, talk: Talk) -> None:
        question = ask("What would you like to schedule?")
        stage.model.on_chat({"schedule something": [[question], [event("Meeting", "2026-01-16T15:00:00")], "Booked."]})

        asked = talk.run("schedule something")
        assert asked.body["pending_action"] == {
            "kind": "clarification",
            "clarifications": [{"call_id": asked.call_id, **question.args}],
        }
        proposed = talk.clarify(asked.call_id, "a meeting tomorrow at 3pm")
        assert [call["tool_name"] for call in proposed.confirmations] == ["create_event"]
        assert "a meeting tomorrow at 3pm" in results(stage.asked[1])[asked.call_id]
        assert stage.calendar.calls == []

        assert talk.approve(proposed.call_id).response == "Booked."
        assert stage.calendar.names == ["Meeting"]

    def test_a_direct_approval(self, stage: Stage, talk: Talk) -> None:
        stage.model.on_chat({"create a meeting": [[event()], lambda r: f"Told: {r.tool_results[-1]}"]})

        proposed = talk.run("create a meeting")
        call = {"call_id": proposed.call_id, "tool_name": "create_event", "arguments": CONFIRMED}
        assert proposed.body["pending_action"] == {"kind": "confirmation", "tool_calls": [call]}
        assert stage.calendar.calls == []

        assert "event-1 is made: Team Meeting" in talk.approve(proposed.call_id).response
        assert stage.calendar.used("create_event") == [CONFIRMED]

    def test_a_rejection_with_feedback_brings_a_corrected_proposal(self, stage: Stage, talk: Talk) -> None:
        nine, ten = event("Dentist", "2026-01-16T09:00:00"), event("Dentist", TEN)
        stage.model.on_chat({"create Dentist at 9am": [[nine], [ten], "Booked at ten."]})

        first = talk.run("create Dentist at 9am")
        second = talk.reject(first.call_id, "Wrong time, should be 10am")
        assert "Wrong time, should be 10am" in results(stage.asked[1])[first.call_id]
        assert second.call_id != first.call_id
        assert second.confirmations[0]["arguments"]["start"] == TEN
        assert stage.calendar.calls == []

        assert talk.approve(second.call_id).response == "Booked at ten."
        assert [args["start"] for args in stage.calendar.used("create_event")] == [TEN]

    def test_a_partial_approval(self, stage: Stage, talk: Talk) -> None:
        stage.model.on_chat({"create 2 events": [[event(), event("Lunch with Bob", NOON)], "One is booked."]})

        meeting, lunch = (call["call_id"] for call in talk.run("create 2 events").confirmations)
        done = talk.resume(approvals=[*approved(meeting), rejected(lunch, "I have other lunch plans")])

        assert done.response == "One is booked."
        assert stage.calendar.names == ["Team Meeting"]
        told = results(stage.asked[1])
        assert "event-1 is made" in told[meeting]
        assert "I have other lunch plans" in told[lunch]

    def test_the_complex_example(self, stage: Stage, talk: Talk) -> None:
        request = "schedule something for me, and move the meeting at 3pm to 4pm"
        moved, dentist = move("m3", "2026-01-16T16:00:00"), event("Dentist Appointment", TEN)
        stage.model.on_chat({request: [[ask("What?"), moved], [dentist], "Both are done."]})

        question = talk.run(request)
        assert len(question.clarifications) == 1
        deferred = talk.clarify(question.call_id, "a dentist appointment on Friday at 10am")
        assert [call["tool_name"] for call in deferred.confirmations] == ["update_event"]
        assert len(stage.asked) == 1  # what was deferred is the same call: the model was not asked anew
        created = talk.approve(deferred.call_id)
        assert [call["tool_name"] for call in created.confirmations] == ["create_event"]
        assert call_ids(stage.asked[1]) == [question.call_id, deferred.call_id]

        assert talk.approve(created.call_id).response == "Both are done."
        assert [call.name for call in stage.calendar.calls] == ["update_event", "create_event"]


class TestWhatIsAsked:
    @pytest.mark.parametrize("call", [tool("list_calendars"), listing()], ids=lambda call: call.name)
    def test_reading_is_not(self, stage: Stage, talk: Talk, call: ToolCall) -> None:
        stage.model.on_chat({"look": [[call], "Seen."]})
        assert talk.run("look").response == "Seen."
        assert [used.name for used in stage.calendar.calls] == [call.name]
        [told] = results(stage.asked[1]).values()
        assert ("primary, work" if call.name == "list_calendars" else "no events") in told

    @pytest.mark.parametrize("call", [event(), move("m3", TEN)], ids=lambda call: call.name)
    def test_writing_is(self, stage: Stage, talk: Talk, call: ToolCall) -> None:
        stage.model.on_chat({"write": [[call], "Written."]})
        waiting = talk.run("write")
        assert [(c["tool_name"], c["arguments"]) for c in waiting.confirmations] == [(call.name, call.args)]
        assert stage.calendar.calls == []
        assert talk.approve(waiting.call_id).response == "Written."
        assert stage.calendar.used(call.name) == [call.args]

    def test_what_is_asked_shows_only_the_calls_that_need_it(self, stage: Stage, talk: Talk) -> None:
        stage.model.on_chat({"both": [[listing(), event(), tool("list_calendars")], "Done."]})
        waiting = talk.run("both")
        assert [call["tool_name"] for call in waiting.confirmations] == ["create_event"]
        assert stage.calendar.calls == []  # all of a message is decided before any of it runs
        talk.approve(waiting.call_id)
        assert [call.name for call in stage.calendar.calls] == ["list_events", "create_event", "list_calendars"]

    def test_the_rest_runs_even_if_all_that_needs_approval_is_rejected(self, stage: Stage, talk: Talk) -> None:
        stage.model.on_chat({"both": [[event(), listing()], "Only looked."]})
        waiting = talk.run("both")
        assert talk.reject(waiting.call_id, "Not now").response == "Only looked."
        assert [call.name for call in stage.calendar.calls] == ["list_events"]
        assert sorted(results(stage.asked[1])) == sorted(call_ids(stage.asked[1]))

    def test_questions_come_before_confirmations_and_nothing_runs_meanwhile(self, stage: Stage, talk: Talk) -> None:
        stage.model.on_chat({"all": [[event(), listing(), ask("Which?"), ask("When?")], "Done."]})
        which, when = (each["call_id"] for each in talk.run("all").clarifications)
        assert talk.clarify(when, "At ten").call_id == which  # the other question still waits
        waiting = talk.clarify(which, "The first")
        assert [call["tool_name"] for call in waiting.confirmations] == ["create_event"]
        assert stage.calendar.calls == []
        assert talk.approve(waiting.call_id).response == "Done."
        told = results(stage.asked[1])
        assert "The first" in told[which]
        assert "At ten" in told[when]
        assert len(told) == 4

    def test_both_questions_may_be_answered_at_once(self, stage: Stage, talk: Talk) -> None:
        stage.model.on_chat({"two": [[ask("Which?"), ask("When?")], "Done."]})
        waiting = talk.run("two").clarifications
        answers = [{"call_id": each["call_id"], "response": f"About: {each['question']}"} for each in waiting]
        assert talk.resume(clarification_responses=answers[::-1]).response == "Done."
        told = results(stage.asked[1])
        assert all(f"About: {each['question']}" in told[each["call_id"]] for each in waiting)

    def test_a_question_without_context_has_an_empty_one(self, stage: Stage, talk: Talk) -> None:
        stage.model.on_chat({"ask": [[ask("When?", context="")], "Done."]})
        [asked] = talk.run("ask").clarifications
        assert (asked["question"], asked["context"] or "") == ("When?", "")


WRONG: dict[str, Callable[[str], Json]] = {
    "neither list": lambda _: {},
    "both lists": lambda call: {
        "approvals": approved(call),
        "clarification_responses": [{"call_id": call, "response": "yes"}],
    },
    "both lists, one of them empty": lambda call: {"approvals": approved(call), "clarification_responses": []},
    "an empty list of approvals": lambda _: {"approvals": []},
    "an empty list of answers": lambda _: {"clarification_responses": []},
    "an unknown id": lambda _: {"approvals": approved("call_unknown")},
    "an empty id": lambda _: {"approvals": approved("")},
    "an unknown id beside the right one": lambda call: {"approvals": approved(call, "call_unknown")},
    "the id that the model gave": lambda _: {"approvals": approved("call_0")},
    "an answer where approval is asked": lambda call: {
        "clarification_responses": [{"call_id": call, "response": "yes"}]
    },
    "the same id twice": lambda call: {"approvals": approved(call, call)},
    "the same id twice, with yes and no": lambda call: {"approvals": [rejected(call, "No"), *approved(call)]},
    "a rejection without feedback": lambda call: {"approvals": [{"call_id": call, "approved": False}]},
    "a rejection with null": lambda call: {
        "approvals": [{"call_id": call, "approved": False, "feedback": None}],
    },
    "a rejection with blanks": lambda call: {"approvals": [rejected(call, " \n")]},
    "an approval with feedback": lambda call: {
        "approvals": [{"call_id": call, "approved": True, "feedback": "but no"}]
    },
}


class TestAnswersThatAreRefused:
    @pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
    def test_nothing_runs_and_the_call_still_waits(
        self, stage: Stage, talk: Talk, pending: str, wrong: Callable[[str], Json]
    ) -> None:
        assert talk.resume(**wrong(pending)).refusal == (400, "error")
        assert stage.calendar.calls == []
        assert len(stage.asked) == 1
        assert talk.item(pending)["status"] == "pending"
        assert talk.approve(pending).response == "Done."
        assert stage.calendar.names == ["Team Meeting"]

    def test_an_approval_where_an_answer_is_asked(self, stage: Stage, talk: Talk) -> None:
        stage.model.on_chat({"ask": [[ask("When?")], "Done."]})
        question = talk.run("ask").call_id
        assert talk.approve(question).refusal == (400, "error")
        assert talk.reject(question, "No").refusal == (400, "error")
        assert talk.clarify(question, "At ten").response == "Done."

    def test_one_wrong_answer_spoils_all_of_its_request(self, stage: Stage, talk: Talk) -> None:
        stage.model.on_chat({"two": [[event(), event("Lunch", NOON)], "Done."]})
        first, second = (call["call_id"] for call in talk.run("two").confirmations)
        half_wrong = [*approved(first), {"call_id": second, "approved": False}]
        assert talk.resume(approvals=half_wrong).refusal == (400, "error")
        assert talk.approve(first).call_id == second  # the right half was not taken either
        assert talk.approve(second).response == "Done."
        assert stage.calendar.names == ["Team Meeting", "Lunch"]

    def test_a_call_of_another_thread(self, stage: Stage, talk: Talk, pending: str) -> None:
        other = stage.talk()
        others = other.run("plan").call_id
        assert talk.approve(others).refusal == (400, "error")
        assert stage.calendar.calls == []
        assert talk.approve(pending).response == "Done."
        assert other.approve(others).response == "Done."

    def test_a_thread_that_is_not_there(self, stage: Stage, talk: Talk) -> None:
        assert talk.approve("call").refusal == (404, "error")
        assert talk.clarify("call", "At ten").refusal == (404, "error")

    def test_a_thread_where_nothing_waits(self, stage: Stage, talk: Talk) -> None:
        stage.model.on_chat({"hello": ["Hello."]})
        talk.run("hello")
        assert talk.approve("call").refusal == (409, "error")
        assert talk.clarify("call", "At ten").refusal == (409, "error")

    def test_a_second_answer(self, stage: Stage, talk: Talk, pending: str) -> None:
        talk.approve(pending)
        for again in (talk.approve(pending), talk.reject(pending, "No"), talk.approve(pending)):
            assert again.refusal == (409, "error")
        assert stage.calendar.names == ["Team Meeting"]


class TestWhatIsLeftOut:
    def test_stays_pending_and_does_not_run(self, stage: Stage, talk: Talk) -> None:
        stage.model.on_chat({"three": [[event(), event("Lunch", NOON), listing()], "Done."]})
        first, second = (call["call_id"] for call in talk.run("three").confirmations)

        assert talk.approve(first).call_id == second
        assert stage.calendar.calls == []  # all of a message is decided before any of it runs
        assert talk.approve(first).refusal == (409, "error")
        assert talk.reject(second, "No lunch").response == "Done."
        assert [call.name for call in stage.calendar.calls] == ["create_event", "list_events"]
        assert stage.calendar.names == ["Team Meeting"]


class TestOneTurnAtATime:
    def test_of_five_answers_at_once_one_is_taken(self, stage: Stage, talk: Talk, pending: str) -> None:
        replies: list[Reply] = at_once(*[lambda: talk.approve(pending)] * 5)
        assert sorted(reply.code for reply in replies) == [200, 409, 409, 409, 409]
        assert stage.calendar.used("create_event") == [CONFIRMED]
        assert len(stage.asked) == 2

    def test_of_approval_and_rejection_at_once_one_is_taken(self, stage: Stage, talk: Talk, pending: str) -> None:
        replies: list[Reply] = at_once(lambda: talk.approve(pending), lambda: talk.reject(pending, "No"))
        approval, rejection = (reply.code for reply in replies)
        assert {approval, rejection} == {200, 409}
        assert len(stage.calendar.calls) == (approval == 200)

    def test_a_new_request_sets_what_waits_aside_for_good(self, stage: Stage, talk: Talk, pending: str) -> None:
        item = talk.item(pending)
        stage.model.on_chat({"plan": [[event()], "Done."], "never mind": ["All right."]})

        assert talk.run("never mind").response == "All right."

        assert talk.approve(pending).refusal == (409, "error")
        assert stage.daemon.item(item["id"])["status"] == "superseded"
        assert stage.daemon.decide(item["id"], "accept").status_code == 409
        again = talk.run("plan")
        assert again.call_id != pending
        assert talk.approve(pending).code in (400, 409)
        assert stage.calendar.calls == []
        assert talk.approve(again.call_id).response == "Done."
        assert stage.calendar.names == ["Team Meeting"]

    def test_a_new_request_after_a_question(self, stage: Stage, talk: Talk) -> None:
        stage.model.on_chat({"ask": [[ask("When?"), listing()], "Done."], "never mind": ["All right."]})
        question = talk.run("ask").call_id
        assert talk.run("never mind").response == "All right."
        assert talk.clarify(question, "At ten").refusal == (409, "error")
        assert stage.calendar.calls == []

    def test_what_was_partly_approved_never_runs_after_a_new_request(self, stage: Stage, talk: Talk) -> None:
        """Either the new request is refused, or all of the old message is set aside."""
        stage.model.on_chat({"two": [[event(), event("Lunch", NOON)], "Done."], "never mind": ["All right."]})
        first, second = (call["call_id"] for call in talk.run("two").confirmations)
        talk.approve(first)
        code = talk.run("never mind").code
        assert code in (200, 409)
        assert talk.reject(second, "No").code == (409 if code == 200 else 200)
        assert stage.calendar.names == ([] if code == 200 else ["Team Meeting"])

    def test_while_a_turn_is_worked_on_others_are_refused(self, stage: Stage, talk: Talk) -> None:
        stage.model.on_chat({"look": [[listing()], "Seen."], "more": ["More."]})
        hold = Hold()
        stage.calendar.fault("list_events", hold=hold)

        def meanwhile() -> list[Reply]:
            hold.reached()
            replies = [*at_once(*[lambda: talk.run("more")] * 4), talk.approve("call")]
            hold.release()
            return replies

        first, others = at_once(lambda: talk.run("look"), meanwhile)
        assert first.response == "Seen."
        assert [reply.refusal for reply in others] == [(409, "error")] * 5
        assert len(stage.calendar.used("list_events")) == 1
        assert talk.run("more").response == "More."

    def test_a_thread_does_not_wait_for_another(self, stage: Stage, talk: Talk) -> None:
        stage.model.on_chat({"look": [[listing()], "Seen."], "hello": ["Hello."]})
        hold = Hold()
        stage.calendar.fault("list_events", hold=hold)

        def meanwhile() -> str:
            hold.reached()
            answered = stage.talk().run("hello").response
            hold.release()
            return answered

        assert [str(each) for each in at_once(lambda: talk.run("look").response, meanwhile)] == ["Seen.", "Hello."]

    def test_a_client_that_goes_away_leaves_a_thread_that_works(self, stage: Stage, talk: Talk) -> None:
        stage.model.on_chat({"look": [[listing()], "Seen."], "more": ["More."]})
        hold = Hold()
        stage.calendar.fault("list_events", hold=hold)
        with pytest.raises(httpx.ReadTimeout):
            stage.daemon.http.post("/run", json={"thread_id": talk.thread_id, "user_request": "look"}, timeout=1.5)
        hold.reached()
        hold.release()
        assert talk.run_when_free("more").response == "More."
        assert len(stage.calendar.used("list_events")) == 1

    @pytest.mark.long
    def test_fifty_threads_at_once(self, stage: Stage) -> None:
        talks = [stage.talk() for _ in range(50)]
        stage.model.on_chat({f"plan {n}": [[listing(), event(f"Meeting {n}")], f"Done {n}."] for n in range(50)})
        stage.daemon.http.timeout = httpx.Timeout(120)

        def whole_turn(n: int) -> str:
            return talks[n].approve(talks[n].run(f"plan {n}").call_id).response

        assert at_once(*[lambda n=n: whole_turn(n) for n in range(50)]) == [f"Done {n}." for n in range(50)]
        assert sorted(stage.calendar.names) == sorted(f"Meeting {n}" for n in range(50))
        assert len(stage.calendar.used("list_events")) == 50


class TestScope:
    def test_the_router_is_asked_for_the_types_of_tools(self, stage: Stage, talk: Talk) -> None:
        stage.model.on_chat({"What is on?": ["Nothing."]})
        talk.run("What is on?")
        [asked] = stage.model.calls("policy")
        types = asked.body["response_format"]["json_schema"]["schema"]["properties"]["allowed_tool_types"]
        assert types["type"] == "array"
        assert set(types["items"]["enum"]) == {"calendar", "mail", "inbox"}
        assert asked.messages[0]["content"].startswith("You are the policy router")
        assert asked.said[-1] == "What is on?"

    def test_the_executor_knows_whom_where_and_when(self, stage: Stage, talk: Talk) -> None:
        stage.model.on_chat({"What is on?": ["Nothing."]})
        before = datetime.now(BERLIN)
        talk.run("What is on?")
        [asked] = stage.asked
        prompt = str(asked.messages[0]["content"])
        assert asked.messages[0]["role"] == "system"
        assert ADA in prompt
        assert "Europe/Berlin" in prompt
        assert any(tells(prompt, minute) for minute in (before, before + timedelta(minutes=1)))
        assert asked.said == ["What is on?"]
        assert asked.body["tool_choice"] == "auto"

    @pytest.mark.parametrize("types", [(), ("mail",), ("inbox",), ("mail", "inbox")])
    def test_tools_of_other_types_are_neither_offered_nor_run(
        self, stage: Stage, talk: Talk, types: tuple[str, ...]
    ) -> None:
        stage.model.on_policy(*types)
        stage.model.on_chat({"plan": [[listing(), event()], "I can't."]})
        assert talk.run("plan").response == "I can't."
        assert "request_clarification" in stage.asked[0].tools
        assert not set(OFFERED) & set(stage.asked[0].tools)
        assert stage.calendar.calls == []
        assert len(results(stage.asked[1])) == 2

    def test_of_the_calendars_tools_those_of_the_mapping_are_offered(self, stage: Stage, talk: Talk) -> None:
        stage.model.on_chat({"plan": ["Done."]})
        talk.run("plan")
        [asked] = stage.asked
        assert set(asked.tools) == {*OFFERED, "request_clarification"}
        assert set(asked.tools["create_event"]["required"]) == {"calendar_id", "start", "name", "duration_minutes"}

    @pytest.mark.parametrize("name", ["clear_calendar", "no_such_tool", ""])
    def test_a_tool_that_was_not_offered_is_not_run(self, stage: Stage, talk: Talk, name: str) -> None:
        stage.model.on_chat({"plan": [[ToolCall(name, {})], "I can't."]})
        assert talk.run("plan").response == "I can't."
        assert stage.calendar.calls == []
        assert len(results(stage.asked[1])) == 1

    def test_it_is_decided_anew_for_each_request(self, stage: Stage, talk: Talk) -> None:
        stage.model.on_chat({"look": [[listing()], "Seen."], "plan": [[listing(), event()], "I can't."]})
        assert talk.run("look").response == "Seen."
        stage.model.on_policy()
        assert talk.run("plan").response == "I can't."
        assert len(stage.calendar.calls) == 1
        stage.model.on_policy("calendar")
        assert talk.run("look").response == "Seen."

    def test_the_router_answers_nonsense(self, stage: Stage, talk: Talk) -> None:
        stage.model.on_chat({"plan": [[listing()], "Done."]})
        stage.model.fault("policy", times=100, nonsense=True)
        assert talk.run("plan").refusal == (502, "error")
        assert stage.asked == []
        stage.model.clear_faults()
        assert talk.run("plan").response == "Done."


class TestCalls:
    def test_what_a_tool_refuses_goes_back_to_the_model(self, stage: Stage, talk: Talk) -> None:
        stage.model.on_chat({"look": [[listing(), tool("list_calendars")], [listing()], "Seen."]})
        stage.calendar.fault("list_events", error="that time is not valid")
        assert talk.run("look").response == "Seen."
        refused, well, again = results(stage.asked[2]).values()
        assert "that time is not valid" in refused
        assert "primary, work" in well
        assert "no events" in again

    def test_what_a_tool_refuses_after_approval_comes_back_to_the_person(
        self, stage: Stage, talk: Talk, pending: str
    ) -> None:
        stage.calendar.fault("create_event", error="the calendar is read-only")
        again = talk.approve(pending)
        [call] = again.confirmations
        assert (call["tool_name"], call["arguments"]) == ("create_event", CONFIRMED)
        assert call["call_id"] != pending
        assert "the calendar is read-only" in again.body["message"]
        assert len(stage.asked) == 1

        assert talk.approve(pending).refusal == (409, "error")
        assert len(stage.calendar.used("create_event")) == 1
        assert talk.approve(call["call_id"]).response == "Done."
        assert stage.calendar.names == ["Team Meeting"]
        assert len(results(stage.asked[1])) == 1

    def test_changed_by_the_person_it_is_done_so_and_the_model_knows(
        self, stage: Stage, talk: Talk, pending: str
    ) -> None:
        stage.calendar.fault("create_event", error="that name is taken")
        talk.approve(pending)
        [item] = [each for each in stage.daemon.items(status="pending") if each["chat"] == talk.thread_id]
        assert (item["asked"], item["allowed"]) == (2, ["accept", "edit", "ignore"])
        stage.daemon.answer(item, "edit", {**item["args"], "name": "Another name"})
        stage.daemon.wait_for(lambda: talk.shown()["status"] == "success", "the chat has gone on")
        assert stage.calendar.names == ["Another name"]
        [(_, told)] = stage.asked[1].tool_calls
        assert told["name"] == "Another name"

    def test_rejected_then_the_model_is_told_that_nothing_was_done(
        self, stage: Stage, talk: Talk, pending: str
    ) -> None:
        stage.calendar.fault("create_event", error="the calendar is read-only")
        again = talk.approve(pending)
        assert talk.reject(again.call_id, "Leave it.").response == "Done."
        assert stage.calendar.names == []
        [told] = results(stage.asked[1]).values()
        assert "nothing was done" in told

    @pytest.mark.parametrize(
        "call",
        [
            broken_tool("create_event", "{not json"),
            ToolCall("create_event", {"name": "No time"}),
            ToolCall("create_event", {**CONFIRMED, "duration_minutes": "half an hour"}),
        ],
        ids=["no JSON", "an argument is missing", "an argument of another type"],
    )
    def test_a_call_that_cannot_be_read_is_neither_asked_about_nor_run(
        self, stage: Stage, talk: Talk, call: ToolCall
    ) -> None:
        stage.model.on_chat({"plan": [[call, listing()], [event()], "Done."]})
        waiting = talk.run("plan")
        assert waiting.confirmations[0]["arguments"] == CONFIRMED
        assert [used.name for used in stage.calendar.calls] == ["list_events"]
        assert len(results(stage.asked[1])) == 2

    def test_arguments_that_are_no_object_run_nothing(self, stage: Stage, talk: Talk) -> None:
        stage.model.on_chat({"plan": [[broken_tool("create_event", '["a list"]')], "I can't."], "hello": ["Hello."]})
        assert talk.run("plan").code in (200, 502)
        assert talk.run("hello").response == "Hello."
        assert stage.calendar.calls == []

    def test_ids_are_the_programs_own_and_never_repeat(self, stage: Stage, talk: Talk) -> None:
        stage.model.on_chat({"plan": [[event(), listing()], [event("Lunch"), listing()], "Done."]})
        seen = []
        for _ in range(2):
            reply = talk.run("plan")
            while reply.code == 202:
                seen.append(reply.call_id)
                reply = talk.approve(reply.call_id)
        ids = call_ids(stage.asked[-1])
        assert len(set(seen)) == len(seen) == 4
        assert len(set(ids)) == len(ids)
        assert not any(each.startswith("call_0") and len(each) < 8 for each in ids)
        assert len(stage.calendar.used("create_event")) == 4

    def test_calls_with_one_id_in_one_message_are_told_apart(self, stage: Stage, talk: Talk) -> None:
        same = [event(id="call_0"), event("Lunch", id="call_0")]
        stage.model.on_chat({"two": [same, "Done."]})
        first, second = (call["call_id"] for call in talk.run("two").confirmations)
        done = talk.resume(approvals=[rejected(first, "No meeting"), *approved(second)])
        assert done.response == "Done."
        assert stage.calendar.names == ["Lunch"]

    def test_the_same_call_again_is_the_same(self, stage: Stage, talk: Talk) -> None:
        stage.model.on_chat({"two": [[event(), event()], "Done."]})
        [call] = (call["call_id"] for call in talk.run("two").confirmations)
        assert talk.approve(call).response == "Done."
        assert stage.calendar.used("create_event") == [CONFIRMED]

    def test_a_model_that_never_ends_is_ended(self, stage: Stage, talk: Talk) -> None:
        stage.model.on_chat({"look": [[listing()]] * 100, "hello": ["Hello."]})
        assert talk.run("look").status in ("error", "success")
        assert len(stage.asked) <= 7
        assert talk.run("hello").response == "Hello."


class TestConsent:
    CONSENT = "https://accounts.example/o/oauth2?state=1"

    def test_a_link_is_handed_to_the_person_and_gone_with_the_next_request(self, stage: Stage, talk: Talk) -> None:
        stage.model.on_chat({"look": [[listing()], "Seen."]})
        stage.calendar.fault("list_events", url=self.CONSENT)

        held = talk.run("look")
        assert (held.code, held.status, held.body["url"]) == (202, "oauth_required", self.CONSENT)
        assert held.body["response"] == held.body["message"] == "Let us into your calendar."
        assert len(stage.asked) == 1
        assert talk.approve("call").refusal == (409, "error")

        done = talk.run("look")
        assert (done.response, done.body["url"]) == ("Seen.", None)
        assert len(stage.calendar.used("list_events")) == 2

    def test_every_call_of_its_message_is_answered(self, stage: Stage, talk: Talk) -> None:
        stage.model.on_chat({"all": [[tool("list_calendars"), listing(), event()], "Done."], "again": ["Seen."]})
        stage.calendar.fault("list_events", url=self.CONSENT)
        waiting = talk.run("all")
        assert talk.approve(waiting.call_id).status == "oauth_required"
        assert talk.run("again").response == "Seen."
        assert len(stage.calendar.used("create_event")) <= 1

    def test_an_approved_call_may_need_it(self, stage: Stage, talk: Talk, pending: str) -> None:
        stage.calendar.fault("create_event", url=self.CONSENT)
        assert talk.approve(pending).body["url"] == self.CONSENT
        assert talk.approve(pending).refusal == (409, "error")
        assert stage.calendar.names == []
        again = talk.run("plan")
        assert talk.approve(again.call_id).response == "Done."
        assert stage.calendar.names == ["Team Meeting"]

    @pytest.mark.parametrize(
        "url",
        [
            "javascript:alert(1)//https://accounts.example",
            "http://accounts.example/o/oauth2",
            "http://localhost.example/o/oauth2",
            "http://localhost@accounts.example/",
            "http://localhost\\@accounts.example/",
            "http://127.1/o/oauth2",
            "http://localhost/\r\nLocation: x",
            "ftp://localhost/",
            "data:text/html,<script>alert(1)</script>",
            "file:///etc/passwd",
            "//accounts.example/o/oauth2",
            "https:///o/oauth2",
            "not a link",
        ],
    )
    def test_no_other_links_are_handed_on(self, stage: Stage, talk: Talk, url: str) -> None:
        stage.model.on_chat({"look": [[listing()], "I can't."], "hello": ["Hello."]})
        stage.calendar.fault("list_events", url=url)
        reply = talk.run("look")
        assert reply.status != "oauth_required"
        assert url not in json.dumps(reply.body)
        assert talk.run("hello").response == "Hello."

    @pytest.mark.parametrize("host", ["localhost", "localhost:8123", "127.0.0.1:8123", "[::1]:8123"])
    def test_one_to_this_machine_from_a_server_on_it(self, stage: Stage, talk: Talk, host: str) -> None:
        """A client of the protocol prints what `response` says, and the link."""
        stage.model.on_chat({"look": [[listing()], "Seen."]})
        url = f"http://{host}/consent?state=1"
        stage.calendar.fault("list_events", url=url)
        body = stage.daemon.http.post("/run", json={"thread_id": talk.thread_id, "user_request": "look"}).json()
        assert [body[key] for key in ("status", "response", "url")] == [
            "oauth_required",
            "Let us into your calendar.",
            url,
        ]
        assert f'href="{url}"' in page_of(talk)
        assert talk.run("look").response == "Seen."

    def test_the_program_never_opens_the_link(self, stage: Stage, talk: Talk) -> None:
        stage.model.on_chat({"look": [[listing()], "Seen."]})
        with Eavesdropper() as site:
            stage.calendar.fault("list_events", url=f"https://{site.address}/consent")
            assert talk.run("look").body["url"] == f"https://{site.address}/consent"
            assert talk.run("look").response == "Seen."
            assert site.lines == []


class TestForm:
    def test_a_form_becomes_a_question_and_its_answer_fills_it_in(self, stage: Stage, talk: Talk) -> None:
        stage.model.on_chat({"look": [[listing()], "Seen."]})
        which = {"type": "string", "description": "Its name"}
        form = {"type": "object", "properties": {"calendar": which}, "required": ["calendar"]}
        stage.calendar.fault("list_events", times=2, form=form)

        [question] = (asked := talk.run("look")).clarifications
        assert "Which calendar is it?" in question["question"] + question["context"]
        assert talk.clarify(asked.call_id, "work").response == "Seen."
        assert stage.calendar.answers[-1].action == "accept"
        assert stage.calendar.answers[-1].content == {"calendar": "work"}

    def test_what_was_said_to_one_form_answers_no_other(self, stage: Stage, talk: Talk) -> None:
        stage.model.on_chat({"look": [[listing()], "Seen."]})
        first, second = ({"type": "object", "properties": {name: {"type": "boolean"}}} for name in ("look", "delete"))
        stage.calendar.fault("list_events", times=3, form=first, then=second)

        again = talk.clarify(talk.run("look").call_id, "yes")
        assert [answer.content for answer in stage.calendar.answers] == [None, {"look": True}, None]
        [question] = again.clarifications
        assert "delete" in question["question"]
        assert talk.clarify(again.call_id, "no").response == "Seen."
        assert [answer.content for answer in stage.calendar.answers][3:] == [{"look": True}, {"delete": False}]

    @pytest.mark.parametrize(
        ("schema", "words", "value"),
        [
            ({"type": "integer"}, "7", 7),
            ({"type": "number"}, "7.5", 7.5),
            ({"type": "boolean"}, "No", False),
            ({"type": "array"}, "a, b", ["a", "b"]),
            ({"type": "string", "enum": ["home", "work"]}, "work", "work"),
            ({"type": "integer"}, "7.5", None),
            ({"type": "number"}, "nan", None),
            ({"type": "number"}, "1e999", None),
            ({"type": "number"}, "ten", None),
            ({"type": "boolean"}, "5", None),
            ({"type": "string", "enum": ["home", "work"]}, "mine", None),
        ],
    )
    def test_a_form_is_sent_only_what_it_takes(
        self, stage: Stage, talk: Talk, schema: dict[str, Any], words: str, value: object
    ) -> None:
        stage.model.on_chat({"look": [[listing()], "Seen."]})
        form = {"type": "object", "properties": {"which": schema}, "required": ["which"]}
        stage.calendar.fault("list_events", times=2, form=form)
        assert talk.clarify(talk.run("look").call_id, words).response == "Seen."
        sent = [answer.content for answer in stage.calendar.answers if answer.action == "accept"]
        assert sent == ([] if value is None else [{"which": value}])
        assert ("which takes" in stage.asked[-1].text) == (value is None)


def named(stage: Stage, name: str) -> Item:
    """The item that waits for an event of this name to be approved."""
    return next((item for item in stage.daemon.items(status="pending") if item["args"].get("name") == name), {})


def until_asked(stage: Stage, times: int) -> None:
    """Wait until the model of the chat was asked so often."""
    stage.daemon.wait_for(lambda: len(stage.asked) >= times, "the turn goes on")


class TestInbox:
    def test_a_call_stands_there_as_it_was_proposed(self, stage: Stage, talk: Talk, pending: str) -> None:
        item = talk.item(pending)
        assert (item["action"], item["args"], item["status"]) == ("create_event", CONFIRMED, "pending")
        assert item["account"] == ADA
        assert {"accept", "edit", "ignore", "response"} >= set(item["allowed"]) >= {"accept", "edit"}

    def test_an_id_is_shown_with_what_was_looked_up_about_it(self, stage: Stage, talk: Talk) -> None:
        stage.model.on_chat({"move": [[listing()], [move("event-of-the-standup", NOON)], "Moved."]})
        stage.calendar.events["event-of-the-standup"] = {"name": "Standup"}
        stage.calendar.events["event-of-another"] = {"name": "Lunch"}
        item = talk.item(talk.run("move").call_id)
        assert "event-of-the-standup: Standup" in item["description"]
        assert item["description"].startswith("! You: move")

    def test_what_is_accepted_there_is_carried_out_and_decided(self, stage: Stage, talk: Talk, pending: str) -> None:
        stage.daemon.accept(item := talk.item(pending))
        assert talk.approve(pending).refusal == (409, "error")
        stage.daemon.until_item(item, "applied")
        until_asked(stage, 2)
        assert "event-1 is made" in results(stage.asked[1])[pending]
        assert talk.reject(pending, "No").refusal == (409, "error")
        assert stage.calendar.names == ["Team Meeting"]

    def test_what_is_answered_in_the_chat_is_decided_there(self, stage: Stage, talk: Talk, pending: str) -> None:
        item = talk.item(pending)
        talk.approve(pending)
        for answer, expected in (("accept", 200), ("ignore", 409)):  # the first repeats what was taken
            assert stage.daemon.decide(item["id"], answer).status_code == expected
        assert stage.daemon.item(item["id"])["status"] == "applied"
        assert stage.calendar.names == ["Team Meeting"]

    def test_a_call_edited_there_runs_as_edited(self, stage: Stage, talk: Talk, pending: str) -> None:
        edited = {**CONFIRMED, "name": "Coffee"}
        stage.daemon.answer(talk.item(pending), "edit", edited)
        until_asked(stage, 2)
        assert stage.asked[1].tool_calls == [("create_event", edited)]
        assert stage.calendar.used("create_event") == [edited]

    def test_a_question_answered_there_goes_on(self, stage: Stage, talk: Talk) -> None:
        stage.model.on_chat({"ask": [[ask("When?")], [event("At ten")], "Done."]})
        question = talk.run("ask").call_id
        stage.daemon.answer(talk.item(question), "response", "At ten, please")
        proposed = stage.daemon.wait_for(lambda: named(stage, "At ten"), "the event is proposed")
        assert talk.clarify(question, "At noon").code in (400, 409)
        assert "At ten, please" in results(stage.asked[1])[question]
        assert talk.approve(proposed["call_id"]).response == "Done."

    def test_what_is_ignored_there_never_runs(self, stage: Stage, talk: Talk, pending: str) -> None:
        stage.model.on_chat({"plan": [[event()], "Done."], "hello": ["Hello."]})
        stage.daemon.answer(talk.item(pending), "ignore")
        assert talk.approve(pending).refusal == (409, "error")
        assert talk.run_when_free("hello").response == "Hello."
        assert stage.calendar.calls == []

    def test_one_of_two_may_be_answered_there_and_the_other_here(self, stage: Stage, talk: Talk) -> None:
        stage.model.on_chat({"two": [[event(), event("Lunch", NOON)], "Done."]})
        first, second = (call["call_id"] for call in talk.run("two").confirmations)
        stage.daemon.accept(talk.item(first))
        assert talk.approve(second).response == "Done."
        assert stage.calendar.names == ["Team Meeting", "Lunch"]

    def test_an_answer_here_and_one_there_at_once(self, stage: Stage, talk: Talk, pending: str) -> None:
        item = talk.item(pending)
        here, there = at_once(
            lambda: talk.approve(pending).code, lambda: stage.daemon.decide(item["id"], "accept").status_code
        )
        assert (here in (200, 409), there) == (True, 200)  # the inbox takes what repeats an answer
        until_asked(stage, 2)
        assert stage.calendar.names == ["Team Meeting"]


class TestStream:
    """The same request, as a stream of server-sent events."""

    def test_it_ends_with_the_body_that_is_answered_without_it(self, stage: Stage, talk: Talk) -> None:
        stage.model.on_chat({"look": [[listing()], "I have seen it."]})
        plain = talk.run("look")
        other = stage.talk()
        events = other.stream("/run", user_request="look")

        names = [name for name, _ in events]
        assert names.count("result") == 1
        assert names[-1] == "result"
        assert set(names) <= {"step", "token", "call", "result"}
        assert events[-1][1] == {**plain.body, "thread_id": other.thread_id, "code": 200}
        assert "".join(data["text"] for name, data in events if name == "token") == "I have seen it."
        calls = [data for name, data in events if name == "call"]
        assert calls == [{"tool_name": "list_events", "arguments": listing().args}]
        steps = [data["node"] for name, data in events if name == "step"]
        assert {"policy_router", "task_executor", "use_tools"} <= set(steps)

    def test_a_wait_and_its_answer(self, stage: Stage, talk: Talk) -> None:
        stage.model.on_chat({"plan": [[event()], "Done."]})
        *_, (last, waiting) = talk.stream("/run", user_request="plan")
        assert (last, waiting.pop("code"), waiting["status"]) == ("result", 202, "confirmation_required")
        check_body(202, waiting, talk.thread_id)
        [call] = waiting["pending_action"]["tool_calls"]
        *_, (last, done) = talk.stream("/resume", approvals=approved(call["call_id"]))
        assert (last, done["code"], done["response"]) == ("result", 200, "Done.")
        assert stage.calendar.names == ["Team Meeting"]

    def test_what_a_tools_server_says_while_it_works(self, stage: Stage, talk: Talk) -> None:
        stage.model.on_chat({"look": [[listing()], "Seen."]})
        stage.calendar.fault("list_events", progress="reading\x1b[2J pages")
        events = talk.stream("/run", user_request="look")
        [said] = [data for name, data in events if name == "progress"]
        assert said["tool_name"] == "list_events"
        assert said["text"].startswith("reading")
        assert "\x1b" not in said["text"]
        assert events[-1][1]["response"] == "Seen."

    def test_it_lives_while_nothing_happens(self, stage: Stage, talk: Talk) -> None:
        stage.model.on_chat({"hello": ["Hello."]})
        hold = Hold()
        stage.model.fault("chat", hold=hold)
        given = {"thread_id": talk.thread_id, "user_request": "hello"}
        accept = {"accept": "text/event-stream"}
        with stage.daemon.http.stream("POST", "/run", json=given, headers=accept) as answer:
            lines = answer.iter_lines()
            assert next(line for line in lines if line.startswith(":"))
            hold.release()
            assert any('"Hello."' in line for line in lines)

    def test_a_fault(self, stage: Stage, talk: Talk) -> None:
        stage.model.fault("chat", times=100, status=503)
        *_, (last, failed) = talk.stream("/run", user_request="plan")
        assert (last, failed.pop("code")) == ("result", 502)
        check_body(502, failed, talk.thread_id)


class TestMemory:
    def test_a_later_request_knows_the_earlier_turns_of_its_thread_only(self, stage: Stage, talk: Talk) -> None:
        stage.model.on_chat(
            {"first": [[listing()], "The first answer."], "second": ["The second answer."], "third": ["Yes."]}
        )
        stage.calendar.events["e1"] = {"name": "Standup"}
        talk.run("first")
        stage.talk().run("second")
        talk.run("third")

        asked = stage.asked[-1]
        assert asked.said[-1] == "third"
        assert "first" in asked.said
        assert "The first answer." in asked.text
        assert "Standup" in asked.text
        assert "The second answer." not in asked.text

    def test_a_turn_that_read_much_is_remembered_in_short(self, stage: Stage, talk: Talk) -> None:
        stage.model.on_chat({"first": [[listing()], "The first answer."], "third": ["Yes."]})
        stage.calendar.events["e1"] = {"name": f"Standup{' and on' * 10_000}"}
        talk.run("first")
        talk.run("third")

        asked = stage.asked[-1]
        assert asked.said == ["first", "third"]
        assert "The first answer." in asked.text
        assert "Standup and on" in asked.text
        assert len(asked.text) < 40_000

    def test_a_model_that_was_down_for_long_has_nothing_forgotten(self, stage: Stage, talk: Talk) -> None:
        stage.model.on_chat({"first": ["The first answer."], "third": ["Yes."]})
        talk.run("first")
        stage.model.fault("policy", times=1_000, status=503)
        for _ in range(22):
            assert talk.run("second").code == 502
        stage.model.clear_faults()
        talk.run("third")
        assert stage.asked[-1].said == ["first", *["second"] * 20, "third"]
        assert "The first answer." in stage.asked[-1].text

    def test_what_was_set_aside_is_known_as_not_done(self, stage: Stage, talk: Talk, pending: str) -> None:
        stage.model.on_chat({"never mind": ["All right."]})
        talk.run("never mind")
        assert stage.asked[-1].said[-1] == "never mind"
        assert "is made" not in stage.asked[-1].text

    def test_the_thread_is_shown_with_its_turns(self, stage: Stage, talk: Talk, pending: str) -> None:
        shown = talk.shown()
        assert (shown["thread_id"], shown["account"], shown["status"]) == (
            talk.thread_id,
            ADA,
            "confirmation_required",
        )
        [turn] = shown["turns"]
        assert {"request", "response", "state", "reason", "started_at", "items"} <= set(turn)
        assert (turn["request"], turn["response"]) == ("plan", None)
        assert [item["call_id"] for item in turn["items"]] == [pending]
        talk.approve(pending)
        shown = talk.shown()
        assert (shown["status"], shown["response"], shown["pending_action"]) == ("success", "Done.", None)
        assert shown["turns"][0]["response"] == "Done."

    def test_all_threads_are_listed(self, stage: Stage, talk: Talk) -> None:
        stage.model.on_chat({"hello": ["Hello."]})
        talk.run("hello")
        listed: Any = stage.daemon.http.get("/api/chat").json()
        threads = listed["items"] if isinstance(listed, dict) else listed
        assert talk.thread_id in [thread["thread_id"] for thread in threads]
        assert stage.daemon.http.get("/api/chat/nobody's thread").status_code == 404
