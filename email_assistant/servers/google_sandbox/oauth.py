"""The token endpoint: refresh tokens in, short-lived access tokens out."""

import secrets
import time
from typing import Annotated, Any

from fastapi import APIRouter, Form, Request
from fastapi.responses import JSONResponse

from .errors import ApiError
from .store import Store

ACCESS_TOKEN_SECONDS = 3600
_SCOPES = (
    "https://www.googleapis.com/auth/gmail.modify",
    "https://www.googleapis.com/auth/calendar.events",
    "https://www.googleapis.com/auth/calendar.readonly",
    "https://www.googleapis.com/auth/calendar.freebusy",
    "https://www.googleapis.com/auth/calendar.settings.readonly",
)

router = APIRouter()


def credentials(store: Store, root: str) -> dict[str, str]:
    """The authorized-user JSON of this mailbox; its secrets are made once and kept."""
    with store.transaction():
        for name, value in (
            ("client_id", f"{secrets.token_hex(8)}.apps.sandbox.example"),
            ("client_secret", secrets.token_urlsafe(24)),
            ("refresh_token", "1//" + secrets.token_urlsafe(48)),
        ):
            if store.fact(name) is None:
                store.remember(name, value)
    kept = {name: store.fact(name) or "" for name in ("client_id", "client_secret", "refresh_token")}
    return {"type": "authorized_user", **kept, "token_uri": f"{root}/token"}


def authorize(request: Request) -> None:
    """Let only a live access token through. Raises ApiError (401)."""
    store: Store = request.app.state.store
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer":
        raise ApiError(401, "required", "Login Required.")
    with store.reading() as db:
        row = db.execute("SELECT expires FROM access_tokens WHERE token = ?", (token,)).fetchone()
    if row is None or row["expires"] <= time.time():
        raise ApiError(401, "authError", "Invalid Credentials")


@router.post("/token")
def token(
    request: Request,
    grant_type: Annotated[str, Form()] = "",
    client_id: Annotated[str, Form()] = "",
    client_secret: Annotated[str, Form()] = "",
    refresh_token: Annotated[str, Form()] = "",
) -> JSONResponse:
    """Exchange the refresh token for an access token (RFC 6749, section 6)."""
    store: Store = request.app.state.store
    if grant_type != "refresh_token":
        return _refused(400, "unsupported_grant_type", f"Invalid grant_type: {grant_type}")
    if (client_id, client_secret) != (store.fact("client_id"), store.fact("client_secret")):
        return _refused(401, "invalid_client", "The OAuth client was not found.")
    if refresh_token != store.fact("refresh_token"):
        return _refused(400, "invalid_grant", "Token has been expired or revoked.")
    return JSONResponse(_new_access_token(store))


def _new_access_token(store: Store) -> dict[str, Any]:
    access_token = "ya29." + secrets.token_urlsafe(48)
    with store.transaction() as db:
        db.execute("DELETE FROM access_tokens WHERE expires <= ?", (time.time(),))
        db.execute("INSERT INTO access_tokens VALUES (?, ?)", (access_token, time.time() + ACCESS_TOKEN_SECONDS))
    return {
        "access_token": access_token,
        "expires_in": ACCESS_TOKEN_SECONDS,
        "scope": " ".join(_SCOPES),
        "token_type": "Bearer",
    }


def _refused(code: int, error: str, description: str) -> JSONResponse:
    return JSONResponse({"error": error, "error_description": description}, code)
