"""What a browser shows of items that wait: who wrote, what the assistant would do, and where to open it."""

import re
from collections.abc import Sequence
from typing import Any, Final

from email_assistant.inbox.items import Item
from email_assistant.inbox.recipients import addresses_in
from email_assistant.inbox.sentences import sentence
from email_assistant.mail.charset import cut
from email_assistant.mail.invisible import clean
from email_assistant.tools.send_email import LETTER

MOST_CARDS: Final = 3
"""A push message holds about 3,900 bytes (RFC 8291, section 4), and a character takes up to four."""
_LINE: Final = 100
_GAP: Final = re.compile(r"\s{3,}")
"""Room in which the end of a letter is out of sight."""
_WHOLE: Final = 200
"""Characters that a notice shows of a letter at most; a longer one is not sent from it."""

Card = dict[str, Any]


def cards(items: Sequence[Item], new: int) -> list[Card]:
    """A notice for each of the first items, each with who wrote; and one for the rest, if there is one.

    Args:
        new: how many there are in all.
    """
    shown = [_card(item, alone=new == 1) for item in items[:MOST_CARDS]]
    return [*shown, counted(new - len(shown), "more ")] if new > len(shown) else shown


def counted(waiting: int, more: str = "") -> Card:
    """A notice that names nobody."""
    said = f"1 {more}item waits for you" if waiting == 1 else f"{waiting} {more}items wait for you"
    return {"title": said, "body": "", "tag": "waiting", "url": "/"}


def bare(item: Item) -> Card:
    """A notice of one item that names nobody, and opens it."""
    marked = "It is marked: look at it by itself." if item.marks else ""
    return {**counted(1), "body": marked, "tag": str(item.id), "url": f"/items/{item.id}"}


def _card(item: Item, *, alone: bool) -> Card:
    nobody = "An agent of yours" if item.is_held else "(unknown sender)"
    who = "You, in a chat" if item.chat else item.sender or nobody
    named = f"{'! ' if item.marks else ''}{who}: {item.subject or '(no subject)'}"
    card = {**bare(item), "title": _one_line(named)}
    whole = _whole(item) if alone and len(_flat(named)) <= _LINE else None
    if whole is not None:
        # The hash is of all that is shown of the item and of its `asked`: under another, nothing is accepted.
        return {**card, "body": whole, "send": {"id": str(item.id), "hash": item.hash}}
    marked = f"Marked: {item.at_a_glance}" if item.marks else ""
    return {**card, "body": "\n".join(map(_one_line, filter(None, [marked, sentence(item, item.zone)])))}


def _whole(item: Item) -> str | None:
    """The letter that *Send* would send, all of it with everybody who gets it; None: it is opened to be answered."""
    if item.kind != "draft" or item.action != LETTER or item.alone or "accept" not in item.allowed:
        return None
    if item.parts or item.newer or item.left_out or item.asked_because:
        return None
    text = str(item.args.get("response_text") or "").strip()
    shown = f"From {item.sent_from} to {', '.join(addresses_in(item.args))}:\n{text}"
    return shown if len(shown) <= _WHOLE and clean(shown) == shown and not _GAP.search(shown) else None


def _one_line(text: str) -> str:
    return cut(_flat(text), _LINE)


def _flat(text: str) -> str:
    return " ".join(clean(text).split())
