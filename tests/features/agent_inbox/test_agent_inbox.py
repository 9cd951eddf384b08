"""The public Agent Inbox app as a client: its calls, as its real client sends them, over HTTP."""

import asyncio
import html
import json
import re
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
import pytest_asyncio
import uvicorn

from email_assistant.cli.demo_home import demo_settings
from email_assistant.features.agent_inbox import routes
from email_assistant.features.agent_inbox.settings import AgentInboxSettings
from email_assistant.settings import Settings
from email_assistant.settings.environment import SettingsError
from email_assistant.web.app import create_api
from tests.doubles.daemon import API_TOKEN, Daemon, Process
from tests.doubles.google import Google
from tests.doubles.model import Model, tool
from tests.doubles.ports import NO_CERTIFICATES
from tests.integration.conftest import Start
from tests.integration.home import Home, OpenHome, in_one_loop, until
from tests.integration.scene import BOB, DONE, NEXT_WEEK, meeting, reply

TOKEN = "the-token"
ORIGIN = "https://dev.agentinbox.ai"
VARIABLE = "EMAIL_ASSISTANT_AGENT_INBOX_ORIGIN"
GRAPH = {"metadata": {"graph_id": "email_assistant"}}

Json = dict[str, Any]


@dataclass
class Event:
    event: str
    data: Json


@dataclass
class App:
    """The app in one browser."""

    http: httpx.AsyncClient

    async def listed(
        self, status: str | None = "interrupted", limit: int = 10, offset: int = 0, **more: Any
    ) -> list[Json]:
        """A tab of the inbox; "All" sends no status."""
        body = {"limit": limit, "offset": offset, **({"status": status} if status else {}), **GRAPH, **more}
        found: list[Json] = await self._ok(await self.http.post("/threads/search", json=body))
        return found

    async def only(self) -> Json:
        """The one thread that waits."""
        [thread] = await self.listed()
        return thread

    async def thread(self, thread_id: str) -> Json:
        """What the app loads after each stream."""
        found: Json = await self._ok(await self.http.get(f"/threads/{thread_id}"))
        return found

    async def send(self, thread: Json, type_: str, args: object = None) -> list[Event]:
        """Accept, edit or response; the stream's events."""
        answer = await self.http.post(f"/threads/{thread['thread_id']}/runs/stream", json=resume(type_, args))
        assert answer.status_code == 200, answer.text
        assert answer.headers["content-type"].startswith("text/event-stream")
        return events(answer.text)

    async def accept(self, thread: Json) -> list[Event]:
        return await self.send(thread, "accept", action(thread))

    async def ignore(self, thread: Json) -> httpx.Response:
        return await self.http.post(f"/threads/{thread['thread_id']}/runs", json=resume("ignore", None))

    async def resolve(self, thread: Json) -> httpx.Response:
        """Mark as resolved."""
        body = {"values": None, "as_node": "__end__"}
        return await self.http.post(f"/threads/{thread['thread_id']}/state", json=body)

    async def drop(self, thread: Json, type_: str, args: object, taken: Callable[[], object]) -> None:
        """Post an answer and lose the connection once it is taken, with nothing read of what comes back."""
        body = json.dumps(resume(type_, args)).encode()
        ours = {"host": self.http.base_url.netloc.decode(), "content-type": "application/json"}
        headers = {**self.http.headers, **ours, "content-length": str(len(body))}
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        _, writer = await asyncio.open_connection(self.http.base_url.host, self.http.base_url.port)
        writer.write(f"POST /threads/{thread['thread_id']}/runs/stream HTTP/1.1\r\n{head}\r\n".encode() + body)
        await until(taken)
        writer.transport.abort()

    async def _ok(self, answer: httpx.Response) -> Any:
        assert answer.status_code == 200, answer.text
        return answer.json()


def resume(type_: str, args: object) -> Json:
    return {
        "command": {"resume": [{"type": type_, "args": args}]},
        "stream_mode": "events",
        "assistant_id": "email_assistant",
    }


def shown(thread: Json) -> Json:
    """The one question that the app shows of a thread."""
    [interrupts] = thread["interrupts"].values()
    [interrupt] = interrupts
    [value] = interrupt["value"]
    found: Json = value
    return found


def action(thread: Json) -> Json:
    found: Json = shown(thread)["action_request"]
    return found


def text_of(thread: Json) -> str:
    return str(action(thread)["args"]["response_text"])


def touched(thread: Json, **changes: str) -> Json:
    """The action with some fields typed over; those come back as strings."""
    return {"action": action(thread)["action"], "args": {**action(thread)["args"], **changes}}


def events(stream: str) -> list[Event]:
    blocks = [dict(line.split(": ", 1) for line in block.splitlines()) for block in stream.split("\r\n\r\n") if block]
    return [Event(block["event"], json.loads(block["data"])) for block in blocks]


def nodes(found: list[Event]) -> list[str]:
    """The nodes that the app shows as they start."""
    return [e.data["metadata"]["langgraph_node"] for e in found if e.data.get("event") == "on_chain_start"]


def refusal(found: list[Event]) -> str:
    [error] = found
    assert error.event == "error"
    return str(error.data["message"])


