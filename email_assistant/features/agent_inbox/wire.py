"""The JSON of this API: what the app sends, and our items and runs as it shows them."""

import json
import re
from collections.abc import Mapping
from datetime import datetime
from html import escape, unescape
from typing import Any, Literal, Self
from uuid import NAMESPACE_URL, UUID, uuid5

from pydantic import BaseModel, Field

from email_assistant.features.agent_inbox.threads import Status, Thread
from email_assistant.inbox.items import Item
from email_assistant.mail.charset import plain
from email_assistant.tools.spec import Answer

GRAPH_ID = "email_assistant"
ASSISTANT_ID = uuid5(NAMESPACE_URL, f"email-assistant:graph/{GRAPH_ID}")
METADATA: Mapping[str, str] = {"graph_id": GRAPH_ID, "assistant_id": str(ASSISTANT_ID)}
_PAGE = 10
_MOST = 1000

# The app draws Markdown, and the HTML in it, and loads its images. What begins a link, an image or a block of code is
# written as an entity, which Markdown never takes for markup (https://spec.commonmark.org/0.31.2/#entity-references).
_MARKUP = str.maketrans({character: f"&#{ord(character)};" for character in "\\`~[]"})
# The first line is the row of the app's list, which shows it as it is: signs that are no markup take their place there,
# and that of an ampersand which would begin an entity.
_ROW_SIGNS = str.maketrans({"[": "(", "]": ")", "<": "‹", ">": "›", "~": "∼", "`": "‘", "\\": "∖"})
_IMAGE_MARK = re.compile(r"!(?=[\[\]<>~`])")
_ENTITY_MARK = re.compile(r"&(?=#?\w+;)")
_LINE_END = re.compile(r"(?<=\S)\n(?=\S)")


class Search(BaseModel):
    """Which threads to list."""

    metadata: dict[str, Any] = Field(
        default_factory=dict, description="A thread must have all of these: `graph_id` or `assistant_id`."
    )
    status: Status | None = None
    limit: int = Field(_PAGE, ge=1, le=_MOST)
    offset: int = Field(0, ge=0)

    @property
    def is_for_us(self) -> bool:
        return all(METADATA.get(name) == value for name, value in self.metadata.items())


class ActionRequest(BaseModel):
    action: str
    args: dict[str, Any]


class HumanResponse(BaseModel):
    """A person's answer."""

    type: Answer
    args: ActionRequest | str | None = Field(
        None, description="For edit the whole action, for accept the same or nothing, for response a text."
    )


class Resume(BaseModel):
    resume: list[HumanResponse] = Field(min_length=1, max_length=1)


class RunIn(BaseModel):
    """An answer to what a thread was last shown to wait for."""

    assistant_id: str
    command: Resume


class ResolveIn(BaseModel):
    """ "Mark as resolved"."""

    values: None
    as_node: Literal["__end__"]


class Flags(BaseModel):
    """The answers that an item takes."""

    allow_ignore: bool
    allow_respond: bool
    allow_edit: bool
    allow_accept: bool


class HumanInterrupt(BaseModel):
    """An item, as a question to a person."""

    action_request: ActionRequest
    config: Flags
    description: str = Field(description="Mail and proposal as Markdown in which nothing of the mail is markup.")

    @classmethod
    def of(cls, item: Item) -> Self:
        flags = Flags(
            allow_ignore="ignore" in item.allowed,
            allow_respond="response" in item.allowed,
            allow_edit="edit" in item.allowed,
            allow_accept="accept" in item.allowed,
        )
        return cls(action_request=shown_action(item), config=flags, description=_described(item.description))


class Interrupt(BaseModel):
    id: str
    value: list[HumanInterrupt] = Field(description="Always one.")


class ThreadOut(BaseModel):
    """A run, with what it waits for."""

    thread_id: UUID
    created_at: datetime
    updated_at: datetime
    metadata: dict[str, Any]
    status: Status
    values: dict[str, Any] = Field(description="Always empty: mail is shown by the interrupts only.")
    interrupts: dict[str, list[Interrupt]] = Field(description="By task: the oldest item that waits, or none.")

    @classmethod
    def of(cls, thread: Thread) -> Self:
        return cls(
            thread_id=thread.id,
            created_at=thread.created_at,
            updated_at=thread.updated_at,
            metadata={**METADATA},
            status=thread.status,
            values={},
            interrupts={_task(item): [_interrupt(item)] for item in _shown(thread)},
        )


class Task(BaseModel):
    id: str
    name: str
    error: None = None
    interrupts: list[Interrupt]
    checkpoint: None = None
    state: None = None


class Checkpoint(BaseModel):
    thread_id: UUID
    checkpoint_ns: str = ""
    checkpoint_id: str | None = None


