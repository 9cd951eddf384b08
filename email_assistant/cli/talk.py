"""A conversation with the assistant in the terminal: what it says and does as it comes, and its questions in place."""

import json
import os
import shlex
import signal
import subprocess
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

from rich.text import Text

from email_assistant.accounts.account import Account
from email_assistant.app import App
from email_assistant.cli.context import complain, here, invocation, out, print_text, tell
from email_assistant.gate.call import argument_lines
from email_assistant.inbox.describe import remarks
from email_assistant.inbox.items import Conflict, Invalid, Item, NoItem
from email_assistant.inbox.sentences import did_in_words, done_in_words, link_host, sentence
from email_assistant.web.chat import refused_words, seen
from email_assistant.web.replies import answered_as, reply_of
from email_assistant.web.wording import what_follows
from email_assistant.work.by_chat import ABOUT
from email_assistant.work.chat import Chat, Talk
from email_assistant.work.invoke import Watch
from email_assistant.work.rows import RunRow

_DONE, _FAILED, _WAITS = 0, 1, 3
_LATER = "l"

Answer = dict[str, Any]


class ChatSession:
    """`account_id`: what the chat is about, if it is new."""

    def __init__(self, app: App, chat: Chat, thread: str, account_id: UUID) -> None:
        self._app = app
        self._chat = chat
        self._thread = thread
        self._account_id = account_id
        self._spoken = ""  # what was printed of the answer as it came
        self._proposed: list[str] = []
        """Calls of the last message: told once they ran, as the person may have to be asked first."""

    async def hold(self, text: str | None) -> int:
        """Ask for `text`, or for one thing after the other until the person leaves. Returns the exit status."""
        if text is not None:
            return await self._turn(text)
        out.print(f"Ctrl-D ends this; `--thread {self._thread}` goes on with it.\n", style="dim")
        if before := await _look(self._app, self._chat, self._thread):
            await self._settled(before)
        while (words := line_typed("> ")) is not None:
            if too_long := words and refused_words(words):
                complain(too_long)
            elif words:
                try:
                    await self._turn(words)
                except (Conflict, Invalid) as refused:
                    complain(str(refused))
        return _DONE

    async def _turn(self, words: str) -> int:
        account = await self._app.accounts.get(self._account_id)
        talk = await self._told(lambda watch: ask(self._app, self._chat, account, self._thread, words, watch))
        return _status(await self._settled(talk))

    async def _settled(self, talk: Talk) -> Talk:
        """Ask for what waits, until it is answered or put off."""
        later: set[UUID] = set()
        while item := next((each for each in talk.waiting if each.id not in later), None):
            answer = await self._asked(item)
            if answer is None:
                later.add(item.id)
                continue
            talk = await self._answered(talk, item, answer)
        if later:
            out.print(f"It waits for you: in the inbox, or here with --thread {self._thread}", style="dim")
        return talk

    async def _answered(self, talk: Talk, item: Item, answer: Answer) -> Talk:
        given = [(item.id, answer)]
        try:
            return await self._told(lambda watch: self._chat.answer(talk.chat, self._app.user_id, given, watch))
        except (Conflict, Invalid) as refused:
            complain(f"not taken: {refused}")
            talk = await self._chat.look(self._app.user_id, self._thread)
            _print_stand(talk)
            return talk

    async def _told(self, work: Callable[[Watch], Awaitable[Talk]]) -> Talk:
        """Do it, and say what it comes to."""
        self._spoken = ""
        self._proposed.clear()
        try:
            talk = await work(self._watch)
        finally:
            if self._spoken:
                out.print()
        _print_stand(talk, self._spoken)
        return talk

    def _watch(self, mode: str, chunk: Any) -> None:
        from email_assistant.mail.charset import plain

        for name, data in seen(mode, chunk):
            if name == "token":
                self._spoken += data["text"]
                out.print(Text(plain(data["text"])), end="", soft_wrap=True)
            elif name == "call":
                if self._spoken:
                    out.print()
                self._spoken = ""
                self._proposed.append(did_in_words(data["tool_name"], data["arguments"]))
            elif name == "progress":
                print_text(f"  {data['text']}", style="dim")
            elif name == "step" and data["node"] == "use_tools":
                for line in self._proposed:
                    print_text(f"· {line}", style="dim")
                self._proposed.clear()

    async def _asked(self, item: Item) -> Answer | None:
        """The person's answer; None: not now."""
        match item.kind:
            case "question":
                print_text(f"\n{item.args.get('question', '')}", style="bold")
                print_text(item.args.get("context") or "")
                words = line_typed("Your answer (empty: later): ")
                return {"type": "response", "args": words} if words else None
            case "link":
                _print_link(item.args)
                return _chosen(item, line_typed("Opened it, and go on? [y/n, l: later] "))
            case "in_doubt":
                account = await self._app.accounts.get(item.account_id)
                print_text(f"\n{sentence(item, account.zone)}", style="bold")
                print_call(item, item.args)
                return _chosen(item, line_typed("Do it again? [y/n, l: later] "))
            case _:
                return self._confirmed(item, item.args)

    def _confirmed(self, item: Item, args: Mapping[str, Any]) -> Answer | None:
        """Ask about a call as it would be made, until there is an answer that can be one."""
        while True:
            out.print()
            print_call(item, args)
            can = "y/n/e" if "accept" in item.allowed else "n"
            match line_typed(f"Do this? [{can}; n: say what should be different, e: edit, l: later] "):
                case "y" if args == item.args:
                    return {"type": "accept", "args": None}
                case "y":
                    return {"type": "edit", "args": dict(args)}
                case "n":
                    words = line_typed("What should be different? (empty: just don't) ")
                    return {"type": "response", "args": words} if words else {"type": "ignore", "args": None}
                case "e":
                    args = _edited(args)
                case None | "l":
                    return None


