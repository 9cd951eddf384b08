"""`/chat` and `/chat/{id}`: talk to the assistant. What waits in a chat is answered in place, and done at once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self
from urllib.parse import quote
from uuid import UUID, uuid4
from zoneinfo import ZoneInfo

from fastapi import Request
from fastapi.responses import RedirectResponse, Response

from email_assistant.accounts.account import UnknownAccount
from email_assistant.app import App
from email_assistant.inbox.items import Conflict, Invalid, Item, NoItem
from email_assistant.inbox.sentences import did_in_words, done_in_words, sentence, would_do
from email_assistant.mail.charset import one_line, readable
from email_assistant.outgoing.entry import Effect
from email_assistant.web.chat import ChatId, Talks, account_of, refused_words, streamed, wants_stream
from email_assistant.web.chats import MOST_TURNS, told
from email_assistant.web.forms import Field, form_of
from email_assistant.web.pages.listing import Listing, zones
from email_assistant.web.pages.proposal import Input, answer_of, arguments_in, fields_of, inputs_of
from email_assistant.web.rendering import render
from email_assistant.web.replies import stand_of
from email_assistant.web.routers import Assistant, ItemId, for_pages
from email_assistant.web.wording import TITLES, chat_buttons, what_follows
from email_assistant.work.chat import Chat, Talk, ToolUse
from email_assistant.work.invoke import Watch
from email_assistant.work.rows import RunRow

_MOST_CHATS = 50
_NEWEST = 20  # turns of a long chat that stand on the page

router = for_pages()

Refusal = Conflict | Invalid | UnknownAccount
_REFUSALS = (Conflict, Invalid, UnknownAccount)


@dataclass(frozen=True, slots=True)
class ChatLine:
    """Something that a turn did, or asked and was told."""

    text: str
    failed: str | None = None  # what went wrong with it
    item: Item | None = None


@dataclass(frozen=True, slots=True)
class ShownTurn:
    """A turn as the page tells it."""

    turn: RunRow
    lines: Sequence[ChatLine]
    done: str | None  # what was done, if the assistant did not come to an end
    follows: str  # why it did not, and what becomes of it

    @classmethod
    def of(cls, turn: RunRow, lines: Sequence[ChatLine], done: Sequence[Effect]) -> Self:
        return cls(turn, lines, done_in_words(done) if done else None, what_follows(turn, done))


@dataclass(frozen=True, slots=True)
class Waits:
    """An item that waits, with its form as it was filled in."""

    item: Item
    inputs: Sequence[Input]
    changed: Sequence[Field]
    response: str
    zone: ZoneInfo


@router.get("/chat")
async def chats(app: Assistant, chat: Talks) -> Response:
    return await _list(app, chat, str(uuid4()))


@router.get("/chat/{chat_id:path}")
async def show(app: Assistant, chat: Talks, chat_id: ChatId, whole: bool = False) -> Response:
    """`whole`: all turns, not only the newest."""
    return await _page(app, chat, chat_id, whole=whole)


@router.post("/chat/{chat_id:path}")
async def ask(app: Assistant, chat: Talks, request: Request, chat_id: ChatId) -> Response:
    """Ask for something. What was sent twice is asked once; what was typed is kept where it can't be asked."""
    posted = await fields_of(request)

    async def work(watch: Watch | None) -> Talk:
        words = _words(posted)
        before = await _last(app, chat, chat_id)
        if _is_taken(before, posted, words):
            return await chat.look(app.user_id, chat_id)
        account = await account_of(app, posted.get("account") or None)
        try:
            return await chat.ask(account, chat_id, words, watch)
        except Conflict:
            if _is_taken(await _last(app, chat, chat_id), posted, words):
                return await chat.look(app.user_id, chat_id)
            raise

    if wants_stream(request):
        return streamed(chat_id, work)
    try:
        await work(None)
    except _REFUSALS as refusal:
        return await _again(app, chat, chat_id, posted, refusal)
    return RedirectResponse(path_of(chat_id), 303)


@router.post("/items/{item_id}/answer")
async def answer(app: Assistant, chat: Talks, request: Request, item_id: ItemId) -> Response:
    """Answer what a chat waits for, and carry it on at once; `preview` only shows what an edit would change."""
    item = await app.inbox.get(app.user_id, item_id)
    if item.chat is None:
        raise NoItem("this item comes from no chat")
    posted = await fields_of(request)
    if posted.get("answer") == "preview":
        return await _page(app, chat, item.chat, posted=posted, answered=item_id)
    chat_id = item.chat

    async def work(watch: Watch | None) -> Talk:
        if posted.get("answer") != "response" and posted.get("response", "").strip():
            raise Invalid("you wrote what should be different: send that, or clear it")
        talk = await chat.look(app.user_id, chat_id)
        given = answer_of(form_of(app.tools, item), posted)
        return await chat.answer(talk.chat, app.user_id, [(item_id, given)], watch)

    if wants_stream(request):
        return streamed(chat_id, work)
    try:
        await work(None)
    except _REFUSALS as refusal:
        return await _page(app, chat, chat_id, posted=posted, answered=item_id, refusal=refusal)
    return RedirectResponse(f"{path_of(chat_id)}#newest", 303)


