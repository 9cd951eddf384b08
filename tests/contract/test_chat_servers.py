"""A chat with tools of several servers: what was read is handed to none unasked, one that is dead fails its own calls,
and without a mailbox the others still work."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.contract.chat_stage import Stage, event, listing, open_stage
from tests.doubles.calendar_server import CalendarServer
from tests.doubles.chat import Talk, at_once
from tests.doubles.model import broken_tool, tool
from tests.doubles.serving import Hold
from tests.integration.scene import ADA

SEARCH = tool("clear_calendar")
"""The tool of the second server, whatever it does: the person has said never to be asked about it."""
READ = tool("search_mail", query="from:bob")
LOOK = tool("list_waiting")
TURNS: dict[str, Any] = {
    "search": [[SEARCH], "Found."],
    "read": [[READ], "Read."],
    "waiting": [[LOOK], "Nothing."],
    "look": [[listing()], "Seen."],
    "plan": [[event()], "Done."],
    "read, search": [[READ, SEARCH], "Both."],
    "search, read": [[SEARCH, READ], "Both."],
    "look, search": [[listing(), SEARCH], "Half."],
    "plan, search": [[event(), tool("clear_calendar")], "Both."],
    "hello": ["Hello."],
    "search and plan twice": [[SEARCH, event("Lunch"), event("Dinner")], "All."],
    "half a pair": [[broken_tool("list_events", r'{"start": "\ud83d", "end": "2026-01-17"}')], "Understood."],
    "too deep": [[broken_tool("list_events", f'{{"start": {"[" * 2000 + "]" * 2000}}}')], "Understood."],
    "NUL": [[broken_tool("create_event", r'{"name": "hi \u0000 there"}')], "Understood."],
}


@pytest.fixture
def web() -> Iterator[CalendarServer]:
    with CalendarServer() as server:
        yield server


@pytest.fixture
def opened() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def open_with(
    opened: ExitStack,
    folder: Path,
    url: str,
    web: CalendarServer,
    *,
    writes: bool = False,
    private: bool = False,
    review: str = "never",
    **more: Any,
) -> Stage:
    stage = opened.enter_context(open_stage(folder, url, **more))
    rule = {"backend": "web", "type": "web", "review": review}
    (folder / "tools.yaml").write_text(
        json.dumps({"servers": {"web": {"url": web.url}}, "tools": {"clear_calendar": rule}})
    )
    touches = {"write_operation": writes, "read_private_data": private, "read_untrusted_public_data": True}
    (folder / "permissions.json").write_text(json.dumps({"agent": {"clear_calendar": {**touches, "acl": "PUBLIC"}}}))
    stage.daemon.environment |= {
        "EMAIL_ASSISTANT_TOOLS": str(folder / "tools.yaml"),
        "EMAIL_ASSISTANT_TOOL_PERMISSIONS": str(folder / "permissions.json"),
    }
    stage.model.on_chat(TURNS)
    stage.model.on_policy("calendar", "mail", "inbox", "web")
    stage.daemon.http.timeout = httpx.Timeout(60)
    return stage


@pytest.fixture
def stage(opened: ExitStack, tmp_path: Path, database_url: str, web: CalendarServer) -> Stage:
    stage = open_with(opened, tmp_path, database_url, web)
    stage.up()
    return stage


def is_asked(talk: Talk, request: str) -> str:
    """The id of the call to the other server that waits, with the reason."""
    reply = talk.run(request)
    [call] = reply.confirmations
    assert call["tool_name"] == "clear_calendar"
    assert "is read before this is done" in reply.body["message"]
    assert "web, which is no part of this program" in reply.body["message"]
    item = talk.item(call["call_id"])
    assert item["description"].count("You are asked because your mail") == 1
    page = talk.daemon.http.get(f"/chat/{talk.thread_id}").text
    assert page.count("You are asked because your mail") == 1
    return str(call["call_id"])


class TestWhatWasRead:
    @pytest.mark.parametrize("request_", ["read", "waiting", "look"])
    def test_from_then_on_others_are_told_nothing_unasked(
        self, stage: Stage, web: CalendarServer, request_: str
    ) -> None:
        talk, other = stage.talk(), stage.talk()
        assert talk.run("search").response == "Found."
        talk.run(request_)
        call = is_asked(talk, "search")
        stage.daemon.kill()
        stage.up()
        assert len(web.calls) == 1
        assert talk.approve(call).response == "Found."
        is_asked(talk, "search")
        assert len(web.calls) == 2
        assert other.run("search").response == "Found."

    def test_what_changes_something_of_nobody_knows_whose_asks_from_the_start(
        self, opened: ExitStack, tmp_path: Path, database_url: str, web: CalendarServer
    ) -> None:
        stage = open_with(opened, tmp_path, database_url, web, writes=True)
        stage.up()
        talk = stage.talk()
        asked = talk.run("search")
        assert "does not say to whom" in asked.body["message"]
        assert talk.reject(asked.call_id, "no").response == "Found."
        talk.run("read")
        assert talk.reject(is_asked(talk, "search"), "no").response == "Found."
        assert web.calls == []

    def test_within_one_message_the_order_counts(self, stage: Stage, web: CalendarServer) -> None:
        talk = stage.talk()
        call = is_asked(talk, "read, search")
        assert web.calls == []
        assert talk.approve(call).response == "Both."
        assert stage.talk().run("search, read").response == "Both."
        assert len(web.calls) == 2

    def test_what_nobody_has_approved_has_read_nothing(
        self, opened: ExitStack, tmp_path: Path, database_url: str, web: CalendarServer
    ) -> None:
        stage = open_with(opened, tmp_path, database_url, web, writes=True, private=True, review="always")
        stage.up()
        talk = stage.talk()
        first, *rest = (call["call_id"] for call in talk.run("search and plan twice").confirmations)
        waiting = talk.approve(first)
        assert [call["call_id"] for call in waiting.confirmations] == rest
        assert "is read before" not in str(waiting.body)
        for call in rest:
            assert "is read before" not in talk.item(call)["description"]
        assert web.calls == []

        refused = talk.run("hello")

        assert refused.code == 409
        assert "answer the rest, or undo" in str(refused.body)
        assert talk.approve(*rest).response == "All."
        assert len(web.calls) == 1
        assert "is read before this is done" in talk.run("search").body["message"]

    def test_what_is_approved_counts_for_what_stands_behind_it(
        self, opened: ExitStack, tmp_path: Path, database_url: str, web: CalendarServer
    ) -> None:
        stage = open_with(opened, tmp_path, database_url, web)
        permissions = tmp_path / "permissions.json"
        known = json.loads(permissions.read_text())
        touches = {"write_operation": True, "read_private_data": True, "read_untrusted_public_data": True}
        known["agent"]["create_event"] = {**touches, "acl": "PRIVATE"}
        permissions.write_text(json.dumps(known))
        stage.up()
        talk, other = stage.talk(), stage.talk()
        [asked] = talk.run("plan, search").confirmations
        assert asked["tool_name"] == "create_event"
        then = talk.approve(asked["call_id"])
        assert "is read before this is done" in then.body["message"]
        assert web.calls == []
        assert talk.approve(then.call_id).response == "Both."
        assert other.reject(other.run("plan, search").call_id, "no").response == "Both."
        assert len(web.calls) == 2

    def test_a_server_may_be_asked_again_about_what_it_told(self, stage: Stage) -> None:
        talk = stage.talk()
        assert talk.run("look").response == talk.run("look").response == "Seen."
        talk.run("read")
        assert talk.run("look").confirmations[0]["tool_name"] == "list_events"


def test_what_was_approved_for_our_calendar_comes_back_before_another_server_does_it(
    stage: Stage, web: CalendarServer, tmp_path: Path
) -> None:
    talk = stage.talk()
    call = talk.run("plan").call_id
    file = tmp_path / "tools.yaml"
    rules = json.loads(file.read_text())
    rules["tools"]["create_event"] = {"backend": "web", "type": "calendar", "review": "never"}
    file.write_text(json.dumps(rules))
    again = talk.approve(call)
    assert "this now goes to web, which is no part of this program" in again.body["message"]
    assert (web.calls, stage.calendar.used("create_event")) == ([], [])
    assert talk.approve(again.call_id).response == "Done."
    assert [use.name for use in web.calls] == ["create_event"]
    assert stage.calendar.used("create_event") == []


class TestBrokenArguments:
    @pytest.mark.parametrize("request_", ["half a pair", "too deep", "NUL"])
    @pytest.mark.parametrize("streamed", [False, True])
    def test_go_back_to_the_model(self, stage: Stage, request_: str, streamed: bool) -> None:
        talk = stage.talk()
        if streamed:
            name, answer = talk.stream("/run", user_request=request_)[-1]
            assert answer["response"] == "Understood.", (name, answer)
        else:
            assert talk.run(request_).response == "Understood."
        assert "not JSON" in stage.asked[-1].text or "can't" in stage.asked[-1].text
        assert stage.calendar.calls == []


class TestADeadServer:
    def test_fails_its_own_calls_alone(self, stage: Stage, web: CalendarServer) -> None:
        web.stop()
        talk = stage.talk()
        assert talk.run("look, search").response == "Half."
        assert "the tool server web can't be used: it can't be reached" in stage.asked[-1].text
        assert len(stage.calendar.used("list_events")) == 1
        assert "list_events" in stage.asked[-1].tools
        assert "clear_calendar" not in stage.asked[-1].tools
        listed = json.loads(stage.daemon.run("tools", "--json").stdout)
        assert {row["name"] for row in listed if row["state"] == "down"} == {"clear_calendar"}
        assert "tool clear_calendar: web: it can't be reached" in stage.daemon.run("doctor").stdout

    def test_the_only_one_of_the_scope(self, stage: Stage, web: CalendarServer) -> None:
        stage.model.on_policy("web")
        web.stop()
        talk = stage.talk()
        assert talk.run("hello").response == "Hello."
        assert "web can't be used" in stage.asked[-1].text

    def test_what_else_was_approved_is_done(self, stage: Stage, web: CalendarServer) -> None:
        stage.model.on_chat({**TURNS, "plan, search": [[SEARCH, event()], "Both."]})
        talk = stage.talk()
        talk.run("read")
        waiting = talk.run("plan, search")
        web.stop()
        reply = talk.approve(*(call["call_id"] for call in waiting.confirmations))
        assert stage.calendar.names == ["Team Meeting"]
        assert reply.response.startswith("Done: the event was put into the calendar")
        assert "web can't be used" in reply.body["message"]
        web.start()
        talk.daemon.wait_for(lambda: talk.shown()["status"] == "success", "it goes on by itself", timeout=60)
        assert talk.shown()["response"] == "Both."
        assert len(stage.calendar.used("create_event")) == len(web.calls) == 1


class TestWithoutAMailbox:
    @pytest.fixture
    def stage(self, opened: ExitStack, tmp_path: Path, database_url: str, web: CalendarServer) -> Stage:
        stage = open_with(opened, tmp_path, database_url, web, account=False)
        stage.model.on_policy("calendar", "web")
        stage.daemon.up()
        return stage

    def test_tools_that_need_none_work_and_what_is_missing_is_said(self, stage: Stage, web: CalendarServer) -> None:
        talk = stage.talk()
        reply = talk.run("search")
        assert reply.response == "Found."
        assert "No mailbox is connected" in reply.body["message"]
        assert "auth login" in reply.body["message"]
        assert len(web.calls) == 1
        assert set(stage.asked[-1].tools) == {
            "request_clarification",
            "clear_calendar",
            "list_calendars",
            "list_events",
            "create_event",
            "update_event",
        }
        policy = json.dumps(stage.model.calls("policy")[-1].body)
        assert "calendar" in policy
        assert "search_mail" not in policy
        assert talk.run("read").response == "Read."
        assert "may not be used: " in stage.asked[-1].text
        assert talk.approve(talk.run("plan").call_id).response == "Done."
        assert stage.calendar.names == ["Team Meeting"]
        assert stage.daemon.http.get("/chat").status_code == 200
        assert stage.daemon.http.get(f"/chat/{talk.thread_id}").status_code == 200
        assert stage.daemon.http.get("/api/accounts").json()["items"] == []
        assert "No account yet" in stage.daemon.run("status").stdout

    def test_a_chat_goes_on_with_the_mailbox_that_is_connected_later(self, stage: Stage) -> None:
        talk = stage.talk()
        assert talk.run("hello").response == "Hello."
        stage.daemon.account_add(ADA)
        stage.model.on_policy("mail")
        reply = talk.run("read")
        assert (reply.response, reply.body["message"]) == ("Read.", None)
        assert "may not be used" not in stage.asked[-1].text
        assert talk.shown()["account"] == ADA

    def test_what_waits_is_shown_and_answered_on_the_pages(self, stage: Stage) -> None:
        talk, http = stage.talk(), stage.daemon.http
        item = f"/items/{talk.item(talk.run('plan').call_id)['id']}"
        for path in (f"/chat/{talk.thread_id}", item, f"{item}/day"):
            assert http.get(path).status_code == 200, path
        assert http.post(f"{item}/snooze", data={"until": ""}).status_code == 303
        assert http.post(f"{item}/answer", data={"answer": "accept"}).status_code == 303
        assert stage.calendar.names == ["Team Meeting"]
        assert talk.shown()["response"] == "Done."

    def test_an_answer_is_said_to_be_kept_only_if_nothing_runs(self, stage: Stage) -> None:
        talk, other = stage.talk(), stage.talk()
        item, later = (each.item(each.run("plan").call_id) for each in (talk, other))
        assert stage.daemon.decide(item["id"], "accept").json()["notice"] is None
        stage.daemon.wait_for(lambda: stage.calendar.names == ["Team Meeting"], "it is done")
        stage.daemon.stop()
        stage.daemon.api()
        notice = stage.daemon.decide(later["id"], "accept").json()["notice"]
        assert notice.startswith("It is kept, and done once something works on it: nothing is running since")

    def test_a_backup_takes_the_place_of_chats_unasked(self, stage: Stage, tmp_path: Path) -> None:
        stage.talk().run("hello")
        stage.daemon.stop()
        file = str(tmp_path / "backup.tar.gz")
        stage.daemon.cli("backup", file)
        assert "Restored no account" in stage.daemon.cli("restore", file)

    def test_what_a_dead_process_left_is_taken_up(self, stage: Stage) -> None:
        talk, hold = stage.talk(), Hold()
        stage.model.fault("chat", hold=hold)

        def die() -> None:
            hold.reached()
            stage.daemon.kill()
            stage.model.clear_faults()
            stage.daemon.up()

        def ask() -> None:
            with pytest.raises(httpx.TransportError):
                talk.run("hello")

        at_once(ask, die)
        stage.daemon.wait_for(lambda: talk.shown()["status"] == "success", "it is taken up", timeout=60)
        assert talk.shown()["response"] == "Hello."


def test_what_was_approved_of_a_tool_that_is_gone_since_is_not_done_and_said(
    stage: Stage, web: CalendarServer, tmp_path: Path
) -> None:
    talk = stage.talk()
    talk.run("read")
    call = is_asked(talk, "search")
    file = tmp_path / "tools.yaml"
    file.write_text(json.dumps({**json.loads(file.read_text()), "tools": {}}))
    moved = talk.approve(call)
    assert "tools.yaml has changed" in moved.body["message"]
    gone = talk.approve(moved.call_id)
    assert "there is no tool 'clear_calendar'" in gone.body["message"]
    assert web.calls == []
