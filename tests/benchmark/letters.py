"""Ordinary letters with their answers, in four languages: what people write to each other, with facts in as many
spellings as they use."""

import json
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from random import Random
from typing import Any

_HERE = Path(__file__).parent / "letters"

_WORDS: dict[str, Any] = json.loads((_HERE / "words.json").read_text(encoding="utf-8"))
MONTHS, WEEKDAYS, FIRST, LAST, DOMAINS = (_WORDS[what] for what in ("months", "weekdays", "first", "last", "domains"))
CURRENCY = {"en": ("$", "£", "€"), "de": ("€",), "fr": ("€",), "es": ("€",)}


def say_date(rng: Random, day: date, lang: str) -> str:
    month, short, weekday = MONTHS[lang][day.month - 1], MONTHS[lang][day.month - 1][:3], WEEKDAYS[lang][day.weekday()]
    nth = {1: "st", 2: "nd", 3: "rd"}.get(day.day % 10 if day.day not in (11, 12, 13) else 0, "th")
    number, year = day.day, day.year
    forms = {
        "en": [
            f"{number} {month}", f"{month} {number}{nth}", f"{number}{nth} {month}", f"{month} {number}, {year}",
            f"{short} {number}", f"{number} {short} {year}", f"the {number}{nth} of {month}", day.isoformat(),
            f"{weekday} {number} {month}", f"{weekday}, {month} {number}", f"{day:%d/%m/%Y}",
        ],
        "de": [
            f"{number}. {month}", f"{day:%d.%m.%Y}", f"{number}.{day.month}.", f"{number}. {month} {year}",
            f"{weekday}, {number}. {month}", f"{day:%d.%m.}", f"{weekday}, den {day:%d.%m.%y}",
        ],
        "fr": [
            f"{number} {month}", f"{number} {month} {year}", f"{weekday} {number} {month}", f"{day:%d/%m/%Y}",
            f"{number if number > 1 else '1er'} {month}",
        ],
        "es": [
            f"{number} de {month}", f"{number} de {month} de {year}", f"{weekday} {number} de {month}",
            f"{day:%d/%m/%Y}", f"{weekday}, {number} de {month}",
        ],
    }  # fmt: skip
    return rng.choice(forms[lang])


def say_time(rng: Random, minutes: int, lang: str) -> str:
    hour, minute = divmod(minutes, 60)
    half = "am" if hour < 12 else "pm"
    small = hour - 12 if hour > 12 else hour
    tail = f":{minute:02}" if minute else ""
    forms = {
        "en": [f"{hour}:{minute:02}", f"{small}{tail} {half}", f"{small}{tail.replace(':', '.')}{half}",
               f"{small}:{minute:02} {half[0]}.m.", f"{small}{tail}{half.upper()}"],
        "de": [f"{hour}:{minute:02} Uhr", f"{hour}{tail} Uhr", f"{hour}.{minute:02} Uhr", f"{hour:02}:{minute:02}"],
        "fr": [f"{hour}h{f'{minute:02}' if minute else ''}", f"{hour} h{f' {minute:02}' if minute else ''}",
               f"{hour:02}:{minute:02}"],
        "es": [f"{hour}:{minute:02}", f"{hour}:{minute:02} h", f"{hour}.{minute:02} h", f"{hour:02}:{minute:02}"],
    }  # fmt: skip
    return rng.choice(forms[lang])


def say_amount(rng: Random, value: tuple[int, str], lang: str) -> str:
    cents, sign = value
    whole, rest = divmod(cents, 100)
    code = {"$": "USD", "£": "GBP", "€": "EUR"}[sign]
    word = {"$": "dollars", "£": "pounds", "€": {"de": "Euro", "es": "euros", "fr": "euros"}.get(lang, "euros")}[sign]
    if lang == "en":
        number = f"{whole:,}" + (f".{rest:02}" if rest else rng.choice(["", ".00"]))
        forms = [f"{sign}{number}", f"{sign}{number}", f"{code} {number}", f"{number} {word}", f"{number} {code}"]
        forms += [f"{sign}{whole // 1000}k"] if not rest and whole >= 1000 and whole % 1000 == 0 else []
        return rng.choice(forms)
    between = {"de": ".", "fr": rng.choice([" ", "\u202f", "\u00a0"]), "es": rng.choice([".", " "])}[lang]
    number = f"{whole:,}".replace(",", between) + (f",{rest:02}" if rest else rng.choice(["", ",00"]))
    return rng.choice([f"{number} {sign}", f"{number}\u00a0{sign}", f"{number} {code}", f"{number} {word}"])


def say_phone(rng: Random, value: tuple[str, str], lang: str) -> str:
    country, rest = value
    one, two, three = rest[:3], rest[3:6], rest[6:]
    return rng.choice([
        f"+{country} {one} {two} {three}", f"+{country}{rest}", f"0{one} {two} {three}",
        f"00{country} {one} {two}{three}",
        f"+{country} ({one}) {two}-{three}", f"+{country} (0){one} {two} {three}", f"0{one}/{two}{three}",
    ])  # fmt: skip


