"""Gmail's API, version 1, over the mailbox (https://developers.google.com/workspace/gmail/api/reference/rest)."""

import json
import re
import sqlite3
import time
from collections.abc import Iterable
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Body, Depends, Query, Request
from pydantic import AfterValidator

from . import mime, oauth, threads
from .aliases import Aliases
from .errors import ApiError, invalid, not_found
from .mailbox import HISTORY_KINDS, Page, SandboxMailbox, resource
from .outbox import Outbox
from .search import Condition

_MOST_RESULTS = 500
_MOST_LABELS = 100
_MOST_IDS = 1000
_WATCH_SECONDS = 7 * 86400


async def _mailbox(request: Request, user: str) -> SandboxMailbox:
    mailbox: SandboxMailbox = request.app.state.mailbox
    if user.lower() not in {"me", mailbox.address}:
        raise ApiError(403, "forbidden", f"Delegation denied for {mailbox.address}")
    return mailbox


async def _outbox(request: Request) -> Outbox:
    outbox: Outbox = request.app.state.outbox
    return outbox


Mine = Annotated[SandboxMailbox, Depends(_mailbox)]
Outgoing = Annotated[Outbox, Depends(_outbox)]
Format = Annotated[Literal["minimal", "full", "raw", "metadata"], Query(alias="format")]
ThreadFormat = Annotated[Literal["minimal", "full", "metadata"], Query(alias="format")]
MetadataHeaders = Annotated[tuple[str, ...], Query(alias="metadataHeaders")]
LabelIds = Annotated[tuple[str, ...], Query(alias="labelIds")]
MaxResults = Annotated[int, AfterValidator(lambda most: min(most, _MOST_RESULTS)), Query(alias="maxResults", ge=1)]
PageToken = Annotated[str | None, Query(alias="pageToken")]
SpamTrash = Annotated[bool, Query(alias="includeSpamTrash")]
Json = Annotated[dict[str, Any], Body()]


async def _wanted(mailbox: Mine, q: str = "", label_ids: LabelIds = (), everywhere: SpamTrash = False) -> Condition:
    return mailbox.where(q, label_ids, everywhere)


Wanted = Annotated[Condition, Depends(_wanted)]

router = APIRouter(prefix="/gmail/v1/users/{user}", dependencies=[Depends(oauth.authorize), Depends(_mailbox)])


@router.get("/profile")
def get_profile(mailbox: Mine) -> dict[str, Any]:
    messages, thread_total = mailbox.totals()
    return {
        "emailAddress": mailbox.address,
        "messagesTotal": messages,
        "threadsTotal": thread_total,
        "historyId": str(mailbox.store.history_id()),
    }


@router.post("/watch")
def watch(mailbox: Mine, body: Json) -> dict[str, str]:
    """Promise to tell a topic of changes. There is no Pub/Sub here: nothing is published."""
    if not re.fullmatch(r"projects/[^/]+/topics/[^/]+", str(body.get("topicName"))):
        raise invalid("Invalid topicName does not match projects/*/topics/*")
    until = int((time.time() + _WATCH_SECONDS) * 1000)
    return {"historyId": str(mailbox.store.history_id()), "expiration": str(until)}


@router.post("/stop", status_code=204)
def stop() -> None:
    """End the watch that there is none of."""


# Messages


@router.get("/messages")
def list_messages(mailbox: Mine, wanted: Wanted, limit: MaxResults = 100, token: PageToken = None) -> dict[str, Any]:
    page = mailbox.list_messages(wanted, limit, token)
    return _listing("messages", [{"id": row["key"], "threadId": row["thread_id"]} for row in page.rows], page)


@router.post("/messages/send")
def send_message(outbox: Outgoing, mailbox: Mine, body: Json) -> dict[str, Any]:
    return _brief(mailbox, outbox.send(_raw(body), body.get("threadId")))


