"""The versions of an account's classifier: each has learned what was known at a time, and the same makes the same."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from email_assistant.triage.classifier import Classifier
from email_assistant.triage.study import Examples, Study
from email_assistant.triage.versions import NEWEST, REPLAYED, Comparison


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
