"""`email-assistant demo`, `up` and its parts `api`, `scheduler` and `worker`, `stop` and `go-on`"""

from pathlib import Path
from typing import Annotated, Literal

import typer

from email_assistant.cli.context import awaited, here, opened, run, say

Host = Annotated[str, typer.Option(help="Address to listen on. Beyond loopback, put TLS in front.")]
Port = Annotated[int, typer.Option(help="Port of the inbox and the API.")]
NoToken = Annotated[bool, typer.Option("--no-token", help="Ask for no token; only on a loopback address.")]


def demo(
    mbox: Annotated[
        Path | None, typer.Option(help="Triage your own mail: an .mbox export, such as Google Takeout's.")
    ] = None,
    address: Annotated[
        str | None, typer.Option(help="Whose mailbox the export is; else its Delivered-To tells.")
    ] = None,
    exit_when_idle: Annotated[
        bool, typer.Option("--exit-when-idle", help="End when nothing moves any more, and print what was done.")
    ] = False,
    answer: Annotated[
        Literal["accept", "ignore"] | None,
        typer.Option(help="Decide every item: accept (where allowed, else ignore) or ignore."),
    ] = None,
    host: Host = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of the inbox; any free one if it is taken.")] = 8764,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Try it: a mailbox, a model of fixed rules and the inbox, all on this machine. Needs no account and no key.

    A model of your own is used where OPENAI_API_KEY or OPENAI_BASE_URL is set: it is sent the mail.

    It keeps to a folder, a database and a token of its own: other commands are for it if --demo stands before them.

    Ctrl-C ends it; what it did is kept and found again at the next start."""
    from email_assistant.cli.demo import run_demo

    run(lambda: run_demo(mbox, address, answer, host, port, exit_when_idle=exit_when_idle, as_json=as_json))


def up(host: Host = "127.0.0.1", port: Port = 8765, no_token: NoToken = False) -> None:
    """Run everything: watch the mailboxes, work on mail, serve the inbox.

    Ctrl-C stops it in good order, with status 0 (130 while it still starts); twice, at once, with status 130."""
    from email_assistant.cli.serve import run_up

    run(lambda: run_up(host, port, no_token=no_token))


def api(host: Host = "127.0.0.1", port: Port = 8765, no_token: NoToken = False) -> None:
    """Serve the inbox and its API only: one of the three parts of `up`, for running them apart."""
    from email_assistant.cli.serve import run_api

    run(lambda: run_api(host, port, no_token=no_token))


def scheduler() -> None:
    """Look into the mailboxes and for forgotten work: one of the parts of `up`.

    Any number may run: each mailbox is under one at a time, and what they trigger collapses in the queue."""
    from email_assistant.cli.serve import run_scheduler

    run(run_scheduler)


def worker() -> None:
    """Work on mail, beside `up` or beside `api` and `scheduler`: as many as you like, on any machine.

    All of them need the same DATABASE_URL and EMAIL_ASSISTANT_SECRET_KEY (on one machine: the same home folder)."""
    from email_assistant.cli.serve import run_worker

    run(run_worker)


@awaited
async def stop() -> None:
    """Stop everything: for no mailbox anything is sent, booked or changed any more, whichever process would do it.

    What is on its way at this moment ends, and is recorded. What you answer meanwhile is kept. `go-on` ends it."""
    from email_assistant.accounts.account import stopped

    async with opened() as app:
        await app.accounts.stop(app.user_id)
        since = await app.accounts.stopped_since(app.user_id)
    if since:
        say(here(f"{stopped(since)} `email-assistant go-on` ends that."))


@awaited
async def go_on() -> None:
    """Go on after `stop`: what was accepted meanwhile is done. A mailbox that you had paused stays paused."""
    async with opened() as app:
        await app.queue.poll(await app.accounts.go_on(app.user_id))
        resting = [a.address for a in await app.accounts.of_user(app.user_id) if a.state == "paused"]
    say("It goes on." + (f" Still paused, as before: {', '.join(resting)}." if resting else ""))
