"""An account as a row of `accounts` says it."""

from collections.abc import Mapping
from dataclasses import fields
from decimal import Decimal
from typing import Annotated, Any, Final

from pydantic import AfterValidator, TypeAdapter

from email_assistant.accounts.account import Account, Identity
from email_assistant.db.values import zone_named

_SPENT = "case when a.spent_until > clock_timestamp() then a.spent_until end as spent_until"
COLUMNS: Final = ", ".join(_SPENT if field.name == "spent_until" else f"a.{field.name}" for field in fields(Account))
"""SQL: what `account_in` reads, of the account `a`."""


def _is_zone(name: str) -> str:
    if zone_named(name).key != name:
        raise ValueError("there is no such timezone")
    return name


_SHAPES: Final[Mapping[str, TypeAdapter[Any]]] = {
    "aliases": TypeAdapter(tuple[Identity, ...] | None),
    "labels": TypeAdapter(dict[str, str]),
    "scopes": TypeAdapter(list[str] | None),
    "timezone": TypeAdapter(Annotated[str, AfterValidator(_is_zone)] | None),
}


def account_in(row: Mapping[str, Any]) -> Account:
    """The account in a row that has `COLUMNS`. What this program never writes is left out, and asked for anew."""
    history_id: Decimal | None = row["history_id"]
    kept = {name: _judged(name, row[name]) for name in _SHAPES}
    known = int(history_id) if history_id is not None and history_id.is_finite() else None
    columns = {field.name: row[field.name] for field in fields(Account)}
    return Account(**{**columns, **kept, "history_id": known})


def _judged(name: str, value: Any) -> Any:
    try:
        return _SHAPES[name].validate_python(value)
    except ValueError:
        return {} if name == "labels" else None
