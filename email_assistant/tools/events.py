"""`schedule_meeting_tool`: an event in the calendar, whose id is ours, so that it can't be made twice; and
`update_event` of our own calendar server as a chat proposes it: an id says nothing to the person who is asked, so
the call says which event it changes, and who would be invited and who no longer."""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from functools import partial
from typing import Any, Final
from uuid import UUID
from zoneinfo import ZoneInfo

from mcp import types
from pydantic import Field

from email_assistant.accounts.accounts import Accounts
from email_assistant.db.pool import Connection, Pool, fetched
from email_assistant.gate.call import Labels
from email_assistant.google.calendar import PRIMARY, Calendar, Event, skipped
from email_assistant.google.errors import Ambiguous, Deleted, Exists, GoogleError, NotFound, RateLimited, Refused, said
from email_assistant.mail.address import is_valid_address
from email_assistant.mail.prompt import one_line
from email_assistant.outgoing.effects import Expect, Ledger
from email_assistant.outgoing.entry import Effect
from email_assistant.tools.check_calendar import in_line, is_itself, tell_once, told
from email_assistant.tools.mcp.pool import Servers
from email_assistant.tools.mcp.tool import McpTool
from email_assistant.tools.own.mailbox import Mailbox
from email_assistant.tools.spec import (
    MEETING,
    Arguments,
    Call,
    Conflicts,
    Review,
    StringList,
    Tool,
    ToolError,
    ToolSpec,
    in_one_spelling,
)
from email_assistant.tools.times import MeetingTime, moment

UPDATE_EVENT: Final = "update_event"
EVENT_NOW: Final = "event_now"  # the argument that says what the event is, for which alone the call was approved
SAID: Final = (EVENT_NOW, "invites", "disinvites")  # arguments that say what a call is about; nobody fills them in
CHANGED: Final = "the event is not as it was shown any more: it was changed since"
_LONGEST_TITLE: Final = 1000


class ScheduleMeeting(Arguments):
    attendees: StringList
    title: str = Field(min_length=1)
    start_time: datetime
    end_time: datetime
    organizer_email: str | None = None
    timezone: str | None = None


SPEC = ToolSpec(
    name=MEETING,
    description="Put a meeting in the calendar and invite the attendees, at a time that is free; reply as well.",
    parameters={
        "properties": {
            "attendees": {"type": "array", "items": {"type": "string"}},
            "title": {"type": "string"},
            "start_time": {"type": "string", "description": "ISO 8601"},
            "end_time": {"type": "string"},
            "organizer_email": {"type": "string"},
            "timezone": {"type": "string", "description": "IANA"},
        },
        "required": ["attendees", "title", "start_time", "end_time"],
    },
    arguments=ScheduleMeeting,
    review=Review("meeting", ("accept", "edit", "ignore", "response")),
)


