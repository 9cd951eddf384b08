"""The doubles of a chat do what model servers and MCP servers do, as far as the tests of the chat lean on it."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import openai
import pytest
from mcp import ClientSession, McpError, types
from mcp.client.session import ElicitationFnT
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult, TextContent

from tests.doubles.calendar_server import OFFERED, CalendarServer
from tests.doubles.model import Model, ToolCall, tool
from tests.doubles.serving import Hold

pytestmark = pytest.mark.sampled

EVENT: dict[str, Any] = {"calendar_id": "primary", "start": "2026-01-16T10:00", "name": "Plan", "duration_minutes": 30}
FORM = {"type": "object", "properties": {"calendar": {"type": "string"}}, "required": ["calendar"]}


def offered(*names: str) -> list[Any]:
    return [
        {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {}}}}
        for name in ("request_clarification", *names)
    ]


class TestModel:
    @pytest.fixture
    def model(self) -> Iterator[Model]:
        with Model() as double:
            yield double

    @pytest.fixture
    def client(self, model: Model) -> openai.OpenAI:
        return openai.OpenAI(base_url=model.root, api_key="key", max_retries=0)

    def test_the_router_gets_the_types_that_were_scripted(self, model: Model, client: openai.OpenAI) -> None:
        model.on_policy("calendar")
        answer = client.chat.completions.create(
            model="stub-model",
            messages=[{"role": "user", "content": "plan"}],
            response_format={"type": "json_schema", "json_schema": {"name": "policy", "schema": {"type": "object"}}},
        )
        assert answer.choices[0].message.content == '{"allowed_tool_types": ["calendar"]}'
        assert len(model.calls("policy")) == 1

    def test_a_chat_is_answered_by_its_last_words_and_the_step_of_the_turn(
        self, model: Model, client: openai.OpenAI
    ) -> None:
        model.on_chat({"hello": ["Hello."], "look": [[tool("list_events"), tool("list_events")], "Seen."]})
        messages: list[Any] = [
            {"role": "user", "content": "hello"},
            {"role": "assistant", "content": "Hello."},
            {"role": "user", "content": "look"},
        ]
        for _ in range(2):  # the same request gets the same answer
            first = self.ask(client, messages)
            assert [call.id for call in first.tool_calls or []] == ["call_0", "call_1"]
        messages += [first.model_dump(exclude_none=True)]
        messages += [{"role": "tool", "tool_call_id": f"call_{n}", "content": "nothing"} for n in range(2)]
        assert self.ask(client, messages).content == "Seen."
        assert model.calls("chat")[-1].said == ["hello", "look"]
        assert model.violations == []

    @pytest.mark.parametrize("said", ["unknown", "hello"])
    def test_what_was_not_scripted_is_refused(self, model: Model, client: openai.OpenAI, said: str) -> None:
        model.on_chat({"hello": []})
        with pytest.raises(openai.BadRequestError, match="no script"):
            self.ask(client, [{"role": "user", "content": said}])
        assert len(model.violations) == 1

    def test_it_streams_what_it_answers(self, model: Model, client: openai.OpenAI) -> None:
        calls = [ToolCall("list_events", {"start": "a", "end": "b"}), ToolCall("list_calendars", {})]
        model.on_chat({"hello": ["Hello to you."], "look": [calls]})
        for said in ("hello", "look"):
            whole = self.ask(client, [{"role": "user", "content": said}])
            with client.chat.completions.stream(
                model="stub-model",
                messages=[{"role": "user", "content": said}],
                tools=offered(),
                stream_options={"include_usage": True},
            ) as stream:
                pieces = [event for event in stream if event.type == "chunk"]
            streamed = stream.get_final_completion()
            message = streamed.choices[0].message
            assert (message.content or "") == (whole.content or "")
            assert [(c.id, c.function.name, c.function.arguments) for c in message.tool_calls or []] == [
                (c.id, c.function.name, c.function.arguments) for c in whole.tool_calls or [] if c.type == "function"
            ]
            assert len(pieces) > 3
            assert streamed.usage
            assert streamed.usage.total_tokens > 0

    def ask(self, client: openai.OpenAI, messages: list[Any]) -> Any:
        answer = client.chat.completions.create(model="stub-model", messages=messages, tools=offered())
        return answer.choices[0].message


class TestCalendarServer:
    @pytest.fixture
    def calendar(self) -> Iterator[CalendarServer]:
        with CalendarServer() as double:
            yield double

    async def test_its_tools_and_what_they_do(self, calendar: CalendarServer) -> None:
        async with client(calendar) as session:
            offered = {each.name for each in (await session.list_tools()).tools}
            assert offered == {*OFFERED, "clear_calendar", "send_email_tool"}
            assert text(await session.call_tool("create_event", EVENT)) == "event-1 is made: Plan"
            await session.call_tool("update_event", {"event_id": "event-1", "name": "New plan"})
            assert text(await session.call_tool("list_events", {})) == "event-1: New plan"
        assert calendar.events == {"event-1": {**EVENT, "name": "New plan"}}
        assert [call.name for call in calendar.calls] == ["create_event", "update_event", "list_events"]

    async def test_arguments_of_another_form_are_refused(self, calendar: CalendarServer) -> None:
        async with client(calendar) as session:
            assert (await session.call_tool("create_event", {"name": "Plan"})).isError
        assert calendar.events == {}

    async def test_a_fault_lasts_as_often_as_it_was_asked_for(self, calendar: CalendarServer) -> None:
        calendar.fault("list_events", error="that time is not valid")
        async with client(calendar) as session:
            refused = await session.call_tool("list_events", {})
            assert (refused.isError, text(refused)) == (True, "that time is not valid")
            assert not (await session.call_tool("list_events", {})).isError

    async def test_a_link_is_the_protocols_own_error(self, calendar: CalendarServer) -> None:
        calendar.fault("create_event", url="https://accounts.example/")
        async with client(calendar) as session:
            with pytest.raises(McpError) as wanted:
                await session.call_tool("create_event", EVENT)
        assert wanted.value.error.code == -32042
        assert wanted.value.error.data
        link = {"mode": "url", "url": "https://accounts.example/", "message": "Let us into your calendar."}
        assert wanted.value.error.data["elicitations"] == [{**link, "elicitationId": "consent-1"}]
        assert calendar.events == {}

    @pytest.mark.parametrize("action", ["accept", "decline"])
    async def test_a_form_is_asked_for_while_the_call_waits(self, calendar: CalendarServer, action: Any) -> None:
        async def fill_in(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult | types.ErrorData:
            assert isinstance(params, types.ElicitRequestFormParams)
            assert params.requestedSchema == FORM
            return types.ElicitResult(action=action, content={"calendar": "work"} if action == "accept" else None)

        calendar.fault("list_events", form=FORM)
        async with client(calendar, fill_in) as session:
            assert (await session.call_tool("list_events", {})).isError == (action == "decline")
        assert [answer.action for answer in calendar.answers] == [action]

    @pytest.mark.parametrize(("at", "done"), [("before", []), ("after", ["Plan"])])
    async def test_a_held_call_waits_before_or_after_it_is_done(
        self, calendar: CalendarServer, at: Any, done: list[str]
    ) -> None:
        hold = Hold()
        calendar.fault("create_event", hold=hold, at=at)
        async with client(calendar) as session, client(calendar) as other:
            calling = asyncio.create_task(session.call_tool("create_event", EVENT))
            await asyncio.to_thread(hold.reached)
            assert calendar.names == done
            await other.call_tool("list_calendars", {})  # which nobody holds up
            assert not calling.done()
            hold.release()
            assert text(await calling) == "event-1 is made: Plan"

    async def test_while_it_is_down_it_refuses_and_then_is_there_again(self, calendar: CalendarServer) -> None:
        for _ in range(2):
            await asyncio.to_thread(calendar.stop)
            async with httpx.AsyncClient(trust_env=False) as http:
                with pytest.raises(httpx.ConnectError):
                    await http.get(calendar.url)
            calendar.start()
            async with client(calendar) as session:
                assert not (await session.call_tool("list_events", {})).isError

    async def test_it_dies_with_a_call_that_is_held(self, calendar: CalendarServer) -> None:
        hold = Hold()
        calendar.fault("create_event", hold=hold)
        async with httpx.AsyncClient(trust_env=False) as http:
            opened = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
            headers = {"accept": "application/json, text/event-stream"}
            began = await http.post(calendar.url, json=message("initialize", opened), headers=headers)
            headers["mcp-session-id"] = began.headers["mcp-session-id"]
            sent = message("tools/call", {"name": "create_event", "arguments": EVENT})
            async with http.stream("POST", calendar.url, json=sent, headers=headers) as answer:
                await asyncio.to_thread(hold.reached)
                await asyncio.to_thread(calendar.stop)
                with pytest.raises(httpx.TransportError):
                    await answer.aread()
        assert calendar.events == {}

    def test_it_may_keep_silent(self, calendar: CalendarServer) -> None:
        calendar.greets = False
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(calendar.url, json=message("initialize", {}), timeout=0.5, trust_env=False)


@asynccontextmanager
async def client(calendar: CalendarServer, fill_in: ElicitationFnT | None = None) -> AsyncIterator[ClientSession]:
    async with (
        httpx.AsyncClient(trust_env=False, timeout=10) as http,
        streamable_http_client(calendar.url, http_client=http) as (incoming, outgoing, _),
        ClientSession(incoming, outgoing, elicitation_callback=fill_in) as session,
    ):
        await session.initialize()
        yield session


def message(method: str, params: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def text(result: CallToolResult) -> str:
    [content] = result.content
    assert isinstance(content, TextContent)
    return content.text
