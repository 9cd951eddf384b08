"""`email-assistant backup` and `restore`"""

from pathlib import Path
from typing import Annotated

import typer

from email_assistant.cli.context import awaited, opened_database, out, when


@awaited
async def backup(
    file: Annotated[Path, typer.Argument(help="A new file, such as assistant-2026-05-01.tar.gz.")],
) -> None:
    """Write all that matters to one file: mail and what became of it, the inbox, what was learned, accounts and keys.

    The program may be at work meanwhile. Whoever has the file can read your mail: keep it as you would a password."""
    from email_assistant.app import open_app
    from email_assistant.cli.patience import SECONDS, Patience
    from email_assistant.db.backup import back_up
    from email_assistant.home import secret_key

    with Patience() as patience, opened_database(patience) as (settings, url):
        # Which makes, or brings up to date, what is backed up.
        async with open_app(settings, url, patience=SECONDS):
            patience.end()  # there may be much of it
            size = back_up(url, {"secret_key": secret_key(settings)}, file)
    out.print(f"Wrote {file} ({size / 1_000_000:.1f} MB). It holds your keys: keep it safe.")


@awaited
async def restore(
    file: Annotated[Path, typer.Argument(help="A file that `backup` wrote.")],
    replace: Annotated[
        bool, typer.Option("--replace", help="Put it in place of the accounts that are connected here.")
    ] = False,
) -> None:
    """Put a backup into the database, in place of what is there: all of it, or nothing.

    Stop the program first. Nothing is carried out from a backup: what you had decided and was not done yet is asked
    again, and what was being done is shown as failed, to be looked at and tried again."""
    import psycopg

    from email_assistant.app import open_app
    from email_assistant.cli.patience import SECONDS, Patience
    from email_assistant.db.dump import read_backup
    from email_assistant.db.restore import restore as put_back
    from email_assistant.home import check_secret_key, keep_secret_key

    with Patience() as patience:
        patience.files(file.parent)
        found = read_backup(file)
        with opened_database(patience) as (settings, url):
            check_secret_key(settings, found.keys["secret_key"])
            psycopg.connect(url).close()  # or it is said that the database does not answer
            patience.end()  # there may be much to put back
            await put_back(url, file, replace=replace, patience=SECONDS)
            keep_secret_key(settings, found.keys["secret_key"])
            async with open_app(settings, url, patience=SECONDS) as app:
                accounts = await app.accounts.of_user(app.user_id)
    addresses = ", ".join(account.address for account in accounts) or "no account"
    out.print(f"Restored {addresses}, as of {when(found.created_at)}.")
    out.print("`email-assistant up` goes on from there; it looks first at what happened since.")
