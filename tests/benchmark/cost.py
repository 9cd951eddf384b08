"""What one mail costs in model calls and prompt tokens, from its arrival to its end, measured on the whole program.

The program is real, Google is the sandbox, and the model's answers are canned: they decide the path that a mail takes,
and its cost is what the program puts into the prompts on that path; so the figures have no spread, and are the same on
every machine. Tokens are counted by o200k, tool schemas included. Ends with 1 above a ceiling.
"""

import argparse
import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email.message import EmailMessage
from email.utils import format_datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import psycopg
import yaml
from pydantic import SecretStr

from email_assistant.app import App, open_app
from email_assistant.daemon import Daemon, open_daemon
from email_assistant.db.embedded import EmbeddedPostgres
from email_assistant.errors import AssistantError
from email_assistant.inbox.items import Item
from email_assistant.programs import stand_in
from email_assistant.settings import Settings
from tests.benchmark.canned_model import Calls, CannedModel
from tests.benchmark.tokens import count_tokens, tokenizer

PERSON = "ada@bench.example"
_PATIENCE_SECONDS = 60
_LOOK_SECONDS = 0.05
_POLLS = 20


class CostUnknown(AssistantError):
    """A case did not take the way that it is about; the message says where it stopped."""


@dataclass(frozen=True, slots=True)
class Cost:
    calls: int
    prompt_tokens: int

    def within(self, most: "Cost") -> bool:
        return self.calls <= most.calls and self.prompt_tokens <= most.prompt_tokens


@dataclass(frozen=True, slots=True)
class SampleLetter:
    sender: str  # a bare address
    subject: str
    text: str = ""
    html: str = ""


_LETTERS = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text("utf-8"))
PROMOTION, INVOICE, DINNER, PLANNING, NEWSLETTER = (
    SampleLetter(**_LETTERS[name]) for name in ("promotion", "invoice", "dinner", "planning", "newsletter")
)


@dataclass(frozen=True, slots=True)
class PlannedAnswer:
    """What the person answers to the next item."""

    type: Literal["accept", "edit", "ignore", "response"]
    text: str = ""  # new text of the reply, or what the person says


@dataclass(frozen=True, slots=True)
class CostCase:
    name: str
    letter: SampleLetter
    classification: Literal["ignore", "notify", "respond"]
    most: Cost
    """The ceiling that the product sets itself: less than half of what assistants of this design were measured at."""
    messages: Sequence[Calls] = ()
    decisions: Sequence[PlannedAnswer] = ()
    waits: bool = False
    """The mail is left waiting for the person, and only the polls after that are counted."""


def _reply(text: str, *more: tuple[str, dict[str, Any]]) -> Calls:
    return [("send_email_tool", {"response_text": text, "email_address": DINNER.sender}), *more]


_DONE: tuple[str, dict[str, Any]] = ("Done", {"done": True})
_YES = _reply("Hi Nora,\n\nThursday at seven works for both of us. See you at the corner.\n\nBest\nAda", _DONE)
_MEETING: dict[str, Any] = {
    "attendees": [PLANNING.sender],
    "title": "Planning of the autumn courses",
    "start_time": "2031-06-04T10:00:00+02:00",
    "end_time": "2031-06-04T10:45:00+02:00",
}

CASES = (
    CostCase("ignore", PROMOTION, "ignore", Cost(1, 400)),
    CostCase("notify, ignored", INVOICE, "notify", Cost(4, 1400), decisions=[PlannedAnswer("ignore")]),
    CostCase("reply accepted as is", DINNER, "respond", Cost(2, 1800), [_YES], [PlannedAnswer("accept")]),
    CostCase(
        "reply edited, then sent", DINNER, "respond", Cost(3, 2600),
        [_YES], [PlannedAnswer("edit", "Hi Nora,\n\nThursday it is. We bring dessert.\n\nAda")],
    ),
    CostCase(
        "feedback, then accepted", DINNER, "respond", Cost(4, 4000),
        [_YES, _reply("Hi Nora,\n\nWe can't on Thursday; would Friday suit you?\n\nAda", _DONE)],
        [PlannedAnswer("response", "Not Thursday. Offer Friday, and keep it short."), PlannedAnswer("accept")],
    ),
    CostCase(
        "check calendar, meeting, reply", PLANNING, "respond", Cost(4, 4500),
        [
            [("check_calendar_tool", {"dates": ["04-06-2031", "05-06-2031"]})],
            [("schedule_meeting_tool", _MEETING)],
            [
                ("send_email_tool", {"response_text": "Wednesday at ten it is.", "email_address": PLANNING.sender}),
                _DONE,
            ],
        ],
        [PlannedAnswer("accept"), PlannedAnswer("accept")],
    ),
    CostCase("HTML newsletter, ignored", NEWSLETTER, "ignore", Cost(1, 900)),
    CostCase(f"waiting for a person, {_POLLS} polls", DINNER, "respond", Cost(0, 0), [_YES], waits=True),
)  # fmt: skip


