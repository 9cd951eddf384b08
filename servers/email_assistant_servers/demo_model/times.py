"""Days, clock times and durations in a text. Clock times are minutes since midnight."""

import calendar
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta

from .wording import patterns

_SAID = patterns("times")
_WEEKDAYS = [name.lower() for name in calendar.day_name]
_MONTHS = [name.lower() for name in calendar.month_abbr]
_TIME_WORDS = tuple(
    re.compile(rf"(?:\b(?:at|on|from|to|until|for|by|in|this|the)\s+)*(?:{pattern.pattern})", re.IGNORECASE)
    for name, pattern in _SAID.items()
    if name not in ("bare_hour", "between")
)


@dataclass(frozen=True)
class Proposal:
    """A day that a text names, with the clock time that belongs to it, if any."""

    day: date
    start: int | None = None

    def __str__(self) -> str:
        return spoken(self.day) if self.start is None else f"{spoken(self.day)} at {clock_face(self.start)}"


def spoken(day: date) -> str:
    """A day as people write it: "Thursday 7 May"."""
    return f"{day:%A} {day.day} {day:%B}"


def clock_face(minute: int) -> str:
    return f"{minute // 60:02}:{minute % 60:02}"


def at_minute(day: date, minute: int) -> datetime:
    return datetime.combine(day, time(minute // 60, minute % 60))


def named_dates(text: str, base: date | None) -> list[date]:
    """The calendar dates in a text; without `base`, only those with a year."""
    return [day for _, _, day in _dates(text, base)]


def proposals(text: str, base: date) -> list[Proposal]:
    """The days that a text names, seen from `base`, in order, each with its clock time.

    A day takes the first clock time behind it and before the next day; a text with a single clock time means it for
    every day."""
    text = _one_meridiem(text)
    days = _days(text, base)
    clocks = [(match.start(), minute) for match, minute in _clocks(text)]
    single = clocks[0][1] if len(clocks) == 1 else None
    found: dict[date, Proposal] = {}
    for (start, day), end in zip(days, [*(start for start, _ in days[1:]), len(text)], strict=False):
        minute = next((minute for position, minute in clocks if start < position < end), single)
        if day not in found or found[day].start is None:
            found[day] = Proposal(day, minute)
    return list(found.values())


def names_day(text: str) -> bool:
    """Whether a text names a day."""
    return bool(proposals(text, date(2000, 1, 1)))


def first_clock(text: str) -> int | None:
    """The first clock time in a text."""
    return next((minute for _, minute in _clocks(text)), None)


def meant_clock(text: str) -> int | None:
    """The first clock time in a text, or else the hour that it ends with: "4", "make it 10"."""
    if (clock := first_clock(text)) is not None:
        return clock
    hour = _SAID["bare_hour"].search(text.strip())
    return first_clock(f"at {hour[1]}") if hour else None


def without_times(text: str) -> str:
    """A text without its days, clock times and durations, and the small words that lead to them."""
    for pattern in _TIME_WORDS:
        text = pattern.sub(" ", text)
    return " ".join(text.split())


def names_next_week(text: str) -> bool:
    """Whether a text speaks of next week as a whole."""
    return _SAID["next_week"].search(text) is not None


def next_monday(today: date) -> date:
    return today + timedelta(days=7 - today.weekday())


def duration(text: str) -> int | None:
    """How many minutes a text asks for: "45 minutes", "half an hour", "14:00-15:00"."""
    if minutes := _SAID["minutes"].search(text):
        return int(minutes[1])
    if _SAID["half_hour"].search(text):
        return 30
    if hours := _SAID["hours"].search(text):
        return 60 * (int(hours[1]) if hours[1].isdigit() else 1)
    text = _one_meridiem(text)
    for (one, start), (two, end) in itertools.pairwise(_clocks(text)):
        if start < end and _SAID["between"].fullmatch(text[one.end() : two.start()]):
            return end - start
    return None


def _dates(text: str, base: date | None) -> Iterator[tuple[int, int, date]]:
    for match in _SAID["date"].finditer(text):
        if day := _read_date(match, base):
            yield match.start(), match.end(), day


def _read_date(match: re.Match[str], base: date | None) -> date | None:
    try:
        if match["iso"]:
            return date.fromisoformat(match["iso"])
        if match["dmy"]:
            day, month, year = (int(part) for part in re.split(r"[./-]", match["dmy"]))
            return date(year, month, day)
        month, day = _MONTHS.index((match["m1"] or match["m2"])[:3].lower()), int(match["d1"] or match["d2"])
        if given := match["y1"] or match["y2"]:
            return date(int(given), month, day)
        if base is None:
            return None
        this_year = date(base.year, month, day)
        # without a year, a day that has long passed is meant for the next one
        return this_year if this_year > base - timedelta(days=60) else date(base.year + 1, month, day)
    except ValueError:
        return None


def _days(text: str, base: date) -> list[tuple[int, date]]:
    dates = list(_dates(text, base))
    found = [(start, day) for start, _, day in dates]
    for word in _SAID["day_word"].finditer(text):
        # "Thursday 14 May", "14 May (Thursday)": the date says it all
        if not any(-3 <= start - word.end() <= 8 or 0 <= word.start() - end <= 3 for start, end, _ in dates):
            found.append((word.start(), _read_day_word(word, base)))
    return sorted(found)


def _read_day_word(word: re.Match[str], base: date) -> date:
    if not word["weekday"]:
        return base + timedelta(days=1 if word["tomorrow"] else 0)
    weekday = _WEEKDAYS.index(word["weekday"].lower())
    if word["next"]:
        return next_monday(base) + timedelta(days=weekday)
    return base + timedelta(days=(weekday - base.weekday() - 1) % 7 + 1)


def _clocks(text: str) -> Iterator[tuple[re.Match[str], int]]:
    for match in _SAID["clock"].finditer(_one_meridiem(text)):
        if 0 <= (minute := _read_clock(match)) < 24 * 60:
            yield match, minute


def _one_meridiem(text: str) -> str:
    """Of "2-3pm" it makes "2pm-3pm", of "11-1pm" "11am-1pm"."""
    return _SAID["meridiem_range"].sub(_with_both_halves, text)


def _with_both_halves(found: re.Match[str]) -> str:
    half = found["half_day"].lower()
    crosses = int(found["from"]) % 12 > int(found["to"]) % 12
    first = {"a": "p", "p": "a"}[half] if crosses else half
    return f"{found['from']}{found['minutes'] or ''}{first}m-{found['to']}{found['to_minutes'] or ''}{half}m"


def _read_clock(match: re.Match[str]) -> int:
    if match["noon"]:
        return 12 * 60
    if match["h12"]:
        hour = int(match["h12"]) % 12 + (12 if match["half"].lower() == "p" else 0)
        return hour * 60 + int(match["m12"] or 0)
    if match["bare"]:
        hour = int(match["bare"])
        return (hour + 12 if 1 <= hour <= 7 else hour) * 60  # "at 3" is in the afternoon
    return int(match["h"] or match["whole"]) * 60 + int(match["m"] or 0)
