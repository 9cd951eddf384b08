"""A conversation with an assistant that runs elsewhere, over its `/run` and `/resume`: its answers, calls to confirm
and questions, without the streaming that the own one has."""

import re
import sys
from getpass import getpass
from pathlib import Path
from typing import Any, Final

import httpx
from pydantic import ValidationError

from email_assistant.cli.context import CommandError, out, print_json, print_text, tell
from email_assistant.cli.talk import line_typed
from email_assistant.gate.call import argument_lines
from email_assistant.settings.values import is_loopback
from email_assistant.web.replies import Clarification, Confirmation, PendingCall, PendingQuestion, Reply

_TOKEN: Final = re.compile(r"[\x21-\x7e]+")
_SECONDS: Final = 600.0  # that a request may take: models are slow, and tools wait for others
_DONE, _FAILED, _WAITS = 0, 1, 3
_STATUS: Final = {200: _DONE, 202: _WAITS}


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
        status, reply = await self._post("/run", {"user_request": words} | self._account)
        asked: set[str] = set()
        while self._asks and (given := _answers(reply, asked)):
            status, reply = await self._post("/resume", given)
        if self._asks and reply.pending_action:
            out.print(f"It waits for you: in the inbox there, or here with --thread {self._thread}", style="dim")
        return _STATUS.get(status, _FAILED)

    async def _post(self, path: str, given: dict[str, Any]) -> tuple[int, Reply]:
        """Raises CommandError: no answer of such a server."""
        try:
            answer = await self._http.post(path, json={"thread_id": self._thread} | given)
        except httpx.HTTPError as error:
            raise CommandError(
                f"{self._http.base_url.host} can't be reached: {error or type(error).__name__}"
            ) from None
        if answer.status_code == httpx.codes.UNAUTHORIZED:
            raise CommandError(f"{self._http.base_url.host} takes another token")
        try:
            reply = Reply.model_validate_json(answer.content)
        except ValidationError:
            raise CommandError(
                f"{self._http.base_url.host} answers {answer.status_code}, and not as an assistant does"
            ) from None
        if self._as_json:
            print_json(reply.model_dump())
        else:
            _print(reply, asks=self._asks)
        return answer.status_code, reply


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
    print_text(f"\n{call.tool_name}", style="bold")
    for line in argument_lines(call.arguments):
        print_text(f"  {line}")


def _answers(reply: Reply, asked: set[str]) -> dict[str, Any] | None:
    """What the person answers now, as `/resume` takes it; None: nothing waits, or they put all of it off.

    Args:
        asked: the ids of calls and questions that they were asked about before, and put off; those of now are added.
    """
    match reply.pending_action:
        case Confirmation(tool_calls=calls):
            given = [answer for call in calls if call.call_id not in asked and (answer := _confirmed(call))]
            asked.update(call.call_id for call in calls)
            return {"approvals": given} if given else None
        case Clarification(clarifications=questions):
            given = [answer for each in questions if each.call_id not in asked and (answer := _said(each))]
            asked.update(each.call_id for each in questions)
            return {"clarification_responses": given} if given else None
    return None


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
