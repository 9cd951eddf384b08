"""What is known on a day of how a person and their correspondents write to each other: the walk in time that rehearsals
and the judge share. It looks back only: whatever is asked of it rests on what it was told before."""

import math
import re
from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from email_assistant.features.rehearsal.habits.facts import facts, recipients
from email_assistant.features.rehearsal.habits.pairing import Pairing, Shows
from email_assistant.mail.message import Mail
from email_assistant.mail.phrases import subject_of_conversation
from email_assistant.sync.past_mails import Recorded

_NAME: Final = re.compile(r"[^\W\d_]{3,}")
_THREAD: Final = timedelta(days=30)
"""Mails of one subject that are further apart belong to two conversations."""
_FADES: Final = timedelta(days=45)
"""After this time an event counts half as much for what is usual lately."""
_PRIOR: Final = 4.0
"""So many mails count what is usual otherwise, until a correspondent has shown their own share."""
_LONG_AGO: Final = 400.0  # days
_USUAL: Final = 0.2
"""The share that is answered where nothing is known."""


@dataclass(slots=True)
class _Tally:
    """How often something came, and how often it was answered, ever and lately."""

    came: int = 0
    answered: int = 0
    lately_came: float = 0.0
    lately_answered: float = 0.0
    lately_at: datetime | None = None
    last_came: datetime | None = None
    last_answered: datetime | None = None
    last_written: datetime | None = None
    written: int = 0
    delays: float = 0.0  # sum of the logarithms of hours
    delayed: int = 0  # so many of them

    def come(self, at: datetime) -> None:
        self.fade(at)
        self.came += 1
        self.lately_came += 1
        self.last_came = at

    def answer(self, at: datetime) -> None:
        self.fade(at)
        self.answered += 1
        self.lately_answered += 1
        self.last_answered = at

    def fade(self, at: datetime) -> None:
        if self.lately_at is not None and at > self.lately_at:
            left = 0.5 ** ((at - self.lately_at) / _FADES)
            self.lately_came *= left
            self.lately_answered *= left
        self.lately_at = max(at, self.lately_at or at)

    def share(self, usual: float) -> float:
        return (self.answered + _PRIOR * usual) / (self.came + _PRIOR)

    def share_lately(self, usual: float) -> float:
        return (self.lately_answered + _PRIOR * usual) / (self.lately_came + _PRIOR)


@dataclass(slots=True)
class _Conversation:
    """Mails of one subject that follow each other closely."""

    at: datetime
    came: int = 0
    written: int = 0
    last_is_own: bool = False
    with_whom: set[str] = field(default_factory=set)


