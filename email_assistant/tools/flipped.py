"""A tool of the mail agent that runs on a server: the model and the person see no difference."""

from collections.abc import Mapping
from typing import Any

from email_assistant.mail.address import address_of
from email_assistant.outgoing.effects import Ledger
from email_assistant.outgoing.entry import Effect
from email_assistant.tools.mcp.pool import Servers
from email_assistant.tools.mcp.schema import Schema, UnusableTool
from email_assistant.tools.mcp.tool import Remote
from email_assistant.tools.mcp.words import INVITATION, SENDER
from email_assistant.tools.spec import Call, Conflicts, ServerDown, Tool, ToolError


class FlippedTool(Tool):
    """`local`: the tool whose place this takes; `server`: the name of one that offers a tool of the same name, which
    takes the same arguments."""

    def __init__(self, local: Tool, servers: Servers, ledger: Ledger, server: str) -> None:
        self.spec = local.spec
        self._local = local
        self._servers = servers
        self._server = server
        self._remote = Remote(servers, ledger, server, local.spec.name)
        self._writes = local.spec.review is not None

    async def complete(self, run: Mapping[str, Any], arguments: dict[str, Any]) -> dict[str, Any]:
        return await self._local.complete(run, arguments)

    async def run(self, call: Call, arguments: dict[str, Any]) -> str:
        """Where the server can't do it now the mail waits, rather than being told to the model: raises ServerDown."""
        try:
            return await self._run(call, arguments)
        except UnusableTool as unusable:
            raise ServerDown(self._server, str(unusable)) from None

    async def conflicts(self, call: Call, arguments: dict[str, Any]) -> Conflicts:
        return await self._local.conflicts(call, arguments)

    async def left_out(self, run: Mapping[str, Any], arguments: Mapping[str, Any]) -> list[str]:
        return await self._local.left_out(run, arguments)

    async def meaning(self, run: Mapping[str, Any], arguments: Mapping[str, Any]) -> object:
        return await self._local.meaning(run, arguments)

    async def settle(self, call: Call, effect: Effect) -> None:
        await self._remote.settle(effect)

    async def _run(self, call: Call, arguments: dict[str, Any]) -> str:
        sent = {name: value for name, value in arguments.items() if value is not None}
        if "email_id" in self.spec.arguments.model_fields:
            sent["email_id"] = call.run["mail"]
        told = {INVITATION: call.run["invitation"]} if call.run["invitation"] else {}
        if "from_address" in self.spec.arguments.model_fields:  # ours, so no argument that a server is told of
            told[SENDER] = sent.pop("from_address", call.account.address)
        await self._check(call, sent)
        if not self._writes:
            return await self._remote.read(call, sent, told)
        recipient = address_of(str(sent["email_address"])) if "email_address" in sent else None
        return await self._remote.write(call, arguments, sent, told, recipient)

    async def _check(self, call: Call, sent: Mapping[str, Any]) -> None:
        """Raises ServerDown, UnusableTool."""
        name = self.spec.name
        told = await self._servers.told(self._server, call.account.id, name)
        try:
            Schema(told.inputSchema).check(sent)
        except ToolError as error:
            raise ServerDown(self._server, f"its {name} does not take the same arguments: {error}") from None