@asynccontextmanager
async def served(home: Home) -> AsyncIterator[str]:
    """The root address of an API process's server."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # else 40 ms for each answer
        api = create_api(home.app, home.works.chat, token=TOKEN, host="127.0.0.1")
        server = uvicorn.Server(uvicorn.Config(api, lifespan="off", access_log=False, log_level="critical"))
        task = asyncio.create_task(server.serve([listening]))
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        server.should_exit = True
        await task


@asynccontextmanager
async def browser(root: str, token: str = TOKEN, **headers: str) -> AsyncIterator[App]:
    given = {"x-api-key": token, "user-agent": "Firefox", **headers}
    async with httpx.AsyncClient(
        base_url=root, headers=given, trust_env=False, verify=NO_CERTIFICATES, timeout=30
    ) as http:
        yield App(http)


async def let_pass(home: Home) -> None:
    """Every undo window ends, and what was decided is done."""
    await home.sql("update inbox_items set undo_until = clock_timestamp() where status = 'decided'")
    await home.carry_on()


async def is_answered(home: Home) -> bool:
    return "decided" in await statuses(home)


async def statuses(home: Home) -> list[str]:
    return [item.status for item in await home.items()]


# Undo windows are long here, so that answers are acted on when a test says so.
@pytest_asyncio.fixture(loop_scope="module")
async def home(open_home: OpenHome) -> AsyncIterator[Home]:
    async with open_home(undo_seconds=600) as opened:
        yield opened


@pytest_asyncio.fixture(loop_scope="module")
async def root(home: Home) -> AsyncIterator[str]:
    async with served(home) as address:
        yield address


@pytest_asyncio.fixture(loop_scope="module")
async def app(root: str) -> AsyncIterator[App]:
    async with browser(root) as opened:
        yield opened


@in_one_loop
class TestThreads:
    async def test_a_thread_is_a_run_and_shows_its_item(self, home: Home, model: Model, app: App) -> None:
        model.script([[reply("Friday is fine.", additional_recipients=["dan@example.net"])]])
        await home.receive("Lunch?", "Does Friday suit you?")
        [item] = await home.items()

        thread = await app.only()

        assert list(thread) == [
            *("thread_id", "created_at", "updated_at", "metadata", "status", "values", "interrupts"),
        ]
        assert (thread["thread_id"], thread["status"]) == (str(item.run_id), "interrupted")
        assert datetime.fromisoformat(thread["created_at"]) <= item.created_at
        assert datetime.fromisoformat(thread["updated_at"]) == item.created_at
        [[interrupt]] = thread["interrupts"].values()
        assert interrupt["id"] == item.interrupt_id
        assert shown(thread)["config"] == {
            "allow_ignore": True,
            "allow_respond": True,
            "allow_edit": True,
            "allow_accept": True,
        }
        assert action(thread) == {"action": "send_email_tool", "args": item.args}
        assert list(action(thread)["args"]) == list(item.args)
        row, why, *rest = shown(thread)["description"].splitlines()
        assert (row.strip(), why.strip()) == (
            "! Bob Berg: Lunch?",
            "New recipient, never written to before: dan@example.net",
        )
        assert "Does Friday suit you?" in rest
        assert await app.thread(thread["thread_id"]) == thread

    async def test_only_a_marked_row_begins_with_a_mark(self, home: Home, model: Model, app: App) -> None:
        model.script([[reply("Friday is fine.")]])
        await home.receive("Lunch?", "Does Friday suit you?")
        description = shown(await app.only())["description"]
        assert description.startswith("Bob Berg: Lunch?\n")

    async def test_an_edit_that_sends_all_fields_back_types_no_address(
        self, home: Home, model: Model, app: App
    ) -> None:
        model.script(lambda _: [reply("Fine.", additional_recipients=["dan@example.net"])])
        await home.receive("One")
        thread = await app.only()
        args = {**action(thread)["args"], "response_text": "Monday.", "additional_recipients": '["dan@example.net"]'}
        await app.send(thread, "edit", {"action": "send_email_tool", "args": args})
        [typed] = await home.sql("select typed, decision->>'type' as answer from inbox_items")
        assert typed == {"typed": [], "answer": "edit"}

    async def test_its_state_shows_the_same(self, home: Home, model: Model, app: App) -> None:
        model.script([[reply("Yes.")]])
        await home.receive()
        thread = await app.only()
        state = (await app.http.get(f"/threads/{thread['thread_id']}/state")).json()
        [task] = state["tasks"]
        assert {task["id"]: task["interrupts"]} == thread["interrupts"]
        assert state["next"] == [task["name"]] == ["interrupt_handler"]

    async def test_only_what_an_item_allows_is_offered(self, home: Home, model: Model, app: App) -> None:
        model.on_triage("notify")
        await home.receive()
        config = shown(await app.only())["config"]
        assert {name for name, allowed in config.items() if allowed} == {
            *("allow_accept", "allow_ignore", "allow_respond")
        }

    async def test_a_notice_that_is_accepted_is_put_away_and_teaches_nothing(
        self, home: Home, model: Model, app: App
    ) -> None:
        model.on_triage("notify")
        mail_id = await home.receive()
        assert nodes(await app.send(await app.only(), "accept", None)) == ["triage_interrupt_handler"]
        await let_pass(home)
        await home.works.learn(home.account_id)
        assert await home.is_done(mail_id)
        assert model.calls("memory") == []

    async def test_a_field_without_a_value_is_left_out(self, home: Home, model: Model, app: App) -> None:
        """The app asks each value for its length."""
        model.script([[meeting(organizer_email=None)]])
        await home.receive()
        thread = await app.only()
        assert "organizer_email" not in action(thread)["args"]
        assert nodes(await app.accept(thread)) == ["interrupt_handler"]

    async def test_they_are_listed_newest_first_in_pages_by_status(
        self,
        home: Home,
        model: Model,
        app: App,
    ) -> None:
        model.script(lambda request: [reply(request.mail.subject)])
        for subject in ("One", "Two", "Three"):
            await home.receive(subject)
        waiting = await app.listed()
        assert [text_of(thread) for thread in waiting] == ["Three", "Two", "One"]
        assert [text_of(thread) for thread in await app.listed(limit=2, offset=1)] == ["Two", "One"]
        assert await app.listed(offset=3) == []

        await app.accept(waiting[1])
        await app.ignore(waiting[2])
        await home.sql("update runs set state = 'failed', reason = 'x' where id = %s", UUID(waiting[0]["thread_id"]))
        await home.sql("update inbox_items set status = 'expired' where status = 'pending'")
        await home.sql("update runs set state = 'done' where id = %s", UUID(waiting[2]["thread_id"]))
        everything = await app.listed(None)
        assert [thread["thread_id"] for thread in everything] == [thread["thread_id"] for thread in waiting]
        assert [thread["status"] for thread in everything] == ["error", "busy", "idle"]
        assert all(thread["interrupts"] == {} for thread in everything)
        assert await app.listed() == []
        for thread in everything:
            assert await app.listed(thread["status"]) == [thread]

    async def test_they_are_found_by_graph_and_by_assistant(self, home: Home, model: Model, app: App) -> None:
        model.script([[reply("Yes.")]])
        await home.receive()
        thread = await app.only()
        assistant = thread["metadata"]["assistant_id"]
        assert str(UUID(assistant)) == assistant
        assert await app.listed(metadata={"assistant_id": assistant}) == [thread]
        assert await app.listed(metadata={"graph_id": "another"}) == []
        assert await app.listed(metadata={"assistant_id": str(uuid4())}) == []

    async def test_of_two_questions_the_older_is_shown_first(self, home: Home, model: Model, app: App) -> None:
        model.script([[meeting(), reply("Booked."), DONE]])
        await home.receive()
        first = await app.only()
        await app.accept(first)
        second = await app.thread(first["thread_id"])
        assert (second["thread_id"], second["status"]) == (first["thread_id"], "interrupted")
        older, newer = await home.items()
        assert [action(thread)["action"] for thread in (first, second)] == [older.action, newer.action]


@in_one_loop
class TestAnswers:
    async def test_an_accept_sends_what_was_shown(
        self,
        home: Home,
        google: Google,
        model: Model,
        app: App,
    ) -> None:
        model.script([[reply("Friday is fine."), DONE]])
        await home.receive()
        thread = await app.only()

        assert nodes(await app.accept(thread)) == ["interrupt_handler"]

        assert (await app.thread(thread["thread_id"]))["status"] == "busy"
        assert await app.listed() == []
        await let_pass(home)
        assert [sent.text for sent in google.sent] == ["Friday is fine."]
        assert (await app.thread(thread["thread_id"]))["status"] == "idle"
        [item] = await home.items()
        assert item.decided_by == "agent inbox"

    async def test_an_accept_may_hold_fields_that_were_typed_in_and_put_back(
        self,
        home: Home,
        google: Google,
        model: Model,
        app: App,
    ) -> None:
        model.script([[reply("Yes.", additional_recipients=["dan@example.net"]), DONE]])
        await home.receive()
        thread = await app.only()
        found = await app.send(thread, "accept", touched(thread, additional_recipients='["dan@example.net"]'))
        assert nodes(found) == ["interrupt_handler"]
        await let_pass(home)
        [sent] = google.sent
        assert sent.addresses("Cc") == ["dan@example.net"]

    @pytest.mark.parametrize("kind", ["accept", "edit"])
    async def test_an_answer_that_names_another_action_is_refused(
        self, home: Home, google: Google, model: Model, app: App, kind: str
    ) -> None:
        model.script([[reply("Yes."), DONE]])
        await home.receive()
        thread = await app.only()
        other = {**touched(thread, response_text="No."), "action": "schedule_meeting_tool"}
        assert "not the action that waits" in refusal(await app.send(thread, kind, other))
        await let_pass(home)
        assert google.sent == []
        assert len(await app.listed()) == 1

    async def test_an_accept_of_what_cannot_be_edited_holds_nothing(self, home: Home, model: Model, app: App) -> None:
        model.script([[reply("Yes.")]])
        await home.receive()
        await home.sql("update inbox_items set allowed = '{accept,ignore}', kind = 'in_doubt'")
        assert nodes(await app.send(await app.only(), "accept", None)) == ["act"]
        assert await statuses(home) == ["decided"]

    async def test_an_edit_comes_as_strings(self, home: Home, google: Google, model: Model, app: App) -> None:
        model.script([[meeting(), DONE]])
        await home.receive()
        thread = await app.only()
        later = NEXT_WEEK + timedelta(hours=2)
        edited = touched(
            thread,
            attendees='["bob@example.org","eve@example.com"]',
            start_time=later.isoformat(),
            end_time=(later + timedelta(minutes=30)).isoformat(),
        )

        assert nodes(await app.send(thread, "edit", edited)) == ["interrupt_handler"]

        await let_pass(home)
        [event] = [event for event in google.events.values() if event.get("summary") == "Plan"]
        assert {person["email"] for person in event["attendees"]} >= {"bob@example.org", "eve@example.com"}
        assert datetime.fromisoformat(event["start"]["dateTime"]) == later

    @pytest.mark.parametrize(
        "changes",
        [
            {"attendees": '["no address"]'},
            {"start_time": "soon"},
            {"end_time": "2001-01-01T00:00:00+01:00"},
            {"surprise": "1"},
        ],
    )
    async def test_an_edit_that_cannot_be_taken_says_why_and_the_item_waits(
        self,
        home: Home,
        model: Model,
        app: App,
        changes: dict[str, str],
    ) -> None:
        model.script([[meeting()]])
        await home.receive()
        thread = await app.only()
        assert next(iter(changes)) in refusal(await app.send(thread, "edit", touched(thread, **changes))) + "attendees"
        assert (await app.thread(thread["thread_id"])) == thread
        assert nodes(await app.accept(thread)) == ["interrupt_handler"]

    async def test_a_response_leads_to_another_proposal(self, home: Home, model: Model, app: App) -> None:
        model.script([[reply("One.")], [reply("Two.")]])
        await home.receive()
        thread = await app.only()
        assert nodes(await app.send(thread, "response", "Shorter.")) == ["interrupt_handler"]
        await let_pass(home)
        assert model.calls("response")[-1].tool_results == ["Shorter."]
        following = await app.thread(thread["thread_id"])
        assert (text_of(following), following["status"]) == ("Two.", "interrupted")

    async def test_the_same_response_may_be_given_again(self, home: Home, model: Model, app: App) -> None:
        model.script([[reply("One.")], [reply("Two.")], [reply("Three.")]])
        await home.receive()
        for expected in ("One.", "Two.", "Three."):
            thread = await app.only()
            assert text_of(thread) == expected
            assert nodes(await app.send(thread, "response", "Shorter.")) == ["interrupt_handler"]
            if expected != "Three.":
                await let_pass(home)

    async def test_an_ignore_shows_at_once_and_teaches(
        self,
        home: Home,
        google: Google,
        model: Model,
        app: App,
    ) -> None:
        model.script([[reply("Yes."), DONE]])
        await home.receive()
        thread = await app.only()
        answer = await app.ignore(thread)
        assert (answer.status_code, answer.json()["status"]) == (200, "pending")
        assert answer.json()["thread_id"] == thread["thread_id"]
        run = answer.headers["content-location"]
        assert run == f"/threads/{thread['thread_id']}/runs/{answer.json()['run_id']}"
        assert await app.listed() == []
        await let_pass(home)
        await home.works.learn(home.account_id)
        assert google.sent == []
        assert len(model.calls("memory")) == 1

    async def test_resolved_is_ignored_and_teaches_nothing(
        self,
        home: Home,
        google: Google,
        model: Model,
        app: App,
    ) -> None:
        model.script([[reply("Yes."), DONE]])
        await home.receive()
        assert (await app.resolve(await app.only())).status_code == 200
        assert await app.listed() == []
        await let_pass(home)
        await home.works.learn(home.account_id)
        assert (google.sent, model.calls("memory")) == ([], [])
        [item] = await home.items()
        assert (item.status, item.decision) == ("applied", {"type": "ignore", "args": None})

    async def test_both_questions_of_a_mail_may_be_ignored(self, home: Home, model: Model, app: App) -> None:
        model.script([[meeting(), reply("Booked."), DONE]])
        await home.receive()
        for _ in range(2):
            assert (await app.ignore(await app.only())).status_code == 200
        assert await statuses(home) == ["decided", "decided"]

    async def test_an_undo_window_is_not_waited_for(self, home: Home, model: Model, app: App) -> None:
        model.script([[reply("Yes.")]])
        await home.receive()
        async with asyncio.timeout(5):
            await app.accept(await app.only())

    async def test_the_stream_tells_of_a_failure(self, open_home: OpenHome, model: Model) -> None:
        model.script([[reply("Yes.")]])
        async with open_home(undo_seconds=0) as home, served(home) as root, browser(root) as app:
            await home.receive()
            thread = await app.only()
            await home.sql("update runs set state = 'failed', reason = 'the mailbox is gone'")
            found = await app.accept(thread)
            assert found[-1] == Event("error", {"error": "RunFailed", "message": "the mailbox is gone"})
            assert (await app.thread(thread["thread_id"]))["status"] == "error"

    async def test_the_stream_ends_when_the_run_rests(
        self, open_home: OpenHome, google: Google, model: Model, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(routes, "_ANSWERS_WITHIN", timedelta(minutes=5))
        model.script([[reply("One.")], [reply("Two.")]])
        async with open_home(undo_seconds=0) as home, served(home) as root, browser(root) as app, home.at_work():
            google.deliver(BOB, "Lunch?", "Does Friday suit you?")
            await until(app.listed)
            thread = await app.only()
            found = await app.send(thread, "response", "Shorter.")
            assert nodes(found)[0] == "interrupt_handler"
            assert text_of(await app.thread(thread["thread_id"])) == "Two."


@in_one_loop
class TestTheAnswerComesAgain:
    """The app's client posts a resume again, word for word, when it got no answer to it."""

    async def test_a_lost_connection_changes_nothing_about_an_answer(
        self,
        home: Home,
        google: Google,
        model: Model,
        app: App,
    ) -> None:
        model.script([[reply("Yes."), DONE]])
        await home.receive()
        thread = await app.only()
        await app.drop(thread, "accept", action(thread), lambda: is_answered(home))
        assert nodes(await app.accept(thread)) == ["interrupt_handler"]
        await let_pass(home)
        assert len(google.sent) == 1
        assert nodes(await app.accept(thread)) == ["interrupt_handler"]
        assert "already answered (approved)" in refusal(await app.send(thread, "response", "Shorter."))
        await let_pass(home)
        assert (await statuses(home), len(google.sent)) == (["applied"], 1)

    @pytest.mark.parametrize("is_served", [False, True], ids=["unseen", "served since"])
    @pytest.mark.parametrize(
        ("kind", "following"),  # what was sent as it was proposed is not asked about once more
        [("accept", "Two."), ("accept nothing", "Two."), ("edit", "Two."), ("edit", "One.")],
        ids=["accept", "accept nothing", "edit-another", "edit-the same"],
    )
    async def test_it_does_not_approve_the_next_question(
        self,
        home: Home,
        google: Google,
        model: Model,
        app: App,
        kind: str,
        following: str,
        is_served: bool,
    ) -> None:
        model.script([[reply("One.")], [reply(following)]])
        await home.receive()
        thread = await app.only()
        args = {
            "accept": action(thread),
            "accept nothing": None,
            "edit": touched(thread, response_text="Edited."),
        }[kind]
        type_ = kind.split()[0]
        await app.drop(thread, type_, args, lambda: is_answered(home))
        await let_pass(home)
        assert await statuses(home) == ["applied", "pending"]
        if is_served:
            assert text_of(await app.only()) == following

        again = await app.send(thread, type_, args)

        if is_served and kind != "accept":
            assert "already answered" in refusal(again)
        else:
            assert nodes(again) == ["interrupt_handler"]
        await let_pass(home)
        assert await statuses(home) == ["applied", "pending"]
        assert len(google.sent) == 1

    @pytest.mark.parametrize("type_", ["ignore", "response"])
    async def test_it_does_not_answer_the_next_question_unseen(
        self,
        home: Home,
        model: Model,
        app: App,
        type_: str,
    ) -> None:
        model.script([[meeting(), reply("Booked."), DONE]])
        await home.receive()
        thread = await app.only()
        args = "Later." if type_ == "response" else None
        await app.drop(thread, type_, args, lambda: is_answered(home))
        assert nodes(await app.send(thread, type_, args)) == ["interrupt_handler"]
        again = await app.http.post(f"/threads/{thread['thread_id']}/runs", json=resume(type_, args))
        assert again.status_code == 200
        other = await app.http.post(f"/threads/{thread['thread_id']}/runs", json=resume("response", "Otherwise."))
        assert other.status_code == 409
        assert "already answered" in other.json()["detail"]
        assert sorted(await statuses(home)) == ["decided", "pending"]

    async def test_resolved_again_it_does_not_end_the_next_question(self, home: Home, model: Model, app: App) -> None:
        model.script([[meeting(), reply("Booked."), DONE]])
        await home.receive()
        thread = await app.only()
        assert (await app.resolve(thread)).status_code == 200
        assert (await app.resolve(thread)).status_code == 200
        assert sorted(await statuses(home)) == ["decided", "pending"]

    async def test_it_does_not_take_what_was_taken_back(self, home: Home, model: Model, app: App) -> None:
        model.script([[reply("Yes.")]])
        await home.receive()
        thread = await app.only()
        await app.accept(thread)
        [item] = await home.items()
        await home.app.inbox.undo(home.app.user_id, item.id)
        assert await app.only() == thread | {"updated_at": (await app.only())["updated_at"]}
        assert "taken back" in refusal(await app.accept(thread))
        assert await statuses(home) == ["pending"]

    async def test_it_is_taken_if_it_was_not_the_first_time(
        self,
        home: Home,
        google: Google,
        model: Model,
        app: App,
    ) -> None:
        model.script([[reply("Yes."), DONE]])
        await home.receive()
        thread = await app.only()
        await home.sql("update accounts set state = 'removing'")
        assert "removed" in refusal(await app.accept(thread))
        await home.sql("update accounts set state = 'active'")
        assert nodes(await app.accept(thread)) == ["interrupt_handler"]
        await let_pass(home)
        assert len(google.sent) == 1

    async def test_and_what_was_refused_is_another_question(
        self, home: Home, google: Google, model: Model, app: App
    ) -> None:
        model.script([[reply("Yes."), DONE]])
        await home.receive()
        first = await app.only()
        seen = [first]
        for _ in range(2):
            google.fault("drafts.send", status=400, reason="failedPrecondition")
            assert nodes(await app.accept(seen[-1])) == ["interrupt_handler"]
            await let_pass(home)
            seen.append(await app.only())
            await app.accept(seen[-2])
            assert await statuses(home) == [*["applied"] * (len(seen) - 1), "pending"]
        names = [action(thread)["action"] for thread in seen]
        assert names == ["send_email_tool", "send_email_tool, asked again", "send_email_tool, asked again (3)"]
        assert google.sent == []
        await app.send(seen[-1], "edit", touched(seen[-1], response_text="No."))
        await let_pass(home)
        assert [message.text for message in google.sent] == ["No."]

    async def test_of_many_at_once_one_is_taken(self, home: Home, google: Google, model: Model, app: App) -> None:
        model.script([[reply("One.")], [reply("Two.")]])
        await home.receive()
        thread = await app.only()
        found = await asyncio.gather(*(app.accept(thread) for _ in range(10)))
        assert all(nodes(one) == ["interrupt_handler"] for one in found)
        assert await statuses(home) == ["decided"]
        await let_pass(home)
        assert len(google.sent) == 1


