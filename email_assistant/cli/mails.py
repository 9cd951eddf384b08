"""The commands `mails`, `why` and `retry`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from email_assistant.cli import reading
from email_assistant.cli.context import (
    AsJson,
    CommandError,
    OfAccount,
    awaited,
    here,
    one_of,
    opened_for,
    print_json,
    print_table,
    print_text,
    say,
    when,
)
from email_assistant.errors import AssistantError

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from email_assistant.app import App
    from email_assistant.inbox.originals import Original


class NotKept(AssistantError):
    """The file could not be saved; the message says why."""


async def keep(mail: "Original", number: int, folder: Path) -> Path:
    """Save a file of a mail in a folder, under its own name without characters that could do harm, and never over
    another file. Returns where it is. Raises NoSuchFile, TooLarge, NoOriginal, NotKept."""
    file = mail.file(number)
    path = folder / file.safe_name
    content = await mail.content(file)
    try:
        with path.open("xb") as kept:
            kept.write(content)
    except FileExistsError:
        raise NotKept(f"{path} is there already; choose another folder") from None
    except OSError as error:
        raise NotKept(f"{path} can't be written: {error.strerror}") from None
    return path


MailId = Annotated[str, typer.Argument(metavar="MAIL", help="Gmail's id of a mail, as `mails` shows it.")]

app = typer.Typer(help="Show all mail and what became of it, newest first.")


@app.callback(invoke_without_command=True)
@awaited
async def mails(
    context: typer.Context,
    state: Annotated[str | None, typer.Option(help="new, triaging, waiting, acting, done or failed.")] = None,
    account: OfAccount = None,
    cursor: Annotated[str | None, typer.Option(help="Go on from where the last page ended.")] = None,
    as_json: AsJson = False,
) -> None:
    from email_assistant.inbox.mails import STAGES, STATES

    if context.invoked_subcommand is not None:
        return
    chosen = None if state is None else one_of(STATES, state, "--state takes")
    async with opened_for(account) as app:
        rows, following = await app.mails.page(app.user_id, state=chosen, account=account, cursor=cursor)
        zones = await _zones(app)
    if as_json:
        print_json({"items": rows, "next": following})
        return
    columns = ["mail", "received", "from", "subject", "state", "class", "by", "reason"]
    print_table(
        columns,
        [
            [
                m.id,
                when(m.received_at, zones.get(m.account)),
                m.sender,
                m.subject or "(no subject)",
                m.state,
                m.classification or "",
                STAGES.get(m.stage or "", ""),
                here(m.reason or ""),
            ]
            for m in rows
        ],
    )
    if following:
        say(f"More: the same with --cursor {following}")


async def _zones(app: "App") -> dict[str, "ZoneInfo"]:
    """The timezone of each mailbox."""
    return {account.address: account.zone for account in await app.accounts.of_user(app.user_id)}


@awaited
async def why(
    mail: Annotated[
        str,
        typer.Argument(
            metavar="MAIL",
            help="Gmail's id of a mail, or that of an item or run: the first characters are enough; or its Message-ID.",
        ),
    ],
    account: OfAccount = None,
    as_json: AsJson = False,
) -> None:
    """Tell the whole story of one mail: who sorted it and why, what was proposed, decided, done, learned and spent."""
    from email_assistant.inbox.items import NoItem
    from email_assistant.trail.story import Trail

    async with opened_for(account) as app:
        story = Trail(app.pool, app.memory)
        try:
            mail_id, address = await story.find(app.user_id, mail, account)
        except NoItem as error:
            raise CommandError(f"{error}; `email-assistant mails` shows those that there are") from None
        events = await story.of_mail(app.user_id, mail_id, address)
        facts = await story.facts(app.user_id, mail_id, address)
        zone = (await _zones(app)).get(address)
    if as_json:
        print_json({"mail": mail_id, "account": address, "events": events, "facts": facts})
        return
    for event in events:
        print_text(event.line(zone))
    for fact in facts:
        print_text(fact)


@app.command()
@awaited
async def files(
    mail: MailId,
    save: Annotated[int | None, typer.Option(help="Save the file of this number.")] = None,
    to: Annotated[Path, typer.Option(help="The folder to save it in; that you are in, if left out.")] = Path(),
    account: OfAccount = None,
    as_json: AsJson = False,
) -> None:
    """Show what a mail holds besides its text, an invitation and files, or save a file."""
    from email_assistant.inbox.originals import original

    async with opened_for(account) as app:
        of = await app.accounts.find(app.user_id, (await app.mails.get(app.user_id, mail, account)).account)
        found = await original(app.clients, of.id, mail)
        kept = None if save is None else await keep(found, save, to)
    invitation, listed = found.contents.invitation, found.contents.files
    if kept:
        print_text(f"Saved as {kept}.")
    elif as_json:
        rows = [{"number": f.number, "name": f.name, "type": f.mime_type, "bytes": f.size} for f in listed]
        print_json({"invitation": invitation, "when": invitation and invitation.when(of.zone), "files": rows})
    else:
        if invitation:
            print_text(invitation.in_words(of.zone))
        print_table(
            ["file", "name", "kind", "size"],
            [[str(f.number), f.safe_name, f.kind, f.told_size] for f in listed],
        )


@app.command()
@awaited
async def correct(
    mail: MailId,
    classification: Annotated[str, typer.Argument(metavar="CLASS", help="ignore, notify or respond.")],
    account: OfAccount = None,
) -> None:
    """Say what a mail should have been; the assistant learns from it."""
    from email_assistant.inbox.mails import CLASSES

    chosen = one_of(CLASSES, classification, "a mail is")
    async with opened_for(account) as app:
        await app.corrections.correct(app.user_id, mail, chosen, "cli", account)
    say(
        f"Mail {mail} is now {chosen}. A rule on its sender is learned from that, or waits for your word if it would "
        "undo another decision of yours; `email-assistant memory lessons` shows which."
    )


app.command("read")(reading.read)


@awaited
async def retry(mail: MailId, account: OfAccount = None) -> None:
    """Take a failed mail up again."""
    from email_assistant.inbox.items import NoItem

    async with opened_for(account) as app:
        try:
            await app.corrections.retry(app.user_id, mail, account)
        except NoItem as error:
            raise CommandError(f"{error}; `email-assistant mails --state failed` shows what can be tried") from None
    say(f"Trying mail {mail} again.")
