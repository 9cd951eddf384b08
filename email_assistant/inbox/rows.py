"""All SQL that changes `inbox_items`, in the transaction of the side that calls it: person, run or lesson.

A row is `pending → decided → applied`, or `superseded`, or `expired`; undo is `decided → pending`. Every step is a
compare-and-set. `applied` is the point of no return, before any effect.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from psycopg.types.json import Json

from email_assistant.db.pool import Connection
from email_assistant.inbox.items import Item
from email_assistant.inbox.search import WORDS, words
from email_assistant.inbox.standing import ACTS
from email_assistant.tools.effects import Effect

_UNDECIDED = "status = 'pending', decision = null, decided_by = null, decided_at = null, undo_until = null"
_TYPED_BEFORE = "taken_back = case when decision->>'type' in ('edit', 'response') then decision end"
"""Keep what the person had typed, as their answer is taken back."""


async def insert(conn: Connection, run_id: UUID, mail_text: str, question: Mapping[str, Any]) -> None:
    """Make a row of a question of a run, by column. A repeat changes nothing; of what no interrupt asks, while it
    waits."""
    values = {**question, "args": Json(question["args"])}
    await conn.execute(
        f"""insert into inbox_items (user_id, account_id, thread_id, run_id, mail_id, mail_text, words,
                                     {", ".join(values)})
            select user_id, account_id, thread_id, id, mail_id, %s, {WORDS}, {", ".join(["%s"] * len(values))}
            from runs where id = %s on conflict do nothing""".encode(),
        (mail_text, *words(mail_text, question["args"]), *values.values(), run_id),
    )


async def insert_refused(conn: Connection, effect: Effect, mail_text: str) -> None:
    """Show once more what was decided, as it is now, and why it was not done; while it waits, a repeat changes
    nothing."""
    asked = await times_asked(conn, effect.run_id, effect.call_id)
    await conn.execute(
        f"""insert into inbox_items (user_id, account_id, thread_id, run_id, mail_id, mail_text, call_id, kind,
                                    action, args, allowed, new_recipients, marks, first_answer, left_out, conflicts,
                                    calendars, teaches, because, words, asked, asked_because, group_id)
           select user_id, account_id, thread_id, run_id, mail_id, mail_text, call_id, kind, action, %s,
                  array_remove(allowed, 'response'), new_recipients, marks, first_answer, left_out, conflicts,
                  calendars, false, because, {WORDS}, %s, %s, group_id
           from inbox_items where run_id = %s and call_id = %s and interrupt_id is not null
           on conflict do nothing""".encode(),
        (
            Json(effect.args),
            *words(mail_text, effect.args),
            asked + 1,
            effect.result,
            effect.run_id,
            effect.call_id,
        ),
    )


async def times_asked(conn: Connection, run_id: UUID, call_id: str) -> int:
    """How often the person was asked about a call so far."""
    cursor = await conn.execute(
        "select coalesce(max(asked), 0) as n from inbox_items where run_id = %s and call_id = %s", (run_id, call_id)
    )
    row = await cursor.fetchone()
    return int(row["n"]) if row else 0


async def decide(
    conn: Connection,
    item: Item,
    decision: Mapping[str, Any],
    by: str,
    window: timedelta,
    *,
    teaches: bool,
    typed: Sequence[str],
) -> datetime | None:
    """Decide a pending item; returns until when that can be undone, None if it is pending no more.

    Args:
        typed: addresses that the person put in by hand.
    """
    cursor = await conn.execute(
        """update inbox_items i set status = 'decided', decision = %s, decided_by = %s,
                  decided_at = statement_timestamp(), undo_until = statement_timestamp() + %s,
                  teaches = i.teaches and %s, typed = array(select distinct unnest(i.typed || %s::text[])),
                  args = case when i.reopened->>'args' is null then i.args else i.reopened->'args' end,
                  reopened = null, reopened_at = null, taken_back = null
           from accounts a where i.id = %s and i.user_id = %s and i.status = 'pending' and i.asked = %s
           and a.id = i.account_id and a.state <> 'removing' returning i.undo_until""",
        (Json(decision), by, window, teaches, list(typed), item.id, item.user_id, item.asked),
    )
    taken = await cursor.fetchone()
    return taken["undo_until"] if taken else None


async def ask_once_more(conn: Connection, part: UUID, why: str, item: UUID, taken: Collection[UUID]) -> None:
    """Ask about an accepted part again because of the answer to an item, unless it is among those `taken` with it."""
    await conn.execute(
        f"""update inbox_items set {_UNDECIDED}, asked = asked + 1, reopened_at = statement_timestamp(),
                  reopened = json_build_object(
                      'because', %s::text, 'item', %s::uuid, 'decision', decision, 'decided_by', decided_by,
                      'decided_at', decided_at, 'undo_until', undo_until,
                      'args', case decision->>'type' when 'edit' then args end),
                  args = case decision->>'type' when 'edit' then decision->'args' else args end
           where id = %s and status = 'decided' and interrupt_id is not null
           and decision->>'type' = any(%s) and not id = any(%s)""".encode(),
        (why, item, part, list(ACTS), list(taken)),
    )


async def undo(conn: Connection, user_id: UUID, item_id: UUID) -> bool:
    """Take a decision back if it can be, and give back the answers to what was asked about again because of it."""
    cursor = await conn.execute(
        f"""update inbox_items i set {_UNDECIDED}, {_TYPED_BEFORE}
            where id = %s and user_id = %s and status = 'decided' and (
                undo_until > clock_timestamp() or exists (
                    select from inbox_items p where p.run_id = i.run_id and p.status = 'pending'))""".encode(),
        (item_id, user_id),
    )
    if not cursor.rowcount:
        return False
    await conn.execute(
        """update inbox_items set status = 'decided', decision = reopened->'decision',
                  decided_by = reopened->>'decided_by', decided_at = (reopened->>'decided_at')::timestamptz,
                  undo_until = (reopened->>'undo_until')::timestamptz,
                  args = case when reopened->>'args' is null then args else reopened->'args' end,
                  reopened = null, reopened_at = null
           where run_id = (select run_id from inbox_items where id = %s) and status = 'pending'
           and reopened->>'item' = %s""",
        (item_id, str(item_id)),
    )
    return True


async def take_back(conn: Connection, account_id: UUID) -> None:
    """Ask again for what the person said to do in an account, and what is not being carried out yet."""
    await conn.execute(
        f"""update inbox_items set {_UNDECIDED}, {_TYPED_BEFORE}
            where id in (select id from inbox_items where account_id = %s and status = 'decided'
                         and kind <> 'notification' and decision->>'type' = any(%s)
                         order by id for no key update)""".encode(),
        (account_id, list(ACTS)),
    )
    # What was accepted before does not come back when the answer is taken back that made it be asked again.
    await conn.execute(
        """update inbox_items set reopened = jsonb_set(reopened::jsonb, '{item}', 'null')::json
           where account_id = %s and status = 'pending' and json_typeof(reopened) = 'object'""",
        (account_id,),
    )


async def snooze(conn: Connection, user_id: UUID, item_id: UUID, until: datetime | None) -> bool:
    cursor = await conn.execute(
        "update inbox_items set snoozed_until = %s where id = %s and user_id = %s and status = 'pending'",
        (until, item_id, user_id),
    )
    return cursor.rowcount == 1


async def apply(conn: Connection, run_id: UUID) -> list[UUID]:
    """Apply all of a run's decided items, or none while one is still open; returns which."""
    cursor = await conn.execute(
        """select bool_and(status = 'decided' and undo_until <= clock_timestamp()) as ready
           from (select status, undo_until from inbox_items where run_id = %s and status in ('pending', 'decided')
                 order by id for no key update) as open""",
        (run_id,),
    )
    row = await cursor.fetchone()
    if row is None or not row["ready"]:
        return []
    cursor = await conn.execute(
        """update inbox_items set status = 'applied', applied_at = clock_timestamp(),
                  learned_at = case when decision->>'type' = 'accept' then clock_timestamp() end
           where run_id = %s and status = 'decided' returning id""",
        (run_id,),
    )
    return [applied["id"] for applied in await cursor.fetchall()]


