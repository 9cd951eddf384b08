"""The run's side of the inbox: what it asks a person, and what becomes of the answers."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from psycopg.types.json import Json

from email_assistant.db.lease import HELD, RowChange
from email_assistant.db.pool import Connection, Pool, fetched
from email_assistant.db.statements import statements
from email_assistant.gate.doubt import Doubt
from email_assistant.inbox import rows
from email_assistant.inbox.answers import Refined
from email_assistant.inbox.describe import as_words
from email_assistant.inbox.items import Item, read
from email_assistant.inbox.kept import UnreadableAnswer, args_in, decision_in
from email_assistant.inbox.recipients import RecipientMarks
from email_assistant.inbox.standing import ACTS, asked_again
from email_assistant.mail.address import address_of
from email_assistant.mail.charset import one_line
from email_assistant.mail.excerpt import beginning
from email_assistant.meters import meters
from email_assistant.outgoing.entry import Effect
from email_assistant.tools.spec import Conflicts, is_blank

log = logging.getLogger(__name__)

_SQL = statements("inbox", "questions.sql")
_MOST = 3000
"""Characters of the person's own words that are told again."""


@dataclass(frozen=True, slots=True)
class Overtaken:
    """What the person had decided, and newer mail came before it was done."""

    kind: str
    args: Mapping[str, Any]
    """As it was proposed."""
    decision: Mapping[str, Any]

    def typed_again(self, proposed: Mapping[str, Any]) -> dict[str, Any] | None:
        """The edit to be offered with a new proposal, {type, args}; None if it was none, or of a letter to others.

        Args:
            proposed: {kind, args}.
        """
        args = proposed["args"]
        same = self.kind == proposed["kind"] == "draft" and _to(self.args) == _to(args)
        if self.decision["type"] != "edit" or not same:
            return None
        changed = {name: value for name, value in self.decision["args"].items() if value != self.args.get(name)}
        return {"type": "edit", "args": {**args, **changed}}


def _not_done(overtaken: Overtaken) -> str:
    """Says that it was not done, with the person's own words."""
    args = overtaken.decision["args"] or overtaken.args
    if overtaken.kind == "draft":
        did = "written" if overtaken.decision["type"] == "edit" else "approved"
        text = one_line(beginning(str(args.get("response_text", "")), _MOST))
        return f"your answer to {_to(args)} was not sent, as newer mail came; you had {did}: {text}"
    what = ", ".join(f"{name}: {as_words(value)}" for name, value in args.items() if value)
    return f"what you had decided was not done, as newer mail came: {one_line(beginning(what, _MOST))}"


def _to(args: Mapping[str, Any]) -> str:
    return address_of(str(args.get("email_address") or ""))


@dataclass(frozen=True, slots=True)
class Asked:
    """A question that a run's graph has come to rest at."""

    interrupt_id: str
    value: Mapping[str, Any]
    """{action, args, call_id, kind, allowed, teaches}."""
    judged: RecipientMarks
    """Those whom it would reach."""
    conflicts: list[str] | None
    """None: the calendar could not be read."""
    calendars: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    doubts: list[Doubt] = field(default_factory=list)


