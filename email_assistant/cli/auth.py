"""`email-assistant auth …`"""

import errno
import platform
import webbrowser
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from email_assistant.cli.accounts import (
    Address,
    Since,
    check_address,
    confirm,
    first_mode,
    say_mode,
    triage_begin,
    welcome,
)
from email_assistant.cli.context import (
    AsJson,
    CommandError,
    awaited,
    load_settings,
    opened,
    out,
    print_json,
    run,
    say,
    when,
)

if TYPE_CHECKING:
    from email_assistant.accounts.account import Account
    from email_assistant.app import App
    from email_assistant.google.login import Grant, OAuthClient, Scope

app = typer.Typer(help="The logins at Google.", no_args_is_help=True)

_AUDIENCE = "under Google Auth Platform > Audience, choose Publish app (logins of a client in Testing end after 7 days)"
PUBLISH = f"in the Google Cloud console, {_AUDIENCE}, then log in again"
SOON = timedelta(days=3)

_NO_CLIENT = (
    "this needs an OAuth client: in the Google Cloud console enable the Gmail and Calendar APIs; "
    f"{_AUDIENCE}; make a client of type Desktop app under Google Auth Platform > Clients, download its JSON, and give "
    "it as --client-secret FILE"
)
_CONNECTIONS = "https://myaccount.google.com/connections"


@app.command()
@awaited
async def login(
    address: Annotated[
        str | None, typer.Argument(help="The mailbox's e-mail address; else the one you choose.")
    ] = None,
    client_secret: Annotated[
        Path | None,
        typer.Option(
            help="JSON of an OAuth client of type Desktop app, from the Google Cloud console; needed once only."
        ),
    ] = None,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Print the address to open; open nothing.")] = False,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of this machine to which the browser returns; 0: any free one.")
    ] = 0,
    host: Annotated[
        str,
        typer.Option(
            help="Address to listen on for the browser's answer. In a container 0.0.0.0, with --port published on the "
            "machine's loopback."
        ),
    ] = "127.0.0.1",
    since: Since = None,
) -> None:
    """Connect a mailbox, or log in to it again: you allow it in your browser, at Google.

    The first login needs an OAuth client of your own; 'Run it on your mail' in the README says how to make one.

    Logging in again ends a pause."""
    if address is not None:
        check_address(address)
    begin = triage_begin(since)
    if other := load_settings().mail_provider:
        raise CommandError(
            f"this logs in at Google, and EMAIL_ASSISTANT_MAIL_PROVIDER names {other}: connect a mailbox of that with "
            "`email-assistant account add ADDRESS --token-file FILE`"
        )
    async with opened() as app:
        client = await _client(app, address, client_secret)
        grant = await _ask(app, client, address, host, port, browser=not no_browser)
        account = await _connect(app, grant, address, begin)
        await welcome(app, account, "Connected")
    say_mode(account.address, account.mode)
    for line in _warnings(account):
        say(line)


@app.command()
@awaited
async def status(as_json: AsJson = False) -> None:
    """Show each login: whether Google accepts it, what you allowed, when it ends, and what to do."""
    async with opened() as app:
        accounts = await app.accounts.of_user(app.user_id)
    if as_json:
        print_json({"items": [_described(account) for account in accounts]})
        return
    if not accounts:
        out.print("No account yet. `email-assistant auth login --help` says how, `demo` needs none.")
    for account in accounts:
        say(f"{account.address}: {account.state}, since {when(account.login_at, account.zone)}")
        if account.last_error:
            say(f"  {account.last_error}")
        if account.scopes is not None:
            say(f"  allowed: {', '.join(_short(scope) for scope in account.scopes)}")
        for line in (_renewal(account), *_warnings(account)):
            if line:
                say(f"  {line}")


@app.command()
def logout(
    address: Address,
    yes: Annotated[bool, typer.Option("--yes", help="Don't ask.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Forget it here even if Google can't be told.")] = False,
) -> None:
    """End a login, at Google too. The account, its mail and what was learned stay; nothing more is read or sent."""
    if not yes:
        confirm(address, "End the login of")

    async def command() -> None:
        async with opened() as app:
            account = await app.accounts.find(app.user_id, address)
            told = await _revoke(app, account, force=force)
            await app.accounts.log_out(account)
        say(
            f"Logged out of {account.address}. {told} `email-assistant auth login {account.address}` connects it again."
        )

    run(command)


async def _client(app: "App", address: str | None, file: Path | None) -> "OAuthClient":
    """The client of the file, else that of an account which is connected already."""
    from email_assistant.google.login import OAuthClient, read_client_file

    if file is not None:
        try:
            return read_client_file(file)
        except ValueError as error:
            raise CommandError(f"{error}; {_NO_CLIENT}") from None
    accounts = [a for a in await app.accounts.of_user(app.user_id) if a.provider == app.settings.provider]
    own = (address or "").lower()
    for account in sorted(accounts, key=lambda a: (a.address == own, a.login_at), reverse=True):
        _, token = await app.accounts.login(account.id)
        if "client_id" in token and "client_secret" in token:
            return OAuthClient(token["client_id"], token["client_secret"])
    raise CommandError(_NO_CLIENT)


