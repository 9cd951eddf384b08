"""`email-assistant inbox …`"""

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from email_assistant.cli import answering
from email_assistant.cli.context import (
    AsJson,
    CommandError,
    OfAccount,
    an_id,
    awaited,
    complain,
    here,
    one_of,
    opened,
    out,
    print_json,
    print_table,
    print_text,
    run,
    say,
    when,
)
from email_assistant.plugins import features

if TYPE_CHECKING:
    from email_assistant.inbox.items import Item

app = typer.Typer()

ItemId = Annotated[str, typer.Argument(metavar="ITEM", help="The item's id, or its first characters.", callback=an_id)]


@app.callback(invoke_without_command=True)
@awaited
async def inbox(context: typer.Context) -> None:
    """What waits for you, and your answers to it. Without a command: as a full-screen view; ? shows its keys."""
    if context.invoked_subcommand is not None:
        return
    show = next((each.full_screen for each in features() if each.full_screen), None)
    if show is None or not answering.has_terminal():
        lacks = "needs a terminal" if show else "is not installed"
        complain(f"the full-screen inbox {lacks}; here, use `email-assistant inbox list`")
        raise typer.Exit(2)
    async with opened(keep=True) as app:
        await show(app)


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
    snoozed: Annotated[bool, typer.Option("--snoozed", help="What was put off, too.")] = False,
    cursor: Annotated[str | None, typer.Option(help="Go on from where the last page ended.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show what waits, longest first."""
    from email_assistant.inbox.describe import list_banner
    from email_assistant.inbox.listing import KINDS, SORTS, STATUSES
    from email_assistant.trail.activity import Activity

    async with answering.opened_inbox(account) as app:
        items, following = await app.inbox.page(
            app.user_id,
            status=None if status == "all" else one_of(STATUSES, status, "--status takes", "all"),
            account=account,
            kind=None if kind is None else one_of(KINDS, kind, "--kind takes"),
            q=search,
            older_than=_age_of(older_than, "--older-than"),
            newer_than=_age_of(newer_than, "--newer-than"),
            sort=one_of(SORTS, sort, "--sort takes"),
            snoozed=snoozed,
            cursor=cursor,
        )
        accounts = [] if items else await app.accounts.of_user(app.user_id)
        failed = await app.mails.failed(app.user_id) if status == "pending" else 0
        today = await Activity(app.pool).today(app.user_id, accounts, app.settings.currency)
    if as_json:
        from email_assistant.web.schemas import ItemPage

        print_json(ItemPage.model_validate({"items": items, "next": following}).model_dump())
        return
    for each in list_banner(items if status == "pending" else (), failed):
        say(each)
    if failed:
        say(here("`email-assistant mails --state failed` tells why."))
    if not items:
        done = f" Today: {today}." if today else ""
        is_narrowed = status != "pending" or account or kind or search or older_than or newer_than or cursor
        nothing = "Nothing found." if is_narrowed else f"Nothing {'else ' if failed else ''}waits for you.{done}"
        out.print(nothing, soft_wrap=True)
    else:
        _print_items(items)
        if following:
            out.print(f"More: the same with --cursor {following}", soft_wrap=True)


@app.command()
@awaited
async def show(item: ItemId, as_json: AsJson = False) -> None:
    """Show one item: the mail, and what the assistant proposes."""
    from email_assistant.cli.card import whole_of

    async with answering.opened_inbox() as app:
        found = await app.inbox.find(app.user_id, item)
        whole = whole_of(app, found)
    if as_json:
        from email_assistant.web.schemas import ItemOut

        print_json(ItemOut.model_validate(found).model_dump())
        return
    print_text(whole)
    if words := answering.typed_in(found):
        print_text(f"\nWhat you had typed:\n{words}")
    commands = ["respond" if each == "response" else each for each in found.allowed]
    takes = f"; takes {', '.join(commands)}" if found.status == "pending" else ""
    say(f"\n{_stands(found)}{takes}")
    out.print(f"For scripts: {answering.as_shown(found)}", style="dim", soft_wrap=True)
    if found.in_gmail and found.in_gmail.args:
        id_ = str(found.id)[:8]
        say(f"`email-assistant inbox accept {id_}` sends the one here, with --from-gmail the one in Gmail.")
    if found.chat:
        out.print("You asked for it in a chat: ", found.chat, markup=False, sep="", soft_wrap=True)
    if found.shadow:
        out.print("Shadow mode: this is what would have been done; nothing is sent.")


@app.command()
def accept(
    items: Annotated[
        list[str] | None,
        typer.Argument(metavar="ITEM...", help="Ids, or their first characters; ID@HASH as `show` prints it."),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All that waits and may be approved together.")] = False,
    from_gmail: Annotated[
        bool, typer.Option("--from-gmail", help="A reply as you changed its draft in Gmail, instead of as it is here.")
    ] = False,
) -> None:
    """Send, book or do it as proposed; a notice is done with.

    Several are shown whole first, and approved by one answer; what is marked, asks something or is a notice is left
    out, and approved by itself only. Scripts name each as ID@HASH, and are not asked: what is no longer as it was shown
    is refused."""
    named = items or []
    if bool(named) == everything:
        raise typer.BadParameter("name items, or --all")
    if from_gmail and len(named) != 1:
        raise typer.BadParameter("--from-gmail takes one item")
    if from_gmail:
        run(lambda: answering.accept_from_gmail(named[0]))
    elif len(named) == 1:
        run(lambda: answering.accept_alone(named[0]))
    else:
        run(lambda: answering.accept_together(named))


@app.command()
def edit(
    item: ItemId,
    values: Annotated[
        list[str] | None, typer.Argument(metavar="FIELD=VALUE...", help="New values; the other fields stay.")
    ] = None,
    args: Annotated[str | None, typer.Option("--args", help="All arguments, as a JSON object.")] = None,
) -> None:
    """Change the proposal, and send, book or do it as changed.

    Example: email-assistant inbox edit 3f2a "response_text=Tuesday is fine."

    `inbox show ITEM --json` shows the fields, under `args`."""
    run(lambda: answering.give_edited(item, values or [], args))


@app.command()
def respond(item: ItemId, text: Annotated[str, typer.Argument(help="Your answer, in your own words.")]) -> None:
    """Answer a question, or say what should be different: of a letter, "shorter", "friendlier" or "decline" will do,
    and "try again" where nothing was proposed."""
    from email_assistant.inbox.answers import spelled_out

    run(lambda: answering.decide(item, {"type": "response", "args": spelled_out(text)}))


@app.command()
@awaited
async def done(
    items: Annotated[list[str], typer.Argument(metavar="ITEM...", help="Ids, or their first characters.")],
) -> None:
    """Dismiss: put them away, with nothing done about them. Nothing is learned from that."""
    async with answering.opened_inbox() as app:
        found = [await app.inbox.find(app.user_id, each) for each in items]
        for item in found:
            put_away = await answering.take(app, item, {"type": "done"})
            out.print(f"{str(item.id)[:8]}: put away.{answering.way_back(put_away)}", soft_wrap=True)
        kept = await answering.why_kept(app, found)
    if kept:
        say(kept)


@app.command()
def ignore(item: ItemId) -> None:
    """Not such mail: nothing is done about it, and it is learned that such mail needs no answer, or no notice.

    `inbox done` puts it away and teaches nothing; `mails correct MAIL ignore` says so of all mail from its sender."""
    run(lambda: answering.decide(item, {"type": "ignore"}))


@app.command()
@awaited
async def undo(item: ItemId) -> None:
    """Take an answer back while its countdown runs, or bring back an item that was put off."""
    from email_assistant.inbox.items import Conflict
    from email_assistant.inbox.standing import is_asleep

    async with answering.opened_inbox() as app:
        found = await app.inbox.find(app.user_id, item)
        try:
            if found.status == "pending" and is_asleep(found.snoozed_until):
                waits = await app.inbox.snooze(app.user_id, found.id, None)
            else:
                waits = await app.inbox.undo(app.user_id, found.id)
        except Conflict as error:
            raise CommandError(f"it can't be taken back: {error}") from None
    out.print("Taken back; it waits for you again.")
    if command := answering.again(waits):
        print_text(f"What you had typed is kept; to go on from it: {command}")


@app.command()
@awaited
async def snooze(
    item: ItemId,
    time: Annotated[
        str | None,
        typer.Argument(
            metavar="[FOR]",
            help="30m, 12h, 3d, 2w, tomorrow, hour (one), later (four hours) or monday; left out: bring it back now.",
        ),
    ] = None,
) -> None:
    """Later: leave an item out of the list for a while; it comes back by itself."""
    from email_assistant.inbox.standing import SNOOZES, wakes_at

    length = None if time in SNOOZES else _age_of(time, "FOR", f", or {', '.join(SNOOZES)}")
    async with answering.opened_inbox() as app:
        found = await app.inbox.find(app.user_id, item)
        until = datetime.now(UTC) + length if length is not None else wakes_at(time, found.zone) if time else None
        snoozed = await app.inbox.snooze(app.user_id, found.id, until)
    way_back = f"; before, by `email-assistant inbox undo {str(found.id)[:8]}`"
    out.print(f"Back at {when(until, found.zone)}{way_back}." if until else "It waits for you.")
    for note in snoozed.notes:
        say(f"{note}.")


def _age_of(given: str | None, option: str, more: str = "") -> timedelta | None:
    from email_assistant.inbox.listing import read_age

    try:
        return read_age(given) if given is not None else None
    except ValueError as error:
        raise CommandError(f"{option}: {error}{more}") from None


def _print_items(items: list["Item"]) -> None:
    from email_assistant.web.wording import about, waits, who

    rows = [
        [str(i.id)[:8], "!" if i.marks else "", i.kind, who(i), _about(i, about(i)), waits(i.created_at), _stands(i)]
        for i in items
    ]
    print_table(["item", "", "kind", "from", "subject", "waits", "status"], rows)


def _about(item: "Item", subject: str) -> str:
    """With what the item is marked for."""
    return f"{subject}\n! {item.at_a_glance}" if item.marks else subject


def _stands(item: "Item") -> str:
    """Its status, and what there is to say about that."""
    from email_assistant.web.wording import SHOWN

    named = SHOWN[item.status]
    match item.status:
        case "pending" if item.state == "waits for you":
            return named
        case "applied":
            return item.state
        case "superseded" | "expired":
            return f"{named} ({item.ended_because})" if item.ended_because else named
        case _:
            return f"{named}: {item.state}"
