"""The chat agent's turn: the person's newest words taken for tasks.

A task yields its calls, is sent what they came to, and returns a text. The server keeps nothing between requests: each
plays the tasks from the start along the calls that the conversation holds, and so finds out which come next.
"""

import re
from collections.abc import Callable, Generator, Iterator, Sequence
from datetime import date, datetime, timedelta
from typing import Any, NamedTuple

from .letters import letter, rewritten
from .protocol import JsonObject, ModelAnswer, ModelCall, PromptMessage
from .reading import Person, PromptMail, Step, read_mails, read_person, read_rounds
from .wording import ABILITIES, PATTERNS, at, clocks, named_days, sentence, shorten, spoken, without_times

CLARIFY = "request_clarification"
_LENGTH = timedelta(minutes=30)
_TAG_LINE = re.compile(r"^</?[a-z]+(?: [^>\n]*)?>$\n?", re.MULTILINE)
_EVENT = re.compile(
    r"^(\d{4}-\d\d-\d\d(?:T\d\d:\d\d)?)\S* to (\d{4}-\d\d-\d\d(?:T\d\d:\d\d)?)\S*: (.*)\n"
    r"  Id: (\S+)(?: in calendar (\S+))?$",
    re.MULTILINE,
)
_FOUND_MAIL = re.compile(r"^(\S.*?): .*(?<!sent\))(?<!draft\))\n  Thread: (\S+)$", re.MULTILINE)

Task = Generator[ModelCall, Any, str]


class GiveUp(Exception):
    """The task can't go on; the message is its text."""


class ListedEvent(NamedTuple):
    """An event from and to a local time or a day; `calendar` is empty for the person's own."""

    start: str
    end: str
    title: str
    id: str
    calendar: str

    def __str__(self) -> str:
        hours = f"{self.start[11:]} to {self.end[11:]}" if "T" in self.start else "all day"
        return f"“{self.title}” on {spoken(date.fromisoformat(self.start[:10]))}, {hours}"


def next_message(messages: Sequence[PromptMessage], tools: frozenset[str]) -> ModelAnswer:
    """What comes next in the turn that the newest user message began, with the offered tools."""
    newest = max((number for number, message in enumerate(messages) if message.role == "user"), default=-1)
    tasks = [task for _, task in _tasks(messages)]
    states = [_go_on(task, None, tools) for task in tasks]
    for steps in read_rounds(messages[newest + 1 :]):
        for number, (task, state) in enumerate(zip(tasks, states, strict=True)):
            step = next((step for step in steps if isinstance(state, ModelCall) and step.name == state.name), None)
            if step:
                steps.remove(step)
                states[number] = _go_on(task, step, tools)
    calls = tuple(state for state in states if isinstance(state, ModelCall))
    return ModelAnswer(calls=calls) if calls else ModelAnswer("\n\n".join(map(str, states)) or ABILITIES)


def _go_on(task: Task, step: Step | None, tools: frozenset[str]) -> ModelCall | str:
    """The call that a task waits for next, or its text."""
    try:
        call = task.send(step)
    except StopIteration as end:
        return str(end.value)
    except GiveUp as reason:
        return str(reason)
    return call if call.name in tools else f"For this I would need {call.name}, which I was not given."


def policy(messages: Sequence[PromptMessage], schema: JsonObject) -> JsonObject:
    """The types among the schema's that the person's words need; all where they are not understood."""
    needed = {name for name, _ in _tasks(messages)}
    known: list[str] = schema["properties"]["allowed_tool_types"]["items"]["enum"]
    return {"allowed_tool_types": [name for name in known if name in needed] or known}


def _tasks(messages: Sequence[PromptMessage]) -> list[tuple[str, Task]]:
    """What the person's newest words ask for, with the type of tools that it needs; nothing where a part of them is
    not understood."""
    said = [message.text for message in messages if message.role == "user"]
    person, tasks = read_person(messages), list[tuple[str, Task]]()
    for part in _parts(" ".join(said[-1].split()) if said else ""):
        words = PATTERNS["polite"].sub("", part).rstrip(" .?!")
        found = [(name, fits) for name in _TASKS if (fits := PATTERNS[name].match(words))]
        if not found:
            return []
        kind, task = _TASKS[found[0][0]]
        tasks.append((kind, task(person, **found[0][1].groupdict())))
    return tasks


