"""Every tool of both agents, and what holds of it at each call: what it is, where it runs, what it touches, and whether
a person is asked about it first."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple
from uuid import UUID

from mcp.types import Tool as ToldTool
from pydantic import BaseModel

from email_assistant.gate.call import Subject
from email_assistant.gate.policy import refused
from email_assistant.outgoing.effects import Ledger
from email_assistant.outgoing.entry import Effect
from email_assistant.tools.config import LOCAL, RuleFiles, Rules
from email_assistant.tools.control import CLARIFICATION
from email_assistant.tools.events import EVENT_NOW, SAID, UPDATE_EVENT, UpdateEventTool
from email_assistant.tools.mcp.pool import Servers
from email_assistant.tools.mcp.tool import FlippedTool, McpTool
from email_assistant.tools.own.mailbox import Mailbox
from email_assistant.tools.spec import (
    CONFIRMATION,
    NEEDS_MAILBOX,
    NO_CONFLICTS,
    Call,
    Conflicts,
    Review,
    ServerDown,
    Tool,
    ToolError,
    shown_whole,
)
from email_assistant.user_file import BadFile

AgentName = Literal["mail", "chat"]


def agent_of(run: Mapping[str, Any]) -> AgentName:
    """Whose run it is."""
    return "chat" if run.get("agent") == "chat" else "mail"


class Offer(NamedTuple):
    """What a model may call now."""

    tools: Sequence[Tool]
    down: Sequence[ServerDown]  # servers whose tools are missing among them

    def schemas(self) -> list[dict[str, Any]]:
        """In the form of OpenAI's `tools`, in a fixed order so that providers can cache the prefix."""
        return [tool.spec.schema() for tool in self.tools]


