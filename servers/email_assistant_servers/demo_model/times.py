"""Days, clock times and durations in English, German and French text. Clock times are minutes since midnight."""

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta

_MONTHS = {
    name: number
    for number, names in enumerate(
        (
            "january jan januar janvier",
            "february feb februar février fevrier",
            "march mar märz mars",
            "april apr avril",
            "may mai",
            "june jun juni juin",
            "july jul juli juillet",
            "august aug août aout",
            "september sep sept septembre",
            "october oct oktober okt octobre",
            "november nov novembre",
            "december dec dezember dez décembre",
        ),
        start=1,
    )
    for name in names.split()
}
_WEEKDAYS = {
    name: number
    for number, names in enumerate(
        (
            "monday montag lundi",
            "tuesday dienstag mardi",
            "wednesday mittwoch mercredi",
            "thursday donnerstag jeudi",
            "friday freitag vendredi",
            "saturday samstag samedi",
            "sunday sonntag dimanche",
        )
    )
    for name in names.split()
}
_RELATIVE = {
    **dict.fromkeys(("today", "tonight", "heute", "aujourd'hui"), 0),
    **dict.fromkeys(("tomorrow", "morgen", "demain"), 1),
    **dict.fromkeys(("übermorgen", "après-demain"), 2),
}
_MONTH = "|".join(sorted(_MONTHS, key=len, reverse=True))
_WEEKDAY = "|".join(_WEEKDAYS)
_DATE = re.compile(
    r"(?P<iso>\b\d{4}-\d\d-\d\d\b)"
    r"|(?P<dmy>\b\d{1,2}[./-]\d{1,2}[./-]\d{4}\b)"
    rf"|\b(?P<d1>\d{{1,2}})(?:st|nd|rd|th|er|\.)?\s+(?:of\s+)?(?P<m1>{_MONTH})\b\.?,?(?:\s+(?P<y1>\d{{4}}))?"
    rf"|\b(?P<m2>{_MONTH})\.?\s+(?P<d2>\d{{1,2}})(?:st|nd|rd|th)?\b(?![:.]\d)(?:,?\s+(?P<y2>\d{{4}}))?",
    re.IGNORECASE,
)
_DAY_WORD = re.compile(
    rf"(?P<next>\b(?:next|nächste[nrs]?|kommende[nrs]?)\s+)?\b(?P<weekday>{_WEEKDAY})s?\b(?P<after>\s+prochain)?"
    r"|(?<!guten )(?<!am )(?<!good )(?P<relative>\b(?:today|tonight|tomorrow|heute|morgen|übermorgen|aujourd'hui"
    r"|demain|après-demain)\b)",
    re.IGNORECASE,
)
_NEXT_WEEK = re.compile(r"\b(?:next week|(?:nächste|kommende)n? Woche|la semaine prochaine)\b", re.IGNORECASE)
_CLOCK = re.compile(
    r"\b(?P<h12>\d{1,2})(?:[:.](?P<m12>\d\d))?\s*(?P<half>[ap])\.?m\b"
    r"|\b(?P<h>\d{1,2})(?::|\s?h)(?P<m>\d\d)\b"
    r"|\b(?P<whole>\d{1,2})\s*(?:Uhr\b|h\b|heures?\b|o'clock\b)"
    r"|(?P<noon>\b(?:noon|midday|midi)\b)"
    r"|\b(?:at|um|à) (?P<bare>\d{1,2})\b(?!\s?[:.%]\d|\s?%)",
    re.IGNORECASE,
)
_MERIDIEM_RANGE = re.compile(
    r"\b(?P<from>\d{1,2})(?P<minutes>[:.]\d\d)?\s*(?:[-–]|to|until)\s*"
    r"(?P<to>\d{1,2})(?P<to_minutes>[:.]\d\d)?\s*(?P<half_day>[ap])m\b",
    re.IGNORECASE,
)
_BARE_HOUR = re.compile(r"(?:^|\b(?:to|be|it|auf)\s)\s*(\d{1,2})\s*[.!]?$", re.IGNORECASE)
_RANGE_BETWEEN = re.compile(r"\s*(?:[-–—]|to|until|bis|à)\s*", re.IGNORECASE)
_HALF_HOUR = re.compile(r"\bhalf an hour\b|\bhalbe Stunde\b|\bdemi-heure\b", re.IGNORECASE)
_HOURS = re.compile(r"\b(an?|one|eine?|une|\d)[ -](?:hours?|Stunden?|heures?)\b(?! et demie)", re.IGNORECASE)
_MINUTES = re.compile(r"\b(\d{2,3})[ -]?(?:minutes?|mins?|Minuten)\b", re.IGNORECASE)

