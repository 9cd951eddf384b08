"""A conversation with an assistant that runs elsewhere, over its `/run` and `/resume`: its answers, calls to confirm
and questions, without the streaming that the own one has."""

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from getpass import getpass
from pathlib import Path
from typing import Any, Final, TypeVar

import httpx
from pydantic import ValidationError

from email_assistant.cli.context import CommandError, err, out, print_json, print_text, tell
from email_assistant.cli.talk import line_typed
from email_assistant.gate.call import argument_lines
from email_assistant.mail.charset import one_line, visible
from email_assistant.settings.values import is_loopback
from email_assistant.web.replies import Clarification, Confirmation, PendingCall, PendingQuestion, Reply, ReplyStatus

_TOKEN: Final = re.compile(r"[\x21-\x7e]+")
_SECONDS: Final = 600.0  # that a request may take: models are slow, and tools wait for others
_DONE, _FAILED, _WAITS = 0, 1, 3
_STATUS: Final[Mapping[ReplyStatus, int]] = {
    "success": _DONE,
    "confirmation_required": _WAITS,
    "clarification_required": _WAITS,
    "oauth_required": _WAITS,
    "error": _FAILED,
}
_MOST_BYTES: Final = 8_000_000  # of a reply
W = TypeVar("W", PendingCall, PendingQuestion)


def server_at(url: str) -> httpx.URL:
    """Raises CommandError: a token would go there in the clear, or it is no address."""
    try:
        found = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise CommandError(f"--server: {error}") from None
    if found.scheme not in ("http", "https") or not found.host:
        raise CommandError("--server takes the address of a server, such as https://assistant.example.org")
    if found.scheme == "http" and not is_loopback(found.host):
        raise CommandError(f"--server: a token would go to {found.host} in the clear; use https")
    return found


def token_for(server: httpx.URL, file: Path | None) -> str:
    """The token of that server: from a file, or typed. Never our own, which is no business of another server's."""
    if file is not None:
        try:
            token = file.read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise CommandError(f"--token-file: {error}") from None
    elif sys.stdin.isatty():
        token = getpass(f"The token of {server.host}: ").strip()
    else:
        raise CommandError("--token-file: name a file with the server's token, as nobody can type it here")
    if not _TOKEN.fullmatch(token):
        raise CommandError(f"this is no token: it stands in the link that {server.host} prints when it is started")
    return token


async def talk_to(
    server: httpx.URL, token: str, text: str | None, thread: str, account: str | None, *, as_json: bool, asks: bool
) -> int:
    """Ask for `text`, or for one thing after the other until the person leaves; returns the exit status.

    Args:
        asks: what waits is asked about here; else it is printed.
    """
    async with httpx.AsyncClient(
        base_url=server, headers={"Authorization": f"Bearer {token}"}, timeout=_SECONDS, trust_env=False
    ) as http:
        chat = _RemoteChat(http, thread, account, as_json=as_json, asks=asks)
        if text is not None:
            return await chat.turn(text)
        out.print(f"Ctrl-D ends this; `--thread {thread}` goes on with it.\n", style="dim")
        while (words := line_typed("> ")) is not None:
            if words:
                await chat.turn(words)
        return _DONE