class ScheduleMeetingTool(Tool):
    spec = SPEC

    def __init__(self, pool: Pool, ledger: Ledger, accounts: Accounts, *, meet_links: bool) -> None:
        self._pool = pool
        self._ledger = ledger
        self._accounts = accounts
        self._meet_links = meet_links

    async def complete(self, run: Mapping[str, Any], arguments: dict[str, Any]) -> dict[str, Any]:
        given = ScheduleMeeting.model_validate(self.spec.parse(arguments).model_dump())
        if given.organizer_email and given.organizer_email.lower() != run["address"]:
            raise ToolError(f"organizer_email: the organiser is {run['address']}")
        if wrong := [a for a in given.attendees if not is_valid_address(a)]:
            raise ToolError(f"not an e-mail address: {', '.join(wrong)}")
        account = await self._accounts.get(UUID(run["account_id"]))
        when = _when(given, account.zone)
        for name, time in (("start_time", given.start_time), ("end_time", given.end_time)):
            if time.tzinfo is None and (why := skipped(time, when.zone)):
                raise ToolError(f"{name}: {why}")
        if (given.start_time.tzinfo is None) != (given.end_time.tzinfo is None):
            raise ToolError("start_time, end_time: give both with a UTC offset, or both without one")
        if given.end_time <= given.start_time:
            raise ToolError("end_time: must be after start_time")
        if when.end <= datetime.now(UTC):
            raise ToolError(f"the time of the meeting is over, it is {moment(datetime.now(when.zone), when.zone)} now")
        return {**arguments, "attendees": given.attendees}

    async def run(self, call: Call, arguments: dict[str, Any]) -> str:
        given = ScheduleMeeting.model_validate(arguments)
        effect = await self._ledger.plan(call.run_id, call.id, self.spec.name, arguments, None, call.place)
        if effect.is_refused:
            raise ToolError(effect.result or "refused")
        if effect.state == "done":
            return effect.result or ""
        expect = None
        if effect.state == "planned":
            shown = await self._shown(call)
            await self._check_as_shown(call, arguments, shown)
            expect = partial(self._check_beside, call, effect, given, shown)
        return await self._ledger.uninterrupted(self._insert(call, effect, given, expect))

    async def meaning(self, run: Mapping[str, Any], arguments: Mapping[str, Any]) -> object:
        given = ScheduleMeeting.model_validate(arguments)
        when = _when(given, (await self._accounts.get(UUID(run["account_id"]))).zone)
        people = sorted(address.lower() for address in given.attendees)
        return [in_one_spelling(given.title), when.start.timestamp(), when.end.timestamp(), people]

    async def conflicts(self, call: Call, arguments: dict[str, Any]) -> Conflicts:
        here = call.account.zone
        when = _when(ScheduleMeeting.model_validate(arguments), here)
        agenda = await call.google.calendar.agenda(when.start.astimezone(here), when.end.astimezone(here))
        invitation = call.run["invitation"]
        return Conflicts(
            [told(event, here) for event in agenda.events if event.busy and not is_itself(event, invitation)],
            list(agenda.calendars),
        )

    async def settle(self, call: Call, effect: Effect) -> None:
        event_id, given = event_id_of(f"{effect.run_id}/{effect.call_id}"), ScheduleMeeting.model_validate(effect.args)
        if await find_event(call.google.calendar, event_id):
            await self._ledger.finish(effect, event_id, f"Meeting scheduled: {given.title}.")
        else:
            await self._ledger.fail(effect, "It was not scheduled.")

    async def _shown(self, call: Call) -> Mapping[str, Any]:
        """What they were shown at that time, whether it could not be read once, and the time now."""
        [row] = await fetched(
            self._pool,
            """select coalesce(array_agg(line) filter (where line is not null), '{}') as shown,
                      coalesce(bool_or(conflicts is null), false) as unread, clock_timestamp() as at
               from inbox_items i left join unnest(i.conflicts) line on true where run_id = %s and call_id = %s""",
            (call.run_id, call.id),
        )
        return row

    async def _check_as_shown(self, call: Call, arguments: dict[str, Any], shown: Mapping[str, Any]) -> None:
        """Raises ToolError: it is over, or something stands in its way, and they were not told; GoogleError."""
        taken = await self._taken(call, arguments, was_unread=shown["unread"])
        over = _when(ScheduleMeeting.model_validate(arguments), call.account.zone).end <= datetime.now(UTC)
        async with self._pool.connection() as conn:
            await _tell_of(conn, call, [each for each in taken if each not in shown["shown"]], is_over=over)

    async def _check_beside(
        self, call: Call, effect: Effect, given: ScheduleMeeting, shown: Mapping[str, Any], conn: Connection
    ) -> None:
        """What the calendar may not have told when it was looked at: other meetings of ours that are being booked, or
        were since. Raises ToolError: one is at the same time, and they were not told."""
        cursor = await conn.execute(
            """select e.args from effects e join runs r on r.id = e.run_id
               where e.account_id = %s and e.tool = %s and e.key <> %s
               and (e.state = 'done' and e.finished_at > %s
                    or e.state = 'started' and r.state not in ('done', 'failed', 'superseded'))
               order by e.started_at""",
            (effect.account_id, effect.tool, effect.key, shown["at"]),
        )
        others = [ScheduleMeeting.model_validate(row["args"]) for row in await cursor.fetchall()]
        here = call.account.zone
        when = _when(given, here)
        lines = [
            in_line(its.start, its.end, other.title, here)
            for other in others
            if (its := _when(other, here)).start < when.end and when.start < its.end
        ]
        await _tell_of(conn, call, [each for each in lines if each not in shown["shown"]])

    async def _taken(self, call: Call, arguments: dict[str, Any], *, was_unread: bool) -> list[str]:
        """What stands in its way now. A calendar that could not be read when they agreed holds nothing up."""
        try:
            return (await self.conflicts(call, arguments)).events
        except GoogleError:
            if was_unread:
                return []
            raise

    async def _insert(self, call: Call, effect: Effect, given: ScheduleMeeting, expect: Expect | None) -> str:
        calendar, event_id = call.google.calendar, event_id_of(f"{effect.run_id}/{effect.call_id}")
        home = call.account.zone
        if effect.state == "started" and (event := await find_event(calendar, event_id)):
            return await self._ledger.finish(effect, event_id, scheduled(given, home, event))
        await self._ledger.start(effect, call.lease, expect=expect)
        try:
            event = await insert(calendar, event_id, given, home, meet=self._meet_links)
        except (RateLimited, Refused) as refusal:
            if isinstance(refusal, RateLimited):
                await self._ledger.rate_limited(effect, refusal)
            raise ToolError(
                await self._ledger.fail(effect, f"Google Calendar refused it: {said(refusal)}")
            ) from refusal
        return await self._ledger.finish(effect, event_id, scheduled(given, home, event))


