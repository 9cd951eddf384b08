"""What a classifier would have thought of each mail of the past, by what was known on the day it came: evidence of a
person's own history, from before anything was sorted for them."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from math import ceil

from email_assistant.triage.classifier import one_thread
from email_assistant.triage.pairing import WITHIN
from email_assistant.triage.recorded import Recorded
from email_assistant.triage.study import Study
from email_assistant.triage.versions import FIRST, GROWS


@dataclass(frozen=True, slots=True)
class Foretold:
    """A mail of the past, what was thought of it before anything was learned from it, and what became of it."""

    mail_id: str
    thought: str
    confidence: float
    version: datetime  # up to when what was known had been learned
    truth: str
    known_at: datetime


def foretell(study: Study, past: Sequence[Recorded]) -> list[Foretold]:
    """Judge the mails of the past whose outcome a study has been told by labels and letters, in the order of time. What
    became of a mail is known two weeks after it came, and not sooner: else those of the last days would all be answered
    ones."""
    known = [each for each in past if each.id in study.of_history]
    examples = study.examples(study.of_history)
    settled = [each.at + WITHIN for each in known]
    times = [each.at for each in known]
    found: list[Foretold] = []
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
                Foretold(each.id, *thought, version, truth, known_at)
                for each, thought, truth, known_at in zip(
                    known[first:last], thoughts, examples.outcomes[first:last], settled[first:last], strict=True
                )
            ]
        learned = following
    return found
