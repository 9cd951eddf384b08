"""The command: open or make the mailbox, bind a port, say where it is, serve."""

import argparse
import json
import os
import signal
import socket
import sqlite3
import stat
import sys
import threading
from pathlib import Path
from typing import Any, NoReturn
from zoneinfo import ZoneInfo

import uvicorn

from . import app, mbox, oauth
from .calendars import Calendars
from .correspondents import Correspondents
from .events import SandboxCalendar
from .mailbox import SandboxMailbox
from .mbox import Loaded, NotAnMbox, Survey
from .outbox import Outbox
from .script import SCRIPT
from .store import Store

DEFAULT_ADDRESS = "alex@sandbox.example"
DEFAULT_TIMEZONE = "Europe/Amsterdam"
_STDIN = 0

_DESCRIPTION = """\
A small Gmail, Google Calendar and OAuth token server for one invented person, or for the mails of an mbox file.

When it is ready it prints one line of JSON: the root URL, the address, the credentials (an authorized-user token),
and how many messages were newly loaded and how many were known already. Everything it knows is in the one data file;
it sends nothing anywhere.
"""
_EPILOG = """\
Bad input (a missing, unreadable or empty file, or one that is no mbox) ends it with one line on stderr and status 2.
SIGINT and SIGTERM end it with status 0.
"""


class BadInput(Exception):
    """What was asked for can't be served; the message says why, for people."""


def main(arguments: list[str] | None = None) -> None:
    """Run the server until a signal ends it."""
    options = _options(arguments)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _leave)
    try:
        if options.exit_with_parent:
            _exit_with_parent()
        _serve(options)
    except (BadInput, NotAnMbox, OSError, sqlite3.Error) as error:
        sys.stderr.write(f"google_sandbox: {error}\n")
        sys.exit(2)


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m email_assistant_servers.google_sandbox",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--data",
        type=Path,
        required=True,
        metavar="FILE",
        help="the SQLite file, made if missing; ':memory:' for none, and nothing is kept",
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=int, default=0, help="port to listen on (default: any free one)")
    parser.add_argument("--mbox", type=Path, metavar="FILE", help="load this mailbox file; no invented mail then")
    parser.add_argument(
        "--address",
        help=f"the mailbox's address, fixed at the first start (default: {DEFAULT_ADDRESS}; with --mbox the most"
        f" common Delivered-To or X-Original-To of the file, or else {mbox.DEFAULT_ADDRESS})",
    )
    parser.add_argument(
        "--pace",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="let invented mails arrive, one every so many seconds, and answers come after as many;"
        " 0: none arrive by themselves and answers come at once (default: 0)",
    )
    parser.add_argument(
        "--login-days",
        type=float,
        metavar="DAYS",
        help="say that a login lasts so long, as Google does when it is given for a time (default: no end)",
    )
    parser.add_argument("--timezone", help=f"the calendar's timezone (default: {DEFAULT_TIMEZONE})")
    parser.add_argument(
        "--progress",
        action="store_true",
        help="while an mbox is loaded, print how far that is, each time as a line of JSON with `read` and `of`",
    )
    parser.add_argument(
        "--exit-with-parent",
        action="store_true",
        help="end when stdin, if it is a pipe, is closed; a terminal is left alone",
    )
    return parser.parse_args(arguments)


def _serve(options: argparse.Namespace) -> None:
    found = None if options.mbox is None else mbox.survey(options.mbox)
    if options.pace < 0:
        raise BadInput("--pace must not be negative")
    store = Store(options.data)
    try:
        _serve_from(store, options, found)
    finally:
        store.close()


def _serve_from(store: Store, options: argparse.Namespace, found: Survey | None) -> None:
    zone = _zone(store, options.timezone)
    scripted = _is_scripted(store, with_mbox=found is not None)
    mailbox = SandboxMailbox(store, _address(store, options.address, found), SCRIPT.person if scripted else "")
    calendars = Calendars(SandboxCalendar(store, mailbox.address, zone))
    correspondents = Correspondents(mailbox, zone, options.pace) if scripted else None
    loaded = _loaded(mailbox, options, found) if found else Loaded(0, 0)
    if correspondents:
        loaded = Loaded(loaded.new + correspondents.begin(calendars), loaded.known)
    outbox = Outbox(mailbox, correspondents.after_send if correspondents else lambda _: None)
    listener = _listener(options.host, options.port)
    root = f"http://{options.host}:{listener.getsockname()[1]}"

    line = {
        "root": root,
        "says": "A made-up mailbox on this machine" if scripted else "A copy of a mailbox, on this machine",
        "address": mailbox.address,
        "token": oauth.credentials(store, root),
        "loaded": loaded.new,
        "known": loaded.known,
    }
    config = uvicorn.Config(
        app.build(mailbox, outbox, calendars, options.login_days),
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=2,
        timeout_keep_alive=300,  # or an idle connection is closed in the moment in which it is used again
    )
    if correspondents:
        correspondents.start()
    _say(line)
    try:
        uvicorn.Server(config).run([listener])
    finally:
        if correspondents:
            correspondents.stop()


def _loaded(mailbox: SandboxMailbox, options: argparse.Namespace, found: Survey) -> Loaded:
    def progress(read: int) -> None:
        if options.progress:
            _say({"read": read, "of": found.mails})

    return mbox.load(options.mbox, found, mailbox, progress)


def _say(line: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def _listener(host: str, port: int) -> socket.socket:
    # With the protocol named, asyncio sets TCP_NODELAY; without it each answer waits 40 ms for a delayed ACK.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((host, port))
    listener.listen()  # whoever comes before uvicorn takes over waits
    return listener


def _zone(store: Store, wanted: str | None) -> ZoneInfo:
    name = wanted or store.fact("timezone") or DEFAULT_TIMEZONE
    try:
        zone = ZoneInfo(name)
    except (ValueError, KeyError, OSError):
        raise BadInput(f"there is no timezone {name!r}") from None
    store.remember("timezone", name)
    return zone


def _is_scripted(store: Store, with_mbox: bool) -> bool:
    """Whether invented people write here; the first start decides for good."""
    with store.transaction():
        if store.fact("scripted") is None:
            store.remember("scripted", "no" if with_mbox else "yes")
        return store.fact("scripted") == "yes"


def _address(store: Store, wanted: str | None, found: Survey | None) -> str:
    kept = store.fact("address")
    address = (wanted or kept or (found.address if found else DEFAULT_ADDRESS)).lower()
    if "@" not in address:
        raise BadInput(f"{address!r} is no mail address")
    if kept is not None and address != kept:
        raise BadInput(f"this data file belongs to {kept}, not to {address}")
    store.remember("address", address)
    return address


def _leave(number: int, frame: object) -> NoReturn:
    sys.exit(0)


def _exit_with_parent() -> None:
    mode = os.fstat(_STDIN).st_mode
    if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):
        threading.Thread(target=_watch_stdin, name="stdin", daemon=True).start()


def _watch_stdin() -> None:
    # Not sys.stdin: a thread that waits in it holds a lock that the interpreter wants when it ends.
    while os.read(_STDIN, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main()
