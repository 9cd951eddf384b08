"""What the program needs of Google, asked with the program's own client: here of the sandbox, and in `outsiders` of
doubles of other people's making.

A double that lacks a behaviour stands in `google_gaps.py` with the reason; the run fails when a gap opens, and when one
closes unnoticed. Google's own documents decide what is right, not what most doubles do.
"""

import base64
import hashlib
import re
import secrets
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from email.utils import parseaddr
from pathlib import Path
from typing import Any, get_args
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4
from zoneinfo import ZoneInfo

import pytest

from email_assistant.google.errors import Exists, GoogleError, NotFound, Refused, Revoked
from email_assistant.google.gmail import Message
from email_assistant.google.login import SCOPES
from tests import tables
from tests.contract.google_gaps import GAPS
from tests.contract.google_stage import (
    ADDRESS,
    BOB,
    EVENTS,
    ME,
    TIMEZONE,
    Double,
    Stage,
    header,
    mail,
)
from tests.doubles.consent import agree
from tests.doubles.google import Google

Check = Callable[[Stage], Awaitable[None]]
BEHAVIOURS: dict[str, Check] = {}


def behaviour(name: str) -> Callable[[Check], Check]:
    def register(check: Check) -> Check:
        BEHAVIOURS[name] = check
        return check

    return register


_WRONG_ANSWERS = (AssertionError, GoogleError, KeyError, pytest.fail.Exception)
"""What a gap shows itself by; a double that does not run at all fails its tests."""


def cases(*doubles: Double) -> Iterator[Any]:
    """Each behaviour, asked of each of these doubles."""
    for name in BEHAVIOURS:
        for double in doubles:
            gap = GAPS.get(name, {}).get(double)
            marks = [pytest.mark.xfail(reason=gap, strict=True, raises=_WRONG_ANSWERS)] if gap else []
            yield pytest.param(name, double, id=f"{name}-{double}", marks=marks)


async def check(name: str, double: Double, stage: Stage, record_property: tables.Record) -> None:
    """Ask a double for a behaviour, and tell the table."""
    tables.fill(record_property, "Google's behaviours, and the doubles that show them", name, double)
    await BEHAVIOURS[name](stage)


def a_word() -> str:
    return f"w{uuid4().hex[:12]}"


def an_event_id() -> str:
    return f"event{uuid4().hex}"


GMAIL = "https://www.googleapis.com/auth/gmail.modify"
REDIRECT = "http://127.0.0.1:9/"
NINE = datetime.now(ZoneInfo(TIMEZONE)).replace(hour=9, minute=0, second=0, microsecond=0) + timedelta(days=3)


def an_hour(summary: str, start: datetime = NINE) -> dict[str, Any]:
    end = start + timedelta(hours=1)
    return {"summary": summary, "start": start, "end": end, "timezone": TIMEZONE, "attendees": []}


def on_the_wire(start: datetime = NINE) -> dict[str, Any]:
    """An hour as Google writes it."""
    times = {"start": start, "end": start + timedelta(hours=1)}
    return {name: {"dateTime": time.isoformat(), "timeZone": TIMEZONE} for name, time in times.items()}


async def a_reply(stage: Stage, subject: str = "", **more: Any) -> tuple[Message, str]:
    """A mail that came in, and the id of a draft that answers it."""
    asked = await stage.arrives(mail(a_word()))
    answer = mail(subject or f"Re: {header(asked, 'Subject')}", from_=ADDRESS, to=BOB, answers=asked, **more)
    draft = await stage.gmail.create_draft(answer.as_bytes(), asked.thread_id)
    return asked, draft.id


# Reading


@behaviour("profile: the address, and the newest point of the history")
async def _(stage: Stage) -> None:
    before = await stage.gmail.profile()
    await stage.arrives(mail(a_word()))
    after = await stage.gmail.profile()
    assert before.address == ADDRESS
    assert before.history_id < after.history_id < 2**63


@behaviour("messages.list: pages")
async def _(stage: Stage) -> None:
    word = a_word()
    came = {(await stage.arrives(mail(f"{word} {n}"))).id for n in range(3)}
    first = await stage.gmail.list_messages(f"subject:{word}", max_results=2)
    rest = await stage.gmail.list_messages(f"subject:{word}", page_token=first.next_page_token, max_results=2)
    assert len(first.refs) == 2
    assert rest.next_page_token is None
    assert {ref.id for ref in first.refs + rest.refs} == came


