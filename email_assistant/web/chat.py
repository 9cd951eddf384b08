"""`/run` and `/resume`: talk to the assistant. Both can be answered as a stream of server-sent events as well."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from http import HTTPStatus
from typing import Annotated, Any
from uuid import UUID

from fastapi import Request
from fastapi.responses import Response
from fastapi.sse import EventSourceResponse, format_sse_event
from pydantic import Field, StringConstraints

from email_assistant.accounts.account import Account, UnknownAccount
from email_assistant.app import App
from email_assistant.db.lease import LeaseLost
from email_assistant.db.pool import AWAY
from email_assistant.inbox.items import Conflict, Invalid, Item, NoItem
from email_assistant.tools.control import CLARIFICATION
from email_assistant.web.errors import AsciiJSON
from email_assistant.web.replies import Reply, answered_as, refused, reply_of
from email_assistant.web.routers import Assistant, for_programs, served
from email_assistant.web.schemas import Given
from email_assistant.work.chat import Chat, Talk
from email_assistant.work.faults import QuestionNotStored
from email_assistant.work.invoke import Watch

_BEAT_SECONDS = 5.0
"""After so long without an event a comment shows that the stream lives: proxies close those that are silent."""
_SPEAKS = "task_executor"  # the node whose words are the answer

Work = Callable[[Watch | None], Awaitable[Talk]]  # what is asked of a chat, told of each chunk

ChatId = Annotated[str, StringConstraints(min_length=1, max_length=600, pattern=r"^[^\x00-\x1f\x7f]+$")]
MOST_WORDS = 20_000  # characters of a request
Words = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=MOST_WORDS, pattern=r"^[^\x00]*$")
]


class RunRequest(Given):
    thread_id: ChatId = Field(description="Any string; the same again goes on with that chat.", examples=["errands"])
    user_request: Words = Field(examples=["move my 3 pm to 4"])
    account: str | None = Field(None, description="Address of the mailbox that a new chat is about.")


class Approval(Given):
    call_id: str
    approved: bool
    feedback: str | None = Field(
        None, description="What should be different; needed where it is not approved, and refused where it is."
    )


class ClarificationResponse(Given):
    call_id: str
    response: str


ByCall = dict[str, Approval | ClarificationResponse]  # answers by the id of their call


class ResumeRequest(Given):
    """Either approvals or clarification responses. A call that is left out still waits."""

    thread_id: ChatId
    approvals: list[Approval] | None = None
    clarification_responses: list[ClarificationResponse] | None = None


router = for_programs("chat")


Talks = Annotated[Chat, served("chat")]
_STATUSES = (202, 400, 401, 403, 404, 409, 413, 502, 503)
_REPLIES: dict[int | str, dict[str, Any]] = {
    status: {"model": Reply, "description": HTTPStatus(status).phrase} for status in _STATUSES
}


@router.post("/run", response_model=Reply, responses=_REPLIES)
async def run(app: Assistant, chat: Talks, body: RunRequest, request: Request) -> Response:
    """Ask the assistant for something. What still waits in this chat is set aside, and can never be done.

    With `Accept: text/event-stream` the events `step`, `call` and `token` tell what it is at, and `result` is the body;
    a comment every few seconds shows that the stream lives."""

    async def work(watch: Watch | None) -> Talk:
        account = await account_of(app, body.account)
        return await chat.ask(account, body.thread_id, body.user_request, watch)

    return await _answered(request, body.thread_id, work)


@router.post("/resume", response_model=Reply, responses=_REPLIES)
async def resume(app: Assistant, chat: Talks, body: ResumeRequest, request: Request) -> Response:
    """Answer what a chat waits for. It is done at once: there is no time to undo it, unlike in the inbox."""

    async def work(watch: Watch | None) -> Talk:
        given = given_in(body)
        talk = await chat.look(app.user_id, body.thread_id)
        items = await app.inbox.of_thread(app.user_id, talk.chat.id)
        return await chat.answer(talk.chat, app.user_id, answers_of(given, items, talk.waiting), watch)

    return await _answered(request, body.thread_id, work)


def refused_words(words: str) -> str | None:
    """Why this can't be asked for; None: it can."""
    if not words:
        return "say what you want"
    if len(words) > MOST_WORDS:
        return f"this is {len(words):,} characters long; {MOST_WORDS:,} are the most"
    return None


async def account_of(app: App, address: str | None) -> Account:
    """The mailbox that a new chat is about, or what stands for a person who has none. Raises UnknownAccount."""
    if address:
        return app.accounts.here(await app.accounts.find(app.user_id, address))
    return await app.accounts.for_chat(app.user_id)


_TWO_ANSWERS = (
    "an approval takes no feedback: to have it done otherwise, send approved: false with the feedback, and approve "
    "what is proposed then; to have it done as it stands, leave the feedback out"
)


