"""`email-assistant mcp …`"""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from email_assistant.cli.context import CommandError, awaited, chosen, complain, load_settings, opened, print_json, tell

if TYPE_CHECKING:
    from email_assistant.app import App
    from email_assistant.settings import Settings

app = typer.Typer(help="Your calendars and mail as tools of your editor, or of any MCP client.", no_args_is_help=True)

What = Literal["calendar", "mail", "agent"]
PORTS: dict[What, int] = {"calendar": 8766, "mail": 8767, "agent": 8768}
_FOR_CLIENTS: tuple[What, ...] = ("calendar", "mail")
WhatToServe = Annotated[
    What,
    typer.Argument(
        help="calendar: list, add and change events. mail: search, read, send. agent: what the mail agent acts "
        "with, to be named in tools.yaml; no client of yours should get it."
    ),
]
OverHttp = Annotated[bool, typer.Option("--http", help="Over HTTP with a token of its own, instead of standard input.")]
Host = Annotated[str, typer.Option(help="Address to listen on. Beyond loopback, put TLS in front.")]
Port = Annotated[
    int | None,
    typer.Option(min=0, max=65535, help="Port; by default 8766 for calendar, 8767 for mail, 8768 for agent."),
]
OfAccount = Annotated[str | None, typer.Option("--account", help="Whose (an address); without it, your only one's.")]

ClientAsks = Annotated[
    bool,
    typer.Option(
        "--client-asks",
        help="The client asks you before each call: put no question of ours. Without it, what writes is asked about "
        "through the client, or refused where that can't ask.",
    ),
]


@app.command()
def serve(
    what: WhatToServe,
    http: OverHttp = False,
    host: Host = "127.0.0.1",
    port: Port = None,
    account: OfAccount = None,
    client_asks: ClientAsks = False,
) -> None:
    """Serve the tools of one account; a client starts this itself, unless you say --http."""
    from email_assistant.programs import become

    given = {"--env-file": chosen.env_file, "--host": host, "--port": port, "--account": account}
    arguments = [f"{name}={value}" for name, value in given.items() if value is not None]
    on = {"--demo": chosen.demo, "--http": http, "--client-asks": client_asks}
    flags = [name for name, is_on in on.items() if is_on]
    try:
        become("mcp", what, *flags, *arguments)
    except OSError as error:
        complain(f"{sys.executable or 'Python'} can't be started ({error.strerror})")
        raise typer.Exit(1) from None


@app.command()
@awaited
async def config(
    http: Annotated[bool, typer.Option("--http", help="For servers that you run with `mcp serve … --http`.")] = False,
    vscode: Annotated[bool, typer.Option("--vscode", help="In the form of VS Code's mcp.json.")] = False,
    account: OfAccount = None,
    client_asks: ClientAsks = False,
) -> None:
    """Print what to paste into an MCP client: Claude Desktop and Code, Cursor, Windsurf and others; or VS Code."""
    from email_assistant.settings import Settings

    async with opened() as services:
        await _check_account(services, account)
    own = Settings.load()
    servers = {
        f"email-assistant-{what}": _over_http(what, services.settings)
        if http
        else _over_stdio(what, account, own, client_asks=client_asks)
        for what in _FOR_CLIENTS
    }
    print_json({"servers" if vscode else "mcpServers": servers})
    if http:
        tell(
            "Whoever has this token can read your mail and send as you: share the text with nobody "
            "(`email-assistant mcp new-token` makes another). "
            f"Run `email-assistant mcp serve calendar --http{_flags(account, client_asks=client_asks)}`, and the same "
            f"with mail.{'' if client_asks else _READS_ALONE}"
        )
    elif any(value.startswith("YOUR-") for value in _pinned(own).values()):
        tell("Put your own values in the place of YOUR-….")


