"""The rows of the inbox: one for each mail, with all that is proposed for it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from zoneinfo import ZoneInfo

from email_assistant.inbox.items import Item
from email_assistant.inbox.sentences import asks, in_brief


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