def given_in(body: ResumeRequest) -> ByCall:
    """The answers by call id, as far as they can be judged by themselves. Raises Invalid."""
    if (body.approvals is None) == (body.clarification_responses is None):
        raise Invalid("give either approvals or clarification_responses")
    given: ByCall = {}
    for each in [*(body.approvals or ()), *(body.clarification_responses or ())]:
        if each.call_id in given:
            raise Invalid(f"call_id {each.call_id} stands there twice")
        if isinstance(each, Approval) and each.approved == bool((each.feedback or "").strip()):
            wrong = _TWO_ANSWERS if each.approved else "a rejection needs feedback: say what should be different"
            raise Invalid(f"call_id {each.call_id}: {wrong}")
        given[each.call_id] = each
    if not given:
        raise Invalid("give at least one answer; what is left out still waits")
    return given


def answers_of(given: ByCall, items: list[Item], waiting: Sequence[Item]) -> list[tuple[UUID, dict[str, Any]]]:
    """The answers by item. Raises Conflict, Invalid."""
    if all(item.kind == "link" for item in waiting):
        raise Conflict("nothing waits for an answer in this chat")
    by_call = {answered_as(item): item for item in items}
    if unknown := [call_id for call_id in given if call_id not in by_call]:
        raise Invalid(f"no call of this chat has the id {', '.join(unknown)}")
    return [(by_call[call_id].id, _answer(by_call[call_id], each)) for call_id, each in given.items()]


def _answer(item: Item, given: Approval | ClarificationResponse) -> dict[str, Any]:
    if isinstance(given, ClarificationResponse) != (item.action == CLARIFICATION):
        wanted = "clarification_responses" if item.action == CLARIFICATION else "approvals"
        raise Invalid(f"call_id {item.call_id} is answered in {wanted}")
    if isinstance(given, ClarificationResponse):
        return {"type": "response", "args": given.response}
    if given.approved:
        return {"type": "accept", "args": None}
    return {"type": "response", "args": given.feedback} if "response" in item.allowed else {"type": "ignore"}


def wants_stream(request: Request) -> bool:
    return EventSourceResponse.media_type in request.headers.get("accept", "")


def streamed(thread_id: str, work: Work) -> Response:
    """The work as it goes on: `step`, `call`, `progress`, `token`, and where the chat stands then as `result`."""
    return EventSourceResponse(_events(thread_id, work), headers={"X-Accel-Buffering": "no"})


async def _answered(request: Request, thread_id: str, work: Work) -> Response:
    if wants_stream(request):
        return streamed(thread_id, work)
    status, reply = await outcome(thread_id, work(None))
    return AsciiJSON(reply.model_dump(), status)


async def outcome(thread_id: str, work: Awaitable[Talk]) -> tuple[int, Reply]:
    """Where the chat stands after the work, or why nothing was done."""
    try:
        return reply_of(await work)
    except NoItem as error:
        return refused(404, thread_id, str(error))
    except (Conflict, UnknownAccount) as error:
        return refused(409, thread_id, str(error))
    except Invalid as error:
        return refused(400, thread_id, str(error))
    except LeaseLost:
        return refused(
            409, thread_id, "another process has taken the chat over, or it was paused or stopped; look again"
        )
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        return refused(503, thread_id, "the program is stopping; it goes on with this when it is started again")
    except (*AWAY, QuestionNotStored):
        return refused(503, thread_id, "the database can't be reached; try again in a moment")


async def _events(thread_id: str, work: Work) -> AsyncIterator[bytes]:
    told: asyncio.Queue[tuple[str, dict[str, Any]] | None] = asyncio.Queue()

    def watch(mode: str, chunk: Any) -> None:
        for event in seen(mode, chunk):
            told.put_nowait(event)

    async def finish() -> tuple[int, Reply]:
        try:
            return await outcome(thread_id, work(watch))
        finally:
            told.put_nowait(None)

    working = asyncio.create_task(finish())
    while True:
        try:
            async with asyncio.timeout(_BEAT_SECONDS):
                event = await told.get()
        except TimeoutError:
            yield format_sse_event(comment="still here")
            continue
        if event is None:
            break
        yield _written(*event)
    status, reply = await working
    yield _written("result", {**reply.model_dump(), "code": status})


def seen(mode: str, chunk: Any) -> list[tuple[str, dict[str, Any]]]:
    """What a person may want to know of what the graph streams."""
    if mode == "messages":
        piece, where = chunk
        is_answer = where.get("langgraph_node") == _SPEAKS and piece.type == "AIMessageChunk" and piece.text
        return [("token", {"text": piece.text})] if is_answer else []
    if mode == "custom":
        return [("progress", chunk)]
    if mode != "updates":
        return []
    events = [("step", {"node": node}) for node in chunk if node != "__interrupt__"]
    for update in chunk.values():
        for message in (update.get("messages") or ()) if isinstance(update, dict) else ():
            calls = getattr(message, "tool_calls", ())
            events += [("call", {"tool_name": call["name"], "arguments": call["args"]}) for call in calls]
    return events


def _written(event: str, data: dict[str, Any]) -> bytes:
    return format_sse_event(event=event, data_str=json.dumps(data))