def path_of(chat_id: str) -> str:
    return f"/chat/{quote(chat_id, safe='')}"


def _words(posted: Mapping[str, str]) -> str:
    """Raises Invalid."""
    words = readable(posted.get("request", "")).strip()
    if why := refused_words(words):
        raise Invalid(why)
    return words


async def _last(app: App, chat: Chat, chat_id: str) -> RunRow | None:
    try:
        return (await chat.look(app.user_id, chat_id)).turn
    except NoItem:
        return None


def _is_taken(last: RunRow | None, posted: Mapping[str, str], words: str) -> bool:
    """Whether the same was sent before from the same page. Raises Conflict: something else was asked since the page was
    shown."""
    if last is None or str(last.attempt) == posted.get("after", str(last.attempt)):
        return False
    if last.input["request"] == words:
        return True
    raise Conflict("this chat went on elsewhere; read on, then ask again")


async def _again(app: App, chat: Chat, chat_id: str, posted: Mapping[str, str], refusal: Refusal) -> Response:
    """The page that the request was sent from, with what was typed."""
    if await _last(app, chat, chat_id):
        return await _page(app, chat, chat_id, posted=posted, refusal=refusal)
    return await _list(app, chat, chat_id, posted, refusal)


async def _list(
    app: App, chat: Chat, new_id: str, posted: Mapping[str, str] | None = None, refusal: Refusal | None = None
) -> Response:
    accounts = await app.accounts.of_user(app.user_id)
    return render(
        "chats.html",
        refusal=refusal,
        ask=path_of(new_id),
        after=0,
        typed=(posted or {}).get("request", ""),
        account=(posted or {}).get("account"),
        accounts=accounts,
        zones=zones(accounts),
        chats=[
            (talk, path_of(talk.chat.chat_id), stand_of(talk))
            for talk in await chat.stand(app.user_id, await chat.turns.chats(app.user_id, _MOST_CHATS))
        ],
        one_line=one_line,
    )


async def _page(
    app: App,
    chat: Chat,
    chat_id: str,
    *,
    posted: Mapping[str, str] | None = None,
    answered: UUID | None = None,
    refusal: Refusal | None = None,
    whole: bool = False,
) -> Response:
    """`posted`: what was typed: for the item `answered`, or as a request."""
    talk = await chat.look(app.user_id, chat_id)
    account = await app.accounts.get(talk.chat.account_id)
    turns = await told(app, chat, talk, MOST_TURNS)
    newest = turns if whole else turns[-_NEWEST:]
    given: Mapping[str, str] = posted or {}
    failed = talk.turn.input["request"] if talk.turn and talk.turn.state == "failed" and not talk.done else ""
    return render(
        "chat.html",
        refusal=refusal,
        chat=talk.chat,
        here=path_of(chat_id),
        turns=[
            ShownTurn.of(turn, _lines(items, await chat.tool_uses(turn), account.zone), done)
            for turn, items, done in newest
        ],
        earlier=len(turns) - len(newest),
        waits=[await _waits(app, item, given if item.id == answered else {}) for item in talk.waiting],
        lost=await _lost(app, talk, answered, given) if answered else None,
        after=talk.turn.attempt if talk.turn else 0,
        typed=failed if answered else given.get("request", failed),
        titles=TITLES,
        sentence=sentence,
        would_do=would_do,
        buttons=chat_buttons,
        listing=Listing(),
        zone=account.zone,
    )


async def _lost(app: App, talk: Talk, answered: UUID, posted: Mapping[str, str]) -> Waits | None:
    """What was typed for an item that does not wait any more."""
    if answered in {item.id for item in talk.waiting}:
        return None
    return await _waits(app, await app.inbox.get(app.user_id, answered), posted)


async def _waits(app: App, item: Item, posted: Mapping[str, str]) -> Waits:
    form = form_of(app.tools, item)
    given = arguments_in(posted)
    return Waits(item, inputs_of(form, given), form.changed(given), posted.get("response", ""), form.zone)


def _lines(items: Sequence[Item], calls: Sequence[ToolUse], zone: ZoneInfo) -> list[ChatLine]:
    """The calls in order, in the place of those that the person decided what became of that; what waits is left out."""
    by_call = {item.call_id: item for item in items}
    called = {call.call_id for call in calls}
    lines: list[ChatLine] = []
    for call in calls:
        item = by_call.get(call.call_id)
        if item is None:
            lines.append(ChatLine(did_in_words(call.tool, call.args), call.result if call.failed else None))
        elif item.status != "pending":
            lines.append(ChatLine(sentence(item, zone), call.result if call.failed else None, item))
    others = [item for item in items if item.call_id not in called and item.status != "pending"]
    return lines + [ChatLine(sentence(item, zone), None, item) for item in others]
