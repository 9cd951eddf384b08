"""Tables that tests fill, cell by cell, and that are printed at the end of the run, whichever process ran them."""

from collections import defaultdict
from typing import Any

import pytest

_CELL = "cell"
_WORDS = {"passed": "ok", "xfailed": "gap", "failed": "FAILED", "error": "FAILED"}

Record = Any
"""pytest's fixture `record_property`."""


def fill(record_property: Record, table: str, row: str, column: str, text: str = "") -> None:
    """Say of the running test which cell it is; without a text the cell shows what became of the test."""
    record_property(_CELL, [table, row, column, text])


def show(reporter: pytest.TerminalReporter) -> None:
    """Print the tables."""
    tables: dict[str, dict[str, dict[str, str]]] = defaultdict(lambda: defaultdict(dict))
    for outcome, word in _WORDS.items():
        for report in reporter.stats.get(outcome, ()):
            for name, cell in getattr(report, "user_properties", ()):
                if name == _CELL:
                    table, row, column, text = cell
                    tables[table][row][column] = (text if outcome == "passed" else "") or word
    for title, rows in tables.items():
        columns = sorted({column for cells in rows.values() for column in cells})
        wide = max(map(len, rows))
        widths = [max(len(column), *(len(cells.get(column, "")) for cells in rows.values())) for column in columns]
        reporter.section(title)
        for row, texts in [
            ("", columns),
            *((row, [cells.get(c, "") for c in columns]) for row, cells in sorted(rows.items())),
        ]:
            padded = "  ".join(text.ljust(width) for text, width in zip(texts, widths, strict=True))
            reporter.write_line(f"{row.ljust(wide)}  {padded}".rstrip())
