"""`email-assistant mails` and `retry`"""

from typing import Annotated

import typer

from email_assistant.cli.context import AsJson, CommandError, OfAccount, opened, out, print_json, print_table, run


def mails(
    state: Annotated[str | None, typer.Option(help="new, triaging, waiting, acting, done or failed.")] = None,
    account: OfAccount = None,
    cursor: Annotated[str | None, typer.Option(help="Go on from where the last page ended.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show all mail and what became of it, newest first."""

    async def command() -> None:
        from email_assistant.inbox.mails import STATES

        chosen = next((s for s in STATES if s == state), None)
        if state is not None and chosen is None:
            raise CommandError(f"--state takes {', '.join(STATES)}, not {state!r}")
        async with opened() as app:
            rows, following = await app.mails.page(app.user_id, state=chosen, account=account, cursor=cursor)
        if as_json:
            print_json({"items": rows, "next": following})
            return
        columns = ["mail", "received", "from", "subject", "state", "class", "reason"]
        print_table(
            columns,
            [
                [
                    m.id,
                    f"{m.received_at.astimezone():%Y-%m-%d %H:%M}",
                    m.sender,
                    m.subject or "(no subject)",
                    m.state,
                    m.classification or "",
                    m.reason or "",
                ]
                for m in rows
            ],
        )
        if following:
            out.print(f"More: email-assistant mails --cursor {following}", soft_wrap=True)

    run(command)


def retry(
    mail: Annotated[str, typer.Argument(metavar="MAIL", help="Gmail's id of a failed mail, as `mails` shows it.")],
    account: OfAccount = None,
) -> None:
    """Take a failed mail up again."""

    async def command() -> None:
        async with opened() as app:
            await app.mails.retry(app.user_id, mail, account)
        out.print(f"Trying mail {mail} again.", highlight=False)

    run(command)
