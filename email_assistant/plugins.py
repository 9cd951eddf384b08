"""What is added to the program: the features in our folder of that name, and what other installed distributions add by
entry points: servers of tools, mail providers, agents, features.

It is code that whoever installs the program has chosen to run in it. It takes the place of nothing of ours, and is
loaded where somebody names it, not before; features are loaded at the start.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, get_args
from uuid import UUID

from email_assistant.errors import AssistantError

if TYPE_CHECKING:
    from typer import Typer

Kind = Literal["tools", "mail_providers", "agents", "features"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
T = TypeVar("T")
_FOLDER: Final = Path(__file__).parent / "features"
_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class MailboxPage:
    """A page about one mailbox, which its `?account=ADDRESS` names, or else the first."""

    path: str
    asks: str
    """The link to it at each mailbox of the page Accounts."""
    offers: str
    """The link to it for somebody who begins."""


@dataclass(frozen=True, kw_only=True)
class Site:
    """All that a feature adds to what is served over HTTP. `App` is the open one."""

    routers: Sequence[Any]
    """As `web/routers.py` makes them."""
    examples: Path | None = None
    """For the OpenAPI document: YAML, by the name of their model."""
    paths: tuple[str, ...] = ()
    """Those for programs, but for what is below `/api/`: each by itself, or the beginning of several, with a slash at
    its end."""
    open_paths: tuple[str, ...] = ()
    """Of these, the ones that need no token."""
    key: Callable[[Any], str | None] = lambda _: None
    """By the `Settings`, what opens `key_paths` beside the token, and nothing else."""
    key_paths: tuple[str, ...] = ()
    """Of `paths`."""
    long_paths: tuple[str, ...] = ()
    """Of `paths`, the ones that take thirteen million bytes; all else takes one."""
    serving: Callable[[Any], AbstractAsyncContextManager[None]] | None = None
    """Of the `App`: what is done as long as it is served. It is left before the server ends, so that whoever waits for
    an answer still gets one."""
    other_site: Callable[[Any], str | None] = lambda _: None
    """By the `Settings`, the origin of the one other site whose pages may call `paths`."""
    on_accounts: Callable[[Any], Awaitable[Any]] | None = None
    """Of the `App`: a section of the page Accounts, as `Markup`."""
    of_mailbox: MailboxPage | None = None
    at_foot: tuple[str, str] | None = None
    """A page of its own, by its path and the words of its link at each page's foot."""

    def has(self, path: str) -> bool:
        return _is_among(path, self.paths)

    def is_opened_by_key(self, path: str) -> bool:
        return _is_among(path, self.key_paths)


@dataclass(frozen=True, kw_only=True)
class Job:
    """What a feature does by itself with the open `App`, in the process that looks for work; it holds up nothing."""

    fails_with: str
    """What the log says was not done."""
    run: Callable[[Any], Awaitable[None]]
    is_due: Callable[[Any], Any] | None = None
    """A statement that gives, as `found`, whether it is to run: asked together with all that a sweep asks."""
    seconds: Callable[[Any], float | None] | None = None
    """How often it runs without being asked; None: never."""


@dataclass(frozen=True, kw_only=True)
class Chores:
    """All that a feature does by itself."""

    jobs: tuple[Job, ...] = ()
    tidy: Callable[[Any], Awaitable[None]] | None = None
    """Drop what has ended, of the open `App`: every ten minutes."""


@dataclass(frozen=True, kw_only=True)
class Feature:
    """All that one feature tells the program of itself. Each part is imported by a process that needs it."""

    add_commands: "Callable[[Typer], object] | None" = None
    full_screen: Callable[[Any], Awaitable[None]] | None = None
    """Of the `App`: the inbox as it is opened in a terminal by `inbox` alone; of several, the first that is found."""
    settings: Callable[[], type[Any]] | None = None
    """A class of `FromEnvironment`: each of its fields is a variable of the program. `Settings.of` reads them."""
    site: Callable[[], Site] | None = None
    takes_calls: bool = False
    """Agents of others ask here before they call a tool, and wait for the person's answer."""
    chores: Callable[[], Chores] | None = None
    judge: Callable[[Any, Any], Any] | None = None
    """Of the `App` and its `Conversations`: the `agents.mail.run.Judge` that is asked what a mail needs before the
    model, or None; of several, the first that is found."""
    on_conversations_deleted: Callable[[Any, UUID, Sequence[UUID]], Awaitable[None]] | None = None
    """Given the `Connection` of the deleting transaction, an account's id and those of its conversations: correct what
    the feature counts of them. Its rows that refer to their rows go by themselves."""