class StateOut(BaseModel):
    """What a thread waits for, in the form of a graph's state."""

    values: dict[str, Any]
    next: list[str]
    tasks: list[Task]
    checkpoint: Checkpoint
    metadata: dict[str, Any]
    created_at: datetime
    parent_checkpoint: None = None

    @classmethod
    def of(cls, thread: Thread) -> Self:
        shown = _shown(thread)
        return cls(
            values={},
            next=[node_of(item) for item in shown],
            tasks=[Task(id=_task(item), name=node_of(item), interrupts=[_interrupt(item)]) for item in shown],
            checkpoint=Checkpoint(thread_id=thread.id),
            metadata={**METADATA},
            created_at=thread.updated_at,
        )


class RunOut(BaseModel):
    """An answer that was taken; what follows from it happens by itself."""

    run_id: UUID
    thread_id: UUID
    assistant_id: UUID
    created_at: datetime
    updated_at: datetime
    status: Literal["pending"] = "pending"
    metadata: dict[str, Any]
    multitask_strategy: Literal["reject"] = "reject"

    @classmethod
    def of(cls, answered: Item, at: datetime) -> Self:
        return cls(
            run_id=answered.id,
            thread_id=answered.run_id,
            assistant_id=ASSISTANT_ID,
            created_at=at,
            updated_at=at,
            metadata={**METADATA},
        )


class Resolved(BaseModel):
    checkpoint: Checkpoint


class Info(BaseModel):
    """What kind of server this is; it is asked before there is a token."""

    flags: dict[str, bool] = {"assistants": False, "crons": False, "langsmith": False}
    host: dict[str, str | None] = {"kind": "self-hosted", "project_id": None, "revision_id": None, "tenant_id": None}


def node_of(item: Item) -> str:
    """The node of the graph that an item's answer goes to."""
    match item.kind:
        case "notification":
            return "triage_interrupt_handler"
        case "in_doubt" | "link":
            return "act" if item.chat is None else "use_tools"
        case "question" if item.chat is not None:
            return "human_clarification"
        case _:
            return "interrupt_handler" if item.chat is None else "human_confirmation"


def shown_action(item: Item) -> ActionRequest:
    """The action as the app is given it, its fields in our order.

    What can be edited comes back, and is left as it is; a field without a value is left out, since the app fails on
    null. What can't be edited is drawn as Markdown, with images where a list holds their addresses."""
    given = {name: value for name, value in item.args.items() if value is not None}
    if "edit" not in item.allowed:
        given = {name: _markdown(escape(_text(value), quote=False)) for name, value in given.items()}
    return ActionRequest(action=_asked(item), args=given)


def _asked(item: Item) -> str:
    """The action, told from what it was when it was asked before: an answer to that is none to this."""
    times = f" ({item.asked})" if item.asked > 2 else ""
    return item.action if item.asked == 1 else f"{item.action}, asked again{times}"


def is_shown(item: Item, given: ActionRequest) -> bool:
    """Whether the app was given this action for the item; fields that were touched come back as strings."""
    shown = shown_action(item)
    return given.action == shown.action and _typed(given.args, shown.args) == shown.args


def decision(item: Item, answer: HumanResponse) -> dict[str, Any]:
    """The answer as our inbox takes it."""
    if answer.type == "edit" and isinstance(answer.args, ActionRequest):
        return {"type": "edit", "args": _typed(answer.args.args, item.args)}
    return {"type": answer.type, "args": answer.args if isinstance(answer.args, str) else None}


def _typed(given: Mapping[str, Any], proposed: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments from the app's text areas, which show what is no text as JSON, and make a text of what is touched."""
    return {name: _value(value, proposed.get(name)) for name, value in given.items()}


def _value(given: Any, proposed: Any) -> Any:
    if not isinstance(given, str) or proposed is None or isinstance(proposed, str):
        return given
    try:
        return json.loads(given)
    except ValueError:
        return given


def _shown(thread: Thread) -> list[Item]:
    return [thread.waiting] if thread.waiting else []


def _task(item: Item) -> str:
    return str(item.id)


def _interrupt(item: Item) -> Interrupt:
    return Interrupt(id=item.interrupt_id or str(item.id), value=[HumanInterrupt.of(item)])


def _text(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _described(escaped: str) -> str:
    """An item's description: its row, and the rest as Markdown."""
    row, end, rest = plain(escaped).partition("\n")
    row = _ENTITY_MARK.sub("＆", _IMAGE_MARK.sub("！", unescape(row))).translate(_ROW_SIGNS)
    return _LINE_END.sub("  \n", row + end + rest.translate(_MARKUP))


def _markdown(escaped: str) -> str:
    """Escaped text as Markdown that shows it, and its line ends."""
    return _LINE_END.sub("  \n", plain(escaped).translate(_MARKUP))
