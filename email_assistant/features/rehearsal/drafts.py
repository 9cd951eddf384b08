"""How much of the letters that were proposed is left in those that were sent, by week and by kind."""

import json
import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any, Final

from email_assistant.errors import AssistantError
from email_assistant.features.rehearsal.habits.proof import RISK
from email_assistant.mail.survival import Survival, survival
from email_assistant.trail.activity import ApprovedLetter


class NoLetters(AssistantError):
    """There is nothing to measure; the message says what is needed."""


@dataclass(frozen=True, slots=True)
class KeptLetters:
    """Means over letters, from 0 to 1, each with an interval that holds the truth with 95 %."""

    name: str
    letters: int
    unchanged: int  # word for word
    share: float  # of a letter's sentences that are left
    interval: tuple[float, float]
    distance: float  # of a letter's words that are others
    distance_interval: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Drafted:
    all: KeptLetters
    weeks: list[KeptLetters]  # by the day on which they begin, a Monday; without the letters whose day is not known
    kinds: list[KeptLetters]


def measure(letters: Sequence[ApprovedLetter], zone: tzinfo) -> Drafted:
    """`zone`: in which weeks begin. Raises NoLetters."""
    if not letters:
        raise NoLetters("no letter was approved yet, so there is nothing to measure")
    found = [(each, survival(each.proposed, each.sent)) for each in letters]
    weeks: defaultdict[date, list[Survival]] = defaultdict(list)
    kinds: defaultdict[str, list[Survival]] = defaultdict(list)
    for each, kept in found:
        kinds[each.kind].append(kept)
        if each.at:
            weeks[_monday(each.at.astimezone(zone).date())].append(kept)
    return Drafted(
        _kept("all", [kept for _, kept in found]),
        [_kept(f"{week:%Y-%m-%d}", weeks[week]) for week in sorted(weeks)],
        [_kept(kind, kinds[kind]) for kind in sorted(kinds)],
    )


def read(path: Path) -> list[ApprovedLetter]:
    """The letters of a file, one JSON object a line: `proposed` and `sent`, and `at` and `kind` if they are known.
    Raises NoLetters."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise NoLetters(f"{path} can't be read ({error}): give a file of JSON lines") from None
    return [_read(f"line {number} of {path}", line) for number, line in enumerate(lines, 1) if line.strip()]


def _read(where: str, line: str) -> ApprovedLetter:
    try:
        given: Any = json.loads(line)
        at = datetime.fromisoformat(given["at"]) if given.get("at") else None
        return ApprovedLetter(str(given.get("kind") or "reply"), at, _text(given["proposed"]), _text(given["sent"]))
    except (ValueError, TypeError, KeyError, AttributeError):
        raise NoLetters(f'{where} is no JSON object with the texts "proposed" and "sent"') from None


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _monday(day: date) -> date:
    return day - timedelta(days=day.weekday())


def _kept(name: str, kept: Sequence[Survival]) -> KeptLetters:
    share = sum(each.share or 0.0 for each in kept) / len(kept)
    distance = sum(each.distance for each in kept) / len(kept)
    unchanged = sum(not each.distance for each in kept)
    of = len(kept)
    return KeptLetters(name, of, unchanged, share, _around(share, of), distance, _around(distance, of))


_HALF: Final = math.log(2 / RISK) / 2


def _around(mean: float, of: int) -> tuple[float, float]:
    """For figures from 0 to 1 of whatever distribution (Hoeffding, JASA 58, 1963, theorem 2); wider than need be."""
    reach = math.sqrt(_HALF / of)
    return max(0.0, mean - reach), min(1.0, mean + reach)
