"""`update_event` of our own calendar server as a chat proposes it: an id says nothing to the person who is asked, so
the call says which event it changes, and who would be invited and who no longer."""

from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

from mcp import types

from email_assistant.gate.labels import Labels
from email_assistant.google.calendar import PRIMARY, Event
from email_assistant.mail.prompt import one_line
from email_assistant.outgoing.effects import Ledger
from email_assistant.tools.mcp.pool import Servers
from email_assistant.tools.mcp.tool import McpTool
from email_assistant.tools.meeting_time import moment
from email_assistant.tools.own.mailbox import Mailbox
from email_assistant.tools.spec import Call, ToolError

UPDATE_EVENT: Final = "update_event"
EVENT_NOW: Final = "event_now"  # the argument that says what the event is, for which alone the call was approved
SAID: Final = (EVENT_NOW, "invites", "disinvites")  # arguments that say what a call is about; nobody fills them in
CHANGED: Final = "the event is not as it was shown any more: it was changed since"
_LONGEST_TITLE: Final = 1000


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
    return f"{title}, {_when(event, home)}, with {people or 'nobody else'}"


def _when(event: Event, home: ZoneInfo) -> str:
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
