"""`/api/chat`: the chats that there are, and what was said in one."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import Self
from uuid import UUID

from pydantic import BaseModel, Field

from email_assistant.app import App
from email_assistant.inbox.items import Item
from email_assistant.inbox.sentences import done_in_words
from email_assistant.outgoing.entry import Effect
from email_assistant.web.chat import Talks
from email_assistant.web.errors import documented
from email_assistant.web.replies import Reply, Stand, reply_of, stand_of
from email_assistant.web.routers import Assistant, for_programs
from email_assistant.web.schemas import ItemOut
from email_assistant.work.chat import Talk
from email_assistant.work.rows import RunRow, RunState

_MOST_CHATS = 200
MOST_TURNS = 200

Told = Sequence[tuple[RunRow, Sequence[Item], Sequence[Effect]]]
"""Turns, oldest first, with what they asked the person, and what was done in those that the assistant did not end."""


class ChatOut(BaseModel):
    """A chat."""

    thread_id: str
    account: str
    request: str | None = Field(description="What was asked for first; null: nothing yet.")
    at: datetime | None = Field(description="When something was asked for last.")
    status: Stand = Field(description="Where it stands: as `/run` would say it, or `working`.")

    @classmethod
    def of(cls, talk: Talk) -> Self:
        chat = talk.chat
        return cls(
            thread_id=chat.chat_id, account=chat.account, request=chat.request, at=chat.at, status=stand_of(talk)
        )


class ChatPage(BaseModel):
    items: list[ChatOut] = Field(description=f"The latest first; {_MOST_CHATS} at most.")
    next: None = None


class TurnOut(BaseModel):
    """One request and what came of it."""

    request: str
    response: str | None = Field(
        description="What the assistant said in the end; what was done, if it did not come so far."
    )
    state: RunState
    reason: str | None = Field(description="Why it failed, was set aside, or can't go on now.")
    started_at: datetime
    items: list[ItemOut] = Field(description="What it asked the person, oldest first.")

    @classmethod
    def of(cls, turn: RunRow, items: Sequence[Item], done: Sequence[Effect]) -> Self:
        return cls(
            request=turn.input["request"],
            response=turn.answer or (done_in_words(done) if done else None),
            state=turn.state,
            reason=turn.why,
            started_at=turn.created_at,
            items=[ItemOut.model_validate(item) for item in items],
        )


class ChatWithTurns(Reply):
    """Where a chat stands, as `/run` would say it, and what was said in it."""

    status: Stand  # type: ignore[assignment]  # more than an answer says: here it may still be at work
    account: str
    turns: list[TurnOut] = Field(description=f"Oldest first; the last {MOST_TURNS} at most.")

    @classmethod
    def told(cls, talk: Talk, told: Told) -> Self:
        _, reply = reply_of(talk)
        turns = [TurnOut.of(*each) for each in told]
        return cls(**{**dict(reply), "status": stand_of(talk)}, account=talk.chat.account, turns=turns)


router = for_programs("chat", "/api/chat")


@router.get("", responses=documented(401))
async def list_chats(app: Assistant, chat: Talks) -> ChatPage:
    """The chats that were begun over `/run`, on the page or in the terminal, the latest first."""
    chats = await chat.turns.chats(app.user_id, _MOST_CHATS)
    return ChatPage(items=[ChatOut.of(talk) for talk in await chat.stand(app.user_id, chats)])


@router.get("/{chat_id:path}", responses=documented(401, 404, 422))
async def show_chat(app: Assistant, chat: Talks, chat_id: str) -> ChatWithTurns:
    """One chat: where it stands and what it waits for, and each request with its answer and what it asked for."""
    talk = await chat.look(app.user_id, chat_id)
    return ChatWithTurns.told(talk, await told(app, chat, talk, MOST_TURNS))


async def told(app: App, chat: Talks, talk: Talk, most: int) -> Told:
    """The last turns of a chat."""
    asked: dict[UUID, list[Item]] = defaultdict(list)
    for item in await app.inbox.of_thread(app.user_id, talk.chat.id):
        asked[item.run_id].append(item)
    turns = (await chat.turns.newest(talk.chat.id, most))[::-1]
    done: dict[UUID, list[Effect]] = defaultdict(list)
    if unended := [turn.id for turn in turns if turn.state != "done" and not turn.waits]:
        for effect in await chat.ledger.done_of(unended):
            done[effect.run_id].append(effect)
    return [(turn, asked[turn.id], done[turn.id]) for turn in turns]
