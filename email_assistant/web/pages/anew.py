"""What takes a proposal's place: the assistant's next one, after what the person said or newer mail."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from email_assistant.app import App
from email_assistant.inbox.answers import Refined
from email_assistant.inbox.items import Item, NoItem
from email_assistant.mail.diff import Piece, compare
from email_assistant.web.forms import Field, form_of
from email_assistant.web.pages.card import CardPart


@dataclass(frozen=True, slots=True)
class Earlier:
    """The proposal whose place this one took."""

    item: Item
    said: Refined | None
    """What the person answered to it; None: newer mail came."""
    changed: Sequence[tuple[Field, Sequence[Piece]]]
    """The fields that say something else now, with the difference."""


async def successor(app: App, item: Item) -> Item | None:
    """What took an item's place, or came of what the person said to it, as far as there is any yet."""
    if item.superseded_by:
        newer = await app.inbox.of_run(app.user_id, item.superseded_by)
        return newer[-1] if newer else None
    if not _is_passed_on(item):
        return None
    since = item.decided_at
    later = [each for each in await app.inbox.of_run(app.user_id, item.run_id) if since and each.created_at > since]
    return next((each for each in later if each.action == item.action), later[0] if later else None)


async def before(app: App, parts: Sequence[CardPart]) -> dict[UUID, Earlier]:
    """By the id of a part that waits; those are left out that are the first of their kind for the mail."""
    page = parts[0].item
    if page.status != "pending" or page.is_held or page.chat is not None:
        return {}
    conversation = await app.inbox.of_thread(app.user_id, page.thread_id)
    found = {part.item.id: await _before(app, part, conversation) for part in parts}
    return {item_id: each for item_id, each in found.items() if each}


async def _before(app: App, part: CardPart, conversation: Sequence[Item]) -> Earlier | None:
    replaced = [each for each in conversation if _is_replaced(each, part.item)]
    if not replaced:
        return None
    last = replaced[-1]
    answer = last.decision if _is_passed_on(last) else None
    then = {field.name: field.told for field in form_of(app.tools, last).fields}
    shown = [field for field in part.form.fields if field.kind != "hidden"]
    fields = [(field, compare(then.get(field.name, ""), field.told)) for field in shown]
    changed = [(field, pieces) for field, pieces in fields if any(piece.kind != "same" for piece in pieces)]
    return Earlier(last, Refined.of(str(answer["args"])) if answer else None, changed)


async def why_not(app: App, item: Item) -> str | None:
    """Why nothing more comes of what the person said to an item; None: it is being worked on."""
    if item.mail_id is None:
        return None
    try:
        mail = await app.mails.get(app.user_id, item.mail_id, item.account)
    except NoItem:
        return "its mail is not here any more"
    return _ENDED.get(mail.state) and (mail.reason or _ENDED[mail.state])


_ENDED: Mapping[str, str] = {"done": "the assistant proposes nothing more", "failed": "it could not be finished"}


def is_made_anew(answered: Sequence[Item]) -> bool:
    """Whether the person's answers leave nothing to do but to wait for the assistant's next proposal."""
    given = {(item.decision or {}).get("type") for item in answered if item.chat is None}
    return "response" in given and given <= {"response", "ignore"}


def _is_passed_on(item: Item) -> bool:
    return item.status in ("decided", "applied") and (item.decision or {}).get("type") == "response"


def _is_replaced(each: Item, by: Item) -> bool:
    if each.action != by.action:
        return False
    since = each.decided_at if each.run_id == by.run_id and _is_passed_on(each) else None
    return bool(since and since < by.created_at) or each.superseded_by == by.run_id
