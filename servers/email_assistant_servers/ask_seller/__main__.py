"""`python -m email_assistant_servers.ask_seller`: the sellers' server, over standard input or HTTP."""

from pathlib import Path
from typing import Annotated

import typer

from email_assistant.cli.context import awaited, ensure_output, flush_output, load_settings


def main() -> None:
    """Serve until the client closes standard input or, over HTTP, until SIGINT or SIGTERM."""
    ensure_output()
    try:
        typer.run(serve)
    finally:
        flush_output()


@awaited
async def serve(
    lots: Annotated[Path | None, typer.Option(help="A file of lots; left out: those that ship.")] = None,
    model: Annotated[str | None, typer.Option(help="Have this model answer, at the settings' server.")] = None,
    prompt: Annotated[Path | None, typer.Option(help="A file with words to that model.")] = None,
    http: Annotated[bool, typer.Option("--http", help="Over HTTP, with the token of `mcp serve --http`.")] = False,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0: a free one.")] = 8766,
) -> None:
    """Answer questions about the lots of an auction."""
    from email_assistant.features.auction.command import opened_sellers
    from email_assistant.features.auction.rules import read_lots
    from email_assistant_servers.ask_seller.server import create_seller_server
    from email_assistant_servers.mcp.transport import serve_http, serve_stdio

    async with opened_sellers(model, prompt) as answers:
        server = create_seller_server(read_lots(lots), answers)
        if not http:
            await serve_stdio(server)
            return
        from email_assistant.cli.serve import bound

        with bound(host, port) as listener:
            await serve_http(load_settings(), server, listener, host)


if __name__ == "__main__":
    main()
