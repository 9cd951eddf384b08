"""Finding items by what they show: which words a text is found by, and what a person typed as a query on them.

Everything stands in one `tsvector`. Beside its words it holds every ending of every address, marked by "@", so that any
part of an address is the beginning of one of them. This needs no extension: a database that was restored from a backup
has none (`pg_dump --schema` leaves them out).
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from email_assistant.mail.charset import readable

_MOST_CHARACTERS = 20_000
_MOST_ADDRESSES = 20
_LONGEST_ADDRESS = 100
_LONGEST_TERM = 100
_SHORTEST_PART = 2
_MOST_TERMS = 20
_ADDRESS = re.compile(r"[^\s<>()\[\],;:\"']+@[^\s<>()\[\],;:\"']+")
_WORD = re.compile(r"[^\W_]+")
_TERM = re.compile(r'"([^"]*)"|(\S+)')

WORDS = "to_tsvector('simple', %s) || array_to_tsvector(%s)"
"""SQL for the words of a text; its parameters are those of `words`."""


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
    if len(part) < _SHORTEST_PART:
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
