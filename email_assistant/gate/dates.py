"""Dates and times as people write them."""

import re
from collections.abc import Iterator
from datetime import date, timedelta
from typing import Final, NamedTuple

from email_assistant.gate.names import folded
from email_assistant.gate.vocabulary import MONTHS

_ORDINAL: Final = r"(?:st|nd|rd|th|er|o|\.)?"
_TO: Final = r"\s*(?:-|/|&|,|to|and|or|bis|und|oder|au|et|ou|al|y|a)\s*(?:the |den |dem |le |el )?"
_OF: Final = r"\s*(?:of |de |d'|-)?"
_YEAR: Final = r"(?:[,-]?\s*(?:de |del )?(\d{4})(?![\d.,]\d))?"
_WORD: Final = r"([^\W\d_]{3,10})(?![^\W\d_])\.?"

_ISO: Final = re.compile(r"(\d{4})([-/.])(\d{1,2})\2(\d{1,2})(?!\d)")
_NUMERIC: Final = re.compile(r"(\d{1,2})([-/.])(\d{1,2})\2(\d{4}|\d{2})(?![\d]|[-/.]\d)")
_SHORT: Final = re.compile(r"(\d{1,2})\.(\d{1,2})\.(?!\d)|(\d{1,2})/(\d{1,2})(?![\d/])")
_BEFORE_SHORT: Final = re.compile(
    r"(?:\b(?:on|by|until|till|from|to|since|before|after|am|bis|vom|zum|ab|den|dem|le|du|au|el|del|al)|day,?|tag,?|di,?)"
    r"\s+(?:the )?$",
    re.IGNORECASE,
)
_DAY_MONTH: Final = re.compile(rf"(\d{{1,2}}){_ORDINAL}{_OF}{_WORD}{_YEAR}", re.IGNORECASE)
_DAYS_MONTH: Final = re.compile(rf"(\d{{1,2}}){_ORDINAL}{_TO}(?:\d{{1,2}}){_ORDINAL}{_OF}{_WORD}{_YEAR}", re.IGNORECASE)
_MONTH_BEFORE: Final = re.compile(r"([^\W\d_]{3,10})\.?\s+(?:the )?$")
_MONTH_DAY: Final = re.compile(
    r"(\d{1,2})(?:st|nd|rd|th)?(?![\d:]|[.,]\d\d\b(?!\d\d))(?:,?\s+(\d{4})(?!\d))?", re.IGNORECASE
)
_MONTH_DAYS: Final = re.compile(r"\d{1,2}(?:st|nd|rd|th)?(?:\s*-\s*|\s+(?:to|and|or|&)\s+)", re.IGNORECASE)
_MONTH_YEAR: Final = re.compile(r"(\d{4})(?!\d)")
_THE: Final = re.compile(r"\bthe\s+$", re.IGNORECASE)
_NTH: Final = re.compile(
    r"(\d{1,2})(?:st|nd|rd|th)(?=[.,;:!?)]|\s+(?:at|in|and|or|is|works|instead|to|if|would|from|with|as)\b|\s*$)",
    re.IGNORECASE,
)

