"""What an agent is to the loop: it proposes, judges a call, runs one, and says how a person is asked about one, and
about each field of a form that a tool's server wants filled in."""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from operator import or_
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, TypedDict

from langchain_core.messages import AIMessage, AnyMessage, ToolCall
from langchain_core.runnables import RunnableConfig
from langgraph.graph.message import add_messages

from email_assistant.gate.call import TOUCHES_NOTHING
from email_assistant.gate.policy import GateEntry, GateSession
from email_assistant.outgoing.entry import OURS, Effect
from email_assistant.tools.spec import CONFIRMATION, Answer, FilledIn, FormNeeded, Kind, ServerDown


class Judged(TypedDict):
    """What is to become of a call before a person is asked: run it, ask, or answer it with `text`, because it can't be
    done (`refuse`) or was `done` before."""

    kind: Literal["run", "ask", "refuse", "done"]
    args: dict[str, Any]
    text: str
    """Where a person is asked: why, if their own rule would not have it."""
    place: NotRequired[str]
    """Where a person is asked: where it would be done."""
    means: NotRequired[object]
    """As JSON; equal for calls that come to the same."""
    acts: NotRequired[bool]
    """Where it is answered: whether something would have been done, for all that is known."""


class Decided(TypedDict):
    """What `act` does with a call: run it, answer it with `text`, with what the person said, or as the same call before
    it in its message.

    `stop` ends the run after its accepted siblings ran, unless the person said something about another.
    """

    do: Literal["run", "refuse", "done", "answer", "stop", "same"]
    args: dict[str, Any]
    text: str
    """Of `same`: the id of the call that it equals."""
    asked: bool
    """Whether a person has decided it."""
    edited: bool
    place: NotRequired[str]
    """Where it was to be done when the person was asked."""
    anew: NotRequired[bool]
    """Whether what they said of it can only mean that they want a proposal."""


Word = Literal["", "told", "decided"]
"""The person's last word on a run.

`""`: none since they wanted a proposal, or since the assistant failed to do as it was told.
`told`: they have said what is to be done.
`decided`: they have decided that something is done, or is not.
"""


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
    word: Word


class Changed(TypedDict):
    """What a person said of a call that they were asked about again, and what kind of item that is."""

    kind: Kind
    answer: Answer


class CallState(TypedDict):
    """Input of one task that asks a person about a call."""

    call: ToolCall
    """With its arguments complete."""
    teaches: bool
    group: str
    """The message that the call stands in."""
    because: NotRequired[str]
    """Why the person is asked, where their own rule would not have it; empty: no more than that."""
    place: NotRequired[str]
    """Where it would be done."""
    again: NotRequired[Changed]
    """Since when what the person had approved is to be asked about once more."""


class ToRun(NamedTuple):
    """A decided call that is run now."""

    run: Mapping[str, Any]
    """The run's own data."""
    id: str
    """The same, however often it is tried."""
    name: str
    args: dict[str, Any]
    """As they were judged, or as the person edited them."""
    filled_in: Sequence[FilledIn]
    """The forms that the tool's server asked for before."""
    place: str
    """Where it is to be done."""
    noted: GateEntry
    """What the gate's ledger is to keep of it."""
    approved: bool
    """A person has decided it."""


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
    ends: bool = False
    """Whether the run is over with it, and goes to the loop's `finish`."""


