"""Prompts cut shorter for a model with a small context: data only, never instructions, the longest first."""

from collections.abc import Sequence
from typing import TypeVar

from langchain_core.messages import AnyMessage, HumanMessage, ToolMessage

from email_assistant.mail.prompt import block_lengths, shorten, shorten_blocks

M = TypeVar("M", HumanMessage, ToolMessage)

_FLOOR = 300
"""Characters of a block that are always left, so that it can still be told who wrote and about what."""


def shortened(messages: Sequence[AnyMessage], share: float) -> list[AnyMessage] | None:
    """The messages at about `share` of their length, all their long blocks cut to one common length.

    What is cut are the mails and other data in blocks, and the results of tools. None if they are all short already.
    """
    excess = (1 - share) * sum(len(message.text) for message in messages)
    ceiling = max(_FLOOR, _ceiling([n for message in messages for n in _lengths(message)], excess))
    cut = [_cut(message, ceiling) for message in messages]
    return cut if sum(len(m.text) for m in cut) < sum(len(m.text) for m in messages) else None


def _ceiling(lengths: Sequence[int], excess: float) -> int:
    """The length to which the longest must be cut so that they lose `excess` together."""
    longest = sorted(lengths, reverse=True)
    for number, following in enumerate([*longest[1:], 0], start=1):
        if sum(longest[:number]) - number * following >= excess:
            return int((sum(longest[:number]) - excess) / number)
    return 0


def _lengths(message: AnyMessage) -> list[int]:
    match message:
        case HumanMessage() | ToolMessage():
            return block_lengths(message.text) or ([len(message.text)] if isinstance(message, ToolMessage) else [])
        case _:
            return []


def _cut(message: AnyMessage, ceiling: int) -> AnyMessage:
    match message:
        case ToolMessage() if not block_lengths(message.text):
            return message.model_copy(update={"content": shorten(message.text, ceiling)})
        case HumanMessage() | ToolMessage():
            return message.model_copy(update={"content": shorten_blocks(message.text, ceiling)})
        case _:
            return message
