"""The words of mails as sparse rows. They are hashed: no vocabulary is kept, so none of a person's words can leak."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from email_assistant.mail.message import Mail
from email_assistant.triage.facts import recipients

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

_WORD: Final = re.compile(r"\w\w+|[?!%$€]")
_BLANKS: Final = re.compile(r"\W+")
_HEAD: Final = 4000
_TAIL: Final = 1000  # characters that are read of a long text's beginning and end
_WORDS, _PIECES = 2**17, 2**15
"""Columns. The expected number of words that share one stays small for a mailbox's vocabulary of some 50,000."""

WIDTH: Final = _WORDS + 2 * _PIECES


def rows(mails: Sequence[Mail]) -> "csr_matrix":
    """For each mail how often it has which words, pieces of the subject, and pieces of the sender's address."""
    from scipy.sparse import csr_matrix, hstack

    groups = [
        _hashed(map(_words, mails), _WORDS),
        _hashed((_pieces(mail.subject.lower(), 2, 4) for mail in mails), _PIECES),
        _hashed(map(_origin, mails), _PIECES),
    ]
    return csr_matrix(hstack(groups, format="csr"))


def _hashed(tokens: Iterable[Iterator[str]], width: int) -> Any:
    from sklearn.feature_extraction import FeatureHasher
    from sklearn.preprocessing import normalize

    found = FeatureHasher(width, input_type="string", alternate_sign=False).transform(tokens)
    found.data = 1 + _log(found.data)
    return normalize(found)


def _log(values: Any) -> Any:
    import numpy

    return numpy.log(values)


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