@in_one_loop
class TestTwoBrowsers:
    async def test_each_answers_what_it_was_shown(self, home: Home, model: Model, root: str) -> None:
        model.script([[reply("One.")], [reply("Two.")]])
        await home.receive()
        async with browser(root) as left, browser(root, **{"user-agent": "Safari"}) as right:
            stale = await left.only()
            await right.send(await right.only(), "response", "Shorter.")
            await let_pass(home)
            assert text_of(await right.only()) == "Two."
            for type_, args in (("response", "Longer."), ("accept", None), ("edit", touched(stale, response_text="X"))):
                assert "already answered" in refusal(await left.send(stale, type_, args))
            assert (await left.ignore(stale)).status_code == 409
            assert (await left.resolve(stale)).status_code == 409
            assert await statuses(home) == ["applied", "pending"]
            assert nodes(await right.accept(await right.only())) == ["interrupt_handler"]

    async def test_a_tab_that_was_left_open_accepts_nothing_newer(
        self,
        home: Home,
        model: Model,
        app: App,
    ) -> None:
        model.script([[reply("One.")], [reply("Two.")]])
        await home.receive()
        stale = await app.only()
        await home.answer((await home.items())[0], "response", "Shorter.")
        await let_pass(home)
        assert text_of(await app.only()) == "Two."
        assert "not the action" in refusal(await app.accept(stale))
        assert await statuses(home) == ["applied", "pending"]

    async def test_one_whose_address_has_changed_answers_what_was_shown_last(
        self,
        home: Home,
        model: Model,
        root: str,
        app: App,
    ) -> None:
        model.script([[reply("One.")]])
        await home.receive()
        thread = await app.only()
        async with browser(root, **{"user-agent": "Firefox, updated"}) as same:
            assert nodes(await same.accept(thread)) == ["interrupt_handler"]

    async def test_what_nobody_was_shown_takes_no_answer(self, home: Home, model: Model, app: App) -> None:
        model.script([[reply("One.")]])
        await home.receive()
        [item] = await home.items()
        thread = {"thread_id": str(item.run_id)}
        assert "shown" in refusal(await app.send(thread, "accept", None))
        assert (await app.ignore(thread)).status_code == 409
        assert await statuses(home) == ["pending"]

    async def test_a_superseded_thread_takes_no_answer(
        self,
        home: Home,
        google: Google,
        model: Model,
        app: App,
    ) -> None:
        model.script([[reply("One.")], [reply("Two.")]])
        mail_id = await home.receive()
        stale = await app.only()
        await home.receive("Re: Lunch?", "Or Monday?", thread=mail_id)
        assert "set aside" in refusal(await app.accept(stale))
        assert (await app.thread(stale["thread_id"]))["status"] == "idle"
        assert text_of(await app.only()) == "Two."


