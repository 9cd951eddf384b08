"""`email-assistant rotate-key`"""

from email_assistant.cli.context import CommandError, awaited, opened_database, out

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

    from email_assistant.accounts.rekey import encrypt_anew
    from email_assistant.accounts.vault import keys_of
    from email_assistant.app import open_app
    from email_assistant.cli.patience import SECONDS, Patience
    from email_assistant.db.restore import until_at_rest
    from email_assistant.home import keep_secret_key, new_secret_key, secret_key

    with Patience() as patience, opened_database(patience) as (settings, url):
        keys, is_set = keys_of(secret_key(settings)), settings.secret_key is not None
        if is_set and len(keys) == 1:
            raise CommandError(_HOW)
        if not is_set:
            with psycopg.connect(url, autocommit=True) as conn:
                await until_at_rest(conn)
            if len(keys) == 1:
                keys = [new_secret_key(), *keys]
                keep_secret_key(settings, ",".join(keys))  # so that one that is killed here can be run again
        async with open_app(settings, url, patience=SECONDS) as app:
            count = await encrypt_anew(app.pool, app.vault)
        keep_secret_key(settings, keys[0])
    what = "1 login or address" if count == 1 else f"{count} logins and addresses"
    out.print(f"Encrypted anew, with the new key: {what}. The key before opens nothing here now.")
    if is_set:
        out.print("Leave the first key alone in EMAIL_ASSISTANT_SECRET_KEY, and start the program again.")
    out.print("Backups made before need it still; make a new one.")
