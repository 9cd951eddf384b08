"""Google's login: consent, the token endpoint and revocation.

As https://developers.google.com/identity/protocols/oauth2/native-app documents them for installed apps.
"""

import base64
import hashlib
import secrets
import time
from html import escape
from typing import Annotated, Any, Literal
from urllib.parse import urlencode, urlsplit

from fastapi import APIRouter, Form, Query, Request
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from .errors import ApiError
from .store import Store

ACCESS_TOKEN_SECONDS = 3600
CODE_SECONDS = 600
_AUTH = "https://www.googleapis.com/auth/"
SCOPES = tuple(
    _AUTH + name
    for name in (
        *("gmail.modify", "calendar.events", "calendar.readonly", "calendar.freebusy"),
        *("calendar.calendarlist.readonly", "calendar.settings.readonly"),
    )
)
_NEEDED = (
    ("/gmail/", ("gmail.modify",)),
    ("/calendar/v3/users/me/calendarList", ("calendar.calendarlist.readonly", "calendar.readonly")),
    ("/calendar/v3/users/me/settings", ("calendar.settings.readonly", "calendar.readonly")),
    ("/calendar/v3/freeBusy", ("calendar.freebusy", "calendar.readonly")),
    ("/calendar/", ("calendar.events", "calendar.readonly")),
)
"""Any of which a call needs, by the first path that its own begins with."""

router = APIRouter()


def credentials(store: Store, root: str) -> dict[str, str]:
    """The authorized-user JSON of this mailbox; its secrets are made once and kept."""
    with store.transaction() as db:
        for name, value in (
            ("client_id", f"{secrets.token_hex(8)}.apps.sandbox.example"),
            ("client_secret", secrets.token_urlsafe(24)),
            ("refresh_token", _new_refresh_token()),
        ):
            if store.fact(name) is None:
                store.remember(name, value)
        kept = {name: store.fact(name) or "" for name in ("client_id", "client_secret", "refresh_token")}
        if store.fact("granted") is None:  # once: what was revoked stays so
            db.execute("INSERT INTO grants VALUES (?, ?)", (kept["refresh_token"], " ".join(SCOPES)))
            store.remember("granted", "yes")
    return {"type": "authorized_user", **kept, "token_uri": f"{root}/token"}


async def authorize(request: Request) -> None:
    """Let only a live access token of a sufficient scope through. Raises ApiError (401, 403)."""
    store: Store = request.app.state.store
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer":
        raise ApiError(401, "required", "Login Required.")
    row = store.first("SELECT expires, scope FROM bearers NATURAL JOIN grants WHERE token = ?", token)
    if row is None or row["expires"] <= time.time():
        raise ApiError(401, "authError", "Invalid Credentials")
    path = request.url.path
    needed: tuple[str, ...] = next((scopes for begin, scopes in _NEEDED if path.startswith(begin)), ())
    if not {_AUTH + scope for scope in needed} & set(row["scope"].split()):
        raise ApiError(403, "insufficientPermissions", "Request had insufficient authentication scopes.")


@router.get("/o/oauth2/v2/auth")
def ask(
    request: Request,
    client_id: str = "",
    redirect_uri: str = "",
    response_type: str = "",
    scope: str = "",
    code_challenge: str = "",
    code_challenge_method: str = "",
) -> Response:
    """The consent page, or Google's own error page, from which nothing comes back to the program."""
    store: Store = request.app.state.store
    if client_id != store.fact("client_id"):
        return _stopped(401, "invalid_client")
    if not _is_loopback(redirect_uri):
        return _stopped(400, "redirect_uri_mismatch")
    asked = scope.split()
    if response_type != "code" or not code_challenge or code_challenge_method != "S256" or not asked:
        return _stopped(400, "invalid_request")
    if not set(asked) <= set(SCOPES):
        return _stopped(400, "invalid_scope")
    boxes = "".join(
        f'<p><label><input type="checkbox" name="scope" value="{escape(each)}"> {escape(each)}</label>'
        for each in asked
    )
    return HTMLResponse(
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>Sandbox login</title>'
        f"<h1>A program wants to use {escape(request.app.state.mailbox.address)}</h1>"
        f'<form method="post">{boxes}<p><button name="decision" value="continue">Continue</button>'
        ' <button name="decision" value="cancel">Cancel</button></form>'
    )


