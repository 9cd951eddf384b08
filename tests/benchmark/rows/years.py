"""What a mail costs once there are years of mail: what is asked at each of them may not grow with what is stored."""

import asyncio

import psycopg
from psycopg import sql

from tests.benchmark.rows.figures import Limit, Reading, RowProgress, Size
from tests.benchmark.rows.mail import WAYS, of_each
from tests.benchmark.rows.outside import Way
from tests.benchmark.rows.stage import Stage, postgres, scratch, staged, until

_DAY: dict[Way, int] = {"ignored": 10, "accepted": 5}
"""Mails with which a day begins; those of the first rounds follow, and then it is put into the database again and
again. Each mail that is accepted has an answer, too."""
_DAYS = 365
_ROUNDS = 3
_QUIET_SECONDS = 5.0
_QUIET_SHARE = 0.1  # of a core
_MOST = 1.5  # times what it cost at first

_COPIED = ("threads", "runs", "mails", "sent_to", "inbox_items", "effects", "judgements")
_KEYS = {
    "uuid": ("id", "thread_id", "run_id"),
    "text": ("gmail_id", "mail_id", "call_id", "interrupt_id", "key"),
}
_COLUMNS = """
select column_name, data_type from information_schema.columns
where table_schema = 'email_assistant' and table_name = %s and is_generated = 'NEVER' order by ordinal_position"""


async def years(size: Size, progress: RowProgress) -> list[Reading]:
    """Milliseconds of processor time that a mail takes of the program and of Postgres, in a mailbox of a day, and in
    the same one when it has had as many days like that as a year has."""
    mails, days = size.of(10, 2), size.of(_DAYS, 2)
    took = {(when, way): list[float]() for when in ("young", "old") for way in WAYS}
    with scratch() as folder, postgres(folder) as server:
        async with staged(server, folder, "years") as stage:
            for way, count in _DAY.items():
                progress(f"the first day, {way}")
                await stage.handle(way, size.of(count, 2))
            for when in ("young", "old"):
                if when == "old":
                    await stage.program.look()  # for the answers, which are the mailbox's own mail
                    await _until_quiet(stage)
                    stored = _repeat_the_day(stage.watch, days, progress)
                    for way in WAYS:
                        await stage.handle(way, mails)
                    progress("what there is to learn is learned")
                    await _until_quiet(stage)
                for round_ in range(_ROUNDS):
                    progress(f"{when}, round {round_ + 1} of {_ROUNDS}")
                    for way in WAYS:
                        took[when, way].append(await of_each(stage, way, mails))
    note = f"{stored:,} mails of {days} days, against one day; {mails} mails that come in together, {_ROUNDS} rounds"
    return [
        Reading(f"CPU of a mail after years, {way}", "ms", took["old", way], Limit(_MOST), took["young", way], note)
        for way in WAYS
    ]


async def _until_quiet(stage: Stage) -> None:
    """Wait until it does nothing by itself, such as learning from what it found."""

    async def is_quiet() -> bool:
        used = stage.cpu()
        await asyncio.sleep(_QUIET_SECONDS)
        return (stage.cpu() - used) / _QUIET_SECONDS < _QUIET_SHARE

    await stage.until_at_rest()
    await until(is_quiet, "nothing is learned any more")


def _repeat_the_day(watch: "psycopg.Connection[tuple[object, ...]]", days: int, progress: RowProgress) -> int:
    """Copy all that there is into each of so many days before; returns how many mails there are then."""
    with watch.transaction():
        watch.execute("set local session_replication_role = replica")  # nobody is told of them
        for table in _COPIED:
            progress(f"{days} days: {table}")
            columns = watch.execute(_COLUMNS, (table,)).fetchall()
            watch.execute(
                sql.SQL("insert into {} ({}) select {} from {}, generate_series(1, %s) as day").format(
                    sql.Identifier(table),
                    sql.SQL(", ").join(sql.Identifier(str(name)) for name, _ in columns),
                    sql.SQL(", ").join(_on_day(str(name), str(kind)) for name, kind in columns),
                    sql.Identifier(table),
                ),
                (days - 1,),
            )
    watch.execute("vacuum analyze")
    [[mails]] = watch.execute("select count(*) from mails").fetchall()
    return int(str(mails))


def _on_day(name: str, kind: str) -> sql.Composable:
    """A column's value, so many days earlier."""
    column = sql.Identifier(name)
    if kind == "timestamp with time zone":
        return sql.SQL("{} - day * interval '1 day'").format(column)
    if name in _KEYS.get(kind, ()):
        made = sql.SQL("md5({}::text || day)::uuid") if kind == "uuid" else sql.SQL("{} || '-' || day")
        return made.format(column)
    return column
