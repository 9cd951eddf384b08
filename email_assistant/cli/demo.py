"""The demo: the real program, between a mailbox and a model that run on this machine."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import psycopg
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn

from email_assistant.app import App, open_app
from email_assistant.cli.context import CommandError, err, out, print_json
from email_assistant.cli.demo_home import demo_settings, has_own_model, running_settings
from email_assistant.cli.door import opened_door
from email_assistant.cli.serve import bound, serve, signals_heeded, stop_seconds, until_stopped
from email_assistant.daemon import Daemon, open_daemon
from email_assistant.db.embedded import try_lock
from email_assistant.google.account import address_of
from email_assistant.home import bring_up_to_date, database
from email_assistant.inbox.items import Conflict
from email_assistant.memory.given import give
from email_assistant.programs import stand_in
from email_assistant.settings import Settings
from email_assistant.telemetry import log_to_stderr

_LOOK_SECONDS = 0.25
_PACE_SECONDS = 20


async def run_demo(
    mbox: Path | None,
    address: str | None,
    answer: Literal["accept", "ignore"] | None,
    host: str,
    port: int,
    *,
    exit_when_idle: bool,
    as_json: bool,
) -> None:
    """Start the mailbox and, unless one is set, the model; then the program itself between them."""
    own = Settings.load()
    settings = demo_settings(own)
    log_to_stderr(settings.log_level, settings.log_format)
    mailbox = _mailbox_file(settings, mbox)
    arguments = ["--data", str(mailbox), "--pace", "0" if exit_when_idle else str(_PACE_SECONDS)]
    arguments += ["--mbox", str(mbox), "--progress"] if mbox else []
    arguments += ["--address", address] if address else []
    with _alone(settings), _listener(host, port) as listener:
        async with _mailbox(arguments) as google, _model(has_own_model(own)) as model:
            settings = running_settings(settings, mailbox, google, model)
            with opened_door(settings, listener) as door, database(settings, keep=True) as url:
                settings = _at_its_pace(settings, door.address, exit_when_idle=exit_when_idle)
                await bring_up_to_date(settings, url)
                async with open_app(settings, url) as app, open_daemon(app) as daemon:
                    await _add_account(app, google)
                    inbox_url = door.link
                    if own.database_url:
                        err.print("DATABASE_URL is left alone: the demo keeps a database of its own.")
                    with signals_heeded() as stop:
                        _say_hello(google, inbox_url, model)
                        serving = serve(app, door, host)
                        if exit_when_idle:
                            ending = _until_idle(daemon, answer, inbox_url, as_json=as_json)
                            await until_stopped(
                                stop, daemon.run(), serving, ending, stop_seconds=stop_seconds(settings)
                            )
                        else:
                            parts = (daemon.run(), serving, _answering(app, answer), _showing(app))
                            await until_stopped(stop, *parts, stop_seconds=stop_seconds(settings))


@asynccontextmanager
async def _mailbox(arguments: list[str]) -> AsyncIterator[dict[str, Any]]:
    with ExitStack() as shown:
        bar = _progress()

        def progress(read: int, of: int) -> None:
            if not bar.tasks:
                shown.enter_context(bar).add_task("Loading the file", total=of)
            bar.update(bar.task_ids[0], completed=read)

        async with stand_in("google_sandbox", *arguments, progress=progress) as google:
            shown.close()
            yield google


async def _until_idle(
    daemon: Daemon, answer: Literal["accept", "ignore"] | None, inbox_url: str, *, as_json: bool
) -> None:
    """Wait until nothing moves, then print what was done since the start."""
    app, began = daemon.app, datetime.now(UTC)
    with _progress() as progress:
        task = progress.add_task("Reading mail", total=None)
        while True:
            await _answer_all(app, answer)
            await _show(app, progress, task)
            if await daemon.is_idle() and await _nothing_new(daemon):
                break
            await asyncio.sleep(_LOOK_SECONDS)
    summary = await _summary(app, began, inbox_url)
    if as_json:
        print_json(summary)
    else:
        for name, value in summary.items():
            out.print(f"{name}: {value}", soft_wrap=True)


async def _nothing_new(daemon: Daemon) -> bool:
    """Look into the mailboxes once more: an answer may have come in while the last draft was sent."""
    for account in await daemon.app.accounts.pollable():
        await daemon.mailboxes.sync(account.id)
    return await daemon.is_idle()


async def _answering(app: App, answer: Literal["accept", "ignore"] | None) -> None:
    while True:
        with suppress(psycopg.Error):  # the database may restart meanwhile
            await _answer_all(app, answer)
        await asyncio.sleep(_LOOK_SECONDS)


async def _answer_all(app: App, answer: Literal["accept", "ignore"] | None) -> None:
    """Decide every waiting item the same way: accept where that is allowed, else ignore, which teaches nothing."""
    if answer is None:
        return
    items, _ = await app.inbox.page(app.user_id, status="pending")
    for item in items:
        chosen = answer if answer in item.allowed else "ignore"
        try:
            await app.inbox.decide(app.user_id, item.id, {"type": chosen}, by="demo --answer", teaches=chosen == answer)
        except Conflict:  # superseded meanwhile
            continue


async def _showing(app: App) -> None:
    """Show how far the mail is, for as long as the demo runs."""
    with _progress() as progress:
        task = progress.add_task("Reading mail", total=None)
        while True:
            with suppress(psycopg.Error):
                await _show(app, progress, task)
            await asyncio.sleep(1)


def _progress() -> Progress:
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    return Progress(*columns, console=err, transient=False)


async def _show(app: App, progress: Progress, task: Any) -> None:
    counts = await app.mails.counts(app.user_id)
    by_state = counts["by_state"]
    total = sum(by_state.values())
    settled = sum(by_state.get(state, 0) for state in ("waiting", "done", "failed"))
    waiting, failed = await _waiting(app), by_state.get("failed", 0)
    words = f"{waiting} wait for you" + (f", {failed} failed" if failed else "")
    if held_up := await _held_up(app) if settled < total else None:
        words += f"; {held_up}"
    progress.update(task, total=total or None, completed=settled, description=f"Mail looked at; {escape(words)}")


async def _held_up(app: App) -> str | None:
    """What mail waits for that nobody can work on now, such as a model that can't be reached."""
    for state in ("new", "triaging", "acting"):
        rows, _ = await app.mails.page(app.user_id, state=state)
        if reason := next((row.reason for row in rows if (row.reason or "").startswith("waiting: ")), None):
            return reason
    return None