class Correspondence:
    """A person's side of their mail, as it grows. Times must not go back."""

    def __init__(self, own: Collection[str]) -> None:
        """`own`: the person's addresses, in lower case."""
        self.own: Final = frozenset(own)
        self._names = {word.lower() for each in own for word in _NAME.findall(each.partition("@")[0])}
        self._everybody = _Tally()
        self._senders: defaultdict[str, _Tally] = defaultdict(_Tally)
        self._domains: defaultdict[str, _Tally] = defaultdict(_Tally)
        self._audiences: defaultdict[str, _Tally] = defaultdict(_Tally)
        self._conversations: dict[str, _Conversation] = {}
        self._written_ids: set[str] = set()
        self._pairing = Pairing(own)

    def facts(self, mail: Mail, at: datetime) -> dict[str, float]:
        """What a mail shows of itself, and what is known of its sender, its audience and its conversation."""
        return (
            facts(mail, at, self.own, self._names)
            | self._of_sender(mail, at)
            | self._of_conversation(mail, at)
            | self._of_person(at)
        )

    def received(self, entry: Recorded) -> None:
        for tally in self._tallies(entry.mail):
            tally.come(entry.at)
        self._learn_names(entry.mail)
        conversation = self._conversation(entry.mail, entry.at)
        conversation.came += 1
        conversation.last_is_own = False
        self._pairing.received(entry)

    def wrote(self, entry: Recorded) -> Shows:
        """The person sent this: what it shows of the mail before it."""
        shows = self._pairing.wrote(entry)
        for each in shows.answered_first:
            self._answered(each.mail, entry.at, entry.at - each.at)
        if shows.of_deleted:
            self._answered_deleted(entry.mail, entry.at)
        self._wrote(entry.mail, entry.at)
        return shows

    def _answered(self, mail: Mail, at: datetime, delay: timedelta) -> None:
        for tally in self._tallies(mail):
            tally.answer(at)
            tally.delays += math.log1p(delay / timedelta(hours=1))
            tally.delayed += 1

    def _answered_deleted(self, letter: Mail, at: datetime) -> None:
        """A letter of the person's own answers a mail that is gone: whoever it goes to had written."""
        for email in [each.email.lower() for each in letter.to if each.email.lower() not in self.own][:1]:
            for tally in (self._everybody, self._senders[email], self._domains[email.rpartition("@")[2]]):
                tally.come(at)
                tally.answer(at)

    def _wrote(self, mail: Mail, at: datetime) -> None:
        for email in recipients(mail):
            tally = self._senders[email]
            tally.written += 1
            tally.last_written = at
            self._domains[email.rpartition("@")[2]].written += 1
        self._everybody.written += 1
        self._everybody.last_written = at
        if mail.message_id:
            self._written_ids.add(mail.message_id)
        self._learn_names(mail)
        conversation = self._conversation(mail, at)
        conversation.written += 1
        conversation.last_is_own = True
        conversation.with_whom.update(recipients(mail))

    def _tallies(self, mail: Mail) -> tuple[_Tally, ...]:
        email = _sender(mail)
        return (
            self._everybody,
            self._senders[email],
            self._domains[email.rpartition("@")[2]],
            self._audiences[self._audience(mail)],
        )

    def _audience(self, mail: Mail) -> str:
        """Whom else it went to: a list, a circle, or nobody."""
        others = [each for each in recipients(mail) if each not in self.own]
        return min(others) if others else ""

    def _of_sender(self, mail: Mail, at: datetime) -> dict[str, float]:
        everybody, sender, domain, audience = self._tallies(mail)
        for tally in (everybody, sender, domain, audience):
            tally.fade(at)
        usual = everybody.share(_USUAL)
        of_domain = domain.share(usual)
        return {
            "share of the sender's mails that you answered": _log_odds(sender.share(of_domain)),
            "the same, lately": _log_odds(sender.share_lately(of_domain)),
            "share of the domain's mails that you answered": _log_odds(of_domain),
            "share of the mails to these recipients that you answered": _log_odds(audience.share(usual)),
            "mails from the sender": math.log1p(sender.came),
            "a first mail": float(not sender.came and not sender.written),
            "mails that you wrote to the sender": math.log1p(sender.written),
            "you have written to the sender": float(sender.written > 0),
            "you write as much as the sender": math.log1p(sender.written) - math.log1p(sender.came),
            "mails from the domain": math.log1p(domain.came),
            "time since the sender's last mail": _days(at, sender.last_came),
            "time since you answered the sender": _days(at, sender.last_answered),
            "time since you wrote to the sender": _days(at, sender.last_written),
            "how long answers to the sender take": sender.delays / sender.delayed if sender.delayed else 3.0,
            "share of these recipients whom you write to": self._circle(mail),
        }

    def _circle(self, mail: Mail) -> float:
        others = [each for each in recipients(mail) if each not in self.own]
        written = sum(each in self._senders and self._senders[each].written > 0 for each in others)
        return written / len(others) if others else 0.5

    def _of_conversation(self, mail: Mail, at: datetime) -> dict[str, float]:
        found = self._conversations.get(subject_of_conversation(mail.subject))
        is_open = found is not None and at - found.at <= _THREAD
        names_own = any(each in self._written_ids for each in (*mail.references, mail.in_reply_to))
        written = found.written if found and is_open else 0
        return {
            "you wrote in this conversation": float(bool(written) or names_own),
            "mails of yours in this conversation": math.log1p(written),
            "mails in this conversation": math.log1p(found.came if found and is_open else 0),
            "the last word was yours": float(found is not None and is_open and found.last_is_own),
            "answers a mail of yours": float(
                mail.in_reply_to in self._written_ids
                or bool(found and is_open and found.last_is_own and _sender(mail) in found.with_whom)
            ),
            "time since this conversation's last mail": _days(at, found.at if found and is_open else None),
        }

    def _of_person(self, at: datetime) -> dict[str, float]:
        everybody = self._everybody
        everybody.fade(at)
        return {
            "how much you answer lately": _log_odds(everybody.share_lately(everybody.share(_USUAL))),
            "time since you wrote to anybody": _days(at, everybody.last_written),
        }

    def _conversation(self, mail: Mail, at: datetime) -> _Conversation:
        subject = subject_of_conversation(mail.subject) or mail.message_id or ""
        found = self._conversations.get(subject)
        if found is None or at - found.at > _THREAD:
            found = self._conversations[subject] = _Conversation(at)
        found.at = at
        return found

    def _learn_names(self, mail: Mail) -> None:
        """What the person is called, by how they and others write their name."""
        for each in (mail.sender, *mail.to, *mail.cc):
            if each and each.name and each.email.lower() in self.own and "@" not in each.name:
                self._names.update(word.lower() for word in _NAME.findall(each.name))


def _sender(mail: Mail) -> str:
    return mail.sender.email.lower() if mail.sender else ""


def _log_odds(share: float) -> float:
    bounded = min(max(share, 0.005), 0.995)
    return math.log(bounded / (1 - bounded))


def _days(at: datetime, then: datetime | None) -> float:
    return math.log1p((at - then) / timedelta(days=1)) if then and then <= at else math.log1p(_LONG_AGO)