HOSTILE = (
    '<img src="https://evil.example/pixel.png"> <form action="https://evil.example"><input type=password></form>'
    "\n![pixel](https://evil.example/pixel.png)\n[Your bank](https://evil.example)\n[x]: https://evil.example\n"
    "```\n~~~\n<!-- hidden"
)


@in_one_loop
class TestHostileMail:
    async def test_nothing_of_it_is_markup(self, home: Home, model: Model, app: App) -> None:
        model.script([[reply("No.")]])
        await home.receive("<b>Hi</b> ![x](https://evil.example/y.png) \u202eevil", HOSTILE)
        description = shown(await app.only())["description"]
        assert not re.search(r"[<>\[\]`~]|\u202e", description)
        assert "![pixel](https://evil.example/pixel.png)" in html.unescape(description)
        row, _, rest = description.partition("\n")
        assert row.rstrip() == "Bob Berg: ‹b›Hi‹/b› ！(x)(https://evil.example/y.png) evil"
        assert html.unescape(rest) != rest

    @pytest.mark.parametrize(
        ("subject", "row"),
        [
            ("Q&A at 5 > 4?", "Q&A at 5 › 4?"),
            ("[ticket 7] ~ `now`!", "(ticket 7) ∼ ‘now‘!"),
            ("!<img src=x onerror=y>", "！‹img src=x onerror=y›"),
            ("!`x` !~x", "！‘x‘ ！∼x"),
            ("&lt;img src=x&gt; &#60;b&#62; R&D;", "＆lt;img src=x＆gt; ＆#60;b＆#62; R＆D;"),
            ("a \\[b\\] c", "a ∖(b∖) c"),
        ],
    )
    async def test_its_row_shows_no_entities(self, home: Home, model: Model, app: App, subject: str, row: str) -> None:
        model.script([[reply("No.")]])
        await home.receive(subject)
        first = shown(await app.only())["description"].splitlines()[0].rstrip()
        assert first == f"Bob Berg: {row}"
        assert not re.search(r"&#?\w+;", first)

    async def test_nor_of_a_proposal_that_is_only_shown(self, home: Home, model: Model, app: App) -> None:
        """The app draws what can't be edited as Markdown, too."""
        model.script([[tool("Question", content=HOSTILE)]])
        await home.receive()
        content = action(await app.only())["args"]["content"]
        assert not re.search(r"[<>\[\]`~]", content)
        assert "![pixel](https://evil.example/pixel.png)" in html.unescape(content)

    async def test_what_can_be_edited_is_left_as_it_is(self, home: Home, model: Model, app: App) -> None:
        model.script([[reply(HOSTILE)]])
        await home.receive()
        assert text_of(await app.only()) == HOSTILE


