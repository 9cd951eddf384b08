"""`email-assistant eval …`: how well the triage and the chat do, each figure with what it was measured on."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, tzinfo
from hashlib import file_digest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from email_assistant.cli.asking import Yes, agreed, in_money, money, with_model
from email_assistant.cli.context import (
    AsJson,
    CommandError,
    OfAccount,
    bar,
    check_new,
    ended_in_words,
    load_settings,
    one_of,
    opened,
    our_version,
    print_json,
    print_table,
    run,
    say,
)
from email_assistant.features.rehearsal.command import (
    Addresses,
    Mbox,
    addresses_of,
    calibrated,
    read_history,
    tell_ways,
)

if TYPE_CHECKING:
    from email_assistant.features.rehearsal.labelled import Labelled
    from email_assistant.features.rehearsal.letters import KeptLetters
    from email_assistant.features.rehearsal.measure import Measured, Stage
    from email_assistant.features.rehearsal.requests import NodeAnswer, NodeFigures, Outcome
    from email_assistant.settings import Settings
    from email_assistant.trail.activity import ApprovedLetter

Report = Annotated[
    Path | None,
    typer.Option(metavar="FILE.html", help="Write the figures with plots, as a new page that stands alone."),
]

app = typer.Typer(
    help="Measure how well mail is told apart, how much of the drafts is kept, and what a chat makes of requests.",
    no_args_is_help=True,
)


@app.command()
def triage(
    data: Annotated[Path, typer.Option(metavar="FILE", help="Mails with their labels, one JSON object a line.")],
    train: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Train on these; left out: ten-fold, on the mails themselves.")
    ] = None,
    stage: Annotated[str, typer.Option(help="rules, classifier, model or cascade.")] = "classifier",
    model: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Which model model and cascade ask; without it, yours."),
    ] = None,
    report: Report = None,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """How well a stage tells what a mail needs: respond, notify or ignore.

    Intervals hold the truth with 95 %. What is decided alone has a confidence that was chosen on the training mails.
    The stage model asks your model about every mail, cascade about those that the classifier may not decide by then;
    first it is said what that costs."""
    with ended_in_words():
        from email_assistant.features.rehearsal.labelled import apart, read
        from email_assistant.features.rehearsal.measure import FOLDS, STAGES, measure

        wanted = one_of(STAGES, stage, "--stage takes")
        if report is not None:
            check_new(report)
        mails = read(data)
        learned = apart(read(train), mails) if train else None
        asks = wanted in ("model", "cascade")
        asked = run(lambda: _asked(wanted, mails, learned or [], model, yes)) if asks else None
        said, alone = (asked.said, asked.alone) if asked else ([], [])
        with bar("Measuring", FOLDS) as progress:
            found = measure(wanted, mails, learned, progress, said=said, alone=alone)
        about = _about(data, train, mails, asked)
        says = list(_in_sentences(found, about))
        if report is not None:
            from email_assistant.features.rehearsal.plots import of_triage, write

            write(report, of_triage(found, about, says))
    if as_json:
        print_json({**about, **asdict(found)})
    else:
        for sentence in says:
            say(sentence)
        _tell_triage(found)


@dataclass(frozen=True, slots=True)
class _Asked:
    """What each mail was said to need, where a model was asked about some, and what that took."""

    model: str
    said: list[str]
    alone: list[float | None]  # how sure the stage before the model was, where it decided
    cost: dict[str, Any]


async def _asked(
    stage: "Stage", mails: "list[Labelled]", before: "list[Labelled]", name: str | None, yes: bool
) -> _Asked:
    """`before`: mails that came before. Raises CommandError, typer.Abort, and what the model raises."""
    from email_assistant.app import open_models
    from email_assistant.features.rehearsal.labelled import cost, questions, said
    from email_assistant.features.rehearsal.measure import Thoughts, decided_alone

    settings = _with_real_model(name)
    alone: Thoughts = [None] * len(mails)
    if stage == "cascade":
        alone = decided_alone([*before, *mails])[len(before) :]
    left = [place for place, thought in enumerate(alone) if thought is None]
    model, asked = settings.model_for("triage"), questions([mails[place] for place in left])
    expected = cost(asked)
    price = in_money(settings, model, *expected)
    agreed(f"{model} is asked {len(asked):,} times, about {sum(expected):,} tokens{price}.", yes)
    async with open_models(settings) as (models, tally):
        with bar("Asking", len(asked), counted=True) as progress:
            answers = dict(zip(left, await said(models, asked, progress), strict=True))
    used = (tally.prompt_tokens, tally.completion_tokens)
    a_mail = {"mails": len(left), "tokens_of_a_mail": sum(used) / len(mails), "money": money(settings, model, *used)}
    return _Asked(
        model,
        [answers[place] if thought is None else thought[0] for place, thought in enumerate(alone)],
        [None if thought is None else thought[1] for thought in alone],
        asdict(tally) | a_mail,
    )


def _with_real_model(name: str | None) -> "Settings":
    """The settings with the model that is to be measured. Raises CommandError, SettingsError."""
    settings = with_model(load_settings(), name)
    if settings.model_stand_in:
        raise CommandError(f"no model is measured here, since its answers would say nothing: {settings.model_stand_in}")
    return settings


@app.command()
def chat(
    data: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Requests with what is right, in YAML or JSON; left out: 40 invented ones."),
    ] = None,
    model: Annotated[str | None, typer.Option(metavar="NAME", help="Which model is asked; without it, yours.")] = None,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """How often a chat's policy router gives the right types of tools, and its task executor the right first call.

    Your model is asked as a chat asks it, about the tools that ship; no tool is run, and no mailbox is needed. First it
    is said what that costs. Intervals hold the truth with 95 %."""
    with ended_in_words():
        from email_assistant.features.rehearsal.requests import figures

        told, about = run(lambda: _told_of_chat(data, model, yes))
        router, executor = figures(told, "router"), figures(told, "executor")
    wrong = [each for each in told if each.outcome != "right"]
    if as_json:
        print_json({**about, "router": asdict(router), "executor": asdict(executor), "wrong": wrong})
    else:
        for sentence in _of_chat(router, executor, about):
            say(sentence)
        rows = [[str(each.number), each.request, each.node, each.outcome, each.expected, each.got] for each in wrong]
        print_table(["request", "", "node", "came of it", "right", "got"], rows)


async def _told_of_chat(data: Path | None, name: str | None, yes: bool) -> "tuple[list[NodeAnswer], dict[str, Any]]":
    """What came of each request, and what that was measured on. Raises CommandError, BadFile, typer.Abort, and what the
    model raises."""
    from email_assistant.app import open_models, open_shipped_tools
    from email_assistant.features.rehearsal.requests import SHIPPED, ask, cost, read

    settings, path = _with_real_model(name), data or SHIPPED
    async with open_shipped_tools(settings) as tools:
        posed = await read(path, tools)
    model, expected, questions = settings.model_for("chat"), cost(posed), 2 * len(posed)
    price = in_money(settings, model, *expected)
    agreed(f"{model} is asked {questions:,} times, about {sum(expected):,} tokens{price}.", yes)
    async with open_models(settings) as (models, tally):
        with bar("Asking", questions) as progress:
            told = await ask(models, posed, progress)
    used = (tally.prompt_tokens, tally.completion_tokens)
    a_request = {"tokens_of_a_request": sum(used) / len(posed), "money": money(settings, model, *used)}
    return told, {
        "version": our_version(),
        "data": str(data) if data else None,
        "data_sha256": _sha256(path),
        "model": model,
        "cost": asdict(tally) | a_request,
    }


def _of_chat(router: "NodeFigures", executor: "NodeFigures", about: Mapping[str, Any]) -> Iterator[str]:
    on = f"{router.n:,} requests of {about['data']}" if about["data"] else f"the {router.n:,} requests that ship"
    yield f"{about['model']} on {on}:"
    yield f"As policy router it gave the right types for {_counted(router, ('too many', 'too few', 'other types'))}"
    calls = _counted(executor, ("wrong argument", "no call", "other call"))
    yield f"As task executor, given the right types, it proposed the right first call for {calls}"
    if executor.wrong_arguments:
        yield f"Wrong arguments: {', '.join(f'{name} {n:,}' for name, n in executor.wrong_arguments.items())}."
    if not about["data"]:
        yield "These requests are made up: yours may be another matter."
    cost = about["cost"]
    price = "" if cost["money"] is None else f", {cost['money'] / router.n:,.5f} in money"
    yield f"A request took {cost['tokens_of_a_request']:,.0f} tokens of both{price}."


def _counted(found: "NodeFigures", faults: "Sequence[Outcome]") -> str:
    low, high = found.interval
    others = ", ".join(f"{fault} {found.wrong.get(fault, 0):,}" for fault in (*faults, "unreadable"))
    return f"{found.right:,} of {found.n:,}, {found.right / found.n:.0%} ({low:.0%} to {high:.0%}); {others}."


@app.command()
def drafts(
    data: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Letters of a file instead, one JSON object a line.")
    ] = None,
    account: OfAccount = None,
    report: Report = None,
    as_json: AsJson = False,
) -> None:
    """How much of the letters that you were proposed is left in those that you approved, by week and by kind.

    Intervals hold the truth with 95 %. No model is asked."""
    with ended_in_words():
        from email_assistant.features.rehearsal.letters import measure, read
        from email_assistant.features.rehearsal.plots import of_drafts, write

        if report is not None:
            check_new(report)
        letters, zone, canned = (read(data), UTC, "") if data else run(lambda: _approved(account))
        found = measure(letters, zone)
        about = {
            "version": our_version(),
            "data": str(data) if data else None,
            "data_sha256": _sha256(data) if data else None,
            "canned": bool(canned),
        }
        says = [*_of_drafts(found.all), *([f"They say nothing of a model: {canned}"] if canned else [])]
        if report is not None:
            write(report, of_drafts(found, about, says))
    if as_json:
        print_json({**about, **asdict(found)})
        return
    for sentence in says:
        say(sentence)
    rows = [
        [
            each.name, f"{each.letters:,}", f"{each.unchanged:,}",
            f"{each.share:.0%} ({each.interval[0]:.0%} to {each.interval[1]:.0%})",
            f"{each.distance:.0%} ({each.distance_interval[0]:.0%} to {each.distance_interval[1]:.0%})",
        ]
        for each in [*found.weeks, *found.kinds]
    ]  # fmt: skip
    print_table(["week or kind", "letters", "unchanged", "sentences kept", "words changed"], rows)


async def _approved(account: str | None) -> "tuple[list[ApprovedLetter], tzinfo, str]":
    """The letters, in which zone weeks begin, and what stands in a model's place."""
    from email_assistant.trail.activity import approved_letters

    async with opened() as app:
        accounts = (
            [await app.accounts.find(app.user_id, account)] if account else await app.accounts.of_user(app.user_id)
        )
        found = await approved_letters(app.pool, app.user_id, [each.id for each in accounts])
        return found, accounts[0].zone if accounts else UTC, app.settings.model_stand_in