@behaviour("search after: seconds")
async def _(stage: Stage) -> None:
    came = (await stage.arrives(mail(a_word()))).id
    now = int(datetime.now(UTC).timestamp())
    assert came in [ref.id for ref in (await stage.gmail.list_messages(f"after:{now - 3600}")).refs]
    assert came not in [ref.id for ref in (await stage.gmail.list_messages(f"after:{now + 3600}")).refs]


@behaviour("search is:unread from: subject: in:")
async def _(stage: Stage) -> None:
    word = a_word()
    came = (await stage.arrives(mail(word))).id
    found = await stage.gmail.list_messages(f"is:unread from:bob@example.org subject:{word} in:inbox")
    none = await stage.gmail.list_messages(f"is:unread from:eve@example.org subject:{word}")
    assert ([ref.id for ref in found.refs], none.refs) == ([came], ())


@behaviour("search in:sent to:, and whom a sent mail reached")
async def _(stage: Stage) -> None:
    reached, copied, hidden = (f"{a_word()}@example.net" for _ in range(3))
    sent = mail(a_word(), from_=ADDRESS, to=f"Eve <{reached}>")
    sent["Cc"], sent["Bcc"] = copied, hidden
    await stage.gmail.send_draft((await stage.gmail.create_draft(sent.as_bytes(), None)).id)
    await stage.arrives(mail(a_word(), from_=f"{a_word()}@example.net", to=f"{ADDRESS}, trudy@example.net"))
    [found] = (await stage.gmail.list_messages(f"in:sent to:{reached}", max_results=1)).refs
    head = await stage.gmail.message_head(found.id)
    assert "SENT" in head.labels
    assert [header(head, name).lower() for name in ("To", "Cc", "Bcc")] == [f"eve <{reached}>", copied, hidden]
    assert (await stage.gmail.list_messages("in:sent to:trudy@example.net")).refs == ()


@behaviour("search to:, an address in quotes")
async def _(stage: Stage) -> None:
    address = f"a{{b}}|{a_word()}@example.net"
    sent = mail(a_word(), from_=ADDRESS, to=address)
    await stage.gmail.send_draft((await stage.gmail.create_draft(sent.as_bytes(), None)).id)
    assert len((await stage.gmail.list_messages(f'in:sent to:"{address}"')).refs) == 1
    assert (await stage.gmail.list_messages(f'in:sent to:"x{address}"')).refs == ()


@behaviour("search -x, newer_than:, a phrase")
async def _(stage: Stage) -> None:
    word = a_word()
    came = (await stage.arrives(mail(f"{word} one two"))).id
    found = await stage.gmail.list_messages(f'newer_than:1d -from:eve@example.org subject:"{word} one"')
    none = await stage.gmail.list_messages(f'subject:"{word} two"')
    assert ([ref.id for ref in found.refs], none.refs) == ([came], ())


@behaviour("search OR, {}")
async def _(stage: Stage) -> None:
    one, two = a_word(), a_word()
    came = [(await stage.arrives(mail(word))).id for word in (one, two)]
    for query in (f"subject:{one} OR subject:{two}", f"{{subject:{one} subject:{two}}}"):
        assert {ref.id for ref in (await stage.gmail.list_messages(query)).refs} == set(came)


@behaviour("spam and trash are not listed unless asked for")
async def _(stage: Stage) -> None:
    word = a_word()
    came = await stage.arrives(mail(word))
    await stage.gmail.modify_labels(came.id, add=["SPAM"], remove=["INBOX"])
    assert (await stage.gmail.list_messages(f"subject:{word}")).refs == ()
    assert len((await stage.gmail.list_messages(f"subject:{word} in:spam")).refs) == 1


