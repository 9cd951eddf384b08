"""What a person's `tools.yaml` and `tool_permissions.json` say of every tool, over what is shipped; looked at anew at
every call, so that what they change counts for the next one."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from email_assistant.gate.call import Subject
from email_assistant.gate.labels import Labels, read_labels, shipped_labels
from email_assistant.gate.source import Source
from email_assistant.outgoing.entry import OURS, place_at, server_at
from email_assistant.settings import Settings
from email_assistant.tools.config import LOCAL, SEARCH_MAIL, SHIPPED, ToolConfig, ToolsConfig, read_tools

_Stamp = tuple[int, int, int] | None
_FILES: Final = {"tools": "tools.yaml", "tool_permissions": "tool_permissions.json"}
"""By setting, the name of the file under the home."""


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

    def _source(self, setting: str) -> Source | None:
        """None: there is no such file, and none was named. Raises BadFile."""
        path = self._paths[setting]
        return Source.read(path) if self._named[setting] or os.path.lexists(path) else None


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
