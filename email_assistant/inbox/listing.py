"""Which items a listing shows, and in which order, as SQL on `inbox_items i`; and which of them what a person typed
finds, by the words that they show.

Every order has its index; a cursor is a position in it, opaque to whoever gets one. All that is found stands in one
`tsvector`. Beside its words it holds every ending of every address, marked by "@", so that any part of an address is
the beginning of one of them. This needs no extension: a database that was restored from a backup has none (`pg_dump
--schema` leaves them out).
"""

import base64
import binascii
import json
import re
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from http import HTTPStatus
from typing import Any, Literal, TypedDict, get_args
from uuid import UUID

from email_assistant.errors import AssistantError
from email_assistant.mail.charset import readable
from email_assistant.tools.spec import Kind

_MOST_CHARACTERS = 20_000
_MOST_ADDRESSES = 20
_LONGEST_ADDRESS = 100
_LONGEST_TERM = 100
_SHORTEST_PART = 2
_MOST_TERMS = 20
_ADDRESS = re.compile(r"[^\s<>()\[\],;:\"']+@[^\s<>()\[\],;:\"']+")
_WORD = re.compile(r"[^\W_]+")
_URGENCY = re.compile(r"[0-9]{1,4}")
_TERM = re.compile(r'"([^"]*)"|(\S+)')

