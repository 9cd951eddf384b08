"""Talk to the person: take a request or their answers, and carry the chat on as far as it goes without them.

As with mail, all that is to be done is read from the tables, under the chat's lease, and may be repeated or killed
anywhere: whoever asked may have gone, and another process takes up what a dead one left.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Collection, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar
from uuid import UUID

import psycopg
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from email_assistant.accounts.account import Account, UnknownAccount
from email_assistant.accounts.accounts import Accounts
from email_assistant.accounts.clients import Clients
from email_assistant.accounts.vault import VaultError
from email_assistant.agents.chat.graph import link_in
from email_assistant.db.holder import Holder
from email_assistant.db.lease import Lease, LeaseLost, held
from email_assistant.db.pool import Pool
from email_assistant.db.serializer import ForeignCheckpoint
from email_assistant.gate.source import BadFile
from email_assistant.google.errors import GoogleError, NotFound, Refused
from email_assistant.google.quota import Urgency, calls_are
from email_assistant.inbox.items import Asked, Conflict, Inbox, Item
from email_assistant.inbox.recipients import Recipients
from email_assistant.mail.charset import readable
from email_assistant.model import BadAnswer, ModelFault
from email_assistant.model.context import shortened
from email_assistant.outgoing.effects import Ledger
from email_assistant.outgoing.entry import Declined, Effect, InDoubt, NotYetClear
from email_assistant.tools.spec import Call, ServerDown, ToolError
from email_assistant.work.again import as_it_can_be, resolve
from email_assistant.work.did import Did, did, named_in
from email_assistant.work.faults import LostInterrupt, QuestionNotStored, classify
from email_assistant.work.invoke import Invoker, Outcome, Watch
from email_assistant.work.turns import ChatRow, TurnRow, Turns

log = logging.getLogger(__name__)

T = TypeVar("T")

_LOOK_SECONDS = 0.05
"""How soon is looked again whether another process has finished what it is at; then after twice as long each time."""
_LONGEST_LOOK_SECONDS = 1.0
_ELSEWHERE_SECONDS = 60.0
"""How long a caller is kept waiting for another process."""
_REMEMBERED = 24_000
"""Characters of earlier turns that the agent is told of."""
_UNHEARD = 20
"""Requests that no model has heard, as it was down, and that the next one is told of."""
_UNDO_SECONDS = 15.0
"""How long a caller is kept waiting for the end of an undo window."""
_DONE_LATER = (GoogleError, VaultError, NotYetClear, BadFile)
"""What can keep a call that the person approved from being done now."""
ABOUT = "\n\nIt is about:\n"
"""Stands in an item before what was looked up about the ids in its call."""
_ELSEWHERE = "your answer is taken; another process is at this chat, and carries it out: look again in a moment"
_SET_ASIDE = "Not done: the person asked for something else instead."
_BROKEN_OFF = "Not done: this was broken off before."
_NOT_KNOWN = "Not known: this was broken off, and may have been done."


class Tools(Protocol):
    async def complete(self, run: Mapping[str, Any], name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Arguments checked and completed for a run. Raises ToolError, ServerDown."""
        ...

    def said(self, name: str) -> Collection[str]:
        """Those arguments of a call that only say what it is about: `complete` says them anew."""
        ...

    async def left_out(self, run: Mapping[str, Any], name: str, arguments: Mapping[str, Any]) -> list[str]:
        """Who of the answered mail's people would get nothing of a call. Raises ToolError, GoogleError."""
        ...

    async def settle(self, call: Call, effect: Effect) -> None:
        """Find out what became of an effect that was started. Raises NotYetClear, InDoubt."""
        ...


class _SaidNothing(BadAnswer):
    """The turn has ended without a word: another try would find it ended."""


