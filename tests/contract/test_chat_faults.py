"""A chat when something is down, silent or killed: what is answered, what can be done next, what happened only once."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from html import unescape
from pathlib import Path
from typing import Any, Literal

import httpx
import psycopg
import pytest

from tests.contract.chat_stage import TEN, Eavesdropper, Stage, event, listing, open_stage
from tests.databases import databases
from tests.doubles.calendar_server import OFFERED
from tests.doubles.chat import Reply, Talk, approved, at_once, checked, rejected
from tests.doubles.daemon import Item
from tests.doubles.model import ModelRequest, ToolCall, tool
from tests.doubles.serving import Hold
from tests.integration.scene import ADA

Prepare = Callable[..., Stage]

TURNS: dict[str, Any] = {
    "plan": [[event()], "Done."],
    "look": [[listing()], "Seen."],
    "hello": ["Hello."],
}


@pytest.fixture
def prepare(tmp_path: Path, database_url: str) -> Iterator[Prepare]:
    """The program before it is started, with settings of the test's own."""
    with ExitStack() as opened:

        def prepare_one(**settings: Any) -> Stage:
            stage = opened.enter_context(open_stage(tmp_path, database_url, **settings))
            stage.model.on_chat(TURNS)
            stage.daemon.http.timeout = httpx.Timeout(120)
            return stage

        yield prepare_one


@pytest.fixture(scope="module")
def database(postgres_url: str) -> Iterator[str]:
    with databases(postgres_url).migrated() as url:
        yield url


