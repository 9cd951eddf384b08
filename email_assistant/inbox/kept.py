"""What an item's row keeps as JSON and as lists, judged once, as it is read.

Somebody else may have written to the database, or made the backup that it came from. So what is not of a shape that
this program writes is left out here: it makes its own item unreadable, and no other.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, TypeAdapter, with_config
from typing_extensions import TypedDict

from email_assistant.db.values import read_json
from email_assistant.errors import AssistantError
from email_assistant.gate.doubt import DoubtKind
from email_assistant.inbox.marks import RecipientMark
from email_assistant.tools.spec import Answer

UNREADABLE = "it was damaged in the database, or changed by somebody else, and can't be shown: it can only be ignored"


class UnreadableAnswer(AssistantError):
    """An answer, or what it was given to, holds something that this program never writes; none of it was believed."""

    def __init__(self) -> None:
        super().__init__(
            "an answer that is kept in the database was damaged, or changed by somebody else: nothing of it is done; "
            "retry the mail, or ask again in the chat"
        )


class _Plain(TypedDict):
    type: Literal["accept", "ignore"]
    args: None


class _Edit(TypedDict):
    type: Literal["edit"]
    args: dict[str, Any]


class _Response(TypedDict):
    type: Literal["response"]
    args: str


class _Mark(TypedDict):
    kind: RecipientMark
    address: str
    text: str


class _Doubt(TypedDict):
    kind: DoubtKind
    value: str
    source: str
    unseen_by: tuple[str, ...]


_Decision = Annotated[_Plain | _Edit | _Response, Field(discriminator="type")]


class _Reopened(TypedDict):
    because: str
    item: str | None
    decision: _Decision
    decided_by: str | None
    decided_at: str | None
    undo_until: str | None
    args: dict[str, Any] | None


class _InGmail(TypedDict):
    did: Literal["changed", "sent", "gone"]
    text: str
    args: dict[str, Any] | None
    message: str | None


@with_config(ConfigDict(extra="allow"))
class _Question(TypedDict, total=False):
    question: str
    content: str
    context: str | None


@with_config(ConfigDict(extra="allow"))
class _Link(TypedDict):
    url: str
    message: str


_ARGS: TypeAdapter[Any] = TypeAdapter(dict[str, Any])
_ARGS_OF: Mapping[str, TypeAdapter[Any]] = {"question": TypeAdapter(_Question), "link": TypeAdapter(_Link)}
_DECISION: TypeAdapter[Any] = TypeAdapter(_Decision | None)
_JSON: Mapping[str, TypeAdapter[Any]] = {
    "args": _ARGS,
    "decision": _DECISION,
    "taken_back": _DECISION,
    "in_gmail": TypeAdapter(_InGmail | None),
    "kept_marks": TypeAdapter(list[_Mark]),
    "kept_doubts": TypeAdapter(list[_Doubt]),
    "reopened": TypeAdapter(_Reopened | None),
}
_LISTS: Mapping[str, TypeAdapter[Any]] = {
    "allowed": TypeAdapter(list[Answer]),
    "left_out": TypeAdapter(list[str]),
    "conflicts": TypeAdapter(list[str] | None),
    "calendars": TypeAdapter(list[str]),
}
_NOTHING: Mapping[str, Any] = {
    "args": {},
    "kept_marks": [],
    "kept_doubts": [],
    "because": None,
    "left_out": [],
    "conflicts": [],
    "calendars": [],
}
"""What is shown in the place of all that an unreadable item would show."""


def judged(columns: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of an item, its JSON read, and whether it is `unreadable`.

    What an unreadable one says is left out, whole; its answer stands, if that can be read.

    Args:
        columns: JSON as text.
    """
    shapes = {**_JSON, "args": _ARGS_OF.get(columns["kind"], _ARGS)}
    try:
        read = {name: _read(columns[name], shape) for name, shape in shapes.items()}
        read |= {name: shape.validate_python(columns[name]) for name, shape in _LISTS.items()}
        if columns["status"] in ("decided", "applied") and not (read["decision"] and columns["decided_at"]):
            raise ValueError("it says that it was answered, and not how or when")
    except ValueError:
        decision = decision_in(columns["decision"])
        nothing = dict.fromkeys(("taken_back", "in_gmail", "reopened"))
        read = {**_NOTHING, "allowed": ["ignore"], "decision": decision, **nothing}
        return {**columns, **read, "unreadable": True}
    return {**columns, **read, "unreadable": False}


def decision_in(text: str | None) -> dict[str, Any] | None:
    """The answer that a text of JSON says; None if it is none of ours."""
    try:
        decision: dict[str, Any] | None = _read(text, _DECISION)
    except ValueError:
        return None
    return decision


def args_in(text: str) -> dict[str, Any]:
    """The arguments that a text of JSON says; empty if they are none of ours."""
    try:
        args: dict[str, Any] = _read(text, _ARGS)
    except ValueError:
        return {}
    return args


def _read(text: str | None, shape: TypeAdapter[Any]) -> Any:
    """Raises ValueError."""
    return shape.validate_python(None if text is None else read_json(text))