def _parts(request: str) -> Iterator[str]:
    """What is asked for one by one; "create 2 events: … and …" asks for two."""
    for part in PATTERNS["next_task"].split(request):
        listed = PATTERNS["events"].match(part)
        yield from [f"create {event}" for event in PATTERNS["between"].split(listed["events"])] if listed else [part]


def _look(name: str, **arguments: object) -> Generator[ModelCall, Any, str]:
    """What a tool that changes nothing answers. Raises GiveUp."""
    step = yield ModelCall(name, arguments)
    if step.outcome == "error":
        raise GiveUp(f"{name} failed: {shorten(step.result, 300)}")
    return str(step.result)


def _ask(question: str) -> Generator[ModelCall, Any, str]:
    """The person's answer. Raises GiveUp: they would rather not."""
    step = yield ModelCall(CLARIFY, {"question": question, "context": ""})
    if step.outcome != "feedback" or PATTERNS["never_mind"].search(step.result):
        raise GiveUp("All right, I have left that alone.")
    return str(step.result)


def _propose(
    name: str, arguments: JsonObject, corrected: Callable[[JsonObject, str], JsonObject], undone: str
) -> Generator[ModelCall, Any, str]:
    """What a call that the person reviews came to; where their words against it change it, the changed one. Raises
    GiveUp: it was not done."""
    step = yield ModelCall(name, arguments)
    while step.outcome == "feedback" and not PATTERNS["never_mind"].search(step.result):
        if (better := corrected(arguments, step.result)) == arguments:
            break
        arguments = better
        step = yield ModelCall(name, arguments)
    if step.outcome != "done":
        raise GiveUp(f"{undone}: {shorten(step.result, 300)}")
    return str(step.result)


def _agenda(person: Person, words: str) -> Task:
    """Tell what stands in the calendar on the days that the words name, else in the next seven."""
    today = person.now.date()
    days = named_days(words, today) or [today, today + timedelta(days=6)]
    first, last = min(days), max(days)
    events = yield from _events(first, last)
    span = spoken(first) if first == last else f"{spoken(first)} to {spoken(last)}"
    if not events:
        return f"Nothing stands in your calendar for {span}."
    return "\n".join([f"In your calendar for {span}:", *(f"- {event}" for event in events)])


def _create(person: Person, event: str) -> Task:
    """Make an event, asking once for what is missing. Without a day it is the next time that the clock shows this."""
    if not clocks(event):
        title = _title(event)
        question = f"When should “{title}” be?" if title else "What would you like to schedule?"
        event = f"{event} {yield from _ask(question)}"
    if not clocks(event):
        return "I still don't know when, so I have left that alone."
    title, start = _title(event) or "Meeting", person.now
    if not named_days(event, start.date()) and clocks(event)[-1] < start.hour * 60 + start.minute:
        start += timedelta(days=1)
    arguments = {"title": title, "start": _iso(start), "end": _iso(start + _LENGTH)}
    arguments = _retimed(arguments, event, person.now)
    return (yield from _put(person, "create_event", arguments, f"“{title}” was not created"))


def _move(person: Person, source: str, target: str) -> Task:
    """Move the event that begins at a time of a day, today if none is named, keeping how long it lasts."""
    [day, *_] = [*named_days(source, person.now.date()), person.now.date()]
    events = (yield from _events(day, day)) if clocks(source) else []
    fits = [event for event in events if clocks(event.start[11:]) == clocks(source)]
    if len(fits) != 1:
        return f"{'Several events fit' if fits else 'No event fits'} “{source}”, so nothing was moved."
    [event] = fits
    where = {"calendar_id": event.calendar} if event.calendar else {}
    arguments = {"event_id": event.id, "start": event.start, "end": event.end, **where}
    undone = f"“{event.title}” was not moved"
    return (yield from _put(person, "update_event", _retimed(arguments, target, person.now), undone))


def _put(person: Person, name: str, arguments: JsonObject, undone: str) -> Task:
    """Put an event where it is to be; what the person says against it corrects its day and time."""
    result = yield from _propose(name, arguments, lambda event, said: _retimed(event, said, person.now), undone)
    return f"In your calendar: {', '.join(map(str, _listed(result)))}."