class Registry:
    """Whatever goes by the person's files raises BadFile while they can't be used. `mail`: the mail agent's tools, as
    they run here; `chat`: the chat agent's that run here; its others are those to which the files give a type;
    `mailbox`: an account's, by its id."""

    def __init__(
        self,
        files: RuleFiles,
        mail: Iterable[Tool],
        chat: Iterable[Tool],
        servers: Servers,
        ledger: Ledger,
        mailbox: Callable[[UUID], Mailbox],
    ) -> None:
        self._files = files
        self._local: Mapping[AgentName, Mapping[str, Tool]] = {
            "mail": {tool.spec.name: tool for tool in mail},
            "chat": {tool.spec.name: tool for tool in chat},
        }
        self._servers = servers
        self._ledger = ledger
        self._mailbox = mailbox
        self._made: dict[tuple[str, UUID, str], McpTool] = {}
        """By server, account and name: to check a schema takes longer than to call the tool."""

    def types(self, *, mailbox: bool) -> Mapping[str, Sequence[str]]:
        """The names of each type's tools, which chat chooses by; without a mailbox, of those that need none."""
        rules = self._files.now()
        types = {
            type_: [name for name in names if mailbox or not _needs_mailbox(rules, name)]
            for type_, names in rules.config.types().items()
        }
        return {type_: names for type_, names in types.items() if names}

    async def offered(
        self, agent: AgentName, account_id: UUID, types: Sequence[str] = (), *, mailbox: bool = True
    ) -> Offer:
        """The tools of an agent that can be used now: its own, and those of these types, in the order of the file."""
        rules, local = self._files.now(), self._local[agent]
        names = [name for name in local if agent == "mail" or rules.tools[name].type is None]
        names += [name for type_, named in self.types(mailbox=mailbox).items() if type_ in types for name in named]
        tools: list[Tool] = []
        down: dict[str, ServerDown] = {}
        for name in names:
            if self.refused(agent, name, mailbox=mailbox):
                continue
            try:
                tools.append(await self._found(agent, account_id, name))
            except ToolError:
                continue  # what can't be used is not offered; the list of tools says why
            except ServerDown as error:
                down[error.name] = error
        return Offer(tools, list(down.values()))

    def refused(
        self, agent: AgentName, name: str, scope: Collection[str] | None = None, *, mailbox: bool = True
    ) -> str:
        """Why it may not be used now; empty: it may. `scope`: the types that the request was given; None: all;
        `mailbox`: whether the person has one."""
        rules = self._files.now()
        if not self._has(rules, agent, name):
            known = f"; there are {', '.join(self._local['mail'])}" if agent == "mail" else ""
            return f"there is no tool {name!r}{known}"
        if not mailbox and _needs_mailbox(rules, name):
            return NEEDS_MAILBOX
        return refused(scope, rules.subject(name))

    def touches(self, name: str) -> bool:
        """Whether a tool reads or changes anything; one of which nobody has said so may."""
        labels = self._files.now().labels.get(name)
        return labels is None or not labels.touches_nothing

    def subject(self, name: str) -> Subject:
        """A tool that there is, as the gate sees it now."""
        return replace(self._files.now().subject(name), states=EVENT_NOW if self.said(name) else None)

    def foreign(self, name: str) -> str | None:
        """The server that a tool runs on, if that is not ours."""
        return self._files.now().foreign(name)

    def place(self, name: str) -> str:
        """Where a tool's calls are done now. Raises BadFile."""
        return self._files.now().place(name)

    def arguments(self, agent: AgentName, name: str) -> type[BaseModel] | None:
        """What a tool of ours takes; None: only its server knows, or there is none."""
        tool = self._local[agent].get(name)
        return tool.spec.arguments if tool else None

    def check(self, name: str, arguments: Mapping[str, Any]) -> None:
        """Whether a tool of the mail agent takes these. Raises ToolError: it names what is wrong with each."""
        if tool := self._local["mail"].get(name):
            tool.spec.parse(arguments)

    def said(self, name: str) -> Collection[str]:
        """Those arguments of a tool of ours that say what its call is about, and that nobody fills in."""
        return SAID if name == UPDATE_EVENT and self.foreign(name) is None else ()

    def review(self, agent: AgentName, name: str) -> Review:
        """How a person is asked about a call."""
        tool = self._local[agent].get(name)
        return (tool.spec.review if tool else None) or CONFIRMATION

    async def get(self, agent: AgentName, account_id: UUID, name: str) -> Tool:
        """
        Raises:
            ToolError: there is none of this name, or it can't be used now.
            ServerDown: its server can't be asked.
        """
        if why := self.refused(agent, name):
            raise ToolError(f"{name} may not be used: {why}")
        return await self._found(agent, account_id, name)

    async def complete(self, run: Mapping[str, Any], name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Arguments checked and completed for this run. Raises ToolError, ServerDown."""
        tool = await self.get(agent_of(run), UUID(run["account_id"]), name)
        return await tool.complete(run, shown_whole(arguments))

    async def meaning(self, run: Mapping[str, Any], name: str, arguments: Mapping[str, Any]) -> object:
        """As JSON; equal for calls of a tool, with their arguments completed, that come to the same."""
        tool = self._local[agent_of(run)].get(name)
        return await tool.meaning(run, arguments) if tool else arguments

    async def run(self, call: Call, name: str, arguments: dict[str, Any]) -> str:
        """Raises ToolError, LinkNeeded, FormNeeded, ServerDown; BadFile: it has another place by now."""
        agent, account = agent_of(call.run), call.account
        tool = await self.get(agent, account.id, name)
        if self.place(name) != call.place:
            raise BadFile("tools.yaml has changed just now, and is looked at anew")
        if tool.spec.review and account.mode != "send" and not call.approved:
            # It was made to be asked about; what an account's mode promises holds all the same.
            raise ToolError(f"{account.address} is in {account.mode} mode, in which nothing goes out unseen")
        return await tool.run(call, arguments)

    async def conflicts(self, call: Call, name: str, arguments: dict[str, Any]) -> Conflicts:
        """What stands in the calendar at the time that a call is about. Raises GoogleError."""
        tool = self._local[agent_of(call.run)].get(name)
        return await tool.conflicts(call, arguments) if tool else NO_CONFLICTS

    async def left_out(self, run: Mapping[str, Any], name: str, arguments: Mapping[str, Any]) -> list[str]:
        """Who of the answered mail's people would get nothing of a call; of the tools of servers that is not known.

        Raises ToolError, GoogleError."""
        tool = self._local[agent_of(run)].get(name)
        return await tool.left_out(run, arguments) if tool else []

    async def settle(self, call: Call, effect: Effect) -> None:
        """Find out what became of an effect whose run is over, also of a tool that may not be used any more.

        Raises NotYetClear, InDoubt."""
        agent = agent_of(call.run)
        await self._ledger.expect_here(effect, self.place(effect.tool))
        if effect.tool in self._local[agent]:
            await (await self._found(agent, call.account.id, effect.tool)).settle(call, effect)
        else:
            await self._ledger.lose(effect)

    def _has(self, rules: Rules, agent: AgentName, name: str) -> bool:
        """Chat may have every tool that has a type."""
        tool = rules.tools.get(name)
        return name in self._local[agent] or (agent == "chat" and tool is not None and tool.type is not None)

    async def _found(self, agent: AgentName, account_id: UUID, name: str) -> Tool:
        """A tool where it runs now. Raises ToolError, ServerDown."""
        chosen, local = self._files.now().tools.get(name), self._local[agent].get(name)
        backend = chosen.backend if chosen else LOCAL
        if local is not None:
            is_flipped = agent == "mail" and backend != LOCAL
            return FlippedTool(local, self._servers, self._ledger, backend) if is_flipped else local
        if backend == LOCAL:
            raise ToolError(f"there is no tool {name!r}")
        return self._told(backend, account_id, await self._servers.told(backend, account_id, name))

    def _told(self, server: str, account_id: UUID, told: ToldTool) -> McpTool:
        """Made once for each time that its server told of it. Raises UnusableTool."""
        place, labels = (server, account_id, told.name), self._files.now().labels.get(told.name)
        known = self._made.get(place)
        if known is None or known.told is not told or known.labels != labels:
            what = self._servers, self._ledger, server, told, labels
            known = UpdateEventTool(*what, self._mailbox(account_id)) if self.said(told.name) else McpTool(*what)
            self._made[place] = known
        return known


def _needs_mailbox(rules: Rules, name: str) -> bool:
    """Whether it is one of ours, which are about mail and calendar, but for asking the person."""
    return name != CLARIFICATION and rules.tools[name].backend not in rules.config.servers
