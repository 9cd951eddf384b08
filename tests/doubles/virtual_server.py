"""StableToolBench's virtual server, offline: it answers what its cache holds, and what it doesn't hold is a 500.

As there, a cache's key is the text of the arguments as they came, so that their order and types tell.
"""

import asyncio
import json
import threading
from collections import Counter
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from tests.doubles.serving import Dropped, Server, Unanswered

Fault = Literal["500", "429", "404", "redirect", "no json", "a list", "error", "dropped", "unanswered"]


class Asked(BaseModel):
    """The body of a request, as the real server takes it."""

    model_config = ConfigDict(frozen=True)

    category: str
    tool_name: str
    api_name: str
    tool_input: str | dict[str, Any]
    strip: str
    toolbench_key: str

    @property
    def named(self) -> tuple[str, str, str]:
        return self.category, self.tool_name, self.api_name

    @property
    def key(self) -> str:
        return str(self.tool_input)


class VirtualServerDouble:
    """`meets`: it answers none before so many are asked at one time."""

    def __init__(self, *, answers_all: bool = True, meets: int = 1) -> None:
        self.asked: list[Asked] = []
        """Every request, in order."""
        self.refused: list[str] = []
        """Bodies that the real server would not have taken."""
        self.cache: dict[tuple[str, str, str], dict[str, Any]] = {}
        """By category, tool and API, then by the key of the arguments: the response."""
        self.faults: dict[tuple[str, str, str], Fault] = {}
        self._answers_all = answers_all
        self._lock = threading.Lock()
        self._meeting = asyncio.Barrier(meets)
        self._server = Server(Starlette(routes=[Route("/virtual", self._endpoint, methods=["POST"])]))
        self.url = f"{self._server.urls[0]}/virtual"

    def __enter__(self) -> "VirtualServerDouble":
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop()

    @property
    def counted(self) -> Counter[tuple[str, str, str]]:
        return Counter(each.named for each in self.asked)

    async def _endpoint(self, request: Request) -> Response:
        body = await request.body()
        try:
            asked = Asked.model_validate_json(body)
        except ValidationError as error:
            self.refused.append(body.decode())
            return JSONResponse({"detail": error.errors()}, 422)
        with self._lock:
            self.asked.append(asked)
        async with asyncio.timeout(30):
            await self._meeting.wait()
        return self._faulty(asked) or self._answered(asked)

    def _answered(self, asked: Asked) -> Response:
        known: Mapping[str, Any] = self.cache.get(asked.named, {})
        if asked.key in known:
            return JSONResponse({"error": "", "response": known[asked.key]})
        if not self._answers_all:
            return PlainTextResponse("Internal Server Error", 500)
        return JSONResponse({"error": "", "response": f"{asked.api_name} of {asked.tool_name}: {asked.key}"})

    def _faulty(self, asked: Asked) -> Response | None:
        match self.faults.get(asked.named):
            case None:
                return None
            case ("500" | "429" | "404") as status:
                return PlainTextResponse("no", int(status))
            case "redirect":
                return RedirectResponse("/elsewhere")
            case "no json":
                return PlainTextResponse("<html>", 200)
            case "a list":
                return Response(json.dumps([1]), media_type="application/json")
            case "error":
                return JSONResponse({"error": "Rate limit per minute exceeded", "response": ""})
            case "dropped":
                return Dropped()
            case "unanswered":
                return Unanswered()
