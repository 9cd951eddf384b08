"""A proposed call as form fields, and what a person made of it as arguments again."""

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal
from zoneinfo import ZoneInfo

from pydantic import BaseModel

from email_assistant.google.calendar import skipped
from email_assistant.inbox.items import Invalid, Item
from email_assistant.mail.address import split_recipients
from email_assistant.tools.registry import Registry
from email_assistant.tools.times import in_zone, moment, read_time, zone_of

FieldKind = Literal["line", "text", "list", "number", "time", "json", "hidden", "said"]
"""One that is said is shown, and not to be filled in."""

_LABELS: Mapping[str, str] = {
    "email_address": "To",
    "additional_recipients": "Cc",
    "response_text": "Text",
    "start_time": "Starts",
    "end_time": "Ends",
    "organizer_email": "Organiser",
}
_SAID_LABELS: Mapping[str, str] = {
    "event_now": "The event now",
    "invites": "Would be invited",
    "disinvites": "Would be invited no longer",
}
_ADDRESSES = ("email_address", "additional_recipients", "attendees", "organizer_email")
_TO = "email_address"
_LONG = ("response_text", "content")
_IDS = ("email_id", "from_address")
"""Arguments that are not theirs to fill in: ids, and what a mail goes from, which the page says besides."""
_MINUTE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:00(\.0+)?)?(Z|[+-]\d\d:\d\d)")
"""A time with its timezone, of which nothing is lost when it is shown to the minute."""


@dataclass(frozen=True, slots=True)
class Field:
    name: str  # the argument's
    label: str
    kind: FieldKind
    value: str  # as the form takes it
    zone: ZoneInfo | None = None  # in which its time is meant; None: it is none
    home: ZoneInfo | None = None  # the account's

    @property
    def told(self) -> str:
        """As a person reads it: a time as it is at home, and beside that as it is where it is written."""
        time = read_time(self.value) if self.zone else None
        return moment(in_zone(time, self.zone), self.home or self.zone) if time and self.zone else self.value

    @property
    def holds_addresses(self) -> bool:
        return self.name in _ADDRESSES

    @property
    def parts(self) -> list[str]:
        """The entries of a list; else the value, if there is one."""
        return _parts(self) if self.kind == "list" else [self.value] if self.value else []


