"""What of `email-assistant gate …` is for agents of others."""

import sys
from dataclasses import asdict
from typing import Annotated

import typer

from email_assistant.cli.context import AsJson, awaited, load_settings, opened, print_json, print_table, when


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


@awaited
async def sessions(
    name: Annotated[str | None, typer.Argument(metavar="[SESSION]", help="One of them: its calls.")] = None,
    before: Annotated[int | None, typer.Option(metavar="ID", help="Older ones than this.")] = None,
    as_json: AsJson = False,
) -> None:
    """List what agents of yours asked the gate, and what became of each call; the newest first."""
    from email_assistant.features.gate_server.record import Record
    from email_assistant.mail.charset import listed, one_line

    async with opened() as app:
        record = Record(app.pool)
        if name is None:
            found = await record.sessions(app.user_id, before)
            told = [asdict(each) for each in found]
            rows = [
                [str(s.id), s.name, s.agent or "", str(s.calls), when(s.last or s.began), listed(s.did)] for s in found
            ]
            columns = ["", "session", "agent", "calls", "last", "it has"]
        else:
            calls = await record.calls(await record.session(app.user_id, name), before)
            told = [asdict(each) for each in calls]
            rows = [[str(c.id), c.tool, when(c.at), c.outcome, c.why_not or c.reason, c.decided or ""] for c in calls]
            columns = ["", "call", "at", "became", "because", "decided"]
    if as_json:
        print_json(told)
    else:
        print_table(columns, [[one_line(cell) for cell in row] for row in rows])
