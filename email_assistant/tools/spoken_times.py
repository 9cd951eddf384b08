"""Times of day that are told in words, by language: only what can mean nothing else."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import time
from functools import cached_property
from typing import Final

from email_assistant.gate.plain import folded, plain

_END: Final = r"(?=\s*(?:[.,;:!?)\n]|$)|\s+(?:{then})\b)"
_HALF_A_DAY: Final = 12 * 60


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
