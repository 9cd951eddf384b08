"""How long a backup and a restore drill take, and how large the file is, of an inbox with very much in it."""

import argparse
import asyncio
import json
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

from email_assistant.app import open_app
from email_assistant.cli.drill import drill
from email_assistant.db.backup import back_up, read_backup
from email_assistant.home import database, secret_key
from email_assistant.settings import Settings
from tests.benchmark.inbox import fill
from tests.benchmark.measured import spread


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--mails", type=int, default=100_000, help="each with an item that waits")
    parser.add_argument("--rounds", type=int, default=3)


def main(given: argparse.Namespace) -> None:
    asyncio.run(_measure(given.mails, given.rounds))


async def _measure(mails: int, rounds: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        settings = Settings(home=home / "home", database_url=None)
        with database(settings, keep=False) as url:
            async with open_app(settings, url) as app:
                await fill(app, mails)
            backups, drills = [], []
            for number in range(rounds):
                file, began = home / f"{number}.tar.gz", time.monotonic()
                back_up(url, {"secret_key": secret_key(settings)}, file)
                backups.append(time.monotonic() - began)
                found = await drill(file, read_backup(file))
                drills.append(found.seconds)
    print(f"backup  {spread(backups, 's')}")
    print(f"drill   {spread(drills, 's')}")
    print(json.dumps(asdict(found), default=str))