WORDS = "to_tsvector('simple', %s) || array_to_tsvector(%s)"
"""SQL for the words of a text; its parameters are those of `words`."""
Status = Literal["pending", "decided", "applied", "superseded", "expired"]
STATUSES: tuple[Status, ...] = get_args(Status)
KINDS: tuple[Kind, ...] = get_args(Kind)
Sort = Literal["age", "newest", "urgency"]
SORTS: tuple[Sort, ...] = get_args(Sort)
_ORDERS: Mapping[Sort, str] = {
    "age": "i.created_at, i.id",
    "newest": "i.created_at desc, i.id desc",
    "urgency": "i.urgency, i.created_at, i.id",
}
_BACKWARDS: Mapping[Sort, str] = {
    "age": _ORDERS["newest"],
    "newest": _ORDERS["age"],
    "urgency": "i.urgency desc, i.created_at desc, i.id desc",
}
AWAKE = "(i.snoozed_until is null or i.snoozed_until <= statement_timestamp())"
_ASLEEP = "i.snoozed_until > statement_timestamp()"
_AGE = re.compile(r"([0-9]{1,5})([mhdw])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
Condition = tuple[str, list[Any]]


def words(mail_text: str, args: Mapping[str, Any]) -> tuple[str, list[str]]:
    """What an item is found by: its text, and the marked endings of the addresses in it."""
    text = readable("\n".join([mail_text, *_texts(args)]))[:_MOST_CHARACTERS]
    addresses = dict.fromkeys(a.lower() for a in _ADDRESS.findall(text) if len(a) <= _LONGEST_ADDRESS)
    endings = {f"@{a[start:]}" for a in list(addresses)[:_MOST_ADDRESSES] for start in range(len(a) - 1)}
    return text, sorted(endings)


def matches(typed: str) -> tuple[str, list[str]] | None:
    """SQL on a `words` column and its parameters for what a person typed; None if that asks for nothing.

    All terms must be there: a word as a whole, a part of an address, or "several words" in that order.
    """
    terms = [_term(phrase, word) for phrase, word in _TERM.findall(readable(typed))[:_MOST_TERMS]]
    if not terms:
        return None
    return f"({' && '.join(sql for sql, _ in terms)})", [value for _, values in terms for value in values]


def of_words(typed: str) -> str:
    """A `tsquery` on `mail_words`, as text: all of the words, each as a beginning; empty if there is none."""
    return " & ".join(f"'{word[:_LONGEST_TERM]}':*" for word in _WORD.findall(readable(typed))[:_MOST_TERMS])


def _term(phrase: str, word: str) -> tuple[str, list[str]]:
    if phrase:
        return "phraseto_tsquery('simple', %s)", [phrase[:_LONGEST_TERM]]
    part = word[:_LONGEST_TERM]
    if len(part) < _SHORTEST_PART or not _WORD.search(part):  # signs alone are no part of anything, and no word
        return "plainto_tsquery('simple', %s)", [part]
    return "(plainto_tsquery('simple', %s) || %s::tsquery)", [part, _beginning(f"@{part.lower()}")]


def _beginning(text: str) -> str:
    """Every lexeme that begins so, as a literal of type tsquery."""
    quoted = text.replace("\\", "\\\\").replace("'", "''")
    return f"'{quoted}':*"


def _texts(value: object) -> Iterator[str]:
    match value:
        case str():
            yield value
        case Mapping():
            for each in value.values():
                yield from _texts(each)
        case list() | tuple():
            for each in value:
                yield from _texts(each)


class BadCursor(AssistantError):
    """A cursor that was not given out here."""

    status = HTTPStatus.UNPROCESSABLE_ENTITY

    def __init__(self) -> None:
        super().__init__("this cursor was not given out here; start from the first page")


def make_cursor(at: datetime, key: str) -> str:
    return base64.urlsafe_b64encode(json.dumps([at.isoformat(), key]).encode()).decode()


def read_cursor(cursor: str) -> tuple[datetime, str]:
    """Raises BadCursor."""
    try:
        at, key = json.loads(base64.urlsafe_b64decode(cursor))
        return datetime.fromisoformat(at), str(key)
    except (binascii.Error, ValueError, TypeError, RecursionError):
        raise BadCursor from None


class Wanted(TypedDict, total=False):
    """What a listing is narrowed to; what is left out narrows nothing."""

    status: Status | None
    account: str | None
    """An address."""
    kind: Kind | None
    q: str | None
    """Words, parts of addresses and "phrases"; an item holds all of them."""
    older_than: timedelta | None
    newer_than: timedelta | None
    sort: Sort
    """`age`: longest waiting first, the default. `urgency`: by kind alone (in doubt, meeting, question, draft,
    notification), longest waiting first in each; of pending items only."""
    backwards: bool
    """The last first; what "follows" an item then stands before it."""
    snoozed: bool | Literal["only"]
    """Whether pending items that are snoozed are listed too, or nothing else; left out, they are not."""


def read_age(text: str) -> timedelta:
    """The time that such as 30m, 12h, 3d or 2w stands for. Raises ValueError."""
    found = _AGE.fullmatch(text)
    if not found:
        raise ValueError("write a number and m, h, d or w, such as 12h or 3d")
    return timedelta(**{_UNITS[found[2]]: int(found[1])})


def listed(user_id: UUID, wanted: Wanted, cursor: str | None) -> tuple[str, list[Any]]:
    """The conditions and the order, and their parameters. Raises BadCursor."""
    conditions = list(_conditions(user_id, wanted, cursor))
    where = " and ".join(sql for sql, _ in conditions)
    return f"{where} order by {order(wanted)}", [value for _, values in conditions for value in values]


def order(wanted: Wanted) -> str:
    return (_BACKWARDS if wanted.get("backwards") else _ORDERS)[wanted.get("sort", "age")]


def position(wanted: Wanted, created_at: datetime, urgency: int, item_id: UUID) -> str:
    """The cursor of what follows an item."""
    return make_cursor(created_at, f"{urgency}:{item_id}" if wanted.get("sort") == "urgency" else str(item_id))


def _conditions(user_id: UUID, wanted: Wanted, cursor: str | None) -> Iterator[Condition]:
    yield "i.user_id = %s", [user_id]
    yield from _standing(wanted)
    if account := wanted.get("account"):
        yield "i.account_id = (select id from accounts where user_id = %s and address = %s)", [user_id, account.lower()]
    if kind := wanted.get("kind"):
        yield "i.kind = %s", [kind]
    if older := wanted.get("older_than"):
        yield "i.created_at < statement_timestamp() - %s", [older]
    if newer := wanted.get("newer_than"):
        yield "i.created_at > statement_timestamp() - %s", [newer]
    if found := matches(wanted.get("q") or ""):
        sql, values = found
        yield f"i.words @@ {sql}", values
    if cursor:
        yield _after(wanted, cursor)


def _standing(wanted: Wanted) -> Iterator[Condition]:
    snoozed = wanted.get("snoozed", False)
    status = "pending" if wanted.get("sort") == "urgency" or snoozed == "only" else wanted.get("status")
    if status:
        yield "i.status = %s", [status]
    if snoozed == "only":
        yield _ASLEEP, []
    elif status == "pending" and not snoozed:
        yield AWAKE, []


def _after(wanted: Wanted, cursor: str) -> Condition:
    at, key = read_cursor(cursor)
    sort = wanted.get("sort", "age")
    is_later = "<" if (sort == "newest") != wanted.get("backwards", False) else ">"
    if sort != "urgency":
        return f"(i.created_at, i.id) {is_later} (%s, %s)", [at, key]
    urgency, _, item_id = key.partition(":")
    if not _URGENCY.fullmatch(urgency):
        raise BadCursor
    return f"(i.urgency, i.created_at, i.id) {is_later} (%s, %s, %s)", [int(urgency), at, item_id]