_PART_OF_DAY = re.compile(r"\b(?:morning|afternoon|evening|vormittags?|nachmittags?|abends?|après-midi)\b")
_LEADING_WORDS = r"(?:\b(?:at|on|from|to|until|for|by|in|this|the|um|am|von|bis|für|à|le|de|pour)\s+)*"
_TIME_WORDS = tuple(
    re.compile(_LEADING_WORDS + f"(?:{pattern.pattern})", re.IGNORECASE)
    for pattern in (_DATE, _NEXT_WEEK, _DAY_WORD, _HALF_HOUR, _HOURS, _MINUTES, _MERIDIEM_RANGE, _CLOCK, _PART_OF_DAY)
)


@dataclass(frozen=True)
class Proposal:
    """A day that a text names, with the clock time that belongs to it, if any."""

    day: date
    start: int | None


def named_dates(text: str, base: date | None) -> list[date]:
    """The calendar dates in a text; without `base`, only those with a year."""
    return [day for _, _, day in _dates(text, base)]


def proposals(text: str, base: date) -> list[Proposal]:
    """The days that a text names, seen from `base`, in order, each with its clock time.

    A day takes the first clock time behind it and before the next day; a text with a single clock time means it for
    every day.
    """
    text = _one_meridiem(text)
    days = _days(text, base)
    clocks = [(match.start(), minute) for match, minute in _clocks(text)]
    ends = [start for start, _ in days[1:]] + [len(text)]
    found: dict[date, Proposal] = {}
    for (start, day), end in zip(days, ends, strict=False):
        own = [minute for position, minute in clocks if start < position < end]
        single = clocks[0][1] if len(clocks) == 1 else None
        minute = own[0] if own else single
        if day not in found or found[day].start is None:
            found[day] = Proposal(day, minute)
    return list(found.values())


def first_clock(text: str) -> int | None:
    """The first clock time in a text."""
    return next((minute for _, minute in _clocks(text)), None)


def meant_clock(text: str) -> int | None:
    """The first clock time in a text, or else the hour that it ends with: "4", "make it 10"."""
    if (clock := first_clock(text)) is not None:
        return clock
    hour = _BARE_HOUR.search(text.strip())
    return first_clock(f"at {hour[1]}") if hour else None


def without_times(text: str) -> str:
    """A text without its days, clock times and durations, and the small words that lead to them."""
    for pattern in _TIME_WORDS:
        text = pattern.sub(" ", text)
    return " ".join(text.split())


def names_next_week(text: str) -> bool:
    """Whether a text speaks of next week as a whole."""
    return _NEXT_WEEK.search(text) is not None


def duration(text: str) -> int | None:
    """How many minutes a text asks for: "45 minutes", "half an hour", "14:00-15:00"."""
    if minutes := _MINUTES.search(text):
        return int(minutes[1])
    if _HALF_HOUR.search(text):
        return 30
    if hours := _HOURS.search(text):
        return 60 * (int(hours[1]) if hours[1].isdigit() else 1)
    text = _one_meridiem(text)
    clocks = list(_clocks(text))
    for (one, start), (two, end) in itertools.pairwise(clocks):
        if start < end and _RANGE_BETWEEN.fullmatch(text[one.end() : two.start()]):
            return end - start
    return None


def _dates(text: str, base: date | None) -> Iterator[tuple[int, int, date]]:
    for match in _DATE.finditer(text):
        day = _read_date(match, base)
        if day is not None:
            yield match.start(), match.end(), day


def _read_date(match: re.Match[str], base: date | None) -> date | None:
    try:
        if match["iso"]:
            return date.fromisoformat(match["iso"])
        if match["dmy"]:
            day, month, year = (int(part) for part in re.split(r"[./-]", match["dmy"]))
            return date(year, month, day)
        month = _MONTHS[(match["m1"] or match["m2"]).lower()]
        day = int(match["d1"] or match["d2"])
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
    for word in _DAY_WORD.finditer(text):
        # "Thursday 14 May", "14 May (Thursday)": the date says it all
        beside_date = any(-3 <= start - word.end() <= 8 or 0 <= word.start() - end <= 3 for start, end, _ in dates)
        if not beside_date:
            found.append((word.start(), _read_day_word(word, base)))
    return sorted(found)


def _read_day_word(word: re.Match[str], base: date) -> date:
    if word["relative"]:
        return base + timedelta(days=_RELATIVE[word["relative"].lower()])
    weekday = _WEEKDAYS[word["weekday"].lower()]
    if word["next"] or word["after"]:
        next_monday = base + timedelta(days=7 - base.weekday())
        return next_monday + timedelta(days=weekday)
    return base + timedelta(days=(weekday - base.weekday() - 1) % 7 + 1)


def _clocks(text: str) -> Iterator[tuple[re.Match[str], int]]:
    for match in _CLOCK.finditer(_one_meridiem(text)):
        minute = _read_clock(match)
        if 0 <= minute < 24 * 60:
            yield match, minute


def _one_meridiem(text: str) -> str:
    return _MERIDIEM_RANGE.sub(_with_both_halves, text)


def _with_both_halves(found: re.Match[str]) -> str:
    """ "2-3pm" is "2pm-3pm", "11-1pm" is "11am-1pm"."""
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
