"""What the program talks to: a sandbox in Google's place, on a line that takes its time, and a model that answers at
once or takes its time as models do."""

import asyncio
import base64
import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.message import EmailMessage
from email.utils import format_datetime, make_msgid
from itertools import count, islice
from pathlib import Path
from random import Random
from typing import Any, Literal
from urllib.parse import urlsplit

import httpx
from starlette.requests import Request
from starlette.responses import JSONResponse

from email_assistant.programs import stand_in
from tests.benchmark.canned_model import Calls, CannedModel

PERSON = "ada@bench.example"
Way = Literal["ignored", "accepted"]
"""What becomes of a mail: nothing, or the reply that is proposed is sent as it is."""

_SUBJECTS: Mapping[Way, str] = {"ignored": "News", "accepted": "Lunch"}
_TEXT = "\n".join(
    f"{number}. The plan for week {number * 7} is on the table: who comes, what it costs, when we should meet again."
    for number in range(1, 11)
)
"""About a thousand characters, as a mail has that somebody wrote."""
_REPLY = "Friday suits me. See you at noon."
_SENDER = re.compile(r"bob\d+@bench\.example")
_REQUEST = re.compile(rb"(GET|POST|PUT|PATCH|DELETE) ([^ ?]*)")
_ID = re.compile(r"(messages|threads|drafts)/(?!send$)[^/]+")


class PacedModel(CannedModel):
    """Sorts mail by its subject, proposes the same reply to all that is to be answered, looks once into the calendar in
    a chat; each answer comes after `seconds`, give or take `jitter` of it."""

    def __init__(self) -> None:
        super().__init__("", (), lambda _: 0)
        self.seconds, self.jitter = 0.0, 0.0
        self.waits: list[float] = []
        """How long each answer took, as they were asked for."""
        self.asked: list[Mapping[str, Any]] = []
        """The requests' bodies."""
        self._random = Random(20260521)

    async def _complete(self, request: Request) -> JSONResponse:
        self.asked.append(await request.json())
        if self.seconds:
            self.waits.append(self.seconds * self._random.uniform(1 - self.jitter, 1 + self.jitter))
            await asyncio.sleep(self.waits[-1])
        return await super()._complete(request)

    def _message(self, body: Mapping[str, Any]) -> Calls | str:
        offered = {tool["function"]["name"] for tool in body.get("tools") or ()}
        last = body["messages"][-1]
        if "request_clarification" in offered:
            return "Nothing is planned." if last["role"] == "tool" else [("list_events", _DAY)]
        if offered:
            sender = _SENDER.search(str(body["messages"]))
            assert sender is not None
            arguments = {"response_text": _REPLY, "email_address": sender[0]}
            return [("send_email_tool", arguments), ("Done", {"done": True})]
        form = body["response_format"]["json_schema"]["name"]
        if form.lower().endswith("triage"):  # ours, and the bare graph's
            found = "ignore" if f"Subject: {_SUBJECTS['ignored']}" in last["content"] else "respond"
            return json.dumps({"reasoning": "As planned.", "classification": found})
        if form == "policy":
            return json.dumps({"allowed_tool_types": ["calendar"]})
        return super()._message(body)


_DAY = {"start": "2026-01-16", "end": "2026-01-17"}


