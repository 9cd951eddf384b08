"""The times of day that a letter speaks of, and whether the calendar still has them free. They are read here alone."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from functools import cached_property
from itertools import pairwise
from typing import Final
from zoneinfo import ZoneInfo

from email_assistant.db.pool import Pool, fetched
from email_assistant.gate.dates import dates_near, later
from email_assistant.gate.names import folded, plain
from email_assistant.gate.spans import Span, scan
from email_assistant.google.calendar import Event
from email_assistant.tools.check_calendar import is_itself, tell_once, told
from email_assistant.tools.spec import Call

_END: Final = r"(?=\s*(?:[.,;:!?)\n]|$)|\s+(?:{then})\b)"
_HALF_A_DAY: Final = 12 * 60
_FREE_OF_A_DAY: Final = re.compile(r"^\w+ (\d\d)-(\d\d)-(\d{4}) \(.*\)\n(?:.*\n)*?Free: (.*)$", re.MULTILINE)
_RANGE: Final = re.compile(r"(\d\d:\d\d)-(\d\d:\d\d)")
_APART: Final = 5  # letters between the two times of "from 2 to 4"
_MOST_DAYS: Final = 3
_A_MOMENT: Final = timedelta(minutes=1)
Times = tuple[time, time]


@dataclass(frozen=True)
class Language:
    hours: str
    """Their words from one o'clock on, without accents; several of one hour are joined by a slash."""
    told: Mapping[str, int]
    """How a time is told by its hour, `{h}`, and how many minutes off that it is; `{end}`: nothing is counted by it."""
    then: str = "-"
    """Words that may follow where nothing else says that it is a time."""

    @cached_property
    def numbers(self) -> Mapping[str, int]:
        return {word: hour for hour, words in enumerate(self.hours.split(), 1) for word in words.split("/")}

    @cached_property
    def patterns(self) -> Sequence[tuple[re.Pattern[str], int]]:
        hour = "|".join([*sorted(self.numbers, key=len, reverse=True), r"(?<!\d)\d{1,2}"])
        end = _END.replace("{then}", "|".join(self.then.split()))
        return [
            (re.compile(told.replace("{h}", f"(?P<hour>{hour})").replace("{end}", end)), minutes)
            for told, minutes in self.told.items()
        ]


LANGUAGES: Final[Mapping[str, Language]] = {
    "en": Language(
        "one two three four five six seven eight nine ten eleven twelve",
        {
            r"\b(?:at|by|before|after|until|from) {h}{end}": 0,
            r"(?<!past )(?<!to )\b{h} o'clock\b": 0,
            r"\bhalf past {h}\b": 30,
            r"\bquarter past {h}\b": 15,
            r"\bquarter to {h}\b": -15,
        },
        "on or and if would works is suits today tomorrow in next this for with then to "
        "monday tuesday wednesday thursday friday saturday sunday",
    ),
    "de": Language(
        "eins/ein zwei drei vier funf sechs sieben acht neun zehn elf zwolf dreizehn vierzehn funfzehn sechzehn "
        "siebzehn achtzehn neunzehn zwanzig einundzwanzig zweiundzwanzig dreiundzwanzig",
        {
            r"\b(?:um|gegen|ab) {h}{end}": 0,
            r"(?<!halb )(?<!nach )(?<!vor )(?<!dreiviertel )\b{h} uhr\b(?! (?:funfzehn|dreissig|dreißig))": 0,
            r"\b{h} uhr (?:dreissig|dreißig)\b": 30,
            r"\bhalb {h}\b": -30,
            r"\bviertel nach {h}\b": 15,
            r"\b(?:viertel vor|dreiviertel) {h}\b": -15,
        },
        "am oder und wenn ware passt heute morgen ist bis",
    ),
    "fr": Language(
        "une deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze seize dix-sept dix-huit "
        "dix-neuf vingt vingt-et-une vingt-deux vingt-trois",
        {
            r"\b(?:a|vers|des) {h} heures?\b(?! (?:et|moins))": 0,
            r"\b{h} heures? et demie\b": 30,
            r"\b{h} heures? et quart\b": 15,
            r"\b{h} heures? moins le quart\b": -15,
        },
    ),
    "es": Language(
        "una dos tres cuatro cinco seis siete ocho nueve diez once doce",
        {
            r"\ba las? {h}{end}": 0,
            r"\blas? {h} y media\b": 30,
            r"\blas? {h} y cuarto\b": 15,
            r"\blas? {h} menos cuarto\b": -15,
        },
        "del de o el en si hoy manana",
    ),
    "zh": Language(
        "一 二/两/兩 三 四 五 六 七 八 九 十 十一 十二 十三 十四 十五 十六 十七 十八 十九 二十 二十一 二十二 二十三",
        {
            r"(?:上午|中午|下午|早上|晚上|今晚) ?{h}[点點时時](?![半\d一二三四五六七八九十])": 0,
            r"{h}[点點](?:钟|鐘|整)": 0,
            r"{h}[点點时時]半": 30,
            r"{h}[点點]一刻": 15,
            r"{h}[点點]三刻": 45,
        },
    ),
    "ja": Language(
        "一 二 三 四 五 六 七 八 九 十 十一 十二 十三 十四 十五 十六 十七 十八 十九 二十 二十一 二十二 二十三",
        {r"{h}時(?![間半\d一二三四五六七八九十])": 0, r"{h}時半": 30, r"{h}時(?:30|三十)分": 30},
    ),
}


