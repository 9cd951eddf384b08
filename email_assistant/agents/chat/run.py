"""What a turn of a chat is given."""

from typing import Literal, NotRequired, TypedDict


class Turn(TypedDict):
    """What a turn's graph is started with; kept in the checkpoint, so plain JSON."""

    agent: Literal["chat"]
    id: str
    account_id: str
    address: str
    chat: str
    """The client's id of the chat."""
    request: str
    """What the person asked for."""
    allowed_tool_types: NotRequired[list[str]]
    """What the policy router has let this turn do; nothing before that."""