async def _ask(
    app: "App", client: "OAuthClient", address: str | None, host: str, port: int, *, browser: bool
) -> "Grant":
    """Ask the person in the browser, and wait for the answer."""
    import asyncio

    from email_assistant.google.login import Consent, Loopback

    settings = app.settings
    consent = Consent(client, settings.google_root, settings.google_timeout_seconds)
    loopback = Loopback(consent.state)
    try:
        async with loopback.listen(port, host) as redirect_uri:
            await _show(consent.url(redirect_uri, address), redirect_uri, browser=browser)
            async with asyncio.timeout(settings.login_seconds):
                answer = await loopback.answer()
    except TimeoutError:
        raise CommandError(
            f"nobody answered in the browser within {settings.login_seconds:g} s; begin again, nothing was stored"
        ) from None
    except OSError as error:
        if error.errno not in (errno.EADDRINUSE, errno.EACCES):
            raise
        raise CommandError(f"port {port} can't be used here; give another, or leave out --port") from None
    return await consent.redeem(answer)


async def _show(url: str, redirect_uri: str, *, browser: bool) -> None:
    import asyncio

    if browser and await asyncio.to_thread(webbrowser.open, url):  # one of the terminal's returns when it is left
        say("Your browser shows Google's page now. If it does not, open this address:")
    else:
        port = redirect_uri.rstrip("/").rpartition(":")[2]
        say("Open this address in a browser on this machine. For one on another machine, first run there:")
        say(f"  ssh -L {port}:127.0.0.1:{port} {platform.node() or 'HOST'}")
    say(f"\n{url}\n")
    say("Choose the account, tick every box, and continue. Waiting (Ctrl-C ends it) …")


async def _connect(app: "App", grant: "Grant", address: str | None, begin: datetime) -> "Account":
    """Keep the login; if it is not the one that was meant, or can't serve, give it back and say so."""
    from email_assistant.google.account import address_of
    from email_assistant.google.login import GMAIL

    if GMAIL.uri not in grant.scopes:
        await _give_back(app, grant, address)
        raise CommandError(f"Gmail was not allowed, so nothing was stored: log in again, and tick “{GMAIL.box}”")
    settings = app.settings
    found = (await address_of(grant.token, settings.google_root, settings.google_timeout_seconds)).lower()
    if address is not None and found != address.lower():
        await _give_back(app, grant, found)
        raise CommandError(
            f"you chose {found} in the browser, not {address}, so nothing was stored: log in again and choose that one"
        )
    mode = first_mode(settings)
    return await app.accounts.add(
        app.user_id, found, grant.token, begin, mode, scopes=grant.scopes, login_ends=grant.ends
    )


async def _give_back(app: "App", grant: "Grant", address: str | None) -> None:
    """Revoke a login that is of no use; not where that would end one that is in use.

    Google revokes all that the person has allowed to the OAuth client. Whose login it is, is not known (None) when
    neither the person nor Gmail has told."""
    from email_assistant.google.errors import GoogleError
    from email_assistant.google.login import revoke

    accounts = await app.accounts.of_user(app.user_id)
    if any(account.state != "login" and address in (None, account.address) for account in accounts):
        return
    try:
        await revoke(grant.token, app.settings.google_root, app.settings.google_timeout_seconds)
    except GoogleError:
        say(f"What you allowed could not be taken back at Google; you can do so at {_CONNECTIONS}")


async def _revoke(app: "App", account: "Account", *, force: bool) -> str:
    """End the account's login at Google; says what came of it."""
    from email_assistant.google.errors import GoogleError
    from email_assistant.google.login import revoke

    app.accounts.here(account)
    _, token = await app.accounts.login(account.id)
    if "refresh_token" not in token:
        raise CommandError(f"{account.address} is logged out already")
    try:
        known = await revoke(token, app.settings.google_root, app.settings.google_timeout_seconds)
    except GoogleError as error:
        if not force:
            raise CommandError(
                f"Google can't be told ({error}), so nothing was changed: try again later, or forget the login here "
                f"alone with --force, and end it at {_CONNECTIONS}"
            ) from None
        return f"Google could not be told: end it at {_CONNECTIONS} too."
    return "Google has revoked it." if known else "Google had ended it already."


def _described(account: "Account") -> dict[str, Any]:
    return {
        "address": account.address,
        "state": account.state,
        "since": account.login_at,
        "last_error": account.last_error,
        "granted": account.scopes,
        "missing": None if account.scopes is None else [scope.uri for scope in _missing(account)],
        "login_ends": account.login_ends,
        "todo": [line for line in (_renewal(account), *_warnings(account)) if line],
    }


def _renewal(account: "Account") -> str | None:
    """What to do about an account that nothing is read from."""
    if account.state == "login":
        return f"log in again with `email-assistant auth login {account.address}`"
    return f"`email-assistant account resume {account.address}` goes on" if account.state == "paused" else None


def _warnings(account: "Account") -> list[str]:
    return [line for line in (scopes_problem(account), end_problem(account)) if line]


def scopes_problem(account: "Account") -> str | None:
    """What was not allowed, what does not work without it, and what to do."""
    missing = _missing(account)
    if not missing:
        return None
    losses = "; ".join(f"without “{scope.box}” {scope.loss}" for scope in missing)
    return f"{losses}. Log in again with `email-assistant auth login {account.address}`, and tick every box"


def end_problem(account: "Account") -> str | None:
    """When Google ends the login by itself, and how to prevent it."""
    if account.login_ends is None:
        return None
    soon = account.login_ends - datetime.now(UTC) < SOON
    return f"the login ends {'soon, ' if soon else ''}on {when(account.login_ends, account.zone)}: {PUBLISH}"


def _missing(account: "Account") -> "list[Scope]":
    from email_assistant.google.login import missing

    return [] if account.scopes is None else missing(account.scopes)


def _short(scope: str) -> str:
    return scope.rpartition("/")[2]
