"""`tools.yaml`: which tools there are, where each runs, and when a person is asked about its calls; with
`tool_permissions.json`, looked at anew at every call, over what is shipped: what the person changes counts for the
next one."""

import json
import os
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from email_assistant.db.environment import hidden
from email_assistant.gate.call import Labels, Rule, Subject, read_labels, shipped_labels
from email_assistant.outgoing.entry import OURS, place_at, server_at
from email_assistant.settings import Settings
from email_assistant.user_file import Place, UserFile

LOCAL: Final = "local"
OWN_SERVERS: Final = ("calendar", "mail", "agent")  # our own servers, which run in this process

SEARCH_MAIL: Final = "search_mail_tool"

_VARIABLE = re.compile(r"\$\{([^}]*)\}")
_ToolName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
_ServerName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,31}$")]
_Type = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,31}$")]
_MAIL_AGENTS: Final = (
    "send_email_tool",
    "schedule_meeting_tool",
    "check_calendar_tool",
    SEARCH_MAIL,
    "Question",
    "Done",
)
_QUESTIONS: Final = ("Question", "request_clarification")
_Stamp = tuple[int, int, int] | None
_FILES: Final = {"tools": "tools.yaml", "tool_permissions": "tool_permissions.json"}
"""By setting, the name of the file under the home."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class ServerConfig(_Strict):
    """An MCP server: a command that speaks over its standard input and output, a URL, or what another installed
    distribution has run in this process."""

    command: Annotated[list[str], Field(min_length=1)] | None = None
    env: dict[str, str] = {}
    url: Annotated[str, Field(pattern=r"^https?://[^\s/?#@]+(/[^\s#]*)?$")] | None = None
    headers: dict[str, str] = {}
    plugin: str | None = None
    """The name of its entry point."""
    timeout_seconds: float = Field(20, gt=0, le=600)
    """Of one call."""
    repeats: Literal["safe"] | None = None
    """safe: it does a call once, however often it comes with the same idempotency key in `_meta`."""
    own: bool = False
    """It is a server of this program that runs elsewhere, so its answers need not be delimited once more."""

    @property
    def identity(self) -> str:
        """Tells it from another under its name, without what may be secret in its address or command."""
        what = [self.url, self.command, *([self.plugin] if self.plugin else [])]
        return sha256(json.dumps(what).encode()).hexdigest()[:16]

    @model_validator(mode="after")
    def _is_one_of_three(self) -> Self:
        if [self.command, self.url, self.plugin].count(None) != 2:
            raise ValueError("takes either a command or a url, or a plugin")
        if self.url is None and self.headers:
            raise ValueError("headers go with a url; a command takes env")
        if self.command is None and self.env:
            raise ValueError("env goes with a command; a url takes headers")
        return self


class ToolConfig(_Strict):
    backend: str = LOCAL  # `local`, or the name of a server
    type: _Type | None = None  # the type of tools that chat chooses it by; None: no choice takes it away
    review: Rule = "gate"


class _ToolsFile(_Strict):
    servers: dict[_ServerName, ServerConfig] = {}
    tools: dict[_ToolName, ToolConfig] = {}


@dataclass(frozen=True, slots=True)
class ToolsConfig:
    servers: Mapping[str, ServerConfig]  # those that are not ours, and ours that were put elsewhere
    tools: Mapping[str, ToolConfig]

    def types(self) -> dict[str, list[str]]:
        """Every type that chat may choose, with the names of its tools, in the order of the file."""
        found: dict[str, list[str]] = {}
        for name, tool in self.tools.items():
            if tool.type:
                found.setdefault(tool.type, []).append(name)
        return found

    def is_own(self, backend: str) -> bool:
        """Whether it is a program of ours, here or elsewhere."""
        return backend in (LOCAL, *OWN_SERVERS) if backend not in self.servers else self.servers[backend].own

    def without(self, name: str) -> "ToolsConfig":
        """The same but for a tool that is not to be used."""
        return ToolsConfig(self.servers, {each: tool for each, tool in self.tools.items() if each != name})

    def with_calendar_at(self, url: str) -> "ToolsConfig":
        """The calendar's server elsewhere."""
        return ToolsConfig({**self.servers, "calendar": ServerConfig(url=url)}, self.tools)


