"""What LangGraph keeps in the database, read back as plain data and our messages, and nothing else.

LangGraph's own serializer imports and calls whatever a row names (its docstring warns of it), so whoever can write to
the database could run code here. What its strict mode refuses it hands on as if it had been read. So here nothing is
looked up by a name that stands in a row, and what is not ours is an error.
"""

from typing import Any

import ormsgpack
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.checkpoint.serde.jsonplus import (
    EXT_CONSTRUCTOR_KW_ARGS,
    EXT_CONSTRUCTOR_POS_ARGS,
    EXT_PYDANTIC_V2,
    JsonPlusSerializer,
)
from langgraph.types import Interrupt, Send

from email_assistant.errors import AssistantError

_MESSAGES = (AIMessage, HumanMessage, SystemMessage, ToolMessage)
_READERS = {
    **{(EXT_PYDANTIC_V2, kind.__module__, kind.__name__): kind.model_validate for kind in _MESSAGES},
    (EXT_CONSTRUCTOR_POS_ARGS, Send.__module__, Send.__name__): lambda given: Send(*given),
    (EXT_CONSTRUCTOR_KW_ARGS, Interrupt.__module__, Interrupt.__name__): lambda given: Interrupt(**given),
}
"""How to read each kind of object that our graphs leave in a checkpoint, by the code and the name it is kept under."""


class ForeignCheckpoint(AssistantError):
    """What is kept of a conversation holds something that this program never writes; none of it was believed."""

    def __init__(self) -> None:
        super().__init__(
            "what is kept of this conversation in the database was damaged, or changed by somebody else: none of it is "
            "used; retry the mail, or begin a new chat"
        )


class PlainSerializer:
    """LangGraph's way to write; of its ways to read, the few that our graphs need."""

    def __init__(self) -> None:
        self._written = JsonPlusSerializer()

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """The name of the format, and the bytes."""
        return self._written.dumps_typed(obj)

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """The object that was kept. Raises ForeignCheckpoint."""
        kind, kept = data
        if kind == "null":
            return None
        if kind != "msgpack":
            raise ForeignCheckpoint
        try:
            return _unpack(kept)
        except Exception:
            # Not the cause's own words: they may quote what was kept.
            raise ForeignCheckpoint from None


def _unpack(kept: bytes) -> Any:
    return ormsgpack.unpackb(kept, ext_hook=_read, option=ormsgpack.OPT_NON_STR_KEYS)


def _read(code: int, kept: bytes) -> Any:
    module, name, given, *_ = _unpack(kept)
    return _READERS[code, module, name](given)
