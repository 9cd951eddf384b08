"""Who may come in: the token, the session cookie that stands for it, and whence a request may come."""

import hmac
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote, urlencode, urlsplit
from uuid import UUID

from fastapi.responses import RedirectResponse, Response
from fastapi.security.utils import get_authorization_scheme_param
from starlette.datastructures import MutableHeaders
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from email_assistant.accounts.sessions import LONGEST, Session, Sessions
from email_assistant.db.pool import AWAY
from email_assistant.plugins import Site, sites
from email_assistant.web.errors import is_for_programs, refusal, refused_by
from email_assistant.web.rendering import render
from email_assistant.web.wording import browser


@dataclass(frozen=True, slots=True)
class OwnName:
    """A host name of this home's own, so that its cookies reach no other server of this machine.

    Cookies know no port (RFC 6265, section 8.5): what is set for 127.0.0.1 goes to every server there, whoever started
    it. Names below .localhost lead to this machine (RFC 6761, section 6.3), and each has cookies of its own. The name
    is random: who knew it could lead the browser to their own port under it. So only who has given the token is told
    it.
    """

    host: str
    is_known: bool
    """Whether the system's own resolver finds it. Browsers may do so by themselves, but a link must open in any."""

    def instead_of(self, request: Request) -> str | None:
        """The root address under the name, where the request's own had better be left for it."""
        # Over https, a proxy stands between: what leads to this machine from here need not lead here from there.
        if not self.is_known or request.url.scheme != "http" or request.url.hostname == self.host:
            return None
        port = f":{request.url.port}" if request.url.port else ""
        return f"http://{self.host}{port}"


_COOKIE = "email_assistant_session"
_OPEN_PATHS = ("/health", "/health-check", "/ready", "/login", "/.well-known/security.txt", "/google/push")
"""Of these, the last asks for a token of its own."""
_OPEN_FOLDER = "/static/"
_IN_URLS = ":/%#?=@[]!$&'()*+,"
"""What stands in a URL as it is; a semicolon would end it in the header Refresh."""
_READING = ("GET", "HEAD", "OPTIONS")

_HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; connect-src 'self'; style-src 'self'; "
    "manifest-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; frame-src 'self'; "
    "img-src 'self' data:",
    "X-Content-Type-Options": "nosniff",
    # Not no-referrer: with it a browser sends "Origin: null" with our own forms too, and they could not be told from a
    # stranger's (https://fetch.spec.whatwg.org/#append-a-request-origin-header). Other sites learn nothing either way.
    "Referrer-Policy": "same-origin",
    # A page that opened one of ours, or that one of ours opened, has no hold on it; nor can it load anything of ours.
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


@dataclass(frozen=True, slots=True)
class Key:
    """What a program is let in with."""

    secret: str
    opens: Callable[[str], bool]  # by a path