@behaviour("messages.get: headers and text as they came")
async def _(stage: Stage) -> None:
    word = a_word()
    came = await stage.arrives(mail(word, text="Grüße aus Köln."))
    assert (header(came, "Subject"), header(came, "From"), header(came, "To")) == (word, BOB, ADDRESS)
    assert base64.urlsafe_b64decode(came.payload["body"]["data"]).decode().strip() == "Grüße aus Köln."
    assert {"INBOX", "UNREAD"} <= came.labels
    assert abs(came.internal_date - datetime.now(UTC)) < timedelta(minutes=5)


@behaviour("messages.get: the Message-ID of mail that came in")
async def _(stage: Stage) -> None:
    sent = mail(a_word())
    assert header(await stage.arrives(sent), "Message-ID") == sent["Message-ID"]


@behaviour("messages.get: headers and first words, without the text")
async def _(stage: Stage) -> None:
    came = await stage.arrives(mail("Head", text="First words."))
    head = await stage.gmail.message_head(came.id)
    assert (header(head, "Subject"), header(head, "From")) == ("Head", BOB)
    assert head.snippet == "First words."
    assert "UNREAD" in head.labels
    assert not head.payload.get("parts")
    assert not (head.payload.get("body") or {}).get("data")


@behaviour("messages.get: any other header")
async def _(stage: Stage) -> None:
    sent = mail(a_word())
    sent["Auto-Submitted"], sent["List-Unsubscribe"] = "auto-replied", "<https://example.org/leave>"
    came = await stage.arrives(sent)
    assert header(came, "Auto-Submitted") == "auto-replied"
    assert header(came, "List-Unsubscribe") == "<https://example.org/leave>"


@behaviour("messages.get: the tree of MIME parts")
async def _(stage: Stage) -> None:
    sent = mail(a_word(), text="Plain.")
    sent.add_alternative("<p>Rich.</p>", subtype="html")
    sent.add_attachment(b"%PDF-1.4", maintype="application", subtype="pdf", filename="plan.pdf")
    payload = (await stage.arrives(sent)).payload
    alternative, file = payload["parts"]
    assert payload["mimeType"] == "multipart/mixed"
    assert [part["mimeType"] for part in alternative["parts"]] == ["text/plain", "text/html"]
    assert (file["mimeType"], file["filename"]) == ("application/pdf", "plan.pdf")


@behaviour("messages.get: an invitation's text/calendar part")
async def _(stage: Stage) -> None:
    sent = mail(a_word(), text="You are invited.")
    sent.add_alternative("BEGIN:VCALENDAR\nMETHOD:REQUEST\nEND:VCALENDAR\n", subtype="calendar")
    parts = (await stage.arrives(sent)).payload["parts"]
    assert [part["mimeType"] for part in parts] == ["text/plain", "text/calendar"]


@behaviour("messages.get: 404 for what is gone")
async def _(stage: Stage) -> None:
    with pytest.raises(NotFound):
        await stage.gmail.message("19000000000fffff")


@behaviour("threads.get: oldest first; 404 for what is gone")
async def _(stage: Stage) -> None:
    first = await stage.arrives(mail(a_word()))
    second = await stage.arrives(mail(f"Re: {header(first, 'Subject')}", answers=first), first.thread_id)
    assert [message.id for message in await stage.gmail.thread(first.thread_id)] == [first.id, second.id]
    assert [ref.id for ref in await stage.gmail.thread_refs(second.thread_id)] == [first.id, second.id]
    with pytest.raises(NotFound):
        await stage.gmail.thread_refs("19000000000eeeee")


# History


@behaviour("history: nothing new answers with where it stands")
async def _(stage: Stage) -> None:
    here = (await stage.gmail.profile()).history_id
    page = await stage.gmail.history(here)
    assert (page.changes, page.next_page_token, page.history_id) == ((), None, here)


@behaviour("history: mail that came")
async def _(stage: Stage) -> None:
    start = (await stage.gmail.profile()).history_id
    came = await stage.arrives(mail(a_word()))
    added = [change for change in await stage.changes_after(start) if change.kind == "added"]
    assert [(change.message_id, change.thread_id) for change in added] == [(came.id, came.thread_id)]


