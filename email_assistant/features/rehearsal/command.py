"""`email-assistant rehearse`: what the assistant would have shown of one's own past mail, against what one answered."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING, Annotated, Final

import typer

from email_assistant.cli.asking import agreed
from email_assistant.cli.context import (
    NO_MODEL,
    AsJson,
    CommandError,
    bar,
    check_writable,
    ended_in_words,
    opened,
    print_json,
    print_table,
    print_text,
    run,
    say,
    tell,
    when,
)

if TYPE_CHECKING:
    from email_assistant.accounts.account import Account
    from email_assistant.app import App
    from email_assistant.features.rehearsal.letters import LettersBesideSent
    from email_assistant.features.rehearsal.report import Period, Rehearsed
    from email_assistant.features.rehearsal.walk import Prediction, Walked
    from email_assistant.features.rehearsal.ways import Bin, Way
    from email_assistant.settings import Settings
    from email_assistant.sync.past_mails import PastMails, Recorded, ToRead

Mbox = Annotated[Path, typer.Option(metavar="FILE", help="Your mail, the sent mail too: an .mbox export.")]
Addresses = Annotated[
    list[str], typer.Option("--address", metavar="ADDRESS", help="Yours; once for each that you have.")
]

_MOST_MISSED: Final = 20
_TOLD: Final = 60.0  # seconds; what takes less is not announced


@dataclass(frozen=True, slots=True)
class Past:
    """A mailbox as it was read."""

    settings: "Settings"
    account: "Account"
    own: frozenset[str]  # the person's addresses
    entries: "list[Recorded]"


async def chosen(app: "App", address: str | None) -> "Account":
    """The mailbox that is meant. Raises UnknownAccount."""
    accounts = app.accounts
    return accounts.here(await accounts.find(app.user_id, address)) if address else await accounts.first(app.user_id)


async def read_past(address: str | None, period: "Period") -> Past:
    """Fetch what is missing, and give all of it. Raises UnknownAccount, MailboxClosed, GoogleError."""

    async with opened() as app:
        account, past = await chosen(app, address), app.past_mails
        since = period.since(datetime.now(UTC))
        found = await past.look(account, since)
        await _fetch(past, account, found)
        return Past(app.settings, account, found.own, await past.history(account, found.own, since))


def ask_for_letters(past: Past, judged: "Sequence[Prediction]", budget: int, *, yes: bool) -> "list[Prediction]":
    """The mails that letters are to be proposed to, once the person has agreed to what that costs. Raises CommandError,
    typer.Abort."""
    from email_assistant.features.rehearsal.cost import drafting, written
    from email_assistant.features.rehearsal.letters import newest_answered

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


async def letters_beside_sent(past: Past, wanted: "Sequence[Prediction]") -> "LettersBesideSent":
    """Have the letters proposed. Raises what the model does, BudgetSpent."""
    from email_assistant.features.rehearsal.letters import LettersBesideSent, RehearsedLetters

    async with opened() as app:
        proposals, found = RehearsedLetters.of(app), []
        with bar("Drafting", len(wanted), counted=True) as progress:
            async for letter in proposals.propose(past.account, past.entries, wanted):
                found.append(letter)
                progress(len(found))
    settings = past.settings
    return LettersBesideSent(settings.model_for("response"), settings.model_stand_in, found)


async def forgotten(address: str | None) -> str:
    """Delete what was read, and say so."""

    async with opened() as app:
        account = await chosen(app, address)
        count = await app.past_mails.forget(account.id)
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


def rehearse(
    account: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Whose mailbox; without it, your first one.")
    ] = None,
    mbox: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Go through an .mbox export instead, with the sent mail in it.")
    ] = None,
    address: Annotated[
        list[str] | None, typer.Option(metavar="ADDRESS", help="With --mbox: yours; once for each that you have.")
    ] = None,
    months: Annotated[
        int | None, typer.Option(min=1, max=120, help="Judge the last so many; what is older teaches. Of a mailbox: 6.")
    ] = None,
    until: Annotated[
        str | None, typer.Option(metavar="DATE", help="Learn from what was known on this day; judge what came after.")
    ] = None,
    scores: Annotated[
        Path | None, typer.Option(metavar="FILE.csv", help="Write what was thought of each mail, by its Message-ID.")
    ] = None,
    model: Annotated[
        bool, typer.Option("--model", help="Have letters proposed to mails that you answered, beside what you sent.")
    ] = False,
    budget: Annotated[int, typer.Option(min=1, max=500, help="With --model: so many letters, the newest.")] = 20,
    yes: Annotated[bool, typer.Option("--yes", help="With --model: do not ask before it costs something.")] = False,
    forget: Annotated[bool, typer.Option("--forget", help="Delete what was read of the mailbox before.")] = False,
    as_json: AsJson = False,
) -> None:
    """Go through your own past mail: which of it would have been shown to you, and which of those did you answer?

    Each mail is judged by what was known on the day it came. Nothing is sent, and nothing changes in Gmail. What is
    read of your mailbox is kept here, so that it can be stopped at any time and goes on from there; --forget deletes
    it. With --mbox nothing is stored. The same mail gives the same result."""
    with ended_in_words():
        from email_assistant.features.rehearsal.cost import estimate
        from email_assistant.features.rehearsal.report import Period, rehearsed, report, write_scores

        _check_options(mbox, address, account, of_mailbox=forget or model)
        if forget:
            say(run(lambda: forgotten(account)))
            return
        if scores is not None:
            check_writable(scores)
        period = Period(months, _day(until, months))
        cost, letters = None, None
        if mbox is not None:
            own = addresses_of(address or [])
            entries = read_history(mbox, own)
            walked = _walked(entries, own, period.begins(entries) if months or until else None)
            found = report(walked, own)
        else:
            past = run(lambda: read_past(account, period))
            with bar("Going through it", len(past.entries)) as progress:
                walked, found = rehearsed(past.entries, past.own, period, progress)
            cost = estimate(walked.counted, past.settings)
            if model:
                wanted = ask_for_letters(past, walked.judged, budget, yes=yes)
                letters = run(lambda: letters_beside_sent(past, wanted))
        if scores is not None:
            write_scores(scores, walked.judged)
    if as_json:
        more = {} if mbox else {"cost": cost and asdict(cost), "drafts": letters and asdict(letters)}
        print_json(asdict(found) | more)
        return
    _tell(found)
    if cost:
        say(f"\n{cost.sentence}")
    if letters:
        _tell_letters(letters)


def _check_options(mbox: Path | None, address: list[str] | None, account: str | None, *, of_mailbox: bool) -> None:
    """Raises CommandError."""
    if mbox is None and address:
        raise CommandError("--address goes with --mbox; --account says which of your mailboxes is meant")
    if mbox is not None and (account or of_mailbox):
        raise CommandError("--account, --model and --forget are about a mailbox, and --mbox is about a file")
    if mbox is not None and not address:
        raise CommandError("--mbox needs your --address, once for each that you have")


def addresses_of(given: list[str]) -> frozenset[str]:
    """Raises CommandError for what is no address."""
    from email_assistant.mail.address import address_of

    found = frozenset(map(address_of, given))
    for each in found:
        if "@" not in each.strip("@"):
            raise CommandError(f"{each!r} is no address: give yours, such as --address ada@example.com")
    return found


def read_history(mbox: Path, own: frozenset[str]) -> "list[Recorded]":
    """The mails of a file, with a bar that shows how far it is. Raises NoHistory."""
    from email_assistant.features.rehearsal.mbox import read

    with bar("Reading", mbox.stat().st_size if mbox.is_file() else None) as progress:
        return read(mbox, own, progress)


def _walked(entries: "list[Recorded]", own: frozenset[str], until: datetime | None) -> "Walked":
    from email_assistant.features.rehearsal.walk import walk

    with bar("Going through it", len(entries)) as progress:
        return walk(entries, own, until, progress)


def _day(until: str | None, months: int | None) -> datetime | None:
    """Raises CommandError."""
    if until is not None and months is not None:
        raise CommandError("--until and --months both say from when on mails are judged: give one of them")
    if until is None:
        return None
    try:
        found = datetime.fromisoformat(until)
    except ValueError:
        raise CommandError(f"--until takes a day, such as 2026-05-04, not {until!r}") from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _tell(found: "Rehearsed") -> None:
    say(found.sentence)
    _tell_missed(found)
    if found.only_learned_from:
        say(f"The first {found.only_learned_from:,} mails only taught me; they are not in these figures.")
    if found.answers_to_deleted:
        say(f"{found.answers_to_deleted:,} of your answers are to mails that are gone; what they quote counted.")
    if found.hours_to_answer is not None:
        say(f"Half of your answers came within {found.hours_to_answer:,} hours.")
    for label, (mails, shown) in found.by_label.items():
        say(f"Of {mails:,} with Gmail's label {label} I would have shown {shown:,}.")
    say("")
    tell_ways(found.ways.values(), found.mails, found.answered, found.go_by)
    say("")
    columns = ["probability of an answer", "mails", "expected", "answered", "95 % of the time"]
    print_table(columns, calibrated(found.calibration))
    say("")
    print_table(["what decides", ""], [[name, f"{weight:+.2f}"] for name, weight in found.facts.items()])
    say("")
    print_table(
        ["sender", "mails", "answered", "shown"],
        [[each.sender, f"{each.mails:,}", f"{each.answered:,}", f"{each.shown:,}"] for each in found.senders],
    )


def _tell_letters(found: "LettersBesideSent") -> None:
    for each in found.letters:
        say("")
        print_text(f"{when(each.at)}  {each.sender}  {each.subject}", "bold")
        if each.verdict:
            say(each.verdict)
        say("  Proposed:")
        print_text(indent(each.proposed or f"No letter: {each.why_none}.", "    "))
        say("  Sent:")
        print_text(indent(each.sent, "    "))
    say("")
    say(found.sentence)


def _tell_missed(found: "Rehearsed") -> None:
    if not found.missed:
        return
    say(found.missed_sentence)
    for each in found.missed[:_MOST_MISSED]:
        print_text(f"  {when(each.at)}  {each.sender}  {each.subject}")
    if len(found.missed) > _MOST_MISSED:
        say(f"  and {len(found.missed) - _MOST_MISSED:,} more, which --json names.")


def calibrated(bins: "Sequence[Bin]") -> list[list[str]]:
    """Rows of a table: of so probable a mail, how many there were, what was expected and what was found."""
    return [
        [
            f"{each.low:.0%} to {each.high:.0%}", f"{each.cases:,}", f"{each.expected:.0%}",
            f"{each.observed:.0%}", f"{each.interval[0]:.0%} to {each.interval[1]:.0%}",
        ]
        for each in bins
    ]  # fmt: skip


def tell_ways(ways: "Iterable[Way]", mails: int, answered: int, go_by: str) -> None:
    print_table(
        ["what is shown", f"of {mails:,} mails", f"of {answered:,} that you answered", "answered above others (AUC)"],
        [
            [
                each.name, f"{each.shown:,}", each.in_words(answered),
                "" if each.auc is None else f"{each.auc:.2f}",
            ]
            for each in ways
        ],
    )  # fmt: skip
    say(go_by)
