"""What the model understands and says, by `wording.yaml`; what of mails it knows, by `answers.yaml`; and days and times
of day in what people write, as minutes since midnight."""

import calendar
import re
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Any

import yaml

_WEEKDAYS = [name.lower() for name in calendar.day_name]
_ANY_WEEKDAY = "|".join(_WEEKDAYS)
_MONTH = "|".join([*calendar.month_name[1:], *calendar.month_abbr[1:]])
_DAY = re.compile(
    rf"\b(?:(?:(?:{_ANY_WEEKDAY}) )?(?P<day>\d{{1,2}}) (?P<month>{_MONTH})(?: (?P<year>(?:19|20)\d\d))?"
    rf"|(?P<weekday>{_ANY_WEEKDAY})|(?P<tomorrow>tomorrow)|today)\b",
    re.IGNORECASE,
)
_CLOCK = re.compile(
    r"\b(?P<lead>(?:at|to|it|be) )?(?<![\d:.])(?P<hour>\d{1,2})(?::(?P<minute>\d\d))?(?: ?(?P<half>[ap])m)?\b"
    r"(?![:.]\d| ?%)",
    re.IGNORECASE,
)
_LONG_PAST = timedelta(days=60)


def named_days(text: str, base: date) -> list[date]:
    """The days that a text names, seen from `base`, in order."""
    return [day for found in _DAY.finditer(text) if (day := _day(found, base))]


def clocks(text: str) -> list[int]:
    """The times of day that a text names, in order; a number that is all of it is one."""
    found = _CLOCK.finditer(f"at {text}" if text.isdecimal() else _DAY.sub(" ", text))
    return [minute for each in found if (minute := _minute(each)) is not None]


def without_times(text: str) -> str:
    """A text without its days and times of day."""
    text = _CLOCK.sub(lambda found: found[0] if _minute(found) is None else " ", _DAY.sub(" ", text))
    return " ".join(text.split())


def at(day: date, minute: int) -> datetime:
    return datetime.combine(day, time()) + timedelta(minutes=minute)


def spoken(moment: datetime | date) -> str:
    """As people write it: "Thursday 7 May at 14:00"."""
    clock = f" at {moment:%H:%M}" if isinstance(moment, datetime) else ""
    return f"{moment:%A} {moment.day} {moment:%B}{clock}"


def _day(found: re.Match[str], base: date) -> date | None:
    try:
        if found["weekday"]:
            return base + timedelta(days=(_WEEKDAYS.index(found["weekday"].lower()) - base.weekday() - 1) % 7 + 1)
        if not found["day"]:
            return base + timedelta(days=1 if found["tomorrow"] else 0)
        month = list(calendar.month_abbr).index(found["month"][:3].capitalize())
        day = date(int(found["year"] or base.year), month, int(found["day"]))
        # without a year, a day that has long passed is meant for the next one
        return day.replace(year=day.year + 1) if not found["year"] and base - day > _LONG_PAST else day
    except (ValueError, OverflowError):  # there is no such day
        return None


def _minute(found: re.Match[str]) -> int | None:
    """The time of day that is found; None: it is a mere number."""
    hour, minute = int(found["hour"]), int(found["minute"] or 0)
    if hour > 23 or minute > 59 or not (found["lead"] or found["minute"] or found["half"]):
        return None
    if found["half"]:
        hour = hour % 12 + (12 if found["half"].lower() == "p" else 0)
    elif not found["minute"] and 1 <= hour <= 7:
        hour += 12  # "at 3" is in the afternoon
    return hour * 60 + minute


def _read(name: str) -> Any:
    return yaml.safe_load(Path(__file__).with_name(name).read_text())


def _pattern(wording: str | list[str]) -> re.Pattern[str]:
    expression = wording if isinstance(wording, str) else rf"\b(?:{'|'.join(wording)})\b"
    return re.compile(expression, re.IGNORECASE | re.DOTALL)


_FILE: dict[str, Any] = _read("wording.yaml")
_ANSWERS: list[dict[str, str]] = _read("answers.yaml")
ABILITIES: str = _FILE["abilities"]
SELF_DESCRIPTION = ABILITIES.partition(" It understands")[0]
SAYS: str = _FILE["says"]
PHRASES: dict[str, str] = _FILE["phrases"]
PATTERNS = {name: _pattern(wording) for name, wording in _FILE["patterns"].items()}
ADDRESS = re.compile(r"(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+")  # as people write it in a sentence


def by_rule(rules: str, text: str) -> dict[str, str]:
    """What the first of the file's `rules` says whose expression the text fits; empty: none does."""
    return _first_fitting(_FILE[rules], text)


def canned(sender: str, text: str) -> dict[str, str]:
    """The file's answer to a mail; empty: it has none. What it leaves open stands as {meeting} and {answer}."""
    return _first_fitting([each for each in _ANSWERS if each["sender"] == sender], " ".join(text.split()))


def _first_fitting(rules: list[dict[str, str]], text: str) -> dict[str, str]:
    """With what the expression found in place of `{…}`."""
    for rule in rules:
        if found := re.search(rule["when"], text, re.IGNORECASE | re.MULTILINE):
            facts = {"meeting": "{meeting}", "answer": "{answer}", **found.groupdict()}
            return {name: said.format(**facts) for name, said in rule.items() if name != "when"}
    return {}


def shorten(text: str, limit: int) -> str:
    """At most `limit` characters, cut between words."""
    text = " ".join(text.split())
    return text if len(text) <= limit else text[:limit].rsplit(" ", 1)[0] + " …"


def sentence(text: str) -> str:
    """With a capital at its start and a stop at its end."""
    text = " ".join(text.split())
    stop = "" if text.endswith((".", "!", "?", "…")) else "."
    return f"{text[:1].upper()}{text[1:]}{stop}"