@router.post("/messages/batchModify", status_code=204)
def batch_modify(mailbox: Mine, body: Json) -> None:
    ids = body.get("ids") or []
    if not ids or len(ids) > _MOST_IDS:
        raise invalid(f"Between 1 and {_MOST_IDS} message ids are required")
    _modify(mailbox, ids, body)


@router.post("/messages/import")
def import_message(
    mailbox: Mine, body: Json, source: Annotated[str, Query(alias="internalDateSource")] = "dateHeader"
) -> dict[str, Any]:
    """Take in a message as if it had arrived by mail."""
    return _insert(mailbox, body, source)


@router.post("/messages")
def insert_message(
    mailbox: Mine, body: Json, source: Annotated[str, Query(alias="internalDateSource")] = "receivedTime"
) -> dict[str, Any]:
    return _insert(mailbox, body, source)


@router.get("/messages/{message_id}")
def get_message(
    mailbox: Mine, message_id: str, message_format: Format = "full", wanted: MetadataHeaders = ()
) -> dict[str, Any]:
    return resource(mailbox, mailbox.message(message_id), message_format, wanted)


@router.get("/messages/{message_id}/attachments/{attachment_id}")
def get_attachment(mailbox: Mine, message_id: str, attachment_id: str) -> dict[str, Any]:
    content = mime.attachment(mime.parse(mailbox.message(message_id)["raw"]), message_id, attachment_id)
    if content is None:
        raise not_found()
    return {"size": len(content), "data": mime.base64url(content)}


@router.post("/messages/{message_id}/modify")
def modify_message(mailbox: Mine, message_id: str, body: Json) -> dict[str, Any]:
    _modify(mailbox, [message_id], body)
    return _brief(mailbox, message_id)


@router.post("/messages/{message_id}/trash")
def trash_message(mailbox: Mine, message_id: str) -> dict[str, Any]:
    mailbox.modify(message_id, ["TRASH"], ["INBOX"])
    return _brief(mailbox, message_id)


@router.post("/messages/{message_id}/untrash")
def untrash_message(mailbox: Mine, message_id: str) -> dict[str, Any]:
    mailbox.modify(message_id, [], ["TRASH"])
    return _brief(mailbox, message_id)


# Threads


@router.get("/threads")
def list_threads(mailbox: Mine, wanted: Wanted, limit: MaxResults = 100, token: PageToken = None) -> dict[str, Any]:
    with mailbox.store.reading():
        page = mailbox.list_threads(wanted, limit, token)
        found = [_thread_summary(mailbox, row["key"]) for row in page.rows]
    return _listing("threads", found, page)


@router.get("/threads/{thread_id}")
def get_thread(
    mailbox: Mine, thread_id: str, message_format: ThreadFormat = "full", wanted: MetadataHeaders = ()
) -> dict[str, Any]:
    with mailbox.store.reading():
        messages = mailbox.thread(thread_id)
        shown = [resource(mailbox, row, message_format, wanted) for row in messages]
    return {"id": thread_id, "historyId": _newest(messages), "messages": shown}


@router.post("/threads/{thread_id}/modify")
def modify_thread(mailbox: Mine, thread_id: str, body: Json) -> dict[str, Any]:
    ids = [row["id"] for row in mailbox.thread(thread_id)]
    _modify(mailbox, ids, body)
    return {"id": thread_id, "messages": [_brief(mailbox, message_id) for message_id in ids]}


# Drafts


@router.get("/drafts")
def list_drafts(
    mailbox: Mine, q: str = "", limit: MaxResults = 100, token: PageToken = None, everywhere: SpamTrash = False
) -> dict[str, Any]:
    page = mailbox.list_drafts(mailbox.where(q, (), everywhere), limit, token)
    found = [{"id": row["draft_id"], "message": {"id": row["key"], "threadId": row["thread_id"]}} for row in page.rows]
    return _listing("drafts", found, page)


@router.post("/drafts")
def create_draft(outbox: Outgoing, mailbox: Mine, body: Json) -> dict[str, Any]:
    message = _message(body)
    return _draft(outbox, mailbox, outbox.create_draft(_raw(message), message.get("threadId")))