async def ask(app: App, chat: Chat, account: Account, thread: str, words: str, watch: Watch | None = None) -> Talk:
    """Ask for something, and say what is set aside for it."""
    before = await _look(app, chat, thread)
    aside = list(before.waiting) if before else []

    def watched(mode: str, chunk: Any) -> None:
        _print_aside(aside, account)
        if watch:
            watch(mode, chunk)

    talk = await chat.ask(account, thread, words, watched if watch else None)
    _print_aside(aside, account)
    if before and before.turn and before.turn.is_at_work:
        await _print_meanwhile(chat, before.turn, talk)
    return talk


async def _print_meanwhile(chat: Chat, before: RunRow, talk: Talk) -> None:
    """What became of the request before, which went on by itself until this one was made."""
    if talk.turn and talk.turn.attempt > before.attempt:
        earlier = await chat.turns.newest(talk.chat.id, talk.turn.attempt - before.attempt + 1)
        said = next((turn.answer for turn in earlier if turn.id == before.id), None)
        shown = said or "It was set aside; what was done stays done, and nothing more of it was."
        tell(f"What you asked for before: {shown}", "dim")


async def _look(app: App, chat: Chat, thread: str) -> Talk | None:
    """Where a chat stands; None: there is none yet. Raises UnknownAccount: its mailbox is another server's."""
    try:
        talk = await chat.look(app.user_id, thread)
    except NoItem:
        return None
    app.accounts.here(await app.accounts.get(talk.chat.account_id))
    return talk


def _print_aside(items: list[Item], account: Account) -> None:
    """Said once, and only when the request is taken: one that is refused leaves all as it was."""
    if items:
        line = f"Set aside: {'; '.join(sentence(item, account.zone) for item in items)}"
        items.clear()
        tell(line, "dim")


async def print_talk(app: App, talk: Talk) -> int:
    """Say where a chat stands, and how to answer what waits; returns the exit status."""
    _print_stand(talk)
    for item in talk.waiting:
        if item.kind == "link":
            _print_link(item.args)
            how = invocation(f"inbox accept {str(item.id)[:8]}")
        elif item.kind == "question":
            print_text(f"{item.args.get('question', '')}\n{item.args.get('context') or ''}".strip())
            how = invocation(f"chat answer {talk.chat.chat_id} --reply {item.call_id} TEXT")
        else:
            print_call(item, item.args)
            how = invocation(f"chat answer {talk.chat.chat_id} --approve {answered_as(item)}")
        print_text(f"Waits for you: {how}\n", style="dim")
    return _status(talk)