@dataclass
class Relay:
    """The way to a server: every request takes `seconds` more on it, and is counted."""

    target: str
    seconds: float = 0.0
    calls: Counter[str] = field(default_factory=Counter)
    """By method and path, without ids."""

    @asynccontextmanager
    async def open(self) -> AsyncIterator[str]:
        """Yields the root of the server at this end."""
        server = await asyncio.start_server(self._connect, "127.0.0.1", 0)
        async with server:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"

    @property
    def polls(self) -> int:
        return sum(count for call, count in self.calls.items() if call.endswith("/history"))

    async def _connect(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        place = urlsplit(self.target)
        server, to_server = await asyncio.open_connection(place.hostname, place.port)
        waiting: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        try:
            async with asyncio.TaskGroup() as ways:
                ways.create_task(self._take(client, waiting))
                ways.create_task(self._give(waiting, to_server))
                ways.create_task(self._back(server, to_client))
        except* (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            for writer in (to_server, to_client):
                writer.close()

    async def _take(self, client: asyncio.StreamReader, waiting: "asyncio.Queue[tuple[float, bytes]]") -> None:
        while data := await client.read(1 << 16):
            if found := _REQUEST.match(data):
                path = _ID.sub(r"\1/*", found[2].decode())
                self.calls[f"{found[1].decode()} {path}"] += 1
            waiting.put_nowait((asyncio.get_running_loop().time() + self.seconds, data))
        waiting.put_nowait((0.0, b""))

    async def _give(self, waiting: "asyncio.Queue[tuple[float, bytes]]", to: asyncio.StreamWriter) -> None:
        while True:
            due, data = await waiting.get()
            if not data:
                to.close()
                return
            await asyncio.sleep(max(0.0, due - asyncio.get_running_loop().time()))
            to.write(data)
            await to.drain()

    async def _back(self, server: asyncio.StreamReader, to: asyncio.StreamWriter) -> None:
        while data := await server.read(1 << 16):
            to.write(data)
            await to.drain()
        to.close()


@dataclass(frozen=True)
class Outside:
    """A mailbox at a sandbox, and a model."""

    root: str
    """Google's, at the end of the line."""
    token: dict[str, Any]
    line: Relay
    model: PacedModel
    model_url: str
    _http: httpx.AsyncClient  # straight to the sandbox, which counts nowhere
    _numbers: "count[int]" = field(default_factory=count, init=False)

    async def deliver(self, way: Way, mails: int) -> list[str]:
        """So many mails arrive, each of another person; returns their ids at Gmail."""
        return [await self._import(_letter(_SUBJECTS[way], number)) for number in islice(self._numbers, mails)]

    async def sent(self) -> int:
        """How many mails have left."""
        answer = await self._http.get("/gmail/v1/users/me/messages", params={"labelIds": "SENT", "maxResults": "500"})
        return len(answer.raise_for_status().json().get("messages", ()))

    async def _import(self, letter: bytes) -> str:
        raw = base64.urlsafe_b64encode(letter).decode()
        body = {"raw": raw, "labelIds": ["INBOX", "UNREAD"]}
        answer = await self._http.post("/gmail/v1/users/me/messages/import", json=body)
        return str(answer.raise_for_status().json()["id"])


@asynccontextmanager
async def outside(folder: Path) -> AsyncIterator[Outside]:
    """Open it all, with a mailbox of its own. Raises StandInFailed."""
    mbox = folder / "mail.mbox"
    mbox.write_bytes(b"From before@bench.example Thu Jan  1 00:00:00 1970\n" + _letter("Before", 0) + b"\n")
    arguments = ["--data", str(folder / "mailbox.sqlite3"), "--mbox", str(mbox), "--address", PERSON]
    model = PacedModel()
    async with stand_in("google_sandbox", *arguments) as google, model.serve() as model_url:
        line = Relay(google["root"])
        async with line.open() as root, httpx.AsyncClient(base_url=google["root"], timeout=60) as http:
            login = {key: google["token"][key] for key in ("client_id", "client_secret", "refresh_token")}
            answer = await http.post("/token", data={**login, "grant_type": "refresh_token"})
            http.headers["Authorization"] = f"Bearer {answer.raise_for_status().json()['access_token']}"
            yield Outside(root, google["token"], line, model, model_url, http)


def _letter(subject: str, number: int) -> bytes:
    message = EmailMessage()
    message["From"], message["To"] = f"bob{number}@bench.example", PERSON
    message["Subject"] = f"{subject} {number}"
    message["Date"] = format_datetime(datetime.now(UTC))
    message["Message-ID"] = make_msgid(domain="bench.example")
    message.set_content(f"Hello Ada,\n\n{_TEXT}\n\nDoes Friday at noon suit you?\n\nBob\n")
    return message.as_bytes()
