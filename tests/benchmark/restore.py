"""How long a backup and a restore drill take, and how large the file is, of an inbox with very much in it.

uv run python -m tests.benchmark.restore --mails 100000
"""

import argparse
import asyncio
import json
import os
import platform
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

from email_assistant.app import open_app
from email_assistant.bench.inbox import _fill
from email_assistant.cli.drill import drill
from email_assistant.db.backup import back_up
from email_assistant.db.dump import read_backup
from email_assistant.home import database, secret_key
from email_assistant.settings import Settings


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--mails", type=int, default=100_000, help="each with an item that waits")
    arguments.add_argument("--rounds", type=int, default=3)
    given = arguments.parse_args()
    print(json.dumps(asyncio.run(measure(given.mails, given.rounds)), indent=2, default=str))  # noqa: T201


async def measure(mails: int, rounds: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        settings = Settings(home=home / "home", database_url=None)
        with database(settings, keep=False) as url:
            async with open_app(settings, url) as app:
                await _fill(app, mails)
            backups, drills = [], []
            for number in range(rounds):
                file, began = home / f"{number}.tar.gz", time.monotonic()
                back_up(url, {"secret_key": secret_key(settings)}, file)
                backups.append(round(time.monotonic() - began, 1))
                found = await drill(file, read_backup(file))
                drills.append(found.seconds)
    return {
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}",
        "python": platform.python_version(),
        "backup_seconds": {"median": median(backups), "all": backups},
        "drill_seconds": {"median": median(drills), "all": drills},
        **asdict(found),
    }


if __name__ == "__main__":
    main()