@in_one_loop
class TestErrors:
    async def test_an_unknown_assistant_is_named_as_the_app_expects(self, home: Home, model: Model, app: App) -> None:
        model.script([[reply("Yes.")]])
        await home.receive()
        thread = await app.only()
        for path in ("runs", "runs/stream"):
            body = {**resume("accept", None), "assistant_id": "another"}
            answer = await app.http.post(f"/threads/{thread['thread_id']}/{path}", json=body)
            assert answer.status_code == 404
            assert "Invalid assistant ID" in answer.json()["detail"]
        body = {**resume("accept", None), "assistant_id": thread["metadata"]["assistant_id"]}
        assert (await app.http.post(f"/threads/{thread['thread_id']}/runs/stream", json=body)).status_code == 200

    async def test_an_unknown_thread_is_not_found(self, app: App) -> None:
        for unknown in (str(uuid4()), "x"):
            for answer in (
                await app.http.get(f"/threads/{unknown}"),
                await app.http.get(f"/threads/{unknown}/state"),
                await app.http.post(f"/threads/{unknown}/runs/stream", json=resume("accept", None)),
                await app.http.post(f"/threads/{unknown}/runs", json=resume("ignore", None)),
                await app.http.post(f"/threads/{unknown}/state", json={"values": None, "as_node": "__end__"}),
            ):
                assert answer.status_code == 404
                assert "Invalid assistant ID" not in answer.text

    @pytest.mark.parametrize(
        "wrong",
        [
            [],
            [{"type": "accept", "args": None}] * 2,
            [{"type": "approve", "args": None}],
            [{"type": "accept", "args": {"x": 1}}],
            [{"type": "accept", "args": ["x"]}],
            {"type": "accept"},
        ],
    )
    async def test_a_resume_is_one_answer(self, home: Home, model: Model, app: App, wrong: object) -> None:
        model.script([[reply("Yes.")]])
        await home.receive()
        thread = await app.only()
        body = {**resume("accept", None), "command": {"resume": wrong}}
        for path in ("runs", "runs/stream"):
            assert (await app.http.post(f"/threads/{thread['thread_id']}/{path}", json=body)).status_code == 422
        assert await statuses(home) == ["pending"]

    @pytest.mark.parametrize(
        ("type_", "args"), [("response", None), ("response", " "), ("edit", None), ("edit", "x"), ("accept", "x")]
    )
    async def test_an_answer_that_says_nothing_is_refused(
        self,
        home: Home,
        model: Model,
        app: App,
        type_: str,
        args: object,
    ) -> None:
        model.script([[reply("Yes.")]])
        await home.receive()
        thread = await app.only()
        assert refusal(await app.send(thread, type_, args))
        answer = await app.http.post(f"/threads/{thread['thread_id']}/runs", json=resume(type_, args))
        assert answer.status_code == 422
        assert await statuses(home) == ["pending"]

    async def test_an_answer_that_is_not_offered_is_refused(self, home: Home, model: Model, app: App) -> None:
        model.on_triage("notify")
        await home.receive()
        thread = await app.only()
        assert "no answer to this" in refusal(await app.send(thread, "edit", action(thread)))
        assert await statuses(home) == ["pending"]

    async def test_only_the_end_can_be_set_as_state(self, home: Home, model: Model, app: App) -> None:
        model.script([[reply("Yes.")]])
        await home.receive()
        path = f"/threads/{(await app.only())['thread_id']}/state"
        for body in ({"values": {"x": 1}, "as_node": "__end__"}, {"values": None, "as_node": "act"}, {"values": None}):
            assert (await app.http.post(path, json=body)).status_code == 422
        assert await statuses(home) == ["pending"]


