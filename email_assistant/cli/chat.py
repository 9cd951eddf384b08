"""The commands that talk to the assistant: ask, and answer what a chat waits for."""

import json
import logging
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID, uuid4

import typer
from typer.core import TyperGroup

from email_assistant.cli.context import (
    NO_MODEL,
    AsJson,
    CommandError,
    OfAccount,
    complain,
    opened,
    out,
    print_json,
    print_table,
    run,
    when,
)

if TYPE_CHECKING:
    from email_assistant.app import App
    from email_assistant.inbox.items import Item
    from email_assistant.web.replies import Reply
    from email_assistant.work.chat import Chat, Talk

WAITS = 3  # exit status of a command that leaves something to be answered
_MISUSED = 2
_MOST = 100


class _AskByDefault(TyperGroup):
    """Takes what names no command as a request."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        is_command = bool(args) and (args[0] in self.commands or args[0] in ctx.help_option_names)
        return super().parse_args(ctx, args if is_command else ["ask", *args])


app = typer.Typer(
    cls=_AskByDefault,
    help="Talk to the assistant: ask about your mail and calendar, or have things done.\n\n"
    "`email-assistant chat` begins a conversation, `email-assistant chat TEXT` asks one thing; "
    "both are `chat ask`, whose --help shows the options.",
)


@app.command()
def ask(
    text: Annotated[str | None, typer.Argument(help="What you want; left out: a conversation.")] = None,
    thread: Annotated[str | None, typer.Option(help="Go on with this chat.")] = None,
    list_: Annotated[bool, typer.Option("--list", help="List your chats.")] = False,
    account: OfAccount = None,
    as_json: AsJson = False,
    server: Annotated[str | None, typer.Option(metavar="URL", help="Talk to the assistant that runs there.")] = None,
    token_file: Annotated[
        Path | None, typer.Option(help="Of --server: a file with its token; left out, you are asked for it.")
    ] = None,
) -> None:
    """Ask for something; you confirm in place what changes anything.

    Where there is no terminal nothing is asked: what waits is printed, and `chat answer` answers it. Ends with status 0
    if it is done, 3 if it waits for you, 1 if it went wrong."""
    if list_:
        run(lambda: _list(as_json=as_json))
        return
    is_terminal = sys.stdin.isatty() and sys.stdout.isatty() and not as_json
    if text is None and not is_terminal:
        raise typer.BadParameter("say what you want; a conversation needs a terminal", param_hint="TEXT")
    if text is not None:
        text = _checked(text)
    if server is not None:
        from email_assistant.cli.remote_chat import server_at, talk_to, token_for

        async def there() -> int:
            found = server_at(server)
            given = (found, token_for(found, token_file), text, thread or str(uuid4()), account)
            return await talk_to(*given, as_json=as_json, asks=is_terminal)

        raise typer.Exit(run(there))
    raise typer.Exit(run(lambda: _ask(text, thread or str(uuid4()), account, is_terminal, as_json=as_json)))


@app.command()
def answer(
    thread: Annotated[str, typer.Argument(metavar="THREAD", help="The chat.")],
    approve: Annotated[list[str] | None, typer.Option(metavar="CALL", help="Do this as proposed.")] = None,
    reject: Annotated[list[str] | None, typer.Option(metavar="CALL", help="Don't, because of --feedback.")] = None,
    feedback: Annotated[str | None, typer.Option(help="What should be different.")] = None,
    reply: Annotated[tuple[str, str] | None, typer.Option(metavar="CALL TEXT", help="Answer a question.")] = None,
    edit: Annotated[
        tuple[str, str] | None, typer.Option(metavar="CALL ARGS", help="Do it with these arguments, a JSON object.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Answer what a chat waits for, as a script does.

    What you approve is done at once. What you do not name still waits."""
    stray = feedback is not None and not reject
    if why := _misused(calls=bool(approve or reject), reply=bool(reply), edit=bool(edit), stray_feedback=stray):
        complain(why)
        raise typer.Exit(_MISUSED)
    given: dict[str, Any] = {"thread_id": thread}
    if approve or reject:
        given["approvals"] = [
            *({"call_id": call, "approved": True} for call in approve or ()),
            *({"call_id": call, "approved": False, "feedback": feedback} for call in reject or ()),
        ]
    if reply:
        given["clarification_responses"] = [{"call_id": reply[0], "response": reply[1]}]
    raise typer.Exit(run(lambda: _answer(given, edit, as_json=as_json)))


def _checked(text: str) -> str:
    """The request without the blanks around it. Ends the command if it can't be asked for."""
    from email_assistant.web.chat import refused_words

    words = text.strip()
    if why := refused_words(words):
        complain(why)
        raise typer.Exit(_MISUSED)
    return words


def _misused(*, calls: bool, reply: bool, edit: bool, stray_feedback: bool) -> str | None:
    """Why these options don't go together; None: they do."""
    if stray_feedback:
        return "--feedback says why with --reject; what is approved is done as proposed"
    if calls and reply:
        return "--reply goes alone; give --approve and --reject in another command"
    return None if calls or reply or edit else "give --approve, --reject, --reply or --edit"


