"""Which conversations have work that nobody is at.

Nothing here says *that* there is work: it is always derived, so a lost or doubled wake-up changes nothing. Each kind of
work is read by a partial index on what is open of an account, in the order in which it comes due, so that neither a
look at one conversation nor one at the first few of a backlog grows with the backlog, or with what is held back.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal
from uuid import UUID

from email_assistant.accounts.accounts import SERVED
from email_assistant.db.lease import FREE
from email_assistant.db.pool import Pool, Statement, fetched
from email_assistant.db.presence import Holder
from email_assistant.work.labels import MOVED, UNSHOWN
from email_assistant.work.tasks import Due

_FREE = FREE % "a.dead"
_SERVED = SERVED % "%(provider)s"


@dataclass(frozen=True, slots=True)
class _Work:
    kind: Literal["decided", "person", "mail", "label"]
    tables: str
    row: str
    """The alias of the row that names the conversation, among them."""
    where: str
    at: str = ""
    """When it may come due, which its index gives them in the order of; else its row's `not_before`."""
    nearby: str = "true"
    """What finds it from its conversation."""

    @property
    def comes(self) -> str:
        return self.at or f"{self.row}.not_before"


# A run that acts goes first, and one that hangs on an effect in doubt waits for a person, whatever else has come.
# What follows from the person's doings in Gmail (kind 'person') needs no model, and so waits for no budget.
_WORK = (
    _Work("decided", "runs r", "r", "r.state = 'acting'"),
    _Work(
        "decided",
        "inbox_items d",
        "d",
        """d.status = 'decided' and not exists (
             select from inbox_items o where o.run_id = d.run_id and o.status in ('pending', 'decided')
             and (o.status = 'pending' or o.undo_until > clock_timestamp()))""",
        "greatest(d.undo_until, d.not_before)",
        "d.run_id in (select id from runs where thread_id = t.id)",
    ),
    _Work("person", "mails m", "m", "m.state = 'new' and m.own"),
    _Work(
        "person",
        "mails m join runs r on r.id = m.run_id and r.mail_id = m.gmail_id",
        "m",
        """m.state = 'waiting' and m.put_away is not null and r.state = 'waiting'
           and not exists (select from inbox_items i where i.run_id = r.id and i.status = 'decided')""",
    ),
    _Work(
        "person",
        "(select id as thread_id, account_id, not_before from threads where drafted is not null) d",
        "d",
        "not exists (select from runs r where r.thread_id = d.thread_id and r.state = 'running')",
    ),
    _Work(
        "person",
        "runs r",
        "r",
        # A scalar, since Postgres, until it has counted them anew, may read all mail for a join.
        """r.closed_with is not null and (
             select m.put_away is null from mails m
             where m.account_id = r.account_id and m.gmail_id = r.closed_with)""",
    ),
    _Work(
        "person",
        "left_drafts d",
        "d",
        "(d.state in ('wanted', 'started') or d.state in ('left', 'ending') and not d.waits)",
    ),
    _Work("mail", "mails m", "m", "m.state = 'new' and not m.own"),
    # A mail whose run is running needs no line of its own: the run has one.
    _Work(
        "mail",
        "mails m",
        "m",
        # A scalar, since Postgres would read all runs for an anti-join.
        """m.state = 'triaging'
           and coalesce((select r.state from runs r where r.id = m.run_id), '') not in ('waiting', 'acting')""",
    ),
    _Work("mail", "runs r", "r", "r.state = 'running'"),
)
_LABELS = (
    # Apart, since those that were never held back are many, and most from before the last week.
    _Work("label", "mails m", "m", f"{UNSHOWN} and m.label_after = '-infinity'", "m.triaged_at"),
    _Work("label", "mails m", "m", f"{UNSHOWN} and m.label_after > '-infinity'", "m.label_after"),
    _Work("label", "mails m", "m", MOVED, "m.label_after"),
)

# What is given is asked of an account once, and not of each of its conversations: `clock_timestamp` is volatile, so the
# subquery is not pulled up.
_ACCOUNTS = f"""select a.*, %(dead)s::bigint[] as dead, a.spent_until <= clock_timestamp() as pays,
                       a.spent_until <= clock_timestamp() or not %(waits)s as reads
                from accounts a where a.state = 'active' and {_SERVED}"""
_THREAD = f"{_FREE} and t.not_before <= clock_timestamp()"
_NOT_HANGING = """not exists (
    select from runs h join inbox_items i on i.run_id = h.id where h.thread_id = t.id and h.state = 'acting'
    and (i.status = 'pending' or i.status = 'decided' and i.undo_until > clock_timestamp()))"""
_NO_QUESTION = """not exists (
    select from runs h join inbox_items i on i.run_id = h.id
    where h.thread_id = m.thread_id and h.state = 'acting' and i.status = 'pending')"""
