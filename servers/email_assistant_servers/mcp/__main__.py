"""One of our MCP servers, for one account: `python -m email_assistant_servers.mcp calendar`, `mail` or `agent`.

`email-assistant mcp serve` becomes this. It is of the command line's make: options, errors and signals are the same.
"""

from contextlib import nullcontext
from socket import socket
from typing import TYPE_CHECKING, Any

import typer

from email_assistant.cli.context import awaited, ensure_output, flush_output, load_settings, tell
from email_assistant.cli.everywhere import common_options
from email_assistant.cli.mcp import PORTS, Host, OfAccount, OverHttp, Port, WhatToServe

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server

    from email_assistant.app import App


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
    what: WhatToServe, http: OverHttp = False, host: Host = "127.0.0.1", port: Port = None, account: OfAccount = None
) -> None:
    """Serve the tools of one account, to the process that started this or over HTTP."""
    from email_assistant.app import open_app, own_servers
    from email_assistant.cli.serve import bound, patience, signals_heeded, until_stopped
    from email_assistant.home import database
    from email_assistant.telemetry import log_to_stderr
    from email_assistant.tools.own.mailbox import account_served
    from email_assistant_servers.mcp.transport import serve_stdio

    settings = load_settings()
    log_to_stderr(settings.log_level)
    listening = bound(host, PORTS[what] if port is None else port) if http else nullcontext()
    with listening as listener, database(settings, keep=True) as url:
        async with open_app(settings, url) as services:
            served = await account_served(services.accounts, services.user_id, account)
            ours = own_servers(services.accounts, services.clients, services.outbox, settings)
            server = await ours[what](served.id)
            serving = serve_stdio(server) if listener is None else _serve_http(services, server, listener, host)
            with signals_heeded() as stop:
                await until_stopped(stop, serving, patience=patience(settings))


async def _serve_http(app: "App", server: "Server[Any, Any]", listener: socket, host: str) -> None:
    from email_assistant.cli.serve import serve_app
    from email_assistant.home import mcp_token
    from email_assistant.settings import is_loopback
    from email_assistant_servers.mcp.transport import PATH, create_http_app

    if not is_loopback(host):
        tell("It is reachable from other machines: put TLS in front.")
    address, port = listener.getsockname()[:2]
    tell(f"Serving at http://{f'[{address}]' if ':' in address else address}:{port}{PATH}. Ctrl-C stops.")
    api = create_http_app(server, token=lambda: mcp_token(app.settings), is_loopback=is_loopback(host))
    # uvicorn drops the lifespan of what it has to stop at once, and its end is then logged as an error.
    async with api.router.lifespan_context(api):
        await serve_app(api, listener)


if __name__ == "__main__":
    main()
