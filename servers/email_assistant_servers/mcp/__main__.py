"""One of our MCP servers, for one account: `python -m email_assistant_servers.mcp calendar`, `mail` or `agent`.

`email-assistant mcp serve` becomes this. It is of the command line's make: options, errors and signals are the same.
"""

from contextlib import nullcontext
from datetime import UTC, datetime
from uuid import uuid4

import typer

from email_assistant.cli.context import awaited, ensure_output, flush_output, load_settings
from email_assistant.cli.everywhere import common_options
from email_assistant.features.mcp_doors.command import PORTS, ClientAsks, Host, OfAccount, OverHttp, Port, WhatToServe


def main() -> None:
    """Serve until the client closes standard input or, over HTTP, until SIGINT or SIGTERM."""
    app = typer.Typer(
        add_completion=False, pretty_exceptions_enable=False, context_settings={"help_option_names": ["-h", "--help"]}
    )
    app.command()(serve)
    command = typer.main.get_command(app)
    command.params += common_options()
    ensure_output()
    try:
        command()
    finally:
        flush_output()


@awaited
async def serve(
    what: WhatToServe,
    http: OverHttp = False,
    host: Host = "127.0.0.1",
    port: Port = None,
    account: OfAccount = None,
    client_asks: ClientAsks = False,
) -> None:
    """Serve the tools of one account, to the process that started this or over HTTP."""
    from email_assistant.app import open_app
    from email_assistant.cli.serve import bound, signals_heeded, stop_seconds, until_stopped
    from email_assistant.gate.sessions import GateSessions
    from email_assistant.home import database
    from email_assistant.telemetry import log_to_stderr
    from email_assistant.tools.own.mailbox import Mailbox, account_served
    from email_assistant_servers.mcp.door import GuardedDoor
    from email_assistant_servers.mcp.transport import serve_http, serve_stdio

    settings = load_settings()
    log_to_stderr(settings.log_level, settings.log_format)
    listening = bound(host, PORTS[what] if port is None else port) if http else nullcontext()
    with listening as listener, database(settings, keep=True) as url:
        async with open_app(settings, url) as services:
            served = await account_served(services.accounts, services.user_id, account)
            door = GuardedDoor(
                services.pool,
                GateSessions(services.pool),
                services.rules,
                Mailbox(services.accounts, services.clients, served.id),
                services.user_id,
                served.address,
                f"{what} of {served.address}, served since {datetime.now(UTC):%Y-%m-%d %H:%M} UTC ({uuid4().hex[:4]})",
                client_asks=client_asks or what == "agent",  # whoever calls that has asked the person
            )
            server = await services.own_servers(door.admit)[what](served.id)
            serving = serve_stdio(server) if listener is None else serve_http(settings, server, listener, host)
            with signals_heeded() as stop:
                await until_stopped(stop, serving, stop_seconds=stop_seconds(settings))


if __name__ == "__main__":
    main()
