"""One tool on its server, for calls that only read."""

from collections.abc import Mapping
from typing import Any

from mcp import types

from email_assistant.tools.mcp import content
from email_assistant.tools.mcp.connection import Lost
from email_assistant.tools.mcp.pool import Servers
from email_assistant.tools.mcp.schema import Schema
from email_assistant.tools.mcp.words import AGAIN, KEY
from email_assistant.tools.spec import AnyCall, ServerDown, ToolError


class Reader:
    """`answers`: the schema of its structured answers, if it has told any."""

    def __init__(self, servers: Servers, server: str, tool: str, answers: Schema | None = None) -> None:
        self._servers = servers
        self._server = server
        self._tool = tool
        self._answers = answers

    async def read(self, call: AnyCall, arguments: Mapping[str, Any], told: Mapping[str, Any]) -> str:
        """`told`: what the server is told beside the arguments, in `_meta`. Raises ToolError, LinkNeeded, FormNeeded;
        ServerDown, UnusableTool: nothing was asked of it."""
        try:
            result = await self._call(call, arguments, told, repeatable=True, reads=True)
        except Lost as lost:
            raise ToolError(f"the tool server {self._server} failed: {lost}") from None
        if result.isError and self._may_pass(result):
            raise ServerDown(self._server, self._error(result))
        if result.isError:
            raise ToolError(self._error(result))
        if not self._keeps_its_word(result):
            raise ToolError(f"the tool server {self._server} answered with something else than its schema says")
        return content.result_text(result, own=self._is_own)

    def _keeps_its_word(self, result: types.CallToolResult) -> bool:
        """Whether its structured answer is as it said it would be."""
        if self._answers is None:
            return True
        try:
            self._answers.check(result.structuredContent or {})
        except ToolError:
            return False
        return result.structuredContent is not None

    @property
    def _is_own(self) -> bool:
        return self._servers.is_own(self._server)

    def _error(self, result: types.CallToolResult) -> str:
        return content.error_text(self._server, result, own=self._is_own)

    def _may_pass(self, result: types.CallToolResult) -> bool:
        return self._is_own and (result.meta or {}).get(AGAIN) is True

    async def _call(
        self, call: AnyCall, arguments: Mapping[str, Any], told: Mapping[str, Any], *, repeatable: bool, reads: bool
    ) -> types.CallToolResult:
        return await self._servers.call(
            self._server,
            call.account_id,
            self._tool,
            arguments,
            meta={KEY: f"{call.run_id}/{call.id}", **told},
            progress=call.progress,
            filled_in=call.filled_in,
            repeatable=repeatable,
            reads=reads,
        )
