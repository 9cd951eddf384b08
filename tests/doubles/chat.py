"""A person who chats with the assistant over HTTP: `/run`, `/resume`, and what the program shows of the thread."""

import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import httpx

from tests.doubles.daemon import Daemon, Item

Json = dict[str, Any]

FIELDS = {"status", "response", "thread_id", "pending_action", "url", "message"}
_STATUSES = {
    200: {"success"},
    202: {"confirmation_required", "clarification_required", "oauth_required"},
}
_USED = {
    "success": {"response"},
    "confirmation_required": {"pending_action"},
    "clarification_required": {"pending_action"},
    "oauth_required": {"response", "url", "message"},
    "error": {"message"},
}
"""Which fields carry something in each status; the others are null."""
_MAY = {"confirmation_required": {"message"}, "success": {"message"}}
"""What may be there besides: why a call is asked about again; what follows what was done, and why it waits."""


@dataclass(frozen=True)
class Reply:
    """An answer of `/run` or `/resume`."""

    code: int
    body: Json

    @property
    def status(self) -> str:
        return str(self.body["status"])

    @property
    def response(self) -> str:
        """What the assistant says at the end of the turn."""
        assert (self.code, self.status) == (200, "success"), self
        return str(self.body["response"])

    @property
    def confirmations(self) -> list[Json]:
        """The calls that wait for approval."""
        assert (self.code, self.status) == (202, "confirmation_required"), self
        return list(self.body["pending_action"]["tool_calls"])

    @property
    def clarifications(self) -> list[Json]:
        """The questions that wait for an answer."""
        assert (self.code, self.status) == (202, "clarification_required"), self
        return list(self.body["pending_action"]["clarifications"])

    @property
    def call_id(self) -> str:
        """The id of the one call or question that waits."""
        [only] = self.confirmations if self.status == "confirmation_required" else self.clarifications
        return str(only["call_id"])

    @property
    def refusal(self) -> tuple[int, str]:
        return self.code, self.status


def approved(*call_ids: str) -> list[Json]:
    return [{"call_id": call_id, "approved": True} for call_id in call_ids]


def rejected(call_id: str, feedback: str) -> Json:
    return {"call_id": call_id, "approved": False, "feedback": feedback}


@dataclass(frozen=True)
class Talk:
    """One thread of a chat."""

    daemon: Daemon
    thread_id: str

    @classmethod
    def on(cls, daemon: Daemon) -> "Talk":
        """A thread that nobody has used."""
        return cls(daemon, f"thread {uuid4()}")

    # What the person does

    def run(self, request: str) -> Reply:
        return self.post("/run", user_request=request)

    def approve(self, *call_ids: str) -> Reply:
        return self.resume(approvals=approved(*call_ids))

    def reject(self, call_id: str, feedback: str) -> Reply:
        return self.resume(approvals=[rejected(call_id, feedback)])

    def clarify(self, call_id: str, response: str) -> Reply:
        return self.resume(clarification_responses=[{"call_id": call_id, "response": response}])

    def resume(self, **body: Any) -> Reply:
        return self.post("/resume", **body)

    def post(self, path: str, **body: Any) -> Reply:
        """Send it, and check the shape of what comes back."""
        return checked(self.daemon.http.post(path, json={"thread_id": self.thread_id, **body}), self.thread_id)

    def stream(self, path: str, **body: Any) -> list[tuple[str, Json]]:
        """The events of the same request as a stream: their names and data."""
        accept = {"accept": "text/event-stream"}
        given = {"thread_id": self.thread_id, **body}
        answer = self.daemon.http.post(path, json=given, headers=accept)
        assert answer.status_code == 200, answer.text
        assert answer.headers["content-type"].startswith("text/event-stream")
        return _events(answer.text)

    def run_when_free(self, request: str) -> Reply:
        """Run it as soon as nothing of an earlier turn is under way."""
        return self._run_until(request, lambda reply: reply.code != 409, "the thread is free")

    def run_once_back(self, request: str) -> Reply:
        """Run it as soon as what was down is found to be back."""
        return self._run_until(request, lambda reply: reply.code not in (409, 502), "what was down is back")

    def _run_until(self, request: str, is_enough: Callable[[Reply], bool], what: str) -> Reply:
        replies: list[Reply] = []

        def is_answered() -> bool:
            replies.append(self.run(request))
            return is_enough(replies[-1])

        self.daemon.wait_for(is_answered, what, timeout=60)
        return replies[-1]

    # What the program shows

    def shown(self) -> Json:
        answer = self.daemon.http.get(f"/api/chat/{quote(self.thread_id, safe='')}")
        assert answer.status_code == 200, answer.text
        found: Json = answer.json()
        return found

    def item(self, call_id: str) -> Item:
        """The inbox item of a call, once it is there."""
        return self.daemon.wait_for(
            lambda: next((item for item in self.daemon.items() if item["call_id"] == call_id), {}),
            "the call stands in the inbox",
        )


def checked(answer: httpx.Response, thread_id: str) -> Reply:
    """The reply, if its body is as promised; FastAPI's own of a malformed request is left as it is."""
    body = answer.json()
    if answer.status_code == 422:
        assert body["detail"], body
        return Reply(422, {"status": "error", **body})
    check_body(answer.status_code, body, thread_id)
    return Reply(answer.status_code, body)


def check_body(code: int, body: Mapping[str, Any], thread_id: str) -> None:
    assert set(body) == FIELDS, (code, body)
    assert body["status"] in _STATUSES.get(code, {"error"}), (code, body)
    carrying = {name for name in FIELDS - {"status", "thread_id"} if body[name] is not None}
    assert carrying - _MAY.get(body["status"], set()) == _USED[body["status"]], body
    assert body["thread_id"] == thread_id or code == 401, body


def at_once(*doings: Any) -> list[Any]:
    """Do all this at the same time; the results in order."""
    with ThreadPoolExecutor(len(doings)) as pool:
        futures: Sequence[Future[Any]] = [pool.submit(doing) for doing in doings]
        return [future.result() for future in futures]


def _events(text: str) -> list[tuple[str, Json]]:
    found = []
    for block in text.replace("\r\n", "\n").strip().split("\n\n"):
        lines = [line.split(": ", 1) for line in block.splitlines() if not line.startswith(":")]
        fields = dict(lines)
        if "data" in fields:
            found.append((fields["event"], json.loads(fields["data"])))
    return found
