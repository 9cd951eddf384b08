"""The list: which part of the inbox a person looks at, by the query of its address, which an item's address carries
on; and a row for each mail, with all that is proposed for it."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Literal
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from fastapi import Depends
from pydantic import Field

from email_assistant.accounts.account import Account
from email_assistant.inbox.items import Item
from email_assistant.inbox.listing import Sort, Status, Wanted, position, read_age
from email_assistant.inbox.sentences import asks, in_brief
from email_assistant.tools.spec import Kind
from email_assistant.web.routers import BlankAsNone

Text = Annotated[str | None, BlankAsNone]
Shown = Status | Literal["snoozed", "all"]
Age = Literal["1h", "1d", "1w"]
AGES = [("", "any time"), ("1h", "over an hour"), ("1d", "over a day"), ("1w", "over a week")]
SORTS: Sequence[tuple[Sort, str]] = [("age", "oldest"), ("newest", "newest"), ("urgency", "urgent")]
"""What comes first."""


@dataclass(frozen=True, slots=True)
class Listing:
    """What is listed, and in which order."""

    status: Shown = "pending"
    account: Text = None
    q: Annotated[Annotated[str, Field(max_length=500)] | None, BlankAsNone] = None
    kind: Annotated[Kind | None, BlankAsNone] = None
    older_than: Annotated[Age | None, BlankAsNone] = None
    sort: Sort = "age"

    @property
    def wanted(self) -> Wanted:
        """For `Inbox.page`."""
        return {
            "status": None if self.status == "all" or self.status == "snoozed" else self.status,
            "account": self.account,
            "kind": self.kind,
            "q": self.q,
            "older_than": read_age(self.older_than) if self.older_than else None,
            "sort": self.sort,
            "snoozed": "only" if self.status == "snoozed" else False,
        }

    @property
    def waiting(self) -> Wanted:
        """The same, of what waits."""
        return {**self.wanted, "status": "pending", "snoozed": False}

    def behind(self, item: Item) -> str:
        """The cursor of what follows an item."""
        return position(self.wanted, item.created_at, item.urgency, item.id)

    def place(self, item: Item) -> tuple[bool, int, float, int]:
        """Orders what waits as it is listed beside a card: what needs an answer, then notices."""
        forwards = -1 if self.sort == "newest" else 1
        urgency = item.urgency if self.sort == "urgency" else 0
        return item.kind == "notification", urgency, forwards * item.created_at.timestamp(), forwards * item.id.int

    def is_behind(self, item: Item, other: Item) -> bool:
        """Whether an item comes after another in the list."""
        return self.place(item)[1:] > self.place(other)[1:]

    @property
    def query(self) -> dict[str, str]:
        """What is chosen other than what is chosen by itself."""
        usual = Listing()
        names = ("status", "account", "q", "kind", "older_than", "sort")
        return {name: value for name in names if (value := getattr(self, name)) != getattr(usual, name)}

    @property
    def is_narrowed(self) -> bool:
        return bool(self.query)

    @property
    def is_filtered(self) -> bool:
        return bool(self.query.keys() - {"q"})

    def by(self, sort: Sort) -> str:
        """The address of the same list in another order."""
        return replace(self, sort=sort).link("/")

    def link(self, path: str, **more: str | None) -> str:
        """The address of a page that keeps to this part of the inbox."""
        return link(path, **self.query, **more)


Listed = Annotated[Listing, Depends()]


def link(path: str, **query: str | None) -> str:
    given = {name: value for name, value in query.items() if value}
    return f"{path}?{urlencode(given)}" if given else path


def zones(accounts: Iterable[Account]) -> Mapping[str, ZoneInfo]:
    """Each account's timezone; UTC for one that was removed just now."""
    return defaultdict(lambda: ZoneInfo("UTC"), {each.address: each.zone for each in accounts})


@dataclass(frozen=True)
class MailRow:
    """Parts of one proposal, or an item that waits no more."""

    items: Sequence[Item]
    zone: ZoneInfo

    @property
    def item(self) -> Item:
        """The part that stands for it."""
        return self.items[0]

    @cached_property
    def asks(self) -> str:
        return asks(self.item)

    @cached_property
    def does(self) -> str:
        """What would be done; empty if nothing."""
        return ", ".join(filter(None, (in_brief(item, self.zone) for item in self.items)))

    @cached_property
    def marks(self) -> str:
        """What it must be looked at for; empty if for nothing."""
        return "; ".join(dict.fromkeys(item.at_a_glance for item in self.items if item.marks))

    @property
    def is_notice(self) -> bool:
        return self.item.kind == "notification" and self.item.status == "pending"

    @property
    def can_be_done_with(self) -> bool:
        """Unseen, among others: what is marked never is."""
        return self.is_notice and not self.marks and "accept" in self.item.allowed


def rows_of(items: Sequence[Item], zones: Mapping[str, ZoneInfo]) -> list[MailRow]:
    """In the order of each one's first part."""
    found: dict[object, list[Item]] = {}
    for item in items:
        key = (item.run_id, item.group) if item.status == "pending" and not item.is_held else item.id
        found.setdefault(key, []).append(item)
    return [MailRow(parts, zones[parts[0].account]) for parts in found.values()]
