"""A login in the person's browser: OAuth 2.0 for installed apps, with PKCE (RFC 8252, RFC 7636), and what it asks for.

https://developers.google.com/identity/protocols/oauth2/native-app. By google-auth-oauthlib, but for its
`run_local_server`, which takes the first request that comes for Google's answer: a server of ours on loopback, as the
browser sees it, stands in its place.
"""

import asyncio
import json
import logging
import os
import secrets
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from io import BytesIO
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit

from email_assistant.google.auth import Token, access_token, ask_token, missing_keys, oauth_uri, read_json_file
from email_assistant.google.errors import LoginFailed, Refused, Transient
from email_assistant.google.replies import code as code_of
from email_assistant.google.transport import GoogleCall, Transport


@dataclass(frozen=True, slots=True)
class Scope:
    uri: str
    box: str
    """Its line on Google's consent page, as the discovery documents describe it."""
    loss: str
    """What does not work without it."""


_ROOT: Final = "https://www.googleapis.com/auth"

# Covers labels, drafts, sending and send-as addresses.
GMAIL: Final = Scope(
    f"{_ROOT}/gmail.modify", "Read, compose, and send emails from your Gmail account", "nothing works without it"
)
# calendar.events covers neither the list of calendars nor the timezone setting
# (https://developers.google.com/workspace/calendar/api/auth).
CALENDAR: Final = (
    Scope(
        f"{_ROOT}/calendar.events",
        "View and edit events on all your calendars",
        "your calendar is not looked into, and no meeting is scheduled",
    ),
    Scope(
        f"{_ROOT}/calendar.calendarlist.readonly",
        "See the list of Google calendars you're subscribed to",
        "of your calendars only the primary one is seen",
    ),
    Scope(
        f"{_ROOT}/calendar.settings.readonly",
        "View your Calendar settings",
        "your timezone is guessed from your calendar",
    ),
)
SCOPES: Final = (GMAIL, *CALENDAR)


def missing(granted: Collection[str]) -> list[Scope]:
    """What the person has left out."""
    return [scope for scope in SCOPES if scope.uri not in granted]


T = TypeVar("T")

_GOOGLE_ACCOUNTS: Final = "https://accounts.google.com"
_LOOPBACK: Final = {"127.0.0.1", "::1", "localhost"}
_FORM: Final = {"content-type": "application/x-www-form-urlencoded"}

