"""What a setting may be set to, where that is more than any text or number."""

import ipaddress
import re
from dataclasses import dataclass
from datetime import time
from decimal import Decimal
from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, Field, SecretStr

_HOURS = re.compile(r"(?:(\S+)\s+)?(\d\d:\d\d)-(\d\d:\d\d)")
_WEEK = {name: number for number, name in enumerate(("mon", "tue", "wed", "thu", "fri", "sat", "sun"))}
Seconds = Annotated[float, Field(le=1_000_000, allow_inf_nan=False)]
"""A duration, of eleven days at most: Postgres counts some of them in milliseconds of 31 bits."""
Days = Annotated[int, Field(le=36_500)]


def is_on_this_machine(url: str) -> bool:
    try:
        return is_loopback(urlsplit(url).hostname or "")
    except ValueError:  # nothing that can be read
        return False


def is_loopback(host: str) -> bool:
    """Whether a host, by name or address, is this machine."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:  # another name
        return False


class Price(BaseModel):
    """What a model's tokens cost, in money per million, in any one currency."""

    prompt: Decimal = Field(ge=0)
    completion: Decimal = Field(ge=0)

    def of(self, prompt: float, completion: float) -> Decimal:
        """What so many tokens cost."""
        return (Decimal(prompt) * self.prompt + Decimal(completion) * self.completion) / 1_000_000


@dataclass(frozen=True, slots=True)
class WorkingHours:
    """When a person's free time may be offered: on these days of the week (0 is Monday), between two times of day."""

    days: frozenset[int]
    begin: time
    end: time

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `09:00-18:00`, or with days before it `Mon-Thu,Sat 09:00-18:00`. Raises ValueError."""
        found = _HOURS.fullmatch(text.strip())
        try:
            if found and (begin := time.fromisoformat(found[2])) < (end := time.fromisoformat(found[3])):
                return cls(_days(found[1]) if found[1] else frozenset(range(7)), begin, end)
        except (ValueError, KeyError):  # no such time, no such day
            pass
        raise ValueError("takes hours, such as 09:00-18:00, with days before them if you like: Mon-Fri 09:00-18:00")


def _days(text: str) -> frozenset[int]:
    found: set[int] = set()
    for part in text.lower().split(","):
        first, _, last = part.partition("-")
        begin, end = _WEEK[first], _WEEK[last or first]
        found.update((begin + further) % 7 for further in range((end - begin) % 7 + 1))
    return frozenset(found)


def _matching(pattern: str, taken: str) -> AfterValidator:
    def check(value: str) -> str:
        if not re.fullmatch(pattern, value):
            raise ValueError(f"takes {taken}")
        return value

    return AfterValidator(check)


def _secret(pattern: str, taken: str) -> AfterValidator:
    def check(value: SecretStr) -> SecretStr:
        if not re.fullmatch(pattern, value.get_secret_value(), re.ASCII | re.DOTALL):
            raise ValueError(f"takes {taken}")
        return value

    return AfterValidator(check)


def _in_one_spelling(root: str) -> str:
    scheme, host, path, *_ = urlsplit(root)
    return f"{scheme}://{host.lower()}{path.rstrip('/')}"


def _without_timezone(value: time) -> time:
    if value.tzinfo is not None:
        raise ValueError("takes a time of each account's own day, such as 08:00, without a timezone")
    return value


def _readable(hours: str) -> str:
    WorkingHours.parse(hours)
    return hours


Root = Annotated[
    str,
    _matching(r"https?://[^/?#@\s]+(/[^?#\s]*)?", "the web address of a server, such as http://127.0.0.1:8080"),
    AfterValidator(_in_one_spelling),
]
Origin = Annotated[
    str,
    AfterValidator(lambda value: value.strip().rstrip("/").lower()),
    _matching(r"https?://[^/?#@*\s]+", "the scheme, host and port of one site, such as https://dev.agentinbox.ai"),
]
WebAddress = Annotated[
    str,
    _matching(r"https?://[^/?#@\s]+(/[^?#\s]*)?", "a web address without a query, such as https://mail.example.net/"),
]
McpServer = Annotated[
    str,
    _matching(r"https?://[^\s/?#@]+(/[^\s#]*)?", "the web address of an MCP server, such as http://127.0.0.1:8000/mcp"),
]
Contact = Annotated[
    str, _matching(r"mailto:[^@\s]+@[^@\s]+|https://[^\s]+", "mailto: with an address, or an https: address")
]
Topic = Annotated[
    str,
    _matching(
        r"projects/[a-z][a-z0-9.:-]+/topics/[A-Za-z][\w.~+%-]+",
        "the full name of a Pub/Sub topic, such as projects/my-project/topics/gmail",
    ),
]
LocalTime = Annotated[time, AfterValidator(_without_timezone)]
Hours = Annotated[str, AfterValidator(_readable)]
LongSecret = Annotated[SecretStr, _secret(r".{16,}", "at least 16 characters, as guesses at it are not counted")]
SecretInUrls = Annotated[
    SecretStr, _secret(r"[\w.~-]{16,}", "at least 16 letters, digits, dots, hyphens, underscores or tildes")
]
