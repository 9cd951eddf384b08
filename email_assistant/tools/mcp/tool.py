"""A tool of somebody's MCP server, as an agent uses it."""

from collections.abc import Mapping
from typing import Any

from mcp import types
from pydantic import BaseModel, ConfigDict

from email_assistant.gate.labels import Labels
from email_assistant.outgoing.effects import Ledger
from email_assistant.outgoing.entry import Effect
from email_assistant.tools.mcp import content
from email_assistant.tools.mcp.pool import Servers
from email_assistant.tools.mcp.remote import Remote
from email_assistant.tools.mcp.schema import check_told
from email_assistant.tools.spec import CONFIRMATION, Call, Tool, ToolSpec


class _Anything(BaseModel):
    """Stands for arguments that a JSON schema checks instead."""

    model_config = ConfigDict(extra="allow")


class McpTool(Tool):
    """`told`: as the server lists it; `labels`: None: nobody has said what it touches, so it counts as a write. Raises
    UnusableTool."""

    def __init__(self, servers: Servers, ledger: Ledger, server: str, told: types.Tool, labels: Labels | None) -> None:
        self.told, self.labels = told, labels
        self._schema, answers = check_told(told)
        self._remote = Remote(servers, ledger, server, told.name, answers)
        self._writes = labels is None or labels.write_operation
        self.spec = ToolSpec(
            name=told.name,
            # Ours name the blocks that data stands in, which others' texts may not.
            description=told.description or "" if servers.is_own(server) else content.description(told),
            parameters=content.parameters(told.inputSchema),
            arguments=_Anything,
            review=CONFIRMATION if self._writes else None,
        )

    async def complete(self, run: Mapping[str, Any], arguments: dict[str, Any]) -> dict[str, Any]:
        self._schema.check(arguments)
        return arguments

    async def run(self, call: Call, arguments: dict[str, Any]) -> str:
        self._schema.check(arguments)
        return await self._send(call, arguments, arguments)

    async def _send(self, call: Call, arguments: dict[str, Any], sent: dict[str, Any]) -> str:
        if self._writes:
            return await self._remote.write(call, arguments, sent, {}, None)
        return await self._remote.read(call, sent, {})

    async def settle(self, call: Call, effect: Effect) -> None:
        await self._remote.settle(effect)