async def supersede(conn: Connection, run_ids: Sequence[UUID], by: UUID | None) -> None:
    """Close what still waits in these runs; the rows stay and show what took their place."""
    await conn.execute(
        """update inbox_items set status = 'superseded', superseded_by = %s
           where id in (select id from inbox_items where run_id = any(%s) and status in ('pending', 'decided')
                        order by id for no key update)""",
        (by, list(run_ids)),
    )


async def reopen(conn: Connection, run_id: UUID) -> None:
    """Let what was closed with a run wait again, as if it had been asleep meanwhile."""
    await conn.execute(
        """update inbox_items set status = 'pending', ended_at = null, snoozed_until = clock_timestamp()
           where run_id = %s and status = 'superseded' and superseded_by is null and decision is null
           and interrupt_id is not null""",
        (run_id,),
    )


async def expire(conn: Connection, run_id: UUID) -> None:
    """Close what still waits in a run that failed."""
    await conn.execute(
        """update inbox_items set status = 'expired'
           where id in (select id from inbox_items where run_id = %s and status in ('pending', 'decided')
                        order by id for no key update)""",
        (run_id,),
    )


async def claim_unlearned(conn: Connection, account_id: UUID, seconds: float) -> UUID | None:
    """Take the next answer of a locked account to learn from; None: there is none, or another is learned from."""
    cursor = await conn.execute(
        """update inbox_items set learning_until = clock_timestamp() + make_interval(secs => %s),
                  learn_tries = learn_tries + 1
           where id = (select id from inbox_items where account_id = %s and status = 'applied' and teaches
                       and learned_at is null and learn_after <= clock_timestamp()
                       order by applied_at, id limit 1)
           and not exists (select from inbox_items where account_id = %s and status = 'applied' and teaches
                           and learned_at is null and learning_until > clock_timestamp())
           returning id""",
        (seconds, account_id, account_id),
    )
    row = await cursor.fetchone()
    return row["id"] if row else None


async def keep_claimed(conn: Connection, item_id: UUID, seconds: float) -> None:
    await conn.execute(
        """update inbox_items set learning_until = clock_timestamp() + make_interval(secs => %s)
           where id = %s and learned_at is null""",
        (seconds, item_id),
    )


async def learned(conn: Connection, item_id: UUID) -> None:
    await conn.execute("update inbox_items set learned_at = clock_timestamp() where id = %s", (item_id,))


async def learn_later(conn: Connection, item_id: UUID, most_tries: int) -> bool:
    """Back off after a failed try; returns whether it was given up, after so many."""
    cursor = await conn.execute(
        """update inbox_items set learning_until = '-infinity',
                  learn_after = clock_timestamp() + make_interval(secs => least(300, 2 ^ least(learn_tries, 9))),
                  learned_at = case when learn_tries >= %s then clock_timestamp() end
           where id = %s returning learned_at is not null as given_up""",
        (most_tries, item_id),
    )
    row = await cursor.fetchone()
    return bool(row and row["given_up"])
