"""A model that answers from a list and counts what it is asked, behind OpenAI's chat completions.

What it counts is the text of every message, the tool calls and tool schemas, and the schema of the answer: what a
provider bills, but for the few tokens that mark where a message begins.
"""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

Calls = Sequence[tuple[str, Mapping[str, Any]]]  # tool calls of one message: names and arguments

_LEARNED = {"action": "add", "rule": None, "text": "Keep replies short.", "reason": "They asked for it."}


@dataclass
class CannedModel:
    """Answers of the three kinds: a class for every mail, messages of the response agent in order, and one rule."""

    classification: str
    messages: Sequence[Calls]
    count: Callable[[str], int]  # tokens of a text
    calls: int = field(default=0, init=False)
    prompt_tokens: int = field(default=0, init=False)
    _given: int = field(default=0, init=False)

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[str]:
        """Listen on a free loopback port; yields the base URL."""
        app = Starlette(routes=[Route("/v1/chat/completions", self._complete, methods=["POST"])])
        server = _QuietServer(uvicorn.Config(app, log_config=None, access_log=False, lifespan="off"))
        with socket.create_server(("127.0.0.1", 0)) as listener:
            # asyncio does so only where the socket names its protocol; else each answer waits 40 ms for a delayed ACK
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            serving = asyncio.create_task(server.serve(sockets=[listener]))
            try:
                yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
            finally:
                server.should_exit = True
                await serving

    async def _complete(self, request: Request) -> JSONResponse:
        body = await request.json()
        tokens = self.count(_prompt(body))
        self.calls += 1
        self.prompt_tokens += tokens
        if body.get("tools") and self._given == len(self.messages):
            return JSONResponse({"error": {"message": "no answer is left", "type": "invalid_request_error"}}, 400)
        answer = self._answer(body)
        usage = {"prompt_tokens": tokens, "completion_tokens": 0, "total_tokens": tokens}
        return JSONResponse(
            {
                "id": f"canned-{self.calls}",
                "object": "chat.completion",
                "created": 0,
                "model": body["model"],
                "choices": [{"index": 0, "message": {"role": "assistant", **answer}, "finish_reason": "stop"}],
                "usage": usage,
            }
        )

    def _answer(self, body: Mapping[str, Any]) -> dict[str, Any]:
        if body.get("tools"):
            calls = self.messages[self._given]
            self._given += 1
            return {"content": None, "tool_calls": [_wire(n, *call) for n, call in enumerate(calls)]}
        if body["response_format"]["json_schema"]["name"] == "triage":
            return {"content": json.dumps({"reasoning": "As planned.", "classification": self.classification})}
        return {"content": json.dumps(_LEARNED)}


class _QuietServer(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals to the command."""
        yield


def _wire(number: int, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"id": f"call_{number}", "type": "function", "function": function}


def _prompt(body: Mapping[str, Any]) -> str:
    calls = [call["function"] for message in body["messages"] for call in message.get("tool_calls") or ()]
    schemas = [part for part in (calls, body.get("tools"), body.get("response_format")) if part]
    return "\n".join([*(message.get("content") or "" for message in body["messages"]), *map(json.dumps, schemas)])
