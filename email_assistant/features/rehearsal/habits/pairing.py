"""Which received mails a letter of the person's own answers. It looks back only.

Mail systems that write no In-Reply-To are met by what the letter quotes, and then by subject together with sender,
recipient and order in time: by subject alone most pairs are wrong.
"""

import re
from collections import Counter, defaultdict, deque
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import islice
from typing import Final
from zlib import crc32

from email_assistant.features.rehearsal.habits.facts import recipients
from email_assistant.mail.introductions import quotes_another
from email_assistant.mail.message import Mail, reply_addresses
from email_assistant.mail.phrases import FORWARD_SUBJECT, REPLY_SUBJECT, subject_of_conversation
from email_assistant.sync.past_mails import Recorded

WITHIN: Final = timedelta(days=14)
"""An answer comes within this time, or is none."""

_RUN: Final = 5  # words
_ONE_IN: Final = 3
"""Of the runs of words of a mail, those are kept whose checksum this number divides: enough to know it by."""
_MOST_WORDS: Final = 1_000
"""By which a mail is known, its first: each run that is kept takes a quarter of a kilobyte, for two weeks."""
_MOST_WORDS_OF_LETTER: Final = 20_000
_LIKE: Final = 0.6
"""The share of a mail's runs that a letter which quotes it has: a quotation may be shortened, and its lines broken."""
_WORD: Final = re.compile(r"\w+")
_NOTES_HEADER: Final = re.compile(
    r"^[^\S\n]*(?:To|Sent by):.*\n(?:.*\n){0,6}?\s*(?:cc|Subject):", re.MULTILINE | re.IGNORECASE
)
"""How Lotus Notes introduced the mail that is answered."""


@dataclass(frozen=True, slots=True)
class Shows:
    """What a letter of the person's own shows."""

    answered: tuple[str, ...] = ()  # ids of mails
    answered_first: tuple[Recorded, ...] = ()  # of these, what no earlier letter answers
    forwarded: tuple[str, ...] = ()
    of_deleted: bool = False  # it answers a mail that is gone, as its quotation shows


@dataclass(slots=True)
class _Received:
    entry: Recorded
    senders: frozenset[str]
    runs: frozenset[int]
    subject: str
    answered: bool = field(default=False)


