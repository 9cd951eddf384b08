"""The versions of an account's classifier: each has learned what was known at a time, and the same makes the same. One
takes the place of the version before where it is no worse; and of each mail of the past it is told what would have been
thought of it by what was known on the day it came, which is evidence from before anything was sorted for a person."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from math import ceil
from typing import Final

from email_assistant.features.rehearsal.habits.classifier import Classifier, one_thread
from email_assistant.features.rehearsal.habits.pairing import WITHIN
from email_assistant.features.rehearsal.habits.study import Examples, Study
from email_assistant.sync.past_mails import Recorded

FIRST: Final = 100
"""Examples from which on a classifier is trained at all; of two outcomes at least `OF_EACH`."""
GROWS: Final = 1.25
"""Another version is tried when so many times more is known."""
NEWEST: Final = 50
"""Examples, the newest, that no new version learns from: it and the one before are tried on them."""
REPLAYED: Final = 200
"""Examples, the newest that the version before has learned from: earlier decisions, which no new one may unlearn."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two versions on the same mails: of how many each took how many for something else than they were."""

    newest: int
    before_on_newest: int
    after_on_newest: int
    earlier: int
    before_on_earlier: int
    after_on_earlier: int

    @property
    def is_kept(self) -> bool:
        """The new one takes the old one's place: it is no worse, neither on what both never saw nor on what the person
        had decided before."""
        return self.after_on_newest <= self.before_on_newest and self.after_on_earlier <= self.before_on_earlier

    def __str__(self) -> str:
        return (
            f"wrong on {self.after_on_newest} of the newest {self.newest} (before: {self.before_on_newest}), on "
            f"{self.after_on_earlier} of {self.earlier} earlier ones (before: {self.before_on_earlier})"
        )


@dataclass(frozen=True, slots=True)
class Truth:
    """What a mail needed, as the person's own doing says."""

    mail_id: str
    truth: str
    known_at: datetime


@dataclass(frozen=True, slots=True)
class Predecessor:
    """The version that has been gone by so far."""

    version: datetime
    classifier: Classifier | None  # None: this process has not learned it yet


def next_version(taught: Sequence[Truth], *, is_first: bool) -> datetime:
    """The time up to which a new version learns; of what is known since, it is tried."""
    return taught[-1 if is_first else -1 - min(NEWEST, len(taught) // 5)].known_at


def learn(
    study: Study, taught: Sequence[Truth], before: Predecessor | None, version: datetime | None
) -> tuple[tuple[datetime, Classifier] | None, Comparison | None]:
    """The version to go by with its classifier, and how a new one did beside the one before. Raises TooFewOutcomes."""
    kept = None
    if before:
        kept = before.version, before.classifier or _known_by(study, taught, before.version).train()
    if version is None:
        return kept, None
    examples = _known_by(study, taught, version)
    if not examples.tell_apart:
        return kept, None
    new = examples.train()
    if kept is None:
        return (version, new), None
    since, old = kept
    newest = study.examples({each.mail_id for each in taught if each.known_at > max(version, since)})
    earlier = study.examples({each.mail_id for each in [each for each in taught if each.known_at <= since][-REPLAYED:]})
    tried = Comparison(
        len(newest.outcomes), newest.wrong(old), newest.wrong(new),
        len(earlier.outcomes), earlier.wrong(old), earlier.wrong(new),
    )  # fmt: skip
    return ((version, new) if tried.is_kept else kept), tried


def _known_by(study: Study, taught: Sequence[Truth], version: datetime) -> Examples:
    return study.examples({each.mail_id for each in taught if each.known_at <= version} | study.of_history)


@dataclass(frozen=True, slots=True)
class Backtested:
    """A mail of the past, what was thought of it before anything was learned from it, and what became of it."""

    mail_id: str
    thought: str
    confidence: float
    version: datetime  # up to when what was known had been learned
    truth: str
    known_at: datetime


def backtest(study: Study, past: Sequence[Recorded]) -> list[Backtested]:
    """Judge the mails of the past whose outcome a study has been told by labels and letters, in the order of time. What
    became of a mail is known two weeks after it came, and not sooner: else those of the last days would all be answered
    ones."""
    known = [each for each in past if each.id in study.of_history]
    examples = study.examples(study.of_history)
    settled = [each.at + WITHIN for each in known]
    times = [each.at for each in known]
    found: list[Backtested] = []
    learned = FIRST
    while learned < len(known):
        version, following = settled[learned - 1], ceil(learned * GROWS)
        first = bisect_right(times, version)
        last = bisect_right(times, settled[following - 1]) if following < len(known) else len(known)
        taught = examples.part(0, learned)
        if first < last and taught.tell_apart:
            with one_thread():
                thoughts = examples.part(first, last).judged(taught.train())
            found += [
                Backtested(each.id, *thought, version, truth, known_at)
                for each, thought, truth, known_at in zip(
                    known[first:last], thoughts, examples.outcomes[first:last], settled[first:last], strict=True
                )
            ]
        learned = following
    return found