class BadPlugin(AssistantError):
    """What a distribution adds can't be used; the message names the distribution."""


@dataclass(frozen=True, slots=True)
class Plugin:
    kind: Kind
    name: str
    distribution: str
    """With its version."""
    _entry: EntryPoint

    def load(self) -> Callable[..., Any]:
        """What makes it. Raises BadPlugin."""
        try:
            found = self._entry.load()
        except Exception as error:  # a module of others may raise anything
            raise self.fault(error) from error
        if not callable(found):
            raise BadPlugin(f"{self}: {self._entry.value} is nothing that can be called")
        make: Callable[..., Any] = found
        return make

    def made(self, kind: type[T], *given: Any) -> T:
        """What it makes, of this kind. Raises BadPlugin."""
        make = self.load()
        try:
            made = make(*given)
        except Exception as error:  # likewise
            raise self.fault(error) from error
        if not isinstance(made, kind):
            raise BadPlugin(f"{self}: {self._entry.value} makes no {kind.__name__}")
        return made

    def fault(self, error: Exception) -> BadPlugin:
        return BadPlugin(f"{self} can't be used: {type(error).__name__}: {str(error).partition(chr(10))[0]}")

    def __str__(self) -> str:
        return f"{self.name}, of {self.distribution},"


def plugins(kind: Kind) -> list[Plugin]:
    """All that other installed distributions add of a kind, by name."""
    return sorted(
        (
            Plugin(kind, entry.name, f"{entry.dist.name} {entry.dist.version}" if entry.dist else "?", entry)
            for entry in entry_points(group=f"email_assistant.{kind}")
        ),
        key=lambda plugin: (plugin.name, plugin.distribution),
    )


@cache
def features() -> Sequence[Feature]:
    """Ours, then those of other distributions. One that can't be used is logged, and the program goes without it."""
    found = [_ours(folder.name).made(Feature) for folder in iter_modules([str(_FOLDER)])]
    for each in plugins("features"):
        try:
            found.append(each.made(Feature))
        except BadPlugin as bad:
            _log.error("%s", bad)
    return found


@cache
def sites() -> Sequence[Site]:
    return [feature.site() for feature in features() if feature.site]


@cache
def takes_calls() -> bool:
    return any(feature.takes_calls for feature in features())


def mailbox_pages() -> Sequence[MailboxPage]:
    return [site.of_mailbox for site in sites() if site.of_mailbox]


@cache
def foot_links() -> Sequence[tuple[str, str]]:
    return [site.at_foot for site in sites() if site.at_foot]


@cache
def chores() -> Sequence[Chores]:
    return [feature.chores() for feature in features() if feature.chores]


def _is_among(path: str, paths: tuple[str, ...]) -> bool:
    return path in paths or path.startswith(tuple(each for each in paths if each.endswith("/")))


def _ours(name: str) -> Plugin:
    group = "email_assistant.features"
    return Plugin("features", name, "email-assistant", EntryPoint(name, f"{group}.{name}:feature", group))


def plugin(kind: Kind, name: str) -> Plugin:
    """The one of this name. Raises BadPlugin: none is installed, or more than one."""
    found = [each for each in plugins(kind) if each.name == name]
    if not found:
        known = ", ".join(each.name for each in plugins(kind)) or "none at all"
        raise BadPlugin(f"no installed distribution adds {name!r} to email_assistant.{kind}; there is {known}")
    if len(found) > 1:
        raise BadPlugin(
            f"{' and '.join(each.distribution for each in found)} both add {name!r} to email_assistant.{kind}: "
            "uninstall all but one"
        )
    return found[0]
