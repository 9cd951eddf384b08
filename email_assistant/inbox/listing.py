"""Which items a listing shows, and in which order, as SQL on `inbox_items i`. Every order has its index; a cursor is a
position in it, opaque to whoever gets one."""

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
from email_assistant.inbox.search import matches
from email_assistant.tools.spec import Kind


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
    except (binascii.Error, ValueError, TypeError):
        raise BadCursor from None


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
    if not urgency.isdecimal():
        raise BadCursor
    return f"(i.urgency, i.created_at, i.id) {is_later} (%s, %s, %s)", [int(urgency), at, item_id]