class Questions:
    supersede = staticmethod(rows.supersede)
    reopen = staticmethod(rows.reopen)
    expire_run = staticmethod(rows.expire)

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def project(self, conn: Connection, run_id: UUID, mail_text: str, asked: Iterable[Asked]) -> None:
        """Make a row of each question, in the caller's transaction; a repeat changes nothing."""
        for change in await self.projected(conn, run_id, mail_text, asked, held="true"):
            await conn.execute(change.statement.encode(), change.parameters)

    async def projected(
        self,
        conn: Connection,
        run_id: UUID,
        mail_text: str,
        asked: Iterable[Asked],
        *,
        is_first: bool = False,
        held: str = HELD,
    ) -> list[RowChange]:
        """What makes a row of each question; a repeat changes nothing.

        What the person had decided in runs that this one took the place of was not done: what it asks first says so,
        and what they had written stands in its field again.

        Args:
            is_first: the run took the place of no other.
            held: what a row is made under.
        """
        overtaken = [] if is_first else await self._overtaken(conn, run_id)
        made: list[RowChange] = []
        told = "; ".join(map(_not_done, overtaken)) or None
        for question in asked:
            value, judged = question.value, question.judged
            typed = next((again for each in overtaken if (again := each.typed_again(value))), None)
            if is_blank(value["kind"], value["args"]) and (letter := await self._own_version(conn, run_id)):
                typed = {"type": "edit", "args": {**value["args"], "response_text": letter}}
            row = {
                **{name: value[name] for name in ("call_id", "kind", "action", "args", "allowed", "teaches")},
                "interrupt_id": question.interrupt_id,
                "group_id": value.get("group"),
                "marks": Json(
                    [{"kind": each.kind, "address": each.address, "text": each.text} for each in judged.marks]
                ),
                "doubts": Json([asdict(doubt) for doubt in question.doubts]),
                "first_answer": judged.first_answer,
                "left_out": question.left_out,
                "conflicts": question.conflicts,
                "calendars": question.calendars,
                "because": value.get("because"),
                "asked_because": told,
                "taken_back": Json(typed) if typed else None,
            }
            if again := value.get("again"):
                row["asked_because"] = asked_again(again["kind"], value["kind"], again["answer"])
                row["asked"] = 1 + await rows.times_asked(conn, run_id, value["call_id"])
            made.append(rows.insert(run_id, mail_text, row, held=held))
        return made

    async def _overtaken(self, conn: Connection, run_id: UUID) -> list[Overtaken]:
        """What the person had decided to do in the runs that a run took the place of, before it asks anything: of each
        kind the last."""
        cursor = await conn.execute(_SQL["overtaken"].encode(), {"run": run_id})
        found = [(row["kind"], args_in(row["args"]), decision_in(row["decision"])) for row in await cursor.fetchall()]
        return [Overtaken(kind, args, decision) for kind, args, decision in found if decision]

    async def _own_version(self, conn: Connection, run_id: UUID) -> str | None:
        """The letter that the person had written when they last said what should be different about a run's."""
        cursor = await conn.execute(_SQL["said"].encode(), ([run_id],))
        found = [decision_in(row["decision"]) for row in await cursor.fetchall() if row["kind"] == "draft"]
        last = found[-1] if found else None
        return Refined.of(str(last["args"])).letter if last and last["type"] == "response" else None

    async def ask_again(self, conn: Connection, effect: Effect, mail_text: str, conflicts: Conflicts | None) -> None:
        """Ask the person about an effect that was refused, or of which nobody can tell whether it happened.

        Args:
            conflicts: what stands at its time now; None: the calendar could not be read.
        """
        if effect.state == "unknown":
            call = {"kind": "in_doubt", "call_id": effect.call_id, "action": effect.tool, "args": effect.args}
            await self._raise(conn, effect.run_id, call, mail_text)
        else:
            await rows.insert_refused(conn, effect, mail_text, conflicts)

    async def ask_to_open(self, conn: Connection, run_id: UUID, url: str, why: str, mail_text: str) -> None:
        """Ask the person to open a link that a tool needs; *accept* says that it was done."""
        args = {"url": url, "message": why}
        await self._raise(
            conn, run_id, {"kind": "link", "call_id": "open_link", "action": "open_link", "args": args}, mail_text
        )

    async def _raise(self, conn: Connection, run_id: UUID, call: Mapping[str, Any], mail_text: str) -> None:
        """Ask what no interrupt asks; while it waits, a repeat changes nothing."""
        asked = 1 + await rows.times_asked(conn, run_id, call["call_id"])
        row = {**call, "marks": Json([]), "allowed": ["accept", "ignore"], "teaches": False, "asked": asked}
        change = rows.insert(run_id, mail_text, row, held="true")
        await conn.execute(change.statement.encode(), change.parameters)

    async def ask_anew(self, conn: Connection, run_id: UUID, call_id: str, why: str) -> None:
        """Ask about a call again that the person was shown with what is not so any more.

        Args:
            why: told where they had approved it.
        """
        await rows.ask_anew(conn, run_id, call_id, why)

    async def to_be_done(self, run_id: UUID) -> dict[str, dict[str, Any]]:
        """By the ids of the calls that a run's decided items say to carry out, the arguments."""
        items = await self._items("i.run_id = %s and i.status = 'decided'", run_id)
        return {i.call_id: i.decision["args"] or i.args for i in items if i.decision and i.decision["type"] in ACTS}

    async def apply(self, conn: Connection, run_id: UUID) -> Sequence[Item]:
        """Pass the point of no return for all of a run's decided items, or for none while one is still open.

        Raises:
            UnreadableAnswer.
        """
        applied = await rows.apply(conn, run_id)
        items = [_believed(item) for item in await read(conn, "i.id = any(%s)", applied)] if applied else []
        for item in items:
            log.info("the answer to a %s is applied", item.kind)
            if item.decided_at:
                meters().decision.observe((datetime.now(UTC) - item.decided_at).total_seconds())
        return items

    async def answers(self, run_id: UUID) -> dict[str, dict[str, Any]]:
        """The applied answers of a run by interrupt id: the map that its graph is resumed with.

        Raises:
            UnreadableAnswer.
        """
        items = await self._items("i.run_id = %s and i.status = 'applied' and i.interrupt_id is not null", run_id)
        return by_interrupt([_believed(item) for item in items])

    async def said_in(self, run_ids: Sequence[UUID]) -> tuple[list[str], str | None]:
        """What the person said in runs that were superseded: their instructions, and the reply they had approved."""
        found = await fetched(self._pool, _SQL["said"], (list(run_ids),))
        said = [(row, decision) for row in found if (decision := decision_in(row["decision"]))]
        instructions = [decision["args"] for _, decision in said if decision["type"] == "response"]
        approved = [
            str((decision["args"] or args_in(row["args"])).get("response_text", ""))
            for row, decision in said
            if row["kind"] == "draft" and row["status"] == "superseded" and decision["type"] in ACTS
        ]
        return instructions, approved[-1] if approved else None

    async def closed_with(self, run_id: UUID) -> list[Item]:
        """What waited in a run when that was closed, and nothing took the place of."""
        return await self._items(
            """i.run_id = %s and i.status = 'superseded' and i.superseded_by is null and i.decision is null
               and i.interrupt_id is not null""",
            run_id,
        )

    async def _items(self, where: str, *parameters: object) -> list[Item]:
        async with self._pool.connection() as conn:
            return await read(conn, where, *parameters)


def by_interrupt(answered: Iterable[Item]) -> dict[str, dict[str, Any]]:
    """What a run's graph is resumed with, of items with their answers."""
    return {item.interrupt_id: _answer(item) for item in answered if item.interrupt_id}


def _answer(item: Item) -> dict[str, Any]:
    """The answer to an item, and of words whether they can only mean that the person wants a proposal: what else they
    say may mean that none is needed."""
    answer: dict[str, Any] = dict(item.decision or {})
    if answer.get("type") != "response":
        return answer
    said = Refined.of(str(answer["args"]))
    wants = item.kind == "question" or item.is_blank or said.by_key or said.letter is not None
    return {**answer, "anew": wants}


def _believed(item: Item) -> Item:
    """The item, if its answer is one that was given to what was shown, or that has nothing done."""
    if item.unreadable and (item.decision is None or item.decision["type"] != "ignore"):
        raise UnreadableAnswer
    return item