def spoken_times(text: str) -> Iterator[time]:
    """Those that a text tells in words; one of the first half of the day is of the second half as well."""
    said = folded(plain(text).text)
    for language in LANGUAGES.values():
        for pattern, more in language.patterns:
            for found in pattern.finditer(said):
                hour = language.numbers.get(found["hour"]) or int(found["hour"])
                minutes = hour * 60 + more
                halves = [minutes, minutes + _HALF_A_DAY] if hour <= 12 else [minutes]
                yield from (time(at // 60, at % 60) for at in halves if 0 <= at < 2 * _HALF_A_DAY)


@dataclass(frozen=True, slots=True)
class OfferedTimes:
    pool: Pool

    async def check(self, call: Call, text: str) -> None:
        """Look again at the days of which the calendar told in this conversation. Raises ToolError: something stands
        now where the letter says that the person is free, and they do not know that yet; GoogleError."""
        zone = call.account.zone
        [row] = await fetched(
            self.pool,
            """select array(select answer from gate_calls g where g.thread_id = r.thread_id and g.server is null
                            and g.tool = 'check_calendar_tool' and g.answer is not null order by g.id) as told,
                      array(select external_id from effects e where e.thread_id = r.thread_id) as made
               from runs r where r.id = %s""",
            (call.run_id,),
        )
        taken = [
            f"{day:%A} {told(event, zone)}"
            for day, times in offered(text, free_days(row["told"]), datetime.now(zone).date()).items()
            for event in (await call.google.calendar.day(day, zone)).events
            if event.busy and event.id not in row["made"] and not is_itself(event, call.run["invitation"])
            if any(_meets(event, day, claimed, zone) for claimed in times)
        ]
        if taken:
            why = f"your calendar has changed since this was written, and what it offers is taken: {', '.join(taken)}"
            async with self.pool.connection() as conn:
                await tell_once(conn, call, why)


def free_days(answers: Sequence[str]) -> dict[date, list[Times]]:
    """What the calendar was last told to be free, by day."""
    return {
        date(int(year), int(month), int(day)): [(_clock(a), _clock(b)) for a, b in _RANGE.findall(free)]
        for answer in answers
        for day, month, year, free in _FREE_OF_A_DAY.findall(answer)
    }


def offered(text: str, free: Mapping[date, Sequence[Times]], today: date) -> dict[date, list[Times]]:
    """The times of a letter that were free, by day. One that names no day is about the one that was looked at."""
    found = scan(text, today)
    named = {day for span in found if span.kind == "date" for day in dates_near(span.key, today)}
    days = named & free.keys() if named else free.keys() if len(free) == 1 else set[date]()
    times = [*_times([span for span in found if span.kind == "time"]), *((at, at) for at in spoken_times(text))]
    claims = {day: [each for each in times if _was_free(each, free[day])] for day in sorted(days)}
    return {day: claimed for day, claimed in claims.items() if claimed}


def days_named(letter: str, mail: str, today: date) -> list[date]:
    """The days, from today on, of the times that a letter offers or declines; where it names no day, those of the mail
    that it answers. Empty if neither names a time."""
    own, theirs = scan(letter, today), scan(mail, today)
    if not any(span.kind == "time" for span in (*own, *theirs)):
        return []
    return _to_come(own, today) or _to_come(theirs, today)


def _to_come(spans: Sequence[Span], today: date) -> list[date]:
    meant = (next(iter(dates_near(span.key, today)), None) for span in spans if span.kind == "date")
    return sorted({day for day in meant if day and day >= today})[:_MOST_DAYS]


def _times(spans: Sequence[Span]) -> Iterator[Times]:
    for span in spans:
        for key in filter(None, (span.key, later(span.key, span.text))):
            yield _clock(key), _clock(key)
    for begin, end in pairwise(spans):
        if 0 <= end.start - begin.end <= _APART and begin.key < end.key:
            yield _clock(begin.key), _clock(end.key)


def _was_free(claimed: Times, free: Sequence[Times]) -> bool:
    return any(begin <= claimed[0] < end and claimed[1] <= end for begin, end in free)


def _meets(event: Event, day: date, claimed: Times, zone: ZoneInfo) -> bool:
    begin, end = (datetime.combine(day, each, zone) for each in claimed)
    return event.overlaps(begin, max(end, begin + _A_MOMENT), zone)


def _clock(key: str) -> time:
    return time.fromisoformat(key)
