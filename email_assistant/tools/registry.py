"""The tools of one agent, by name."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from email_assistant.outgoing.entry import Effect
from email_assistant.tools.spec import Call, Conflicts, Tool, ToolError, shown_whole


class Registry:
    def __init__(self, tools: Iterable[Tool]) -> None:
        self._tools = {tool.spec.name: tool for tool in tools}

    def schemas(self) -> list[dict[str, Any]]:
        """All tools in the form of OpenAI's `tools`, in a fixed order so that providers can cache the prefix."""
        return [tool.spec.schema() for tool in self._tools.values() if tool.is_on]

    def get(self, name: str) -> Tool:
        """Raises ToolError for an unknown name."""
        try:
            return self._tools[name]
        except KeyError:
            raise ToolError(f"there is no tool {name!r}; there are {', '.join(self._tools)}") from None

    async def complete(self, run: Mapping[str, Any], name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Arguments checked and completed for this run. Raises ToolError."""
        return await self.get(name).complete(run, shown_whole(arguments))

    def said(self, name: str) -> Collection[str]:
        """Those arguments of a tool that only say what its call is about; none has any."""
        return ()

    async def run(self, call: Call, name: str, arguments: dict[str, Any]) -> str:
        """Raises ToolError."""
        return await self.get(name).run(call, arguments)

    async def conflicts(self, call: Call, name: str, arguments: dict[str, Any]) -> Conflicts:
        """What stands in the calendar at the time that a call is about. Raises GoogleError."""
        return await self.get(name).conflicts(call, arguments)

    async def left_out(self, run: Mapping[str, Any], name: str, arguments: Mapping[str, Any]) -> list[str]:
        """Who of the answered mail's people would get nothing of a call. Raises ToolError, GoogleError."""
        return await self.get(name).left_out(run, arguments)

    async def settle(self, call: Call, effect: Effect) -> None:
        """Find out what became of an effect whose run is over. Raises NotYetClear, InDoubt."""
        await self.get(effect.tool).settle(call, effect)