class Access:
    """Knows the token, and who is logged in by it. Without a token, everybody is let in.

    Wrong tokens are not counted: a right one must never wait for them, and so many random bits can't be guessed.

    Args:
        own_name: the host name that browsers had better use.
        keys: what lets programs in at some paths, and nowhere else: none reads mail or answers itself.
    """

    def __init__(
        self,
        token: str | None,
        sessions: Sessions,
        user_id: UUID,
        own_name: OwnName | None = None,
        keys: Sequence[Key] = (),
    ) -> None:
        self._token = token
        self._keys = keys
        self._sessions = sessions
        self._user_id = user_id
        self._own_name = own_name

    @property
    def is_asked_for(self) -> bool:
        """Whether anybody has to log in at all."""
        return self._token is not None

    def is_token(self, given: str) -> bool:
        """Whether it is the token, if one is asked for."""
        return self._token is None or is_same(given, self._token)

    async def is_allowed(self, request: Request) -> bool:
        """Whether the request carries the token or a session, or a key that opens its path."""
        scheme, bearer = get_authorization_scheme_param(request.headers.get("authorization"))
        given = [bearer] if scheme.lower() == "bearer" else []
        given += [request.headers["x-api-key"]] if "x-api-key" in request.headers else []
        if self._token is None or any(map(self.is_token, given)):
            return True
        if any(key.opens(request.url.path) and is_same(each, key.secret) for key in self._keys for each in given):
            return True
        return await self.session(request) is not None

    async def session(self, request: Request) -> Session | None:
        """The session of the browser that the request comes from; it is looked up once for a request."""
        secret = request.cookies.get(self._cookie(request))
        if self._token is None or not secret:
            return None
        if not hasattr(request.state, "session"):
            request.state.session = await self._sessions.find(secret, self._token, _host(request))
        session: Session | None = request.state.session
        return session

    def elsewhere(self, request: Request) -> str | None:
        """The root address where a browser at this one had better log in."""
        return self._own_name.instead_of(request) if self._own_name else None

    async def log_in(self, request: Request, response: Response) -> None:
        """Give the browser a session, whoever gave the token; one that it has lives on."""
        if self._token is None:
            return
        if session := await self.session(request):
            await self._sessions.renew(session)
            return
        agent = browser(request.headers.get("user-agent", ""))
        secret = await self._sessions.begin(self._user_id, self._token, _host(request), agent)
        response.set_cookie(
            self._cookie(request),
            secret,
            max_age=int(LONGEST.total_seconds()),
            httponly=True,
            samesite="strict",
            secure=_is_https(request),
        )

    def forget(self, request: Request, response: Response) -> None:
        """Take the cookie of a session that has ended from its browser."""
        response.delete_cookie(self._cookie(request), httponly=True, samesite="strict", secure=_is_https(request))

    def _cookie(self, request: Request) -> str:
        """Its name is the home's: cookies know no ports, and two homes would log each other's browsers out.

        Of the prefix, browsers take and send a cookie over https to this very host only, and nobody else's in its place
        (https://datatracker.ietf.org/doc/html/draft-ietf-httpbis-rfc6265bis#name-the-__host-prefix)."""
        name = f"{_COOKIE}_{self._user_id.hex[:8]}"
        return f"__Host-{name}" if _is_https(request) else name


@dataclass(frozen=True, slots=True)
class OtherSite:
    """One whose pages may call some of our paths."""

    origin: str
    site: Site


