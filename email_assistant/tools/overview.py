"""All tools as a person sees them: where each runs, what it touches, whether it can be used; and their word on those
that have changed."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus
from uuid import UUID

from mcp.types import Tool as Told

from email_assistant.errors import AssistantError
from email_assistant.gate.call import Labels, Rule
from email_assistant.tools.config import RuleFiles, Rules
from email_assistant.tools.mcp.pool import Servers
from email_assistant.tools.mcp.schema import UnusableTool, check_told
from email_assistant.tools.mcp.seen import SeenTool, SeenTools
from email_assistant.tools.spec import ServerDown, ToolState


class NoTool(AssistantError):
    """There is no tool of that name."""

    status = HTTPStatus.NOT_FOUND


class NotAsShown(AssistantError):
    """The tool is not as it was shown, or has not changed at all."""

    status = HTTPStatus.CONFLICT


@dataclass(frozen=True, slots=True)
class ToolRow:
    """One tool."""

    name: str
    type: str | None  # the type that chat chooses it by
    backend: str  # where it runs: `local`, or a server's name
    is_own: bool  # whether that is ours
    review: Rule
    labels: Labels | None  # None: nobody has said what it touches
    state: ToolState
    reason: str | None  # why it can't be used


class Overview:
    """All of it raises BadFile while the person's files can't be used."""

    def __init__(self, files: RuleFiles, servers: Servers, seen: SeenTools, user_id: UUID) -> None:
        self._files = files
        self._servers = servers
        self._seen = seen
        self._user_id = user_id

    async def rows(self) -> list[ToolRow]:
        """Every tool; servers that are not ours are asked for theirs."""
        rules = self._files.now()
        return await asyncio.gather(*(self._row(name, rules) for name in rules.tools))

    async def row(self, name: str) -> tuple[ToolRow, SeenTool | None]:
        """A tool, and how the person has seen it, if its server is not ours. Raises NoTool."""
        rules = self._files.now()
        if name not in rules.tools:
            raise NoTool(f"there is no tool {name}; `email-assistant tools` lists them")
        return await self._row(name, rules), await self._seen.find(rules.tools[name].backend, name)

    async def accept(self, name: str, new_hash: str) -> None:
        """Let a tool that has changed be used as the person was shown it. Raises NoTool, NotAsShown."""
        row, _ = await self.row(name)
        if not await self._seen.accept(row.backend, name, new_hash):
            raise NotAsShown(f"{name} is not as it was shown, or has not changed: look at it again")

    def remarks(self) -> Sequence[str]:
        """What the person has set that takes a safeguard away, a line each."""
        rules = self._files.now()
        return [
            f"{name} is never reviewed: it {'sends or changes something' if labels else 'may do anything'} unseen"
            + (" until a chat has read private data" if rules.foreign(name) else "")
            for name, tool in rules.tools.items()
            if tool.review == "never" and ((labels := rules.labels.get(name)) is None or labels.write_operation)
        ]

    async def _row(self, name: str, rules: Rules) -> ToolRow:
        tool, labels = rules.tools[name], rules.labels.get(name)
        state, reason = await self._state(name, rules)
        is_own = rules.foreign(name) is None
        return ToolRow(name, tool.type, tool.backend, is_own, tool.review, labels, state, reason)

    async def _state(self, name: str, rules: Rules) -> tuple[ToolState, str | None]:
        labels, backend = rules.labels.get(name), rules.tools[name].backend
        if labels is not None and not labels.enabled:
            return "off", "it is switched off in tool_permissions.json"
        if backend not in rules.config.servers:
            return "ready", None
        try:
            told = (await self._servers.listing(backend, self._user_id)).get(name)
        except ServerDown as down:
            return "down", down.reason
        return await self._told(backend, told)

    async def _told(self, server: str, told: Told | None) -> tuple[ToolState, str | None]:
        if told is None:
            return "missing", "its server does not offer it"
        try:
            check_told(told)
        except UnusableTool as error:
            return "unusable", str(error)
        if not await self._seen.look(server, told):
            return "changed", "its server tells other things of it than you have seen"
        return "ready", None
