"""A login in the person's browser: OAuth 2.0 for installed apps, with PKCE (RFC 8252, RFC 7636).

https://developers.google.com/identity/protocols/oauth2/native-app. Not by google-auth-oauthlib: its flow takes the
first request that comes for Google's answer, holds up the event loop, and makes an error of a consent in part.
"""

import asyncio
import hashlib
import secrets
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import urlencode

from email_assistant.google.auth import Token, access_token, ask_token, missing_keys, oauth_uri, read_json_file
from email_assistant.google.errors import LoginFailed, Refused, Transient
from email_assistant.google.replies import code as code_of
from email_assistant.google.scopes import SCOPES
from email_assistant.google.transport import Call, Transport

T = TypeVar("T")

_GOOGLE_ACCOUNTS: Final = "https://accounts.google.com"
_FORM: Final = {"content-type": "application/x-www-form-urlencoded"}


@dataclass(frozen=True, slots=True)
class OAuthClient:
    """The program as Google knows it: a client of type Desktop app in a project of the person's."""

    id: str
    secret: str = field(repr=False)
    auth_uri: str | None = None
    """Where consent is asked for; None is Google's own page, or that of the server in its place."""


@dataclass(frozen=True, slots=True)
class Grant:
    """What the person has allowed."""

    token: Token = field(repr=False)
    scopes: frozenset[str]
    ends: datetime | None
    """When Google ends the login by itself, as it does for clients in Testing; None: it does not say."""


def read_client_file(path: Path) -> OAuthClient:
    """Read the JSON file of an OAuth client. Raises ValueError with one line that says what is wrong with it."""
    content = read_json_file(path)
    if "web" in content:
        raise ValueError(f"{path}: this is a client of type Web application; make one of type Desktop app")
    client = content.get("installed")
    if not isinstance(client, dict):
        raise ValueError(f"{path}: this is not the file of an OAuth client of type Desktop app")
    if missing := missing_keys(client, ("client_id", "client_secret")):
        raise ValueError(f"{path}: missing {', '.join(missing)}")
    auth_uri = client.get("auth_uri")
    if auth_uri is not None and not str(auth_uri).startswith(("https://", "http://")):
        raise ValueError(f"{path}: auth_uri is no web address")
    return OAuthClient(client["client_id"], client["client_secret"], auth_uri)


class Consent:
    """One question to the person, whether the program may use their account."""

    def __init__(self, client: OAuthClient, root: str | None, timeout: float) -> None:
        """
        Args:
            root: None is Google itself; else consent is asked for at <root>/o/oauth2/v2/auth, and the answer redeemed
                at <root>/token.
            timeout: seconds for redeeming.
        """
        self.state = secrets.token_urlsafe(32)
        self._verifier = secrets.token_urlsafe(64)
        self._client = client
        self._root = root
        self._timeout = timeout

    def url(self, redirect_uri: str, login_hint: str | None) -> str:
        """The page to open in the browser; its answer, with `state` in it, comes to `redirect_uri`."""
        challenge = urlsafe_b64encode(hashlib.sha256(self._verifier.encode()).digest()).decode().rstrip("=")
        query = {
            "client_id": self._client.id,
            "redirect_uri": redirect_uri,
            "response_type": "code",
            "scope": " ".join(scope.uri for scope in SCOPES),
            "state": self.state,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
            "access_type": "offline",
            "prompt": "consent",
        }
        hint = {"login_hint": login_hint} if login_hint else {}
        page = self._client.auth_uri or f"{(self._root or _GOOGLE_ACCOUNTS).rstrip('/')}/o/oauth2/v2/auth"
        return f"{page}?{urlencode(query | hint)}"

    async def redeem(self, answer: Mapping[str, str], redirect_uri: str) -> Grant:
        """Get the token for the answer that came to `redirect_uri`. Raises LoginFailed, RateLimited, Transient."""
        if "error" in answer:
            raise _denied(answer["error"])
        client = {"client_id": self._client.id, "client_secret": self._client.secret}
        form = {
            "grant_type": "authorization_code",
            "code": answer["code"],
            "code_verifier": self._verifier,
            "redirect_uri": redirect_uri,
            **client,
        }
        uri = oauth_uri(self._root, "token")
        try:
            granted = await _talk("login", self._timeout, lambda call, http: ask_token(call, http, uri, form))
        except Refused as error:
            raise LoginFailed(
                f"Google did not complete the login ({error.reason}): begin again, and check the client's file"
            ) from None
        if missing_keys(granted, ("refresh_token",)):
            raise LoginFailed("Google gave a login that ends within the hour: begin again")
        token = {"type": "authorized_user", **client, **access_token(granted)}
        # Without the field everything was granted that was asked for (RFC 6749, section 5.1).
        scopes = str(granted["scope"]).split() if "scope" in granted else [scope.uri for scope in SCOPES]
        lasts = granted.get("refresh_token_expires_in")
        ends = datetime.now(UTC) + timedelta(seconds=lasts) if isinstance(lasts, int) else None
        return Grant(token, frozenset(scopes), ends)


def _denied(error: str) -> LoginFailed:
    if error == "access_denied":
        return LoginFailed("you did not allow it (access_denied), so nothing was stored: begin again to change that")
    known = error if error.isidentifier() and len(error) < 64 else "an unknown reason"
    return LoginFailed(f"Google refused the login ({known}): check the OAuth client in the Google Cloud console")


async def revoke(token: Token, root: str | None, seconds: float) -> bool:
    """End a login at Google, and with it all that the person has allowed to its OAuth client.

    False if Google knew of no such login any more. Raises Transient when nobody knows.
    """

    def ask(call: Call, transport: Transport) -> bool:
        body = urlencode({"token": token["refresh_token"]})
        uri = oauth_uri(root, "revoke")
        reply = transport.send(call, "POST", uri, headers=_FORM, body=body, effect=False)
        if reply.status == 200:
            return True
        if reply.status == 400 and code_of(reply) == "invalid_token":
            return False
        raise Transient(f"{call.name}: Google answered {reply.status}")

    return await _talk("revoke", seconds, ask)


async def clock_error(root: str | None, seconds: float) -> timedelta:
    """How far this machine's clock is ahead of Google's, to about a second. Raises Transient."""

    def ask(call: Call, transport: Transport) -> timedelta:
        # Whatever it answers to a question without a grant, it answers with the time.
        reply = transport.send(call, "GET", oauth_uri(root, "token"), headers={}, body=None, effect=False)
        try:
            return datetime.now(UTC) - parsedate_to_datetime(reply.headers["date"])
        except (KeyError, ValueError, TypeError):
            raise Transient(f"{call.name}: the answer does not tell the time") from None

    return await _talk("clock", seconds, ask)


async def _talk(name: str, seconds: float, work: Callable[[Call, Transport], T]) -> T:
    """Make one call that belongs to no account, within so many seconds; cancelled, it is cut."""
    call, transport = Call(name, seconds), Transport(connections=1)
    try:
        async with asyncio.timeout(seconds):
            return await asyncio.to_thread(work, call, transport)
    except TimeoutError:
        raise call.failure(f"no answer within {seconds:g} s") from None
    finally:
        call.cut()
        transport.close()