@pytest.fixture(scope="module")
def running(database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """One program for all tests that need no settings of their own; their threads keep them apart."""
    with open_stage(tmp_path_factory.mktemp("home"), database) as stage:
        yield stage


@pytest.fixture
def stage(running: Stage) -> Iterator[Stage]:
    yield from at_its_beginning(running)


def at_its_beginning(stage: Stage) -> Iterator[Stage]:
    """The program as it is after its start, whatever an earlier test did with it."""
    stage.forget()
    stage.model.on_chat(TURNS)
    if not any(process.is_running for process in stage.daemon.processes):
        stage.up()
    yield stage
    assert stage.model.violations == []


@pytest.fixture
def talk(stage: Stage) -> Talk:
    return stage.talk()


def waiting(talk: Talk) -> Item:
    """What waits for the person in this chat, once it does."""

    def pending() -> list[Item]:
        return [item for item in talk.daemon.items(status="pending") if item["chat"] == talk.thread_id]

    [item] = talk.daemon.wait_for(pending, "it waits")
    return item


def restart(stage: Stage) -> None:
    """Kill the program and start it again; what was under way in the calendar goes no further."""
    stage.daemon.kill()
    stage.calendar.forget()
    stage.up()


class TestModelDown:
    @pytest.mark.parametrize("status", [401, 429, 500, 503])
    @pytest.mark.parametrize("kind", ["policy", "chat"])
    def test_it_is_told_and_the_thread_is_free(
        self, stage: Stage, talk: Talk, kind: Literal["policy", "chat"], status: int
    ) -> None:
        talk.run("hello")
        stage.model.fault(kind, times=1000, status=status)
        assert talk.run("look").refusal == (502, "error")
        assert stage.calendar.calls == []
        stage.model.clear_faults()
        assert talk.run("look").response == "Seen."

    def test_of_a_request_that_no_model_has_heard_no_checkpoint_is_left(
        self, stage: Stage, talk: Talk, database: str
    ) -> None:
        def checkpoints() -> list[int]:
            with psycopg.connect(database) as conn:
                tables = ("checkpoints", "checkpoint_blobs", "checkpoint_writes")
                counts = [conn.execute(f"select count(*) from email_assistant.{table}".encode()) for table in tables]
                return [count for found in counts for (count,) in found]

        before = checkpoints()
        stage.model.fault("policy", times=1000, status=400)
        assert talk.run("look").refusal == (502, "error")
        assert checkpoints() == before

    def test_it_hangs(self, prepare: Prepare) -> None:
        stage = prepare(model_timeout_seconds=1)
        stage.up()
        talk = stage.talk()
        stage.model.fault("chat", times=1000, delay=3)
        assert talk.run("look").refusal == (502, "error")
        stage.model.clear_faults()
        assert talk.run("look").response == "Seen."

    def test_nobody_listens_there(self, prepare: Prepare) -> None:
        stage = prepare()
        with Eavesdropper() as nobody:
            stage.daemon.environment["OPENAI_BASE_URL"] = f"http://{nobody.address}/v1"
        stage.up()
        talk = stage.talk()
        assert talk.run("look").refusal == (502, "error")
        stage.daemon.stop()
        stage.daemon.environment["OPENAI_BASE_URL"] = stage.model.root
        stage.up()
        assert talk.run("look").response == "Seen."


SENT = "Done: the event was put into the calendar"


class TestDownAfterAnEffect:
    """What was done is told as done, what follows comes by itself, and nobody is told to ask for it again."""

    @pytest.mark.parametrize("status", [401, 429, 500, 503])
    def test_what_was_done_is_told_and_the_rest_comes_by_itself(self, stage: Stage, talk: Talk, status: int) -> None:
        call = talk.run("plan").call_id
        stage.model.fault("chat", times=1000, status=status)
        self.is_told_as_done(talk, talk.approve(call))
        self.stands_as(talk, "working")
        stage.model.clear_faults()
        self.comes_to(talk, "Done.")
        self.stands_as(talk, "success")
        assert talk.shown()["message"] is None
        assert talk.shown()["turns"][-1]["reason"] is None
        assert talk.approve(call).refusal == (409, "error")
        assert len(stage.calendar.used("create_event")) == 1

    @pytest.mark.long
    def test_a_longer_outage_than_a_turn_may_be_tried(self, prepare: Prepare) -> None:
        stage = prepare(max_tries=1)
        stage.up()
        talk = stage.talk()
        call = talk.run("plan").call_id
        stage.model.fault("chat", times=3, status=500)
        self.is_told_as_done(talk, talk.approve(call))
        self.comes_to(talk, "Done.")

    def test_the_tool_server(self, stage: Stage, talk: Talk) -> None:
        stage.model.on_chat({"plan": [[event()], [listing()], "Done."]})
        call = talk.run("plan").call_id
        hold = Hold()
        stage.model.fault("chat", hold=hold)

        def die() -> None:
            hold.reached()
            stage.calendar.stop()
            hold.release()

        reply, _ = at_once(partial(talk.approve, call), die)
        assert isinstance(reply, Reply)
        self.is_told_as_done(talk, reply)
        self.stands_as(talk, "working")
        stage.calendar.start()
        self.comes_to(talk, "Done.")
        assert len(stage.calendar.used("create_event")) == 1

    def test_as_a_stream(self, stage: Stage, talk: Talk) -> None:
        call = talk.run("plan").call_id
        stage.model.fault("chat", times=1000, status=503)
        *_, (last, result) = talk.stream("/resume", approvals=approved(call))
        assert (last, result["code"], result["status"]) == ("result", 200, "success")
        assert result["response"].startswith(SENT)
        assert "goes on by itself" in result["message"]
        stage.model.clear_faults()
        self.comes_to(talk, "Done.")

    def test_killed_meanwhile_it_goes_on_all_the_same(self, stage: Stage, talk: Talk) -> None:
        call = talk.run("plan").call_id
        stage.model.fault("chat", times=1000, status=503)
        self.is_told_as_done(talk, talk.approve(call))
        restart(stage)
        self.stands_as(talk, "working")
        stage.model.clear_faults()
        self.comes_to(talk, "Done.")
        assert len(stage.calendar.used("create_event")) == 1

    def test_what_follows_is_asked_about_as_ever(self, stage: Stage, talk: Talk) -> None:
        stage.model.on_chat({"plan": [[event()], [event("Lunch")], "Both."]})
        call = talk.run("plan").call_id
        stage.model.fault("chat", times=1, status=503)
        self.is_told_as_done(talk, talk.approve(call))
        item = waiting(talk)
        assert item["args"]["name"] == "Lunch"
        assert talk.shown()["status"] == "confirmation_required"
        assert talk.approve(item["call_id"]).response == "Both."
        assert stage.calendar.names == ["Team Meeting", "Lunch"]

    def test_a_new_request_sets_aside_what_is_left_and_nothing_is_done_twice(self, stage: Stage, talk: Talk) -> None:
        """Nobody is locked out of a chat by an outage."""
        call = talk.run("plan").call_id
        stage.model.fault("chat", times=1000, status=503)
        self.is_told_as_done(talk, talk.approve(call))
        assert talk.run("hello").refusal == (502, "error")
        [before, after] = talk.shown()["turns"]
        assert (before["state"], after["state"]) == ("superseded", "failed")
        assert before["response"].startswith(SENT)
        stage.model.clear_faults()
        assert talk.run("hello").response == "Hello."
        assert "event-1 is made" in stage.asked[-1].text
        assert talk.approve(call).refusal == (409, "error")
        assert len(stage.calendar.used("create_event")) == 1

    def test_a_new_request_when_it_is_over_finds_the_rest_done(self, stage: Stage, talk: Talk) -> None:
        call = talk.run("plan").call_id
        stage.model.fault("chat", times=1, status=503)
        self.is_told_as_done(talk, talk.approve(call))
        assert talk.run("hello").response == "Hello."
        assert [turn["response"] for turn in talk.shown()["turns"]] == ["Done.", "Hello."]
        assert "event-1 is made" in stage.asked[-1].text

    def test_refused_for_good_it_says_what_was_done_and_why_the_rest_was_not(self, stage: Stage, talk: Talk) -> None:
        call = talk.run("plan").call_id
        stage.model.fault("chat", times=1000, status=400)
        reply = talk.approve(call)
        assert reply.response.startswith(SENT)
        assert reply.body["message"].startswith("It could not be finished: the model")
        assert "send" not in reply.body["message"].lower()
        self.stands_as(talk, "success")
        [turn] = talk.shown()["turns"]
        assert (turn["state"], turn["response"]) == ("failed", reply.response)
        stage.model.clear_faults()
        assert talk.run("hello").response == "Hello."
        assert "event-1 is made" in stage.asked[-1].text
        assert len(stage.calendar.used("create_event")) == 1

    def test_more_steps_than_it_may_take(self, prepare: Prepare) -> None:
        stage = prepare(max_steps=3)
        stage.model.on_chat({"plan": [[event()]] + [[listing()]] * 3})
        stage.up()
        talk = stage.talk()
        reply = talk.approve(talk.run("plan").call_id)
        assert reply.response.startswith(SENT)
        assert "3 steps" in reply.body["message"]

    def test_an_end_without_a_word(self, stage: Stage, talk: Talk) -> None:
        stage.model.on_chat({"plan": [[event()], ""]})
        reply = talk.approve(talk.run("plan").call_id)
        assert reply.response.startswith(SENT)
        assert "answered nothing" in reply.body["message"]

    def is_told_as_done(self, talk: Talk, reply: Reply) -> None:
        assert reply.response.startswith(SENT)
        assert "Team Meeting" in reply.response
        assert "goes on by itself" in reply.body["message"]
        assert "send" not in reply.body["message"].lower()

    def stands_as(self, talk: Talk, status: str) -> None:
        assert talk.shown()["status"] == status
        listed = talk.daemon.http.get("/api/chat").json()["items"]
        assert [chat["status"] for chat in listed if chat["thread_id"] == talk.thread_id] == [status]

    def comes_to(self, talk: Talk, response: str) -> None:
        talk.daemon.wait_for(lambda: talk.shown()["status"] != "working", "it goes on by itself")
        assert talk.shown()["response"] == response


@pytest.mark.long
def test_a_request_may_take_as_many_steps_as_the_person_allows(prepare: Prepare) -> None:
    stage = prepare(max_steps=60)
    stage.up()
    stage.model.on_chat({"look": [[listing()]] * 59 + ["Seen."]})
    assert stage.talk().run("look").response == "Seen."


def looks_again(stage: Stage, talk: Talk) -> None:
    """Ask until the calendar is looked into: it is tried again after a while."""
    before = len(stage.calendar.used("list_events"))

    def has_looked() -> bool:
        assert talk.run("look").response == "Seen."
        return len(stage.calendar.used("list_events")) > before

    stage.daemon.wait_for(has_looked, "what was down is back", timeout=60)


class TestCalendarDown:
    def test_the_model_is_told_and_it_works_once_the_server_is_back(self, stage: Stage, talk: Talk) -> None:
        assert talk.run("look").response == "Seen."
        stage.calendar.stop()
        for each in (talk, stage.talk()):
            assert each.run("look").response == "Seen."
            assert "can't be used" in stage.asked[-1].tool_results[-1]
            assert "the tool server calendar can't be used" in stage.asked[-1].messages[0]["content"]
        stage.calendar.start()
        looks_again(stage, talk)

    def test_from_the_start(self, prepare: Prepare) -> None:
        stage = prepare()
        stage.calendar.stop()
        stage.up()
        talk = stage.talk()
        assert talk.run("look").response == "Seen."
        assert "can't be used" in stage.asked[-1].tool_results[-1]
        stage.calendar.start()
        looks_again(stage, talk)

    def test_when_an_approved_call_is_to_run(self, stage: Stage, talk: Talk) -> None:
        call = talk.run("plan").call_id
        stage.calendar.stop()
        assert talk.approve(call).refusal == (502, "error")
        stage.calendar.start()
        assert talk.run_once_back("hello").response == "Hello."
        assert len(stage.calendar.used("create_event")) <= 1
        looks_again(stage, stage.talk())

    def test_in_the_middle_of_reading(self, stage: Stage, talk: Talk) -> None:
        reply = dying_in(stage, "list_events", "before", partial(talk.run, "look"))
        assert reply.response == "Seen."
        assert "Error: the tool server calendar" in stage.asked[-1].tool_results[-1]
        stage.calendar.start()
        looks_again(stage, talk)

    @pytest.mark.parametrize("at", ["before", "after"])
    def test_in_the_middle_of_writing_the_call_is_not_repeated(
        self, stage: Stage, talk: Talk, at: Literal["before", "after"]
    ) -> None:
        call = talk.run("plan").call_id
        reply = dying_in(stage, "create_event", at, partial(talk.approve, call))
        assert reply.refusal in ((502, "error"), (202, "confirmation_required"))
        stage.calendar.start()
        stage.daemon.until_polled(5)  # as a measure of time: what would repeat it had many occasions
        assert len(stage.calendar.used("create_event")) == 1
        looks_again(stage, stage.talk())

    @pytest.mark.long
    def test_it_never_answers(self, impatient: Stage) -> None:
        talk = impatient.talk()
        impatient.calendar.greets = False
        assert talk.run("look").response == "Seen."
        assert "can't be used" in impatient.asked[-1].tool_results[-1]
        impatient.calendar.greets = True
        looks_again(impatient, talk)

    def test_a_tool_never_answers(self, impatient: Stage) -> None:
        """The model may be told, or the turn ends; the other thread goes on meanwhile."""
        talk, other = impatient.talk(), impatient.talk()
        hold = Hold()
        impatient.calendar.fault("list_events", hold=hold)

        def meanwhile() -> Reply:
            hold.reached()
            return other.run("hello")

        stuck, fine = at_once(lambda: talk.run("look"), meanwhile)
        assert fine.response == "Hello."
        assert stuck.response == "Seen."
        looks_again(impatient, talk)

    @pytest.fixture
    def impatient(self, prepare: Prepare) -> Stage:
        """The program, with a server that must answer within two seconds."""
        stage = prepare()
        configure(stage, {}, timeout_seconds=2)
        stage.up()
        return stage


def configure(stage: Stage, tools: Mapping[str, Mapping[str, str]], **server: object) -> None:
    """Give the program a file of tools, of which the calendar's run on the server of the test."""
    theirs = {name: {"backend": "theirs", **tools.get(name, {})} for name in {*OFFERED, *tools}}
    file = stage.daemon.home / "tools.yaml"
    file.write_text(json.dumps({"servers": {"theirs": {"url": stage.calendar.url, **server}}, "tools": theirs}))
    stage.daemon.environment.pop("ASSISTANT_MCP_URL", None)
    stage.daemon.environment["EMAIL_ASSISTANT_TOOLS"] = str(file)


def dying_in(stage: Stage, tool_name: str, at: Literal["before", "after"], doing: Callable[[], Reply]) -> Reply:
    """Do something, and let the calendar server die in the call of a tool, before or after it did what it is for."""
    hold = Hold()
    stage.calendar.fault(tool_name, hold=hold, at=at)

    def die() -> None:
        hold.reached()
        stage.calendar.stop()

    reply, _ = at_once(doing, die)
    assert isinstance(reply, Reply)
    return reply


class TestDatabaseDown:
    @pytest.mark.long
    def test_it_is_told_and_the_thread_goes_on_once_it_is_back(
        self, stage: Stage, talk: Talk, database: str, postgres_url: str
    ) -> None:
        call = talk.run("plan").call_id
        with shut(postgres_url, database):
            assert talk.approve(call).refusal == (503, "error")
            assert talk.run("hello").refusal == (503, "error")
            assert stage.calendar.calls == []
        stage.daemon.wait_for(lambda: stage.daemon.http.get("/health").status_code == 200, "the database is back")
        assert talk.approve(call).response == "Done."
        assert stage.calendar.names == ["Team Meeting"]


@contextmanager
def shut(postgres_url: str, database_url: str) -> Iterator[None]:
    """Nobody is connected to the database, and nobody can be."""
    name = psycopg.conninfo.conninfo_to_dict(database_url)["dbname"]
    with psycopg.connect(postgres_url, autocommit=True) as conn:
        conn.execute(f'alter database "{name}" allow_connections false'.encode())
        conn.execute("select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", [name])
        yield
        conn.execute(f'alter database "{name}" allow_connections true'.encode())


class TestKilled:
    def test_while_a_confirmation_waits(self, stage: Stage, talk: Talk) -> None:
        call = talk.run("plan").call_id
        restart(stage)
        assert talk.item(call)["status"] == "pending"
        replies = at_once(*[lambda: talk.approve(call)] * 2)
        assert sorted(reply.code for reply in replies) == [200, 409]
        assert stage.calendar.names == ["Team Meeting"]

    def test_between_two_answers(self, stage: Stage, talk: Talk) -> None:
        stage.model.on_chat({"two": [[event(), event("Lunch")], "Done."]})
        first, second = (call["call_id"] for call in talk.run("two").confirmations)
        assert talk.approve(first).call_id == second
        restart(stage)
        assert talk.approve(first).refusal == (409, "error")
        assert talk.reject(second, "No lunch").response == "Done."
        assert stage.calendar.names == ["Team Meeting"]

    def test_while_a_question_waits(self, stage: Stage, talk: Talk) -> None:
        question = tool("request_clarification", question="When?", context="")
        stage.model.on_chat({"ask": [[question, event()], "Done."]})
        asked = talk.run("ask").call_id
        restart(stage)
        waiting = talk.clarify(asked, "At ten")
        assert talk.approve(waiting.call_id).response == "Done."
        assert stage.calendar.names == ["Team Meeting"]

    def test_in_a_call_that_only_reads_after_one_that_wrote(self, stage: Stage, talk: Talk) -> None:
        stage.model.on_chat({**TURNS, "plan": [[event()], [listing()], "Done."]})
        call = talk.run("plan").call_id
        hold = Hold()
        stage.calendar.fault("list_events", hold=hold)
        killed_in(stage, hold, lambda: talk.approve(call))
        assert talk.run_when_free("hello").response == "Hello."
        assert "event-1 is made" in stage.asked[-1].text
        assert len(stage.calendar.used("create_event")) == 1
        assert talk.approve(call).refusal == (409, "error")

    def test_in_a_model_call(self, stage: Stage, talk: Talk) -> None:
        hold = Hold()
        stage.model.fault("chat", hold=hold)
        killed_in(stage, hold, lambda: talk.run("look"))
        assert talk.run_when_free("look").response == "Seen."
        assert all(asked.said and asked.said[0] == "look" for asked in stage.asked)

    @pytest.mark.parametrize("at", ["before", "after"])
    def test_in_a_call_that_writes_a_person_is_asked_and_it_is_not_repeated(
        self, stage: Stage, talk: Talk, at: Literal["before", "after"]
    ) -> None:
        call = talk.run("plan").call_id
        hold = Hold()
        stage.calendar.fault("create_event", hold=hold, at=at)
        killed_in(stage, hold, lambda: talk.approve(call))
        item = waiting(talk)
        assert item["kind"] == "in_doubt"
        stage.daemon.answer(item, "ignore")
        assert talk.run_when_free("hello").response == "Hello."
        assert len(stage.calendar.used("create_event")) == 1

    def test_stopped_in_a_model_call_it_says_so_and_goes_on_later(self, stage: Stage, talk: Talk) -> None:
        hold = Hold()
        stage.model.fault("chat", hold=hold)

        def stop() -> None:
            hold.reached()
            stage.daemon.stop()

        reply, _ = at_once(lambda: talk.run("look"), stop)
        assert isinstance(reply, Reply)
        assert reply.refusal == (503, "error")
        hold.abandon()
        restart(stage)
        assert talk.run_when_free("hello").response == "Hello."
        assert stage.asked[-1].said == ["look", "hello"]

    def test_before_a_call_that_nobody_was_asked_about_and_now_must_be(self, prepare: Prepare) -> None:
        stage = prepare()
        stage.up()
        stage.model.on_chat({**TURNS, "look": [[listing()], [listing()], "Seen."]})
        talk = stage.talk()
        hold = Hold()
        stage.calendar.fault("list_events", hold=hold)
        stricter = {"list_events": {"review": "always"}}
        killed_in(stage, hold, lambda: talk.run("look"), meanwhile=lambda: configure(stage, stricter))
        item = waiting(talk)
        assert len(stage.calendar.used("list_events")) == 1  # the one that was cut off
        stage.daemon.answer(item, "accept")
        assert talk.run_when_free("hello").response == "Hello."
        assert len(stage.calendar.used("list_events")) == 2

    def test_the_same_answer_sent_again_is_no_answer_to_that_question(self, stage: Stage, talk: Talk) -> None:
        """A client that lost the reply may send its request once more, and knows nothing of a doubt."""
        call = talk.run("plan").call_id
        hold = Hold()
        stage.calendar.fault("create_event", hold=hold, at="after")
        killed_in(stage, hold, lambda: talk.approve(call))
        waiting(talk)
        assert talk.approve(call).refusal == (409, "error")
        assert stage.calendar.names == ["Team Meeting"]

    def test_and_the_thread_still_knows_what_was_said(self, stage: Stage, talk: Talk) -> None:
        talk.run("look")
        restart(stage)
        talk.run("hello")
        assert "look" in stage.asked[-1].said
        assert "Seen." in stage.asked[-1].text


def killed_in(
    stage: Stage, hold: Hold, doing: Callable[[], Reply], meanwhile: Callable[[], None] = lambda: None
) -> None:
    """Do something, kill the program where it holds, and start it again after what is done meanwhile."""

    def lost() -> None:
        with pytest.raises(httpx.TransportError):
            doing()

    def kill() -> None:
        hold.reached()
        stage.daemon.kill()

    at_once(lost, kill)
    hold.abandon()
    meanwhile()
    restart(stage)


class TestWithoutToken:
    @pytest.fixture
    def stage(self, prepare: Prepare) -> Stage:
        stage = prepare()
        stage.daemon.http.headers.pop("authorization")
        stage.up("--no-token")
        return stage

    def test_both_paths_are_open_here_and_to_nobody_elses_page(self, stage: Stage, talk: Talk) -> None:
        call = talk.run("plan").call_id
        body = {"thread_id": talk.thread_id, "approvals": [{"call_id": call, "approved": True}]}
        for headers in ({"origin": "http://evil.example"}, {"origin": "null"}, {"host": "evil.example"}):
            for path, sent in (("/resume", body), ("/run", {"thread_id": "t", "user_request": "look"})):
                answer = stage.daemon.http.post(path, json=sent, headers=headers)
                assert answer.status_code == (400 if "host" in headers else 403), headers
        assert stage.calendar.calls == []
        assert len(stage.asked) == 1
        own = {"origin": str(stage.daemon.http.base_url).rstrip("/")}
        answer = stage.daemon.http.post("/resume", json=body, headers=own)
        assert checked(answer, talk.thread_id).response == "Done."


class TestUndo:
    def test_what_was_taken_back_in_the_inbox_waits_again(self, prepare: Prepare) -> None:
        stage = prepare(undo_seconds=30)
        stage.up()
        talk = stage.talk()
        call = talk.run("plan").call_id
        item = talk.item(call)
        stage.daemon.accept(item)
        assert talk.approve(call).refusal == (409, "error")
        assert stage.daemon.undo(item["id"]).status_code == 200
        assert stage.calendar.calls == []
        assert talk.reject(call, "Not now").response == "Done."
        assert stage.calendar.calls == []

    def test_what_is_accepted_there_and_not_yet_done_is_not_set_aside(self, prepare: Prepare) -> None:
        stage = prepare(undo_seconds=30)
        stage.up()
        talk = stage.talk()
        item = talk.item(talk.run("plan").call_id)
        stage.daemon.accept(item)
        assert talk.run("hello").refusal == (409, "error")
        assert stage.daemon.undo(item["id"]).status_code == 200
        assert talk.run("hello").response == "Hello."
        assert stage.daemon.item(item["id"])["status"] == "superseded"
        assert stage.calendar.calls == []


class TestAccounts:
    CARL = "carl@example.net"

    def test_a_thread_belongs_to_the_account_that_was_named_first(self, prepare: Prepare) -> None:
        stage = prepare()
        token = stage.google.another(self.CARL, "Asia/Tokyo").write_token_file(stage.daemon.home / "carl.json")
        stage.daemon.cli("account", "add", self.CARL, "--token-file", str(token), "--mode", "send")
        stage.up()
        talk = stage.talk()
        assert talk.post("/run", user_request="hello", account=self.CARL).response == "Hello."
        assert talk.run("hello").response == "Hello."
        for asked in stage.asked:
            prompt = str(asked.messages[0]["content"])
            assert self.CARL in prompt
            assert "Asia/Tokyo" in prompt
            assert ADA not in prompt
        assert talk.shown()["account"] == self.CARL

    def test_one_that_is_not_there_is_refused(self, stage: Stage, talk: Talk) -> None:
        refused = talk.post("/run", user_request="hello", account="eve@example.org")
        assert (refused.status, refused.code in (400, 404, 409)) == ("error", True)
        assert stage.model.requests == []


class TestWhatIsAllowedAndNotDoneYet:
    def test_a_refused_request_takes_back_no_mail_that_was_approved(self, stage: Stage, talk: Talk) -> None:
        letter = tool(
            "send_email_tool", email_id=None, email_address="bob@example.com", subject="Late", response_text="I'm late."
        )
        stage.model.on_policy("mail")
        stage.model.on_chat({"write": [[letter], "It is sent."], "hello": ["Hello."]})
        call = talk.run("write").call_id
        stage.google.fault("drafts.create", times=3, status=503)
        assert talk.approve(call).refusal == (502, "error")
        assert talk.run("hello").refusal == (409, "error")
        stage.daemon.wait_for(lambda: talk.shown()["status"] == "success", "it is done by itself")
        assert talk.shown()["response"] == "It is sent."
        assert len(stage.google.sent) == 1

    def test_a_paused_mailbox_keeps_it(self, stage: Stage, talk: Talk) -> None:
        call = talk.run("plan").call_id
        stage.daemon.run("account", "pause", ADA)
        for _ in range(8):  # more often than a turn is tried
            assert talk.approve(call).refusal == (409, "error")
            assert talk.run("hello").refusal == (409, "error")
        stage.daemon.run("account", "resume", ADA)
        assert talk.approve(call).response == "Done."
        assert stage.calendar.names == ["Team Meeting"]

    @pytest.mark.parametrize("text", ["a\x00b", "half \ud800"])
    def test_words_that_the_database_can_not_look_into_are_refused(self, stage: Stage, talk: Talk, text: str) -> None:
        call = talk.run("plan").call_id
        body = {"thread_id": talk.thread_id, "approvals": [rejected(call, text)]}
        answer = stage.daemon.http.post(
            "/resume", content=json.dumps(body), headers={"content-type": "application/json"}
        )
        assert answer.status_code in (400, 422)
        assert talk.approve(call).response == "Done."

    def test_what_can_be_undone_in_the_inbox_is_waited_for(self, prepare: Prepare) -> None:
        stage = prepare(undo_seconds=3)
        stage.model.on_chat({"two": [[event(), event("Lunch")], "Both."]})
        stage.up()
        talk = stage.talk()
        first, second = (call["call_id"] for call in talk.run("two").confirmations)
        stage.daemon.accept(talk.item(first))
        assert talk.approve(second).response == "Both."
        assert stage.calendar.names == ["Team Meeting", "Lunch"]


SAID: dict[str, Any] = {
    "event_now": "Plan, Mon 04 May 2026, 15:00 CEST to Mon 04 May 2026, 16:00 CEST, with bob@example.org, "
    "cal@example.org",
    "invites": ["eve@example.org"],
    "disinvites": ["bob@example.org"],
}


def planned(stage: Stage) -> tuple[str, ToolCall]:
    """An event with Bob and Cal, and the call that puts Eve in Bob's place."""
    start = datetime(2026, 5, 4, 13, tzinfo=UTC)
    people = [{"email": "bob@example.org"}, {"email": "cal@example.org"}]
    event_id = stage.google.add_event("Plan", start, start + timedelta(hours=1), attendees=people)
    return event_id, tool("update_event", event_id=event_id, attendees=["eve@example.org", "cal@example.org"])


@pytest.fixture(scope="module")
def without_server(postgres_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with databases(postgres_url).migrated() as url, open_stage(tmp_path_factory.mktemp("home"), url) as stage:
        del stage.daemon.environment["ASSISTANT_MCP_URL"]
        yield stage


class TestOwnCalendar:
    """Without a calendar server of somebody else's, the program's own is used."""

    @pytest.fixture
    def stage(self, without_server: Stage) -> Iterator[Stage]:
        for event_id in without_server.google.events:
            without_server.google.person_deletes_event(event_id)
        without_server.google.requests.clear()
        yield from at_its_beginning(without_server)

    def test_an_event_is_made_once_after_approval(self, stage: Stage, talk: Talk) -> None:
        plan = tool("create_event", title="Plan", start="2026-05-04T15:00", end="2026-05-04T16:00")
        stage.model.on_chat({"plan": [[plan], "Done."]})
        waiting = talk.run("plan")
        assert stage.google.calls("events.insert") == []
        assert talk.approve(waiting.call_id).response == "Done."
        [made] = stage.google.events.values()
        assert (made["summary"], made["start"]["dateTime"][:16]) == ("Plan", "2026-05-04T15:00")

    def test_an_update_changes_only_what_it_is_given(self, stage: Stage, talk: Talk) -> None:
        made = tool("create_event", title="Plan", start="2026-05-04T15:00", end="2026-05-04T16:00", location="Room 1")

        def rename(request: ModelRequest) -> list[Any]:
            [event_id] = stage.google.events
            return [tool("update_event", event_id=event_id, title="New plan")]

        stage.model.on_chat({"plan": [[made], "Done."], "rename": [rename, "Renamed."]})
        talk.approve(talk.run("plan").call_id)
        [before] = [dict(each) for each in stage.google.events.values()]
        assert talk.approve(talk.run("rename").call_id).response == "Renamed."
        [after] = stage.google.events.values()
        assert after["summary"] == "New plan"
        kept = ("start", "end", "location", "attendees", "id")
        assert [after.get(name) for name in kept] == [before.get(name) for name in kept]

    def test_a_change_says_which_event_it_is_and_who_is_invited_or_no_longer(self, stage: Stage, talk: Talk) -> None:
        event_id, invite = planned(stage)
        stage.model.on_chat({"invite": [[invite], "Done."]})
        waiting = talk.run("invite")

        item = talk.item(waiting.call_id)
        assert item["args"] == {**SAID, **invite.args}
        labelled = (
            ("The event now", str(SAID["event_now"])),
            ("Would be invited", "eve@example.org"),
            ("Would be invited no longer", "bob@example.org"),
        )
        for shown in (
            stage.daemon.http.get(f"/items/{item['id']}").text,
            stage.daemon.http.get(f"/chat/{item['chat']}").text,
        ):
            for label, value in labelled:
                said = shown.split(f"<dt>{label}</dt>")[1].split("</dd>")[0]
                assert value in said
            assert "arg.attendees" in shown
            assert "arg.event_now" not in shown
        told = f"- event_now: {SAID['event_now']}\n- invites: eve@example.org\n- disinvites: bob@example.org"
        assert told in unescape(item["description"])
        printed = stage.daemon.cli("inbox", "show", item["id"])
        assert all(f"{label}: {value}" in printed for label, value in labelled)
        assert f"Change in the calendar: event_now: {SAID['event_now'][:60]}" in stage.daemon.http.get("/").text

        assert talk.approve(waiting.call_id).response == "Done."
        invited = [person["email"] for person in stage.google.events[event_id]["attendees"]]
        assert invited == ["eve@example.org", "cal@example.org"]

    @pytest.mark.parametrize("how", ["it is moved", "somebody joins", "it is called otherwise"])
    def test_a_change_of_what_has_changed_since_is_asked_again(self, stage: Stage, talk: Talk, how: str) -> None:
        event_id, invite = planned(stage)
        stage.model.on_chat({"invite": [[invite], "Done."]})
        first = talk.run("invite")
        people = stage.google.events[event_id]["attendees"]
        changes: dict[str, dict[str, Any]] = {
            "it is moved": {"end": {"dateTime": "2026-05-04T17:00:00+02:00"}},
            "somebody joins": {"attendees": [*people, {"email": "zoe@example.org"}]},
            "it is called otherwise": {"summary": "Board"},
        }
        stage.google.person_changes_event(event_id, **changes[how])
        edited = stage.daemon.decide(talk.item(first.call_id)["id"], "edit", {**SAID, **invite.args, "title": "Hi"})
        assert (edited.status_code, "changed since" in edited.text) == (422, True)

        again = talk.approve(first.call_id)
        assert stage.google.calls("events.patch") == []
        item = waiting(talk)
        assert "changed since" in item["asked_because"]
        assert item["args"]["event_now"] != SAID["event_now"]
        gone = ["bob@example.org", "zoe@example.org"] if how == "somebody joins" else ["bob@example.org"]
        assert item["args"]["disinvites"] == gone
        assert talk.approve(again.call_id).response == "Done."
        assert len(stage.google.calls("events.patch")) == 1

    def test_a_change_just_before_ours_is_noticed_by_google(self, stage: Stage, talk: Talk) -> None:
        event_id, invite = planned(stage)
        etag = stage.google.events[event_id]["etag"]
        stage.model.on_chat({"invite": [[invite], "Done."]})
        first = talk.run("invite")
        stage.google.fault("events.patch", status=412, reason="conditionNotMet")
        again = talk.approve(first.call_id)
        item = waiting(talk)
        assert "changed since" in item["asked_because"]
        assert talk.approve(again.call_id).response == "Done."
        assert [call.headers.get("if-match") for call in stage.google.calls("events.patch")] == [etag, etag]

    def test_a_change_whose_answer_was_lost_is_made_once(self, stage: Stage, talk: Talk) -> None:
        _, invite = planned(stage)
        stage.model.on_chat({"invite": [[invite], "Done."]})
        stage.google.fault("events.patch", drop="after")
        assert talk.approve(talk.run("invite").call_id).response == "Done."
        assert len(stage.google.calls("events.patch")) == 1

    def test_a_limit_is_said_and_waited_out(self, stage: Stage, talk: Talk) -> None:
        plan = tool("create_event", title="Plan", start="2026-05-04T15:00", end="2026-05-04T16:00")
        stage.model.on_chat({"plan": [[plan], "Done."]})
        call = talk.run("plan").call_id
        stage.google.fault("events.insert", status=403, reason="dailyLimitExceeded")
        reply = talk.approve(call)
        assert "dailyLimitExceeded" in reply.body["message"]
        stage.daemon.wait_for(lambda: talk.shown()["status"] == "success", "the limit has passed", timeout=60)
        assert len(stage.google.events) == 1

    def test_what_it_refuses_comes_back_to_the_person(self, stage: Stage, talk: Talk) -> None:
        backwards = tool("create_event", title="Plan", start=TEN, end="2026-01-16T09:00:00")
        stage.model.on_chat({"plan": [[backwards], "I can't."]})
        again = talk.approve(talk.run("plan").call_id)
        assert "end: must be after start" in again.body["message"]
        assert talk.reject(again.call_id, "Leave it.").response == "I can't."
        assert stage.google.events == {}


class TestKeys:
    def test_a_google_key_alone_leads_to_geminis_openai_interface(self, prepare: Prepare) -> None:
        stage = prepare()
        for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
            del stage.daemon.environment[name]
        with Eavesdropper() as proxy:
            gone_through = {"GOOGLE_API_KEY": "key-of-google", "HTTPS_PROXY": f"http://{proxy.address}"}
            stage.daemon.environment.update(gone_through)
            stage.up()
            assert stage.talk().run("hello").refusal == (502, "error")
            assert proxy.lines[0].startswith("CONNECT generativelanguage.googleapis.com:443 ")

    def test_a_server_of_ones_own_is_not_overruled_by_it(self, prepare: Prepare) -> None:
        stage = prepare()
        stage.daemon.environment["GOOGLE_API_KEY"] = "key-of-google"
        stage.up()
        assert stage.talk().run("hello").response == "Hello."

    def test_without_any_key_it_says_what_is_missing(self, prepare: Prepare) -> None:
        stage = prepare()
        for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ASSISTANT_MCP_URL"):
            del stage.daemon.environment[name]
        ended = stage.daemon.run("up", "--port", "0")
        assert ended.returncode == 1
        assert "OPENAI_API_KEY" in ended.stderr
        assert "Traceback" not in ended.stderr


class TestConfiguration:
    """The mapping of tools and which of them are reviewed stand in a file."""

    @pytest.fixture
    def stage(self, prepare: Prepare) -> Stage:
        stage = prepare()
        cleaning = {"type": "cleaning", "review": "always"}
        configure(stage, {"list_events": {"review": "always"}, "clear_calendar": cleaning})
        stage.up()
        return stage

    def test_a_tool_may_need_approval_that_needs_none_otherwise(self, stage: Stage, talk: Talk) -> None:
        waiting = talk.run("look")
        assert [call["tool_name"] for call in waiting.confirmations] == ["list_events"]
        assert stage.calendar.calls == []
        assert talk.approve(waiting.call_id).response == "Seen."
        assert len(stage.calendar.used("list_events")) == 1

    def test_a_type_of_ones_own_is_offered_in_its_scope_only(self, stage: Stage, talk: Talk) -> None:
        stage.model.on_chat({**TURNS, "clean": [[tool("clear_calendar")], "Cleaned."]})
        stage.model.on_policy("calendar")
        assert talk.run("clean").response == "Cleaned."
        assert stage.calendar.calls == []
        assert "clear_calendar" not in stage.asked[0].tools
        stage.model.on_policy("cleaning")
        waiting = talk.run("clean")
        assert set(stage.asked[-1].tools) == {"clear_calendar", "request_clarification"}
        assert talk.approve(waiting.call_id).response == "Cleaned."
        assert len(stage.calendar.used("clear_calendar")) == 1


class TestLog:
    def test_it_holds_nothing_of_what_was_said(self, prepare: Prepare) -> None:
        stage = prepare(log_level="INFO")
        said, proposed, refused, answered, found = (f"private-{n}" for n in ("a", "b", "c", "d", "e"))
        stage.model.on_chat({said: [[event(proposed)], [listing()], [event(proposed)], answered]})
        stage.calendar.events["e1"] = {"name": found}
        stage.up()
        talk = stage.talk()
        second = talk.reject(talk.run(said).call_id, refused)
        stage.calendar.fault("create_event", error=found)
        again = talk.approve(second.call_id)
        assert talk.approve(again.call_id).response == answered
        stage.model.fault("*", times=1000, status=500)
        assert talk.run(said).code == 502
        stage.daemon.stop()
        log = "".join(process.log for process in stage.daemon.processes)
        assert "private-" not in log
        assert "model-key" not in log
