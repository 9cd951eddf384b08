"""`email-assistant inbox …`"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from html import unescape
from typing import TYPE_CHECKING, Annotated, Any

import typer

from email_assistant.cli.context import AsJson, CommandError, OfAccount, opened, out, print_json, print_table, run

if TYPE_CHECKING:
    from email_assistant.inbox.items import Item

app = typer.Typer(help="What waits for you, and your answers to it.", no_args_is_help=True)

ItemId = Annotated[str, typer.Argument(metavar="ITEM", help="The item's id, or its first characters.")]


@app.command("list")
def list_(
    status: Annotated[str, typer.Option(help="pending, decided, applied, superseded, expired, or all.")] = "pending",
    account: OfAccount = None,
    cursor: Annotated[str | None, typer.Option(help="Go on from where the last page ended.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show what waits, longest first."""

    async def command() -> None:
        from email_assistant.inbox.items import STATUSES

        chosen = next((s for s in STATUSES if s == status), None)
        if chosen is None and status != "all":
            raise CommandError(f"--status takes {', '.join(STATUSES)} or all, not {status!r}")
        async with opened() as app:
            items, following = await app.inbox.page(app.user_id, status=chosen, account=account, cursor=cursor)
        if as_json:
            print_json({"items": [as_dict(item) for item in items], "next": following})
        elif not items:
            out.print("Nothing waits for you." if status == "pending" else "Nothing.")
        else:
            _print_items(items)
            if following:
                out.print(f"More: email-assistant inbox list --status {status} --cursor {following}", soft_wrap=True)

    run(command)


@app.command()
def show(item: ItemId, as_json: AsJson = False) -> None:
    """Show one item: the mail, and what the assistant proposes."""

    async def command() -> None:
        async with opened() as app:
            found = await app.inbox.find(app.user_id, item)
        if as_json:
            print_json(as_dict(found))
            return
        out.print(unescape(found.description), markup=False, highlight=False, soft_wrap=True)
        out.print(f"\n{found.status}; takes {', '.join(found.allowed)}", markup=False, highlight=False)

    run(command)


@app.command()
def accept(item: ItemId) -> None:
    """Let the assistant do it as proposed."""
    run(lambda: _decide(item, {"type": "accept"}))


@app.command()
def edit(
    item: ItemId,
    values: Annotated[
        list[str] | None, typer.Argument(metavar="FIELD=VALUE...", help="New values; the other fields stay.")
    ] = None,
    args: Annotated[str | None, typer.Option("--args", help="All arguments, as a JSON object.")] = None,
) -> None:
    """Change the proposal, then let the assistant do it.

    Example: email-assistant inbox edit 3f2a "response_text=Tuesday is fine."
    """
    run(lambda: _edit(item, values or [], args))


@app.command()
def respond(item: ItemId, text: Annotated[str, typer.Argument(help="Your answer, in your own words.")]) -> None:
    """Answer a question, or say what should be different."""
    run(lambda: _decide(item, {"type": "response", "args": text}))


@app.command()
def ignore(item: ItemId) -> None:
    """Do nothing about this mail."""
    run(lambda: _decide(item, {"type": "ignore"}))


@app.command()
def undo(item: ItemId) -> None:
    """Take an answer back while its countdown runs."""

    async def command() -> None:
        async with opened() as app:
            found = await app.inbox.find(app.user_id, item)
            await app.inbox.undo(app.user_id, found.id)
        out.print("Taken back; it waits for you again.")

    run(command)


async def _edit(prefix: str, values: list[str], args: str | None) -> None:
    async with opened() as app:
        found = await app.inbox.find(app.user_id, prefix)
    changed: dict[str, Any] = dict(found.args)
    if args is not None:
        try:
            changed = dict(json.loads(args))
        except (ValueError, TypeError):
            raise CommandError("--args takes a JSON object") from None
    for value in values:
        field, separator, text = value.partition("=")
        if not separator:
            raise CommandError(f"write FIELD=VALUE, not {value!r}; the fields are {', '.join(found.args)}")
        changed[field.strip()] = text
    await _decide(prefix, {"type": "edit", "args": changed})


async def _decide(prefix: str, answer: Mapping[str, Any]) -> None:
    async with opened() as app:
        found = await app.inbox.find(app.user_id, prefix)
        decided = await app.inbox.decide(app.user_id, found.id, answer, by="cli")
    seconds = (decided.undo_until - datetime.now(UTC)).total_seconds() if decided.undo_until else 0
    taken = f"Taken: {answer['type']}."
    if seconds > 0:
        taken += f" `email-assistant inbox undo {str(decided.id)[:8]}` takes it back within {seconds:.0f} s."
    out.print(taken, highlight=False, soft_wrap=True)


def as_dict(item: "Item") -> dict[str, Any]:
    """The item as the API gives it."""
    return {
        "id": str(item.id),
        "run": str(item.run_id),
        "call_id": item.call_id,
        "account": item.account,
        "mail_id": item.mail_id,
        "sender": item.sender,
        "subject": item.subject,
        "kind": item.kind,
        "action": item.action,
        "args": item.args,
        "allowed": item.allowed,
        "description": item.description,
        "new_recipients": item.new_recipients,
        "status": item.status,
        "decision": item.decision,
        "decided_by": item.decided_by,
        "decided_at": item.decided_at,
        "undo_until": item.undo_until,
        "superseded_by": item.superseded_by,
        "created_at": item.created_at,
    }


def _print_items(items: list["Item"]) -> None:
    rows = [
        [str(i.id)[:8], i.kind, i.sender or "", i.subject or "(no subject)", _age(i.created_at), i.status]
        for i in items
    ]
    print_table(["item", "kind", "from", "subject", "waits", "status"], rows)


def _age(since: datetime) -> str:
    minutes = int((datetime.now(UTC) - since).total_seconds() // 60)
    if minutes < 60:
        return f"{minutes} min"
    return f"{minutes // 60} h" if minutes < 48 * 60 else f"{minutes // 1440} d"
