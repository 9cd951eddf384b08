"""How an item stands, in plain words: what its answer waits for, when it takes effect, and until when it may sleep."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from math import ceil
from typing import Any, Self
from uuid import UUID
from zoneinfo import ZoneInfo

from email_assistant.db.values import time_in_json
from email_assistant.inbox.kept import decision_in
from email_assistant.tools.spec import Answer, Kind

ACTS: tuple[Answer, ...] = ("accept", "edit")
"""Answers that have something done."""
EXPIRY = "expiry"
"""By whom it is answered that waits too long."""
SHADOW_BEGAN = "shadow mode began before what you decided was done"
"""Why they are asked again about what they had decided to do."""
PART_IS_GONE = "It belongs to a part that is not installed here: nothing comes of an answer; dismiss it"
_SAID: Mapping[Answer, str] = {
    "accept": "approved",
    "edit": "approved as you changed it",
    "ignore": "dismissed",
    "response": "passed on to the assistant",
}
"""What each answer made of an item."""
_SAID_OF_NOTICE: Mapping[Answer, str] = {**_SAID, "accept": "done", "ignore": "not such mail"}
_WHERE: Mapping[str | None, str] = {
    "web": "on the page",
    "cli": "by a command",
    "terminal": "in the terminal",
    "chat": "in a chat",
    "agent inbox": "in the Agent Inbox",
    "api": "by a program",
    "gmail": "in Gmail",
    EXPIRY: "by itself, as it waited too long",
}
NAMES: Mapping[Kind, str] = {
    "draft": "reply",
    "meeting": "meeting",
    "confirmation": "action",
    "notification": "notice",
    "question": "question",
    "link": "link",
    "in_doubt": "doubt",
}
MANY: Mapping[Kind, str] = {
    "draft": "replies",
    "meeting": "meetings",
    "confirmation": "actions",
    "notification": "notices",
    "question": "questions",
    "link": "links",
    "in_doubt": "doubts",
}
_DOES: Mapping[Kind, str] = {"draft": "goes out", "meeting": "is put into the calendar"}
"""What becomes of it when it is accepted; of all others, that it is done."""
_DO: Mapping[Kind, str] = {"draft": "go out", "meeting": "are put into the calendar"}
"""Likewise of several."""
TAKEN_FOR: Mapping[str, str] = {"respond": "needs an answer", "notify": "good to know", "ignore": "needs nothing"}
"""What each class of mail is called."""
_THIS_WEEK = timedelta(days=6)
"""So long a day is told by its name alone."""


@dataclass(frozen=True, slots=True)
class Part:
    """Another part of the same run that nothing was done about yet."""

    id: UUID
    kind: Kind
    answer: Answer | None
    """None: it waits for the person."""
    undo_until: datetime | None
    snoozed_until: datetime | None

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Self:
        """From JSON of the database."""
        answer = (decision_in(row["decision"]) or {}).get("type")
        return cls(UUID(row["id"]), row["kind"], answer, _time(row["undo_until"]), _time(row["snoozed_until"]))


def acts(kind: Kind, answer: Answer | None) -> bool:
    """Whether an answer has something done. A notice that is done with only goes away."""
    return answer in ACTS and kind != "notification"


def answer_words(kind: Kind, answer: Answer) -> str:
    """What an answer made of an item of that kind."""
    return (_SAID_OF_NOTICE if kind == "notification" else _SAID)[answer]


def answered_where(decided_by: str | None) -> str:
    """Where the person said or did it; by whom, if that is no place of theirs."""
    return _WHERE.get(decided_by, f"by {decided_by}")


def named(kind: Kind, own: Kind, count: int = 1) -> str:
    """What so many parts of a kind are called beside one that may be of the same kind."""
    other = "other " if kind == own else ""
    return f"the {other}{NAMES[kind]}" if count == 1 else f"the {count} {other}{MANY[kind]}"


def takes_effect(
    kind: Kind, answer: Answer, undo_until: datetime | None, parts: Sequence[Part], zone: ZoneInfo, *, held: str | None
) -> str:
    """When something is done about an answer that was given, and that can be taken back until then.

    Args:
        held: until when the person has stopped everything, or all of the mailbox; None: they have not.
    """
    if kind == "notification" and answer != "response":
        return "is put away"
    if answer == "ignore":
        return "is not done"
    does = _DOES.get(kind, "is done") if answer in ACTS else "is passed on to the assistant"
    if waits := [part for part in parts if part.answer is None]:
        return f"{does} with your answer on {_those(waits, kind, zone)}"
    if held:
        return f"{does} {held}"
    ends = [each for each in (undo_until, *(part.undo_until for part in parts)) if each]
    left = (max(ends) - datetime.now(UTC)).total_seconds()
    return f"{does} in {max(1, round(left))} s" if left > 0 else f"{does} as soon as it can be"


def waits_for(until: datetime | None) -> str:
    """How long somebody else's agent waits for an answer, and what that comes to."""
    seconds = (until - datetime.now(UTC)).total_seconds() if until else 0
    if seconds <= 0:
        return "The agent that asked waits no more"
    minutes = ceil(seconds / 60)
    left = "a minute" if minutes == 1 else f"{minutes} minutes"
    return f"An agent of yours asks before it does this, and waits {left} more; your answer counts at once, for good"


