"""The person's own mailbox as a rehearsal reads it, with a bar that shows how far it is."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from email_assistant.cli.asking import agreed
from email_assistant.cli.context import NO_MODEL, CommandError, err, opened, tell

if TYPE_CHECKING:
    from email_assistant.accounts.account import Account
    from email_assistant.app import App
    from email_assistant.rehearsal.own import Period
    from email_assistant.rehearsal.past import PastMails, ToRead
    from email_assistant.rehearsal.recorded import Recorded
    from email_assistant.rehearsal.walk import Judged
    from email_assistant.settings import Settings
    from email_assistant.work.rehearsed_letters import LettersBesideSent

_TOLD: Final = 60.0  # seconds; what takes less is not announced


@dataclass(frozen=True, slots=True)
class Past:
    """A mailbox as it was read."""

    settings: "Settings"
    account: "Account"
    own: frozenset[str]  # the person's addresses
    entries: "list[Recorded]"


@contextmanager
def bar(what: str, total: int | None, *, counted: bool = False) -> Iterator[Callable[[int], None]]:
    """A bar on the terminal, moved by what it is told; nothing where there is no terminal. `counted`: with numbers."""
    from rich.progress import MofNCompleteColumn, Progress, TextColumn

    columns = Progress.get_default_columns()
    if counted:
        columns = (*columns, MofNCompleteColumn(), TextColumn("mails"))
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as progress:
        task = progress.add_task(what, total=total)
        yield lambda done: progress.update(task, completed=done)


async def chosen(app: "App", address: str | None) -> "Account":
    """The mailbox that is meant. Raises UnknownAccount."""
    accounts = app.accounts
    return accounts.here(await accounts.find(app.user_id, address)) if address else await accounts.first(app.user_id)


async def read_past(address: str | None, period: "Period") -> Past:
    """Fetch what is missing, and give all of it. Raises UnknownAccount, MailboxClosed, GoogleError."""
    from email_assistant.app import past_mails

    async with opened() as app:
        account, past = await chosen(app, address), past_mails(app)
        since = period.since(datetime.now(UTC))
        found = await past.look(account, since)
        await _fetch(past, account, found)
        return Past(app.settings, account, found.own, await past.history(account, found.own, since))


def ask_for_letters(past: Past, judged: "Sequence[Judged]", budget: int, *, yes: bool) -> "list[Judged]":
    """The mails that letters are to be proposed to, once the person has agreed to what that costs. Raises CommandError,
    typer.Abort."""
    from email_assistant.rehearsal.cost import drafting, written
    from email_assistant.work.rehearsed_letters import newest_answered

    settings = past.settings
    if not settings.has_model:
        raise CommandError(f"no model {NO_MODEL}")
    wanted = newest_answered(judged, budget)
    money = drafting(wanted, settings)
    if settings.model_stand_in:
        costs = "canned letters, which cost nothing"
    elif money is None:
        costs = "what that costs is not known: EMAIL_ASSISTANT_PRICES has no price for it"
    else:
        costs = f"about {written(money, settings.currency)}"
    model = settings.model_for("response")
    agreed(f"{model} is asked for {len(wanted)} letters, {costs}.", yes)
    return wanted


async def letters_beside_sent(past: Past, wanted: "Sequence[Judged]") -> "LettersBesideSent":
    """Have the letters proposed. Raises what the model does, BudgetSpent."""
    from email_assistant.app import rehearsed_letters
    from email_assistant.work.rehearsed_letters import LettersBesideSent

    async with opened() as app:
        proposals, found = rehearsed_letters(app), []
        with bar("Drafting", len(wanted), counted=True) as progress:
            async for letter in proposals.propose(past.account, past.entries, wanted):
                found.append(letter)
                progress(len(found))
    settings = past.settings
    return LettersBesideSent(settings.model_for("response"), settings.model_stand_in, found)


async def forgotten(address: str | None) -> str:
    """Delete what was read, and say so."""
    from email_assistant.app import past_mails

    async with opened() as app:
        account = await chosen(app, address)
        count = await past_mails(app).forget(account.id)
    return f"Forgotten: {count:,} past mails of {account.address}. Nothing changed in Gmail."


async def _fetch(past: "PastMails", account: "Account", found: "ToRead") -> None:
    import asyncio

    missing = len(found.missing)
    if found.seconds and found.seconds > _TOLD:
        tell(
            f"{missing:,} mails of {account.address} are read: {found.units:,} units of Gmail's quota, about "
            f"{round(found.seconds / 60):,} min. Ctrl-C stops it, and the same command goes on from there."
        )
    try:
        with bar("Reading", missing, counted=True) as progress:
            await past.fetch(account, found.missing, progress)
    except asyncio.CancelledError:
        tell(
            f"Stopped. {await past.kept(account.id):,} mails are kept here, and the same command goes on from there; "
            "`email-assistant rehearse --forget` deletes them."
        )
        raise
