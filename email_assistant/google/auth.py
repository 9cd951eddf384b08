"""An account's login: its token file, and the access token that is renewed when needed."""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from concurrent.futures import Executor
from contextvars import copy_context
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple
from urllib.parse import urlencode

from email_assistant.files import NoFile, read_whole
from email_assistant.google.errors import GoogleError, RateLimited, Refused, Revoked, Transient
from email_assistant.google.replies import code, refusal
from email_assistant.google.transport import GoogleCall, Transport

log = logging.getLogger(__name__)

_OAUTH_ROOT: Final = "https://oauth2.googleapis.com"

_LONGEST: Final = 1024**2  # bytes
_REQUIRED: Final = ("refresh_token", "client_id", "client_secret")

# Answers of the token endpoint that only a person can change (RFC 6749 section 5.2; Google adds the last two).
_LOGIN_IS_DEAD: Final = {"invalid_grant", "invalid_client", "unauthorized_client", "deleted_client", "disabled_client"}

# An access token is renewed while it still lasts so long, as google-auth does it: clocks differ, requests take time.
_MARGIN: Final = timedelta(minutes=3, seconds=45)

Token = dict[str, Any]
"""Authorized-user JSON: client_id, client_secret and refresh_token; token and expiry, once it was used."""

Renew = Callable[[Token], Awaitable[Token]]
Exchange = Callable[[Renew], Awaitable[None]]
"""Hands the stored token to a function and stores what it returns, for one caller at a time in whatever process."""


def oauth_uri(root: str | None, name: Literal["token", "revoke"]) -> str:
    """An endpoint of Google itself (None) or of the server at `root`: no token ever goes anywhere else."""
    return f"{(root or _OAUTH_ROOT).rstrip('/')}/{name}"


def read_json_file(path: Path) -> dict[str, Any]:
    """Read a JSON object. Raises ValueError with one line that says what is wrong with the file."""
    try:
        value = json.loads(read_whole(path, _LONGEST))
    except FileNotFoundError:
        raise ValueError(f"{path}: no such file") from None
    except OSError as error:
        raise ValueError(f"{path}: cannot be read ({error.strerror})") from None
    except NoFile:
        raise
    except ValueError:
        raise ValueError(f"{path}: not a JSON file") from None
    if not isinstance(value, dict):
        raise ValueError(f"{path}: not a JSON object")
    return value


def read_token_file(path: Path) -> Token:
    """Read an authorized-user JSON file. Raises ValueError with one line that says what is wrong with it."""
    token = read_json_file(path)
    if "installed" in token or "web" in token:
        raise ValueError(f"{path}: this is the OAuth client's file, not the token of a login")
    if missing := missing_keys(token, _REQUIRED):
        raise ValueError(f"{path}: missing {', '.join(missing)}")
    return token


def missing_keys(value: Mapping[str, Any], keys: Collection[str]) -> list[str]:
    """Those of the keys under which there is no text."""
    return [key for key in keys if not isinstance(value.get(key), str) or not value[key]]


class Bearer(NamedTuple):
    token: str
    is_new: bool
    """Whether Google made it for this very call."""


