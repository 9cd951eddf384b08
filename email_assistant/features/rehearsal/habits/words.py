"""The words of mails as sparse rows, and the plain rules that every trained stage is measured against. Words are
hashed: no vocabulary is kept, so none of a person's words can leak."""

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from email_assistant.features.rehearsal.habits.facts import recipients
from email_assistant.mail.message import Mail

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


_WORD: Final = re.compile(r"\w\w+|[?!%$€]")
_BLANKS: Final = re.compile(r"\W+")
_HEAD: Final = 4000
_TAIL: Final = 1000  # characters that are read of a long text's beginning and end
WIDTH: Final = 2**18
"""Columns. So few of a mailbox's words, some 50,000 and their pieces, share one that it does not show."""


def rows(mails: Sequence[Mail]) -> "csr_matrix":
    """For each mail which words it has, which pieces of the subject, and which of the sender's address: three vectors
    of length 1 side by side, in which a word that comes often weighs little more."""
    from sklearn.feature_extraction import FeatureHasher

    return FeatureHasher(WIDTH, input_type="pair", alternate_sign=False).transform(map(_tokens, mails))


def _tokens(mail: Mail) -> Iterator[tuple[str, float]]:
    groups = {"word": _words(mail), "subject": _pieces(mail.subject.lower(), 2, 4), "origin": _origin(mail)}
    for group, tokens in groups.items():
        weights = {token: 1 + math.log(count) for token, count in Counter(tokens).items()}
        length = math.hypot(*weights.values())
        yield from ((f"{group} {token}", weight / length) for token, weight in weights.items())


def _words(mail: Mail) -> Iterator[str]:
    body = mail.body if len(mail.body) <= _HEAD + _TAIL else f"{mail.body[:_HEAD]}\n{mail.body[-_TAIL:]}"
    yield from _WORD.findall(f"{mail.subject}\n{body}".lower())
    yield from (f"subject:{word}" for word in _WORD.findall(mail.subject.lower()))


def _origin(mail: Mail) -> Iterator[str]:
    """Who it is from and whom else it is for, whole and in pieces."""
    sender = str(mail.sender).lower() if mail.sender else ""
    domain = mail.sender.email.lower().rpartition("@")[2] if mail.sender else ""
    yield from (f"from:{domain}", f"ending:{domain.rpartition('.')[2]}")
    yield from (f"to:{each}" for each in recipients(mail)[:5])
    yield from _pieces(sender, 3, 5)


def _pieces(text: str, shortest: int, longest: int) -> Iterator[str]:
    """Runs of characters within words."""
    for word in _BLANKS.split(text):
        padded = f" {word} "
        for size in range(shortest, longest + 1):
            yield from (padded[start : start + size] for start in range(max(1, len(padded) - size + 1)))


RESPOND: Final = "respond"
NOTIFY: Final = "notify"
IGNORE: Final = "ignore"
OUTCOMES: Final = (IGNORE, NOTIFY, RESPOND)

_SELLS: Final = 0.7  # of the logarithm of 1 + words that sell: one such word


def by_rules(facts: Mapping[str, float]) -> str:
    """`respond`, `notify` or `ignore`, by the facts of a mail."""
    if facts["from a machine"] or facts["only tells"] > facts["requests"]:
        return NOTIFY
    mass = facts["to a list or by mass mail"] or facts["from a no-reply address"] or facts["written in pieces"]
    if mass or (facts["sells"] > _SELLS and facts["sells"] > facts["requests"]):
        return IGNORE
    asks = facts["requests"] or facts["presses"] or facts["questions"] or facts["asks near the end"]
    return RESPOND if asks else NOTIFY