@dataclass(frozen=True, slots=True)
class Talk:
    """Where a chat stands."""

    chat: ChatRow
    turn: TurnRow | None
    """The last one."""
    waiting: Sequence[Item]
    """What it waits for."""
    done: Sequence[Effect] = ()
    """What has happened in a turn that is held up, or could not be finished."""


@dataclass(frozen=True)
class Chat:
    pool: Pool
    turns: Turns
    inbox: Inbox
    recipients: Recipients
    ledger: Ledger
    accounts: Accounts
    clients: Clients
    tools: Tools
    invoker: Invoker
    lease_seconds: float
    holder: Holder
    max_tries: int
    _under_way: "set[asyncio.Task[Any]]" = field(default_factory=set)

    async def ask(self, account: Account, chat_id: str, request: str, watch: Watch | None = None) -> Talk:
        """Begin a turn and carry it on until it waits for the person or ends. Goes on if the caller is cancelled.

        Args:
            account: what a new chat is about; an old one goes on with its own, if that has a mailbox.

        Raises:
            Conflict: the chat is at work, or at something that the person decided.
            NoItem: the chat belongs to somebody else's account.
        """
        return await self._whatever_comes(self._ask(account, chat_id, request, watch))

    async def answer(
        self,
        chat: ChatRow,
        user_id: UUID,
        answers: Sequence[tuple[UUID, Mapping[str, Any]]],
        watch: Watch | None = None,
    ) -> Talk:
        """Take the person's answers, all or none, and carry the chat on. Goes on if the caller is cancelled.

        Raises:
            Conflict, Invalid, NoItem: nothing was taken.
        """
        _check_active(await self.accounts.get(chat.account_id))
        await self.inbox.decide_together(user_id, answers, by="chat")
        return await self._whatever_comes(self._carry_on(chat, user_id, watch))

    async def look(self, user_id: UUID, chat_id: str) -> Talk:
        """Raises NoItem."""
        return await self._talk(await self.turns.chat(user_id, chat_id), user_id)

    async def stand(self, user_id: UUID, chats: Sequence[ChatRow]) -> list[Talk]:
        """Where each chat stands; of what it waits for, the oldest."""
        return await stand(self.turns, self.inbox, self.ledger, user_id, chats)

    async def did(self, turn: TurnRow) -> list[Did]:
        """What the assistant did in a turn so far."""
        return did(await self.invoker.messages(turn.id))

    async def advance(self, thread_id: UUID) -> None:
        """Do all there is to do now, unless another process is at it."""
        with suppress(LeaseLost):
            async with held(self.pool, "conversation", thread_id, self.lease_seconds, self.holder) as lease:
                if lease:
                    await self._work(lease, None)

    async def aclose(self) -> None:
        """Break off what is under way; another start takes it up."""
        for task in self._under_way:
            task.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)

    async def _whatever_comes(self, work: Coroutine[Any, Any, T]) -> T:
        """Run to the end even if whoever waits for it has gone."""
        task = asyncio.ensure_future(work)
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        return await asyncio.shield(task)

    async def _ask(self, account: Account, chat_id: str, request: str, watch: Watch | None) -> Talk:
        chat = await self.turns.open_chat(account, chat_id)
        if chat.account_id != account.id:
            own = await self.accounts.get(chat.account_id)
            if own.has_mailbox:
                account = own
            else:
                chat = await self.turns.now_about(chat, account)
        _check_active(account)
        async with held(self.pool, "conversation", chat.id, self.lease_seconds, self.holder) as lease:
            if lease is None:
                raise Conflict("the assistant is still at what you asked for before; wait for its answer")
            held_up: UUID | None = None
            if chat.request is not None:  # it was used before, and a dead process may have left something
                await self._work(lease, None)
                last = await self.turns.last(chat.id)
                await self._settle_closed(lease, account, last)
                held_up = last.id if last and await self._is_held_up(last) else None
            turn = await self.turns.begin(lease, account, chat_id, request, held_up=held_up)
            await self._work(lease, watch, turn)
            return await self._talk(chat, account.user_id)

    async def _carry_on(self, chat: ChatRow, user_id: UUID, watch: Watch | None) -> Talk:
        """Work until the chat rests. What was decided in the inbox, and can be undone for a moment, is waited for.

        Raises:
            Conflict: another process has been at it for too long to be waited for.
        """
        clock = asyncio.get_running_loop().time
        begun, pause = clock(), _LOOK_SECONDS
        while True:
            async with held(self.pool, "conversation", chat.id, self.lease_seconds, self.holder) as lease:
                if lease:
                    await self._work(lease, watch)
                talk = await self._talk(chat, user_id)
            undoable = talk.turn is not None and talk.turn.waits and not talk.waiting
            if lease and not (undoable and clock() < begun + _UNDO_SECONDS):
                return talk
            if lease is None and clock() > begun + _ELSEWHERE_SECONDS:
                raise Conflict(_ELSEWHERE)
            await asyncio.sleep(pause)
            pause = _LOOK_SECONDS if lease else min(2 * pause, _LONGEST_LOOK_SECONDS)

    async def _talk(self, chat: ChatRow, user_id: UUID) -> Talk:
        turn = await self.turns.last(chat.id)
        items = await self.inbox.of_run(user_id, turn.id) if turn and turn.waits else []
        done = await self.ledger.done_of([turn.id]) if turn and not turn.waits and turn.state != "done" else ()
        return Talk(chat, turn, [item for item in items if item.status == "pending"], done)

    async def _is_held_up(self, turn: TurnRow) -> bool:
        """Whether an outage holds a turn up after all that the person decided in it is done: what is left of it is the
        assistant's own, so it may be set aside for a new request, and nobody is locked out of their chat."""
        return turn.is_at_work and all(call.result is not None for call in await self.did(turn))

    async def _work(self, lease: Lease, watch: Watch | None, new: TurnRow | None = None) -> None:
        with calls_are(Urgency.PERSON):
            goes_on = await self._step(lease, new, watch) if new else True
            while goes_on:
                goes_on = await self._step(lease, await self.turns.last(lease.thread_id), watch)

    async def _step(self, lease: Lease, turn: TurnRow | None, watch: Watch | None) -> bool:
        """Do the next thing; False when there is nothing left, or nothing that can be done now."""
        if turn is None or not turn.is_open:
            return False
        if turn.unreadable:
            await self._fail(lease, turn, str(ForeignCheckpoint()))
            return False
        if turn.waits and not turn.decided:
            return False
        if not turn.is_new and not await self._may_work(turn):
            return False
        try:
            if turn.state == "waiting":
                return await self._apply(lease, turn)
            return await self._go_on(lease, turn, watch)
        except (LeaseLost, psycopg.Error, QuestionNotStored):
            raise  # nothing can be written, or by nobody here; the turn is taken up again
        except Exception as error:
            await self._failed(lease, turn, error)
            return False

    async def _may_work(self, turn: TurnRow) -> bool:
        """Whether the account is active, and one that this process may touch."""
        try:
            return (await self.accounts.get(UUID(turn.input["account_id"]))).state == "active"
        except UnknownAccount:
            return False

    async def _apply(self, lease: Lease, turn: TurnRow) -> bool:
        """The point of no return: all answers of the turn at once, and only with the account active."""
        if not await self.inbox.decided(turn.id) <= await self.invoker.pending(turn.id, lease):
            raise LostInterrupt("the chat does not wait for the answer that was given")
        account = await self.accounts.get(UUID(turn.input["account_id"]))
        async with self.pool.connection() as conn, conn.transaction():
            await lease.check(conn, account_active=True)
            items = await self.inbox.apply(conn, turn.id)
            if not items:
                return False
            if items[0].kind != "link":
                await self.turns.acting(conn, turn)
                return True
            await self.turns.rested(conn, turn, "done", turn.answer)
            if (items[0].decision or {}).get("type") == "accept":
                await self.turns.begin_in(conn, lease, account, turn.input["chat"], turn.input["request"])
        return True

    async def _go_on(self, lease: Lease, turn: TurnRow, watch: Watch | None) -> bool:
        """Run the graph from where it stands until it waits for the person or ends, and store which of the two.

        Returns whether it waits: they may have answered already.
        """
        if turn.decided:
            await self._settle_doubts(lease, turn)
        begun = turn.state == "acting"
        for effect in await self.ledger.hanging_in(turn.id) if begun else ():
            raise InDoubt(effect.call_id)
        if not turn.is_new and not await self.turns.start_work(lease, turn, self.max_tries):
            await self._fail(
                lease, turn, f"given up after {self.max_tries} tries" + (f": {turn.why}" if turn.why else "")
            )
            return False
        try:
            given = {"run": turn.input, "messages": [] if begun else await self._opening(lease, turn)}
            outcome = await self.invoker.invoke(turn.id, given, lease, begun=begun, is_new=turn.is_new, watch=watch)
            asked = [await self._asked(turn, question) for question in outcome.questions]
        except asyncio.CancelledError:
            with suppress(LeaseLost):
                await self.turns.handed_back(lease, turn)
            raise
        await self._rest(lease, turn, outcome, asked)
        return bool(asked)

    async def _rest(self, lease: Lease, turn: TurnRow, outcome: Outcome, asked: Sequence[Asked]) -> None:
        said = f"You: {turn.input['request']}"
        messages = outcome.state["messages"]
        link = None if asked else link_in(messages)
        answer = None if asked else readable(messages[-1].text)
        if answer == "":
            raise _SaidNothing("the model answered nothing")
        async with self.pool.connection() as conn, conn.transaction():
            await lease.check(conn)
            for question in asked:
                named = named_in(did(messages), question.value["args"])
                about = ABOUT + "\n".join(named) if named else ""
                await self.inbox.project(conn, turn.id, said + about, [question])
            if link:
                await self.inbox.ask_to_open(conn, turn.id, link["url"], link["message"], said)
            await self.turns.rested(conn, turn, "waiting" if asked or link else "done", answer)

    async def _asked(self, turn: TurnRow, question: Any) -> Asked:
        value: Mapping[str, Any] = question.value
        account = await self.accounts.get(UUID(turn.input["account_id"]))
        answered = await self.recipients.stored_mail(account.id, value["args"].get("email_id"))
        judged = await self.recipients.judge(account, value["args"], answered)
        try:
            left_out = await self.tools.left_out(turn.input, value["action"], value["args"])
        except (ToolError, NotFound, Refused):  # the mail is gone: then nothing can answer it either
            left_out = []
        return Asked(question.id, value, judged, conflicts=[], left_out=left_out)

    async def _settle_closed(self, lease: Lease, account: Account, last: TurnRow | None) -> None:
        """Find out what became of effects that turns left when they broke off, before anything new begins. Those of a
        turn that still acts are done yet."""
        is_open = last is not None and last.is_open
        for effect in await self.ledger.started_in(lease.thread_id):
            if is_open and last is not None and effect.run_id == last.id:
                continue
            run = await self.turns.input_of(effect.run_id)
            with suppress(NotYetClear, InDoubt, GoogleError, VaultError, ServerDown):
                self.ledger.expect_over(effect)
                call = Call(run, effect.call_id, account, await self.clients.if_any(account), lease)
                await self.tools.settle(call, effect)

    async def _settle_doubts(self, lease: Lease, turn: TurnRow) -> None:
        """Carry out what the person said about effects that were refused, or of which nobody knows whether they
        happened; but look for these again, as they may have shown up meanwhile."""
        account = await self.accounts.get(UUID(turn.input["account_id"]))
        client = await self.clients.if_any(account)
        for effect in await self.ledger.unknown_in(turn.id):
            with suppress(NotYetClear, InDoubt):
                await self.tools.settle(Call(turn.input, effect.call_id, account, client, lease), effect)
        async with self.pool.connection() as conn, conn.transaction():
            await lease.check(conn, account_active=True)
            await resolve(self.ledger, conn, await self.inbox.apply(conn, turn.id))

    async def _failed(self, lease: Lease, turn: TurnRow, error: Exception) -> None:
        """Say what went wrong. What the person approved and Google can't do now is done later, by itself, and so is
        what follows something that was done: nobody should ask for that again. All else they can ask for again."""
        current = await self.turns.last(lease.thread_id) or turn
        if isinstance(error, InDoubt | Declined):
            await self._ask_again(lease, current)
            return
        fault = classify(error)
        log.warning("chat %s: %s", lease.thread_id, type(error).__name__, exc_info=fault.unexpected)
        if fault.login:
            await self.accounts.set_state(UUID(turn.input["account_id"]), "login", fault.reason)
        is_approved = current.state == "acting" and isinstance(error, _DONE_LATER)
        if (
            fault.passing
            and not isinstance(error, _SaidNothing)
            and (is_approved or await self.ledger.done_of([current.id]))
        ):
            # A model that fails may be one that is down: who has asked is not there to try once more.
            outage = fault.outage or is_approved or isinstance(error, ModelFault)
            await self.turns.back_off(lease, current, fault.reason, fault.until, outage=outage)
        else:
            await self._fail(lease, current, fault.reason)

    async def _fail(self, lease: Lease, turn: TurnRow, reason: str) -> None:
        async with self.pool.connection() as conn, conn.transaction():
            await lease.check(conn)
            await self.inbox.expire_run(conn, turn.id)
            await self.turns.fail(conn, turn, reason)

    async def _ask_again(self, lease: Lease, turn: TurnRow) -> None:
        hanging = await self.ledger.hanging_in(turn.id)
        effects = [await as_it_can_be(self.tools, turn.input, effect) for effect in hanging]
        async with self.pool.connection() as conn, conn.transaction():
            await lease.check(conn)
            await self.turns.acting(conn, turn)
            for effect in effects:
                await self.inbox.ask_again(conn, effect, f"You: {turn.input['request']}")

    async def _opening(self, lease: Lease, turn: TurnRow) -> list[AnyMessage]:
        """What the turn's graph begins with: what was said before, cut to a length, and the request."""
        return [*_cut(await self._before(lease, turn)), HumanMessage(turn.input["request"])]

    async def _before(self, lease: Lease, turn: TurnRow) -> list[AnyMessage]:
        """The messages of the last turn that left any: they hold those of earlier turns. A turn that was set aside or
        broke off leaves calls without an answer, which no model takes."""
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


async def stand(turns: Turns, inbox: Inbox, ledger: Ledger, user_id: UUID, chats: Sequence[ChatRow]) -> list[Talk]:
    """Where each chat stands; of what it waits for, the oldest."""
    lasts = await turns.lasts(chats)
    waiting = await inbox.waiting_in(user_id, [turn.id for turn in lasts.values() if turn.waits])
    done: dict[UUID, list[Effect]] = defaultdict(list)
    for effect in await ledger.done_of([t.id for t in lasts.values() if not t.waits and t.state != "done"]):
        done[effect.run_id].append(effect)
    talks: list[Talk] = []
    for chat in chats:
        turn = lasts.get(chat.chat_id)
        oldest = waiting.get(turn.id) if turn else None
        talks.append(Talk(chat, turn, [oldest] if oldest else [], done[turn.id] if turn else ()))
    return talks


def _check_active(account: Account) -> None:
    """Raises Conflict."""
    if account.state != "active":
        raise Conflict(
            f"{account.address} is paused: `email-assistant account resume {account.address}`"
            if account.state == "paused"
            else f"{account.address} can't be used now: `email-assistant auth status` says why"
        )


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