def _answer(person: Person, who: str, text: str | None) -> Task:
    """Answer the newest mail that somebody else wrote and that fits; one of theirs comes first."""
    found = _FOUND_MAIL.findall((yield from _look("search_mail", query=who)))
    found.sort(key=lambda mail: who.lower() not in mail[0].lower())
    mails = read_mails((yield from _look("get_thread", thread_id=found[0][1]))) if found else []
    theirs = [mail for mail in mails if mail.sender not in ("", person.address)]
    if not theirs:
        return f"I find no mail that fits “{who}”, so nothing was sent."
    mail, said = theirs[-1], text or (yield from _ask("What should I answer?"))
    head = {"email_id": mail.id, "email_address": mail.reply_address}
    return (yield from _send(person, head, said, mail))


def _write(person: Person, address: str, text: str) -> Task:
    """Write a new mail. Its address is only ever taken from the person's own words."""
    head = {"email_id": None, "email_address": address, "subject": shorten(sentence(text), 60).rstrip(".")}
    return (yield from _send(person, head, text, PromptMail("", {}, "")))


def _send(person: Person, head: JsonObject, text: str, mail: PromptMail) -> Task:
    def corrected(wanted: JsonObject, said: str) -> JsonObject:
        return {**wanted, "response_text": rewritten(wanted["response_text"], said, mail, person)}

    arguments = {**head, "response_text": letter(mail.sender_name, person, [sentence(text)])}
    undone = f"The mail to {head['email_address']} was not sent"
    return (yield from _propose("send_email_tool", arguments, corrected, undone))


def _waiting(_: Person) -> Task:
    """Tell what waits for the person."""
    entries = _entries((yield from _look("list_waiting")))
    told = (f"- {shorten(', '.join(fields[1:]), 160)}" for fields in entries)
    return "\n".join(["This waits for you:", *told]) if entries else "Nothing waits for you."


def _explain(_: Person, ignored: str | None, who: str) -> Task:
    """Tell what became of the newest mail that fits."""
    found = _entries((yield from _look("find_mail", words=who, **{"classification": "ignore"} if ignored else {})))
    if not found:
        return f"I find no mail that fits “{who}”."
    trail = yield from _look("explain_mail", mail_id=found[0][0])
    return f"{' · '.join(found[0][1:])}\n\n{_TAG_LINE.sub('', trail).strip()}"


def _entries(result: str) -> list[list[str]]:
    """The fields of each line of `list_waiting` or `find_mail`."""
    return [[field.strip() for field in line.split(" | ")] for line in result.splitlines() if " | " in line]


def _events(first: date, last: date) -> Generator[ModelCall, Any, list[ListedEvent]]:
    start, end = (_iso(at(day, 0)) for day in (first, last + timedelta(days=1)))
    return _listed((yield from _look("list_events", start=start, end=end)))


def _listed(result: str) -> list[ListedEvent]:
    """The events that a tool of the calendar tells, by start. No line of what others wrote begins like one."""
    return [ListedEvent(*found) for found in _EVENT.findall(result)]


def _retimed(event: JsonObject, words: str, now: datetime) -> JsonObject:
    """An event's arguments with the day and the time of day that the words name last, as long as it was."""
    start, end = (datetime.fromisoformat(event[side]) for side in ("start", "end"))
    day, minutes = [start.date(), *named_days(words, now.date())][-1], [start.hour * 60 + start.minute, *clocks(words)]
    moved = at(day, minutes[-1])
    return {**event, "start": _iso(moved), "end": _iso(moved + (end - start))}


def _iso(moment: datetime) -> str:
    """Without an offset: the calendar takes it in the person's timezone."""
    return moment.isoformat(timespec="minutes")


def _title(words: str) -> str:
    """What an event is called, by what describes it."""
    called = PATTERNS["called"].search(words)
    text = PATTERNS["whose"].sub("", without_times(called["title"] if called else words))
    text = text if called else PATTERNS["opening"].sub("", text)
    while (tidy := PATTERNS["loose_end"].sub("", text)) != text:
        text = tidy
    return shorten(text[:1].upper() + text[1:], 100)


_TASKS: dict[str, tuple[str, Callable[..., Task]]] = {
    "reply_to": ("mail", _answer),
    "write_to": ("mail", _write),
    "move": ("calendar", _move),
    "create": ("calendar", _create),
    "why": ("inbox", _explain),
    "waiting": ("inbox", _waiting),
    "agenda": ("calendar", _agenda),
}
"""By the pattern whose words ask for it: the type of tools that it needs, and the task; the first that fits."""