def asks(method: str = "POST", headers: str = "content-type,x-api-key", origin: str = ORIGIN) -> dict[str, str]:
    """The headers of a browser's question before the request itself."""
    return {
        "origin": origin,
        "access-control-request-method": method,
        "access-control-request-headers": headers,
    }


@in_one_loop
class TestOtherSites:
    @pytest_asyncio.fixture(loop_scope="module")
    async def shared(self, home: Home) -> AsyncIterator[httpx.AsyncClient]:
        """A stranger at a server that the app may call."""
        with pytest.MonkeyPatch.context() as environment:
            environment.setenv(VARIABLE, ORIGIN)
            async with served(home) as root, httpx.AsyncClient(base_url=root, trust_env=False, timeout=30) as http:
                yield http

    async def test_its_browser_is_answered_without_the_token(self, shared: httpx.AsyncClient) -> None:
        for path, method in (
            ("/threads/search", "POST"),
            (f"/threads/{uuid4()}", "GET"),
            (f"/threads/{uuid4()}/runs/stream", "POST"),
            ("/info", "GET"),
        ):
            answer = await shared.options(path, headers=asks(method))
            assert answer.status_code == 200
            assert answer.headers["access-control-allow-origin"] == ORIGIN
            assert method in answer.headers["access-control-allow-methods"]
            allowed = answer.headers["access-control-allow-headers"].lower()
            assert {"content-type", "x-api-key"} <= set(re.split(r",\s*", allowed))
            assert "access-control-allow-credentials" not in answer.headers

    async def test_its_page_reads_answers_and_refusals(self, shared: httpx.AsyncClient) -> None:
        headers = {"origin": ORIGIN, "x-api-key": TOKEN}
        for token, status in ((TOKEN, 200), ("wrong", 401)):
            answer = await shared.post("/threads/search", json=GRAPH, headers={**headers, "x-api-key": token})
            assert answer.status_code == status
            assert answer.headers["access-control-allow-origin"] == ORIGIN
            exposed = answer.headers["access-control-expose-headers"].lower()
            assert set(re.split(r",\s*", exposed)) == {"location", "content-location"}
        assert (await shared.post("/threads/search", json=GRAPH, headers={"origin": ORIGIN})).status_code == 401

    @pytest.mark.parametrize(
        "origin", ["https://evil.example", "null", f"{ORIGIN}.evil.example", "http://dev.agentinbox.ai"]
    )
    async def test_no_other_site_is_let_in(self, shared: httpx.AsyncClient, origin: str) -> None:
        asked = await shared.options("/threads/search", headers=asks(origin=origin))
        assert "access-control-allow-origin" not in asked.headers
        for token in ({}, {"x-api-key": TOKEN}):
            answer = await shared.post("/threads/search", json=GRAPH, headers={"origin": origin, **token})
            assert answer.status_code == 403
            assert "access-control-allow-origin" not in answer.headers

    async def test_it_reaches_what_the_app_uses_and_nothing_else(self, shared: httpx.AsyncClient) -> None:
        headers = {"origin": ORIGIN, "x-api-key": TOKEN}
        path = f"/api/inbox/{uuid4()}/decision"
        assert (await shared.post(path, json={"type": "ignore"}, headers=headers)).status_code == 403
        for answer in (
            await shared.options(path, headers=asks()),
            await shared.get("/api/inbox", headers=headers),
            await shared.get("/", headers=headers),
        ):
            assert "access-control-allow-origin" not in answer.headers

    async def test_by_default_no_site_is_let_in(self, app: App) -> None:
        asked = await app.http.options("/threads/search", headers=asks())
        assert "access-control-allow-origin" not in asked.headers
        assert (await app.http.post("/threads/search", json=GRAPH, headers={"origin": ORIGIN})).status_code == 403

    async def test_all_but_info_needs_the_token(self, home: Home, model: Model, root: str, app: App) -> None:
        model.script([[reply("Yes.")]])
        await home.receive()
        thread_id = (await app.only())["thread_id"]
        async with httpx.AsyncClient(base_url=root, trust_env=False) as stranger:
            known = (await stranger.get("/info", headers={"content-type": "application/json"})).json()
            assert known == {
                "flags": {"assistants": False, "crons": False, "langsmith": False},
                "host": {"kind": "self-hosted", "project_id": None, "revision_id": None, "tenant_id": None},
            }
            for method, path, body in (
                ("POST", "/threads/search", GRAPH),
                ("GET", f"/threads/{thread_id}", None),
                ("GET", f"/threads/{thread_id}/state", None),
                ("POST", f"/threads/{thread_id}/runs", resume("ignore", None)),
                ("POST", f"/threads/{thread_id}/runs/stream", resume("accept", None)),
                ("POST", f"/threads/{thread_id}/state", {"values": None, "as_node": "__end__"}),
            ):
                answer = await stranger.request(method, path, json=body)
                assert answer.status_code == 401
                assert answer.headers["content-type"] == "application/problem+json"
        assert await statuses(home) == ["pending"]