SHIPPED: Final = ToolsConfig(
    {},
    {
        "send_email_tool": ToolConfig(type="mail", review="always"),
        "schedule_meeting_tool": ToolConfig(review="always"),
        "check_calendar_tool": ToolConfig(),
        SEARCH_MAIL: ToolConfig(),
        "Question": ToolConfig(review="always"),
        "Done": ToolConfig(),
        "request_clarification": ToolConfig(review="always"),
        "list_calendars": ToolConfig(backend="calendar", type="calendar"),
        "list_events": ToolConfig(backend="calendar", type="calendar"),
        "create_event": ToolConfig(backend="calendar", type="calendar", review="always"),
        "update_event": ToolConfig(backend="calendar", type="calendar", review="always"),
        "search_mail": ToolConfig(backend="mail", type="mail"),
        "get_thread": ToolConfig(backend="mail", type="mail"),
        "list_waiting": ToolConfig(type="inbox"),
        "find_mail": ToolConfig(type="inbox"),
        "explain_mail": ToolConfig(type="inbox"),
    },
)
"""What there is without a file."""


@dataclass(frozen=True, slots=True)
class Shipped:
    """What a file of tools is put over."""

    config: ToolsConfig
    """What there is without a file."""
    in_process: Collection[str] = ()
    """Servers that run in this process."""
    standing: Collection[str] = ()
    """Tools that an agent always has, wherever they run, whatever chat chooses."""
    here: Collection[str] = ()
    """Of these, those that run locally only."""
    questions: Collection[str] = ()
    """Of these, those that ask the person."""
    by_type: bool = True
    """Whether the others are chosen by their type."""


ASSISTANT: Final = Shipped(
    SHIPPED, OWN_SERVERS, (*_MAIL_AGENTS, *_QUESTIONS), (SEARCH_MAIL, "Question", "Done"), _QUESTIONS
)
"""The mail agent's and chat's."""


def read_tools(source: UserFile, shipped: Shipped = ASSISTANT) -> ToolsConfig:
    """A person's file, over what is shipped: what it leaves out of one of our tools stays as it is. Raises BadFile."""
    given = _with_variables(source, source.mapping())
    tools, base = given.get("tools"), shipped.config
    if isinstance(tools, dict):
        ours = {name: tool.model_dump() for name, tool in base.tools.items()}
        given["tools"] = {
            name: ours.get(name, {}) | tool if isinstance(tool, dict) else tool for name, tool in tools.items()
        }
    file = source.parsed(_ToolsFile, given)
    for name in file.servers:
        if name in (*shipped.in_process, *base.servers, LOCAL):
            raise source.bad(("servers", name), f"{name} is a server of this program; choose another name")
    config = ToolsConfig({**base.servers, **file.servers}, {**base.tools, **file.tools})
    for name, tool in file.tools.items():
        _check(source, name, tool, shipped, config.servers)
    return config


def _check(source: UserFile, name: str, tool: ToolConfig, shipped: Shipped, servers: Collection[str]) -> None:
    known, ours = (LOCAL, *shipped.in_process, *servers), shipped.config.tools
    if tool.backend not in known:
        raise source.bad(
            ("tools", name, "backend"), f"there is no server {tool.backend!r}; there are {', '.join(known)}"
        )
    if tool.backend == LOCAL and (name not in ours or ours[name].backend != LOCAL):
        raise source.bad(("tools", name), f"{name} does not run locally; name its server as `backend`")
    if tool.backend != LOCAL and name in shipped.here:
        raise source.bad(("tools", name, "backend"), f"{name} is a part of the agent and runs locally only")
    if name in shipped.questions and tool.review != "always":
        raise source.bad(("tools", name, "review"), "a question is always put to you")
    if shipped.by_type and tool.type is None and name not in shipped.standing:
        raise source.bad(("tools", name), f"{name} needs a `type`, by which chat chooses it")


