"""Gmail, as far as this product needs it. Every method raises the errors of `errors.py`."""

import base64
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal

from email_assistant.google.errors import NotFound

if TYPE_CHECKING:
    from email_assistant.google.client import GoogleClient

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_PAGE: Final = 500  # Google's maximum
_HEAD: Final = ("From", "To", "Cc", "Bcc", "Subject", "Date")

ChangeKind = Literal["added", "deleted", "labels_added", "labels_removed"]
_KINDS: Final[tuple[tuple[str, ChangeKind], ...]] = (
    ("messagesAdded", "added"),
    ("messagesDeleted", "deleted"),
    ("labelsAdded", "labels_added"),
    ("labelsRemoved", "labels_removed"),
)


@dataclass(frozen=True, slots=True)
class Profile:
    """Whose mailbox it is, and the newest point of its history."""

    address: str
    history_id: int


@dataclass(frozen=True, slots=True)
class Change:
    """One change of the mailbox; `labels` are those added or removed, else those of the message."""

    kind: ChangeKind
    message_id: str
    thread_id: str
    labels: frozenset[str]
    record: int = field(default=0, compare=False)
    """Id of the record of history that tells of it."""


@dataclass(frozen=True, slots=True)
class HistoryPage:
    """Some changes, as Gmail lists them. There may be none and still a next page."""

    changes: tuple[Change, ...]
    next_page_token: str | None
    history_id: int | None


@dataclass(frozen=True, slots=True)
class MessageRef:
    """Where a message is."""

    id: str
    thread_id: str


@dataclass(frozen=True, slots=True)
class MessagePage:
    """Some messages of a listing, newest first."""

    refs: tuple[MessageRef, ...]
    next_page_token: str | None


@dataclass(frozen=True, slots=True)
class Message:
    """A message; `payload` is Gmail's tree of MIME parts, `snippet` its first words."""

    id: str
    thread_id: str
    labels: frozenset[str]
    internal_date: datetime
    history_id: int
    payload: dict[str, Any]
    snippet: str = ""


@dataclass(frozen=True, slots=True)
class Draft:
    """A draft; `payload` and `raw` are None where Gmail was not asked for the text in this form."""

    id: str
    message_id: str
    thread_id: str
    payload: dict[str, Any] | None = None
    raw: bytes | None = None


@dataclass(frozen=True, slots=True)
class SendAs:
    """An address that the account may send from."""

    address: str
    name: str
    signature_html: str
    default: bool
    primary: bool = False
    """It is the account's own."""
    verified: bool = False
    """Gmail lets the person send from it; else it puts the account's own address in its place."""


@dataclass(frozen=True, slots=True)
class Label:
    """A label, by the name that the person reads; a slash in it nests where the parent is a label too."""

    id: str
    name: str