class ProposalForm:
    """
    Args:
        args: the proposed arguments; the form keeps their order.
        model: the tool's arguments; those that were not proposed stand empty at the end. None: its server alone knows
            them, so each is shown by what it holds, and what no field can hold as JSON.
        said: arguments that nobody fills in, as they only say what the call is about.
        home: the account's timezone; fields take times in the call's own, if it has one.
    """

    def __init__(
        self, args: Mapping[str, Any], model: type[BaseModel] | None, home: ZoneInfo, said: Collection[str] = ()
    ) -> None:
        self._args = args
        self.model = model
        self.home = home
        self._said = said
        self._known = model.model_fields if model else {}
        offered = [name for name in self._known if name not in _IDS]
        self.fields = [self._field(name, args.get(name)) for name in dict.fromkeys([*args, *offered])]

    @property
    def zone(self) -> ZoneInfo:
        """The timezone that the fields take times in."""
        return zone_of(self._args.get("timezone")) or self.home

    def filled_with(self, args: Mapping[str, Any]) -> dict[str, str]:
        """What stands in the form's fields when these are the arguments."""
        return {field.name: field.value for field in ProposalForm(args, self.model, self.zone).fields}

    def typed(self, given: Mapping[str, str]) -> list[Field]:
        """The fields as a person filled them in."""
        zone = self._zone_typed(given)
        return [
            replace(field, value=given.get(field.name, field.value), zone=field.zone and zone) for field in self.fields
        ]

    def changed(self, given: Mapping[str, str]) -> list[Field]:
        """Those fields, as they were filled in, that say something else than the proposal; in another timezone, a time
        does."""
        typed = self.typed(given)
        other = [after for before, after in zip(self.fields, typed, strict=True) if _content(before) != _content(after)]
        if not any(field.name == "timezone" for field in other):
            return other
        return [field for field in typed if field in other or (field.kind == "time" and field.value)]

    def read(self, given: Mapping[str, str]) -> dict[str, Any]:
        """The arguments as a person left them. What was not touched is the proposal's own value. Raises Invalid: what
        stands in a field can't be read."""
        touched = {field.name for field in self.changed(given)}
        args = dict(self._args)
        for field in self.typed(given):
            if field.name not in touched:
                continue
            if _content(field) or (field.name in self._known and self._known[field.name].is_required()):
                args[field.name] = self._value(field, given)
            elif isinstance(self._args.get(field.name), list):
                args[field.name] = []  # emptied, which may mean something else than never given
            elif field.name == _TO:
                args[field.name] = ""  # refused where it is taken, as what it is
            else:
                args.pop(field.name, None)
        return args

    def _field(self, name: str, value: Any) -> Field:
        known = _SAID_LABELS if name in self._said else _LABELS
        titled = self._known[name].title if name in self._known else None
        label = known.get(name) or titled or name.replace("_", " ").capitalize()
        kind = self._kind(name, value)
        if kind == "time":
            time = read_time(value)
            return Field(name, label, kind, _wall_time(time, self.zone) if time else "", self.zone, self.home)
        if kind == "json":
            return Field(name, label, kind, json.dumps(value, ensure_ascii=False, indent=2))
        if isinstance(value, list):
            return Field(name, label, kind, ", ".join(map(str, value)))
        text = "" if value is None else str(value).replace("\r\n", "\n")
        return Field(name, label, kind, text)

    def _kind(self, name: str, value: Any) -> FieldKind:
        annotation = self._known[name].annotation if name in self._known else None
        if name in _IDS and self.model:
            return "hidden"
        if name in self._said:
            return "said"
        if annotation is None:
            return _kind_by_value(name, value)
        if isinstance(value, list) or annotation == list[str]:
            return "list"
        if annotation is datetime and (value is None or read_time(value)):
            return "time"
        if annotation is int:
            return "number"
        return "text" if name in _LONG or "\n" in str(value) else "line"

    def _value(self, field: Field, given: Mapping[str, str]) -> Any:
        match field.kind:
            case "list":
                return _parts(field)
            case "time":
                return self._moment(field, given)
            case "json":
                return _read_json(field)
            case "number" if self.model is None:
                return _read_number(field)
            case _:
                return field.value

    def _moment(self, field: Field, given: Mapping[str, str]) -> str:
        """A wall time is meant in the timezone that the form names, unless the proposal left it without an offset."""
        proposed = read_time(self._args.get(field.name))
        zone = self._zone_typed(given)
        time = read_time(field.value)
        if time is None or (proposed is not None and proposed.tzinfo is None):
            return field.value
        if why := skipped(time, zone):
            raise Invalid(f"{field.label}: {why}")
        return time.replace(tzinfo=zone).isoformat()

    def _zone_typed(self, given: Mapping[str, str]) -> ZoneInfo:
        """That in which times are meant once the form is filled in like this."""
        return zone_of(given["timezone"]) or self.home if "timezone" in given else self.zone


def form_of(tools: Registry, item: Item) -> ProposalForm:
    """Of an item's proposal."""
    arguments = tools.arguments("mail" if item.chat is None else "chat", item.action)
    return ProposalForm(item.args, arguments, item.zone, tools.said(item.action))


def _content(field: Field) -> object:
    """What a field says, whatever way a browser sends it: it ends lines of a text with CR LF."""
    match field.kind:
        case "list":
            return _parts(field)
        case "time":
            return read_time(field.value) or field.value
        case _:
            return field.value


def _kind_by_value(name: str, value: Any) -> FieldKind:
    match value:
        case None:
            return "line"
        case str():
            if _MINUTE.fullmatch(value) and read_time(value):
                return "time"
            return "text" if name in _LONG or "\n" in value else "line"
        case int() if not isinstance(value, bool):
            return "number"
        # A list in one line is set apart by commas, so none may stand in an entry.
        case list() if all(isinstance(each, str) and each == each.strip() and "," not in each for each in value):
            return "list"
        case _:
            return "json"


def _read_json(field: Field) -> Any:
    try:
        return json.loads(field.value)
    except ValueError as error:
        raise Invalid(f"{field.label}: this is not JSON: {error}") from None


def _read_number(field: Field) -> int:
    try:
        return int(field.value)
    except ValueError:
        raise Invalid(f"{field.label}: write a whole number") from None


def _parts(field: Field) -> list[str]:
    if field.holds_addresses:
        return split_recipients(field.value)
    return [part.strip() for part in field.value.split(",") if part.strip()]


def _wall_time(time: datetime, zone: ZoneInfo) -> str:
    """In the form that `<input type=datetime-local>` takes."""
    local = time.astimezone(zone) if time.tzinfo else time
    return local.replace(tzinfo=None).isoformat(timespec="seconds" if local.second else "minutes")