class Guard:
    """Lets a request through, or answers it itself; nothing of it is read before. `others`: the other sites whose pages
    may change something, on the paths that they use."""

    def __init__(self, app: ASGIApp, access: Access, others: Sequence[OtherSite] = ()) -> None:
        self._app = app
        self._access = access
        self._others = others
        self._open_paths = {*_OPEN_PATHS, *(path for each in sites() for path in each.open_paths)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        try:
            answer = await self._answer(request)
        except AWAY as error:
            answer = await refused_by(request, error)
        await (answer or self._app)(scope, receive, send)

    async def _answer(self, request: Request) -> Response | None:
        path = request.url.path
        if request.method not in _READING and not (_is_from_our_pages(request) or self._is_from_other_site(request)):
            return refusal(path, 403, "this request comes from another site's page")
        token = request.query_params.get("token")
        if token is not None and request.method == "GET" and not is_for_programs(path):
            return await self._by_link(request, token)
        if path in self._open_paths or path.startswith(_OPEN_FOLDER) or await self._access.is_allowed(request):
            return None
        return self._unauthorized(request)

    def _is_from_other_site(self, request: Request) -> bool:
        origin = request.headers.get("origin")
        return any(origin == other.origin and other.site.has(request.url.path) for other in self._others)

    async def _by_link(self, request: Request, token: str) -> Response:
        if not _is_top_level(request):
            return refusal(request.url.path, 403, "this link logs in; open it by itself")
        following = without_token(request)
        if not self._access.is_token(token):
            return self._login_page(request, following, "This link holds another token.")
        elsewhere = self._access.elsewhere(request)
        if elsewhere and not await self._access.session(request):
            return RedirectResponse(elsewhere + with_token(following, token), 303)
        # A strict cookie is held back on all of a step that began on another site's page; on one from here it is sent.
        is_far = request.headers.get("sec-fetch-site") == "cross-site"
        response = onward(following) if is_far else RedirectResponse(following, 303)
        await self._access.log_in(request, response)
        return response

    def _unauthorized(self, request: Request) -> Response:
        if is_for_programs(request.url.path):
            detail = "send the token as `Authorization: Bearer TOKEN` or `x-api-key: TOKEN`"
            return refusal(request.url.path, 401, detail, {"WWW-Authenticate": "Bearer"})
        return self._login_page(request, without_token(request) if request.method == "GET" else "/")

    def _login_page(self, request: Request, following: str, wrong: str | None = None) -> Response:
        return login_page(following, wrong, may_stay=self._access.elsewhere(request) is not None)


class Sharing:
    """Lets the pages of another site read what is for them, and nothing else.

    A browser asks first whether it may (preflight), without the token; that is answered here, before the guard."""

    def __init__(self, app: ASGIApp, other: OtherSite) -> None:
        self._app = app
        self._site = other.site
        self._shared = CORSMiddleware(
            app,
            allow_origins=[other.origin],
            allow_methods=["GET", "POST"],
            allow_headers=["content-type", "x-api-key"],
            allow_private_network=True,
            expose_headers=["location", "content-location"],
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        shared = scope["type"] == "http" and self._site.has(scope["path"])
        await (self._shared if shared else self._app)(scope, receive, send)


class SecurityHeaders:
    """Adds to every answer what tells a browser to trust nothing in it, and to keep nothing of it; what shows somebody
    else's content says itself what is stricter."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_static = scope["type"] == "http" and scope["path"].startswith(_OPEN_FOLDER)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
                headers["Cache-Control"] = "no-cache" if is_static else "no-store"
            await send(message)

        await self._app(scope, receive, send_with_headers)


def login_page(following: str, wrong: str | None = None, *, may_stay: bool = False) -> Response:
    """The page that asks for the token, and goes on to the local path `following`. `may_stay`: whether logging in leads
    to the home's own name, unless the person says otherwise."""
    return render(
        "login.html",
        status_code=401,
        headers={"WWW-Authenticate": "Bearer"},
        following=following,
        wrong=wrong,
        may_stay=may_stay,
    )


def onward(url: str, shown: str | None = None) -> Response:
    """A page that goes on to `url` by itself; a redirect would count as a step of the page that led here. `shown`:
    where it leads, for the person to open; `url` itself, if left out."""
    headers = {"Refresh": f"0; url={quote(url, safe=_IN_URLS)}"}
    return render("onward.html", headers=headers, shown=shown or url)


def local_path(path: str) -> str:
    """A path that stays on this server: `//host` and `/\\host` would lead to another."""
    return "/" + path.lstrip("/\\")


def without_token(request: Request) -> str:
    """The path and query of a request, as it would be sent after logging in."""
    query = urlencode([pair for pair in request.query_params.multi_items() if pair[0] != "token"])
    return local_path(quote(local_path(request.scope["path"]))) + (f"?{query}" if query else "")


def with_token(path: str, token: str) -> str:
    """The way back from `without_token`."""
    return f"{path}{'&' if '?' in path else '?'}{urlencode({'token': token})}"


def is_same(given: str, known: str) -> bool:
    """In a time that does not tell how much of it is right."""
    return hmac.compare_digest(given.encode("utf-8", "replace"), known.encode())


def _is_from_our_pages(request: Request) -> bool:
    """Whether a request that changes something was sent by a page of ours, or by no page at all."""
    origin = request.headers.get("origin")
    return origin is None or urlsplit(origin).netloc.lower() == request.headers.get("host", "").lower() != ""


def _is_top_level(request: Request) -> bool:
    """Whether the address was opened in a tab of its own, and not by a page within itself; older browsers don't say."""
    return (
        request.headers.get("sec-fetch-mode", "navigate") == "navigate"
        and request.headers.get("sec-fetch-dest", "document") == "document"
    )


def _host(request: Request) -> str:
    return request.url.hostname or ""


def _is_https(request: Request) -> bool:
    return request.url.scheme == "https"
