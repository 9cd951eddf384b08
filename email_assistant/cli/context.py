"""What every command shares: opening the app, printing, and errors as one line that says what to do."""

import json
import os
import re
import shlex
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import asdict, dataclass, is_dataclass
from datetime import datetime, tzinfo
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ParamSpec, Protocol, TypeVar
from uuid import UUID

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from email_assistant.errors import AssistantError

if TYPE_CHECKING:
    from email_assistant.app import App
    from email_assistant.cli.watchdog import Watchdog
    from email_assistant.settings import Settings

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
OfAccount = Annotated[str | None, typer.Option("--account", help="Only this account's (an address).")]

NO_MODEL = "is set: give OPENAI_API_KEY, or GOOGLE_API_KEY alone, or OPENAI_BASE_URL for a server of your own"

_UNPRINTABLE = re.compile(r"[\x7f-\x9f\ud800-\udfff]")  # what JSON may hold as it is, and a terminal or UTF-8 may not

_UNFOLDED = 20_000  # columns of a table that goes into a pipe or a file, where a line that is folded is two
_WIDEST = 400  # characters of a line in a table, whose rows are all as wide as the widest; a rule has 300 at most

_COMMANDS = re.compile(r"`email-assistant (--demo )?([^`]*)`")
_STARTS = ("up", "demo")


class _OurWords(Console):
    """Prints sentences of ours. What others wrote goes through `print_text`, and stays as it is."""

    def print(self, *objects: Any, **given: Any) -> None:
        super().print(*(here(each) if isinstance(each, str) else each for each in objects), **given)


out = _OurWords(highlight=False, emoji=False)
err = _OurWords(stderr=True, highlight=False, emoji=False)


class _HasId(Protocol):
    @property
    def id(self) -> UUID: ...


Found = TypeVar("Found", bound=_HasId)
Word = TypeVar("Word", bound=str)
P = ParamSpec("P")


class CommandError(AssistantError):
    """The command can't go on; the message is one line that says what to do next."""


@dataclass(slots=True)
class _Chosen:
    """What was said before the command."""

    demo: bool = False
    env_file: Path | None = None


chosen = _Chosen()


def invocation(words: str, *, of_demo: bool = False) -> str:
    """What the person types to have this done on the installation that this command is for. `words`: what follows the
    program's name, such as "inbox undo 3f2a"; `of_demo`: done on the demo's, whichever this is for."""
    demo = chosen.demo or of_demo
    if demo and words in _STARTS:  # what `up` is to one's own mail
        words, demo = "demo", False
    file = ["--env-file", str(chosen.env_file)] if chosen.env_file else []
    return f"{shlex.join(['email-assistant', *file, *(['--demo'] if demo else [])])} {words}"


def here(said: str) -> str:
    """A sentence of ours, in which each `command` is the one for this installation."""
    return _COMMANDS.sub(lambda found: f"`{invocation(found[2], of_demo=bool(found[1]))}`", said)


def load_settings() -> "Settings":
    """One's own settings, or the demo's with --demo. Raises SettingsError."""
    from email_assistant.settings import Settings

    if not chosen.demo:
        return Settings.load()
    from email_assistant.cli.demo_home import demo_settings

    return demo_settings(Settings.load())


@asynccontextmanager
async def opened(*, keep: bool = False) -> AsyncIterator["App"]:
    """The app for one command; a daemon that runs beside it shares its database. `keep`: for a command that stays:
    start the embedded database again whenever the daemon has left with it."""
    from email_assistant.app import open_app
    from email_assistant.cli.watchdog import SECONDS, Watchdog

    with Watchdog() as watchdog, opened_database(watchdog, keep=keep) as (settings, url):
        async with open_app(settings, url, wait_seconds=None if keep else SECONDS) as app:
            watchdog.expect_database(url)
            yield app


@asynccontextmanager
async def opened_for(account: str | None) -> AsyncIterator["App"]:
    """The app for a command about one account, if one is named. Raises UnknownAccount if there is no such one."""
    async with opened() as app:
        if account is not None:
            await app.accounts.find(app.user_id, account)
        yield app


@contextmanager
def opened_database(watchdog: "Watchdog", *, keep: bool = False) -> Iterator[tuple["Settings", str]]:
    """The settings, and the URL of the database that they name, neither of which is waited for without an end. `keep`:
    as of `opened`."""
    from email_assistant.cli.watchdog import SECONDS, with_lock_timeout
    from email_assistant.db.embedded import START_SECONDS
    from email_assistant.home import database

    watchdog.expect_files(os.environ.get("EMAIL_ASSISTANT_HOME", "~/.email-assistant"))
    settings = load_settings()
    if not settings.database_url:
        watchdog.expect_server(settings.folder, START_SECONDS + SECONDS)
    with database(settings, keep=keep) as given:
        url = given if keep else with_lock_timeout(given)
        if keep:
            watchdog.stop_watching()
        else:
            watchdog.expect_opening(settings.folder, url)
        yield settings, url


def awaited(command: Callable[P, Coroutine[Any, Any, Any]]) -> Callable[P, Any]:
    """A command of a coroutine function. An error ends it with one line and status 1, Ctrl-C with status 130."""

    @wraps(command)
    def waits(*args: P.args, **kwargs: P.kwargs) -> Any:
        return run(lambda: command(*args, **kwargs))

    return waits