@behaviour("history: labels added and removed, by name")
async def _(stage: Stage) -> None:
    came = await stage.arrives(mail(a_word()))
    start = (await stage.gmail.profile()).history_id
    await stage.gmail.modify_labels(came.id, add=["STARRED"])
    await stage.gmail.modify_labels(came.id, remove=["UNREAD"])
    changes = await stage.changes_after(start)
    assert [(change.kind, *change.labels) for change in changes] == [
        ("labels_added", "STARRED"),
        ("labels_removed", "UNREAD"),
    ]


@behaviour("history: what was deleted")
async def _(stage: Stage) -> None:
    _, draft_id = await a_reply(stage)
    message_id = (await stage.gmail.draft(draft_id)).message_id
    start = (await stage.gmail.profile()).history_id
    await stage.gmail.delete_draft(draft_id)
    assert [(change.kind, change.message_id) for change in await stage.changes_after(start)] == [
        ("deleted", message_id)
    ]


@behaviour("history: pages, oldest first")
async def _(stage: Stage) -> None:
    start = (await stage.gmail.profile()).history_id
    came = [(await stage.arrives(mail(a_word()))).id for _ in range(3)]
    found: list[str] = []
    query: dict[str, Any] = {"startHistoryId": start, "maxResults": 2}
    for _ in range(3):
        page = stage.ask("GET", f"{ME}/history", **query)
        found += [entry["message"]["id"] for record in page.get("history", ()) for entry in record["messagesAdded"]]
        if "nextPageToken" not in page:
            break
        query["pageToken"] = page["nextPageToken"]
    assert (found, "pageToken" in query) == (came, True)


@behaviour("history: 404 for a point that is too old")
async def _(stage: Stage) -> None:
    with pytest.raises(NotFound):
        await stage.gmail.history(0)


# Writing


@behaviour("drafts.create: kept in its thread, found again, with its text")
async def _(stage: Stage) -> None:
    asked, draft_id = await a_reply(stage, text="Friday is fine.")
    draft = await stage.gmail.draft(draft_id)
    assert draft_id in [ref.id for ref in await stage.gmail.drafts()]
    assert draft.thread_id == asked.thread_id
    assert draft.payload is not None
    assert base64.urlsafe_b64decode(draft.payload["body"]["data"]).decode().strip() == "Friday is fine."


@behaviour("drafts.send: sent in its thread, and no draft any more")
async def _(stage: Stage) -> None:
    asked, draft_id = await a_reply(stage)
    ref = await stage.gmail.send_draft(draft_id)
    sent = await stage.gmail.message(ref.id)
    assert ref.thread_id == asked.thread_id
    assert ("SENT" in sent.labels, "DRAFT" in sent.labels) == (True, False)
    assert header(sent, "In-Reply-To") == header(asked, "Message-ID")
    with pytest.raises(NotFound):
        await stage.gmail.draft(draft_id)


@behaviour("drafts.send: with a content, as that, whatever the draft holds by then")
async def _(stage: Stage) -> None:
    asked, draft_id = await a_reply(stage, text="Saturday is better.")
    held = (await stage.gmail.raw_draft(draft_id)).raw or b""
    raw = held.replace(b"Saturday is better.", b"Friday is fine.")
    assert raw != held
    ref = await stage.gmail.send_draft(draft_id, raw, asked.thread_id)
    sent = await stage.gmail.message(ref.id)
    assert base64.urlsafe_b64decode(f"{sent.payload['body']['data']}==").decode().strip() == "Friday is fine."
    assert (ref.thread_id, "SENT" in sent.labels) == (asked.thread_id, True)
    with pytest.raises(NotFound):
        await stage.gmail.draft(draft_id)


@behaviour("drafts.send: 404 or 400 to a repeat, and nothing sent twice")
async def _(stage: Stage) -> None:
    asked, draft_id = await a_reply(stage)
    await stage.gmail.send_draft(draft_id)
    with pytest.raises((NotFound, Refused)):
        await stage.gmail.send_draft(draft_id)
    assert len(await stage.gmail.thread_refs(asked.thread_id)) == 2


@behaviour("drafts.send: the sent mail appears in the history")
async def _(stage: Stage) -> None:
    _, draft_id = await a_reply(stage)
    start = (await stage.gmail.profile()).history_id
    sent = await stage.gmail.send_draft(draft_id)
    brings = [c for c in await stage.changes_after(start) if c.kind in ("added", "labels_added") and "SENT" in c.labels]
    assert sent.id in [change.message_id for change in brings]


