"""What a tool is: what it takes, whether a person must review it, and how it runs."""

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any, Final, Generic, Literal, Protocol, TypeVar
from urllib.parse import urlsplit
from uuid import UUID

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from email_assistant.errors import AssistantError, in_plain_words
from email_assistant.mail.address import split_recipients
from email_assistant.mail.characters import as_seen
from email_assistant.settings.values import is_loopback

if TYPE_CHECKING:  # an agent that has nothing to do with mail loads neither Google nor the database
    from email_assistant.accounts.account import Account
    from email_assistant.db.lease import Lease
    from email_assistant.google.account import GoogleAccount
    from email_assistant.outgoing.entry import Effect

Answer = Literal["accept", "edit", "ignore", "response"]
Progress = Callable[[str], None]  # takes one line of what a tool says while it works; written by others, so data
Kind = Literal["draft", "meeting", "confirmation", "notification", "question", "link", "in_doubt"]
ToolState = Literal["ready", "off", "changed", "missing", "unusable", "down"]
LETTER: Final = "send_email_tool"  # what the tools are called that send a mail, the mail agent's and a chat's
MEETING: Final = "schedule_meeting_tool"  # what the tool is called that proposes one


NEEDS_MAILBOX: Final = (
    "no mailbox is connected, and this needs one: the person connects one with `email-assistant auth login`"
)
_DEEPEST: Final = 64  # lists and objects in one another; no tool takes near as many
_UNSTORABLE: Final = re.compile("[\0\ud800-\udfff]")


class ToolError(AssistantError):
    """The call can't be done as it stands; the message goes back to the model."""

    passes = "on another try"


class LinkNeeded(AssistantError):
    """The tool can't go on before the person has opened a link, such as one to log in.

    Attributes:
        url: it is https, or http on loopback; its host is shown to the person, and nothing of ours ever opens it.
        message: why, in the words of the tool's server.
        elicitation_id: what the server knows the link by."""

    def __init__(self, url: str, message: str, elicitation_id: str = "") -> None:
        super().__init__(message)
        self.url = url
        self.message = message
        self.elicitation_id = elicitation_id


def leads_to(url: str, *, here: bool) -> str | None:
    """The host of a link that may be shown: one of https or, from a server on this machine's loopback, of http to it.

    None: it is neither, or hides where it leads.

    Args:
        here: its server is on loopback.
    """
    if any(ord(c) <= 32 or ord(c) >= 127 or c == "\\" for c in url):
        return None
    try:
        parts = urlsplit(url)
        host = parts.hostname
        if not host or "@" in parts.netloc or parts.port == 0:
            return None
    except ValueError:
        return None
    return host if parts.scheme == "https" or (parts.scheme == "http" and here and is_loopback(host)) else None


class FormNeeded(AssistantError):
    """The tool can't go on before the person has told it something; then the call is made again, saying so.

    Attributes:
        message: what for, in the words of the tool's server.
        schema: JSON schema of an object with plain fields."""

    def __init__(self, message: str, schema: Mapping[str, Any]) -> None:
        super().__init__(message)
        self.message = message
        self.schema = schema


@dataclass(frozen=True, slots=True)
class FilledIn:
    """A form of a tool's server as the person filled it in: what it asked, and what they said to just that."""

    message: str
    schema: dict[str, Any]  # as the form's (`FormNeeded`)
    values: dict[str, Any]


class ServerDown(AssistantError):
    """A server of tools can't be used now; nothing was asked of it.

    Attributes:
        name: what the person calls it.
        reason: one plain line."""

    status = HTTPStatus.SERVICE_UNAVAILABLE
    passes = "by itself"

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"the tool server {name} can't be used: {reason}")
        self.name = name
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Review:
    """How a person is asked about a call."""

    kind: Kind
    answers: tuple[Answer, ...]


CONFIRMATION: Final = Review("confirmation", ("accept", "edit", "ignore", "response"))
"""How a person is asked about a call that the tool itself has no words for."""


@dataclass(frozen=True, slots=True)
class ToolSpec:
    name: str
    description: str
    parameters: Mapping[str, Any]
    """JSON schema of the arguments as the model sees it: hand-written, since every token is paid on every call."""
    arguments: type[BaseModel]
    """Validates what the model, or a person's edit, gave."""
    review: Review | None
    """None: runs without asking."""

    def schema(self) -> dict[str, Any]:
        """The tool in the form of OpenAI's `tools`."""
        return {
            "type": "function",
            "function": {
                "name": self.name,
                "description": self.description,
                "parameters": {"type": "object", **self.parameters},
            },
        }

    def parse(self, arguments: Mapping[str, Any]) -> BaseModel:
        """Raises ToolError with one line that names each wrong field."""
        try:
            return self.arguments.model_validate(arguments)
        except ValidationError as error:
            wrong = (f"{'.'.join(map(str, e['loc'])) or 'arguments'}: {in_plain_words(e)}" for e in error.errors())
            raise ToolError("; ".join(wrong)) from None


class AnyCall(Protocol):
    """One decided call on its way to be run, by whatever agent."""

    @property
    def id(self) -> str: ...
    @property
    def run_id(self) -> UUID: ...
    @property
    def account_id(self) -> UUID | None:
        """Of the account that it acts for, if it does for any."""
        ...

    @property
    def progress(self) -> Progress: ...
    @property
    def filled_in(self) -> Sequence[FilledIn]:
        """The forms that the tool's server asked for before."""
        ...