def _with_variables(source: UserFile, content: dict[str, Any]) -> dict[str, Any]:
    """The content with `${NAME}` put in from the environment, within `servers`."""

    def filled(value: Any, place: Place) -> Any:
        match value:
            case dict():
                return {key: filled(each, (*place, key)) for key, each in value.items()}
            case list():
                return [filled(each, (*place, number)) for number, each in enumerate(value)]
            case str():
                return _VARIABLE.sub(lambda found: _variable(source, place, found[1]), value)
            case _:
                return value

    if "servers" not in content:
        return content
    return {**content, "servers": filled(content["servers"], ("servers",))}


def _variable(source: UserFile, place: Place, name: str) -> str:
    try:
        return {**hidden, **os.environ}[name]
    except KeyError:
        raise source.bad(place, f"the variable {name} is not set") from None


@dataclass(frozen=True, slots=True)
class Rules:
    """One reading of the files."""

    config: ToolsConfig
    labels: Mapping[str, Labels]  # what each tool touches

    @property
    def tools(self) -> Mapping[str, ToolConfig]:
        return self.config.tools

    def subject(self, name: str) -> Subject:
        """A tool as the gate sees it; one that the files do not name any more is of no type, and asks by no rule."""
        tool = self.tools.get(name, ToolConfig())
        return Subject(tool.type, self.labels.get(name), tool.review, self.foreign(name))

    def foreign(self, name: str) -> str | None:
        """The server that a tool runs on, if that is not ours."""
        backend = self.tools[name].backend if name in self.tools else LOCAL
        return None if self.config.is_own(backend) else backend

    def place(self, name: str) -> str:
        """Where a tool's calls are done now."""
        if (server := self.foreign(name)) is None:
            return OURS
        return place_at(server, self.config.servers[server].identity)


class RuleFiles:
    """
    Attributes:
        known: the last reading that went well."""

    def __init__(self, settings: Settings) -> None:
        self._named = {setting: getattr(settings, setting) for setting in _FILES}
        self._paths = {
            setting: settings.folder / (named.expanduser() if named else _FILES[setting])
            for setting, named in self._named.items()
        }
        self._calendar = settings.mcp_url
        self._past_mail = settings.past_mail
        self._stamps: list[_Stamp] | None = None
        self.known = Rules(SHIPPED, shipped_labels())

    def now(self) -> Rules:
        """Raises BadFile: a file can't be used as it is now."""
        stamps = [_stamp(path) for path in self._paths.values()]
        if stamps != self._stamps:
            self.known = self._read()
            self._stamps = stamps
        return self.known

    def _read(self) -> Rules:
        tools, permissions = self._source("tools"), self._source("tool_permissions")
        config = read_tools(tools) if tools else SHIPPED
        if not self._past_mail:
            config = config.without(SEARCH_MAIL)
        if self._calendar:
            config = config.with_calendar_at(self._calendar)
        return Rules(config, read_labels(permissions) if permissions else shipped_labels())

    def _source(self, setting: str) -> UserFile | None:
        """None: there is no such file, and none was named. Raises BadFile."""
        path = self._paths[setting]
        return UserFile.read(path) if self._named[setting] or os.path.lexists(path) else None


class ShippedRules(RuleFiles):
    """What holds where no person has a file."""

    def __init__(self) -> None:
        self.known = Rules(SHIPPED, shipped_labels())

    def now(self) -> Rules:
        return self.known


def moved(before: str, now: str) -> str:
    """Why a person is asked again about a call that would now be done in another place than when they were asked."""
    server = server_at(now)
    if not server:
        then = f"this program would do this now, and no longer {server_at(before)}"
    elif server == server_at(before):
        then = f"{server}, where this goes, has another address or command"
    else:
        then = f"this now goes to {server}, which is no part of this program: look at what it would be told"
    return f"since you were asked, tools.yaml has changed: {then}"


def _stamp(path: Path) -> _Stamp:
    """Differs once the file has changed."""
    try:
        found = path.stat()
    except OSError:  # a link that leads nowhere is a file that can't be read
        return (0, 0, 0) if os.path.lexists(path) else None
    return found.st_mtime_ns, found.st_size, found.st_ino
