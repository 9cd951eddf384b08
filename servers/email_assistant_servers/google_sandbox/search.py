"""Gmail's search language as an SQL condition on the table `messages`, there called `m`.

Terms stand side by side (all must hold), `OR` binds tighter, `-` negates, `( )` groups, `{ }` means any of.
Words match whole words, without case. An operator that Gmail has and this sandbox lacks is refused, since a search
that silently finds nothing can't be told from an empty mailbox.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from . import mime
from .errors import invalid

# A date in a search is midnight in Pacific time, whatever the person's timezone:
# https://developers.google.com/workspace/gmail/api/guides/filtering
_SEARCH_ZONE = ZoneInfo("America/Los_Angeles")

_TEXT_COLUMNS = {"": "anywhere", "from": "sender", "to": "recipient", "cc": "cc", "bcc": "bcc", "subject": "subject"}
_IS = {"unread": "UNREAD", "starred": "STARRED", "important": "IMPORTANT"}
_IN = {"inbox": "INBOX", "sent": "SENT", "draft": "DRAFT", "drafts": "DRAFT", "trash": "TRASH", "spam": "SPAM"}
CATEGORIES = {
    "primary": "CATEGORY_PERSONAL",
    **{name: f"CATEGORY_{name.upper()}" for name in ("social", "promotions", "updates", "forums")},
}
_DAYS = {"d": 1, "m": 30, "y": 365}
_LACKING = ("deliveredto", "filename", "larger", "list", "size", "smaller")
_OPERATORS = (
    *(name for name in _TEXT_COLUMNS if name),
    *("is", "in", "label", "category", "has", "rfc822msgid"),
    *("after", "newer", "before", "older", "newer_than", "older_than"),
    *_LACKING,
)
_TOKEN = re.compile(
    r"\s*(?:(?P<open>[({])|(?P<close>[)}])|(?P<minus>-)(?=\S)|(?P<operator>" + "|".join(_OPERATORS) + r"):(?=\S)"
    r'|"(?P<phrase>[^"]*)"?|(?P<word>[^\s(){}"]+))',
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Condition:
    """An SQL expression and its parameters."""

    sql: str
    parameters: tuple[object, ...] = ()

    def __invert__(self) -> "Condition":
        return Condition(f"NOT ({self.sql})", self.parameters)


@dataclass(frozen=True)
class Query:
    """A parsed search. `everywhere`: it asks for spam or trash, which a plain search leaves out."""

    condition: Condition
    everywhere: bool


def all_of(conditions: list[Condition]) -> Condition:
    """Every one holds; true if there is none."""
    return _joined(" AND ", conditions)


def labelled(label_id: str) -> Condition:
    """The message has the label of that id."""
    return Condition(
        "EXISTS (SELECT 1 FROM message_labels l WHERE l.message_id = m.id AND l.label_id = ?)", (label_id,)
    )


def parse(text: str, owner: str, now: datetime) -> Query:
    """Understand a search; `owner` is the address that `me` stands for. Raises ApiError (400)."""
    return _Parser(text, owner, now).query()


def _joined(operator: str, conditions: list[Condition]) -> Condition:
    if not conditions:
        return Condition("1")
    sql = operator.join(f"({one.sql})" for one in conditions)
    return Condition(sql, tuple(value for one in conditions for value in one.parameters))


def _any_of(conditions: list[Condition]) -> Condition:
    return _joined(" OR ", conditions)


class _Parser:
    def __init__(self, text: str, owner: str, now: datetime) -> None:
        self._tokens = [
            (str(match.lastgroup), match[str(match.lastgroup)]) for match in _TOKEN.finditer(text) if match.lastgroup
        ]
        self._tokens.reverse()
        self._owner = owner
        self._now = now
        self._everywhere = False

    def query(self) -> Query:
        condition = self._group("", "")
        return Query(condition, self._everywhere)

    def _group(self, operator: str, closing: str) -> Condition:
        terms: list[Condition] = []
        while self._tokens:
            kind, value = self._tokens.pop()
            if kind == "close":
                if closing:
                    break
            elif kind == "word" and value == "OR" and terms and self._tokens:
                terms[-1] = _any_of([terms[-1], self._term(*self._tokens.pop(), operator)])
            elif (kind, value) != ("word", "AND"):
                terms.append(self._term(kind, value, operator))
        return _any_of(terms) if closing == "}" and terms else all_of(terms)

    def _term(self, kind: str, value: str, operator: str) -> Condition:
        if kind == "open":
            return self._group(operator, "}" if value == "{" else ")")
        if kind == "minus":
            return ~self._next(operator)
        if kind == "operator":
            return self._next(value.lower())
        if operator in _TEXT_COLUMNS:
            return self._text(operator, value)
        if operator in _LACKING:
            raise invalid(f"The sandbox does not know the search operator {operator}:")
        return self._leaves()[operator](value.lower() if operator != "rfc822msgid" else value)

    def _next(self, operator: str) -> Condition:
        return self._term(*self._tokens.pop(), operator) if self._tokens else Condition("1")

    def _leaves(self) -> dict[str, Callable[[str], Condition]]:
        return {
            "is": self._is,
            "in": self._in,
            "label": self._label,
            "category": self._category,
            "has": self._has,
            "rfc822msgid": lambda value: Condition("m.identity = ?", (value.strip("<>"),)),
            "after": lambda value: self._dated(">=", value),
            "newer": lambda value: self._dated(">=", value),
            "before": lambda value: self._dated("<", value),
            "older": lambda value: self._dated("<", value),
            "newer_than": lambda value: self._aged(">=", value),
            "older_than": lambda value: self._aged("<", value),
        }

    def _text(self, operator: str, value: str) -> Condition:
        wanted = self._owner if value.lower() == "me" and operator in {"from", "to", "cc", "bcc"} else value
        phrase = mime.words(wanted)
        if not phrase.strip():
            return Condition("1")
        column = _TEXT_COLUMNS[operator]
        sql = f"EXISTS (SELECT 1 FROM search_texts s WHERE s.message_id = m.id AND instr(s.{column}, ?))"
        return Condition(sql, (phrase,))

    def _is(self, value: str) -> Condition:
        if value == "read":
            return ~labelled("UNREAD")
        if value not in _IS:
            raise invalid(f"The sandbox does not know the search is:{value}")
        return labelled(_IS[value])

    def _in(self, value: str) -> Condition:
        if value == "anywhere":
            self._everywhere = True
            return Condition("1")
        if value not in _IN:
            return self._label(value)
        self._everywhere |= value in {"trash", "spam"}
        return labelled(_IN[value])

    def _label(self, value: str) -> Condition:
        self._everywhere |= value in {"trash", "spam"}
        sql = (
            "EXISTS (SELECT 1 FROM message_labels l JOIN labels n ON n.id = l.label_id"
            " WHERE l.message_id = m.id AND ? IN (n.search_name, lower(n.id)))"
        )
        return Condition(sql, (label_search_name(value),))

    def _category(self, value: str) -> Condition:
        if value not in CATEGORIES:
            raise invalid(f"The sandbox does not know the search category:{value}")
        return labelled(CATEGORIES[value])

    def _has(self, value: str) -> Condition:
        if value != "attachment":
            raise invalid(f"The sandbox does not know the search has:{value}")
        return Condition("m.has_attachment")

    def _dated(self, comparison: str, value: str) -> Condition:
        return Condition(f"m.internal_date {comparison} ?", (_moment(value),))

    def _aged(self, comparison: str, value: str) -> Condition:
        match = re.fullmatch(r"(\d{1,4})([dmy])", value)
        if match is None:
            raise invalid(f"Invalid age in search: {value}")
        start = self._now - timedelta(days=int(match[1]) * _DAYS[match[2]])
        return Condition(f"m.internal_date {comparison} ?", (int(start.timestamp() * 1000),))


def label_search_name(name: str) -> str:
    """A label's name as it is written in a search: lower case, with hyphens for spaces and slashes."""
    return re.sub(r"[\s/]", "-", name.lower())


def _moment(value: str) -> int:
    """Milliseconds since 1970 for seconds since 1970 or for a date (YYYY/MM/DD)."""
    if re.fullmatch(r"\d{9,11}", value):
        return int(value) * 1000
    try:
        year, month, day = (int(number) for number in re.split(r"[/-]", value))
        return int(datetime(year, month, day, tzinfo=_SEARCH_ZONE).timestamp() * 1000)
    except ValueError:
        raise invalid(f"Invalid date in search: {value}") from None