class Authorization:
    """The access token of one account, renewed by one caller at a time."""

    def __init__(
        self, token: Mapping[str, Any], uri: str, transport: Transport, threads: Executor, exchange: Exchange | None
    ) -> None:
        """
        Args:
            token: authorized-user JSON (ValueError if it is not).
            uri: the token endpoint.
            exchange: where all processes find the token; None keeps it to this one.
        """
        self._token = dict(token)
        if missing := missing_keys(self._token, _REQUIRED):
            raise ValueError(f"the token lacks {', '.join(missing)}")
        _expiry(self._token)
        self._uri = uri
        self._transport = transport
        self._threads = threads
        self._exchange = exchange
        self._one_renewal = asyncio.Lock()
        self._revoked: str | None = None

    async def bearer(self, call: GoogleCall, refused: Collection[str] = ()) -> Bearer:
        """An access token to use now, none of those that Google has just `refused` with 401.

        Raises Revoked, RateLimited or Transient when there is none to be had.
        """
        async with self._one_renewal:
            if self._revoked:
                raise Revoked(self._revoked)
            is_new = not _serves(self._token, refused) and await self._renew(call, refused)
        return Bearer(self._token["token"], is_new)

    async def _renew(self, call: GoogleCall, refused: Collection[str]) -> bool:
        """Get another access token: the stored one, if it was renewed elsewhere (False), or a new one of Google's."""
        before = self._token
        is_new = False

        async def renew(stored: Token) -> Token:
            nonlocal is_new
            is_new = not _serves(stored, refused)
            self._token = await self._refreshed(call, stored) if is_new else stored
            return self._token

        if self._exchange is None:
            await renew(before)
            return True
        try:
            await self._exchange(renew)
        except GoogleError:
            raise
        except Exception as error:
            if self._token is before:
                raise Transient(f"{call.name}: the login was not renewed ({type(error).__name__})") from None
            # That it can't be stored now must not hide how the call ends; the next renewal is stored again.
            log.warning("a renewed Google token was not stored (%s)", type(error).__name__)
        return is_new

    async def _refreshed(self, call: GoogleCall, token: Token) -> Token:
        if missing_keys(token, _REQUIRED):
            raise Revoked("this login was ended here: log in again")
        # Without the scopes: naming one that the person did not grant makes a refresh fail with invalid_scope.
        form = urlencode({"grant_type": "refresh_token", **{key: token[key] for key in _REQUIRED}})
        loop = asyncio.get_running_loop()
        try:
            asked = partial(copy_context().run, ask_token, call, self._transport, self._uri, form)
            answer = await loop.run_in_executor(self._threads, asked)
        except Refused as error:
            self._revoked = f"Google no longer accepts this login ({error.reason}): log in again"
            raise Revoked(self._revoked) from None
        return token | access_token(answer)


def ask_token(call: GoogleCall, transport: Transport, uri: str, form: str) -> dict[str, Any]:
    """What the token endpoint answers to a grant, which is an encoded form.

    Raises:
        Refused: only a person can change that; `reason` is OAuth's code.
        RateLimited, Transient.
    """
    headers = {"content-type": "application/x-www-form-urlencoded"}
    reply = transport.send(call, "POST", uri, headers=headers, body=form, effect=False)
    if reply.status == 200:
        return _read(call, reply.data)
    reason = code(reply)
    said = f"{call.name}: the token endpoint answered {reply.status}" + (f" ({reason})" if reason else "")
    if reason in _LOGIN_IS_DEAD:
        raise Refused(said, reply.status, reason)
    limited = refusal(call, reply)
    # Whatever else it says is about the token endpoint: a 404 must not pass for the answer of Gmail.
    raise limited if isinstance(limited, RateLimited) else Transient(said)


def _read(call: GoogleCall, data: bytes) -> dict[str, Any]:
    unreadable = Transient(f"{call.name}: the answer of the token endpoint is unreadable")
    try:
        answer = json.loads(data)
    except ValueError:
        raise unreadable from None
    if not isinstance(answer, dict) or missing_keys(answer, ("access_token",)):
        raise unreadable
    if not isinstance(answer.get("expires_in", 0), int):
        raise unreadable
    return answer


def access_token(answer: Mapping[str, Any]) -> Token:
    """The part of authorized-user JSON that the token endpoint has answered."""
    lasts = answer.get("expires_in")
    expiry = None if lasts is None else (datetime.now(UTC) + timedelta(seconds=lasts)).replace(tzinfo=None)
    kept = {"refresh_token": answer["refresh_token"]} if answer.get("refresh_token") else {}
    return {"token": answer["access_token"], "expiry": expiry and f"{expiry.isoformat()}Z", **kept}


def _serves(token: Token, refused: Collection[str]) -> bool:
    """Whether its access token may be used now; one of unknown age is tried."""
    access, expiry = token.get("token"), _expiry(token)
    return bool(access) and access not in refused and (expiry is None or expiry - _MARGIN > datetime.now(UTC))


def _expiry(token: Token) -> datetime | None:
    """Raises ValueError if there is one that can't be read."""
    written = token.get("expiry")
    if not written:
        return None
    if not isinstance(written, str):
        raise ValueError("the token's expiry can't be read")
    moment = datetime.fromisoformat(written)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
