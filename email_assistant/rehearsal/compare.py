"""A rehearsal against simple ways of telling what one answers, among them one that learns words alone."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from email_assistant.rehearsal.recorded import NoHistory, Recorded
from email_assistant.rehearsal.walk import Judged, Progress, walk
from email_assistant.rehearsal.ways import Way, beside, first, way

FIRST_PART: Final = 0.6
"""The share of the received mails, the oldest, that is learned from; the rest is judged."""


@dataclass(frozen=True, slots=True)
class Compared:
    learned_from: int
    judged: int
    answered: int  # of those judged
    until: datetime
    ways: dict[str, Way]
    go_by: str


def compare(entries: Sequence[Recorded], own: Collection[str], progress: Progress = lambda _: None) -> Compared:
    """Raises NoHistory where there is too little to learn from or to judge."""
    received = [entry for entry in entries if not entry.own]
    if not received:
        raise NoHistory("there is no received mail in the file, so there is nothing to compare")
    until = received[int(len(received) * FIRST_PART)].at
    everything = walk(entries, own, until, progress)
    older = walk([entry for entry in entries if entry.at <= until], own).judged
    judged = everything.judged
    right = [each.answered for each in judged]
    if not any(right) or all(right) or len({each.answered for each in older}) == 1:
        raise NoHistory("all mails of the older or of the newer part had the same outcome: nothing can be compared")
    compared = beside(judged, own)
    words = _by_words(older, judged)
    as_many = first(words, compared.ways["ours"].shown)
    return Compared(
        learned_from=len(older),
        judged=len(judged),
        answered=sum(right),
        until=until,
        ways=compared.ways | {"words": way("by words alone, as many", right, as_many, words)},
        go_by=compared.go_by,
    )


def _by_words(older: Sequence[Judged], judged: Sequence[Judged]) -> list[float]:
    """TF-IDF of the words of subject and text, and logistic regression, as their library has them."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    def texts(each: Sequence[Judged]) -> list[str]:
        return [f"{one.entry.mail.subject}\n{one.entry.mail.body}" for one in each]

    words = make_pipeline(TfidfVectorizer(sublinear_tf=True), LogisticRegression(max_iter=500))
    words.fit(texts(older), [each.answered for each in older])
    return [float(given) for given in words.predict_proba(texts(judged))[:, 1]]