class Gmail:
    """One person's mailbox."""

    def __init__(self, client: "GoogleClient", methods: Callable[..., Any]) -> None:
        """`methods`: `client.methods` of Gmail."""
        self._client = client
        self._users = methods("users")
        self._history = methods("users", "history")
        self._messages = methods("users", "messages")
        self._attachments = methods("users", "messages", "attachments")
        self._threads = methods("users", "threads")
        self._drafts = methods("users", "drafts")
        self._labels = methods("users", "labels")
        self._send_as = methods("users", "settings", "sendAs")

    async def profile(self) -> Profile:
        return await self._client.read(
            self._users.getProfile(userId="me"),
            lambda answer: Profile(answer["emailAddress"], int(answer["historyId"])),
        )

    async def history(self, start: int, page_token: str | None = None) -> HistoryPage:
        """What changed after the history id `start`. Raises NotFound when Gmail no longer knows that far back."""
        request = self._history.list(userId="me", startHistoryId=str(start), pageToken=page_token, maxResults=_PAGE)
        return await self._client.read(request, _history_page)

    async def list_messages(
        self,
        query: str = "",
        label_ids: Iterable[str] = (),
        page_token: str | None = None,
        max_results: int = _PAGE,
        *,
        everywhere: bool = False,
    ) -> MessagePage:
        """One page of the messages that match Gmail's search `query` and carry all of the labels; `everywhere`: in
        spam and trash too."""
        request = self._messages.list(
            userId="me",
            q=query or None,
            labelIds=list(label_ids) or None,
            pageToken=page_token,
            maxResults=max_results,
            includeSpamTrash=everywhere or None,
        )
        return await self._client.read(request, _message_page)

    async def message(self, message_id: str) -> Message:
        """Raises NotFound when the message is gone."""
        return await self._client.read(self._messages.get(userId="me", id=message_id, format="full"), _message)

    async def message_head(self, message_id: str) -> Message:
        """A message of which `payload` holds nothing but the headers in `_HEAD`. Raises NotFound when it is gone."""
        request = self._messages.get(userId="me", id=message_id, format="metadata", metadataHeaders=list(_HEAD))
        return await self._client.read(request, _message)

    async def attachment(self, message_id: str, attachment_id: str) -> bytes:
        """A file of a message, by the id that `message` told just now: it does not stay the same. Raises NotFound."""
        request = self._attachments.get(userId="me", messageId=message_id, id=attachment_id)
        return await self._client.read(request, lambda answer: base64.urlsafe_b64decode(answer["data"] + "=="))

    async def labels_of(self, message_id: str) -> frozenset[str]:
        """Ids of the labels that a message carries. Raises NotFound when it is gone."""
        request = self._messages.get(userId="me", id=message_id, format="minimal")
        return await self._client.read(request, lambda answer: frozenset(answer.get("labelIds", ())))

    async def thread_refs(self, thread_id: str) -> tuple[MessageRef, ...]:
        """What a thread consists of, oldest first. Raises NotFound."""
        request = self._threads.get(userId="me", id=thread_id, format="minimal")
        return await self._client.read(request, lambda answer: tuple(map(_message_ref, answer["messages"])))

    async def thread(self, thread_id: str) -> tuple[Message, ...]:
        """All messages of a thread, oldest first. Raises NotFound when the thread is gone."""
        request = self._threads.get(userId="me", id=thread_id, format="full")
        return await self._client.read(request, lambda answer: tuple(map(_message, answer["messages"])))

    async def modify_labels(self, message_id: str, add: Iterable[str] = (), remove: Iterable[str] = ()) -> None:
        """Add and remove labels. May be repeated, so a failure is Transient, never Ambiguous."""
        body = {"addLabelIds": list(add), "removeLabelIds": list(remove)}
        await self._client.repeat(self._messages.modify(userId="me", id=message_id, body=body))

    async def labels(self) -> tuple[Label, ...]:
        """Every label of the mailbox, Gmail's own included."""
        request = self._labels.list(userId="me")
        return await self._client.read(request, lambda answer: tuple(map(_label, answer.get("labels", ()))))

    async def create_label(self, name: str) -> Label:
        """Raises Exists if there is one that Gmail takes for the same, Refused for a name of its own, Ambiguous."""
        return await self._client.write(self._labels.create(userId="me", body={"name": name}), _label)

    async def create_draft(self, raw: bytes, thread_id: str | None) -> Draft:
        """Store an RFC 5322 message as a draft, in a thread or in a new one. Raises Ambiguous."""
        body = {"message": _to_store(raw, thread_id)}
        return await self._client.write(self._drafts.create(userId="me", body=body), _draft)

    async def draft(self, draft_id: str) -> Draft:
        """A draft with its payload. Raises NotFound when it was sent or deleted."""
        return await self._client.read(self._drafts.get(userId="me", id=draft_id, format="full"), _draft)

    async def raw_draft(self, draft_id: str) -> Draft:
        """A draft with its message as it lies there. Raises NotFound when it was sent or deleted."""
        return await self._client.read(self._drafts.get(userId="me", id=draft_id, format="raw"), _draft)

    async def find_draft(self, draft_id: str) -> Draft | None:
        """A draft with its payload, None when it was sent or deleted."""
        try:
            return await self.draft(draft_id)
        except NotFound:
            return None

    async def drafts(self, query: str = "") -> tuple[Draft, ...]:
        """All drafts that match Gmail's search `query`."""
        page = partial(self._drafts.list, userId="me", q=query or None, maxResults=_PAGE)
        return tuple(await self._client.read_all(page, _draft_page))

    async def send_draft(self, draft_id: str, raw: bytes | None = None, thread_id: str | None = None) -> MessageRef:
        """Send a stored draft, which ends it; with `raw` as its content, whatever it holds by then
        (https://developers.google.com/workspace/gmail/api/guides/drafts, "Send drafts"). Raises NotFound (or Refused)
        if it is no longer there, Ambiguous."""
        body = {"id": draft_id} | ({"message": _to_store(raw, thread_id)} if raw else {})
        return await self._client.write(self._drafts.send(userId="me", body=body), _message_ref)

    async def delete_draft(self, draft_id: str) -> bool:
        """Delete a draft for good; False if it was gone already. May be repeated, so a failure is Transient."""
        try:
            await self._client.repeat(self._drafts.delete(userId="me", id=draft_id))
        except NotFound:
            return False
        return True

    async def watch(self, topic: str) -> datetime:
        """Have Gmail tell a Pub/Sub topic of every change, until the time that is returned; doing so again renews it.

        Raises Refused or NotFound when it may not publish there.
        """
        request = self._users.watch(userId="me", body={"topicName": topic})
        # Run like a read, since it may be repeated and its answer is what counts.
        return await self._client.read(request, lambda answer: _moment(answer["expiration"]))

    async def stop_watch(self) -> None:
        """Have Gmail tell nobody any more. May be repeated, so a failure is Transient."""
        await self._client.repeat(self._users.stop(userId="me"))

    async def send_as(self) -> tuple[SendAs, ...]:
        return await self._client.read(self._send_as.list(userId="me"), _senders)


