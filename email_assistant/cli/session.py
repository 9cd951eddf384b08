"""`email-assistant session …` and `rotate-key`: who is logged in, and the key of all that is encrypted."""

from typing import Annotated

import typer

from email_assistant.cli.context import (
    AsJson,
    CommandError,
    awaited,
    one_by_id,
    opened,
    opened_database,
    out,
    print_json,
    print_table,
    say,
    when,
)

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


_HOW = (
    "EMAIL_ASSISTANT_SECRET_KEY sets one key: write the new one and a comma before it, here and where the program runs "
    "(docs/operations.md), then run this again"
)


@awaited
async def rotate_key() -> None:
    """Encrypt anew, with another key, all that is encrypted in the database: logins, and where notices go.

    A key that is kept in the home folder is replaced by a new one; stop the program first. Of keys that
    EMAIL_ASSISTANT_SECRET_KEY sets, the first is the new one, and the program may be at work, if it knows them all."""
    import psycopg

    from email_assistant.accounts.vault import encrypt_anew, keys_of
    from email_assistant.app import open_app
    from email_assistant.cli.watchdog import SECONDS, Watchdog
    from email_assistant.db.restore import until_at_rest
    from email_assistant.home import keep_secret_key, new_secret_key, secret_key

    with Watchdog() as watchdog, opened_database(watchdog) as (settings, url):
        keys, is_set = keys_of(secret_key(settings)), settings.secret_key is not None
        if is_set and len(keys) == 1:
            raise CommandError(_HOW)
        if not is_set:
            with psycopg.connect(url, autocommit=True) as conn:
                await until_at_rest(conn)
            if len(keys) == 1:
                keys = [new_secret_key(), *keys]
                keep_secret_key(settings, ",".join(keys))  # so that one that is killed here can be run again
        async with open_app(settings, url, wait_seconds=SECONDS) as app:
            count = await encrypt_anew(app.pool, app.vault)
        keep_secret_key(settings, keys[0])
    what = "1 login or address" if count == 1 else f"{count} logins and addresses"
    out.print(f"Encrypted anew, with the new key: {what}. The key before opens nothing here now.")
    if is_set:
        out.print("Leave the first key alone in EMAIL_ASSISTANT_SECRET_KEY, and start the program again.")
    out.print("Backups made before need it still; make a new one.")