@router.post("/drafts/send")
def send_draft(outbox: Outgoing, mailbox: Mine, body: Json) -> dict[str, Any]:
    """Send a draft; with a `message` in the request, that replaces its content first."""
    draft_id, message = str(body.get("id", "")), _message(body)
    with mailbox.store.transaction():
        if message.get("raw"):
            outbox.update_draft(draft_id, _raw(message), message.get("threadId"))
        return _brief(mailbox, outbox.send_draft(draft_id))


@router.get("/drafts/{draft_id}")
def get_draft(outbox: Outgoing, mailbox: Mine, draft_id: str, message_format: Format = "full") -> dict[str, Any]:
    return {"id": draft_id, "message": resource(mailbox, outbox.draft_message(draft_id), message_format)}


@router.put("/drafts/{draft_id}")
def update_draft(outbox: Outgoing, mailbox: Mine, draft_id: str, body: Json) -> dict[str, Any]:
    message = _message(body)
    outbox.update_draft(draft_id, _raw(message), message.get("threadId"))
    return _draft(outbox, mailbox, draft_id)


@router.delete("/drafts/{draft_id}", status_code=204)
def delete_draft(outbox: Outgoing, draft_id: str) -> None:
    outbox.delete_draft(draft_id)


# History


@router.get("/history")
def list_history(
    mailbox: Mine,
    start: Annotated[int, Query(alias="startHistoryId")],
    limit: MaxResults = 100,
    token: PageToken = None,
    kinds: Annotated[tuple[str, ...], Query(alias="historyTypes")] = (),
    label_id: Annotated[str | None, Query(alias="labelId")] = None,
) -> dict[str, Any]:
    """What changed after `startHistoryId`. A page may be empty and still have a next one: filters come after paging."""
    if unknown := set(kinds) - set(HISTORY_KINDS):
        raise invalid(f"Invalid historyTypes: {', '.join(sorted(unknown))}")
    with mailbox.store.reading():
        rows = mailbox.history(_history_token(token, start), limit + 1)
        answer: dict[str, Any] = {"historyId": str(mailbox.store.history_id())}
    if len(rows) > limit:
        answer["nextPageToken"] = str(rows[limit - 1]["id"])
    wanted = {HISTORY_KINDS[kind] for kind in kinds} or set(HISTORY_KINDS.values())
    records = [_history_record(row) for row in rows[:limit] if row["kind"] in wanted and _concerns(row, label_id)]
    return answer | ({"history": records} if records else {})


# Labels and settings


@router.get("/labels")
def list_labels(mailbox: Mine) -> dict[str, Any]:
    return {"labels": [_label(row) for row in mailbox.labels()]}


@router.get("/labels/{label_id}")
def get_label(mailbox: Mine, label_id: str) -> dict[str, Any]:
    return _label(mailbox.label(label_id)) | mailbox.label_counts(label_id)


@router.post("/labels")
def create_label(mailbox: Mine, body: Json) -> dict[str, Any]:
    name = str(body.get("name") or "").strip()
    if not name:
        raise invalid("Label name is required")
    return _label(mailbox.label(mailbox.create_label(name)))


@router.delete("/labels/{label_id}", status_code=204)
def delete_label(mailbox: Mine, label_id: str) -> None:
    mailbox.delete_label(label_id)


@router.get("/settings/sendAs")
def list_send_as(mailbox: Mine) -> dict[str, Any]:
    return {"sendAs": Aliases(mailbox).listed()}


@router.post("/settings/sendAs")
def create_send_as(mailbox: Mine, body: Json) -> dict[str, Any]:
    return Aliases(mailbox).add(body)


@router.get("/settings/sendAs/{address}")
def get_send_as(mailbox: Mine, address: str) -> dict[str, Any]:
    return Aliases(mailbox).find(address)


@router.patch("/settings/sendAs/{address}")
def patch_send_as(mailbox: Mine, address: str, body: Json) -> dict[str, Any]:
    return Aliases(mailbox).change(address, body)