@behaviour("drafts.send: the Message-ID is Gmail's own")
async def _(stage: Stage) -> None:
    answer = mail(a_word(), from_=ADDRESS, to=BOB)
    draft = await stage.gmail.create_draft(answer.as_bytes(), None)
    sent = await stage.gmail.message((await stage.gmail.send_draft(draft.id)).id)
    assert header(sent, "Message-ID") not in ("", answer["Message-ID"])


@behaviour("drafts.delete: gone, and nothing sent")
async def _(stage: Stage) -> None:
    asked, draft_id = await a_reply(stage)
    await stage.gmail.delete_draft(draft_id)
    await stage.gmail.delete_draft(draft_id)
    assert draft_id not in [ref.id for ref in await stage.gmail.drafts()]
    assert len(await stage.gmail.thread_refs(asked.thread_id)) == 1


@behaviour("sending: 404 for a thread that is not there")
async def _(stage: Stage) -> None:
    with pytest.raises(NotFound):
        await stage.gmail.create_draft(mail(a_word(), from_=ADDRESS, to=BOB).as_bytes(), "19000000000fffff")


@behaviour("sending: 400 without a recipient")
async def _(stage: Stage) -> None:
    draft = await stage.gmail.create_draft(mail(a_word(), from_=ADDRESS, to="").as_bytes(), None)
    with pytest.raises(Refused):
        await stage.gmail.send_draft(draft.id)


@behaviour("sending: another subject begins a new thread")
async def _(stage: Stage) -> None:
    asked, draft_id = await a_reply(stage, subject=a_word())
    assert (await stage.gmail.send_draft(draft_id)).thread_id != asked.thread_id


@behaviour("messages.modify: may be repeated")
async def _(stage: Stage) -> None:
    came = await stage.arrives(mail(a_word()))
    for _ in range(2):
        await stage.gmail.modify_labels(came.id, add=["STARRED"], remove=["UNREAD"])
    labels = (await stage.gmail.message(came.id)).labels
    assert ("STARRED" in labels, "UNREAD" in labels) == (True, False)


@behaviour("messages.modify: 400 for a label that is not there")
async def _(stage: Stage) -> None:
    came = await stage.arrives(mail(a_word()))
    with pytest.raises(Refused):
        await stage.gmail.modify_labels(came.id, add=["Label_999"])


@behaviour("labels: created, listed, put on mail")
async def _(stage: Stage) -> None:
    name = f"Assistant/{a_word()}"
    made = stage.ask("POST", f"{ME}/labels", {"name": name})
    listed = {label["name"]: label["id"] for label in stage.ask("GET", f"{ME}/labels")["labels"]}
    came = await stage.arrives(mail(a_word()))
    await stage.gmail.modify_labels(came.id, add=[made["id"]])
    assert listed[name] == made["id"]
    assert made["id"] in (await stage.gmail.message(came.id)).labels


@behaviour("labels: 409 for a name that is taken")
async def _(stage: Stage) -> None:
    name = a_word()
    stage.ask("POST", f"{ME}/labels", {"name": name})
    stage.ask("POST", f"{ME}/labels", {"name": name}, expected=409)


@behaviour("sending: what goes to oneself comes in")
async def _(stage: Stage) -> None:
    draft = await stage.gmail.create_draft(mail(a_word(), from_=ADDRESS).as_bytes(), None)
    sent = await stage.gmail.message((await stage.gmail.send_draft(draft.id)).id)
    assert {"SENT", "INBOX", "UNREAD"} <= sent.labels


@behaviour("sendAs: the default address")
async def _(stage: Stage) -> None:
    assert [entry.address for entry in await stage.gmail.send_as() if entry.default] == [ADDRESS]


@behaviour("sendAs: others, verified or not")
async def _(stage: Stage) -> None:
    verified, unverified = an_alias(stage, "example.com"), an_alias(stage, "example.net")
    found = {entry.address: entry for entry in await stage.gmail.send_as()}
    assert (found[ADDRESS].primary, found[ADDRESS].verified) == (True, True)
    assert (found[verified].primary, found[verified].verified, found[verified].name) == (False, True, "Office")
    assert not found[unverified].verified


