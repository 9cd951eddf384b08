"""How a chat goes on, turn by turn: each is one request of the person, with what was said before."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

import psycopg
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langgraph.types import Interrupt

from email_assistant.accounts.account import UnknownAccount
from email_assistant.accounts.accounts import Accounts
from email_assistant.accounts.vault import VaultError
from email_assistant.agents.chat.graph import link_in
from email_assistant.db.checkpoints import ForeignCheckpoint
from email_assistant.db.lease import Lease
from email_assistant.db.pool import Connection, Pool
from email_assistant.google.errors import GoogleError, NotFound, Refused
from email_assistant.google.quota import Urgency
from email_assistant.inbox.items import Item
from email_assistant.inbox.questions import Asked, Questions
from email_assistant.inbox.recipients import Recipients
from email_assistant.mail.charset import readable
from email_assistant.model import BadAnswer, ModelFault
from email_assistant.model.context import shortened
from email_assistant.outgoing.effects import Ledger
from email_assistant.outgoing.entry import Effect, NotYetClear
from email_assistant.tools.spec import ToolError
from email_assistant.user_file import BadFile
from email_assistant.work.chat import Turns, named_in, tool_uses
from email_assistant.work.driver import Tools, Workflow
from email_assistant.work.evidence import Evidence
from email_assistant.work.faults import Fault, QuestionNotStored
from email_assistant.work.invoke import Invoker, Outcome, Watch
from email_assistant.work.rows import OpenRuns, RunRow
from email_assistant.work.runs import Runs
from email_assistant.work.settle import is_accepted

_REMEMBERED = 24_000
"""At most so many characters of earlier turns go into the next one."""
_UNHEARD = 20
"""At most so many earlier requests that no model answered go into the next turn."""
_SET_ASIDE = "Not done: the person asked for something else instead."
_BROKEN_OFF = "Not done: this was broken off before."
_NOT_KNOWN = "Not known: this was broken off, and may have been done."


@dataclass(frozen=True)
class SaidBefore:
    turns: Turns
    ledger: Ledger
    invoker: Invoker

    async def opening(self, lease: Lease, turn: RunRow) -> list[AnyMessage]:
        """What the turn's graph begins with: what was said before, cut to a length, and the request."""
        return [*_cut(await self._before(lease, turn)), HumanMessage(turn.input["request"])]

    async def _before(self, lease: Lease, turn: RunRow) -> list[AnyMessage]:
        """The messages of the last turn that left messages: they hold those of earlier turns. A turn that was set
        aside or broke off leaves calls without an answer, which no model takes."""
        if turn.attempt == 1:
            return []
        last = await self.turns.last_begun(lease.thread_id, turn.attempt)
        begun = last.attempt if last else 0
        late = reversed(await self.turns.newest(lease.thread_id, _UNHEARD + 1))
        unheard = [HumanMessage(each.input["request"]) for each in late if begun < each.attempt < turn.attempt]
        if last is None:
            return [*unheard]
        messages = (await self.invoker.state(last.id, lease))["messages"]
        told = {each.call_id: _told(each) for each in await self.ledger.of_run(last.id)}
        otherwise = _SET_ASIDE if last.state == "superseded" else _BROKEN_OFF
        return [*_all_answered(messages, told, otherwise), *unheard]


def _told(effect: Effect) -> str:
    """What came of a call that changes something, where its turn ended before the model was told."""
    match effect.state:
        case "started" | "unknown":
            return _NOT_KNOWN
        case "planned":
            return _BROKEN_OFF
        case _:
            return effect.result or ""


def _all_answered(messages: Sequence[AnyMessage], told: Mapping[str, str], otherwise: str) -> list[AnyMessage]:
    """The messages, where every call of the last one has its answer."""
    last = messages[-1]
    calls = last.tool_calls if isinstance(last, AIMessage) else []
    if isinstance(last, AIMessage) and not calls and not last.text:
        return list(messages[:-1])  # some servers take no empty message
    return [
        *messages,
        *(
            ToolMessage(told.get(str(call["id"]), otherwise), tool_call_id=call["id"], name=call["name"])
            for call in calls
        ),
    ]


