"""`email-assistant backup` and `restore`"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from email_assistant.cli.context import AsJson, awaited, opened_database, out, print_json, say, when

if TYPE_CHECKING:
    from email_assistant.cli.watchdog import Watchdog
    from email_assistant.db.backup import Backup


@awaited
async def backup(
    file: Annotated[Path, typer.Argument(help="A new file, such as assistant-2026-05-01.tar.gz.")],
) -> None:
    """Write all that matters to one file: mail and what became of it, the inbox, what was learned, accounts and keys.

    The program may be at work meanwhile. Whoever has the file can read your mail: keep it as you would a password."""
    from email_assistant.app import open_app
    from email_assistant.cli.watchdog import SECONDS, Watchdog
    from email_assistant.db.backup import back_up
    from email_assistant.home import secret_key

    with Watchdog() as watchdog, opened_database(watchdog) as (settings, url):
        # Which makes, or brings up to date, what is backed up.
        async with open_app(settings, url, wait_seconds=SECONDS):
            watchdog.stop_watching()  # there may be much of it
            size = back_up(url, {"secret_key": secret_key(settings)}, file)
    out.print(f"Wrote {file} ({size / 1_000_000:.1f} MB). It holds your keys: keep it safe.")


@awaited
async def restore(
    file: Annotated[Path, typer.Argument(help="A file that `backup` wrote.")],
    replace: Annotated[
        bool, typer.Option("--replace", help="Put it in place of the accounts that are connected here.")
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Only try it, in a database that is thrown away, and tell what it holds.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Put a backup into the database, in place of what is there: all of it, or nothing.

    Stop the program first. Nothing is carried out from a backup: what you had decided and was not done yet is asked
    again, and what was being done is shown as failed, to be looked at and tried again.

    With --check nothing here is touched, and the program may be at work: the backup is restored into an empty database
    of its own, opened, looked through and thrown away, and you are told how long that took."""
    from email_assistant.cli.watchdog import Watchdog
    from email_assistant.db.backup import read_backup

    if check and replace:
        raise typer.BadParameter("--check changes nothing, --replace does: give one of them")
    with Watchdog() as watchdog:
        watchdog.expect_files(file.parent)
        found = read_backup(file)
        if check:
            watchdog.stop_watching()
            await _drill(file, found, as_json=as_json)
        else:
            await _put_back(file, found, watchdog, replace=replace, as_json=as_json)


async def _drill(file: Path, found: "Backup", *, as_json: bool) -> None:
    from email_assistant.cli.drill import drill

    done = await drill(file, found)
    if as_json:
        print_json(done)
        return
    say(
        f"{file} ({done.file_bytes / 1_000_000:.1f} MB) can be restored: in {done.seconds} s it was a database of "
        f"{done.database_bytes / 1_000_000:.1f} MB."
    )
    last = f", the last of {when(done.last_mail)}" if done.last_mail else ""
    say(f"Made {when(found.created_at)} by version {done.version}, of {', '.join(done.accounts) or 'no account'}.")
    say(
        f"It holds {done.mails:,} mails{last}, {done.waiting:,} items that wait, {done.rules:,} rules; its key reads "
        f"all {done.secrets} logins and addresses."
    )


async def _put_back(file: Path, found: "Backup", watchdog: "Watchdog", *, replace: bool, as_json: bool) -> None:
    import psycopg

    from email_assistant.app import open_app
    from email_assistant.cli.watchdog import SECONDS
    from email_assistant.db.restore import restore as put_back
    from email_assistant.home import check_secret_key, keep_secret_key

    with opened_database(watchdog) as (settings, url):
        check_secret_key(settings, found.keys["secret_key"])
        psycopg.connect(url).close()  # or it is said that the database does not answer
        watchdog.stop_watching()  # there may be much to put back
        await put_back(url, file, replace=replace, wait_seconds=SECONDS)
        keep_secret_key(settings, found.keys["secret_key"])
        async with open_app(settings, url, wait_seconds=SECONDS) as app:
            addresses = [account.address for account in await app.accounts.of_user(app.user_id)]
    if as_json:
        print_json({"accounts": addresses, "created_at": found.created_at})
        return
    out.print(f"Restored {', '.join(addresses) or 'no account'}, as of {when(found.created_at)}.")
    out.print("`email-assistant up` goes on from there; it looks first at what happened since.")
