"""A Google double, with the program's own client before it."""

import base64
from email.message import EmailMessage
from email.utils import make_msgid
from typing import Any, Literal

import httpx

from email_assistant.google.account import GoogleAccount
from email_assistant.google.client import Wire
from email_assistant.google.gmail import Change, Message
from tests.doubles.front import Front

Double = Literal["sandbox", "emulators/google", "myworld"]

ADDRESS = "ada@example.com"
BOB = "Bob Berg <bob@example.org>"
TIMEZONE = "Europe/Berlin"
ME = "/gmail/v1/users/me"
EVENTS = "/calendar/v3/calendars/primary/events"


class Stage:
    """A logged-in account."""

    def __init__(self, google: Front) -> None:
        self.root = google.root
        self.login = {key: google.login[key] for key in ("client_id", "client_secret")}
        self.http = httpx.Client(base_url=self.root, trust_env=False, timeout=20)
        self.use(google.login["refresh_token"])

    def use(self, refresh_token: str) -> None:
        """Go on with this login."""
        self.login["refresh_token"] = refresh_token
        self.http.headers["authorization"] = f"Bearer {self.refresh().json()['access_token']}"
        account = self.log_in()
        self.gmail, self.calendar = account.gmail, account.calendar

    def log_in(self, **changes: str) -> GoogleAccount:
        """A client of its own, which has no access token yet."""
        return GoogleAccount({**self.login, **changes}, Wire(self.root), timeout=20)

    def refresh(self, **changes: str) -> httpx.Response:
        form = {"grant_type": "refresh_token", **self.login, **changes}
        return httpx.post(f"{self.root}/token", data=form, trust_env=False)

    def ask(self, method: str, path: str, body: object = None, *, expected: int = 200, **query: Any) -> Any:
        """What the program's client has no method for."""
        answer = self.http.request(method, path, params=query, json=body)
        assert answer.status_code == expected, f"{method} {path}: {answer.status_code} {answer.text[:200]}"
        return answer.json() if answer.content else None

    async def arrives(self, mail: EmailMessage, thread: str | None = None) -> Message:
        """A mail comes in."""
        body = {"raw": encoded(mail), "labelIds": ["INBOX", "UNREAD"]} | ({"threadId": thread} if thread else {})
        return await self.gmail.message(self.ask("POST", f"{ME}/messages", body)["id"])

    async def changes_after(self, start: int) -> list[Change]:
        changes: list[Change] = []
        token: str | None = None
        while True:
            page = await self.gmail.history(start, token)
            changes += page.changes
            token = page.next_page_token
            if token is None:
                return changes


def mail(
    subject: str, *, from_: str = BOB, to: str = ADDRESS, text: str = "Hello.", answers: Message | None = None
) -> EmailMessage:
    made = EmailMessage()
    made["From"], made["Subject"] = from_, subject
    if to:
        made["To"] = to
    made["Message-ID"] = make_msgid(domain="mail.example.org")
    if answers:
        made["In-Reply-To"] = made["References"] = header(answers, "Message-ID")
    made.set_content(text)
    return made


def encoded(message: EmailMessage) -> str:
    return base64.urlsafe_b64encode(message.as_bytes()).decode()


def header(message: Message, name: str) -> str:
    found = [h["value"] for h in message.payload["headers"] if h["name"].lower() == name.lower()]
    return str(found[0]) if found else ""
