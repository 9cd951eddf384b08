"""What was learned, to be told once in each place and taken back. All SQL on `lessons` stands here."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal
from uuid import UUID

from email_assistant.db.pool import Connection, Pool, fetched_as
from email_assistant.inbox.items import NoItem

if TYPE_CHECKING:
    from email_assistant.memory.rules import Profile

Place = Literal["web", "terminal", "cli", "digest"]
_NEWS = timedelta(days=7)  # what is older is told nowhere any more, but stands in the list
_MOST_AT_ONCE = 20
MOST = 50
_COLUMNS = """l.id, l.account_id, a.address as account, l.profile, l.rule, l.version, l.text, l.removed, l.at,
    l.taken_back_at"""


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
        return await fetched_as(
            Learned,
            self._pool,
            f"""with told as (
                    update lessons set told = array_append(told, %(place)s)
                    where id in (select id from lessons where user_id = %(user)s and taken_back_at is null
                                 and not %(place)s = any(told) and at > clock_timestamp() - %(news)s::interval
                                 order by at, id limit {_MOST_AT_ONCE} for update skip locked)
                    returning *)
                select {_COLUMNS} from told l join accounts a on a.id = l.account_id order by l.at, l.id""",
            {"user": user_id, "place": place, "news": _NEWS},
        )

    async def between(self, account_id: UUID, since: datetime, until: datetime) -> list[Learned]:
        """What was learned in an account within that time and still holds, as a digest tells it."""
        return await self._read(
            """l.account_id = %(account)s and l.at > %(since)s and l.at <= %(until)s and l.taken_back_at is null
               and not 'digest' = any(l.told) order by l.at, l.id limit %(most)s""",
            {"account": account_id, "since": since, "until": until, "most": MOST},
        )

    async def page(self, user_id: UUID, account_id: UUID | None = None) -> list[Learned]:
        """What was learned last, latest first, what was taken back too."""
        return await self._read(
            """l.user_id = %(user)s and (%(account)s::uuid is null or l.account_id = %(account)s)
               order by l.at desc, l.id limit %(most)s""",
            {"user": user_id, "account": account_id, "most": MOST},
        )

    async def find(self, user_id: UUID, prefix: str) -> Learned:
        """What was learned and whose id begins with `prefix`. Raises NoLesson."""
        found = await self._read(
            "l.user_id = %(user)s and starts_with(l.id::text, %(prefix)s) limit 2",
            {"user": user_id, "prefix": prefix.lower()},
        )
        if len(found) != 1:
            what = "nothing was learned" if not found else "more than one thing was learned"
            raise NoLesson(f"{what} whose id begins with {prefix}; `memory lessons` shows them")
        return found[0]

    async def note(
        self, conn: Connection, account_id: UUID, profile: "Profile", rule: str, version: Mapping[str, Any]
    ) -> None:
        """Keep what was learned, in the caller's transaction; a repeat changes nothing. `version`: {version, text,
        removed} of the rule."""
        await conn.execute(
            """insert into lessons (user_id, account_id, profile, rule, version, text, removed)
               select user_id, id, %(profile)s, %(rule)s, %(version)s, %(text)s, %(removed)s
               from accounts where id = %(account)s on conflict do nothing""",
            {**version, "account": account_id, "profile": profile, "rule": rule},
        )

    async def is_known(self, conn: Connection, account_id: UUID, profile: "Profile", rule: str) -> None:
        """The person has seen the rule, and changed it: nothing about it is news."""
        await conn.execute(
            """update lessons set told = '{web,terminal,cli,digest}'
               where account_id = %s and profile = %s and rule = %s""",
            (account_id, profile, rule),
        )

    async def take_back(
        self, conn: Connection, account_id: UUID, profile: "Profile", rule: str, versions: list[int]
    ) -> None:
        await conn.execute(
            """update lessons set taken_back_at = clock_timestamp()
               where account_id = %s and profile = %s and rule = %s and version = any(%s) and taken_back_at is null""",
            (account_id, profile, rule, versions),
        )

    async def _read(self, where: str, parameters: Mapping[str, object]) -> list[Learned]:
        return await fetched_as(
            Learned,
            self._pool,
            f"select {_COLUMNS} from lessons l join accounts a on a.id = l.account_id where {where}",
            parameters,
        )
