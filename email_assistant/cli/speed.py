"""`email-assistant bench speed`: what the program costs and how it holds out, beside a floor or a ceiling."""

from collections.abc import Sequence
from statistics import median
from typing import TYPE_CHECKING, Annotated, Any

import typer

from email_assistant.cli.context import AsJson, CommandError, awaited, err, out, print_json, print_table
from email_assistant.cli.machine import machine_and_load

if TYPE_CHECKING:
    from email_assistant.bench.speed.figures import Reading

_SIZE = typer.Option(min=0.001, max=10, help="Times the usual number of mails, accounts and seconds.")


@awaited
async def speed(
    only: Annotated[list[str] | None, typer.Option(metavar="ROW", help="This row alone; may be repeated.")] = None,
    size: Annotated[float, _SIZE] = 1,
    as_json: AsJson = False,
) -> None:
    """What the program costs and how it holds out, beside a bare graph or the ceilings that it sets itself.

    It runs as a process of its own, on a throwaway database, with the sandbox in Google's place and canned answers in
    the model's. Rows: cpu, statements, accounts, idle, in-flight, decisions, stored, commands, chat, cursor; all of
    them take a quarter of an hour. Ends with 1 where a ceiling is not kept."""
    from email_assistant.bench.speed.figures import RowProgress, Size
    from email_assistant.bench.speed.rows import ROWS
    from email_assistant.telemetry import log_to_stderr

    log_to_stderr("WARNING")
    if unknown := set(only or ()) - set(ROWS):
        raise CommandError(f"there is no row {', '.join(sorted(unknown))}: name one of {', '.join(ROWS)}")
    found = []
    for row in only or ROWS:
        progress = RowProgress(row, lambda said: err.print(said, markup=False))
        found += [_Shown(row, figure) for figure in await ROWS[row](Size(size), progress)]
    measured_on = machine_and_load()
    if as_json:
        print_json({**measured_on, "size": size, "figures": [each.as_json() for each in found]})
    else:
        print_table(["figure", "ours", "floor", "at most", "", ""], [each.as_row() for each in found])
        out.print(", ".join(f"{name} {value}" for name, value in measured_on.items()))
    if not all(each.figure.within for each in found):
        raise typer.Exit(1)


class _Shown:
    """A figure as it is printed."""

    def __init__(self, row: str, figure: "Reading") -> None:
        self.row, self.figure = row, figure

    def as_json(self) -> dict[str, Any]:
        figure = self.figure
        return {
            "row": self.row,
            "figure": figure.name,
            "unit": figure.unit,
            "ours": _spread(figure.ours),
            "floor": _spread(figure.floor) if figure.floor else None,
            "counted": round(figure.counted, 4),
            "limit": figure.limit.value if figure.limit else None,
            "at_least": bool(figure.limit and figure.limit.at_least),
            "within": figure.within,
            "note": figure.note,
        }

    def as_row(self) -> list[str]:
        figure = self.figure
        unit = f" {figure.unit}".rstrip()
        limit = ""
        if figure.limit:
            limit = f"{'≥ ' if figure.limit.at_least else ''}{figure.limit.value:g}{' ×' if figure.floor else unit}"
        ours = _in_words(figure.ours) + unit
        floor = f"{_in_words(figure.floor)}{unit}: {figure.counted:.2f} ×" if figure.floor else ""
        return [figure.name, ours, floor, limit, "" if figure.within else "beyond", figure.note]


def _spread(values: Sequence[float]) -> dict[str, float]:
    return {"median": round(median(values), 4), "min": round(min(values), 4), "max": round(max(values), 4)}


def _in_words(values: Sequence[float]) -> str:
    if len(values) == 1:
        return f"{values[0]:.4g}"
    return f"{median(values):.4g} ({min(values):.4g} to {max(values):.4g})"