@behaviour("sending: From is a verified address, or Gmail puts the account's own in its place")
async def _(stage: Stage) -> None:
    verified, unverified = an_alias(stage, "example.com"), an_alias(stage, "example.net")
    for address, expected in ((verified, verified), (unverified, ADDRESS), ("mallory@example.org", ADDRESS)):
        draft = await stage.gmail.create_draft(mail(a_word(), from_=f"Office <{address}>", to=BOB).as_bytes(), None)
        sent = await stage.gmail.message((await stage.gmail.send_draft(draft.id)).id)
        assert parseaddr(header(sent, "From"))[1] == expected


def an_alias(stage: Stage, domain: str) -> str:
    address = f"{a_word()}@{domain}".lower()
    stage.ask("POST", f"{ME}/settings/sendAs", {"sendAsEmail": address, "displayName": "Office"})
    return address


# Calendar


@behaviour("events.insert: under an id of ours, found by it")
async def _(stage: Stage) -> None:
    event_id = an_event_id()
    made = await stage.calendar.insert(event_id, **{**an_hour("Plan"), "attendees": ["bob@example.org"]})
    found = await stage.calendar.event(event_id)
    assert made.id == found.id == event_id
    assert (found.summary, found.start, found.end) == ("Plan", NINE, NINE + timedelta(hours=1))
    assert "bob@example.org" in found.attendees


@behaviour("events.insert: 409 for an id that is taken")
async def _(stage: Stage) -> None:
    event_id = an_event_id()
    await stage.calendar.insert(event_id, **an_hour("Plan"))
    with pytest.raises(Exists):
        await stage.calendar.insert(event_id, **an_hour("Plan"))


@behaviour("events.insert: 400 for a bad id, a bad sendUpdates, an end before the start")
async def _(stage: Stage) -> None:
    times = on_the_wire()
    stage.ask("POST", EVENTS, {"id": "WXYZ!", **times}, expected=400)
    stage.ask("POST", EVENTS, times, sendUpdates="perhaps", expected=400)
    stage.ask("POST", EVENTS, {"start": times["end"], "end": times["start"]}, expected=400)


@behaviour("events.patch: changes only what it names")
async def _(stage: Stage) -> None:
    body = {"summary": "Plan", "description": "Agenda", "location": "Room 1", **on_the_wire()}
    event_id = stage.ask("POST", EVENTS, body)["id"]
    people = ["bob@example.org", "eve@example.org"]
    await stage.calendar.patch(event_id, summary="Review", attendees=people)
    start = NINE + timedelta(hours=3)
    await stage.calendar.patch(event_id, start=start, end=start + timedelta(hours=1))
    after = await stage.calendar.event(event_id)
    assert (after.summary, after.description, after.location) == ("Review", "Agenda", "Room 1")
    assert (after.start, after.end) == (start, start + timedelta(hours=1))
    assert set(after.attendees) - {ADDRESS} == set(people)


@behaviour("events.patch: who stays invited keeps their answer")
async def _(stage: Stage) -> None:
    guest = {"email": "bob@example.org", "responseStatus": "accepted"}
    event_id = stage.ask("POST", EVENTS, {"summary": "Plan", "attendees": [guest], **on_the_wire()})["id"]
    await stage.calendar.patch(event_id, attendees=["eve@example.org", "bob@example.org"])
    people = stage.ask("GET", f"{EVENTS}/{event_id}")["attendees"]
    answers = {person["email"]: person.get("responseStatus", "needsAction") for person in people}
    assert answers == {"bob@example.org": "accepted", "eve@example.org": "needsAction"}


@behaviour("events.patch: 412 for an event that has changed since it was read")
async def _(stage: Stage) -> None:
    read = await stage.calendar.insert(an_event_id(), **an_hour("Plan"))
    now = await stage.calendar.patch(read.id, etag=read.etag, summary="Board")
    with pytest.raises(Refused) as refused:
        await stage.calendar.patch(read.id, etag=read.etag, summary="Lunch")
    assert refused.value.code == 412
    assert (await stage.calendar.patch(read.id, etag=now.etag, location="Room 1")).summary == "Board"


