"""Model servers that can't do all of OpenAI's chat completions: what they refuse, and what they quietly ignore."""

import asyncio
import json
import re
import threading
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from typing import Any, Literal

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from tests.doubles.completion import completion, error
from tests.doubles.model import ToolCall
from tests.doubles.serving import Server

Gap = Literal["json_schema", "json_object", "tools", "tool_choice", "stream", "stream_options"]

USAGE = {"prompt_tokens": 70, "completion_tokens": 7, "total_tokens": 77}
PROSE = "Sure, here is what I think about it."


class LimitedModel:
    """A willing model behind a limited server: it answers in the form that reaches it, and chats where none does.

    A form reaches it in the request, unless the server refuses or ignores that, or in words.
    """

    def __init__(
        self,
        *,
        refuses: Collection[Gap] = (),
        ignores: Collection[Gap] = (),
        context: int | None = None,
        tells_context: bool = True,
    ) -> None:
        self.requests: list[dict[str, Any]] = []
        """Bodies of all requests, in order."""
        self.refused: list[dict[str, Any]] = []
        self.triage = {"reasoning": "A question.", "classification": "respond"}
        self.calls: Sequence[ToolCall] = ()
        """What it calls, as often as it is asked; where a call is not required, only if there is any."""
        self.answer = PROSE
        self.says: str | None = None
        """What it says instead where calls are asked for as JSON."""
        self.says_times = 99
        self.unreadable = 0
        """So many answers to come are prose, whatever is asked for."""
        self.thoughts = ""
        """What comes before each answer that is text."""
        self.written: Callable[[list[dict[str, Any]]], Any] | None = None
        """How it writes calls as JSON, where not as it is told."""
        self.instead: Callable[[], Response] | None = None
        """What is answered instead, whatever is asked."""
        self.usage_in_each = False
        """Each piece of a streamed answer tells the usage."""
        self.endless = False
        """Every answer goes on word by word until nobody listens any more."""
        self._refuses = set(refuses)
        self._ignores = set(ignores)
        self._context = context
        self._tells_context = tells_context
        self._lock = threading.Lock()
        routes = [
            Route("/v1/chat/completions", self._endpoint, methods=["POST"]),
            Route("/v1/models", self._models, methods=["GET"]),
        ]
        self._server = Server(Starlette(routes=routes))
        self.root = f"{self._server.urls[0]}/v1"

    def now_refuses(self, *gaps: Gap) -> None:
        """It was started again, with less that it can do."""
        self._refuses = set(gaps)

    def __enter__(self) -> "LimitedModel":
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop()

    async def _models(self, _: Request) -> Response:
        known = {"id": "stub-model", "object": "model"} | ({"max_model_len": self._context} if self._context else {})
        return JSONResponse({"object": "list", "data": [known]})

    async def _endpoint(self, request: Request) -> Response:
        return await run_in_threadpool(self._respond, await request.json())

    def _respond(self, body: dict[str, Any]) -> Response:
        with self._lock:
            self.requests.append(body)
            refusal = self._refusal(body)
            if refusal:
                self.refused.append(body)
                return refusal
            if self.instead:
                return self.instead()
            message = self._message(body)
            if message["content"]:
                message["content"] = self.thoughts + message["content"]
        if self.endless:
            return StreamingResponse(_words_for_ever(), media_type="text/event-stream")
        return completion(
            {**body, "stream": body.get("stream") and "stream" not in self._ignores},
            message,
            USAGE,
            usage_in_each=self.usage_in_each,
        )

    def _refusal(self, body: Mapping[str, Any]) -> Response | None:
        for gap in asked_for(body) & self._refuses:
            return error(400, f"{gap} is not supported")
        size = len(json.dumps(body["messages"], ensure_ascii=False))
        if self._context is None or size <= self._context:
            return None
        if not self._tells_context:
            return error(400, "too long", code="context_length_exceeded")
        return error(  # as llama.cpp says it
            400,
            f"request ({size} tokens) exceeds the available context size ({self._context} tokens), try increasing it",
            type="exceed_context_size_error",
            n_prompt_tokens=size,
            n_ctx=self._context,
        )

    def _message(self, body: Mapping[str, Any]) -> dict[str, Any]:
        if self.unreadable:
            self.unreadable -= 1
            return {"content": PROSE}
        heeded = asked_for(body) - self._ignores
        calls = self._tool_calls(body)
        if calls and "tools" in heeded and ("tool_choice" in heeded or body.get("tool_choice") == "auto"):
            return {"content": None, "tool_calls": calls}
        text = "\n".join(str(message["content"]) for message in body["messages"])
        if "json_schema" in heeded:
            return {"content": json.dumps(self._object(json.dumps(body["response_format"])))}
        if re.search(r"one JSON object", text):
            if self.says and self.says_times and '"calls"' in text:
                self.says_times -= 1
                return {"content": self.says}
            return {"content": f"Here it is:\n```json\n{json.dumps(self._object(text))}\n```"}
        if "json_object" in heeded:
            return {"content": '{"weather": "sunny"}'}
        return {"content": self.answer}

    def _object(self, form: str) -> Any:
        if '"ready"' in form and "calls" not in form:
            return {"ready": True}
        if "classification" in form and '"calls"' not in form:
            return self.triage
        calls = [{"name": call.name, "arguments": call.args} for call in self.calls]
        if self.written:
            return self.written(calls)
        return {"calls": calls} | ({"answer": "" if calls else self.answer} if '"answer"' in form else {})

    def _tool_calls(self, body: Mapping[str, Any]) -> list[dict[str, Any]]:
        offered = [tool["function"]["name"] for tool in body.get("tools", [])]
        calls = [ToolCall("ready", {})] if offered == ["ready"] else self.calls
        return [_wire(call.name, call.args, number) for number, call in enumerate(calls)]


def asked_for(body: Mapping[str, Any]) -> set[str]:
    """What of the protocol a request makes use of."""
    found = {(body.get("response_format") or {}).get("type", "text")} - {"text"}
    found |= {"tools"} if body.get("tools") else set()
    found |= {"tool_choice"} if body.get("tool_choice") == "required" else set()
    found |= {"stream"} if body.get("stream") else set()
    return found | ({"stream_options"} if body.get("stream_options") else set())


async def _words_for_ever() -> AsyncIterator[str]:
    word = json.dumps({"choices": [{"index": 0, "delta": {"content": "word "}, "finish_reason": None}]})
    while True:
        yield f"data: {word}\n\n"
        await asyncio.sleep(0.05)


def _wire(name: str, args: Mapping[str, Any], number: int) -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(args)}
    return {"id": f"call_{number}", "type": "function", "function": function}
