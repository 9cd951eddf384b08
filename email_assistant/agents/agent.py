"""What an agent is to the loop: it proposes, judges a call, runs one, and says how a person is asked about one."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from operator import or_
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, NotRequired, Protocol, TypedDict
from uuid import UUID

from langchain_core.messages import AIMessage, AnyMessage, ToolCall
from langchain_core.runnables import RunnableConfig
from langgraph.config import get_stream_writer
from langgraph.graph.message import add_messages

from email_assistant.accounts.account import Account
from email_assistant.accounts.accounts import Accounts
from email_assistant.accounts.clients import Clients
from email_assistant.db.checkpoints import lease_of
from email_assistant.db.lease import Lease
from email_assistant.gate.call import Proposed
from email_assistant.gate.ledger import GateLedger
from email_assistant.gate.policy import GateEntry, GateSession, decide, entry
from email_assistant.memory.profiles import Memory
from email_assistant.model import Models
from email_assistant.outgoing.effects import Ledger
from email_assistant.tools.registry import AgentName, Registry
from email_assistant.tools.spec import Answer, Call, FilledIn, FormNeeded, Kind, ServerDown, ToolError


class Judged(TypedDict):
    """What is to become of a call before a person is asked: run it, ask, or answer it with `text`."""

    kind: Literal["run", "ask", "say"]
    args: dict[str, Any]
    text: str
    """Where a person is asked: why, if their own rule would not have it."""
    place: NotRequired[str]
    """Where a person is asked: where it would be done."""


class Decided(TypedDict):
    """What `act` does with a call: run it, answer it with `text`, or answer it with what the person said.

    `stop` ends the run after its accepted siblings ran, unless the person said something about another.
    """

    do: Literal["run", "say", "answer", "stop"]
    args: dict[str, Any]
    text: str
    asked: bool
    """Whether a person has decided it."""
    edited: bool
    place: NotRequired[str]
    """Where it was to be done when the person was asked; an older version, which left it out, told them only of what is
    not done here."""


class FormField(TypedDict):
    """One field of a form that the server of a called tool wants filled in by the person."""

    call_id: str
    form: str
    """Tells its form from others that the call has asked for."""
    message: str
    """The form's."""
    name: str
    schema: dict[str, Any]


class LoopState(TypedDict, total=False):
    run: dict[str, Any]
    """The run's own data; plain JSON, since custom classes come back from a checkpoint as dicts."""
    messages: Annotated[list[AnyMessage], add_messages]
    decisions: Annotated[dict[str, Decided], or_]
    fields: dict[str, FormField]
    """What the person is asked for on behalf of calls of the last message, by the id of the question."""
    steps: int


class CallState(TypedDict):
    """Input of one task that asks a person about a call."""

    call: ToolCall
    """With its arguments complete."""
    teaches: bool
    group: NotRequired[str]
    """The message that the call stands in; an older version left it out."""
    because: NotRequired[str]
    """Why the person is asked, where their own rule would not have it; empty: no more than that."""
    place: NotRequired[str]
    """Where it would be done."""


class Ran(NamedTuple):
    """What came of a call that was run."""

    text: str
    well: bool = True
    """Whether it was done; if not, the model may propose something else."""
    link: dict[str, Any] | None = None
    """What the person must open first, plain JSON; the run then goes to the loop's `on_link`."""
    form: FormNeeded | None = None
    """What the person must tell first; then the call is made again."""
    down: ServerDown | None = None
    """Its server could not be asked now."""
    noted: GateEntry | None = None
    """What the gate's ledger keeps of it."""


class SessionSource(Protocol):
    """What the gate judges calls by."""

    async def session(self, run: Mapping[str, Any], calls: Sequence[Mapping[str, Any]], lease: Lease) -> GateSession:
        """What holds when calls with these arguments are judged, by whoever holds the lease."""
        ...


@dataclass(frozen=True)
class Agent(ABC):
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
    """Model calls a run may make."""

    @abstractmethod
    async def propose(self, state: LoopState) -> AIMessage:
        """The model's next message."""

    async def run_tool(
        self,
        run: Mapping[str, Any],
        call_id: str,
        name: str,
        args: dict[str, Any],
        filled_in: Sequence[FilledIn],
        place: str,
        config: RunnableConfig,
        *,
        noted: GateEntry,
        approved: bool,
    ) -> Ran:
        """Run one decided call where it is to be done; raises to come back later.

        Args:
            noted: what the gate's ledger is to keep of it.
            approved: a person has decided it.
        """
        account = await self.account(run)
        if is_noted := self.tools.touches(name):
            await self.gate.append(UUID(run["id"]), call_id, noted)
        client, tell = await self.clients.if_any(account), get_stream_writer()

        def progress(text: str) -> None:
            tell({"tool_name": name, "text": text})

        call = Call(run, call_id, account, client, lease_of(config), progress, filled_in, approved, place)
        try:
            ran = await self.ran(call, name, args)
        except ToolError as error:
            ran = Ran(f"Error: {error}", well=False)
        if is_noted:
            await self.gate.answered(UUID(run["id"]), call_id, ran.text)
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
        return await self.evidence.session(run, [call["args"] for call in calls], lease_of(config))

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
        """Validate a call, and decide whether it runs, needs a person, or is answered at once.

        Args:
            session: as it is once the calls that stand before it in its message, and are to run, have done so. One that
                the person has yet to decide may never run.
        """
        place = self.tools.place(name)  # first: should it change now, they are asked again rather than not told
        try:
            await self.check_allowed(run, name)
            complete = await self.tools.complete(run, name, args)
        except ToolError as error:
            return Judged(kind="say", args=args, text=f"Error: {error}")
        except ServerDown as down:
            if await self.ledger.done_of([UUID(run["id"])]):
                raise  # what was done is told, and what follows it waits
            return Judged(kind="say", args=args, text=f"Error: {down}")
        verdict = decide(session, self.proposed(name, complete))
        because = verdict.reason if verdict.overrules else ""
        return Judged(kind="ask" if verdict.do == "ask" else "run", args=complete, text=because, place=place)

    def question(self, name: str, args: dict[str, Any], call_id: str, teaches: bool) -> dict[str, Any]:
        """The value of the interrupt that asks a person about a call."""
        review = self.tools.review(self.name, name)
        return asking(name, args, call_id, review.kind, review.answers, teaches=teaches)

    async def account(self, run: Mapping[str, Any]) -> Account:
        return await self.accounts.get(UUID(run["account_id"]))


def asking(
    action: str, args: dict[str, Any], call_id: str, kind: Kind, answers: Sequence[Answer], *, teaches: bool
) -> dict[str, Any]:
    """The value of an interrupt. Those carry nothing but a value and an id, so the call and its kind are in it."""
    return {
        "action": action,
        "args": args,
        "call_id": call_id,
        "kind": kind,
        "allowed": list(answers),
        "teaches": teaches,
    }