def run(command: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """Run part of a command to its end, as `awaited` does the whole."""
    import asyncio  # a quarter of what `--help` takes, and it needs none of it

    with ended_in_words():
        return asyncio.run(command())


@contextmanager
def ended_in_words() -> Iterator[None]:
    """An error in it ends the command with one line and status 1, Ctrl-C with status 130."""
    try:
        yield
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    except (typer.Exit, typer.Abort, typer.BadParameter):
        raise
    except BrokenPipeError:
        raise  # the reader of the output has seen enough: Typer ends without a word
    except Exception as error:
        from email_assistant.cli.explain import explain

        complain(explain(error))
        raise typer.Exit(1) from None


def an_id(given: str) -> str:
    """What was given as an id, or its first characters. Ends with 1 if nothing was, as by a variable of a script that
    is not set, and would name whatever is the only one."""
    if not given.strip():
        complain("an id, or its first characters, is missing")
        raise typer.Exit(1)
    return given


def one_by_id(found: Sequence[Found], prefix: str, what: str, shown_by: str) -> Found:
    """The one whose id begins so. Raises CommandError, which says what they are called and which command shows them."""
    matching = [each for each in found if str(each.id).startswith(prefix.lower())]
    if len(matching) != 1:
        number = "no" if not matching else "more than one"
        raise CommandError(f"there is {number} {what} whose id begins with {prefix}; `{shown_by}` shows them")
    return matching[0]


def one_of(allowed: Sequence[Word], given: str, refused: str, *more: str) -> Word:
    """The word as one of those that are allowed. Raises CommandError. `refused`: what is told of another, such as
    "--sort takes"; the words follow; `more`: further words to tell, which are the caller's."""
    for word in allowed:
        if word == given:
            return word
    raise CommandError(f"{refused} {', '.join([*allowed, *more])}, not {given!r}")


def check_writable(path: Path) -> None:
    """Before the work that a file is to be written of; one that is there keeps what stands in it. Raises
    CommandError."""
    was_there = path.exists()
    try:
        path.open("ab").close()
    except OSError as error:
        raise CommandError(f"{path} can't be written ({error.strerror}): name another file") from None
    if not was_there:
        path.unlink()


def check_new(path: Path) -> None:
    """Before the work that a file is to be written of; none is written over. Raises CommandError."""
    if path.exists():
        raise CommandError(f"{path} is there already: name another file, or delete it first")
    check_writable(path)


def say(line: str) -> None:
    """Print a sentence, with whatever names stand in it."""
    out.print(line, markup=False, soft_wrap=True)


def complain(line: str) -> None:
    err.print(Text.assemble(("Error: ", "red"), here(line)), soft_wrap=True)


def tell(line: str, style: str | None = None) -> None:
    """Say something beside a command's own output."""
    from email_assistant.mail.charset import plain

    err.print(plain(line), style=style, markup=False, soft_wrap=True)


def when(at: datetime, zone: tzinfo | None = None) -> str:
    """A time to the minute: in the account's timezone, or this machine's for what is of none."""
    return f"{at.astimezone(zone):%Y-%m-%d %H:%M %Z}"


def our_version() -> str:
    from importlib.metadata import version  # which takes long to load, and few commands tell it

    return version("email-assistant")


def print_version(wanted: bool) -> None:
    if wanted:
        out.print(f"email-assistant {our_version()}")
        raise typer.Exit


def check_arguments() -> None:
    """End the program, as for any wrong argument, where one is in no encoding: nothing could be looked up by it."""
    for argument in sys.argv[1:]:
        try:
            argument.encode()
        except UnicodeEncodeError:
            complain(f"an argument is not in UTF-8: {os.fsencode(argument)!r}")
            sys.exit(2)


def ensure_output() -> None:
    """Take the null device where the caller gave no output: else the next file opened would stand in its place."""
    sys.stdout = sys.stdout or Path(os.devnull).open("w")  # noqa: SIM115 - for as long as the program runs
    sys.stderr = sys.stderr or Path(os.devnull).open("w")  # noqa: SIM115


def flush_output() -> None:
    """Write what is still to be written, while an error can be told: a full disk ends the program with status 1."""
    try:
        sys.stdout.flush()
    except OSError as error:
        # What can't be written is dropped; else the interpreter tries again as it ends, and complains.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            complain(f"the output can't be written: {error.strerror}")
        sys.exit(1)


def print_json(value: object) -> None:
    """Print JSON that is readable, in which nothing steers a terminal or can't be encoded."""
    text = json.dumps(value, default=_plain, ensure_ascii=False, indent=2)
    sys.stdout.write(_UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", text) + "\n")


def print_text(text: str, style: str | None = None) -> None:
    """Print what a mail, a model or a person wrote: none of it is markup, none of it steers the terminal."""
    from email_assistant.mail.charset import plain

    out.print(Text(plain(text), style or ""), soft_wrap=True)


def print_table(columns: list[str], rows: list[list[str]]) -> None:
    from email_assistant.mail.charset import cut, plain

    table = Table(box=None, pad_edge=False, header_style="bold")
    for number, column in enumerate(columns):
        # What a row is named by is typed or copied: folded, it is of no use.
        name = max((len(row[0]) for row in rows), default=0) if number == 0 else None
        table.add_column(column, overflow="fold", min_width=name, no_wrap=name is not None)
    for row in rows:
        cells = (plain(cell).split("\n") for cell in row)
        table.add_row(*(Text("\n".join(cut(line, _WIDEST) for line in lines)) for lines in cells))
    console = out if out.is_terminal else Console(width=_UNFOLDED)
    console.print(table)


def _plain(value: object) -> object:
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    return str(value)


@contextmanager
def bar(what: str, total: int | None, *, counted: bool = False) -> Iterator[Callable[[int], None]]:
    """A bar on the terminal, moved by what it is told; nothing where there is no terminal. `counted`: with numbers."""
    from rich.progress import MofNCompleteColumn, Progress, TextColumn

    columns = Progress.get_default_columns()
    if counted:
        columns = (*columns, MofNCompleteColumn(), TextColumn("mails"))
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as progress:
        task = progress.add_task(what, total=total)
        yield lambda done: progress.update(task, completed=done)
