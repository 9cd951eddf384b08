"""What was learned, to be told once in each place and taken back; and what would be learned and would undo a
decision on other mail: it waits for the person's word."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal
from uuid import UUID

from psycopg.types.json import Jsonb

from email_assistant.db.pool import Connection, Pool, fetched_as
from email_assistant.db.statements import statements
from email_assistant.inbox.items import Conflict, NoItem
from email_assistant.memory.rules import Profile
from email_assistant.memory.trial import Otherwise

Place = Literal["web", "terminal", "cli", "digest"]
_NEWS = timedelta(days=7)  # what is older is told nowhere any more, but stands in the list
_MOST_AT_ONCE = 20
MOST = 50
_SQL = statements("memory", "lessons.sql")
_HELD = statements("memory", "held.sql")


@dataclass(frozen=True, slots=True)
class HeldLesson:
    id: UUID
    account_id: UUID
    account: str  # the account's address
    profile: Profile
    change: dict[str, Any]  # {key, text, removed, version}: what it makes of which rule, of 0 versions if it is new
    origin: dict[str, Any]
    at: datetime
    broken: list[dict[str, str]]
    """Mails that it would decide otherwise than the person: {mail, sender, subject, was, becomes}, where `was` is what
    they decided. What it came of is among them if it does not mend that."""

    @property
    def said(self) -> str:
        """As the person is told of it."""
        text = str(self.change["text"])
        return f"no longer: {text}" if self.change["removed"] else text


class HeldLessons:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def page(self, user_id: UUID, account_id: UUID | None = None) -> list[HeldLesson]:
        """What waits for the person's word, oldest first."""
        return await self._read("page", {"user": user_id, "account": account_id})

    async def find(self, user_id: UUID, prefix: str) -> HeldLesson:
        """What waits and whose id begins with `prefix`. Raises NoLesson."""
        found = await self._read("find", {"user": user_id, "prefix": prefix.lower()})
        if len(found) != 1:
            what = "nothing waits" if not found else "more than one thing waits"
            raise NoLesson(f"{what} to be learned whose id begins with {prefix}; `memory lessons` shows them")
        return found[0]

    async def hold(
        self,
        account_id: UUID,
        profile: Profile,
        source: str,
        change: Mapping[str, Any],
        origin: Mapping[str, Any],
        broken: Sequence[Otherwise],
    ) -> None:
        """Put it before the person at once, in place of what waits of the same rule or words; a repeat changes nothing.
        `source`: the answer or the correction that it came of."""
        mails = [{"mail": each.decision.mail, "was": each.wanted, "becomes": each.becomes} for each in broken]
        given = {"account": account_id, "profile": profile, "source": source, "broken": Jsonb(mails)}
        given |= {"key": change["key"], "change": Jsonb(change), "origin": Jsonb(origin)}
        async with self._pool.connection() as conn:
            await conn.execute(_HELD["hold"].encode(), given)

    async def is_known(self, conn: Connection, account_id: UUID, source: str) -> bool:
        """Whether anything of this source was put before the person."""
        return await (await conn.execute(_HELD["is_known"].encode(), (account_id, source))).fetchone() is not None

    async def answer(self, conn: Connection, lesson: HeldLesson, *, kept: bool) -> None:
        """The person's word. Raises Conflict: they gave it before."""
        if (await conn.execute(_HELD["answer"].encode(), (kept, lesson.id))).rowcount == 0:
            raise Conflict("that was kept or dropped already")

    async def outdated(self, conn: Connection, account_id: UUID, mail_id: str, source: str) -> None:
        """The person has said something else of the mail since: what waits of it is dropped."""
        await conn.execute(_HELD["outdated"].encode(), (account_id, mail_id, source))

    async def forget(self, conn: Connection, account_id: UUID, named: str) -> None:
        """What matches the pattern is neither learned nor asked about."""
        await conn.execute(_HELD["forget"].encode(), (account_id, named))

    async def mails_went(self, conn: Connection, account_id: UUID, gone: Collection[str]) -> None:
        """What came of these mails and items tells no longer whose mail that was and about what."""
        given = {"account": account_id, "gone": list(gone)}
        await conn.execute(_HELD["mails_went"].encode(), given)

    async def _read(self, name: str, parameters: Mapping[str, object]) -> list[HeldLesson]:
        return await fetched_as(HeldLesson, self._pool, _HELD[name], parameters)


class NoLesson(NoItem):
    """Nothing of that id was learned."""


@dataclass(frozen=True, slots=True)
class Learned:
    """One change to a rule that was learned from what the person did."""

    id: UUID
    account_id: UUID
    account: str  # the account's address
    profile: Profile
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
        self, conn: Connection, account_id: UUID, profile: Profile, rule: str, version: Mapping[str, Any]
    ) -> None:
        """Keep what was learned, in the caller's transaction; a repeat changes nothing. `version`: {version, text,
        removed} of the rule."""
        given = {**version, "account": account_id, "profile": profile, "rule": rule}
        await conn.execute(_SQL["note"].encode(), given)

    async def is_known(self, conn: Connection, account_id: UUID, profile: Profile, rule: str) -> None:
        """The person has seen the rule, and changed it: nothing about it is news."""
        await conn.execute(_SQL["is_known"].encode(), (account_id, profile, rule))

    async def take_back(
        self, conn: Connection, account_id: UUID, profile: Profile, rule: str, versions: list[int]
    ) -> None:
        await conn.execute(_SQL["take_back"].encode(), (account_id, profile, rule, versions))

    async def forget(self, conn: Connection, account_id: UUID, profile: Profile, rule: str) -> None:
        await conn.execute(_SQL["forget"].encode(), (account_id, profile, rule))

    async def _read(self, name: str, parameters: Mapping[str, object]) -> list[Learned]:
        return await fetched_as(Learned, self._pool, _SQL[name], parameters)