def options(_: argparse.ArgumentParser) -> None:
    pass


def main(_: argparse.Namespace) -> None:
    print(tokenizer())
    every = asyncio.run(_measure_all())
    for case, cost in every:
        told = f"{cost.calls} calls, {cost.prompt_tokens} tokens; at most {case.most.calls}, {case.most.prompt_tokens}"
        print(f"{case.name:30} {told}{'' if cost.within(case.most) else ': above'}")
    if not all(cost.within(case.most) for case, cost in every):
        raise SystemExit(1)


async def _measure_all() -> list[tuple[CostCase, Cost]]:
    with TemporaryDirectory(prefix="email-assistant-bench-") as folder, EmbeddedPostgres(Path(folder)) as server:
        found = []
        for number, case in enumerate(CASES):
            with psycopg.connect(server.url(), autocommit=True) as conn:
                conn.execute(f"create database case_{number}".encode())
            found.append((case, await measure(case, server.url(f"case_{number}"))))
        return found


async def measure(case: CostCase, url: str) -> Cost:
    """Let one mail go its whole way on an empty database and a new mailbox. Raises CostUnknown, StandInFailed."""
    model = CannedModel(case.classification, case.messages, count_tokens)
    with TemporaryDirectory(prefix="email-assistant-bench-") as folder:
        mbox = _write_mbox(Path(folder, "mail.mbox"), case.letter)
        arguments = ["--data", str(Path(folder, "mailbox.sqlite3")), "--mbox", str(mbox), "--address", PERSON]
        async with stand_in("google_sandbox", *arguments) as google, model.serve() as base_url:
            settings = _settings(Path(folder, "home"), google["root"], base_url)
            async with open_app(settings, url) as app, open_daemon(app) as daemon:
                await app.accounts.add(app.user_id, PERSON, google["token"], datetime(1970, 1, 1, tzinfo=UTC))
                return await _follow(case, daemon, model)


async def _follow(case: CostCase, daemon: Daemon, model: CannedModel) -> Cost:
    working = asyncio.create_task(daemon.run())
    calls = tokens = 0
    try:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            for decision in case.decisions:
                await _decide(daemon.app, await _next_item(daemon.app), decision)
            if case.waits:
                await _next_item(daemon.app)
                calls, tokens = model.calls, model.prompt_tokens
                await _poll(daemon)
            await _end(daemon)
    except TimeoutError:
        raise CostUnknown(f"{case.name}: {await _standing(daemon.app)}") from None
    finally:
        working.cancel()
        with suppress(asyncio.CancelledError):
            await working
    if not (standing := await _standing(daemon.app)).startswith("waiting" if case.waits else "done"):
        raise CostUnknown(f"{case.name}: {standing}")
    return Cost(model.calls - calls, model.prompt_tokens - tokens)


async def _end(daemon: Daemon) -> None:
    while not await daemon.is_idle():  # noqa: ASYNC110 - what it looks for happens in the database
        await asyncio.sleep(_LOOK_SECONDS)


async def _poll(daemon: Daemon) -> None:
    [account] = await daemon.app.accounts.pollable()
    for _ in range(_POLLS):
        await daemon.mailboxes.sync(account.id)


async def _next_item(app: App) -> Item:
    while True:
        items, _ = await app.inbox.page(app.user_id, status="pending")
        if items:
            return items[0]
        await asyncio.sleep(_LOOK_SECONDS)


async def _decide(app: App, item: Item, decision: PlannedAnswer) -> None:
    args: Any = None
    if decision.type == "edit":
        args = {**item.args, "response_text": decision.text}
    elif decision.type == "response":
        args = decision.text
    await app.inbox.decide(app.user_id, item.id, {"type": decision.type, "args": args}, by="bench")


async def _standing(app: App) -> str:
    mails, _ = await app.mails.page(app.user_id)
    return "; ".join(f"{mail.state} ({mail.reason})" for mail in mails) or "no mail came in"


def _settings(home: Path, google_root: str, base_url: str) -> Settings:
    """Settings of the bench alone, whatever the environment says of a database or a model."""
    return Settings(
        home=home,
        database_url=None,
        google_root=google_root,
        openai_api_key=SecretStr("bench"),
        openai_base_url=base_url,
        model="canned",
        undo_seconds=0,
        sweep_seconds=0.2,
    )


def _write_mbox(path: Path, letter: SampleLetter) -> Path:
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = letter.sender, PERSON, letter.subject
    message["Date"] = format_datetime(datetime.now(UTC))
    message["Message-ID"] = "<letter@bench.example>"
    if letter.text:
        message.set_content(letter.text)
    if letter.html:
        message.set_content(letter.html, subtype="html")
    path.write_bytes(b"From bench@example.com Thu Jan  1 00:00:00 1970\n" + message.as_bytes() + b"\n")
    return path
