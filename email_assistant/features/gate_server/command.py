"""What of `email-assistant gate …` is for agents of others."""

import sys
from typing import Annotated

import typer

from email_assistant.cli.context import awaited, load_settings


@awaited
async def serve(
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port to listen on; 0: a free one.")] = 3001,
) -> None:
    """Let agents of yours ask before they call a tool, over HTTP, until it is stopped.

    They send the key that `gate key` prints; tool_permissions.json says, under "agent", what each of their
    tools touches. What you must decide waits in your inbox, which is served beside it. `up` answers them as well.
    """
    from email_assistant.cli.serve import run_api

    await run_api(host, port, no_token=False)


def key() -> None:
    """Print the key by which agents of yours ask the gate. It opens nothing else: no mail, and no answer."""
    from email_assistant.home import agent_key

    sys.stdout.write(f"{agent_key(load_settings())}\n")