@behaviour("events.patch: from hours to whole days")
async def _(stage: Stage) -> None:
    made = stage.ask("POST", EVENTS, {"summary": "Plan", **on_the_wire()})
    await stage.calendar.patch(made["id"], start=NINE.date(), end=NINE.date() + timedelta(days=1))
    after = await stage.calendar.event(made["id"])
    assert (after.all_day, after.start, after.summary) == (True, NINE.date(), "Plan")


@behaviour("events.get: a deleted event is not there")
async def _(stage: Stage) -> None:
    event_id = an_event_id()
    await stage.calendar.insert(event_id, **an_hour("Plan"))
    stage.ask("DELETE", f"{EVENTS}/{event_id}", expected=204)
    with pytest.raises(NotFound):
        await stage.calendar.event(event_id)


@behaviour("events.list: what touches the asked time, by start")
async def _(stage: Stage) -> None:
    word, day = a_word(), NINE + timedelta(days=30)
    for hour in (3, 0, 1):
        start = day + timedelta(hours=hour)
        times = {
            "start": {"dateTime": start.isoformat()},
            "end": {"dateTime": (start + timedelta(hours=1)).isoformat()},
        }
        stage.ask("POST", EVENTS, {"summary": f"{word} {hour}", **times})
    found = await stage.calendar.events(day + timedelta(minutes=30), day + timedelta(hours=3))
    assert [event.summary for event in found if event.summary.startswith(word)] == [f"{word} 0", f"{word} 1"]


@behaviour("events.list: all-day events have dates")
async def _(stage: Stage) -> None:
    word, day = a_word(), (NINE + timedelta(days=40)).date()
    times = {"start": {"date": day.isoformat()}, "end": {"date": (day + timedelta(days=1)).isoformat()}}
    stage.ask("POST", EVENTS, {"summary": word, **times})
    around = NINE + timedelta(days=40)
    [event] = [e for e in await stage.calendar.events(around, around + timedelta(hours=1)) if e.summary == word]
    assert (event.all_day, event.start, isinstance(event.start, date)) == (True, day, True)


@behaviour("events.list: each instance of a recurring event, over the change of the clocks")
async def _(stage: Stage) -> None:
    word, zone = a_word(), ZoneInfo(TIMEZONE)
    start = datetime(2027, 3, 27, 9, tzinfo=zone)  # the clocks go forward on the 28th
    daily = {"summary": word, "recurrence": ["RRULE:FREQ=DAILY;COUNT=3"], **on_the_wire(start)}
    stage.ask("POST", EVENTS, daily)
    found = [e for e in await stage.calendar.events(start, start + timedelta(days=5)) if e.summary == word]
    assert [event.start.astimezone(zone).hour for event in found if isinstance(event.start, datetime)] == [9, 9, 9]


@behaviour("events.list: 400 for an order that needs single events")
async def _(stage: Stage) -> None:
    stage.ask("GET", EVENTS, orderBy="startTime", expected=400)


@behaviour("the calendar's timezone")
async def _(stage: Stage) -> None:
    assert await stage.calendar.timezone() == TIMEZONE


@behaviour("freebusy: what is taken")
async def _(stage: Stage) -> None:
    day = NINE + timedelta(days=50)
    await stage.calendar.insert(an_event_id(), **an_hour("Plan", day))
    asked = {
        "timeMin": day.isoformat(),
        "timeMax": (day + timedelta(hours=2)).isoformat(),
        "items": [{"id": "primary"}],
    }
    [busy] = stage.ask("POST", "/calendar/v3/freeBusy", asked)["calendars"]["primary"]["busy"]
    assert datetime.fromisoformat(busy["start"]) == day


# Logging in


@behaviour("an access token that nobody gave out: 401")
async def _(stage: Stage) -> None:
    for path in (f"{ME}/messages", EVENTS):
        assert stage.http.get(path, headers={"authorization": "Bearer guessed"}).status_code == 401


@behaviour("a refresh token that nobody gave out: invalid_grant")
async def _(stage: Stage) -> None:
    stranger = stage.log_in(refresh_token="guessed")
    with pytest.raises(Revoked):
        await stranger.gmail.list_messages()
    assert stage.refresh(refresh_token="guessed").json()["error"] == "invalid_grant"