_IF = {
    "decided": _NOT_HANGING,
    "person": _NOT_HANGING,
    "mail": f"{_NOT_HANGING} and a.reads",
    "label": "t.label_after <= clock_timestamp()",
}


def _of_thread(work: _Work) -> str:
    return f"""exists (select from {work.tables} where {work.row}.account_id = a.id and {work.row}.thread_id = t.id
                       and {work.nearby} and {work.where} and {_IF[work.kind]})"""


def _of_account(work: _Work, most: int) -> str:
    """The first of them: what is left out of any kind comes after as many of that kind."""
    return f"""(select t.id, '{work.kind}' as kind
                from {work.tables} join threads t on t.id = {work.row}.thread_id
                where {work.row}.account_id = a.id and {work.comes} <= statement_timestamp()
                and {work.where} and {_THREAD} and {_IF[work.kind]}
                group by {work.comes}, t.id order by {work.comes}, t.id limit {most})"""


def _of_all(kinds: Iterable[_Work], most: int) -> str:
    # The number stands in the text: how many makes a difference to the plan.
    of_account = " union all ".join(_of_account(work, most) for work in kinds)
    return f"""select work.id, bool_or(work.kind = 'decided') as decided
               from ({_ACCOUNTS}) as a cross join lateral ({of_account}) as work
               group by work.id order by decided desc, bool_and(work.kind = 'label'), work.id limit {most}"""


_MOVING = (
    "runs r on r.account_id = a.id where r.state = 'running' and a.pays",
    """runs r on r.account_id = a.id join threads t on t.id = r.thread_id
       where r.state = 'acting' and (a.pays or t.not_before <= clock_timestamp())
       and not exists (select from inbox_items i where i.run_id = r.id and i.status = 'pending')""",
    f"mails m on m.account_id = a.id where m.state = 'new' and a.reads and {_NO_QUESTION}",
    f"mails m on m.account_id = a.id where m.state = 'triaging' and a.pays and {_NO_QUESTION}",
    "inbox_items i on i.account_id = a.id where i.status = 'decided'",
    """inbox_items i on i.account_id = a.id
       where i.status = 'applied' and i.teaches and i.learned_at is null and a.pays""",
    "corrections c on c.account_id = a.id where c.learned_at is null",
    f"mails m on m.account_id = a.id where %(labels)s and {UNSHOWN}",
    f"mails m on m.account_id = a.id where %(labels)s and {MOVED}",
)
_MOVES = f"""
with ours as ({_ACCOUNTS})
select exists (select from ours where listed_at is null or backfilled_at is null)
    or {" or ".join(f"exists (select from ours a join {each})" for each in _MOVING)} as moves"""


class DueWork:
    def __init__(
        self, pool: Pool, provider: str, holder: Holder, *, waits_when_spent: bool = True, labels: bool = False
    ) -> None:
        """
        Args:
            holder: this process, which knows what dead ones held.
            waits_when_spent: new mail of an account whose budget for the model is spent is left until midnight.
            labels: a label in Gmail that is to be set is work too.
        """
        kinds = _WORK + _LABELS if labels else _WORK
        self._of_thread = f"""
            select case when t.chat_id is null then 'mail' else 'chat' end as by
            from threads t cross join lateral ({_ACCOUNTS} and a.id = t.account_id) as a
            where t.id = %(thread)s and {_THREAD} and ({" or ".join(map(_of_thread, kinds))})"""
        self._kinds = kinds
        self._holder = holder
        self._labels = labels
        self._pool = pool
        self._provider = provider
        self._waits_when_spent = waits_when_spent

    async def due(self, most: int = 200) -> list[Due]:
        """Conversations with work that nobody is at; those with a person's answer come first, those with labels alone
        last.

        Args:
            most: how many, so that a burst of mail doesn't make a look at it as long as itself.
        """
        return [Due(**row) for row in await fetched(self._pool, *self.look(most))]

    def look(self, most: int = 200) -> Statement:
        """What gives the rows of `due`."""
        return self._statement(_of_all(self._kinds, most))

    async def is_due(self, thread_id: UUID) -> bool:
        return await self.due_by(thread_id) is not None

    async def due_by(self, thread_id: UUID) -> Literal["mail", "chat"] | None:
        """Of what kind a conversation is that has work which nobody is at; None: it has none."""
        rows = await fetched(self._pool, *self._statement(self._of_thread, thread=thread_id))
        return rows[0]["by"] if rows else None

    async def is_at_rest(self) -> bool:
        """Whether nothing will move without a person or new mail, or before midnight where a budget is spent.

        Work that backs off will move.
        """
        [row] = await fetched(self._pool, *self._statement(_MOVES))
        return not row["moves"]

    def _statement(self, query: str, **more: object) -> Statement:
        same = {"dead": self._holder.dead, "provider": self._provider, "waits": self._waits_when_spent}
        return query, {**same, "labels": self._labels, **more}
