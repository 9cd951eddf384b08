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
    words: str = ""  # to what offers no tools and asks for no form
    calls: int = field(default=0, init=False)
    prompt_tokens: int = field(default=0, init=False)
    _given: int = field(default=0, init=False)

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[str]:
        """Listen on a free loopback port; yields the base URL."""
        async with served(Starlette(routes=[Route("/v1/chat/completions", self._complete, methods=["POST"])])) as root:
            yield f"{root}/v1"

    async def _complete(self, request: Request) -> JSONResponse:
        body = await request.json()
        tokens = self.count(_prompt(body))
        self.calls += 1
        self.prompt_tokens += tokens
        try:
            answer = self._message(body)
        except NoAnswerLeft as error:
            return JSONResponse({"error": {"message": str(error), "type": "invalid_request_error"}}, 400)
        usage = {"prompt_tokens": tokens, "completion_tokens": 0, "total_tokens": tokens}
        return JSONResponse(
            {
                "id": f"canned-{self.calls}",
                "object": "chat.completion",
                "created": 0,
                "model": body["model"],
                "choices": [{"index": 0, "message": _wire(answer), "finish_reason": "stop"}],
                "usage": usage,
            }
        )

    def _message(self, body: Mapping[str, Any]) -> Calls | str:
        """What the model says: tool calls, or a text. Raises NoAnswerLeft."""
        if body.get("tools"):
            if self._given == len(self.messages):
                raise NoAnswerLeft("no answer is left")
            self._given += 1
            return self.messages[self._given - 1]
        if "response_format" not in body:
            return self.words
        if body["response_format"]["json_schema"]["name"] == "triage":
            return json.dumps({"reasoning": "As planned.", "classification": self.classification})
        return json.dumps(_LEARNED)


class NoAnswerLeft(Exception):
    """The model was asked more often than was planned."""


@asynccontextmanager
async def served(app: Starlette) -> AsyncIterator[str]:
    """Serve it on a free loopback port while the block lasts; yields the root URL."""
    server = _QuietServer(uvicorn.Config(app, log_config=None, access_log=False))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        # asyncio does so only where the socket names its protocol; else each answer waits 40 ms for a delayed ACK
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            await serving


class _QuietServer(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals to the command."""
        yield


def _wire(answer: Calls | str) -> dict[str, Any]:
    if isinstance(answer, str):
        return {"role": "assistant", "content": answer}
    calls = [
        {"id": f"call_{n}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        for n, (name, arguments) in enumerate(answer)
    ]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def _prompt(body: Mapping[str, Any]) -> str:
    calls = [call["function"] for message in body["messages"] for call in message.get("tool_calls") or ()]
    schemas = [part for part in (calls, body.get("tools"), body.get("response_format")) if part]
    return "\n".join([*(message.get("content") or "" for message in body["messages"]), *map(json.dumps, schemas)])