@behaviour("a client secret that is wrong: invalid_client")
async def _(stage: Stage) -> None:
    assert stage.refresh(client_secret="guessed").json().get("error") == "invalid_client"


def consent(stage: Stage, scope: str) -> dict[str, str]:
    """What the person's browser brings back, and the verifier that belongs to it (PKCE, RFC 7636)."""
    verifier = secrets.token_urlsafe(48)
    asked = {
        "client_id": stage.login["client_id"],
        "redirect_uri": REDIRECT,
        "response_type": "code",
        "scope": scope,
        "state": "state",
        "code_challenge": base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("="),
        "code_challenge_method": "S256",
    }
    page = stage.http.get("/o/oauth2/v2/auth", params=asked)
    assert page.status_code == 200, page.text[:200]
    agreed = agree(stage.http, str(page.url))
    assert agreed.status_code == 302, agreed.text[:200]
    brought = parse_qs(urlsplit(agreed.headers["location"]).query)
    assert brought["state"] == ["state"]
    return {"code": brought["code"][0], "code_verifier": verifier}


def redeemed(stage: Stage, **answer: str) -> dict[str, str]:
    form = {"grant_type": "authorization_code", "redirect_uri": REDIRECT, **stage.login, **answer}
    tokens: dict[str, str] = stage.http.post("/token", data=form).json()
    return tokens


@behaviour("logging in by browser: an authorization code, with PKCE")
async def _(stage: Stage) -> None:
    tokens = redeemed(stage, **consent(stage, GMAIL))
    account = stage.log_in(refresh_token=tokens["refresh_token"])
    assert (await account.gmail.profile()).address == ADDRESS
    stolen = consent(stage, GMAIL) | {"code_verifier": "guessed"}
    assert redeemed(stage, **stolen)["error"] == "invalid_grant"


@behaviour("a revoked login: invalid_grant")
async def _(stage: Stage) -> None:
    token = redeemed(stage, **consent(stage, GMAIL))["refresh_token"]
    account = stage.log_in(refresh_token=token)
    await account.gmail.profile()
    stage.http.post("/revoke", data={"token": token})
    with pytest.raises(Revoked):
        await stage.log_in(refresh_token=token).gmail.profile()
    everything = " ".join(scope.uri for scope in SCOPES)
    stage.use(redeemed(stage, **consent(stage, everything))["refresh_token"])  # Google ends all logins of the client


@behaviour("a scope that the person did not grant: 403")
async def _(stage: Stage) -> None:
    token = redeemed(stage, **consent(stage, GMAIL))["refresh_token"]
    with pytest.raises(Refused):
        await stage.log_in(refresh_token=token).calendar.events(NINE, NINE + timedelta(days=1))


# Limits and push


@behaviour("more than 6,000 units in a minute: 429")
async def _(stage: Stage) -> None:
    thread = (await stage.arrives(mail(a_word()))).thread_id
    answers = {stage.http.get(f"{ME}/threads/{thread}", params={"format": "minimal"}).status_code for _ in range(151)}
    assert 429 in answers


@behaviour("users.watch: begins, and says when it ends")
async def _(stage: Stage) -> None:
    answer = stage.ask("POST", f"{ME}/watch", {"topicName": "projects/p/topics/t", "labelIds": ["INBOX"]})
    assert int(answer["expiration"]) > datetime.now(UTC).timestamp() * 1000


# The suite


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with Google(ADDRESS, TIMEZONE) as google:
        yield Stage(google)


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(("name", "double"), list(cases("sandbox")))
async def test_sandbox(name: str, double: Double, stage: Stage, record_property: tables.Record) -> None:
    await check(name, double, stage, record_property)


def test_the_gaps_name_behaviours_that_are_asked_for() -> None:
    assert set(GAPS) <= set(BEHAVIOURS)


def test_contributors_are_told_what_no_double_shows() -> None:
    told = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text()
    _, _, after = told.partition("No test stands behind these of Google's behaviours")
    listed = re.findall(r"^- `(.+)`$", after.partition("\n## ")[0], re.MULTILINE)
    assert listed == [name for name, gaps in GAPS.items() if set(gaps) == set(get_args(Double))]
