"""A model that knows the answers, behind OpenAI's chat completions: it calls what a query needs, with right arguments.

It knows a function by a mark in its description, `#12`, so that whatever name it was given leads to what it stands for.
"""

import json
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tests.doubles.completion import completion, error
from tests.doubles.model import complain
from tests.doubles.serving import Server

Function = Mapping[str, Any]
MOST_TOOLS = 128
NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
ARGUMENT = re.compile(r"[A-Za-z0-9_.-]{1,64}")
VALUES = {"string": "ü b", "number": 1, "integer": 2, "boolean": True, "array": ["a"], "object": {"a": 1}}
Turn = Callable[[Sequence[Function]], list[tuple[str, str]] | str]
"""Of the functions, those that it calls, each with its arguments as they are sent; or what it says."""


def marks(text: str) -> list[str]:
    return re.findall(r"#\d+", text)


class Oracle:
    """`script`: what it does in place of calling what the query's marks name and then saying `done`, by the query and
    how many calls were answered before."""

    def __init__(self, script: Callable[[str, int], Turn | None] = lambda query, step: None) -> None:
        self.requests: list[dict[str, Any]] = []
        self.violations: list[str] = []
        self.status = 200
        """Of the next answers."""
        self._script = script
        self._lock = threading.Lock()
        self._server = Server(Starlette(routes=[Route("/v1/chat/completions", self._endpoint, methods=["POST"])]))
        self.url = f"{self._server.urls[0]}/v1"

    def __enter__(self) -> "Oracle":
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop()

    @property
    def queries(self) -> list[str]:
        """What it was asked for, once each time that it was asked first."""
        return [_query(body) for body in self.requests if len(body["messages"]) == 2]

    async def _endpoint(self, request: Request) -> Response:
        body = await request.json()
        with self._lock:
            self.requests.append(body)
        if self.status != 200:
            return error(self.status, "as the test wants it")
        functions = [tool["function"] for tool in body.get("tools", [])]
        if complaint := complain(body["messages"]) or _complaint(functions):
            self.violations.append(complaint)
            return error(400, complaint)
        answered = sum(message["role"] == "tool" for message in body["messages"])
        turn = self._script(_query(body), answered)
        said = turn(functions) if turn else _right(functions, _query(body), answered)
        return completion(body, {"content": said} if isinstance(said, str) else _calls(said), None)


def filled(function: Function) -> str:
    """Arguments that a function takes, the required ones alone, as JSON."""
    parameters = function["parameters"]
    return json.dumps({name: VALUES[parameters["properties"][name]["type"]] for name in parameters["required"]})


def _right(functions: Sequence[Function], query: str, answered: int) -> list[tuple[str, str]] | str:
    if answered:
        return "done"
    wanted = marks(query)
    chosen = {mark: each for each in functions for mark in marks(each["description"])}
    return [(chosen[mark]["name"], filled(chosen[mark])) for mark in wanted if mark in chosen] or "no tool for it"


def _calls(calls: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Their ids repeat, as those of some servers do."""
    made = [
        {"id": f"call_{n}", "type": "function", "function": {"name": name, "arguments": arguments}}
        for n, (name, arguments) in enumerate(calls)
    ]
    return {"content": None, "tool_calls": made}


def _query(body: Mapping[str, Any]) -> str:
    return next(str(message["content"]) for message in body["messages"] if message["role"] == "user")


def _complaint(functions: Sequence[Function]) -> str | None:
    """What OpenAI, or another server of its protocol, would refuse."""
    names = [each["name"] for each in functions]
    arguments = [name for each in functions for name in each["parameters"]["properties"]]
    if len(functions) > MOST_TOOLS:
        return f"{len(functions)} functions are too many"
    if wrong := [name for name in names if not NAME.fullmatch(name)] + [
        n for n in arguments if not ARGUMENT.fullmatch(n)
    ]:
        return f"no names: {wrong}"
    if len(set(names)) < len(names):
        return "names repeat"
    if any(len(each["description"]) > 1024 for each in functions):
        return "a description is too long"
    if any("type" not in field for each in functions for field in each["parameters"]["properties"].values()):
        return "an argument has no type"
    return None
