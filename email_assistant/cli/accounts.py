"""`email-assistant account …`"""

import re
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from email_assistant.cli.context import (
    AsJson,
    CommandError,
    awaited,
    here,
    load_settings,
    opened,
    out,
    print_json,
    print_table,
    run,
    say,
    tell,
    when,
)

if TYPE_CHECKING:
    from email_assistant.accounts.account import Account
    from email_assistant.app import App
    from email_assistant.settings import Settings

app = typer.Typer(help="The mailboxes that are watched.", no_args_is_help=True)

_LOGIN_FILE = "it must be the authorized-user JSON of a login: client_id, client_secret, refresh_token"

Mode = Literal["shadow", "draft", "send"]
MODES: dict[Mode, str] = {
    "shadow": "you are shown what would have been done, and nothing is sent or changed in Gmail",
    "draft": "replies are left as drafts in Gmail too, and close when you send or discard them there",
    "send": "what you accept is done",
}

_PAST_MAIL = {
    True: "it helps to draft replies: letters like them that you sent, and a search of what is stored",
    False: "not read for drafts; EMAIL_ASSISTANT_PAST_MAIL=true has them written like your own",
}

Address = Annotated[str, typer.Argument(help="The mailbox's e-mail address.")]
Since = Annotated[
    str | None, typer.Option(help="Triage mail from before now too: 7d, 12h, or a date such as 2026-05-01.")
]


@app.command()
@awaited
async def add(
    address: Address,
    token_file: Annotated[
        Path,
        typer.Option(
            help="Authorized-user JSON: client_id, client_secret, refresh_token, token_uri. For another provider "
            "(EMAIL_ASSISTANT_MAIL_PROVIDER), JSON as that takes it."
        ),
    ],
    since: Since = None,
    mode: Annotated[
        Mode | None,
        typer.Option(help="What becomes of proposals: shadow, draft or send. Without it, as `auth login` begins."),
    ] = None,
) -> None:
    """Watch a mailbox by a token that you have already; `auth login` gets one in the browser.

    It begins in shadow mode: nothing is sent or changed in Gmail until you say so. Adding it again gives it a new token
    and ends a pause; its mode stays, unless you give one."""
    from email_assistant.accounts import clients
    from email_assistant.google.account import address_of
    from email_assistant.google.auth import read_json_file, read_token_file
    from email_assistant.google.errors import Transient
    from email_assistant.inbox.standing import taken_back

    check_address(address)
    try:
        token = (read_json_file if load_settings().mail_provider else read_token_file)(token_file)
    except ValueError as error:
        raise CommandError(f"{error}; {_LOGIN_FILE}") from None
    begin = triage_begin(since)
    async with opened() as app:
        settings = app.settings
        try:
            other, seconds = app.clients.other, settings.google_timeout_seconds
            found = await (
                clients.address_of(other, token, seconds) if other else address_of(token, settings.google_root, seconds)
            )
            if found.lower() != address.lower():
                raise CommandError(f"this token is for {found}, not for {address}; add that one, or log in again")
        except ValueError:
            raise CommandError(f"{token_file}: a value in it can't be read; {_LOGIN_FILE}") from None
        except Transient as error:
            tell(f"Could not try the token now ({error}): check the network. `up` tries it again by itself.")
        account = await app.accounts.add(app.user_id, address, token, begin, mode or first_mode(settings))
        if mode and account.mode != mode and (back := await app.inbox.set_mode(app.accounts, account, mode)):
            say(taken_back(back))
        await welcome(app, account, "Added")
    say_mode(account.address, mode or account.mode)


@app.command("list")
@awaited
async def list_(as_json: AsJson = False) -> None:
    """Show the accounts, their state and their last error."""
    async with opened() as app:
        accounts = await app.accounts.of_user(app.user_id)
    items = [
        {
            "address": a.address,
            "state": a.state,
            "mode": a.mode,
            "timezone": a.timezone,
            "last_sync": a.listed_at,
            "older_mail": a.older_mail,
            "last_error": a.last_error,
            "watch_error": a.watch_error,
            "provider": a.provider,
        }
        for a in accounts
    ]
    if as_json:
        print_json({"items": items})
    elif not items:
        out.print("No account yet. `email-assistant auth login --help` says how, `email-assistant demo` needs none.")
    else:
        columns = ["address", "state", "mode", "timezone", "last_sync", "last_error"]
        columns += ["older_mail"] if any(item["older_mail"] for item in items) else []
        print_table(columns, [[_text(item[c]) for c in columns] for item in items])
        out.print(f"Your past mail: {_PAST_MAIL[app.settings.past_mail]}.")