class Pairing:
    """The mails of the last two weeks, by all that an answer may know them by."""

    def __init__(self, own: Collection[str]) -> None:
        self._own = frozenset(own)
        self._recent: deque[_Received] = deque()
        self._by_id: dict[str, _Received] = {}
        # Lists, as nearly all hold one mail, and a deque takes room for 64.
        self._by_run: defaultdict[int, list[_Received]] = defaultdict(list)
        self._by_subject: defaultdict[str, list[_Received]] = defaultdict(list)
        self._by_conversation: defaultdict[str, list[_Received]] = defaultdict(list)

    def received(self, entry: Recorded) -> None:
        self._forget(entry.at)
        mail = entry.mail
        senders = frozenset(each.email.lower() for each in (*reply_addresses(mail), *filter(None, [mail.sender])))
        found = _Received(
            entry, senders, frozenset(_runs(mail.body, _MOST_WORDS)), subject_of_conversation(mail.subject)
        )
        self._recent.append(found)
        for each in (entry.id, *entry.copies):
            self._by_id[each] = found
        for run in found.runs:
            self._by_run[run].append(found)
        if found.subject:
            self._by_subject[found.subject].append(found)
        if entry.conversation:
            self._by_conversation[entry.conversation].append(found)

    def wrote(self, entry: Recorded) -> Shows:
        """What a letter of the person's own, which comes after all that was received so far, answers."""
        self._forget(entry.at)
        mail = entry.mail
        if mail.auto_submitted:
            return Shows()
        to = frozenset(recipients(mail)) - self._own
        found = self._named(mail, to) or self._quoted(mail, to)
        if not found and not mail.in_reply_to:
            found = self._of_subject(mail, to)
        found += [each for each in self._by_conversation.get(entry.conversation, ()) if each.senders & to]
        answers = [each for each in found if self._is_answer(mail, each, to)]
        first = {each.entry.id: each.entry for each in answers if not each.answered}
        for each in answers:
            each.answered = True
        return Shows(
            tuple(dict.fromkeys(each.entry.id for each in answers)),
            tuple(first.values()),
            tuple(dict.fromkeys(each.entry.id for each in found if each not in answers)),
            of_deleted=not found and bool(to) and _quotes(mail) and not FORWARD_SUBJECT.match(mail.subject),
        )

    def _is_answer(self, mail: Mail, received: _Received, to: frozenset[str]) -> bool:
        return bool(received.senders & to) or not FORWARD_SUBJECT.match(mail.subject)

    def _named(self, mail: Mail, to: frozenset[str]) -> list[_Received]:
        """The mail that it says it answers, and those before it whose senders it goes to."""
        parent = self._by_id.get(mail.in_reply_to or "")
        before = (self._by_id.get(each) for each in mail.references)
        return [*([parent] if parent else []), *(each for each in before if each and each.senders & to)]

    def _quoted(self, mail: Mail, to: frozenset[str]) -> list[_Received]:
        """The newest mail whose words stand in it; rather one from somebody whom it goes to."""
        shared = Counter(
            id(each) for run in set(_runs(mail.text, _MOST_WORDS_OF_LETTER)) for each in self._by_run.get(run, ())
        )
        alike = [
            each
            for each in self._recent
            if (count := shared[id(each)]) and len(each.runs) > 1 and count >= _LIKE * len(each.runs)
        ]
        best = max(alike, key=lambda each: (bool(each.senders & to), each.entry.at), default=None)
        return [best] if best else []

    def _of_subject(self, mail: Mail, to: frozenset[str]) -> list[_Received]:
        """The newest mail of the same subject from somebody whom it goes to, unless that has been answered."""
        if not REPLY_SUBJECT.match(mail.subject):
            return []
        candidates = self._by_subject.get(subject_of_conversation(mail.subject), ())
        fitting = [each for each in candidates if each.senders & to and self._reached(each)]
        return [fitting[-1]] if fitting and not fitting[-1].answered else []

    def _reached(self, received: _Received) -> bool:
        """Whether it was for the person: by name, or by a list, whose members no header names."""
        everybody = set(recipients(received.entry.mail))
        return bool(everybody & self._own) or received.entry.mail.bulk or len(everybody) <= 1

    def _forget(self, now: datetime) -> None:
        while self._recent and now - self._recent[0].entry.at > WITHIN:
            gone = self._recent.popleft()
            for each in (gone.entry.id, *gone.entry.copies):
                self._by_id.pop(each, None)
            for index, keys in (
                (self._by_run, gone.runs),
                (self._by_subject, [gone.subject] if gone.subject else []),
                (self._by_conversation, [gone.entry.conversation] if gone.entry.conversation else []),
            ):
                _drop_first(index, keys)


def _drop_first(index: dict[int, list[_Received]] | dict[str, list[_Received]], keys: Collection[object]) -> None:
    """Each entry has its mails in the order in which they came, and so they go."""
    for key in keys:
        index[key].pop(0)  # type: ignore[index]
        if not index[key]:  # type: ignore[index]
            del index[key]  # type: ignore[arg-type]


def _runs(text: str, most_words: int) -> Iterator[int]:
    """Checksums of runs of words; marks of quotation and line ends do not count."""
    words = [found[0].lower() for found in islice(_WORD.finditer(text), most_words)]
    for start in range(len(words) - _RUN + 1):
        checksum = crc32(" ".join(words[start : start + _RUN]).encode())
        if checksum % _ONE_IN == 0:
            yield checksum


def _quotes(mail: Mail) -> bool:
    """Whether it holds another mail's text."""
    return quotes_another(mail.text) or _NOTES_HEADER.search(mail.text) is not None
