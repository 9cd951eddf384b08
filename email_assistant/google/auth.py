"""An account's login: its OAuth scopes, its token file, and the access token that is renewed when needed."""

import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from google.auth.exceptions import GoogleAuthError
from google.oauth2.credentials import Credentials

from email_assistant.google.errors import Revoked, Transient
from email_assistant.google.replies import code, refusal
from email_assistant.google.transport import Call, Reply, Transport

# gmail.modify covers labels, drafts, sending and send-as addresses. calendar.events covers neither free/busy nor the
# timezone setting (https://developers.google.com/workspace/calendar/api/auth).
GMAIL_MODIFY: Final = "https://www.googleapis.com/auth/gmail.modify"
CALENDAR_EVENTS: Final = "https://www.googleapis.com/auth/calendar.events"
CALENDAR_FREEBUSY: Final = "https://www.googleapis.com/auth/calendar.freebusy"
CALENDAR_SETTINGS: Final = "https://www.googleapis.com/auth/calendar.settings.readonly"
SCOPES: Final = (GMAIL_MODIFY, CALENDAR_EVENTS, CALENDAR_FREEBUSY, CALENDAR_SETTINGS)

_REQUIRED: Final = ("refresh_token", "client_id", "client_secret")

# Answers of the token endpoint that only a person can change (RFC 6749 section 5.2; Google adds the last two).
_LOGIN_IS_DEAD: Final = {"invalid_grant", "invalid_client", "unauthorized_client", "deleted_client", "disabled_client"}


def read_token_file(path: Path) -> dict[str, Any]:
    """Read an authorized-user JSON file. Raises ValueError with one line that says what is wrong with it."""
    try:
        token = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError(f"{path}: no such file") from None
    except OSError as error:
        raise ValueError(f"{path}: cannot be read ({error.strerror})") from None
    except ValueError:
        raise ValueError(f"{path}: not a JSON file") from None
    if not isinstance(token, dict):
        raise ValueError(f"{path}: not a JSON object")
    if "installed" in token or "web" in token:
        raise ValueError(f"{path}: this is the OAuth client's file, not the token of a login")
    if missing := [key for key in _REQUIRED if not isinstance(token.get(key), str) or not token[key]]:
        raise ValueError(f"{path}: missing {', '.join(missing)}")
    return token


class Authorization:
    """The access token of one account, renewed by one thread at a time."""

    def __init__(self, token: Mapping[str, Any], token_uri: str | None, transport: Transport) -> None:
        """`token` is authorized-user JSON (ValueError if it is not); `token_uri` None is Google's own endpoint."""
        self._token = dict(token)
        # Without the scopes: naming one that the person did not grant makes a refresh fail with invalid_scope.
        wanted = {key: value for key, value in self._token.items() if key != "scopes"}
        self._credentials = _credentials(wanted, token_uri)
        self._transport = transport
        self._refreshing = threading.Lock()
        self._handover = threading.Lock()  # apart, as the event loop takes it: no network call happens under it
        self._renewed: dict[str, Any] | None = None
        self._revoked: str | None = None

    def bearer(self, call: Call, *, refused: str | None = None) -> str:
        """An access token to use now; `refused` is the one that Google has just answered with 401.

        Raises Revoked, RateLimited or Transient when there is none to be had.
        """
        if not self._refreshing.acquire(timeout=call.remaining()):
            raise Transient(f"{call.name}: the login was not renewed in time")
        try:
            if self._revoked:
                raise Revoked(self._revoked)
            if not self._credentials.valid or self._credentials.token == refused:
                self._refresh(call)
            return str(self._credentials.token)
        finally:
            self._refreshing.release()

    def take_renewed(self) -> dict[str, Any] | None:
        """The renewed token as authorized-user JSON, if there is one that nobody has taken yet."""
        with self._handover:
            renewed, self._renewed = self._renewed, None
        return renewed

    def put_back(self, renewed: dict[str, Any]) -> None:
        """Offer a taken token again, unless a newer one is waiting."""
        with self._handover:
            self._renewed = self._renewed or renewed

    def _refresh(self, call: Call) -> None:
        def ask(url: str, method: str, headers: Mapping[str, str], body: bytes, **_: Any) -> Reply:
            return self._ask(call, url, method, headers, body)

        try:
            self._credentials.refresh(ask)  # type: ignore[no-untyped-call]
        except (GoogleAuthError, ValueError, TypeError):
            raise Transient(f"{call.name}: the answer of the token endpoint is unreadable") from None
        credentials = self._credentials
        with self._handover:
            self._renewed = self._token = {
                **self._token,
                "token": credentials.token,
                "refresh_token": credentials.refresh_token,
                "expiry": f"{credentials.expiry.isoformat()}Z" if credentials.expiry else None,
            }

    def _ask(self, call: Call, url: str, method: str, headers: Mapping[str, str], body: bytes) -> Reply:
        """Send google-auth's refresh; any answer but success is raised here, as google-auth would sleep and repeat."""
        reply = self._transport.send(call, method, url, headers=headers, body=body, effect=False)
        if reply.status == 200:
            return reply
        reason = code(reply)
        if reason in _LOGIN_IS_DEAD:
            self._revoked = f"Google no longer accepts this login ({reason}): log in again"
            raise Revoked(self._revoked)
        if reply.status == 429:
            raise refusal(call, reply)
        # Whatever else it says is about the token endpoint: a 404 must not pass for the answer of Gmail.
        raise Transient(f"{call.name}: the token endpoint answered {reply.status}" + (f" ({reason})" if reason else ""))


def _credentials(token: dict[str, Any], token_uri: str | None) -> Credentials:
    credentials: Credentials = Credentials.from_authorized_user_info(token)  # type: ignore[no-untyped-call]
    if token_uri is None:
        return credentials
    moved: Credentials = credentials.with_token_uri(token_uri)
    moved.expiry = credentials.expiry  # the copy lacks it
    return moved
