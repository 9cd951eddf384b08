"""How older mail is fetched at Google's real limits, made faster by a factor: what is spent, and when it ends."""

import argparse
import json
import tempfile
import time
from collections import Counter
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import psycopg

from email_assistant.db.embedded import EmbeddedPostgres
from tests.doubles.daemon import Daemon
from tests.doubles.google import Google
from tests.doubles.model import Model

_PRICES = {"messages.get": 20, "messages.list": 5, "history.list": 2, "getProfile": 1, "sendAs.list": 1}
_LIMIT = 6_000
_LOOK_SECONDS = 1.0


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--mails", type=int, default=10_000)
    parser.add_argument("--faster", type=int, default=20, help="factor on the limits, by which all takes less time")


def main(given: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as folder, EmbeddedPostgres(Path(folder) / "postgres") as server:
        print(json.dumps(measure(Path(folder), server.url(), given.mails, given.faster), indent=2))


def measure(home: Path, url: str, mails: int, faster: int) -> dict[str, object]:
    """Fetch so many mails; times are as they would be without the factor."""
    limit = _LIMIT * faster
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute("create database backfill")
    with Google() as google, Model() as model:
        for n in range(mails):
            google.deliver("bob@example.org", f"Mail {n}", "Long ago.", age=timedelta(days=1, minutes=n))
        database = url.replace("/postgres?", "/backfill?", 1)
        settings = {"gmail_units_per_minute": limit, "poll_seconds": 20 / faster, "backfill_days": 365}
        with Daemon(home, database, google, model, google_timeout_seconds=5, lease_seconds=10, **settings) as daemon:
            daemon.account_add(google.address)
            began = time.monotonic()
            daemon.up()
            shown = _watch(daemon, google, mails, began)
            took = time.monotonic() - began
            daemon.stop()
        calls = google.calls()
    spent = [(call.time, _PRICES[call.name]) for call in calls if call.name in _PRICES]
    units: Counter[str] = Counter()
    for call in calls:
        units[call.name] += _PRICES.get(call.name, 0)
    fetched = Counter(call.path for call in calls if call.name == "messages.get")
    return {
        "mails": mails,
        "minutes": round(took * faster / 60, 1),
        "units_by_method": dict(units),
        "most_in_any_minute": _peak(spent, 60) / faster,
        "limit_of_a_minute": _LIMIT,
        "fetched_twice": sum(n > 1 for n in fetched.values()),
        "minutes_left_shown_and_real": [
            (at_share, round(told * faster / 60, 1), round((took - at) * faster / 60, 1))
            for at_share, at, told in _some(shown, mails)
        ],
    }


def _watch(daemon: Daemon, google: Google, mails: int, began: float) -> list[tuple[int, float, int]]:
    """(done, seconds since the beginning, seconds left as shown), until it has ended."""
    shown = []
    while True:
        [account] = daemon.http.get("/api/accounts").json()["items"]
        if (older := account["older_mail"]) and older["seconds_left"] is not None:
            shown.append((older["done"], time.monotonic() - began, older["seconds_left"]))
        elif older is None and len({call.path for call in google.calls() if call.name == "messages.get"}) >= mails:
            return shown
        time.sleep(_LOOK_SECONDS)


def _some(shown: list[tuple[int, float, int]], mails: int) -> list[tuple[str, float, int]]:
    """The first that was shown, and those at each tenth of the way."""
    found = [*shown[:1], *(b for a, b in pairwise(shown) if a[0] * 10 // mails < b[0] * 10 // mails)]
    return [(f"{done / mails:.0%}", at, told) for done, at, told in found]


def _peak(spent: list[tuple[float, int]], window: float) -> float:
    peak = total = first = 0
    for at, units in spent:
        total += units
        while spent[first][0] <= at - window:
            total -= spent[first][1]
            first += 1
        peak = max(peak, total)
    return peak