def _of_drafts(found: "KeptLetters") -> Iterator[str]:
    low, high = found.interval
    yield (
        f"Of {found.letters:,} letters {found.unchanged:,} went out as they were proposed. Of a letter's sentences "
        f"{found.share:.1%} were kept ({low:.1%} to {high:.1%}), of its words {found.distance:.1%} changed."
    )


@app.command()
def rehearsal(mbox: Mbox, address: Addresses, as_json: AsJson = False) -> None:
    """How well it is told which mails you answer, beside simple ways.

    All are trained on the older 60 % of the mails, and judged on the rest."""
    with ended_in_words():
        from email_assistant.features.rehearsal.ways import compare

        own = addresses_of(address)
        entries = read_history(mbox, own)
        with bar("Going through it", len(entries)) as progress:
            found = compare(entries, own, progress)
    if as_json:
        figures = asdict(found)
        print_json({"mbox": str(mbox), **figures.pop("ways"), **figures})
        return
    say(
        f"Learned from {found.learned_from:,} mails up to {found.until:%Y-%m-%d}, and judged the {found.judged:,} "
        f"after them, of which {found.answered:,} were answered."
    )
    tell_ways(found.ways.values(), found.judged, found.answered, found.go_by)


def _sha256(file: Path) -> str:
    with file.open("rb") as opened:
        return file_digest(opened, "sha256").hexdigest()


