"""What was learned, to be told once in each place and taken back."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal
from uuid import UUID

from email_assistant.db.pool import Connection, Pool, fetched_as
from email_assistant.db.statements import statements
from email_assistant.inbox.items import Invalid, NoItem

if TYPE_CHECKING:
    from email_assistant.memory.rules import Profile

Place = Literal["web", "terminal", "cli", "digest"]
_NEWS = timedelta(days=7)  # what is older is told nowhere any more, but stands in the list
_MOST_AT_ONCE = 20
MOST = 50
_SQL = statements("memory", "lessons.sql")


class BadRule(Invalid):
    """A rule, or a file of them, can't be taken as it stands."""


class NoLesson(NoItem):
    """Nothing of that id was learned."""


@dataclass(frozen=True, slots=True)
class Learned:
    """One change to a rule that was learned from what the person did."""

    id: UUID
    account_id: UUID
    account: str  # the account's address
    profile: "Profile"
    rule: str  # the rule's key
    version: int  # the version of the rule that this made
    text: str  # what the rule says since
    removed: bool  # the rule was taken out of force
    at: datetime
    taken_back_at: datetime | None

    @property
    def said(self) -> str:
        """As the person is told of it."""
        return f"no longer: {self.text}" if self.removed else self.text


class Lessons:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def news(self, user_id: UUID, place: Place) -> list[Learned]:
        """What was not told in this place yet, oldest first; from now on it counts as told there."""
        given = {"user": user_id, "place": place, "news": _NEWS, "most": _MOST_AT_ONCE}
        return await self._read("news", given)

    async def between(self, account_id: UUID, since: datetime, until: datetime) -> list[Learned]:
        """What was learned in an account within that time and still holds, as a digest tells it."""
        given = {"account": account_id, "since": since, "until": until, "most": MOST}
        return await self._read("between", given)

    async def page(self, user_id: UUID, account_id: UUID | None = None) -> list[Learned]:
        """What was learned last, latest first, what was taken back too."""
        return await self._read("page", {"user": user_id, "account": account_id, "most": MOST})

    async def find(self, user_id: UUID, prefix: str) -> Learned:
        """What was learned and whose id begins with `prefix`. Raises NoLesson."""
        found = await self._read("find", {"user": user_id, "prefix": prefix.lower()})
        if len(found) != 1:
            what = "nothing was learned" if not found else "more than one thing was learned"
            raise NoLesson(f"{what} whose id begins with {prefix}; `memory lessons` shows them")
        return found[0]

    async def note(
        self, conn: Connection, account_id: UUID, profile: "Profile", rule: str, version: Mapping[str, Any]
    ) -> None:
        """Keep what was learned, in the caller's transaction; a repeat changes nothing. `version`: {version, text,
        removed} of the rule."""
        given = {**version, "account": account_id, "profile": profile, "rule": rule}
        await conn.execute(_SQL["note"].encode(), given)

    async def is_known(self, conn: Connection, account_id: UUID, profile: "Profile", rule: str) -> None:
        """The person has seen the rule, and changed it: nothing about it is news."""
        await conn.execute(_SQL["is_known"].encode(), (account_id, profile, rule))

    async def take_back(
        self, conn: Connection, account_id: UUID, profile: "Profile", rule: str, versions: list[int]
    ) -> None:
        await conn.execute(_SQL["take_back"].encode(), (account_id, profile, rule, versions))

    async def forget(self, conn: Connection, account_id: UUID, profile: "Profile", rule: str) -> None:
        await conn.execute(_SQL["forget"].encode(), (account_id, profile, rule))

    async def _read(self, name: str, parameters: Mapping[str, object]) -> list[Learned]:
        return await fetched_as(Learned, self._pool, _SQL[name], parameters)