@router.post("/o/oauth2/v2/auth")
def answer(
    request: Request,
    redirect_uri: Annotated[str, Query()],
    code_challenge: Annotated[str, Query()],
    decision: Annotated[Literal["continue", "cancel"], Form()],
    state: Annotated[str | None, Query()] = None,
    scope: Annotated[list[str] | None, Form()] = None,
) -> Response:
    """The person's answer, carried back to the program by their browser."""
    if not _is_loopback(redirect_uri):
        return _stopped(400, "redirect_uri_mismatch")
    back = {"state": state} if state is not None else {}
    if decision == "cancel":
        back["error"] = "access_denied"
    else:
        granted = " ".join(each for each in SCOPES if each in (scope or []))
        back |= {"code": "4/" + secrets.token_urlsafe(32), "scope": granted}
        store: Store = request.app.state.store
        with store.transaction() as db:
            db.execute(
                "INSERT INTO codes VALUES (?, ?, ?, ?, ?)",
                (back["code"], time.time() + CODE_SECONDS, redirect_uri, code_challenge, granted),
            )
    return RedirectResponse(f"{redirect_uri}?{urlencode(back)}", 302)


@router.post("/token")
def token(
    request: Request,
    grant_type: Annotated[str, Form()] = "",
    client_id: Annotated[str, Form()] = "",
    client_secret: Annotated[str, Form()] = "",
    refresh_token: Annotated[str, Form()] = "",
    code: Annotated[str, Form()] = "",
    code_verifier: Annotated[str, Form()] = "",
    redirect_uri: Annotated[str, Form()] = "",
) -> JSONResponse:
    """Exchange an authorization code or a refresh token for an access token (RFC 6749, sections 4.1.3 and 6)."""
    store: Store = request.app.state.store
    if grant_type not in ("refresh_token", "authorization_code"):
        return _refused(400, "unsupported_grant_type", f"Invalid grant_type: {grant_type}")
    if (client_id, client_secret) != (store.fact("client_id"), store.fact("client_secret")):
        return _refused(401, "invalid_client", "The OAuth client was not found.")
    with store.transaction() as db:
        if grant_type == "refresh_token":
            row = db.execute("SELECT scope FROM grants WHERE refresh_token = ?", (refresh_token,)).fetchone()
            if row is None:
                return _refused(400, "invalid_grant", "Token has been expired or revoked.")
            return JSONResponse(_new_access_token(store, refresh_token, row["scope"]))
        row = db.execute("DELETE FROM codes WHERE code = ? RETURNING *", (code,)).fetchone()
        if row is None or row["expires"] <= time.time() or row["redirect_uri"] != redirect_uri:
            return _refused(400, "invalid_grant", "Bad Request")
        if not secrets.compare_digest(row["challenge"].encode(), _challenge(code_verifier).encode()):
            return _refused(400, "invalid_grant", "Invalid code verifier.")
        return JSONResponse(_new_login(store, row["scope"], request.app.state.login_days))


@router.post("/revoke")
def revoke(request: Request, token: Annotated[str, Form()] = "") -> JSONResponse:
    """End a login by one of its tokens, of either kind, and with it all that was allowed to the client."""
    store: Store = request.app.state.store
    with store.transaction() as db:
        found = db.execute(
            "SELECT 1 FROM grants LEFT JOIN bearers USING (refresh_token) WHERE ? IN (refresh_token, token)", (token,)
        ).fetchone()
        if found is None:
            return _refused(400, "invalid_token", "Token expired or revoked")
        db.execute("DELETE FROM grants")
    return JSONResponse({})


def _new_login(store: Store, scope: str, days: float | None) -> dict[str, Any]:
    refresh_token = _new_refresh_token()
    with store.transaction() as db:
        db.execute("INSERT INTO grants VALUES (?, ?)", (refresh_token, scope))
    ends = {} if days is None else {"refresh_token_expires_in": int(days * 86400)}
    return {**_new_access_token(store, refresh_token, scope), "refresh_token": refresh_token, **ends}


def _new_access_token(store: Store, refresh_token: str, scope: str) -> dict[str, Any]:
    access_token = "ya29." + secrets.token_urlsafe(48)
    with store.transaction() as db:
        db.execute("DELETE FROM bearers WHERE expires <= ?", (time.time(),))
        db.execute(
            "INSERT INTO bearers VALUES (?, ?, ?)", (access_token, time.time() + ACCESS_TOKEN_SECONDS, refresh_token)
        )
    return {"access_token": access_token, "expires_in": ACCESS_TOKEN_SECONDS, "scope": scope, "token_type": "Bearer"}


def _new_refresh_token() -> str:
    return "1//" + secrets.token_urlsafe(48)


def _challenge(verifier: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")


def _is_loopback(uri: str) -> bool:
    """Installed apps are answered on the person's own machine only."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return False
    return parts.scheme == "http" and parts.hostname in ("127.0.0.1", "::1", "localhost")


def _stopped(code: int, error: str) -> HTMLResponse:
    return HTMLResponse(f"<!doctype html><title>Sandbox login</title><p>Error {code}: {error}", code)


def _refused(code: int, error: str, description: str) -> JSONResponse:
    return JSONResponse({"error": error, "error_description": description}, code)