class Agent(ABC):
    """What any agent is. One whose tools touch nobody's things, and that asks no person, says no more than the first
    four of these."""

    max_steps: int
    """Model calls a run may make."""

    @abstractmethod
    async def propose(self, state: LoopState) -> AIMessage:
        """The model's next message."""

    @abstractmethod
    async def judge(self, run: Mapping[str, Any], name: str, args: dict[str, Any], session: GateSession) -> Judged:
        """Validate a call, and decide whether it runs, needs a person, or is answered at once.

        Args:
            session: as it is once the calls that stand before it in its message, and are to run, have done so. One that
                the person has yet to decide may never run.
        """

    async def done_before(self, run: Mapping[str, Any], name: str, judged: Judged) -> str | None:
        """What came of a call that comes to the same, of which others were told, and which was carried out in this run
        since the person last said something; None: there is none."""
        return None

    @abstractmethod
    async def run_tool(self, call: ToRun, config: RunnableConfig) -> Ran:
        """Run one decided call where it is to be done; raises to come back later."""

    async def session(self, run: Mapping[str, Any], calls: Sequence[ToolCall], config: RunnableConfig) -> GateSession:
        """What the gate judges these calls by."""
        return GateSession()

    def noted(self, session: GateSession, name: str, args: Mapping[str, Any], *, approved: bool) -> GateEntry:
        """What the gate's ledger is to keep of a call that runs now."""
        return GateEntry(name, TOUCHES_NOTHING, external=False, cleared=True)

    def place(self, name: str) -> str:
        """Where a tool's calls are done now."""
        return OURS

    def question(self, name: str, args: dict[str, Any], call_id: str, teaches: bool) -> dict[str, Any]:
        """The value of the interrupt that asks a person about a call."""
        return asking(name, args, call_id, CONFIRMATION.kind, CONFIRMATION.answers, teaches=teaches)

    async def begun(self, run: Mapping[str, Any]) -> Sequence[Effect]:
        """The outside effects that a run has begun, as the person has left them."""
        return ()

    async def to_write(self, run: Mapping[str, Any]) -> tuple[str, dict[str, Any]] | None:
        """The call, blank, that a person is given to write where a run would end and nothing was proposed; None: there
        is none, or something was done already."""
        return None

    async def refuse(  # noqa: B027 - where nothing is kept for a person to see there is nothing to do
        self, run: Mapping[str, Any], call_id: str, name: str, args: dict[str, Any], why: str, place: str
    ) -> None:
        """Have the person asked again about a call that they decided and that was not done."""


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


def filled_in(fields: Mapping[str, FormField], decisions: Mapping[str, Decided], call_id: str) -> list[FilledIn]:
    """The forms of a call as the person filled them in. Raises ValueError."""
    forms: dict[str, FilledIn] = {}
    for question, asked in fields.items():
        if asked["call_id"] != call_id:
            continue
        answer = decisions[question]
        if answer["do"] != "answer":
            raise ValueError("the person did not fill in what the tool's server asks for")
        form = forms.setdefault(asked["form"], FilledIn(asked["message"], {"properties": {}}, {}))
        form.schema["properties"][asked["name"]] = asked["schema"]
        form.values[asked["name"]] = _typed(answer["text"].strip(), asked)
    return list(forms.values())


def _typed(text: str, field: FormField) -> Any:
    """The person's words as the value that the form takes. Forms hold plain fields only (MCP, "Elicitation").

    Raises:
        ValueError: it takes no such value.
    """
    name, choices = field["name"], field["schema"].get("enum")
    match field["schema"].get("type"):
        case "boolean":
            if text.lower() not in ("yes", "true", "no", "false"):
                raise ValueError(f"{name} takes yes or no, and the person said something else")
            return text.lower() in ("yes", "true")
        case "integer" | "number" as kind:
            return _number(text, name, whole=kind == "integer")
        case "array":
            return [_chosen(part.strip(), name, choices) for part in text.split(",")]
        case _:
            return _chosen(text, name, choices)


def _number(text: str, name: str, *, whole: bool) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number) or (whole and not number.is_integer()):
        raise ValueError(f"{name} takes a {'whole ' if whole else ''}number, and the person said something else")
    return int(number) if number.is_integer() else number


def _chosen(text: str, name: str, choices: Sequence[str] | None) -> str:
    if choices and text not in choices:
        raise ValueError(f"{name} takes one of {', '.join(choices)}, and the person said something else")
    return text


def described(schema: Mapping[str, Any]) -> str:
    """What a field takes, in words."""
    choices = ", ".join(map(str, schema.get("enum", ())))
    return ". ".join(filter(None, (str(schema.get("description") or ""), f"One of: {choices}" if choices else "")))