def _history_page(answer: dict[str, Any]) -> HistoryPage:
    history_id = answer.get("historyId")
    return HistoryPage(
        changes=tuple(change for record in answer.get("history", ()) for change in _changes(record)),
        next_page_token=answer.get("nextPageToken"),
        history_id=None if history_id is None else int(history_id),
    )


def _changes(record: dict[str, Any]) -> list[Change]:
    return [
        Change(
            kind=kind,
            message_id=entry["message"]["id"],
            thread_id=entry["message"]["threadId"],
            labels=frozenset(entry.get("labelIds", entry["message"].get("labelIds", ()))),
            record=int(record["id"]),
        )
        for key, kind in _KINDS
        for entry in record.get(key, ())
    ]


def _message_page(answer: dict[str, Any]) -> MessagePage:
    return MessagePage(tuple(map(_message_ref, answer.get("messages", ()))), answer.get("nextPageToken"))


def _message_ref(answer: dict[str, Any]) -> MessageRef:
    return MessageRef(answer["id"], answer["threadId"])


def _message(answer: dict[str, Any]) -> Message:
    return Message(
        id=answer["id"],
        thread_id=answer["threadId"],
        labels=frozenset(answer.get("labelIds", ())),
        internal_date=_moment(answer["internalDate"]),
        history_id=int(answer["historyId"]),
        payload=answer["payload"],
        snippet=answer.get("snippet", ""),
    )


def _moment(milliseconds: str) -> datetime:
    return _EPOCH + timedelta(milliseconds=int(milliseconds))


def _draft(answer: dict[str, Any]) -> Draft:
    message = answer["message"]
    raw = base64.urlsafe_b64decode(message["raw"] + "==") if "raw" in message else None
    return Draft(answer["id"], message["id"], message["threadId"], message.get("payload"), raw)


def _to_store(raw: bytes, thread_id: str | None) -> dict[str, str]:
    """An RFC 5322 message as Gmail takes it, for a thread or a new one."""
    message = {"raw": base64.urlsafe_b64encode(raw).decode("ascii")}
    return message if thread_id is None else {**message, "threadId": thread_id}


def _draft_page(answer: dict[str, Any]) -> tuple[list[Draft], str | None]:
    drafts = [
        Draft(entry["id"], entry["message"]["id"], entry["message"]["threadId"]) for entry in answer.get("drafts", ())
    ]
    return drafts, answer.get("nextPageToken")


def _label(answer: dict[str, Any]) -> Label:
    return Label(answer["id"], answer["name"])


def _senders(answer: dict[str, Any]) -> tuple[SendAs, ...]:
    """Raises ValueError: a list without the account's own address, which Gmail's always holds, is none to go by."""
    found = tuple(map(_send_as, answer["sendAs"]))
    if not any(each.primary for each in found):
        raise ValueError("no primary address")
    return found


def _send_as(entry: dict[str, Any]) -> SendAs:
    return SendAs(
        address=entry["sendAsEmail"],
        name=entry.get("displayName", ""),
        signature_html=entry.get("signature", ""),
        default=entry.get("isDefault", False),
        primary=entry.get("isPrimary", False),
        # Its own address has no status (https://developers.google.com/workspace/gmail/api/reference/rest/v1/users.settings.sendAs).
        verified=entry.get("isPrimary", False) or entry.get("verificationStatus") == "accepted",
    )
