"""What a provider of mail is to this program: all that is asked of one account's mailbox and calendar, no more.

Google is the one that is shipped. Another is an installed distribution's, which `plugins.py` finds under the name in
`EMAIL_ASSISTANT_MAIL_PROVIDER`. What its methods do, answer and raise is said where Google's are (`google/gmail.py`,
`google/calendar.py`, `google/errors.py`), whose types they use.
"""

from collections.abc import Collection, Iterable, Mapping
from datetime import date, datetime, tzinfo
from typing import TYPE_CHECKING, Any, Protocol

from email_assistant.google.calendar import PRIMARY, Agenda, CalendarEntry, Event
from email_assistant.google.gmail import Draft, HistoryPage, Label, Message, MessagePage, MessageRef, Profile, SendAs

if TYPE_CHECKING:
    from email_assistant.google.auth import Exchange


class MailServer(Protocol):
    """A mailbox: as Gmail does, it keeps conversations, a history to go on from, drafts and labels."""

    async def profile(self) -> Profile: ...
    async def history(self, start: int, page_token: str | None = None) -> HistoryPage: ...
    async def list_messages(
        self,
        query: str = "",
        label_ids: Iterable[str] = (),
        page_token: str | None = None,
        max_results: int = ...,
        *,
        everywhere: bool = False,
    ) -> MessagePage: ...
    async def message(self, message_id: str) -> Message: ...
    async def message_head(self, message_id: str) -> Message: ...
    async def attachment(self, message_id: str, attachment_id: str) -> bytes: ...
    async def labels_of(self, message_id: str) -> frozenset[str]: ...
    async def thread_refs(self, thread_id: str) -> tuple[MessageRef, ...]: ...
    async def thread(self, thread_id: str) -> tuple[Message, ...]: ...
    async def modify_labels(self, message_id: str, add: Iterable[str] = (), remove: Iterable[str] = ()) -> None: ...
    async def labels(self) -> tuple[Label, ...]: ...
    async def create_label(self, name: str) -> Label: ...
    async def create_draft(self, raw: bytes, thread_id: str | None) -> Draft: ...
    async def draft(self, draft_id: str) -> Draft: ...
    async def raw_draft(self, draft_id: str) -> Draft: ...
    async def find_draft(self, draft_id: str) -> Draft | None: ...
    async def drafts(self, query: str = "") -> tuple[Draft, ...]: ...
    async def send_draft(self, draft_id: str, raw: bytes | None = None, thread_id: str | None = None) -> MessageRef: ...
    async def delete_draft(self, draft_id: str) -> bool: ...
    async def watch(self, topic: str) -> datetime: ...
    async def stop_watch(self) -> None: ...
    async def send_as(self) -> tuple[SendAs, ...]: ...


class CalendarServer(Protocol):
    """A person's calendars. One that has none raises Refused."""

    async def timezone(self) -> str | None: ...
    async def calendars(self) -> tuple[CalendarEntry, ...]: ...
    async def events(self, start: datetime, end: datetime, calendar: str = PRIMARY) -> tuple[Event, ...]: ...
    async def agenda(self, start: datetime, end: datetime) -> Agenda: ...
    async def day(self, day: date, zone: tzinfo) -> Agenda: ...
    async def insert(
        self,
        event_id: str,
        *,
        summary: str,
        start: datetime | date,
        end: datetime | date,
        timezone: str,
        attendees: Iterable[str],
        description: str | None = None,
        location: str | None = None,
        calendar: str = PRIMARY,
        meet: bool = False,
    ) -> Event: ...
    async def patch(
        self,
        event_id: str,
        *,
        calendar: str = PRIMARY,
        summary: str | None = None,
        start: datetime | date | None = None,
        end: datetime | date | None = None,
        attendees: Iterable[str] | None = None,
        description: str | None = None,
        location: str | None = None,
        etag: str = "",
    ) -> Event: ...
    async def event(self, event_id: str, calendar: str = PRIMARY) -> Event: ...


class MailAccount(Protocol):
    """One person's account, behind one login."""

    @property
    def gmail(self) -> MailServer: ...
    @property
    def calendar(self) -> CalendarServer: ...
    async def aclose(self) -> None:
        """Wait for the calls under way, then close the connections."""
        ...


class Connect(Protocol):
    """What an entry point of `email_assistant.mail_providers` names."""

    def __call__(
        self,
        token: Mapping[str, Any],
        *,
        timeout: float,
        exchange_token: "Exchange | None" = None,
        busy_calendars: Collection[str] = (),
    ) -> MailAccount:
        """Raises ValueError: the token is none of this provider's.

        Args:
            token: a JSON object, as `account add --token-file` read it and `exchange_token` stored it since.
            timeout: the total seconds of one call.
            exchange_token: renews the login for all processes at once; None: for this object alone.
            busy_calendars: of others, which count as the person's time all the same.
        """
        ...
