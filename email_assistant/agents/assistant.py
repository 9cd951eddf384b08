"""An agent that works for an account: its tools, its models, and what is kept of what they read and sent."""

import asyncio
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol
from uuid import UUID

from langchain_core.messages import ToolCall
from langchain_core.runnables import RunnableConfig
from langgraph.config import get_stream_writer

from email_assistant.accounts.account import Account
from email_assistant.accounts.accounts import Accounts
from email_assistant.accounts.clients import Clients
from email_assistant.agents.agent import Agent, Judged, Ran, ToRun, asking
from email_assistant.db.checkpoints import lease_of
from email_assistant.db.lease import Lease
from email_assistant.gate.call import Proposed
from email_assistant.gate.ledger import GateLedger
from email_assistant.gate.policy import GateEntry, GateSession, Verdict, decide, entry
from email_assistant.memory.profiles import Memory
from email_assistant.model import Models
from email_assistant.outgoing.effects import Ledger
from email_assistant.outgoing.entry import Effect
from email_assistant.tools.registry import AgentName, Registry
from email_assistant.tools.spec import Call, ServerDown, ToolError


class SessionSource(Protocol):
    """What the gate judges calls by."""

    async def session(self, run: Mapping[str, Any], calls: Sequence[ToolCall], lease: Lease) -> GateSession:
        """What holds when these calls are judged, by whoever holds the lease."""
        ...


@dataclass(frozen=True)
class Assistant(Agent):
    """What the mail agent and chat have in common."""

    name: ClassVar[AgentName]

    accounts: Accounts
    clients: Clients
    memory: Memory
    models: Models
    tools: Registry
    ledger: Ledger
    evidence: SessionSource
    gate: GateLedger
    max_steps: int

    async def run_tool(self, call: ToRun, config: RunnableConfig) -> Ran:
        run_id, account_id = UUID(call.run["id"]), UUID(call.run["account_id"])
        # The mode, by which what nobody approved is judged, may have changed since the run went on.
        account = await (self.accounts.get(account_id) if call.approved else self.accounts.read(account_id))
        if is_noted := self.tools.touches(call.name):
            await self.gate.append(run_id, call.id, call.noted)
        client, tell = await self.clients.if_any(account), get_stream_writer()

        def progress(text: str) -> None:
            tell({"tool_name": call.name, "text": text})

        lease = lease_of(config)
        given = Call(call.run, call.id, account, client, lease, progress, call.filled_in, call.approved, call.place)
        try:
            ran = await self.ran(given, call.name, call.args)
        except ToolError as error:
            ran = Ran(f"Error: {error}", well=False)
        if is_noted:
            await self.gate.answered(run_id, call.id, ran.text)
        return ran

    @abstractmethod
    async def ran(self, call: Call, name: str, args: dict[str, Any]) -> Ran:
        """What comes of a call. Raises ToolError, and whatever has the run come back later."""

    async def refused(self, run: Mapping[str, Any], name: str) -> str:
        """Why a tool may not be used now; empty: it may. Raises BadFile."""
        return self.tools.refused(self.name, name)

    async def check_allowed(self, run: Mapping[str, Any], name: str) -> None:
        """Raises BadFile, ToolError: the tool may not be used now."""
        if why := await self.refused(run, name):
            raise ToolError(f"{name} may not be used: {why}")

    async def session(self, run: Mapping[str, Any], calls: Sequence[ToolCall], config: RunnableConfig) -> GateSession:
        """What the gate judges these calls by; nothing has to be known of those that touch nothing."""
        if not any(self.tools.touches(call["name"]) for call in calls):
            return GateSession()
        return await self.evidence.session(run, calls, lease_of(config))

    def proposed(self, name: str, args: Mapping[str, Any]) -> Proposed:
        """A call of a tool that there is, as the gate sees it now."""
        return Proposed(name, self.tools.subject(name), args)

    def noted(self, session: GateSession, name: str, args: Mapping[str, Any], *, approved: bool) -> GateEntry:
        """What the gate's ledger is to keep of a call that runs now. What a person approved they saw whole, with where
        it comes from: that is their own word."""
        found = entry(session, self.proposed(name, args))
        return replace(found, cleared=True) if approved else found

    async def judge(
        self,
        run: Mapping[str, Any],
        name: str,
        args: dict[str, Any],
        session: GateSession,
    ) -> Judged:
        place = self.place(name)  # first: should it change now, they are asked again rather than not told
        try:
            await self.check_allowed(run, name)
            complete = await self.tools.complete(run, name, args)
            means = await self.tools.meaning(run, name, complete)
        except (ToolError, ServerDown) as error:
            if isinstance(error, ServerDown) and await self.ledger.done_of([UUID(run["id"])]):
                raise  # what was done is told, and what follows it waits
            acts = self.tools.subject(name).may_tell_others
            return Judged(kind="refuse", args=args, text=f"Error: {error}", acts=acts)
        verdict = await asyncio.to_thread(decide, session, self.proposed(name, complete))
        # What the gate denies was refused above, by `check_allowed`.
        because = verdict.reason if verdict.overrules and not self._is_told(verdict, session, name) else ""
        judged = Judged(kind="ask" if verdict.do == "ask" else "run", args=complete, text=because)
        return judged | {"place": place, "means": means}

    async def done_before(self, run: Mapping[str, Any], name: str, judged: Judged) -> str | None:
        if judged["kind"] == "refuse" or not (self.tools.touches(name) and self.tools.subject(name).may_tell_others):
            return None
        for effect in await self.ledger.done_since_told(UUID(run["id"])):
            if effect.tool == name and await self.tools.meaning(run, name, effect.args) == judged["means"]:
                return effect.result or ""
        return None

    def _is_told(self, verdict: Verdict, session: GateSession, name: str) -> bool:
        """Whether a reviewed answer to a mail is odd only in whom it reaches. The item tells who of them is new, and by
        more than is known here: Gmail is asked too."""
        subject = self.tools.subject(name)
        strange = {mark.what for mark in verdict.marks if not mark.grounded}
        is_reviewed = session.thread is not None and subject.review == "always" and subject.server is None
        return is_reviewed and subject.labels is not None and "goes to" in strange and "leads to" not in strange

    def question(self, name: str, args: dict[str, Any], call_id: str, teaches: bool) -> dict[str, Any]:
        review = self.tools.review(self.name, name)
        return asking(name, args, call_id, review.kind, review.answers, teaches=teaches)

    async def account(self, run: Mapping[str, Any]) -> Account:
        return await self.accounts.get(UUID(run["account_id"]))

    def place(self, name: str) -> str:
        return self.tools.place(name)

    async def begun(self, run: Mapping[str, Any]) -> Sequence[Effect]:
        return await self.ledger.of_run(UUID(run["id"]))

    async def refuse(
        self, run: Mapping[str, Any], call_id: str, name: str, args: dict[str, Any], why: str, place: str
    ) -> None:
        await self.ledger.refuse(UUID(run["id"]), call_id, name, args, why, place)