def _cut(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """The last whole turns among the messages that aren't too long together; what tools told is shortened in a last one
    that is too long alone."""
    kept: list[AnyMessage] = []
    turn: list[AnyMessage] = []
    for message in reversed(messages):
        turn.insert(0, message)
        if isinstance(message, HumanMessage):
            if kept and _length(turn + kept) > _REMEMBERED:
                break
            kept, turn = turn + kept, []
            if (length := _length(kept)) > _REMEMBERED:
                kept = shortened(kept, _REMEMBERED / length) or kept
    return kept


def _length(messages: Sequence[AnyMessage]) -> int:
    return sum(len(message.text) + len(str(getattr(message, "tool_calls", ""))) for message in messages)


ABOUT = "\n\nIt is about:\n"
"""Heading in an item; below it stands what the ids of its call mean."""
_DONE_LATER = (GoogleError, VaultError, NotYetClear, BadFile)
"""What can keep a call that the person approved from being done now."""


class _SaidNothing(BadAnswer):
    """The model ended its turn without text. A retry does not help: the graph is at its end."""


@dataclass(frozen=True)
class ByChat(Workflow[OpenRuns]):
    name = "chat"
    urgency = Urgency.PERSON

    pool: Pool
    turns: Turns
    runs: Runs
    questions: Questions
    recipients: Recipients
    ledger: Ledger
    accounts: Accounts
    tools: Tools
    evidence: Evidence
    invoker: Invoker
    said_before: SaidBefore

    async def look(self, lease: Lease) -> OpenRuns | None:
        """A turn is left alone that waits for the person, or whose account is not active, or whose account this process
        may not use."""
        turn = await self.turns.last(lease.thread_id)
        if turn is None or not turn.is_open:
            return None
        if turn.unreadable:
            raise ForeignCheckpoint
        if turn.hangs:
            return None
        try:
            account = await self.accounts.get(UUID(turn.input["account_id"]))
        except UnknownAccount:
            return None
        return OpenRuns(account, [turn]) if account.state == "active" else None

    async def apply_answers(
        self, conn: Connection, lease: Lease, at: OpenRuns, run: RunRow, answers: Sequence[Item]
    ) -> bool:
        """A link that was opened ends its turn, and has the request begin once more."""
        if answers[0].kind != "link":
            return True
        await self.runs.rested(conn, lease, run.id, "done", run.answer)
        if is_accepted(answers[0]):
            await self.runs.begin(conn, lease, at.account, run.input["chat"], run.input["request"])
        return False

    async def invoke(self, lease: Lease, at: OpenRuns, run: RunRow, watch: Watch | None) -> Outcome:
        begun = run.state == "acting"
        given = {"run": run.input, "messages": [] if begun else await self.said_before.opening(lease, run)}
        with self.accounts.cached(at.account):
            return await self.invoker.invoke(
                run.id, given, lease, begun=begun, is_new=run.is_new, applied=run.applied, watch=watch
            )

    async def rest(self, lease: Lease, at: OpenRuns, run: RunRow, outcome: Outcome) -> None:
        asked = [await self._asked(at, run, question) for question in outcome.questions]
        shown, messages = await self.shown(at, run), outcome.state["messages"]
        link = None if asked else link_in(messages)
        answer = None if asked else readable(messages[-1].text)
        if answer == "":
            raise _SaidNothing("the model answered nothing")
        async with self.pool.connection() as conn, conn.transaction():
            await lease.check(conn)
            for question in asked:
                named = named_in(tool_uses(messages), question.value["args"])
                about = ABOUT + "\n".join(named) if named else ""
                await self.questions.project(conn, run.id, shown + about, [question])
            if link:
                await self.questions.ask_to_open(conn, run.id, link["url"], link["message"], shown)
            await self.runs.rested(conn, lease, run.id, "waiting" if asked or link else "done", answer)

    async def shown(self, at: OpenRuns, run: RunRow) -> str:
        return f"You: {run.input['request']}"

    async def fault_to_wait_out(self, run: RunRow, error: Exception, fault: Fault) -> Fault | None:
        """What the person approved and can't be done now is done later, by itself, and so is what follows something
        that was done: nobody should ask for that again. All else they can ask for again."""
        if isinstance(error, psycopg.Error | QuestionNotStored):
            raise error
        is_approved = run.state == "acting" and isinstance(error, _DONE_LATER)
        goes_on = is_approved or await self.ledger.done_of([run.id])
        if not fault.passing or isinstance(error, _SaidNothing) or not goes_on:
            return None
        # A model that fails may be one that is down: who has asked is not there to try once more.
        lasts = is_approved or isinstance(error, ModelFault)
        return replace(fault, passes="by itself") if lasts else fault

    async def _asked(self, at: OpenRuns, run: RunRow, question: Interrupt) -> Asked:
        value: Mapping[str, Any] = question.value
        answered = await self.recipients.stored_mail(at.account.id, value["args"].get("email_id"))
        judged = await self.recipients.judge(at.account, value["args"], answered)
        try:
            left_out = await self.tools.left_out(run.input, value["action"], value["args"])
        except (ToolError, NotFound, Refused):  # the mail is gone: then nothing can answer it either
            left_out = []
        doubts = await self.evidence.doubts_about(value, at.account, await self.evidence.of(run.input, [value["args"]]))
        return Asked(question.id, value, judged, conflicts=[], left_out=left_out, doubts=doubts)