@app.command("new-token")
@awaited
async def new_token() -> None:
    """Make another token for `mcp serve --http`: the old one opens nothing any more, servers that run included."""
    from email_assistant.home import renew_mcp_token

    settings = load_settings()
    if settings.mcp_token:
        raise CommandError("EMAIL_ASSISTANT_MCP_TOKEN sets the token: change it there, and start the servers again")
    renew_mcp_token(settings)
    tell("The old token opens nothing any more; `email-assistant mcp config --http` prints the new one.")


_READS_ALONE = " What writes is refused over HTTP, where nobody can be asked, unless you add --client-asks to that."


def _flags(account: str | None, *, client_asks: bool) -> str:
    whose = f" --account {account}" if account else ""
    return f"{' --demo' if chosen.demo else ''}{whose}{' --client-asks' if client_asks else ''}"


async def _check_account(app: "App", address: str | None) -> None:
    """Say why the servers would not start without one. Raises UnknownAccount where one is named that is not there."""
    from email_assistant.accounts.account import UnknownAccount
    from email_assistant.tools.own.mailbox import account_served

    try:
        await account_served(app.accounts, app.user_id, address)
    except UnknownAccount as error:
        if address is not None:
            raise
        tell(f"As it stands, the servers do not start: {error}")


def _pinned(settings: "Settings") -> dict[str, str]:
    """What decides where secrets go. A client starts us in whatever folder it is in, with what that has put into its
    environment; an empty value there means that none is set, as the demo does with what is not its own.

    Args:
        settings: one's own, for the demo too.

    Values that are secret themselves are not printed: this text is pasted into files that are shared.
    """

    def named(file: Path | None) -> str:
        return str(settings.folder / file.expanduser()) if file else ""

    def secret(variable: str) -> str:
        is_set = os.environ.get(variable) and not chosen.demo
        return f"YOUR-{variable.removeprefix('EMAIL_ASSISTANT_').replace('_', '-')}" if is_set else ""

    return {
        "EMAIL_ASSISTANT_HOME": str(settings.folder),
        "EMAIL_ASSISTANT_TOOLS": named(settings.tools),
        "EMAIL_ASSISTANT_TOOL_PERMISSIONS": named(settings.tool_permissions),
        "EMAIL_ASSISTANT_GOOGLE_ROOT": settings.google_root or "",
        "EMAIL_ASSISTANT_GOOGLE_NAME": settings.google_name or "",
        "DATABASE_URL": secret("DATABASE_URL"),
        "EMAIL_ASSISTANT_SECRET_KEY": secret("EMAIL_ASSISTANT_SECRET_KEY"),
    }


def _over_stdio(what: What, account: str | None, settings: "Settings", *, client_asks: bool) -> dict[str, Any]:
    from email_assistant.settings.environment import ENV_FILE

    command, *arguments = _command()
    file = [] if settings.env_file == settings.folder / ENV_FILE else ["--env-file", str(settings.env_file)]
    whose = [*(["--demo"] if chosen.demo else []), *(["--account", account] if account else [])]
    asks = ["--client-asks"] if client_asks else []
    return {
        "type": "stdio",
        "command": command,
        "args": [*arguments, "mcp", "serve", what, *file, *whose, *asks],
        "env": _pinned(settings),
    }


def _over_http(what: What, settings: "Settings") -> dict[str, Any]:
    from email_assistant.home import mcp_token

    return {
        "type": "http",
        "url": f"http://127.0.0.1:{PORTS[what]}/mcp",
        "headers": {"Authorization": f"Bearer {mcp_token(settings)}"},
    }


def _command() -> list[str]:
    """What starts this program from anywhere."""
    script = Path(sys.executable).with_name("email-assistant")
    if script.exists():
        return [str(script)]
    if not Path(sys.executable).is_file():
        raise CommandError("this Python can't be named; write the command that starts email-assistant yourself")
    return [sys.executable, "-P", "-m", "email_assistant"]  # -P: nothing of the folder that it is started in
