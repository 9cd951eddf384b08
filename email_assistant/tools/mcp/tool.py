"""A tool of somebody's MCP server: one that may write and goes by the ledger of effects, as an agent uses it, and
one of the mail agent's that runs there: the model and the person see no difference."""

from collections.abc import Mapping
from typing import Any, Final

from mcp import types

from email_assistant.gate.call import Labels
from email_assistant.google.errors import RateLimited
from email_assistant.mail.address import address_of
from email_assistant.outgoing.effects import Ledger
from email_assistant.outgoing.entry import Effect, InDoubt
from email_assistant.tools.mcp import content
from email_assistant.tools.mcp.connection import Lost, Redirected
from email_assistant.tools.mcp.pool import Servers
from email_assistant.tools.mcp.reader import Reader
from email_assistant.tools.mcp.schema import Schema, UnusableTool, check_told
from email_assistant.tools.mcp.words import EXTERNAL_ID, INVITATION, LIMITED, SENDER
from email_assistant.tools.spec import (
    CONFIRMATION,
    AnyArguments,
    Call,
    Conflicts,
    FormNeeded,
    LinkNeeded,
    ServerDown,
    Tool,
    ToolError,
    ToolSpec,
)

_LONGEST_ID: Final = 1024  # of an event, the longest of Google's (Calendar API, `events.insert`)


class Remote(Reader):
    """`ledger`: of what is written; the others as the reader's."""

    def __init__(self, servers: Servers, ledger: Ledger, server: str, tool: str, answers: Schema | None = None) -> None:
        super().__init__(servers, server, tool, answers)
        self._ledger = ledger

    async def write(
        self,
        call: Call,
        arguments: dict[str, Any],
        sent: Mapping[str, Any],
        told: Mapping[str, Any],
        recipient: str | None,
    ) -> str:
        """`arguments`: as they were decided, which the ledger holds the call to; `sent`: as the server gets them;
        `told`: what it is told beside them; `recipient`: to whom it goes, in lower case. Raises ToolError, LinkNeeded,
        FormNeeded: it was not done; ServerDown, UnusableTool: nothing was asked of it; NotYetClear, InDoubt."""
        effect = await self._ledger.plan(call.run_id, call.id, self._tool, arguments, recipient, call.place)
        match effect.state:
            case "done":
                return effect.result or ""
            case "failed" | "refused":
                raise ToolError(effect.result or "refused")
            case "unknown":
                raise InDoubt(call.id)
        if call.account.mode == "shadow":
            raise ToolError(f"{call.account.address} is in shadow mode, in which nothing is sent or changed")
        return await self._ledger.uninterrupted(self._write(call, effect, sent, told))

    async def settle(self, effect: Effect) -> None:
        """The protocol has no way to ask without doing it. Raises InDoubt."""
        await self._ledger.lose(effect)

    async def _write(self, call: Call, effect: Effect, sent: Mapping[str, Any], told: Mapping[str, Any]) -> str:
        again = self._servers.repeats_safely(self._server)
        if effect.state == "started" and not again:
            await self._ledger.lose(effect)
        try:
            # Where it can't be asked, nothing is started.
            if not again:
                await self._servers.renew(self._server, call.account.id)
            await self._servers.told(self._server, call.account.id, self._tool)
            await self._ledger.start(effect, call.lease)
            result = await self._call(call, sent, told, repeatable=again, reads=False)
        except (ServerDown, UnusableTool):
            if effect.state == "started":  # by an earlier try, of which this one has learned nothing
                await self._ledger.not_found(effect)
            await self._ledger.put_back(effect)
            raise
        except (LinkNeeded, FormNeeded):
            await self._ledger.put_back(effect)
            raise
        except ToolError as refusal:
            raise ToolError(await self._ledger.fail(effect, str(refusal))) from None
        except Lost as lost:
            again = again and not isinstance(lost, Redirected)
            await (self._ledger.not_found(effect) if again else self._ledger.lose(effect))
            raise AssertionError("both raise") from None
        return await self._settled(effect, result, again)

    async def _settled(self, effect: Effect, result: types.CallToolResult, again: bool) -> str:
        if result.isError and self._is_limited(result):
            await self._ledger.rate_limited(effect, RateLimited(self._error(result), None))
        elif result.isError and again and self._may_pass(result):
            await self._ledger.not_found(effect)
        if result.isError:
            raise ToolError(await self._ledger.fail(effect, self._error(result)))
        text = (
            content.result_text(result, own=self._is_own)
            if self._keeps_its_word(result)
            else f"It was done, but the tool server {self._server} says of it something else than its schema says."
        )
        return await self._ledger.finish(effect, self._made(result), text)

    def _made(self, result: types.CallToolResult) -> str:
        """Google's id of what was made: of others it is not believed, or they could pass a mail off as ours."""
        made = (result.meta or {}).get(EXTERNAL_ID) if self._servers.is_own(self._server) else None
        return made if isinstance(made, str) and len(made) <= _LONGEST_ID else ""

    def _is_limited(self, result: types.CallToolResult) -> bool:
        return self._is_own and (result.meta or {}).get(LIMITED) is True


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
            arguments=AnyArguments,
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
