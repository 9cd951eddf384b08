"""`email-assistant forget …`"""

from typing import TYPE_CHECKING, Annotated

import typer

from email_assistant.cli import accounts
from email_assistant.cli.context import (
    AsJson,
    CommandError,
    OfAccount,
    awaited,
    here,
    opened,
    print_json,
    print_table,
    print_text,
    say,
)
from email_assistant.cli.mails import MailId

if TYPE_CHECKING:
    from email_assistant.work.forgetting import Forgetting, ToForget, WhatGoes

_MOST_SHOWN = 30
_AFTERWARDS = (
    "Gmail was not changed. None of these mails is read from there again; what comes from now on, or was not read yet, "
    "is new. "
    "Backups and exports that you made before still hold it: delete them, or make new ones."
)

Yes = Annotated[bool, typer.Option("--yes", help="Do it; without this, it is only shown what would go.")]

app = typer.Typer(
    help="Delete a mail, a correspondent or an account wherever anything of them is stored.\n\n"
    "Nothing changes in Gmail. "
    "Without --yes it is only shown what would go.",
    no_args_is_help=True,
)


@app.command()
@awaited
async def mail(mail: MailId, account: OfAccount = None, yes: Yes = False, as_json: AsJson = False) -> None:
    """A mail, with its whole conversation, what was learned from it, and the chats that name it.

    Its other mails quote it, so they go as well. A chat that tells of it in other words, without its subject or an id,
    can't be known: look for those yourself."""
    from email_assistant.inbox.items import NoItem

    async with opened() as opened_app:
        forgets = opened_app.forgetting
        try:
            wanted = await forgets.of_mail(opened_app.user_id, mail, account)
        except NoItem as error:
            raise CommandError(f"{error}; `email-assistant mails` shows those that there are") from None
        await _shown_or_done(forgets, wanted, yes=yes, as_json=as_json)


@app.command()
@awaited
async def correspondent(
    who: Annotated[str, typer.Argument(metavar="WHO", help="An address, or a domain as @example.org.")],
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """An address, or all of a domain: every conversation that names it anywhere, the rules that do, and the chats.

    A conversation with others goes as a whole if it names the address in one place. Of calls of other programs' agents
    the words are taken out, and the rows stay."""

    async with opened() as opened_app:
        forgets = opened_app.forgetting
        await _shown_or_done(forgets, forgets.of_correspondent(opened_app.user_id, who), yes=yes, as_json=as_json)


@app.command()
def account(address: accounts.Address, yes: Yes = False) -> None:
    """A mailbox with all that is stored of it, as `account remove` does."""
    accounts.remove(address, yes=yes)


async def _shown_or_done(forgets: "Forgetting", wanted: "ToForget", *, yes: bool, as_json: bool) -> None:
    plan = await (forgets.carry_out(wanted) if yes else forgets.plan(wanted))
    if as_json:
        print_json({"forgotten": yes, **plan.told})
        return
    _print(plan)
    if plan.is_nothing:
        say("Nothing of it is stored.")
    elif yes:
        say(f"Forgotten. {_AFTERWARDS}")
    elif not plan.refused:
        say("Nothing was forgotten yet: the same with --yes does it.")


def _print(plan: "WhatGoes") -> None:
    print_text(f"What goes: {plan.what}.")
    if plan.conversations:
        print_table(
            ["conversation", "account", "from", "mails", "waiting", "decided", "done", "drafts left"],
            [
                [
                    f"chat {each.chat}" if each.chat else each.subject or "(no subject)",
                    each.account,
                    each.sender or "",
                    *map(str, (each.mails, each.waiting, each.decided, each.done, each.drafts)),
                ]
                for each in plan.conversations[:_MOST_SHOWN]
            ],
        )
    if len(plan.conversations) > _MOST_SHOWN:
        print_text(f"… and {len(plan.conversations) - _MOST_SHOWN} conversations more; --json shows all.")
    for rule in plan.rules:
        print_text(f"Rule: {rule}")
    for number, what in plan.counts:
        if number:
            print_text(f"{number:,} {what}")
    for note in (*plan.notes, *plan.refused):
        print_text(here(note), "bold")