_AFTERNOON: Final = (
    r"(?:in the (?:afternoon|evening)|nachmittags|abends|de la tarde|de la noche|de l'apr[eè]s-midi|du soir)"
)
_MORNING_TOLD: Final = r"(?:in the morning|morgens|vormittags|du matin|de la mañana)"
_HALF: Final = rf"(?P<later>pm\b|p\.\s?m\b\.?|{_AFTERNOON})|(?P<early>am\b|a\.\s?m\b\.?|{_MORNING_TOLD})"
_TIME: Final = r"(?P<hour>\d{1,2})(?:(?P<mark>[:.])(?P<minutes>\d\d))?"
_CLOCK: Final = re.compile(
    rf"{_TIME}(?::\d\d)?(?!\d)(?:\s*(?:(?P<uhr>uhr|o'clock)|(?P<hours>heures?|horas?|hrs?|h))\b)?\s*(?:{_HALF})?",
    re.IGNORECASE,
)
_H: Final = re.compile(r"(?P<hour>\d{1,2})\s?h\s?(?P<minutes>\d\d)?(?!\w)", re.IGNORECASE)
_RANGE: Final = re.compile(
    rf"{_TIME}\s*(?:-|to|and|or|bis|und|oder|à|et|ou|a las|a|y)\s*(?=(?P<next>\d{{1,2}})(?:[:.]\d\d)?\s*"
    rf"(?:{_HALF}|uhr\b|h\b|o'clock))",
    re.IGNORECASE,
)
_HOUR_TOLD: Final = re.compile(rf"{_HALF}|uhr|h\b", re.IGNORECASE)
_MORNING: Final = 7
"""From which on 7h is no duration."""
_AT: Final = re.compile(r"(?:\b(?:at|um|gegen|a las|a la|sobre las|à|vers|dès)|@)\s+$", re.IGNORECASE)
_BETWEEN: Final = re.compile(
    r"(?:free|available|open|time|call|meet|frei|zeit|libre|disponible|disponibles|dispo)\b[^.!?\n]{0,30}"
    r"\b(?:from|between|after|before|until|till|by|to|and|or|ab|bis|von|vor|nach|zwischen|und|entre|de|desde|et|y|a|à"
    r"|avant|après|antes de las|-)\s+(?:las )?$",
    re.IGNORECASE,
)
_ENDS: Final = re.compile(
    r"(?=[.,;:!?)\n-](?!\d)|\s*$|\s+(?:on|today|tomorrow|if|works?|would|suits?|and|or|to|is|then|this|next|in|for|with|as"
    r"|und|oder|bis|morgen|heute|am|wenn|passt|et|ou|si|demain|y|o|el|mañana"
    r"|(?:mon|tues|wednes|thurs|fri|satur|sun)day)\b)",
    re.IGNORECASE,
)


class Found(NamedTuple):
    start: int
    end: int
    key: str


def date_at(text: str, at: int) -> Found | None:
    """The date whose first digit stands there."""
    before = text[max(0, at - 16) : at]
    return _numeric(text, at, before) or _with_month(text, at, before) or _nth(text, at, before)


def time_at(text: str, at: int) -> Found | None:
    """The time of day whose first digit stands there. Its hour may be of the second half of the day as well, unless
    the text says which: `later` gives the other."""
    if found := _RANGE.match(text, at):
        # 2 to 4 pm, but 11 to 2 pm.
        is_later = found["later"] and int(found["hour"]) < 12 and int(found["hour"]) <= int(found["next"]) % 12
        return _clock(at, found.end("minutes" if found["minutes"] else "hour"), found, 12 if is_later else 0)
    if found := _H.match(text, at):
        is_morning_on = _MORNING <= int(found["hour"]) < 24
        is_told = found["minutes"] or is_morning_on or _is_after_at(text, at)
        return _clock(at, found.end(), found) if is_told else None
    found = _CLOCK.match(text, at)
    if found is None:
        return None
    is_told = found["uhr"] or found["later"] or found["early"] or (found["minutes"] and found["mark"] == ":")
    if (
        not is_told
        and not (found["hours"] and (found["minutes"] or _is_after_at(text, at)))
        and not _stands_alone(text, at, found.end("hour"))
    ):
        return None
    hour = int(found["hour"])
    more = 12 if found["later"] and hour < 12 else -12 if found["early"] and hour == 12 else 0
    return _clock(at, at + len(found[0].rstrip()), found, more)


def _is_after_at(text: str, at: int) -> bool:
    return _AT.search(text[max(0, at - 12) : at]) is not None


def later(key: str, text: str) -> str | None:
    """The hour that a time may mean as well: 3:00 is 15:00 too; 03:00, 3 am and 15:00 are not."""
    hour = int(key[:2])
    if not 1 <= hour < 12 or text[0] == "0" or _HOUR_TOLD.search(text):
        return None
    return f"{hour + 12}{key[2:]}"


