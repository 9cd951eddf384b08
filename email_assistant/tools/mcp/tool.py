"""A tool that runs on an MCP server."""

import json
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, Final

import jsonschema_rs
from mcp import types
from pydantic import BaseModel, ConfigDict

from email_assistant.gate.labels import Labels
from email_assistant.tools.effects import Effect, InDoubt, Ledger
from email_assistant.tools.mcp import content
from email_assistant.tools.mcp.connection import Lost
from email_assistant.tools.mcp.pool import Servers
from email_assistant.tools.spec import Call, FormNeeded, LinkNeeded, Review, ServerDown, Tool, ToolError, ToolSpec

KEY: Final = "email-assistant/idempotency-key"
"""In a call's `_meta`: the same for each try at the same call, and for no other."""
EXTERNAL_ID: Final = "email-assistant/external-id"
"""In a result's `_meta`: Google's id of what was made."""
AGAIN: Final = "email-assistant/again"
"""In the `_meta` of a result that is an error: it may pass, and the same call again does it at most once."""

_MOST_SCHEMA: Final = 20_000
"""Characters of a schema as JSON, which the model is shown at every call."""
_MOST_COMPLAINTS: Final = 5


class UnusableTool(ToolError):
    """What the server tells of a tool makes no sense; the message says why."""


class _Anything(BaseModel):
    """Stands for arguments that a JSON schema checks instead."""

    model_config = ConfigDict(extra="allow")


class Schema:
    """The JSON schema of a tool's arguments or answers, as its server tells it.

    It is checked by a library in which no schema can take time without bound: its patterns are linear, its references
    never leave the schema.
    """

    def __init__(self, schema: dict[str, Any]) -> None:
        """Raises UnusableTool."""
        if len(json.dumps(schema)) > _MOST_SCHEMA:
            raise UnusableTool(f"its schema is longer than {_MOST_SCHEMA} characters")
        if schema.get("type", "object") != "object":
            raise UnusableTool("its schema is not one of an object")
        try:
            self._validator = jsonschema_rs.validator_for(
                schema, offline=True, pattern_options=jsonschema_rs.RegexOptions()
            )
        except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError):
            raise UnusableTool("its schema is none") from None

    def check(self, value: Mapping[str, Any]) -> None:
        """Raises ToolError with one line that names each wrong field."""
        wrong = list(islice(self._validator.iter_errors(dict(value)), _MOST_COMPLAINTS))
        if wrong:
            raise ToolError("; ".join(f"{_place(error.instance_path)}: {_said(error.message)}" for error in wrong))


def _place(path: Sequence[str | int]) -> str:
    return ".".join(map(str, path)) or "arguments"


def _said(message: str) -> str:
    return content.one_line(message, 200)


class McpTool(Tool):
    """
    Args:
        told: as the server lists it.
        review: how a person is asked about a call; None: nobody is.
        labels: None: nobody has said what it touches, so it counts as a write.

    Raises:
        UnusableTool.
    """

    def __init__(
        self,
        servers: Servers,
        ledger: Ledger,
        server: str,
        told: types.Tool,
        review: Review | None,
        labels: Labels | None,
    ) -> None:
        self._schema = Schema(told.inputSchema)
        answers = Schema(told.outputSchema) if told.outputSchema is not None else None
        self._remote = Remote(servers, ledger, server, told.name, answers)
        self._writes = labels is None or labels.write_operation
        self.spec = ToolSpec(
            name=told.name,
            # Ours name the blocks that data stands in, which others' texts may not.
            description=told.description or "" if servers.is_own(server) else content.description(told),
            parameters=content.parameters(told.inputSchema),
            arguments=_Anything,
            review=review,
        )

    async def complete(self, run: Mapping[str, Any], arguments: dict[str, Any]) -> dict[str, Any]:
        self._schema.check(arguments)
        return arguments

    async def run(self, call: Call, arguments: dict[str, Any]) -> str:
        self._schema.check(arguments)
        try:
            if self._writes:
                return await self._remote.write(call, arguments, arguments, {}, None)
            return await self._remote.read(call, arguments, {})
        except ServerDown as down:
            raise ToolError(str(down)) from None

    async def settle(self, call: Call, effect: Effect) -> None:
        await self._remote.settle(effect)