def _about(data: Path, train: Path | None, mails: "Sequence[Labelled]", asked: _Asked | None) -> dict[str, Any]:
    """What figures were measured on and with, so that they can be compared."""
    return {
        "version": our_version(),
        "data": str(data),
        "data_sha256": _sha256(data),
        "train": str(train) if train else None,
        "train_sha256": _sha256(train) if train else None,
        "synthetic": sum(each.is_synthetic for each in mails) / len(mails),
        "model": asked.model if asked else None,
        "cost": asked.cost if asked else None,
    }


def _in_sentences(found: "Measured", about: Mapping[str, Any]) -> Iterator[str]:
    low, high = found.interval
    by = f" {about['model']}" if about["model"] else ""
    trained = f", trained on {about['train']}" if about["train"] else f", in {found.folds} folds" if found.folds else ""
    on = f"{found.n:,} mails of {about['data']}{trained}"
    yield f"{found.stage}{by} on {on}: {found.accuracy:.1%} right ({low:.1%} to {high:.1%})."
    if about["synthetic"]:
        yield f"{about['synthetic']:.0%} of the mails are made up, by the file's own word: yours may be another matter."
    if found.stage == "cascade":
        yield f"The model was asked about {about['cost']['mails']:,} of them; the classifier decided the rest."
    elif found.error_in_coverage is None:
        yield "It is sure enough of none of them."
    if found.error_in_coverage is not None:
        yield (
            f"Of the {found.coverage:.0%} that it is sure of, {found.error_in_coverage:.1%} are wrong; less than "
            f"{found.bound:.1%} with a probability of 95 %."
        )
    yield (
        "So many cases prove that it may decide those alone."
        if found.proven
        else "That proves nothing for deciding alone: it takes more mails, each judged before it is learned from."
    )
    if found.phishing["n"]:
        yield (
            f"Of {found.phishing['n']:,} that are phishing or spam, {found.phishing['judged_respond']:,} were judged "
            "to need an answer that they must not get."
        )
    if cost := about["cost"]:
        price = "" if cost["money"] is None else f", {cost['money'] / found.n:,.5f} in money"
        yield f"A mail took {cost['tokens_of_a_mail']:,.0f} tokens{price}."


def _tell_triage(found: "Measured") -> None:
    print_table(
        ["label", "mails", "found", "right of those said to be", *(f"as {label}" for label in found.per_class)],
        [
            [
                label, f"{each.n:,}", f"{each.recall:.0%}", "" if each.precision is None else f"{each.precision:.0%}",
                *(str(found.confusion[label].get(other, 0)) for other in found.per_class),
            ]
            for label, each in found.per_class.items()
        ],
    )  # fmt: skip
    print_table(["confidence", "mails", "expected right", "right", "95 % interval"], calibrated(found.calibration))
