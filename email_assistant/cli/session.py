"""`email-assistant session …`"""

from typing import Annotated

import typer

from email_assistant.cli.context import AsJson, awaited, one_by_id, opened, out, print_json, print_table, say, when

app = typer.Typer(help="The browsers that are logged in to your inbox.", no_args_is_help=True)


@app.command("list")
@awaited
async def list_sessions(as_json: AsJson = False) -> None:
    """Show which browsers are logged in, and until when."""
    async with opened() as services:
        found = await services.sessions.of_user(services.user_id)
    if as_json:
        print_json({"items": found})
    elif found:
        rows = [[str(s.id)[:8], s.browser, *map(when, (s.began_at, s.seen_at, s.expires_at))] for s in found]
        print_table(["id", "browser", "logged_in", "last_used", "ends"], rows)
    else:
        out.print("No browser is logged in.")


@app.command()
@awaited
async def end(
    which: Annotated[str | None, typer.Argument(help="Its id, or the beginning of it, as `list` shows it.")] = None,
    everywhere: Annotated[bool, typer.Option("--all", help="Every browser that is logged in.")] = False,
) -> None:
    """Log a browser out, or all of them; the notices that it asked for end as well."""
    if (which is None) != everywhere:
        raise typer.BadParameter("name one, or say --all")
    async with opened() as services:
        if which is None:
            count = await services.sessions.end_all(services.user_id)
            ended = f"{count} browser{'' if count == 1 else 's'}"
        else:
            open_now = await services.sessions.of_user(services.user_id)
            one = one_by_id(open_now, which, "browser logged in", "session list")
            ended = (await services.sessions.end(services.user_id, one.id)).browser
    say(f"Logged out {ended}.")