async def _tell_of(conn: Connection, call: Call, taken: Sequence[str], *, is_over: bool = False) -> None:
    if taken:
        await tell_once(conn, call, f"at that time there is now: {', '.join(taken)}")
    elif is_over:
        await tell_once(conn, call, "it is over by now")


def event_id_of(key: str) -> str:
    """The id of the event that is made once under a key.

    Google takes 5 to 1,024 characters of base32hex, in lower case and unpadded."""
    digest = hashlib.sha256(key.encode()).digest()[:20]
    return base64.b32hexencode(digest).decode().rstrip("=").lower()


async def find_event(calendar: Calendar, event_id: str) -> Event | None:
    try:
        return await calendar.event(event_id)
    except NotFound:
        return None


async def insert(
    calendar: Calendar, event_id: str, given: ScheduleMeeting, home: ZoneInfo, *, meet: bool
) -> Event | None:
    """Make the event, unless it was made under this id before; None if the person has deleted that. Raises Ambiguous:
    it may have been made, or is said to be, and can't be found; Refused."""
    when = _when(given, home)
    try:
        return await calendar.insert(
            event_id,
            summary=given.title,
            start=when.start,
            end=when.end,
            timezone=when.zone.key,
            attendees=given.attendees,
            meet=meet,
        )
    except Exists as exists:
        try:
            return await calendar.event(event_id)
        except Deleted:
            return None
        except NotFound:
            raise Ambiguous(str(exists)) from None
    except Ambiguous:
        if event := await find_event(calendar, event_id):
            return event
        raise


def scheduled(given: ScheduleMeeting, home: ZoneInfo, event: Event | None) -> str:
    """What the model is told of a meeting that is in the calendar."""
    when = _when(given, home)
    link = f" Video link: {event.meet_link}" if event and event.meet_link else ""
    return f"Meeting scheduled: {given.title}, {when.start.isoformat()} to {when.end.isoformat()}.{link}"


def _when(given: ScheduleMeeting, home: ZoneInfo) -> MeetingTime:
    try:
        return MeetingTime.of(given.start_time, given.end_time, given.timezone, home)
    except ValueError as wrong:
        raise ToolError(f"timezone: {wrong}") from None
    except OverflowError:
        raise ToolError("start_time, end_time: the first and the last day that there are are none everywhere") from None


class UpdateEventTool(McpTool):
    def __init__(
        self, servers: Servers, ledger: Ledger, server: str, told: types.Tool, labels: Labels | None, mailbox: Mailbox
    ) -> None:
        super().__init__(servers, ledger, server, told, labels)
        self._mailbox = mailbox

    async def complete(self, run: Mapping[str, Any], arguments: dict[str, Any]) -> dict[str, Any]:
        wanted = {name: value for name, value in arguments.items() if name not in SAID}
        await super().complete(run, wanted)
        async with self._mailbox.visit("read") as visit:
            event = await visit.google.calendar.event(wanted["event_id"], wanted.get("calendar_id") or PRIMARY)
            now = in_words(event, visit.zone)
        if arguments.get(EVENT_NOW, now) != now:
            raise ToolError(CHANGED)
        return {EVENT_NOW: now, **_difference(event.attendees, wanted.get("attendees")), **wanted}

    async def run(self, call: Call, arguments: dict[str, Any]) -> str:
        sent = {name: value for name, value in arguments.items() if name == EVENT_NOW or name not in SAID}
        return await self._send(call, arguments, sent)


def in_words(event: Event, home: ZoneInfo) -> str:
    """Its title, when it is for a person at home in `home`, and all who are invited."""
    title = one_line(event.summary, _LONGEST_TITLE) or "no title"
    people = ", ".join(one_line(address) for address in event.attendees)
    return f"{title}, {_time_of(event, home)}, with {people or 'nobody else'}"


def _time_of(event: Event, home: ZoneInfo) -> str:
    if isinstance(event.start, datetime) and isinstance(event.end, datetime):
        return f"{moment(event.start.astimezone(home), home)} to {moment(event.end.astimezone(home), home)}"
    first, last = _day(event.start), _day(event.end) - timedelta(days=1)
    return f"{first:%a %d %b %Y}" if last <= first else f"{first:%a %d %b %Y} to {last:%a %d %b %Y}"


def _day(at: datetime | date) -> date:
    return at.date() if isinstance(at, datetime) else at


def _difference(now: Sequence[str], wanted: Sequence[str] | None) -> dict[str, list[str]]:
    """Who would be invited, and who no longer; only what there is."""
    if wanted is None:
        return {}
    before, after = ({address.lower() for address in people} for people in (now, wanted))
    found = {
        "invites": [address for address in wanted if address.lower() not in before],
        "disinvites": [address for address in now if address.lower() not in after],
    }
    return {name: people for name, people in found.items() if people}