class _RemoteChat:
    def __init__(self, http: httpx.AsyncClient, thread: str, account: str | None, *, as_json: bool, asks: bool) -> None:
        self._http = http
        self._thread = thread
        self._account = {"account": account} if account else {}
        self._as_json = as_json
        self._asks = asks

    async def turn(self, words: str) -> int:
        reply = await self._post("/run", {"user_request": words} | self._account)
        asked: set[str] = set()
        while self._asks and (given := _answers(reply, asked)):
            reply = await self._post("/resume", given)
        if self._asks and reply.pending_action:
            out.print(f"It waits for you: in the inbox there, or here with --thread {self._thread}", style="dim")
        return _STATUS[reply.status]

    async def _post(self, path: str, given: dict[str, Any]) -> Reply:
        """Raises CommandError: no answer of such a server."""
        host = self._http.base_url.host
        try:
            with err.status(f"Waiting for {host}; Ctrl-C ends this."):
                code, body = await self._answer(path, {"thread_id": self._thread} | given)
        except httpx.HTTPError as error:
            raise CommandError(f"{host} can't be reached: {error or type(error).__name__}") from None
        if code == httpx.codes.UNAUTHORIZED:
            raise CommandError(f"{host} takes another token")
        nonsense = CommandError(f"{host} answers {code}, and not as an assistant does")
        try:
            reply = Reply.model_validate_json(body)
        except ValidationError:
            raise nonsense from None
        if httpx.codes.is_error(code) and reply.status != "error":
            raise nonsense
        if self._as_json:
            print_json(reply.model_dump())
        else:
            _print(reply, asks=self._asks)
        return reply

    async def _answer(self, path: str, given: dict[str, Any]) -> tuple[int, bytes]:
        """Status and body. Raises httpx.HTTPError; CommandError: it is too long."""
        body = bytearray()
        async with self._http.stream("POST", path, json=given) as answer:
            async for piece in answer.aiter_bytes():
                body += piece
                if len(body) > _MOST_BYTES:
                    raise CommandError(f"{self._http.base_url.host} answers with more than {_MOST_BYTES:,} bytes")
        return answer.status_code, bytes(body)


def _print(reply: Reply, *, asks: bool) -> None:
    """What it says; what waits only where nobody is asked about it here."""
    for words in (reply.response, reply.url, reply.message):
        if words:
            (tell if reply.status == "error" else print_text)(words)
    match reply.pending_action:
        case Confirmation(tool_calls=calls) if not asks:
            for call in calls:
                _print_call(call)
                print_text(f"  Waits for you: {call.call_id}", style="dim")
        case Clarification(clarifications=questions) if not asks:
            for each in questions:
                print_text(f"{each.question}\n  Waits for you: {each.call_id}")


def _print_call(call: PendingCall) -> None:
    """Exactly as it would be made."""
    print_text(f"\n{visible(one_line(call.tool_name))}", style="bold")
    for line in argument_lines(call.arguments):
        print_text(f"  {line}")


def _answers(reply: Reply, asked: set[str]) -> dict[str, Any] | None:
    """What the person answers now, as `/resume` takes it; None: nothing waits, or they put all of it off.

    Args:
        asked: the ids of calls and questions that they were asked about before; those of now are added.
    """
    match reply.pending_action:
        case Confirmation(tool_calls=calls):
            given = [answer for call in _not_yet(calls, asked) if (answer := _confirmed(call))]
            return {"approvals": given} if given else None
        case Clarification(clarifications=questions):
            given = [answer for each in _not_yet(questions, asked) if (answer := _said(each))]
            return {"clarification_responses": given} if given else None
    return None


def _not_yet(waiting: Sequence[W], asked: set[str]) -> Iterator[W]:
    """Those that were not asked about; an id that comes twice is asked about once."""
    for each in waiting:
        if each.call_id not in asked:
            asked.add(each.call_id)
            yield each


def _said(question: PendingQuestion) -> dict[str, Any] | None:
    print_text(f"\n{question.question}", style="bold")
    print_text(question.context or "")
    words = line_typed("Your answer (empty: later): ")
    return {"call_id": question.call_id, "response": words} if words else None


def _confirmed(call: PendingCall) -> dict[str, Any] | None:
    _print_call(call)
    while True:
        match line_typed("Do this? [y/n; n: say what should be different, l: later] "):
            case "y":
                return {"call_id": call.call_id, "approved": True}
            case "n":
                if words := line_typed("What should be different? "):
                    return {"call_id": call.call_id, "approved": False, "feedback": words}
            case None | "l":
                return None