class TestSetting:
    def test_it_takes_one_origin(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv(VARIABLE, "https://Dev.AgentInbox.ai/")
        assert self._read() == {ORIGIN}

    def test_it_may_stand_in_the_file_of_settings(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setenv("EMAIL_ASSISTANT_HOME", str(tmp_path))
        (tmp_path / ".env").write_text(f"{VARIABLE}={ORIGIN}\n")
        assert self._read() == {ORIGIN}

    @staticmethod
    def _read() -> set[str | None]:
        """By the program and by its demo."""
        given = Settings.load()
        return {each.of(AgentInboxSettings).agent_inbox_origin for each in (given, demo_settings(given))}

    @pytest.mark.parametrize(
        "wrong", ["*", "https://*", "dev.agentinbox.ai", "https://a/b", "null", "https://a https://b"]
    )
    def test_it_takes_nothing_else(self, monkeypatch: pytest.MonkeyPatch, wrong: str) -> None:
        monkeypatch.setenv(VARIABLE, wrong)
        with pytest.raises(SettingsError, match=f"{VARIABLE}: takes the scheme"):
            self._read()


@asynccontextmanager
async def second_api(daemon: Daemon) -> AsyncIterator[str]:
    """Another process of the program that serves the same inbox."""
    process = Process(
        "api", ["api", "--host", "127.0.0.1", "--port", "0"], daemon.environment, daemon.home, daemon.nursery
    )
    try:
        await until(lambda: "Your inbox: " in process.log, 90)
        [port] = re.findall(r"Your inbox: http://[^/\s]+:(\d+)", process.log)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.stop()


class TestTheProgram:
    @pytest.fixture
    def daemon(self, start: Start) -> Daemon:
        return start(agent_inbox_origin=ORIGIN)

    async def test_all_calls_in_the_apps_order(self, daemon: Daemon, google: Google, model: Model) -> None:
        subjects = ("accept", "edit", "response", "ignore", "resolve")
        first: Mapping[str, list[Any]] = {subject: [[reply("Friday."), DONE]] for subject in subjects}
        model.script({**first, "response": [[reply("Friday.")], [reply("Thursday."), DONE]]})
        mails = {subject: google.deliver(BOB, subject, "Does Friday suit you?") for subject in subjects}
        daemon.pending(len(subjects))
        async with browser(str(daemon.http.base_url), API_TOKEN, origin=ORIGIN) as app:
            assert (await app.http.get("/info")).status_code == 200
            threads = {re.split(r"[:\n]", shown(t)["description"])[1].strip(): t for t in await app.listed()}
            assert set(threads) == set(subjects)

            assert nodes(await app.accept(threads["accept"]))[0] == "interrupt_handler"
            assert nodes(await app.send(threads["edit"], "edit", touched(threads["edit"], response_text="Monday.")))
            assert nodes(await app.send(threads["response"], "response", "Not Friday."))
            assert (await app.ignore(threads["ignore"])).status_code == 200
            assert (await app.resolve(threads["resolve"])).status_code == 200
            answered = {threads[subject]["thread_id"] for subject in ("accept", "edit", "ignore", "resolve")}
            assert not answered & {thread["thread_id"] for thread in await app.listed()}

            thread_id = threads["response"]["thread_id"]
            daemon.wait_for(
                lambda: [i["args"]["response_text"] for i in daemon.items(status="pending")] == ["Thursday."]
            )
            again = await app.thread(thread_id)
            assert text_of(again) == "Thursday."
            assert nodes(await app.accept(again))
        daemon.until_done(*mails.values())
        assert {sent.thread_id: sent.text for sent in google.sent} == {
            mails["accept"]: "Friday.",
            mails["edit"]: "Monday.",
            mails["response"]: "Thursday.",
        }
        assert len(google.sent) == 3

    async def test_a_repeat_at_another_process_approves_nothing(
        self, daemon: Daemon, google: Google, model: Model
    ) -> None:
        model.script([[reply("One.")], [reply("Two.")]])
        google.deliver(BOB, "Lunch?", "Does Friday suit you?")
        [item] = daemon.pending()
        async with (
            second_api(daemon) as other,
            browser(str(daemon.http.base_url), API_TOKEN) as here,
            browser(other, API_TOKEN) as there,
        ):
            thread = await here.only()
            await here.drop(thread, "accept", action(thread), lambda: daemon.item(item["id"])["status"] == "applied")
            daemon.pending()
            for type_, args in (("accept", action(thread)), ("accept", None)):
                await there.send(thread, type_, args)  # told as a success or refused; nothing comes of it
            assert text_of(await there.only()) == text_of(await here.only()) == "Two."
            for app in (there, here):
                await app.accept(thread)
            daemon.until_polled(2)
            [waiting] = daemon.items(status="pending")
            assert waiting["args"]["response_text"] == "Two."
            assert [sent.text for sent in google.sent] == ["One."]
