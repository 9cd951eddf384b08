"""Google Calendar, as far as this product needs it: the person's primary calendar."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Final, Literal
from zoneinfo import ZoneInfo

from email_assistant.google.client import Client
from email_assistant.google.errors import NotFound, Refused

_PRIMARY: Final = "primary"
_PAGE: Final = 2500  # Google's maximum

SendUpdates = Literal["all", "externalOnly", "none"]


@dataclass(frozen=True, slots=True)
class Event:
    """One event, or one instance of a recurring one.

    `start` and `end` are aware datetimes, or dates of which `end` is the first day after, when `all_day`. `busy` is
    whether it takes the person's time: neither marked as free nor declined by them.
    """

    id: str
    summary: str
    start: datetime | date
    end: datetime | date
    all_day: bool
    attendees: tuple[str, ...]
    busy: bool
    status: str
    link: str | None


class Calendar:
    """One person's primary calendar. Every method raises the errors of `errors.py`."""

    def __init__(self, client: Client, service: Any) -> None:
        self._client = client
        self._settings = service.settings()
        self._events = service.events()

    async def timezone(self) -> str | None:
        """The person's timezone as an IANA name, None when Google does not tell."""
        sources = (
            (self._settings.get(setting="timezone"), "value"),
            (self._events.list(calendarId=_PRIMARY, maxResults=1), "timeZone"),
        )
        for request, field in sources:
            try:
                answer = await self._client.read(request, dict)
            except (NotFound, Refused):
                continue
            if name := answer.get(field):
                return str(name)
        return None

    async def events(self, start: datetime, end: datetime) -> tuple[Event, ...]:
        """All events that touch the time from `start` to `end`, by start. Raises ValueError for a naive datetime."""
        bounds = {"timeMin": _aware(start).isoformat(), "timeMax": _aware(end).isoformat()}
        found: list[Event] = []
        token: str | None = None
        while True:
            request = self._events.list(
                calendarId=_PRIMARY,
                singleEvents=True,
                orderBy="startTime",
                maxResults=_PAGE,
                pageToken=token,
                **bounds,
            )
            events, token = await self._client.read(request, _event_page)
            found += events
            if token is None:
                return tuple(found)

    async def insert(
        self,
        event_id: str,
        *,
        summary: str,
        start: datetime,
        end: datetime,
        timezone: str,
        attendees: Iterable[str],
        description: str | None = None,
        send_updates: SendUpdates = "all",
    ) -> Event:
        """Create an event under an id of our choice: 5 to 1024 characters of a-v and 0-9.

        Raises Exists when the id is taken, Ambiguous, and ValueError for a naive datetime.
        """
        body: dict[str, Any] = {
            "id": event_id,
            "summary": summary,
            "start": {"dateTime": _aware(start).isoformat(), "timeZone": timezone},
            "end": {"dateTime": _aware(end).isoformat(), "timeZone": timezone},
            "attendees": [{"email": address} for address in attendees],
        }
        if description is not None:
            body["description"] = description
        request = self._events.insert(calendarId=_PRIMARY, body=body, sendUpdates=send_updates)
        return await self._client.write(request, _event)

    async def event(self, event_id: str) -> Event:
        """Raises NotFound when there is no such event, or it was deleted.

        Google keeps a deleted event as "cancelled", with nothing but its id guaranteed
        (https://developers.google.com/workspace/calendar/api/v3/reference/events#status).
        """
        request = self._events.get(calendarId=_PRIMARY, eventId=event_id)
        event = await self._client.read(request, lambda answer: None if _is_cancelled(answer) else _event(answer))
        if event is None:
            raise NotFound(f"{request.methodId}: the event was deleted")
        return event


def _aware(moment: datetime) -> datetime:
    if moment.tzinfo is None:
        raise ValueError("a time without a timezone")
    return moment


def _event_page(answer: dict[str, Any]) -> tuple[list[Event], str | None]:
    events = [_event(item) for item in answer.get("items", ()) if not _is_cancelled(item)]
    return events, answer.get("nextPageToken")


def _is_cancelled(answer: dict[str, Any]) -> bool:
    return answer.get("status") == "cancelled"


def _event(answer: dict[str, Any]) -> Event:
    attendees = answer.get("attendees", ())
    declined = any(person.get("self") and person.get("responseStatus") == "declined" for person in attendees)
    return Event(
        id=answer["id"],
        summary=answer.get("summary", ""),
        start=_time(answer["start"]),
        end=_time(answer["end"]),
        all_day="date" in answer["start"],
        attendees=tuple(person["email"] for person in attendees if "email" in person),
        busy=answer.get("transparency") != "transparent" and not declined,
        status=answer.get("status", "confirmed"),
        link=answer.get("htmlLink"),
    )


def _time(value: dict[str, str]) -> datetime | date:
    if "date" in value:
        return date.fromisoformat(value["date"])
    moment = datetime.fromisoformat(value["dateTime"])
    return moment if moment.tzinfo else moment.replace(tzinfo=ZoneInfo(value["timeZone"]))