class Remote:
    """A tool on its server: reads as often as need be, writes by the ledger.

    Args:
        answers: the schema of its structured answers, if it has told any.
    """

    def __init__(self, servers: Servers, ledger: Ledger, server: str, tool: str, answers: Schema | None) -> None:
        self._servers = servers
        self._ledger = ledger
        self._server = server
        self._tool = tool
        self._answers = answers

    async def read(self, call: Call, arguments: Mapping[str, Any], told: Mapping[str, Any]) -> str:
        """
        Args:
            told: what the server is told beside the arguments, in `_meta`.

        Raises:
            ToolError, LinkNeeded, FormNeeded.
            ServerDown: nothing was asked of it.
        """
        try:
            result = await self._call(call, arguments, told, repeatable=True)
        except Lost as lost:
            raise ToolError(f"the tool server {self._server} failed: {lost}") from None
        if result.isError:
            raise ToolError(content.error_text(result))
        if not self._keeps_its_word(result):
            raise ToolError(f"the tool server {self._server} answered with something else than its schema says")
        return content.result_text(result, own=self._servers.is_own(self._server))

    async def write(
        self,
        call: Call,
        arguments: dict[str, Any],
        sent: Mapping[str, Any],
        told: Mapping[str, Any],
        recipient: str | None,
    ) -> str:
        """
        Args:
            arguments: as they were decided, which the ledger holds the call to.
            sent: as the server gets them.
            told: what it is told beside them.
            recipient: to whom it goes, in lower case.

        Raises:
            ToolError, LinkNeeded, FormNeeded: it was not done.
            ServerDown: nothing was asked of it.
            NotYetClear, InDoubt.
        """
        effect = await self._ledger.plan(call.run_id, call.id, self._tool, arguments, recipient)
        match effect.state:
            case "done":
                return effect.result or ""
            case "failed":
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
        await self._servers.listing(self._server, call.account.id)  # where it is down, nothing has been started
        await self._ledger.start(effect, call.lease)
        try:
            result = await self._call(call, sent, told, repeatable=again)
        except (LinkNeeded, FormNeeded) as needs:
            await self._ledger.fail(effect, f"It was not done: {needs}")
            raise
        except ToolError as refusal:
            raise ToolError(await self._ledger.fail(effect, str(refusal))) from None
        except ServerDown as down:
            if not again:
                raise ToolError(await self._ledger.fail(effect, f"{down}; nothing was done")) from None
            raise
        except Lost:
            await (self._ledger.not_found(effect) if again else self._ledger.lose(effect))
            raise AssertionError("both raise") from None
        return await self._settled(effect, result, again)

    async def _settled(self, effect: Effect, result: types.CallToolResult, again: bool) -> str:
        meta = result.meta or {}
        if result.isError and again and meta.get(AGAIN) is True:
            await self._ledger.not_found(effect)
        if result.isError:
            raise ToolError(await self._ledger.fail(effect, content.error_text(result)))
        text = (
            content.result_text(result, own=self._servers.is_own(self._server))
            if self._keeps_its_word(result)
            else f"It was done, but the tool server {self._server} says of it something else than its schema says."
        )
        made = str(meta.get(EXTERNAL_ID) or "") if self._servers.is_own(self._server) else ""
        return await self._ledger.finish(effect, made, text)

    def _keeps_its_word(self, result: types.CallToolResult) -> bool:
        """Whether its structured answer is as it said it would be."""
        if self._answers is None:
            return True
        try:
            self._answers.check(result.structuredContent or {})
        except ToolError:
            return False
        return result.structuredContent is not None

    async def _call(
        self, call: Call, arguments: Mapping[str, Any], told: Mapping[str, Any], *, repeatable: bool
    ) -> types.CallToolResult:
        return await self._servers.call(
            self._server,
            call.account.id,
            self._tool,
            arguments,
            meta={KEY: f"{call.run_id}/{call.id}", **told},
            progress=call.progress,
            filled_in=call.filled_in,
            repeatable=repeatable,
        )