def _print_stand(talk: Talk, spoken: str = "") -> None:
    """What became of the request, but for what waits. `spoken`: what was printed of the answer."""
    from email_assistant.mail.charset import readable

    turn = talk.turn
    if turn and talk.done:
        print_text(done_in_words(talk.done))
        print_text(f"{here(what_follows(turn, talk.done))}.", style="dim")
    elif turn and turn.state == "failed":
        complain(what_follows(turn, ()))
    elif turn and turn.is_open:
        if not talk.waiting:
            print_text(f"It is still being worked on{f' ({here(turn.why)})' if turn.why else ''}.")
    elif turn and turn.answer and turn.answer.strip() != readable(spoken).strip():
        print_text(turn.answer)


def print_call(item: Item, args: Mapping[str, Any]) -> None:
    """A call exactly as it would be made."""
    print_text(item.action, style="bold")
    if item.asked_because:
        print_text(f"  You are asked again: {item.asked_because}", style="yellow")
    for line in argument_lines({name: value for name, value in args.items() if name != "from_address"}):
        print_text(f"  {line}")
    if item.sent_from:
        print_text(f"  From: {item.sent_from}")
    for warning in item.warnings:
        print_text(f"  ! {warning}", style="yellow")
    for remark, warns in remarks(item):
        print_text(f"  {'! ' * warns}{remark}", style="yellow" if warns else "dim")
    if about := item.mail_text.partition(ABOUT)[2]:
        print_text("It is about:", style="dim")
        for line in about.splitlines():
            print_text(f"  {line}", style="dim")
    if item.shadow:
        print_text("  Shadow mode: this is what would have been done; nothing is sent.", style="yellow")


def _print_link(args: Mapping[str, Any]) -> None:
    print_text(f"\n{args.get('message', '')}", style="bold")
    host = link_host(args.get("url"))
    print_text(f"Open this yourself; it leads to {host}:" if host else "This is no link to be opened:")
    print_text(f"  {args.get('url', '')}")


def _chosen(item: Item, key: str | None) -> Answer | None:
    if key == "y" and "accept" in item.allowed:
        return {"type": "accept", "args": None}
    return {"type": "ignore", "args": None} if key == "n" else None


def _edited(args: Mapping[str, Any]) -> Mapping[str, Any]:
    """The arguments as the person leaves them in their editor; as they were, if that is no JSON object."""
    with tempfile.TemporaryDirectory(prefix="email-assistant-") as folder:
        path = Path(folder) / "arguments.json"
        path.write_text(json.dumps(args, ensure_ascii=False, indent=2), "utf-8", "surrogatepass")
        editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
        try:
            subprocess.run([*shlex.split(editor), str(path)], check=True)  # noqa: S603 - the person's own
        except (OSError, ValueError, subprocess.CalledProcessError):
            complain(f"the editor {editor} failed, so nothing was changed; EDITOR names another")
            return args
        text = path.read_text("utf-8", "replace")
    try:
        edited = json.loads(text)
    except ValueError as error:
        complain(f"this is not JSON, so nothing was changed: {error}")
        return args
    if not isinstance(edited, dict):
        complain("the arguments are a JSON object; nothing was changed")
        return args
    return edited


def _status(talk: Talk) -> int:
    """The exit status, by what `/run` answers: what is not done and does not wait went wrong so far."""
    status, _ = reply_of(talk)
    return {200: _DONE, 202: _WAITS}.get(status, _FAILED)


def line_typed(prompt: str) -> str | None:
    """A line that the person writes; None: they are done. Nothing else goes on meanwhile, and nothing needs to."""
    import readline  # noqa: F401 - gives `input` its history and keys

    with _interruptible():
        try:
            return input(prompt).strip()
        except (EOFError, KeyboardInterrupt):
            out.print()
            return None


@contextmanager
def _interruptible() -> Iterator[None]:
    """Ctrl-C as in any program: the event loop's own handler would only note it, and the prompt would stay."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
