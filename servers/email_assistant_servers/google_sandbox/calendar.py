"""Google Calendar's API, version 3, over the calendars (https://developers.google.com/workspace/calendar/api)."""

from datetime import UTC, datetime
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo

from fastapi import APIRouter, Body, Depends, Header, Query, Request

from . import oauth
from .calendars import Calendars
from .errors import ApiError, invalid, not_found
from .events import Event, SandboxCalendar

_MOST_RESULTS = 2500
_MOST_CALENDARS = 250
_LACKING = (
    *("q", "syncToken", "updatedMin", "iCalUID", "eventTypes"),
    *("privateExtendedProperty", "sharedExtendedProperty"),
)


async def _calendars(request: Request) -> Calendars:
    calendars: Calendars = request.app.state.calendars
    return calendars


Theirs = Annotated[Calendars, Depends(_calendars)]


async def _named(calendars: Theirs, calendar_id: str) -> SandboxCalendar:
    return calendars.find(calendar_id)


Named = Annotated[SandboxCalendar, Depends(_named)]
Json = Annotated[dict[str, Any], Body()]
SendUpdates = Annotated[Literal["all", "externalOnly", "none"], Query(alias="sendUpdates")]
IfMatch = Annotated[str | None, Header(alias="If-Match")]
TimeZone = Annotated[str | None, Query(alias="timeZone")]

router = APIRouter(prefix="/calendar/v3", dependencies=[Depends(oauth.authorize)])


@router.get("/calendars/{calendar_id}")
def get_calendar(calendar: Named) -> dict[str, Any]:
    return _resource(calendar)


@router.post("/calendars")
def insert_calendar(calendars: Theirs, body: Json) -> dict[str, Any]:
    return _resource(calendars.create(body))


@router.get("/users/me/calendarList")
def list_calendars(
    calendars: Theirs,
    limit: Annotated[int, Query(alias="maxResults", ge=1)] = 100,
    token: Annotated[int, Query(alias="pageToken", ge=0)] = 0,
    hidden: Annotated[bool, Query(alias="showHidden")] = False,
) -> dict[str, Any]:
    entries, size = calendars.entries(hidden=hidden), min(limit, _MOST_CALENDARS)
    answer: dict[str, Any] = {"kind": "calendar#calendarList", "items": entries[token : token + size]}
    return answer | ({"nextPageToken": str(token + size)} if len(entries) > token + size else {})


@router.patch("/users/me/calendarList/{calendar_id}")
def patch_entry(calendars: Theirs, calendar_id: str, body: Json) -> dict[str, Any]:
    return calendars.change_entry(calendar_id, body)


@router.get("/users/me/settings/{setting}")
def get_setting(calendars: Theirs, setting: str) -> dict[str, Any]:
    """One setting; there is only `timezone`."""
    if setting != "timezone":
        raise not_found("Not Found")
    return {"kind": "calendar#setting", "id": setting, "value": calendars.primary.zone.key}


@router.post("/freeBusy")
def query_free_busy(calendars: Theirs, body: Json) -> dict[str, Any]:
    """When the person is busy, in UTC unless the request names a timezone."""
    after, before = _moment(body.get("timeMin"), "timeMin"), _moment(body.get("timeMax"), "timeMax")
    if before <= after:
        raise invalid("The specified time range is empty.", "timeRangeEmpty")
    zone = _zone(body.get("timeZone")) or UTC
    busy: dict[str, Any] = {}
    for item in body.get("items") or []:
        calendar_id = str(item.get("id"))
        try:
            spans = calendars.find(calendar_id).busy(after, before)
        except ApiError as refused:
            busy[calendar_id] = {"errors": [{"domain": "global", "reason": refused.reason}], "busy": []}
            continue
        busy[calendar_id] = {
            "busy": [
                {"start": _written(span.start.astimezone(zone)), "end": _written(span.end.astimezone(zone))}
                for span in spans
            ]
        }
    return {
        "kind": "calendar#freeBusy",
        "timeMin": _written(after.astimezone(UTC)),
        "timeMax": _written(before.astimezone(UTC)),
        "calendars": busy,
    }