# Writes the code, the client's secret and the tokens at level DEBUG.
logging.getLogger("requests_oauthlib").setLevel(logging.ERROR)


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
                at <root>/token. LoginFailed if that is neither https nor on this machine.
            timeout: seconds for redeeming.
        """
        from google_auth_oauthlib.flow import Flow

        self._is_here = root is not None and urlsplit(root).hostname in _LOOPBACK
        page = client.auth_uri or f"{(root or _GOOGLE_ACCOUNTS).rstrip('/')}/o/oauth2/v2/auth"
        uris = {"auth_uri": page, "token_uri": oauth_uri(root, "token")}
        if not self._is_here and any(urlsplit(uri).scheme != "https" for uri in uris.values()):
            raise LoginFailed(
                "a login goes over https, or to a server on this machine: correct EMAIL_ASSISTANT_GOOGLE_ROOT, or "
                "auth_uri in the client's file"
            )
        config = {"installed": {"client_id": client.id, "client_secret": client.secret, **uris}}
        self.state = secrets.token_urlsafe(32)
        self._timeout = timeout
        self._flow = Flow.from_client_config(config, [scope.uri for scope in SCOPES])

    def url(self, redirect_uri: str, login_hint: str | None) -> str:
        """The page to open in the browser; its answer, with `state` in it, comes to `redirect_uri`."""
        self._flow.redirect_uri = redirect_uri
        with self._plain_http():
            url, _ = self._flow.authorization_url(state=self.state, prompt="consent", login_hint=login_hint)
        return str(url)

    async def redeem(self, answer: Mapping[str, str]) -> Grant:
        """Get the token for the answer that came back. Raises LoginFailed, RateLimited, Transient."""
        if "error" in answer:
            raise _denied(answer["error"])
        session = self._flow.oauth2session
        session.scope = None  # else a consent in part is an error

        def fetch(call: GoogleCall, transport: Transport) -> None:
            for scheme in ("https://", "http://"):
                session.mount(scheme, _Wire(call, transport))
            # The client's secret in the body, as Google documents it, not in a header.
            self._flow.fetch_token(code=answer["code"], include_client_id=True)

        try:
            with self._plain_http():
                await _talk("login", self._timeout, fetch)
        except Refused as error:
            raise LoginFailed(
                f"Google did not complete the login ({error.reason}): begin again, and check the client's file"
            ) from None
        granted = session.token
        if missing_keys(granted, ("refresh_token",)):
            raise LoginFailed("Google gave a login that ends within the hour: begin again")
        client = {key: self._flow.client_config[key] for key in ("client_id", "client_secret")}
        token = {"type": "authorized_user", **client, **access_token(granted)}
        # Without the field everything was granted that was asked for (RFC 6749, section 5.1).
        scopes = granted.get("scope") or [scope.uri for scope in SCOPES]
        lasts = granted.get("refresh_token_expires_in")
        ends = datetime.now(UTC) + timedelta(seconds=lasts) if isinstance(lasts, int) else None
        return Grant(token, frozenset(scopes), ends)

    @contextmanager
    def _plain_http(self) -> Iterator[None]:
        """Have oauthlib take plain http to a server on this machine, as the sandbox is.

        It asks the environment each time (`is_secure_transport` in oauthlib/oauth2/rfc6749/utils.py), which is that of
        the whole process and of the browser that it starts: so no longer than needed.
        """
        if not self._is_here:
            yield
            return
        os.environ["OAUTHLIB_INSECURE_TRANSPORT"] = "1"
        try:
            yield
        finally:
            os.environ.pop("OAUTHLIB_INSECURE_TRANSPORT", None)


@dataclass(frozen=True, slots=True)
class _Wire:
    """Carries a request of the library's to the token endpoint, as a BaseAdapter of requests.

    By itself requests has no deadline for the whole, goes by the environment's proxies and ~/.netrc, and takes the code
    and the client's secret along to wherever it is redirected.
    """

    call: GoogleCall
    transport: Transport

    def send(self, request: Any, **_: object) -> Any:
        from requests import Response

        answer = ask_token(self.call, self.transport, request.url, request.body)
        response = Response()
        response.request, response.status_code, response.encoding = request, 200, "utf-8"
        response.raw = BytesIO(json.dumps(answer).encode())
        return response


def _denied(error: str) -> LoginFailed:
    if error == "access_denied":
        return LoginFailed("you did not allow it (access_denied), so nothing was stored: begin again to change that")
    known = error if error.isidentifier() and len(error) < 64 else "an unknown reason"
    return LoginFailed(f"Google refused the login ({known}): check the OAuth client in the Google Cloud console")


async def revoke(token: Token, root: str | None, seconds: float) -> bool:
    """End a login at Google, and with it all that the person has allowed to its OAuth client.

    False if Google knew of no such login any more. Raises Transient when nobody knows.
    """

    def ask(call: GoogleCall, transport: Transport) -> bool:
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

    def ask(call: GoogleCall, transport: Transport) -> timedelta:
        # Whatever it answers to a question without a grant, it answers with the time.
        reply = transport.send(call, "GET", oauth_uri(root, "token"), headers={}, body=None, effect=False)
        try:
            return datetime.now(UTC) - parsedate_to_datetime(reply.headers["date"])
        except (KeyError, ValueError, TypeError):
            raise Transient(f"{call.name}: the answer does not tell the time") from None

    return await _talk("clock", seconds, ask)


async def _talk(name: str, seconds: float, work: Callable[[GoogleCall, Transport], T]) -> T:
    """Make one call that belongs to no account, within so many seconds; cancelled, it is cut."""
    call, transport = GoogleCall(name, seconds), Transport(connections=1)
    try:
        async with asyncio.timeout(seconds):
            return await asyncio.to_thread(work, call, transport)
    except TimeoutError:
        raise call.failure(f"no answer within {seconds:g} s") from None
    finally:
        call.cut()
        transport.close()


_HOST: Final = "127.0.0.1"
_LONGEST = 64 * 1024
_PATIENCE_SECONDS = 10  # browsers open connections ahead, over which nothing may ever come

_DONE = "Google has answered. You can close this page: the terminal shows how the login went."
_OTHER = "This belongs to no login that is under way. Begin again in the terminal."
_NOTHING = "There is nothing here."


class Loopback:
    """Takes the one answer that holds `state`; whatever else comes is refused, and the wait goes on."""

    def __init__(self, state: str) -> None:
        self._state = state
        self._answer: asyncio.Future[dict[str, str]] = asyncio.get_running_loop().create_future()

    @asynccontextmanager
    async def listen(self, port: int, host: str = _HOST) -> AsyncIterator[str]:
        """Listen while the block lasts; yields the redirect URI. Raises OSError.

        Args:
            port: 0 is any free one.
            host: another in a container, whose loopback is not the browser's.
        """
        server = await asyncio.start_server(self._serve, host, port, limit=_LONGEST)
        try:
            yield f"http://{_HOST}:{server.sockets[0].getsockname()[1]}/"
        finally:
            server.close()

    async def answer(self) -> dict[str, str]:
        """What Google has added to the redirect URI, once the browser has been there."""
        return await self._answer

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answer = None
        # Not HTTP, or nobody there any more: nothing to do.
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            async with asyncio.timeout(_PATIENCE_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
                answer, status, text = self._judge(head)
                writer.write(_page(status, text))
                await writer.drain()
                writer.close()
                await writer.wait_closed()
        writer.close()
        if answer and not self._answer.done():
            self._answer.set_result(answer)

    def _judge(self, head: bytes) -> tuple[dict[str, str] | None, HTTPStatus, str]:
        method, _, rest = head.partition(b"\r\n")[0].decode("ascii", "replace").partition(" ")
        try:
            target = urlsplit(rest.rpartition(" ")[0])
        except ValueError:
            return None, HTTPStatus.BAD_REQUEST, _NOTHING
        if method != "GET" or target.path != "/":
            return None, HTTPStatus.NOT_FOUND, _NOTHING
        answer = dict(parse_qsl(target.query))
        ours = secrets.compare_digest(answer.get("state", "").encode(), self._state.encode())
        if not ours or not {"code", "error"} & answer.keys():
            return None, HTTPStatus.BAD_REQUEST, _OTHER
        return answer, HTTPStatus.OK, _DONE


def _page(status: HTTPStatus, text: str) -> bytes:
    body = f'<!doctype html><html lang="en"><meta charset="utf-8"><title>email-assistant</title><p>{text}</p></html>'
    lines = (
        f"HTTP/1.1 {status.value} {status.phrase}",
        "Content-Type: text/html; charset=utf-8",
        f"Content-Length: {len(body)}",
        "Content-Security-Policy: default-src 'none'",
        "Referrer-Policy: no-referrer",  # the address holds the code
        "Cache-Control: no-store",
        "Connection: close",
        "",
        body,
    )
    return "\r\n".join(lines).encode()
