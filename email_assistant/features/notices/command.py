"""`email-assistant notify …`"""

from typing import TYPE_CHECKING, Annotated

import typer

from email_assistant.cli.context import (
    AsJson,
    CommandError,
    awaited,
    one_by_id,
    opened,
    out,
    print_json,
    print_table,
    say,
    when,
)

if TYPE_CHECKING:
    from email_assistant.app import App
    from email_assistant.features.notices.channels import Channel
    from email_assistant.features.notices.telling import Telling

app = typer.Typer(
    help="Where you are told that something waits. A browser is added by the button on the page Accounts, "
    "the daily digest by EMAIL_ASSISTANT_DIGEST_AT.",
    no_args_is_help=True,
)

Which = Annotated[str, typer.Argument(help="Its id, or the beginning of it, as `status` shows it.")]


@app.command()
@awaited
async def status(as_json: AsJson = False) -> None:
    """Show browsers, webhooks and the digest, and what is wrong with them."""
    async with opened() as app:
        told = _told_by(app)
        channels = await told.channels.of_user(app.user_id)
        troubles = await told.digests.last_errors(app.user_id)
        digest_at = told.settings.digest_at
    if as_json:
        print_json({"channels": channels, "digest_at": digest_at, "digest_errors": troubles})
        return
    if channels:
        rows = [[str(c.id)[:8], c.kind, c.name, c.state, _told(c), c.last_error or ""] for c in channels]
        print_table(["id", "kind", "server", "state", "last_told", "last_error"], rows)
    else:
        out.print("No browser and no webhook is told of anything.")
    out.print(f"Daily digest: {f'at {digest_at:%H:%M}' if digest_at else 'off; EMAIL_ASSISTANT_DIGEST_AT'}.")
    for address, error in troubles.items():
        say(f"  {address}: {error}")


@app.command("add-webhook")
@awaited
async def add_webhook(url: Annotated[str, typer.Argument(help="It must begin with https://.")]) -> None:
    """Tell a server of new items: a signed POST with ids and counts, and no word of your mail."""
    async with opened() as app:
        channel, secret = await _told_by(app).notices.add_webhook(app.user_id, url)
        problem = await _told_by(app).notices.test(channel)
    out.print(f"Added {channel.name}. Its requests are signed (standardwebhooks.com) with this secret:")
    say(secret)
    if problem:
        say(f"It could not be told of that: {problem}.")


@app.command()
@awaited
async def remove(which: Which) -> None:
    """Tell a browser or a webhook no more."""
    async with opened() as app:
        channel = await _find(app, which)
        await _told_by(app).channels.remove(app.user_id, channel.id)
    say(f"Removed {channel.name}.")


@app.command("test")
@awaited
async def send_test(which: Annotated[str | None, typer.Argument(help="Its id; left out: all of them.")] = None) -> None:
    """Send a notice of nothing. Ends with 1 if it does not arrive."""
    async with opened() as app:
        chosen = [await _find(app, which)] if which else await _told_by(app).channels.of_user(app.user_id)
        problems = [await _told_by(app).notices.test(channel) for channel in chosen]
    for channel, problem in zip(chosen, problems, strict=True):
        say(f"{channel.name}: {problem or 'told'}")
    if not chosen:
        raise CommandError("there is nobody to tell yet; `email-assistant notify --help` says how")
    if any(problems):
        raise typer.Exit(1)


def _told_by(app: "App") -> "Telling":
    from email_assistant.features.notices.telling import Telling

    return Telling.of(app)


async def _find(app: "App", which: str) -> "Channel":
    return one_by_id(await _told_by(app).channels.of_user(app.user_id), which, "channel", "notify status")


def _told(channel: "Channel") -> str:
    return when(channel.told_at) if channel.told_at else ""