def other_parts(kind: Kind, parts: Sequence[Part], zone: ZoneInfo, *, one_proposal: bool) -> list[str]:
    """What the person should know of the other parts while this one waits for them: one line each.

    Args:
        one_proposal: what was accepted of it is asked about again once another part is turned down.
    """
    held = Counter((part.kind, part.answer) for part in parts if part.answer in ACTS)
    notes = [
        f"{named(each, kind, count).capitalize()} that you {'changed and ' if answer == 'edit' else ''}approved "
        f"{_does(each, count)} with your answer on this"
        for (each, answer), count in held.items()
    ]
    notes += [f"You dismissed {named(part.kind, kind)}" for part in parts if part.answer == "ignore"]
    if held and one_proposal:
        notes.append(f"If you turn this down, you are asked about {'that' if held.total() == 1 else 'those'} again")
    if others := [part for part in parts if part.answer is None]:
        notes.append(f"One proposal with {_those(others, kind, zone)}")
    return notes


def asked_again(kind: Kind, own: Kind, answer: Answer, by: str = "") -> str:
    """Why an accepted part is asked about again.

    Args:
        kind: of the part that was not accepted as it was.
        own: of the part that was.
    """
    if by == EXPIRY:
        did = f"{named(kind, own)} was dismissed by itself, as it waited too long"
    elif answer == "ignore":
        did = f"you dismissed {named(kind, own)}"
    elif answer == "edit":
        did = f"you changed {named(kind, own)}"
    else:
        did = f"you said what should be different about {named(kind, own)}"
    return f"you had approved it, and then {did}"


def day(at: datetime, zone: ZoneInfo) -> str:
    """A time to come, such as Monday 8:00."""
    local = at.astimezone(zone)
    date = f"{local:%A}" if local - datetime.now(zone) < _THIS_WEEK else f"{local:%A}, {local.day} {local:%B},"
    return f"{date} {local.hour}:{local:%M}"


@dataclass(frozen=True, slots=True)
class SleepUntil:
    words: str
    wakes: Callable[[datetime], datetime]
    """Of now, by the clock of the account."""


def _morning(now: datetime, days: int) -> datetime:
    return datetime.combine(now.date() + timedelta(days=days), time(8), now.tzinfo)


SNOOZES: Mapping[str, SleepUntil] = {
    "tomorrow": SleepUntil("tomorrow morning", lambda now: _morning(now, 1)),
    "hour": SleepUntil("in an hour", lambda now: now + timedelta(hours=1)),
    "later": SleepUntil("in four hours", lambda now: now + timedelta(hours=4)),
    "monday": SleepUntil("Monday morning", lambda now: _morning(now, 7 - now.weekday())),
}
"""Until when an item may sleep, by name."""


def wakes_at(choice: str, zone: ZoneInfo) -> datetime:
    """The time that one of `SNOOZES` stands for. Raises KeyError: it is none of them."""
    return SNOOZES[choice].wakes(datetime.now(zone))


def is_asleep(snoozed_until: datetime | None) -> bool:
    return snoozed_until is not None and snoozed_until > datetime.now(UTC)


def _those(parts: Sequence[Part], own: Kind, zone: ZoneInfo) -> str:
    """Parts that wait for the person, those that are asleep last."""
    counted = Counter((is_asleep(part.snoozed_until), part.kind, _put_off(part, zone)) for part in parts)
    told, names = set[Kind](), list[str]()
    for (_, kind, off), count in sorted(counted.items()):
        more = f"another {NAMES[kind]}" if count == 1 else f"{count} more {MANY[kind]}"
        names.append(f"{more if kind in told else named(kind, own, count)}{off}")
        told.add(kind)
    return " and ".join(names)


def _does(kind: Kind, count: int) -> str:
    return _DOES.get(kind, "is done") if count == 1 else _DO.get(kind, "are done")


def _put_off(part: Part, zone: ZoneInfo) -> str:
    at = part.snoozed_until
    return f", put off until {day(at, zone)}" if at and is_asleep(at) else ""


def _time(value: str | None) -> datetime | None:
    return time_in_json(value) if value else None


def taken_back(answers: int) -> str:
    """What to tell of so many answers that a change of mode took back."""
    are = "answer that was not carried out yet is" if answers == 1 else "answers that were not carried out yet are"
    return f"{answers} {are} taken back: you are asked again."