@router.get("/calendars/{calendar_id}/events")
def list_events(
    request: Request,
    calendar: Named,
    time_min: Annotated[str | None, Query(alias="timeMin")] = None,
    time_max: Annotated[str | None, Query(alias="timeMax")] = None,
    single: Annotated[bool, Query(alias="singleEvents")] = False,
    order: Annotated[Literal["startTime", "updated"] | None, Query(alias="orderBy")] = None,
    limit: Annotated[int, Query(alias="maxResults", ge=1)] = 250,
    token: Annotated[int, Query(alias="pageToken", ge=0)] = 0,
    cancelled: Annotated[bool, Query(alias="showDeleted")] = False,
    time_zone: TimeZone = None,
) -> dict[str, Any]:
    """Events in a span of time. Parameters that would change the result but aren't known here are refused."""
    for name in _LACKING:
        if name in request.query_params:
            raise invalid(f"The sandbox does not know the parameter {name}.")
    if order == "startTime" and not single:
        raise invalid("The requested ordering is not available for the particular query.", "invalid")
    after = _moment(time_min, "timeMin") if time_min else None
    before = _moment(time_max, "timeMax") if time_max else None
    if after and before and before <= after:
        raise invalid("The specified time range is empty.", "timeRangeEmpty")
    size = min(limit, _MOST_RESULTS)
    found = calendar.between(
        after, before, cancelled=cancelled, by_updated=order == "updated", limit=size + 1, offset=token
    )
    answer: dict[str, Any] = {
        "kind": "calendar#events",
        "summary": calendar.summary,
        "timeZone": calendar.zone.key,
        "accessRole": "owner",
        "items": [calendar.shown(event, _zone(time_zone)) for event in found[:size]],
    }
    return answer | ({"nextPageToken": str(token + size)} if len(found) > size else {})


@router.post("/calendars/{calendar_id}/events")
def insert_event(
    calendar: Named,
    body: Json,
    send_updates: SendUpdates = "none",
    conference: Annotated[int, Query(alias="conferenceDataVersion", ge=0, le=1)] = 0,
) -> Event:
    """Add an event. Guests get no mail whatever `sendUpdates` says: nothing leaves the machine."""
    return calendar.shown(calendar.insert(body, conference=conference == 1))


@router.get("/calendars/{calendar_id}/events/{event_id}")
def get_event(calendar: Named, event_id: str, time_zone: TimeZone = None) -> Event:
    return calendar.shown(calendar.get(event_id), _zone(time_zone))


@router.patch("/calendars/{calendar_id}/events/{event_id}")
def patch_event(
    calendar: Named, event_id: str, body: Json, if_match: IfMatch = None, send_updates: SendUpdates = "none"
) -> Event:
    return calendar.shown(calendar.patch(event_id, body, if_match))


@router.put("/calendars/{calendar_id}/events/{event_id}")
def update_event(
    calendar: Named, event_id: str, body: Json, if_match: IfMatch = None, send_updates: SendUpdates = "none"
) -> Event:
    return calendar.shown(calendar.replace(event_id, body, if_match))


@router.delete("/calendars/{calendar_id}/events/{event_id}", status_code=204)
def delete_event(calendar: Named, event_id: str, if_match: IfMatch = None, send_updates: SendUpdates = "none") -> None:
    calendar.cancel(event_id, if_match)


def _resource(calendar: SandboxCalendar) -> dict[str, Any]:
    return {"kind": "calendar#calendar", "id": calendar.id, "summary": calendar.summary, "timeZone": calendar.zone.key}


def _moment(text: object, name: str) -> datetime:
    try:
        moment = datetime.fromisoformat(str(text))
    except ValueError:
        raise invalid(f"Invalid value for {name}: {text}", "badRequest") from None
    if moment.tzinfo is None:  # "Must be an RFC3339 timestamp with mandatory time zone offset"
        raise invalid(f"{name} needs a time zone offset.", "badRequest")
    return moment


def _zone(name: str | None) -> ZoneInfo | None:
    try:
        return ZoneInfo(name) if name else None
    except (ValueError, KeyError, OSError):
        raise invalid(f"Invalid time zone: {name}") from None


def _written(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")
