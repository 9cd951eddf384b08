"""What looking for one's own letters takes, and searching mail, with 100,000 mails stored.

The mails are of 150 words each, drawn as often as words are (Zipf's law); three of ten are the person's own answers, to
2,000 people. Each look is for a mail of the same kind; a search is for one to three of its words.
"""

import argparse
import asyncio
import random
import string
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
from psycopg.types.json import Jsonb

from email_assistant.agents.mail.own_letters import OwnLetters
from email_assistant.app import open_app
from email_assistant.db.embedded import EmbeddedPostgres
from email_assistant.gate.ledger import GateLedger
from email_assistant.settings import Settings
from tests.benchmark.measured import spread

_PEOPLE = 2_000
_LENGTH = 150
_NAMES = random.Random(0)
_WORDS = ["".join(_NAMES.choices(string.ascii_lowercase, k=_NAMES.randint(2, 12))) for _ in range(30_000)]
_SHARES = list(accumulate(1 / rank for rank in range(1, len(_WORDS) + 1)))
_COLUMNS = "account_id, user_id, thread_id, gmail_id, own, sender, subject, content, received_at, state"


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--mails", type=int, default=100_000)
    parser.add_argument("--looks", type=int, default=100)


def main(given: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as folder, EmbeddedPostgres(Path(folder) / "postgres") as server:
        asyncio.run(_measure(Path(folder), server.url(), given.mails, given.looks))


async def _measure(folder: Path, url: str, mails: int, looks: int) -> None:
    dice, settings = random.Random(1), Settings(home=folder, past_mail=True)
    async with open_app(settings, url) as app:
        account = await app.accounts.add(app.user_id, "ada@example.org", {"token": ""}, datetime.now(UTC))
        _fill(url, account.id, app.user_id, list(_letters(dice, mails)))
        letters = OwnLetters(app.pool, GateLedger(app.pool))
        asked = list(_letters(dice, looks))
        found = [await _timed(letters.find(_run(letter), account)) for letter in asked]
        print(f"own letters  {spread([took for took, _ in found])}; {sum(len(f[0]) for _, f in found)} shown")
        for words in (1, 2, 3):
            queries = [" ".join(dice.sample(letter["content"]["body"].split(), words)) for letter in asked]
            times = [await _timed(app.mails.search(account.id, query, "none", 6)) for query in queries]
            print(f"search for {words} {spread([took for took, _ in times])}")


def _fill(url: str, account_id: object, user_id: object, letters: list[dict[str, Any]]) -> None:
    with psycopg.connect(url, autocommit=True, options="-c search_path=email_assistant") as conn:
        [(index,)] = conn.execute("select indexdef from pg_indexes where indexname = 'mails_own_words'").fetchall()
        conn.execute("drop index mails_own_words")
        threads = [uuid4() for _ in letters]
        with conn.cursor() as cursor:
            with cursor.copy("copy threads (id, account_id, user_id, gmail_id) from stdin") as copy:
                for number, thread in enumerate(threads):
                    copy.write_row((thread, account_id, user_id, str(number)))
            with cursor.copy(f"copy mails ({_COLUMNS}) from stdin".encode()) as copy:
                for thread, letter in zip(threads, letters, strict=True):
                    row = {**letter, "content": Jsonb(letter["content"])}
                    copy.write_row((account_id, user_id, thread, *row.values(), "done"))
        began = time.perf_counter()
        conn.execute(index)
        print(f"the index of what was sent is made in {time.perf_counter() - began:.1f} s")
        conn.execute("vacuum analyze")


def _letters(dice: random.Random, number: int) -> Iterator[dict[str, Any]]:
    for n in range(number):
        body = " ".join(dice.choices(_WORDS, cum_weights=_SHARES, k=_LENGTH))
        subject = " ".join(dice.choices(_WORDS, cum_weights=_SHARES, k=4))
        person, own = f"person{dice.randrange(_PEOPLE)}@example.net", dice.random() < 0.3
        to = [{"name": "", "email": person if own else "ada@example.org"}]
        content = {"text": body, "body": body, "to": to, "cc": [], "bcc": [], "in_reply_to": "<a@b>" if own else None}
        yield {
            "gmail_id": f"m{n}",
            "own": own,
            "sender": "ada@example.org" if own else person,
            "subject": subject,
            "content": content,
            "received_at": datetime.now(UTC) - timedelta(minutes=n),
        }


def _run(letter: dict[str, Any]) -> dict[str, Any]:
    reply = {"to": letter["sender"], "also_to": [], "subject": letter["subject"]}
    return {"reply": reply, "thread": "none", "text": f"From: somebody\n\n{letter['content']['body']}"}


async def _timed(look: Any) -> tuple[float, Any]:
    """Milliseconds, and what came of it."""
    began = time.perf_counter()
    found = await look
    return (time.perf_counter() - began) * 1000, found
