"""What stands in a row that Python has no value for, or that could not be written down again, as the nearest that can.

This program writes none of it. But somebody else may have written to the database, or made the backup that it came
from, and psycopg would fail all that is read together with such a row.
"""

import json
from datetime import UTC, date, datetime
from math import isfinite
from typing import Any
from zoneinfo import ZoneInfo

import psycopg
from psycopg.abc import Buffer
from psycopg.adapt import AdaptersMap
from psycopg.types import datetime as times
from psycopg.types.json import set_json_loads

FIRST, LAST = datetime(1000, 1, 1, tzinfo=UTC), datetime(9000, 1, 1, tzinfo=UTC)
"""What lies beyond, such as Postgres's `infinity`, is read as these: they can be shown in every timezone, and be
reckoned with."""
_DEEPEST = 100  # levels; JSON that is nested deeper, not everybody who is handed it can write down


def read_json(text: str | bytes) -> Any:
    """Raises ValueError: it can't be read, or could not be written down again."""
    try:
        value = json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    if not _is_plain(value, _DEEPEST):
        raise ValueError("it can't be written down again")
    return value


def time_in_json(text: str) -> datetime:
    """A time as Postgres writes it into JSON."""
    try:
        return _within(datetime.fromisoformat(text))
    except ValueError:
        return FIRST if _is_early(text.encode()) else LAST


def zone_named(name: str | None) -> ZoneInfo:
    """The timezone of that name; UTC, if there is none."""
    try:
        return ZoneInfo(name or "UTC")
    except (LookupError, ValueError, OSError):  # unknown, no name at all, or that of a folder
        return ZoneInfo("UTC")


def _is_plain(value: object, levels: int) -> bool:
    match value:
        case dict():
            return levels > 0 and all(_is_plain(each, levels - 1) for each in value.values())
        case list():
            return levels > 0 and all(_is_plain(each, levels - 1) for each in value)
        case float():
            return isfinite(value)
        case _:
            return True


def _json_or_null(text: str | bytes) -> Any:
    try:
        return read_json(text)
    except ValueError:
        return None


def _within(at: datetime) -> datetime:
    return min(max(at, FIRST), LAST)


def storable(value: Any) -> Any:
    """JSON as Postgres takes it: neither NUL nor half a surrogate pair, and mail may hold both."""
    match value:
        case str():
            return value.replace("\0", "").encode("utf-8", "replace").decode()
        case list():
            return [storable(item) for item in value]
        case dict():
            return {key: storable(item) for key, item in value.items()}
        case _:
            return value


class _Time(times.TimestamptzLoader):
    def load(self, data: Buffer) -> datetime:
        try:
            return _within(super().load(data))
        except psycopg.DataError:
            return FIRST if _is_early(data) else LAST


class _BinaryTime(times.TimestamptzBinaryLoader):
    """As LangGraph's store has its times sent."""

    def load(self, data: Buffer) -> datetime:
        try:
            return _within(super().load(data))
        except psycopg.DataError:
            return FIRST if bytes(data)[0] >= 0x80 else LAST  # its sign


class _Date(times.DateLoader):
    def load(self, data: Buffer) -> date:
        try:
            return min(max(super().load(data), FIRST.date()), LAST.date())
        except psycopg.DataError:
            return FIRST.date() if _is_early(data) else LAST.date()


class _WrittenTime(times.DatetimeDumper):
    """Writes the first and the last as what they may stand for, so that another page follows one that ends there."""

    def dump(self, obj: datetime) -> Buffer | None:
        return b"-infinity" if obj == FIRST else b"infinity" if obj == LAST else super().dump(obj)


def _is_early(data: Buffer) -> bool:
    text = bytes(data)
    return text.startswith(b"-") or text.endswith(b"BC")


ADAPTERS = AdaptersMap(psycopg.adapters)  # how our connections read and write values
ADAPTERS.register_loader("timestamptz", _Time)
ADAPTERS.register_loader("timestamptz", _BinaryTime)
ADAPTERS.register_loader("date", _Date)
ADAPTERS.register_dumper(datetime, _WrittenTime)
set_json_loads(_json_or_null, ADAPTERS)