C = TypeVar("C", bound=AnyCall)


@dataclass(frozen=True, slots=True)
class Call:
    """One decided call that acts for an account."""

    run: Mapping[str, Any]  # the run's own data, as its graph was started with (`agents.mail.run.Run`)
    id: str
    account: "Account"
    client: "GoogleAccount | None"  # None: the person has connected no mailbox
    lease: "Lease"
    progress: Progress = field(default=lambda text: None)
    filled_in: Sequence[FilledIn] = ()  # the forms that the tool's server asked for before
    approved: bool = False  # a person has decided it
    place: str | None = None  # where it is to be done (`outgoing.entry.OURS`, or a server); None: it is not to be

    @property
    def run_id(self) -> UUID:
        return UUID(self.run["id"])

    @property
    def account_id(self) -> UUID:
        return self.account.id

    @property
    def google(self) -> "GoogleAccount":
        """Raises ToolError: the person has connected no mailbox."""
        if self.client is None:
            raise ToolError(NEEDS_MAILBOX)
        return self.client


@dataclass(frozen=True, slots=True)
class Conflicts:
    """What stands in the person's way at the time that a call is about."""

    events: list[str]  # a line each, such as "10:00-11:00 Dentist"
    calendars: list[str]  # names of the calendars that count as their time


NO_CONFLICTS: Final = Conflicts([], [])


class AnyTool(ABC, Generic[C]):
    """A tool of whatever agent."""

    spec: ToolSpec

    async def complete(self, run: Mapping[str, Any], arguments: dict[str, Any]) -> dict[str, Any]:
        """Fill in what the run knows better than the model, and check the rest against the run. Raises ToolError: an
        argument is invalid, or contradicts the run."""
        self.spec.parse(arguments)
        return arguments

    @abstractmethod
    async def run(self, call: C, arguments: dict[str, Any]) -> str:
        """Do it and say what came of it, for the model. Raises ToolError: it was refused for good; the model may
        propose something else."""


class Tool(AnyTool[Call]):
    """A tool that acts for an account."""

    async def conflicts(self, call: Call, arguments: dict[str, Any]) -> Conflicts:
        """What stands in the calendar at the time that the call is about, for the person who reviews it. Raises
        GoogleError."""
        return NO_CONFLICTS

    async def left_out(self, run: Mapping[str, Any], arguments: Mapping[str, Any]) -> list[str]:
        """Who of the people of the mail that a call answers would get nothing, for the person who reviews it. Raises
        ToolError, GoogleError."""
        return []

    async def meaning(self, run: Mapping[str, Any], arguments: Mapping[str, Any]) -> object:
        """As JSON; equal for arguments, completed, that come to the same."""
        return arguments

    async def settle(self, call: Call, effect: "Effect") -> None:
        """Find out whether an effect that was started has happened, without doing it. Raises NotYetClear: look again
        later; InDoubt: nobody can tell."""
        raise NotImplementedError(f"{self.spec.name} has no outside effect")


def in_one_spelling(text: str) -> str:
    """Equal for texts that differ in blanks, case and kind of apostrophe alone."""
    return " ".join(text.casefold().replace("\u2019", "'").split())


def check_storable(value: object) -> None:
    """Whether an argument, or a person's answer, can be kept, shown and sent as it stands: Postgres has no text with a
    NUL, UTF-8 none with half of a surrogate pair, and what is nested without an end can't be read again. Raises
    ToolError."""
    level = [value]
    for _ in range(_DEEPEST):
        if any(isinstance(each, str) and _UNSTORABLE.search(each) for each in level):
            raise ToolError("a text can't hold the character NUL, or half of a surrogate pair")
        level = [inner for each in level for inner in _inside(each)]
        if not level:
            return
    raise ToolError(f"lists and objects can't stand in one another more than {_DEEPEST} deep")


def shown_whole(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments in which nothing stands that a person doesn't see: what they are shown is what is sent."""
    return {name: _seen(value) for name, value in arguments.items()}


def _seen(value: Any) -> Any:
    match value:
        case str():
            return as_seen(value)
        case list():
            return [_seen(each) for each in value]
        case Mapping():
            return {name: _seen(each) for name, each in value.items()}
        case _:
            return value


def _inside(value: object) -> list[object]:
    match value:
        case Mapping():
            return [*value.keys(), *value.values()]
        case list():
            return value
        case _:
            return []


def _list_from_form(value: object) -> object:
    """Accept a list that a form or a model sent as one string: JSON, or entries set apart by commas."""
    if not isinstance(value, str):
        return value
    text = value.strip()
    if text.startswith("["):
        try:
            return json.loads(text)
        except ValueError:
            pass
    return split_recipients(text)


StringList = Annotated[list[str], BeforeValidator(_list_from_form)]


class AnyArguments(BaseModel):
    """Stands for arguments that a JSON schema checks instead."""

    model_config = ConfigDict(extra="allow")


class Arguments(BaseModel):
    """Base of all argument models: unknown fields are refused, since they show that the model means another tool."""

    model_config = ConfigDict(extra="forbid", str_strip_whitespace=True)


def is_blank(kind: Kind, arguments: Mapping[str, Any]) -> bool:
    """Whether what is proposed is a letter that the person is to write, as nothing was proposed for their mail."""
    return kind == "draft" and not arguments.get("response_text", "blank")