def dates_near(key: str, day: date | None) -> Iterator[date]:
    """The days that a date's key may mean in a text of that day: of one without its year the nearest, of a weekday the
    next and the last one."""
    for reading in key.split("|"):
        if len(reading) == 10:
            yield date.fromisoformat(reading)
        elif day is None:
            continue
        elif reading.startswith("day "):
            ahead = (int(reading[4:]) - day.isoweekday()) % 7
            yield day + timedelta(days=ahead)
            yield day + timedelta(days=ahead + 7)
            yield day + timedelta(days=ahead - 7)
        elif len(reading) == 5:
            years = (_day(day.year + more, int(reading[:2]), int(reading[3:])) for more in (0, 1, -1))
            yield from sorted((near for near in years if near), key=lambda near: abs((near - day).days))[:1]
        elif reading.startswith("-"):
            months = (day.replace(day=1) + timedelta(days=31 * more) for more in (0, 1))
            yield from (near for month in months if (near := _day(month.year, month.month, int(reading[1:]))))


def month_of(word: str) -> int | None:
    return MONTHS.get(folded(word))


def _numeric(text: str, at: int, before: str) -> Found | None:
    if found := _ISO.match(text, at):
        day = _day(int(found[1]), int(found[3]), int(found[4]))
        return Found(at, found.end(), day.isoformat()) if day else None
    if found := _NUMERIC.match(text, at):
        one, other, year = int(found[1]), int(found[3]), int(found[4])
        year += 2000 if year < 100 else 0
        days = [_day(year, other, one)] + ([] if found[2] == "." else [_day(year, one, other)])
        keys = sorted({day.isoformat() for day in days if day})
        return Found(at, found.end(), "|".join(keys)) if keys else None
    found = _SHORT.match(text, at)
    if found and found[1] and _day(2000, int(found[2]), int(found[1])):
        return Found(at, found.end(), f"{int(found[2]):02}-{int(found[1]):02}")
    if found and found[3] and _BEFORE_SHORT.search(before):
        pairs = ((int(found[3]), int(found[4])), (int(found[4]), int(found[3])))
        keys = sorted({f"{month:02}-{day:02}" for month, day in pairs if _day(2000, month, day)})
        return Found(at, found.end(), "|".join(keys)) if keys else None
    return None


def _with_month(text: str, at: int, before: str) -> Found | None:
    named = _MONTH_BEFORE.search(before)
    month = month_of(named[1]) if named else None
    if named and month:
        start = at - len(before) + named.start()
        if found := _MONTH_YEAR.match(text, at):
            return Found(start, found.end(), f"{found[1]}-{month:02}")
        if found := _MONTH_DAY.match(text, at):
            return _on(start, found.end(), found[2], month, found[1])
    elif (several := _MONTH_DAYS.search(before)) and several.end() == len(before):
        first = _MONTH_BEFORE.search(text[max(0, at - 30) : at - len(before) + several.start()])
        month = month_of(first[1]) if first else None
        if month and (found := _MONTH_DAY.match(text, at)):
            return _on(at, found.end(), found[2], month, found[1])
    for pattern in (_DAY_MONTH, _DAYS_MONTH):
        if (found := pattern.match(text, at)) and (month := month_of(found[2])):
            # A last dot ends the sentence, as likely as a month.
            end = found.end() - found[0].endswith(".") if pattern is _DAY_MONTH else found.end(1)
            return _on(at, end, found[3], month, found[1])
    return None


def _nth(text: str, at: int, before: str) -> Found | None:
    found = _NTH.match(text, at)
    is_day = found and 1 <= int(found[1]) <= 31 and _THE.search(before)
    return Found(at, found.end(), f"-{int(found[1]):02}") if found and is_day else None


def _on(start: int, end: int, year: str | None, month: int, day: str) -> Found | None:
    if year:
        whole = _day(int(year), month, int(day))
        return Found(start, end, whole.isoformat()) if whole else None
    return Found(start, end, f"{month:02}-{int(day):02}") if _day(2000, month, int(day)) else None


def _stands_alone(text: str, at: int, end: int) -> bool:
    """As the 3 of "I am free at 3"."""
    before = text[max(0, at - 60) : at]
    return bool((_AT.search(before[-12:]) or _BETWEEN.search(before)) and _ENDS.match(text, end))


def _clock(start: int, end: int, found: re.Match[str], more: int = 0) -> Found | None:
    hour, minute = int(found["hour"]) + more, int(found["minutes"] or 0)
    return Found(start, end, f"{hour:02}:{minute:02}") if 0 <= hour < 24 and minute < 60 else None


def _day(year: int, month: int, day: int) -> date | None:
    try:
        return date(year, month, day)
    except ValueError:
        return None