async def _list(*, as_json: bool) -> None:
    from email_assistant.web.replies import stand_of
    from email_assistant.work.chat import Turns, stand

    async with opened() as app:
        turns = Turns(app.pool)
        chats = await turns.chats(app.user_id, _MOST)
        found = [
            (t.chat, stand_of(t), t.waiting) for t in await stand(turns, app.inbox, app.ledger, app.user_id, chats)
        ]
    if as_json:
        print_json(
            [
                {
                    "thread_id": c.chat_id,
                    "account": c.account,
                    "request": c.request,
                    "at": c.at,
                    "status": status,
                    "waits": bool(waiting),
                }
                for c, status, waiting in found
            ]
        )
    elif not found:
        out.print("You have not asked for anything yet.")
    else:
        from email_assistant.mail.charset import one_line

        rows = [
            [
                c.chat_id,
                when(c.at) if c.at else "",
                "for you" if waiting else "at work" if status == "working" else "",
                one_line(c.request or "")[:80],
            ]
            for c, status, waiting in found
        ]
        print_table(["thread", "at", "waits", "asked"], rows)


async def _ask(text: str | None, thread: str, account: str | None, is_terminal: bool, *, as_json: bool) -> int:
    from email_assistant.cli import talk
    from email_assistant.web.chat import account_of, outcome

    async with _opened(keep=text is None) as (app, chat):
        await _check_model(app)
        chosen = await account_of(app, account)
        if is_terminal:
            return await talk.ChatSession(app, chat, thread, chosen.id).hold(text)
        asked = talk.ask(app, chat, chosen, thread, text or "")
        if as_json:
            return _print_reply(*await outcome(thread, asked))
        return await talk.print_talk(app, await asked)


async def _answer(given: dict[str, Any], edit: tuple[str, str] | None, *, as_json: bool) -> int:
    from email_assistant.cli.talk import print_talk
    from email_assistant.web.chat import outcome

    async with _opened() as (app, chat):
        await _check_model(app)
        answered = _answered(app, chat, given, edit)
        if as_json:
            return _print_reply(*await outcome(given["thread_id"], answered))
        return await print_talk(app, await answered)


async def _answered(app: "App", chat: "Chat", given: dict[str, Any], edit: tuple[str, str] | None) -> "Talk":
    from email_assistant.inbox.items import NoItem
    from email_assistant.web.chat import ResumeRequest, answers_of, given_in

    try:
        talk = await chat.look(app.user_id, given["thread_id"])
    except NoItem:
        raise NoItem("there is no such chat; `email-assistant chat --list` shows them") from None
    items = await app.inbox.of_thread(app.user_id, talk.chat.id)
    _check_kinds(items, given)
    answers = [_edit(items, *edit)] if edit else []
    if len(given) > 1 or not edit:
        answers += answers_of(given_in(ResumeRequest.model_validate(given)), items, talk.waiting)
    return await chat.answer(talk.chat, app.user_id, answers)


def _check_kinds(items: Sequence["Item"], given: Mapping[str, Any]) -> None:
    """Raises Invalid: a question is approved, or a proposal replied to."""
    from email_assistant.inbox.items import Invalid
    from email_assistant.tools.control import CLARIFICATION
    from email_assistant.web.replies import answered_as

    questions = {answered_as(item): item.action == CLARIFICATION for item in items}
    for call_id in (each["call_id"] for each in given.get("approvals", ())):
        if questions.get(call_id) is True:
            raise Invalid(f"{call_id} is answered with --reply")
    for call_id in (each["call_id"] for each in given.get("clarification_responses", ())):
        if questions.get(call_id) is False:
            raise Invalid(f"{call_id} is answered with --approve or --reject")


def _edit(items: Sequence["Item"], call_id: str, args: str) -> tuple[UUID, dict[str, Any]]:
    try:
        parsed = json.loads(args)
    except ValueError as error:
        raise CommandError(f"--edit takes the arguments as a JSON object: {error}") from None
    for item in reversed(items):
        if item.call_id == call_id:
            return item.id, {"type": "edit", "args": parsed}
    raise CommandError(f"no call of this chat has the id {call_id}")


def _print_reply(status: int, reply: "Reply") -> int:
    print_json(reply.model_dump())
    return {200: 0, 202: WAITS}.get(status, 1)


@asynccontextmanager
async def _opened(*, keep: bool = False) -> AsyncIterator[tuple["App", "Chat"]]:
    from email_assistant.app import open_chat

    # No log lines: errors are printed.
    logging.getLogger("email_assistant").addHandler(logging.NullHandler())
    async with opened(keep=keep) as app:
        chat = open_chat(app)
        try:
            yield app, chat
        finally:
            await chat.aclose()


async def _check_model(app: "App") -> None:
    if app.settings.is_demo and (absence := await app.presence.absence()):
        raise CommandError(f"{absence}, which runs its mailbox and its model")
    if app.settings.openai_api_key is None and app.settings.openai_base_url is None:
        raise CommandError(f"no model {NO_MODEL}; the demo's assistant is talked to with `email-assistant --demo chat`")
