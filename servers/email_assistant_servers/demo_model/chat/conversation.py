"""What a chat's messages hold: the person's request, who and when it is, and what was called so far."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, time

from email_assistant_servers.demo_model.protocol import Message
from email_assistant_servers.demo_model.reading import Person, read_person
from email_assistant_servers.demo_model.steps import Step, read_rounds
from email_assistant_servers.demo_model.times import named_dates
from email_assistant_servers.demo_model.wording import ADDRESS

CLARIFY = "request_clarification"
LIST, CREATE, UPDATE = "list_events", "create_event", "update_event"
SEARCH, READ, SEND = "search_mail", "get_thread", "send_email_tool"
WAITING, FIND, EXPLAIN = "list_waiting", "find_mail", "explain_mail"
LOOKS = frozenset({LIST, SEARCH, READ, WAITING, FIND, EXPLAIN})
"""Tools that change nothing and need nobody."""

_PERSON = re.compile(rf"(?P<name>(?:[A-ZÀ-Þ][\w'’.-]* )*)<?(?P<address>{ADDRESS.pattern})")
_CLOCK = re.compile(r"(?<![+\d-])\b([01]?\d|2[0-3]):([0-5]\d)\b")


@dataclass(frozen=True)
class Conversation:
    """One turn of a chat; `rounds` are the calls of each of the agent's messages, `now` is the person's local time."""

    request: str
    rounds: tuple[tuple[Step, ...], ...]
    person: Person
    now: datetime | None


def read_conversation(messages: Sequence[Message]) -> Conversation:
    """The turn that the newest user message begins."""
    start = max((number for number, message in enumerate(messages) if message.role == "user"), default=-1)
    system = "\n".join(message.text for message in messages if message.role in ("system", "developer"))
    rounds = read_rounds(messages[start + 1 :], questions={CLARIFY}, looks=LOOKS)
    return Conversation(
        request=read_request(messages),
        rounds=tuple(map(tuple, rounds)),
        person=_person(messages, system),
        now=_now(system),
    )


def read_request(messages: Sequence[Message]) -> str:
    """The person's newest words, in one line."""
    said = [message.text for message in messages if message.role == "user"]
    return " ".join(said[-1].split()) if said else ""


def _person(messages: Sequence[Message], system: str) -> Person:
    person, found = read_person(messages), _PERSON.search(system)
    return replace(person, name=found["name"].strip(), address=found["address"].lower()) if found else person


def _now(system: str) -> datetime | None:
    """What changes most stands last in a prompt, behind what is told about the person."""
    days, clocks = named_dates(system, None), _CLOCK.findall(system)
    if not days:
        return None
    hour, minute = clocks[-1] if clocks else (0, 0)
    return datetime.combine(days[-1], time(int(hour), int(minute)))
