"""What `/run` and `/resume` answer, whatever came of it."""

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import BaseModel, Field

from email_assistant.accounts.account import WITHOUT_MAILBOX
from email_assistant.inbox.items import Item
from email_assistant.inbox.kept import UNREADABLE
from email_assistant.inbox.sentences import done_in_words
from email_assistant.tools.control import CLARIFICATION
from email_assistant.web.wording import WHAT_A_MAILBOX_ADDS, what_follows
from email_assistant.work.chat import Talk


class PendingCall(BaseModel):
    call_id: str
    tool_name: str
    arguments: dict[str, Any]


class PendingQuestion(BaseModel):
    call_id: str
    question: str
    context: str | None


class Confirmation(BaseModel):
    kind: Literal["confirmation"] = "confirmation"
    tool_calls: list[PendingCall]


class Clarification(BaseModel):
    kind: Literal["clarification"] = "clarification"
    clarifications: list[PendingQuestion]


ReplyStatus = Literal["success", "confirmation_required", "clarification_required", "oauth_required", "error"]


Stand = ReplyStatus | Literal["working"]
"""As it is asked for; `working`: it goes on by itself, now or when what keeps it has passed."""


class Reply(BaseModel):
    """Where the chat stands."""

    status: ReplyStatus
    response: str | None = Field(
        None,
        description="What the assistant said in the end; until it has, what was done, if anything was. With a link, "
        "what its server says about it.",
    )
    thread_id: str | None
    pending_action: Confirmation | Clarification | None = None
    url: str | None = Field(
        None, description="What you must open before it can be done: https, or http on this machine."
    )
    message: str | None = Field(
        None,
        description="What is wrong, what the link is for, why you are asked, what follows what was done and why it "
        "waits, or what a mailbox would add.",
    )


def answered_as(item: Item) -> str:
    """The id under which a chat's item is answered. To ask whether a call is to be made again is another question than
    the one before: a client that sends its first answer once more must not have answered it."""
    return item.call_id if item.asked == 1 else f"{item.call_id}-{item.asked}"


def reply_of(talk: Talk) -> tuple[int, Reply]:
    """HTTP status and body that say where a chat stands."""
    thread_id, turn = talk.chat.chat_id, talk.turn
    asked = [item for item in talk.waiting if item.action == CLARIFICATION and not item.unreadable]
    if asked:
        questions = [
            PendingQuestion(call_id=i.call_id, question=i.args.get("question", ""), context=i.args.get("context"))
            for i in asked
        ]
        clarification = Clarification(clarifications=questions)
        return 202, Reply(status="clarification_required", thread_id=thread_id, pending_action=clarification)
    if talk.waiting and talk.waiting[0].kind == "link" and not talk.waiting[0].unreadable:
        url, words = talk.waiting[0].args["url"], talk.waiting[0].args["message"]
        return 202, Reply(status="oauth_required", response=words, thread_id=thread_id, url=url, message=words)
    if talk.waiting:
        calls = [PendingCall(call_id=answered_as(i), tool_name=i.action, arguments=i.args) for i in talk.waiting]
        return 202, Reply(
            status="confirmation_required",
            thread_id=thread_id,
            pending_action=Confirmation(tool_calls=calls),
            message=_why(talk.waiting),
        )
    if turn is not None and turn.waits:
        later = "what you decided in the inbox is done when the time to undo it has passed"
        nothing = Confirmation(tool_calls=[])
        return 202, Reply(status="confirmation_required", thread_id=thread_id, pending_action=nothing, message=later)
    if turn is None or turn.state == "done":
        said = turn.answer if turn else None
        adds = WHAT_A_MAILBOX_ADDS if talk.chat.account == WITHOUT_MAILBOX else None
        return 200, Reply(status="success", thread_id=thread_id, response=said, message=adds)
    if talk.done:
        done = done_in_words(talk.done)
        return 200, Reply(status="success", thread_id=thread_id, response=done, message=what_follows(turn, talk.done))
    return 502, Reply(status="error", thread_id=thread_id, message=what_follows(turn, ()))


def stand_of(talk: Talk) -> Stand:
    """Where a chat stands for whoever only looks at it."""
    if talk.turn is not None and talk.turn.is_at_work:
        return "working"
    _, reply = reply_of(talk)
    return reply.status


def _why(waiting: Sequence[Item]) -> str | None:
    """Why the person is asked about something once more, or against their own rule, and what else they must see."""
    if refusal := next((item.asked_because for item in waiting if item.asked_because), None):
        return f"{refusal}. Approve it to have it tried again, or reject it"
    if any(item.unreadable for item in waiting):
        return UNREADABLE.capitalize()
    if any(item.kind == "in_doubt" for item in waiting):
        return "It is not known whether this was done; approve it to have it done again"
    return "; ".join(dict.fromkeys(warning for item in waiting for warning in item.warnings)) or None


def refused(status: int, thread_id: str | None, why: str) -> tuple[int, Reply]:
    """HTTP status and body where nothing was done."""
    return status, Reply(status="error", thread_id=thread_id, message=why)