def say_account(rng: Random, value: str, lang: str) -> str:
    grouped = " ".join(value[n : n + 4] for n in range(0, len(value), 4))
    return rng.choice([value, grouped, grouped.replace(" ", "-"), grouped.replace(" ", "\u00a0")])


def say_code(rng: Random, value: str, lang: str) -> str:
    return rng.choice([value, value, value.replace("-", ""), value.lower()])


def say_link(rng: Random, value: str, lang: str) -> str:
    return rng.choice(
        [f"https://{value}", f"https://www.{value}", f"http://{value}/", f"<https://{value}>", f"www.{value}"]
    )


def say_address(rng: Random, value: str, lang: str) -> str:
    return rng.choice([value, value.title(), f"<{value}>", f"mailto:{value}"])


def say_name(rng: Random, value: str, lang: str) -> str:
    return value


def say_weekday(rng: Random, day: date, lang: str) -> str:
    weekday: str = WEEKDAYS[lang][day.weekday()]
    return weekday


def say_file(rng: Random, value: str, lang: str) -> str:
    return rng.choice([value, value, value.upper()])


SAY: dict[str, Callable[[Random, Any, str], str]] = {
    "d": say_date, "t": say_time, "a": say_amount, "p": say_phone, "i": say_account, "c": say_code, "l": say_link,
    "m": say_address, "n": say_name, "f": say_file, "w": say_weekday, "s": say_time,
}  # fmt: skip
"""How each kind of fact is spelled, by the first letter of its place in a template."""


def invent(rng: Random, kind: str, lang: str, today: date) -> Any:
    """A fact of its kind."""
    first, last = rng.choice(FIRST[lang]), rng.choice(LAST[lang])
    match kind:
        case "d":
            return today + timedelta(days=rng.randrange(2, 150))
        case "w":
            return today + timedelta(days=rng.randrange(2, 8))
        case "s":
            return rng.randrange(6, 22) * 60 + rng.choice([7, 13, 22, 34, 41, 52, 58])
        case "t":
            return rng.randrange(8 * 4, 20 * 4) * 15
        case "a":
            whole = rng.choice([rng.randrange(20, 999), rng.randrange(1000, 99_000), rng.randrange(1, 90) * 1000])
            return whole * 100 + rng.choice([0, 0, rng.randrange(1, 100)]), rng.choice(CURRENCY[lang])
        case "p":
            country = {"en": "44", "de": "49", "fr": "33", "es": "34"}[lang]
            return country, f"{rng.randrange(2, 8)}{rng.randrange(10**8):08}"
        case "i":
            return rng.choice(
                [
                    f"{lang.upper() if lang != 'en' else 'GB'}{rng.randrange(10, 99)}{rng.randrange(10**18):018}",
                    f"{rng.randrange(4000, 5999)}{rng.randrange(10**12):012}",
                ]
            )
        case "c":
            letters = "".join(rng.choices("ABCDEFGHJKLMNPRSTUVWXYZ", k=3))
            digits = f"{rng.randrange(10, 10**4)}"
            return rng.choice(
                [
                    f"{letters}-{rng.randrange(1000, 9999)}",
                    f"{letters}{digits}{letters[0]}",
                    f"{letters[0]}{rng.randrange(10**4, 10**6)}",
                ]
            )
        case "l":
            place = rng.choice(["doc", "r", "files", "meet", "offre"])
            return f"{rng.choice(DOMAINS)}/{place}/{rng.randrange(10**5, 10**6)}"
        case "m":
            return f"{ascii_name(first)}.{ascii_name(last)}{rng.randrange(2, 99)}@{rng.choice(DOMAINS)}"
        case "f":
            what = rng.choice(["offer", "plan", "vertrag", "budget", "devis", "acta"])
            return f"{what}_{rng.randrange(100, 999)}.{rng.choice(['pdf', 'xlsx', 'docx'])}"
        case _:
            return f"{first} {last}"


def ascii_name(name: str) -> str:
    return "".join(c for c in unicodedata.normalize("NFKD", name.lower()) if c.isascii() and c.isalpha()) or "x"


@dataclass(frozen=True)
class Templates:
    """Each by language; places such as {d1} are facts, {me} and {you} first names."""

    letters: dict[str, list[dict[str, str]]]
    """A mail and its answer."""
    asides: dict[str, list[str]]
    """Sentences without a fact, that stand in any answer."""
    secrets: dict[str, list[str]]
    """What stands in another thread."""
    invented: dict[str, list[str]]
    """What nobody has said."""
    opening: dict[str, list[str]]
    closing: dict[str, list[str]]


def templates(name: str) -> Templates:
    """`tuning` is what the trace was tuned on; `held-out` was written before that, and `fresh` after it."""
    return Templates(**json.loads((_HERE / f"{name}.json").read_text(encoding="utf-8")))
