"""`email-assistant inbox …`"""

import json
import shlex
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, TextIO
from uuid import UUID

import typer

from email_assistant.cli.context import (
    AsJson,
    CommandError,
    OfAccount,
    awaited,
    complain,
    invocation,
    one_of,
    opened,
    out,
    print_json,
    print_table,
    print_text,
    run,
    say,
    tell,
    when,
)

if TYPE_CHECKING:
    from email_assistant.app import App
    from email_assistant.inbox.items import Item

app = typer.Typer()

ItemId = Annotated[str, typer.Argument(metavar="ITEM", help="The item's id, or its first characters.")]


@app.callback(invoke_without_command=True)
@awaited
async def inbox(context: typer.Context) -> None:
    """What waits for you, and your answers to it. Without a command: as a full-screen view; ? shows its keys."""
    if context.invoked_subcommand is not None:
        return
    if not (_is_terminal(sys.stdin) and _is_terminal(sys.stdout)):
        complain("the full-screen inbox needs a terminal; here, use `email-assistant inbox list`")
        raise typer.Exit(2)
    from email_assistant.cli.screen.show import show_inbox

    async with opened(keep=True) as app:
        await show_inbox(app)


@app.command("list")
@awaited
async def list_(
    status: Annotated[str, typer.Option(help="pending, decided, applied, superseded, expired, or all.")] = "pending",
    account: OfAccount = None,
    kind: Annotated[
        str | None, typer.Option(help="draft, meeting, confirmation, notification, question, link or in_doubt.")
    ] = None,
    search: Annotated[
        str | None, typer.Option(help='Words, parts of addresses, "several words"; all must stand in it.')
    ] = None,
    older_than: Annotated[str | None, typer.Option(help="Waiting longer than 30m, 12h, 3d or 2w.")] = None,
    newer_than: Annotated[str | None, typer.Option(help="Waiting no longer than that.")] = None,
    sort: Annotated[str, typer.Option(help="age (longest waiting first), newest, or urgency (by kind).")] = "age",
    snoozed: Annotated[bool, typer.Option("--snoozed", help="Snoozed items too.")] = False,
    cursor: Annotated[str | None, typer.Option(help="Go on from where the last page ended.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show what waits, longest first."""
    from email_assistant.inbox.listing import KINDS, SORTS, STATUSES, read_age
    from email_assistant.web.schemas import ItemPage

    async with _opened() as app:
        if account is not None:
            await app.accounts.find(app.user_id, account)
        items, following = await app.inbox.page(
            app.user_id,
            status=None if status == "all" else one_of(STATUSES, status, "--status takes", "all"),
            account=account,
            kind=None if kind is None else one_of(KINDS, kind, "--kind takes"),
            q=search,
            older_than=_age_of(read_age, older_than, "--older-than"),
            newer_than=_age_of(read_age, newer_than, "--newer-than"),
            sort=one_of(SORTS, sort, "--sort takes"),
            snoozed=snoozed,
            cursor=cursor,
        )
    if as_json:
        print_json(ItemPage.of(items, following).model_dump())
    elif not items:
        out.print("Nothing waits for you." if status == "pending" else "Nothing.")
    else:
        _print_items(items)
        if following:
            out.print(f"More: the same with --cursor {following}", soft_wrap=True, highlight=False)


@app.command()
@awaited
async def show(item: ItemId, as_json: AsJson = False) -> None:
    """Show one item: the mail, and what the assistant proposes."""
    from email_assistant.web.schemas import ItemOut

    async with _opened() as app:
        found = await app.inbox.find(app.user_id, item)
        whole = _whole(app, found)
    if as_json:
        print_json(ItemOut.model_validate(found).model_dump())
        return
    print_text(whole)
    say(f"\n{_stands(found)}; takes {', '.join(found.allowed)}")
    out.print(f"For scripts: {_as_shown(found)}", style="dim", highlight=False, soft_wrap=True)
    if found.chat:
        out.print("You asked for it in a chat: ", found.chat, markup=False, highlight=False, sep="", soft_wrap=True)
    if found.shadow:
        out.print("Shadow mode: this is what would have been done; nothing is sent.", highlight=False)


@app.command()
def accept(
    items: Annotated[
        list[str] | None,
        typer.Argument(metavar="ITEM...", help="Ids, or their first characters; ID@HASH as `show` prints it."),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All that waits and may be accepted together.")] = False,
) -> None:
    """Let the assistant do it as proposed.

    Several are shown whole first, and accepted by one answer; what is marked, asks something or is a notice is left
    out, and accepted by itself only. Scripts name each as ID@HASH, and are not asked: what is no longer as it was shown
    is refused.
    """
    named = items or []
    if bool(named) == everything:
        raise typer.BadParameter("name items, or --all")
    if len(named) == 1 and "@" not in named[0]:
        run(lambda: _accept_alone(named[0]))
    else:
        run(lambda: _accept_together(named))


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

    `inbox show ITEM --json` shows the fields, under `args`.
    """
    run(lambda: _edit(item, values or [], args))


@app.command()
def respond(item: ItemId, text: Annotated[str, typer.Argument(help="Your answer, in your own words.")]) -> None:
    """Answer a question, or say what should be different."""
    run(lambda: _decide(item, {"type": "response", "args": text}))


@app.command()
@awaited
async def done(
    items: Annotated[list[str], typer.Argument(metavar="ITEM...", help="Ids, or their first characters.")],
) -> None:
    """Put notices away. Nothing is learned from that."""
    async with _opened() as app:
        found = [await app.inbox.find(app.user_id, each) for each in items]
        if other := next((item for item in found if item.kind != "notification"), None):
            raise CommandError(f"{str(other.id)[:8]} is no notice; `inbox show` says what it takes")
        for item in found:
            put_away = await _take(app, item, {"type": "accept"})
            out.print(f"{str(item.id)[:8]}: put away.{_way_back(put_away)}", highlight=False, soft_wrap=True)
        kept = await _why_kept(app, found)
    if kept:
        say(kept)


@app.command()
def ignore(item: ItemId) -> None:
    """Do nothing about this mail; of a notice: such mail needs none. Something may be learned from that."""
    run(lambda: _decide(item, {"type": "ignore"}))


@app.command()
@awaited
async def undo(item: ItemId) -> None:
    """Take an answer back while its countdown runs."""
    from email_assistant.inbox.items import Conflict

    async with _opened() as app:
        found = await app.inbox.find(app.user_id, item)
        try:
            waits = await app.inbox.undo(app.user_id, found.id)
        except Conflict as error:
            raise CommandError(f"it can't be taken back: {error}") from None
    out.print("Taken back; it waits for you again.")
    if again := _again(waits):
        print_text(f"What you had typed is kept; to go on from it: {again}")


def _again(item: "Item") -> str:
    """The command that gives the answer that was taken back once more; empty if nothing was typed in it."""
    id_ = str(item.id)[:8]
    match item.taken_back:
        case {"type": "response", "args": str(text)}:
            return invocation(f"inbox respond {id_} {shlex.quote(text)}")
        case {"type": "edit", "args": dict(args)}:
            changed = {name: value for name, value in args.items() if value != item.args.get(name)}
            if all(isinstance(value, str) for value in changed.values()):
                values = [f"{name}={value}" for name, value in changed.items()]
            else:
                values = ["--args", json.dumps(args, ensure_ascii=False)]
            return invocation(f"inbox edit {id_} {shlex.join(values)}")
        case _:
            return ""


@app.command()
@awaited
async def snooze(
    item: ItemId,
    time: Annotated[
        str | None, typer.Argument(metavar="[FOR]", help="30m, 12h, 3d, 2w; left out: bring it back now.")
    ] = None,
) -> None:
    """Leave an item out of the list for a while; it comes back by itself."""
    from email_assistant.inbox.listing import read_age

    length = _age_of(read_age, time, "FOR")
    async with _opened() as app:
        found = await app.inbox.find(app.user_id, item)
        until = datetime.now(UTC) + length if length else None
        snoozed = await app.inbox.snooze(app.user_id, found.id, until)
    out.print(f"Back at {when(until, found.zone)}." if until else "It waits for you.", highlight=False)
    for note in snoozed.notes:
        say(f"{note}.")


@asynccontextmanager
async def _opened() -> AsyncIterator["App"]:
    """The app; when the command is through, what was learned since the last one is told, apart from its output."""
    from email_assistant.app import open_memory

    async with opened() as app:
        yield app
        for lesson in await open_memory(app).lessons.news(app.user_id, "cli"):
            tell(f"learned: {lesson.said} (`email-assistant memory undo {str(lesson.id)[:8]}` takes it back)")


def _is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and not stream.closed and stream.isatty()


def _age_of(read: Callable[[str], timedelta], given: str | None, option: str) -> timedelta | None:
    try:
        return read(given) if given is not None else None
    except ValueError as error:
        raise CommandError(f"{option}: {error}") from None


async def _edit(prefix: str, values: list[str], args: str | None) -> None:
    async with _opened() as app:
        found = await app.inbox.find(app.user_id, prefix)
    changed: dict[str, Any] = dict(found.args)
    if args is not None:
        changed = _object(args)
    for value in values:
        field, separator, text = value.partition("=")
        if not separator:
            raise CommandError(f"write FIELD=VALUE, not {value!r}; the fields are {', '.join(found.args)}")
        changed[field.strip()] = text
    await _decide(prefix, {"type": "edit", "args": changed})


def _object(text: str) -> dict[str, Any]:
    try:
        parsed = json.loads(text)
    except ValueError as error:
        raise CommandError(f"--args takes a JSON object with all fields of the proposal: {error}") from None
    if not isinstance(parsed, dict):
        raise CommandError("--args takes a JSON object with all fields of the proposal")
    return parsed


async def _decide(prefix: str, answer: Mapping[str, Any], shown: str | None = None) -> None:
    """
    Args:
        shown: the item's hash as the person was shown it; None: it is answered as it is now.
    """
    async with _opened() as app:
        found = await app.inbox.find(app.user_id, prefix)
        if shown not in (None, found.hash):
            raise CommandError("this is not as it was shown; look at it again")
        decided = await _take(app, found, answer)
        asked_again = await app.inbox.asked_again_because_of(decided)
        kept = await _why_kept(app, [decided])
    taken = f"Taken: {answer['type']}."
    if decided.waits_for:
        taken += f" It {decided.state}."
    taken += _way_back(decided)
    for part in asked_again:
        taken += f" Asked again, as {part.asked_because}: `email-assistant inbox show {str(part.id)[:8]}`."
    if kept:
        taken += f" {kept}"
    say(taken)


async def _take(app: "App", item: "Item", answer: Mapping[str, Any]) -> "Item":
    """Answer an item as it was just read."""
    window = app.settings.undo_window_in_terminal
    return await app.inbox.decide(app.user_id, item.id, answer, by="cli", asked=item.asked, undo_window=window)


async def _why_kept(app: "App", answered: Sequence["Item"]) -> str | None:
    """What to tell if nothing carries some of these answers out for now."""
    from email_assistant.accounts.kept import why_kept

    told = [await why_kept(app.accounts, app.presence, each) for each in {item.account_id: None for item in answered}]
    return " ".join(filter(None, dict.fromkeys(told))) or None


def _way_back(decided: "Item") -> str:
    """The command that takes an answer back, and how long it does; nothing where there is none."""
    undo = f" `email-assistant inbox undo {str(decided.id)[:8]}` takes it back"
    if decided.waits_for:
        return f"{undo} until then."
    seconds = (decided.undo_until - datetime.now(UTC)).total_seconds() if decided.undo_until else 0
    return f"{undo} within {seconds:.0f} s." if seconds > 0 else ""


async def _accept_alone(prefix: str) -> None:
    """Accept one item; who sits before the screen is shown it first."""
    shown = _read_shown(prefix)
    async with _opened() as app:
        found = await app.inbox.find(app.user_id, prefix.partition("@")[0])
        whole = _whole(app, found)
    if shown is None and _is_terminal(sys.stdin) and _is_terminal(sys.stdout):
        print_text(whole)
        if not typer.confirm("\nAccept this?"):
            raise CommandError("nothing was accepted")
        shown = found.id, found.hash
    await _decide(str(found.id), {"type": "accept"}, shown[1] if shown else None)


async def _accept_together(named: Sequence[str]) -> None:
    """Accept several items, none of them unseen.

    Args:
        named: ids, or their beginnings, each alone or as ID@HASH; none: all that waits.
    """
    async with _opened() as app:
        seen = [_read_shown(each) for each in named]
        if not named or None in seen:
            items = [await app.inbox.find(app.user_id, each.partition("@")[0]) for each in named]
            chosen = await _chosen(app, items or await _all_waiting(app))
        else:
            chosen = [each for each in seen if each]
        window = app.settings.undo_window_in_terminal
        outcomes = await app.inbox.decide_many(app.user_id, chosen, {"type": "accept"}, by="cli", undo_window=window)
        kept = await _why_kept(app, [outcome.item for outcome in outcomes if outcome.item])
    for outcome in outcomes:
        if outcome.item:
            out.print(f"{str(outcome.id)[:8]}: accepted.{_way_back(outcome.item)}", highlight=False, soft_wrap=True)
        else:
            complain(f"{str(outcome.id)[:8]}: not taken: {outcome.refused}")
    if kept:
        say(kept)
    if refused := [outcome for outcome in outcomes if outcome.refused]:
        raise CommandError(f"{len(refused)} of {len(outcomes)} were not taken")


async def _all_waiting(app: "App") -> list["Item"]:
    from email_assistant.inbox.items import MOST_AT_ONCE

    items, _ = await app.inbox.page(app.user_id, status="pending", limit=MOST_AT_ONCE)
    return items


async def _chosen(app: "App", items: Sequence["Item"]) -> list[tuple[UUID, str | None]]:
    """Those of the items that the person accepts, once they were shown whole."""
    from email_assistant.inbox.items import Conflict, Invalid

    shown: list[Item] = []
    for item in {item.id: item for item in items}.values():
        try:
            await app.inbox.check(item, {"type": "accept"})
            reason = item.alone
        except (Conflict, Invalid) as refusal:
            reason = str(refusal)
        if reason:
            print_text(f"Left out: {str(item.id)[:8]}: {reason}", style="yellow")
        else:
            shown.append(item)
    if not shown:
        raise CommandError("there is nothing here to accept together")
    for item in shown:
        print_text(f"\n{'—' * 20} {str(item.id)[:8]}\n{_whole(app, item)}")
    if not (_is_terminal(sys.stdin) and _is_terminal(sys.stdout)):
        raise CommandError("nothing was accepted: without a terminal, name each as ID@HASH, as `inbox show` prints it")
    if not typer.confirm(f"\nAccept all {len(shown)}?"):
        raise CommandError("nothing was accepted")
    return [(item.id, item.hash) for item in shown]


def _whole(app: "App", item: "Item") -> str:
    """The mail, and what the assistant proposes, in the words of the full screen."""
    from email_assistant.cli.screen.desk import Desk
    from email_assistant.cli.screen.words import PROPOSES, proposal
    from email_assistant.inbox.sentences import sentence

    proposed = proposal(item, Desk(app).form(item), sentence(item, item.zone)).rstrip("\n")
    notes = [f"{note}." for note in item.notes]
    return "\n".join([f"{'! ' * bool(item.marks)}{item.mail_text}", "", f"{PROPOSES}:", proposed, *notes])


def _as_shown(item: "Item") -> str:
    return f"{item.id}@{item.hash}"


def _read_shown(named: str) -> tuple[UUID, str | None] | None:
    """What ID@HASH names; None: it is an id alone."""
    item_id, at, shown = named.partition("@")
    if not at:
        return None
    try:
        return UUID(item_id), shown
    except ValueError:
        raise CommandError(f"{named}: ID@HASH takes the whole id, as `inbox show` prints it") from None


def _print_items(items: list["Item"]) -> None:
    from email_assistant.web.wording import about, who

    rows = [
        [str(i.id)[:8], "!" if i.marks else "", i.kind, who(i), _about(i, about(i)), _age(i.created_at), _stands(i)]
        for i in items
    ]
    print_table(["item", "", "kind", "from", "subject", "waits", "status"], rows)


def _about(item: "Item", subject: str) -> str:
    """With what the item is marked for."""
    return "\n".join([subject, *(f"! {mark.text}" for mark in item.marks)])


def _stands(item: "Item") -> str:
    """Its status, and what there is to say about that."""
    match item.status:
        case "pending" if item.state == "waits for you":
            return item.status
        case "applied":
            return item.status
        case "superseded" | "expired":
            return f"{item.status} ({item.ended_because})" if item.ended_because else item.status
        case _:
            return f"{item.status}: {item.state}"


def _age(since: datetime) -> str:
    minutes = int((datetime.now(UTC) - since).total_seconds() // 60)
    if minutes < 60:
        return f"{minutes} min"
    return f"{minutes // 60} h" if minutes < 48 * 60 else f"{minutes // 1440} d"
