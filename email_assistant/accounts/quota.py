"""How much of Google's quota is spent: leaky buckets in the database, since all processes spend from them.

All SQL on `quota` stands here.
"""

import asyncio
import hashlib
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from uuid import UUID

import psycopg

from email_assistant.db.pool import AWAY, Pool, fetched
from email_assistant.google.errors import RateLimited, Transient
from email_assistant.google.quota import Limits, is_calendar, is_sending
from email_assistant.meters import meters

log = logging.getLogger(__name__)

# The rows are locked in one order, for the length of this one statement; whoever waits for a lock sees the new level.
# Google names no time later than tomorrow: a level or a time that can't be is somebody else's, and counts for nothing.
# While next to nothing is spent, as much again is taken for the calls that follow.
_ADMIT = """
with bucket as (
    select q.name, w.cost, w.room, w.rate,
           case when q.closed_until between clock_timestamp() and clock_timestamp() + interval '2 days'
                then extract(epoch from q.closed_until - clock_timestamp())::float8 else 0 end as closed,
           case when isfinite(q.at) and q.level < 1e9
                then greatest(q.level - w.rate * extract(epoch from clock_timestamp() - q.at)::float8, 0)
                else 0 end as level
    from quota q join unnest(%s::text[], %s::float8[], %s::float8[], %s::float8[]) w (name, cost, room, rate)
         on w.name = q.name
    order by q.name for update of q
), verdict as (
    select count(*) as found, max(greatest(
        (level + cost - room) / rate, closed, 0)) as wait,
        bool_and(level + 2 * cost <= room / 4) as is_ample
    from bucket
), spent as (
    update quota q set level = b.level + b.cost * case when v.is_ample then 2 else 1 end, at = clock_timestamp()
    from bucket b, verdict v
    where q.name = b.name and v.wait = 0 and v.found = %s
)
select found, wait, is_ample from verdict"""
_AHEAD_SECONDS = 1.0
"""How long what was taken ahead is good: less than a call may need to Google once it is admitted (`google.quota`)."""


@dataclass(frozen=True, slots=True)
class AccountQuota:
    """Implements `google.quota.Quota`."""

    pool: Pool
    limits: Limits
    account_id: UUID
    client_id: str
    """Of the OAuth client, which stands for Google's project."""
    now: Callable[[], float] = time.monotonic
    _ahead: dict[str, tuple[int, float]] = field(default_factory=dict, init=False)
    """Units of each service that are taken already, and until when they are good."""

    async def admit(self, method: str, seconds: float) -> None:
        latest = self.now() + seconds / 2
        try:
            while not self._is_ahead(method) and (wait := await self._wait(method)):
                if self.now() + wait > latest:
                    until = datetime.now(UTC) + timedelta(seconds=wait)
                    raise RateLimited(f"{method}: Google's quota is used up until {until:%H:%M:%S} UTC", until)
                await asyncio.sleep(wait)
            meters().units.labels(_service(method)).inc(self.limits.cost(method))
        except AWAY:
            raise Transient(f"{method}: the quota can't be known, as the database is not available") from None

    async def close(self, method: str, until: datetime) -> None:
        """That it can't be stored now must not hide how the call itself ended."""
        if is_sending(method):
            return
        self._ahead.pop(_service(method), None)
        try:
            closed = "update quota set closed_until = greatest(closed_until, %s) where name = %s"
            await fetched(self.pool, closed, (until, self._own(method)))
        except psycopg.Error as error:
            log.warning("account %s: Google's time to wait was not stored (%s)", self.account_id, type(error).__name__)

    def _is_ahead(self, method: str) -> bool:
        """Whether a call's units were taken already; of mail to be sent, none are."""
        left, until = self._ahead.get(_service(method), (0, 0.0))
        left -= self.limits.cost(method)
        if is_sending(method) or left < 0 or self.now() > until:
            return False
        self._ahead[_service(method)] = left, until
        return True

    async def _wait(self, method: str) -> float:
        """Seconds to wait before asking again; with 0 the call is admitted, and its cost is taken."""
        own, project = self.limits.shares(method)
        shares = {self._own(method): own} | ({self._project(): project} if project else {})
        columns = (
            list(shares),
            [s.cost for s in shares.values()],
            [s.room for s in shares.values()],
            [s.rate for s in shares.values()],
        )
        while True:
            async with self.pool.connection() as conn:
                row = await (await conn.execute(_ADMIT, (*columns, len(shares)))).fetchone()
                assert row is not None
                if row["found"] == len(shares):
                    if row["is_ample"] and not row["wait"]:
                        self._ahead[_service(method)] = self.limits.cost(method), self.now() + _AHEAD_SECONDS
                    return float(row["wait"])
                await conn.execute(
                    """insert into quota (name, account_id)
                       select unnest(%s::text[]), unnest(%s::uuid[]) on conflict do nothing""",
                    (list(shares), [self.account_id, None][: len(shares)]),
                )

    def _own(self, method: str) -> str:
        return f"{_service(method)}/{self.account_id}"

    def _project(self) -> str:
        return f"project/{hashlib.sha256(self.client_id.encode()).hexdigest()[:16]}"


def _service(method: str) -> str:
    return "calendar" if is_calendar(method) else "gmail"