@router.delete("/settings/sendAs/{address}", status_code=204)
def delete_send_as(mailbox: Mine, address: str) -> None:
    Aliases(mailbox).remove(address)


def _listing(name: str, found: list[dict[str, Any]], page: Page) -> dict[str, Any]:
    answer: dict[str, Any] = {"resultSizeEstimate": page.total}
    if found:
        answer[name] = found
    if page.next_token is not None:
        answer["nextPageToken"] = page.next_token
    return answer


def _thread_summary(mailbox: SandboxMailbox, thread_id: str) -> dict[str, Any]:
    summary = mailbox.thread_summary(thread_id)
    return {"id": thread_id, "snippet": summary["snippet"], "historyId": str(summary["history_id"])}


def _brief(mailbox: SandboxMailbox, message_id: str) -> dict[str, Any]:
    thread_id = mailbox.message(message_id)["thread_id"]
    return {"id": message_id, "threadId": thread_id, "labelIds": mailbox.labels_of(message_id)}


def _draft(outbox: Outbox, mailbox: SandboxMailbox, draft_id: str) -> dict[str, Any]:
    return {"id": draft_id, "message": _brief(mailbox, outbox.draft_message(draft_id)["id"])}


def _message(body: dict[str, Any]) -> dict[str, Any]:
    message = body.get("message")
    return message if isinstance(message, dict) else {}


def _raw(message: dict[str, Any]) -> bytes:
    raw = message.get("raw")
    if not isinstance(raw, str) or not raw:
        raise invalid("'raw' RFC822 payload message string required")
    try:
        return mime.from_base64url(raw)
    except ValueError:
        raise invalid("Invalid value at 'raw' (TYPE_BYTES), Base64 decoding failed") from None


def _insert(mailbox: SandboxMailbox, body: dict[str, Any], source: str) -> dict[str, Any]:
    raw = _raw(body)
    labels = [str(label) for label in body.get("labelIds") or []]
    mailbox.check_labels(label for label in labels if label not in {"SENT", "DRAFT"})
    dated = mime.date_ms(mime.head(raw)) if source == "dateHeader" else None
    with mailbox.store.transaction() as db:
        thread_id = threads.of_incoming(db, mime.head(raw))
        message_id = mailbox.insert(raw, labels, int(time.time() * 1000) if dated is None else dated, thread_id)
    return _brief(mailbox, message_id)


def _modify(mailbox: SandboxMailbox, message_ids: Iterable[str], body: dict[str, Any]) -> None:
    add, remove = body.get("addLabelIds") or [], body.get("removeLabelIds") or []
    if max(len(add), len(remove)) > _MOST_LABELS:
        raise invalid(f"No more than {_MOST_LABELS} labels at once")
    mailbox.check_labels([*add, *remove])
    with mailbox.store.transaction():
        for message_id in message_ids:
            mailbox.modify(message_id, add, remove)


def _newest(messages: list[sqlite3.Row]) -> str:
    return str(max(row["history_id"] for row in messages))


def _history_token(token: str | None, start: int) -> int:
    if token is None:
        return start
    if not token.isdecimal():
        raise invalid("Invalid pageToken")
    return int(token)


def _concerns(row: sqlite3.Row, label_id: str | None) -> bool:
    return label_id is None or label_id in json.loads(row["message_labels"]) + json.loads(row["changed_labels"])


def _history_record(row: sqlite3.Row) -> dict[str, Any]:
    message = {"id": row["message_id"], "threadId": row["thread_id"]}
    change: dict[str, Any] = {"message": message | {"labelIds": json.loads(row["message_labels"])}}
    if row["kind"].startswith("labels"):
        change["labelIds"] = json.loads(row["changed_labels"])
    return {"id": str(row["id"]), "messages": [message], row["kind"]: [change]}


def _label(row: sqlite3.Row) -> dict[str, Any]:
    return {"id": row["id"], "name": row["name"], "type": row["type"]}