@app.command()
def pause(address: Address) -> None:
    """Stop watching a mailbox; nothing is sent for it until it is resumed."""
    run(lambda: _set_state(address, "paused"))


@app.command()
def resume(address: Address) -> None:
    """Watch a paused mailbox again."""
    run(lambda: _set_state(address, "active"))


@app.command()
@awaited
async def mode(
    address: Address,
    mode: Annotated[
        Mode | None,
        typer.Argument(
            help="shadow: only show what would have been done. draft: leave each reply in Gmail as a draft as well, "
            "to be sent or discarded there. send: act on what you accept. Without it, the mode is shown."
        ),
    ] = None,
) -> None:
    """Say what becomes of the proposals for a mailbox."""
    from email_assistant.inbox.standing import taken_back

    async with opened() as app:
        account = await app.accounts.find(app.user_id, address)
        back = await app.inbox.set_mode(app.accounts, account, mode) if mode else 0
    now = mode or account.mode
    out.print(f"{account.address} is in {now} mode: {MODES[now]}.")
    if back:
        say(taken_back(back))


@app.command()
def remove(address: Address, yes: Annotated[bool, typer.Option("--yes", help="Don't ask.")] = False) -> None:
    """Forget a mailbox: its mail, items, memory and token. Nothing changes in Gmail."""
    if not yes:
        confirm(address, "Forget everything about")

    async def command() -> None:

        async with opened() as app:
            account = await app.accounts.find(app.user_id, address)
            unclear = await app.removal.remove(account)
        out.print(f"Removed {account.address}.")
        if unclear:
            out.print(f"For {unclear} of its actions it is not known whether they happened: look into Gmail's Sent.")

    run(command)


def confirm(address: str, question: str) -> None:
    """End the command unless there is such an account, and the person says yes to what would be done to it."""

    async def command() -> str:
        async with opened() as app:
            return (await app.accounts.find(app.user_id, address)).address

    typer.confirm(f"{question} {run(command)}?", abort=True)


async def _set_state(address: str, state: str) -> None:
    async with opened() as app:
        account = await app.accounts.find(app.user_id, address)
        if account.state == "login" and state == "active":
            raise CommandError(
                f"Google no longer accepts the login: log in again with `email-assistant auth login {address}`"
            )
        await app.accounts.set_state(account.id, "paused" if state == "paused" else "active")
        if state == "active":
            await app.queue.poll([account.id])
    out.print(f"{account.address} is {state}.")


def first_mode(settings: "Settings") -> Mode:
    """The mode in which a mailbox begins that is connected for the first time."""
    return "shadow" if settings.shadow else "send"


async def welcome(app: "App", account: "Account", done: str) -> None:
    """Begin with a mailbox that was just connected, say so, and ask the person once who they are; where nobody can be
    asked, the first steps do."""
    from email_assistant.cli.talk import line_typed
    from email_assistant.memory.given import give

    await give(app.memory, account.id)
    await app.queue.poll([account.id])
    out.print(f"{done} {account.address}. `email-assistant up` watches it.")
    if not account.introduced and sys.stdin.isatty() and sys.stdout.isatty():
        say("Who are you, in a few words: your role, tone, languages? It is read with every mail.")
        words = line_typed("Empty: nothing; `email-assistant memory background` changes it > ")
        if words is not None:
            await app.accounts.set_background(account.id, words)


def say_mode(address: str, mode: Mode) -> None:
    """Say in which mode a mailbox that was just connected is, unless all that is accepted is done anyway."""
    if mode != "send":
        say(f"It is in {mode} mode: {MODES[mode]}. `email-assistant account mode {address} send` ends that.")


def check_address(address: str) -> None:
    """Raises CommandError if it is no mail address."""
    if not re.fullmatch(r"[^@\s]+@[^@\s]+", address):
        raise CommandError(f"{address!r} is no mail address; write it like ada@example.com")


def triage_begin(since: str | None) -> datetime:
    """Mail from this time on is triaged. Raises CommandError."""
    now = datetime.now(UTC)
    if since is None:
        return now
    try:
        if match := re.fullmatch(r"(\d+)([dh])", since.strip()):
            amount = int(match[1])
            return now - (timedelta(days=amount) if match[2] == "d" else timedelta(hours=amount))
        at = datetime.fromisoformat(since)
        return at if at.tzinfo else at.astimezone()
    except (ValueError, OverflowError):  # no time, or one before the calendar begins
        raise CommandError(f"--since takes 7d, 12h or a date such as 2026-05-01, not {since!r}") from None


def _text(value: object) -> str:
    if isinstance(value, datetime):
        return when(value)
    return "" if value is None else here(str(value))
