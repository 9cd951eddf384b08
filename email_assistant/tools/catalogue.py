"""The tools that chat may be given: ours, and those of servers, by type."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

from mcp.types import Tool as ToldTool
from pydantic import BaseModel

from email_assistant.gate.labels import Labels
from email_assistant.gate.policy import Subject, Verdict, decide
from email_assistant.tools.config import LOCAL, ToolConfig, ToolsConfig
from email_assistant.tools.effects import Effect, Ledger
from email_assistant.tools.mcp.pool import Servers
from email_assistant.tools.mcp.tool import McpTool
from email_assistant.tools.reviewed import CONFIRMATION, reviewed
from email_assistant.tools.spec import Call, Review, ServerDown, Tool, ToolError


class Catalogue:
    """
    Args:
        local: ours that run here.
    """

    def __init__(
        self,
        config: ToolsConfig,
        labels: Mapping[str, Labels],
        local: Iterable[Tool],
        servers: Servers,
        ledger: Ledger,
    ) -> None:
        self._config = config
        self._labels = labels
        self._local = {tool.spec.name: tool for tool in local}
        self._servers = servers
        self._ledger = ledger
        self._made: dict[tuple[str, UUID, str], McpTool] = {}
        """By server, account and name: to check a schema takes longer than to call the tool."""

    async def types(self) -> Mapping[str, Sequence[str]]:
        """The names of each type's tools."""
        return self._config.types()

    async def offered(self, account_id: UUID, types: Sequence[str]) -> list[Tool]:
        """The tools of these types that can be used now, and those that belong to none, in the order of the file.

        Raises:
            ServerDown: none of a type is left, for a server of it is down.
        """
        ours = [tool for name, tool in self._local.items() if self._config.tools[name].type is None]
        return ours + [
            tool for type_ in self._config.types() if type_ in types for tool in await self._of(account_id, type_)
        ]

    async def get(self, account_id: UUID, name: str) -> Tool:
        """
        Raises:
            ToolError: there is none of this name, or it can't be used now.
            ServerDown: its server can't be asked.
        """
        config = self._of_chat(name)
        if config is None:
            raise ToolError(f"there is no tool {name!r}")
        return await self._found(account_id, name, config)

    def rule(self, name: str, allowed: Collection[str] | None) -> Verdict:
        """What the gate says to a call of it.

        Args:
            allowed: the types that the request was given; None: all.
        """
        config = self._of_chat(name)
        if config is None:
            return Verdict("deny", f"there is no tool {name!r}")
        return decide(allowed, Subject(config.type, self._labels.get(name), config.review))

    def arguments(self, name: str) -> type[BaseModel] | None:
        """What a tool of ours takes that runs here; None: only its server knows."""
        tool = self._local.get(name)
        return tool.spec.arguments if tool else None

    def review(self, name: str) -> Review:
        """How a person is asked about a call."""
        tool = self._local.get(name)
        return (tool.spec.review if tool else None) or CONFIRMATION

    async def complete(self, run: Mapping[str, Any], name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Arguments checked and completed for this run. Raises ToolError, ServerDown."""
        return await (await self.get(UUID(run["account_id"]), name)).complete(run, arguments)

    async def run(self, call: Call, name: str, arguments: dict[str, Any]) -> str:
        """Raises ToolError, LinkNeeded, FormNeeded, ServerDown."""
        return await (await self.get(call.account.id, name)).run(call, arguments)

    async def left_out(self, run: Mapping[str, Any], name: str, arguments: Mapping[str, Any]) -> list[str]:
        """Who of the answered mail's people would get nothing of a call; of the tools of servers that is not known.

        Raises ToolError, GoogleError.
        """
        tool = self._local.get(name)
        return await tool.left_out(run, arguments) if tool else []

    async def settle(self, call: Call, effect: Effect) -> None:
        """Find out what became of an effect whose run is over. Raises NotYetClear, InDoubt."""
        if effect.tool in self._local:
            await self._local[effect.tool].settle(call, effect)
        else:
            await self._ledger.lose(effect)

    def _of_chat(self, name: str) -> ToolConfig | None:
        """A tool that chat may have; those of no type are the mail agent's, but for chat's own."""
        config = self._config.tools.get(name)
        return config if config and (config.type or name in self._local) else None

    async def _of(self, account_id: UUID, type_: str) -> list[Tool]:
        found: list[Tool] = []
        down: ServerDown | None = None
        for name in self._config.types()[type_]:
            config = self._config.tools[name]
            if self.rule(name, None).do == "deny":
                continue
            try:
                found.append(await self._found(account_id, name, config))
            except ToolError:
                continue  # what can't be used is not offered; the list of tools says why
            except ServerDown as error:
                down = error
        if down is not None and not found:
            raise down
        return found

    async def _found(self, account_id: UUID, name: str, config: ToolConfig) -> Tool:
        if name in self._local:
            return reviewed(self._local[name], self.rule(name, None))
        if config.backend == LOCAL:
            raise ToolError(f"there is no tool {name!r}")
        told = await self._servers.told(config.backend, account_id, name)
        return reviewed(self._tool(config.backend, account_id, told), self.rule(name, None))

    def _tool(self, server: str, account_id: UUID, told: ToldTool) -> McpTool:
        """Made once for each time that its server told of it. Raises UnusableTool."""
        place = (server, account_id, told.name)
        known = self._made.get(place)
        if known is None or known.told is not told:
            known = McpTool(self._servers, self._ledger, server, told, self._labels.get(told.name))
            self._made[place] = known
        return known
