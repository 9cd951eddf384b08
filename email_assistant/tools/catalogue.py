"""The tools that chat may be given: ours, and those of servers, by type."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from mcp.types import Tool as ToldTool
from pydantic import BaseModel

from email_assistant.gate.labels import Labels
from email_assistant.gate.policy import HERE, Subject, Verdict, decide
from email_assistant.outgoing.effects import Ledger
from email_assistant.outgoing.entry import Effect
from email_assistant.tools.config import LOCAL, ToolConfig, ToolsConfig
from email_assistant.tools.control import CLARIFICATION
from email_assistant.tools.mcp.pool import Servers
from email_assistant.tools.mcp.tool import McpTool
from email_assistant.tools.own.mailbox import Mailbox
from email_assistant.tools.reviewed import CONFIRMATION, reviewed
from email_assistant.tools.spec import NEEDS_MAILBOX, Call, Review, ServerDown, Tool, ToolError, shown_whole
from email_assistant.tools.update_event import SAID, UPDATE_EVENT, UpdateEvent


class Offer(NamedTuple):
    """What a model may call now."""

    tools: Sequence[Tool]
    down: Sequence[ServerDown]
    """Servers whose tools are missing among them."""


class Catalogue:
    """
    Args:
        local: ours that run here.
        mailbox: an account's, by its id.
    """

    def __init__(
        self,
        config: ToolsConfig,
        labels: Mapping[str, Labels],
        local: Iterable[Tool],
        servers: Servers,
        ledger: Ledger,
        mailbox: Callable[[UUID], Mailbox],
    ) -> None:
        self._config = config
        self._labels = labels
        self._local = {tool.spec.name: tool for tool in local}
        self._servers = servers
        self._ledger = ledger
        self._mailbox = mailbox
        self._made: dict[tuple[str, UUID, str], McpTool] = {}
        """By server, account and name: to check a schema takes longer than to call the tool."""

    async def types(self, *, mailbox: bool) -> Mapping[str, Sequence[str]]:
        """The names of each type's tools; without a mailbox, of those that need none."""
        types = {
            type_: [name for name in names if mailbox or not self._needs_mailbox(name)]
            for type_, names in self._config.types().items()
        }
        return {type_: names for type_, names in types.items() if names}

    async def offered(self, account_id: UUID, types: Sequence[str], *, mailbox: bool = True) -> Offer:
        """The tools of these types that can be used now, and those that belong to none, in the order of the file."""
        names = [
            name for type_, named in (await self.types(mailbox=mailbox)).items() if type_ in types for name in named
        ]
        tools = [
            tool
            for name, tool in self._local.items()
            if self._config.tools[name].type is None and (mailbox or not self._needs_mailbox(name))
        ]
        down: dict[str, ServerDown] = {}
        for name in names:
            if self.rule(name, None).do == "deny":
                continue
            try:
                tools.append(await self._found(account_id, name, self._config.tools[name]))
            except ToolError:
                continue  # what can't be used is not offered; the list of tools says why
            except ServerDown as error:
                down[error.name] = error
        return Offer(tools, list(down.values()))

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

    def rule(
        self, name: str, allowed: Collection[str] | None, heard: Collection[str] = (), *, mailbox: bool = True
    ) -> Verdict:
        """What the gate says to a call of it.

        Args:
            allowed: the types that the request was given; None: all.
            heard: where private data was read before.
            mailbox: whether the person has one.
        """
        config = self._of_chat(name)
        if config is None:
            return Verdict("deny", f"there is no tool {name!r}")
        if not mailbox and self._needs_mailbox(name):
            return Verdict("deny", NEEDS_MAILBOX)
        return decide(allowed, Subject(config.type, self._labels.get(name), config.review, self.foreign(name)), heard)

    def foreign(self, name: str) -> str | None:
        """The server that a tool runs on, if that is not ours."""
        config = self._of_chat(name)
        is_ours = config is None or config.backend == LOCAL or self._servers.is_own(config.backend)
        return None if is_ours or config is None else config.backend

    def reads(self, name: str) -> str | None:
        """Where a tool's answers, also those that tell of a change, come to hold private data, if they do; those of one
        that nobody has labelled may."""
        labels = self._labels.get(name)
        return (self.foreign(name) or HERE) if labels is None or labels.read_private_data else None

    def arguments(self, name: str) -> type[BaseModel] | None:
        """What a tool of ours takes that runs here; None: only its server knows."""
        tool = self._local.get(name)
        return tool.spec.arguments if tool else None

    def said(self, name: str) -> Collection[str]:
        """Those arguments of a tool of ours that say what its call is about, and that nobody fills in."""
        return SAID if name == UPDATE_EVENT and self.foreign(name) is None else ()

    def review(self, name: str) -> Review:
        """How a person is asked about a call."""
        tool = self._local.get(name)
        return (tool.spec.review if tool else None) or CONFIRMATION

    async def complete(self, run: Mapping[str, Any], name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Arguments checked and completed for this run. Raises ToolError, ServerDown."""
        return await (await self.get(UUID(run["account_id"]), name)).complete(run, shown_whole(arguments))

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

    def _needs_mailbox(self, name: str) -> bool:
        """Whether it is one of ours, which are about mail and calendar, but for asking the person."""
        return name != CLARIFICATION and not self._servers.is_remote(self._config.tools[name].backend)

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
            what = self._servers, self._ledger, server, told, self._labels.get(told.name)
            known = UpdateEvent(*what, self._mailbox(account_id)) if self.said(told.name) else McpTool(*what)
            self._made[place] = known
        return known
