"""What the program costs and how it holds out, beside a floor or a ceiling.

It runs as a process of its own, on a throwaway database, with the sandbox in Google's place and canned answers in the
model's. All rows take a quarter of an hour. Ends with 1 where a ceiling is not kept.
"""

import argparse
import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Mapping

from rich.console import Console
from rich.table import Table

from tests.benchmark.rows.chat import chat
from tests.benchmark.rows.commands import commands
from tests.benchmark.rows.cursor import expired_cursor
from tests.benchmark.rows.figures import Reading, RowProgress, Size
from tests.benchmark.rows.flow import decisions, in_flight
from tests.benchmark.rows.idle import accounts, alone
from tests.benchmark.rows.mail import cpu, statements, stored
from tests.benchmark.rows.years import years

Measure = Callable[[Size, RowProgress], Awaitable[list[Reading]]]

ROWS: Mapping[str, Measure] = {
    "cpu": cpu,
    "statements": statements,
    "accounts": accounts,
    "idle": alone,
    "in-flight": in_flight,
    "decisions": decisions,
    "stored": stored,
    "commands": commands,
    "chat": chat,
    "cursor": expired_cursor,
    "years": years,
}


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--only", action="append", choices=ROWS, help="this row alone; may be repeated")
    parser.add_argument("--size", type=float, default=1, help="times the usual number of mails, accounts and seconds")
    parser.add_argument("--json", action="store_true", help="a line of JSON for each figure")


def main(given: argparse.Namespace) -> None:
    found = asyncio.run(_measure(given.only or list(ROWS), Size(given.size)))
    if given.json:
        for row, figure in found:
            print(json.dumps({"row": row, **figure.as_json()}))
    else:
        table = Table("figure", "ours", "floor", "at most", "", "")
        for _, figure in found:
            table.add_row(*figure.as_row())
        Console().print(table)
    if not all(figure.within for _, figure in found):
        raise SystemExit(1)


async def _measure(rows: list[str], size: Size) -> list[tuple[str, Reading]]:
    return [(row, figure) for row in rows for figure in await ROWS[row](size, RowProgress(row, _tell))]


def _tell(said: str) -> None:
    print(said, file=sys.stderr, flush=True)
