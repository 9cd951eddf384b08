"""A tool of ours under the rule that the person has set for it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from email_assistant.gate.policy import Verdict
from email_assistant.outgoing.entry import Effect
from email_assistant.tools.spec import Call, Conflicts, Review, Tool, ToolError

CONFIRMATION: Final = Review("confirmation", ("accept", "edit", "ignore", "response"))
"""How a person is asked about a call that the tool itself has no words for."""


def reviewed(tool: Tool, verdict: Verdict) -> Tool:
    """The tool, asked about where the gate says so.

    Args:
        verdict: what the gate says to its calls.
    """
    if verdict.do == "deny":
        return _Off(tool, None, verdict.reason)
    if verdict.do == "ask":
        review = tool.spec.review or CONFIRMATION
        if verdict.overrules:
            review = replace(review, because=verdict.reason)
        return tool if review is tool.spec.review else _Ruled(tool, review)
    return _Unasked(tool, None) if tool.spec.review else tool


class _Ruled(Tool):
    """Another tool, asked about in another way."""

    def __init__(self, tool: Tool, review: Review | None) -> None:
        self._tool = tool
        self.spec = replace(tool.spec, review=review)

    async def complete(self, run: Mapping[str, Any], arguments: dict[str, Any]) -> dict[str, Any]:
        return await self._tool.complete(run, arguments)

    async def run(self, call: Call, arguments: dict[str, Any]) -> str:
        return await self._tool.run(call, arguments)

    async def conflicts(self, call: Call, arguments: dict[str, Any]) -> Conflicts:
        return await self._tool.conflicts(call, arguments)

    async def left_out(self, run: Mapping[str, Any], arguments: Mapping[str, Any]) -> list[str]:
        return await self._tool.left_out(run, arguments)

    async def settle(self, call: Call, effect: Effect) -> None:
        await self._tool.settle(call, effect)


class _Unasked(_Ruled):
    """A tool that was made to be asked about, and isn't. What an account's mode promises still holds."""

    async def run(self, call: Call, arguments: dict[str, Any]) -> str:
        if call.account.mode != "send":
            raise ToolError(f"{call.account.address} is in {call.account.mode} mode, in which nothing goes out unseen")
        return await super().run(call, arguments)


class _Off(_Ruled):
    """A tool that is switched off, which may still have effects to settle."""

    is_on = False

    def __init__(self, tool: Tool, review: Review | None, reason: str) -> None:
        super().__init__(tool, review)
        self._reason = reason

    async def complete(self, run: Mapping[str, Any], arguments: dict[str, Any]) -> dict[str, Any]:
        raise ToolError(f"{self.spec.name} can't be used: {self._reason}")

    async def run(self, call: Call, arguments: dict[str, Any]) -> str:
        raise ToolError(f"{self.spec.name} can't be used: {self._reason}")
