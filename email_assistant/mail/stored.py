"""Whether what a mail quotes is stored here with its text. Only then is it left out of what is shown."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from email_assistant.mail.history import Quoted, reading
from email_assistant.mail.introductions import bare, introduced, is_device_line
from email_assistant.mail.message import Mail, references_of

Status = Literal["stored", "kept", "not known"]

_RUN = 5  # words
_MAX_READ = 500_000  # characters of one mail
_WORD = re.compile(r"[-+]?\d++(?:[.,]\d++)*+[%+]?|[\u3040-\u30ff\u3400-\u9fff]|[^\W\u3040-\u30ff\u3400-\u9fff]+")
_MARKS = re.compile(r"^[ \t]*(?:[>|] ?)+")


@dataclass(frozen=True, slots=True)
class History:
    """What a mail quotes, and what became of it."""

    quoted: Quoted
    status: Status
    reason: str  # why that is its status


class StoredTexts:
    """The texts of mails that are stored, by the words that they hold. What is looked up is not compared with each: all
    runs of words are in one set, by hashes that nobody outside this process can foretell."""

    def __init__(self, mails: Iterable[Mail] = ()) -> None:
        self._words: dict[str, list[str]] = {}
        self._runs: set[int] = set()
        for mail in mails:
            self.add(mail)

    def add(self, mail: Mail) -> None:
        words = list(_words(mail.text[:_MAX_READ]))
        self._runs.update(map(hash, _runs(words)))
        if mail.message_id and words:
            self._words[mail.message_id] = words

    def holds(self, quoted: Quoted, of: Sequence[str]) -> bool:
        """Whether they hold each word that is quoted, in its place; of a part that is too short to be known by its
        words, whether one of the mails `of` these Message-IDs does."""
        parts = [words for part in _said(quoted.text) if (words := list(_words("\n".join(part))))]
        return bool(parts) and all(self._holds(words, of) for words in parts)

    def _holds(self, words: Sequence[str], of: Sequence[str]) -> bool:
        if len(words) < _RUN:
            return any(_within(words, self._words.get(each, [])) for each in of)
        covered_to = 0
        for place, run in enumerate(_runs(words)):
            if hash(run) in self._runs:
                covered_to = place + _RUN
            elif place >= covered_to:
                return False
        return covered_to == len(words)


def not_stored(mail: Mail, stored: StoredTexts) -> tuple[Quoted, ...]:
    """What a mail quotes that is to be shown with it: its own text does not hold it, and nothing stored does."""
    return tuple(each.quoted for each in history_of(mail, stored) if each.status == "kept" and not each.quoted.in_body)


def history_of(mail: Mail, stored: StoredTexts | None) -> tuple[History, ...]:
    """What a mail quotes: `stored` if it is with its text, `kept` if not, `not known` where nothing was looked at."""
    quoted = reading(mail.text, subject=mail.subject, bulk=mail.bulk).history
    if stored is None:
        return tuple(History(each, "not known", "no stored mail was looked at") for each in quoted)
    of = references_of(mail)
    return tuple(
        History(each, "stored", "the mail that it quotes is stored, with its text")
        if stored.holds(each, of)
        else History(each, "kept", "no stored mail holds what it quotes")
        for each in quoted
    )


def _said(text: str) -> Iterator[list[str]]:
    """The lines of a quotation without its marks, by the mails that it quotes one in another, and without what programs
    write above and below."""
    lines = [bare(_MARKS.sub("", line, count=1)) for line in text.split("\n")]
    part: list[str] = []
    index = 0
    while index < len(lines):
        if found := introduced(lines, index):
            index = max(found.after, index + 1)
            yield part
            part = []
            continue
        if not is_device_line(lines[index]):
            part.append(lines[index])
        index += 1
    yield part


def _words(text: str) -> Iterator[str]:
    return (found[0].casefold() for found in _WORD.finditer(text))


def _runs(words: Sequence[str]) -> Iterator[tuple[str, ...]]:
    return (tuple(words[start : start + _RUN]) for start in range(len(words) - _RUN + 1))


def _within(few: Sequence[str], words: Sequence[str]) -> bool:
    size = len(few)
    return size > 0 and any(list(few) == words[start : start + size] for start in range(len(words) - size + 1))