async def _summary(app: App, began: datetime, inbox_url: str) -> dict[str, Any]:
    counts = await app.mails.counts(app.user_id)
    used = await app.usage.since(app.user_id, began)
    return {
        "mails": sum(counts["by_state"].values()),
        **counts,
        "waiting": await _waiting(app),
        "model_calls": used["calls"],
        "prompt_tokens": used["prompt_tokens"],
        "sent": used["sent"],
        "inbox_url": inbox_url,
    }


async def _waiting(app: App) -> int:
    """Items, as the inbox and `status` count them; of one mail there may be several, or none that is not snoozed."""
    return (await app.inbox.counts(app.user_id)).by_status["pending"]


def _at_its_pace(settings: Settings, inbox_url: str, *, exit_when_idle: bool) -> Settings:
    changes: dict[str, Any] = {"inbox_url": inbox_url}
    if exit_when_idle:
        changes["undo_seconds"] = 0
    else:
        changes["poll_seconds"] = min(settings.poll_seconds, 5)
    return settings.model_copy(update=changes)


async def _add_account(app: App, google: dict[str, Any]) -> None:
    """The mailbox's own account; all of its mail is new."""
    address = await address_of(google["token"], app.settings.google_root, app.settings.google_timeout_seconds)
    added = await app.accounts.add(app.user_id, address, google["token"], datetime(1970, 1, 1, tzinfo=UTC))
    await give(app.memory, added.id)


def _say_hello(google: dict[str, Any], inbox_url: str, model: dict[str, Any] | None) -> None:
    err.print(f"[bold]{google['address']}[/]: {google['says'][0].lower()}{google['says'][1:]}. Nothing leaves it.")
    if model:
        err.print(
            f"In place of a model: {model['says'][0].lower()}{model['says'][1:]}. What it is worth says nothing "
            "of a model's quality."
        )
    err.print(
        f"Your inbox: {inbox_url}\nIts page Chat takes requests, as does `email-assistant --demo chat`; every command "
        "with --demo is for this mailbox.\n",
        soft_wrap=True,
    )


def _mailbox_file(settings: Settings, mbox: Path | None) -> Path:
    """Where the mailbox is kept between runs: one file for the scripted one, one for each export."""
    folder = settings.folder / "sandbox"
    folder.mkdir(mode=0o700, exist_ok=True)
    if mbox is None:
        return folder / "scripted.sqlite3"
    digest = hashlib.sha256(str(mbox.expanduser().resolve()).encode()).hexdigest()[:8]
    return folder / f"{mbox.stem[:40]}-{digest}.sqlite3"


@contextmanager
def _alone(settings: Settings) -> Iterator[None]:
    """Keep other demos from this home meanwhile: they would take the mailbox and the model from under one another.
    Raises CommandError: one runs."""
    lock = try_lock(settings.folder / "running.lock")
    if lock is None:
        raise CommandError(
            "a demo is running here already; with --demo any command works on it, such as "
            "`email-assistant inbox list --demo`"
        )
    with lock:
        yield


@contextmanager
def _listener(host: str, port: int) -> Iterator[Any]:
    with ExitStack() as stack:
        try:
            listener = stack.enter_context(bound(host, port))
        except CommandError:
            listener = stack.enter_context(bound(host, 0))
        yield listener


@asynccontextmanager
async def _model(own: bool) -> AsyncIterator[dict[str, Any] | None]:
    if own:
        yield None
        return
    async with stand_in("demo_model") as ready:
        yield ready
