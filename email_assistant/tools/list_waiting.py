"""`list_waiting`: what waits for the person in the account's inbox."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, Protocol, TypeVar
from uuid import UUID
from zoneinfo import ZoneInfo

from email_assistant.tools.rows import row, told
from email_assistant.tools.spec import Arguments, Call, Kind, Tool, ToolSpec

_MOST = 30
_ID = 8
"""Characters of an item's id, which the person's other tools take as well."""


class WaitingItem(Protocol):
    @property
    def id(self) -> UUID: ...
    @property
    def kind(self) -> Kind: ...
    @property
    def sender(self) -> str | None: ...
    @property
    def subject(self) -> str | None: ...


ItemT = TypeVar("ItemT", bound=WaitingItem)
ListedT_co = TypeVar("ListedT_co", covariant=True)


class Waiting(Protocol[ListedT_co]):
    def __call__(
        self, user_id: UUID, account_id: UUID, *, but_run: UUID, most: int
    ) -> Awaitable[tuple[Sequence[ListedT_co], int]]:
        """What waits in an account but for one run's, oldest first, and how much that is in all."""
        ...


class ListWaiting(Arguments):
    pass


class ListWaitingTool(Tool, Generic[ItemT]):
    spec = ToolSpec(
        name="list_waiting",
        description="What waits for the person in their inbox, oldest first: id, kind, mail, what would be done.",
        parameters={"properties": {}},
        arguments=ListWaiting,
        review=None,
    )

    def __init__(self, waiting: Waiting[ItemT], sentence: Callable[[ItemT, ZoneInfo], str]) -> None:
        """
        Args:
            sentence: what would be done about an item, times in a timezone.
        """
        self._waiting = waiting
        self._sentence = sentence

    async def run(self, call: Call, arguments: dict[str, Any]) -> str:
        account = call.account
        items, total = await self._waiting(account.user_id, account.id, but_run=call.run_id, most=_MOST)
        more = [f"and {total - len(items)} more"] if total > len(items) else []
        return told([*(self._line(item, account.zone) for item in items), *more], "Nothing waits.")

    def _line(self, item: ItemT, zone: ZoneInfo) -> str:
        mail = f"{item.sender or 'a chat'}: {item.subject or '(no subject)'}"
        return row(str(item.id)[:_ID], item.kind, mail, self._sentence(item, zone))
