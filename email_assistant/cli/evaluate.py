"""`email-assistant eval …`: how well the triage does, each figure with what it was measured on."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from email_assistant.cli.context import AsJson, ended_in_words, one_of, print_json, print_table, say
from email_assistant.cli.past import bar
from email_assistant.cli.rehearse import Addresses, Mbox, addresses_of, calibrated, read_history

if TYPE_CHECKING:
    from email_assistant.rehearsal.compare import Way
    from email_assistant.triage.measure import Measured

app = typer.Typer(help="Measure how well mail is told apart.", no_args_is_help=True)


@app.command()
def triage(
    data: Annotated[Path, typer.Option(metavar="FILE", help="Mails with their labels, one JSON object a line.")],
    train: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Train on these; left out: ten-fold, on the mails themselves.")
    ] = None,
    stage: Annotated[str, typer.Option(help="rules or classifier.")] = "classifier",
    as_json: AsJson = False,
) -> None:
    """How well a stage tells what a mail needs: respond, notify or ignore.

    Intervals hold the truth with 95 %. What is decided alone has a confidence that was chosen on the training mails."""
    with ended_in_words():
        from email_assistant.triage.labelled import apart, read
        from email_assistant.triage.measure import FOLDS, STAGES, measure

        wanted = one_of(STAGES, stage, "--stage takes")
        mails = read(data)
        learned = apart(read(train), mails) if train else None
        with bar("Measuring", FOLDS) as progress:
            found = measure(wanted, mails, learned, progress)
    if as_json:
        print_json({"data": str(data), "train": str(train) if train else None, **asdict(found)})
    else:
        _tell_triage(data, train, found)


@app.command()
def rehearsal(mbox: Mbox, address: Addresses, as_json: AsJson = False) -> None:
    """How well it is told which mails you answer, beside two simple ways.

    All are trained on the older 60 % of the mails, and judged on the rest."""
    with ended_in_words():
        from email_assistant.rehearsal.compare import compare

        own = addresses_of(address)
        entries = read_history(mbox, own)
        with bar("Going through it", len(entries)) as progress:
            found = compare(entries, own, progress)
    if as_json:
        print_json({"mbox": str(mbox), **asdict(found)})
        return
    say(
        f"Learned from {found.learned_from:,} mails up to {found.until:%Y-%m-%d}, and judged the {found.judged:,} "
        f"after them, of which {found.answered:,} were answered."
    )
    print_table(
        ["way", "AUC", "shown at 90 % recall"],
        [
            _row("addressed to me among few", found.addressed_to_few),
            _row("words, logistic regression", found.words),
            _row("ours", found.ours),
        ],
    )


def _row(name: str, way: "Way") -> list[str]:
    return [name, *("" if figure is None else f"{figure:.3f}" for figure in (way.auc, way.shown_at_90_recall))]


def _tell_triage(data: Path, train: Path | None, found: "Measured") -> None:
    low, high = found.interval
    trained = f", trained on {train}" if train else f", in {found.folds} folds" if found.folds else ""
    say(f"{found.stage} on {found.n:,} mails of {data}{trained}: {found.accuracy:.1%} right ({low:.1%} to {high:.1%}).")
    if found.error_in_coverage is None:
        say("It is sure enough of none of them.")
    else:
        say(
            f"Of the {found.coverage:.0%} that it is sure of, {found.error_in_coverage:.1%} are wrong; less than "
            f"{found.bound:.1%} with a probability of 95 %."
        )
    say(
        "So many cases prove that it may decide those alone."
        if found.proven
        else "That proves nothing for deciding alone: it takes more mails, each judged before it is learned from."
    )
    if found.phishing["n"]:
        say(
            f"Of {found.phishing['n']:,} that are phishing or spam, {found.phishing['judged_respond']:,} were judged "
            "to need an answer that they must not get."
        )
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
