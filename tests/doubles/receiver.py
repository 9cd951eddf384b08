"""Servers that are told of things: a webhook's, and a push service with the browser behind it."""

import base64
import hashlib
import hmac
import json
import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import http_ece  # type: ignore[import-untyped]
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from py_vapid.jwt import decode  # type: ignore[import-untyped]
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tests.doubles.serving import Dropped, Hold, Server


@dataclass(frozen=True)
class Delivery:
    """One request as it came."""

    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Receiver:
    """Takes whatever is posted to it, at any path, and answers 201 until a test says otherwise."""

    def __init__(self) -> None:
        self.deliveries: list[Delivery] = []
        self._answers: list[Response] = []
        self._hold: Hold | None = None
        self._lock = threading.Lock()
        self._server = Server(Starlette(routes=[Route("/{path:path}", self._endpoint, methods=["GET", "POST"])]))
        self.url = self._server.urls[0]

    def __enter__(self) -> "Receiver":
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._hold:
            self._hold.abandon()
        self._server.stop()

    def next_answers(self, *statuses: int, **headers: str) -> None:
        """What the next requests are answered, with headers such as `retry_after="7"`."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        with self._lock:
            self._answers += [Response(status_code=status, headers=named) for status in statuses]

    def hold(self) -> Hold:
        """Keep every request waiting from now on."""
        self._hold = Hold()
        return self._hold

    async def _endpoint(self, request: Request) -> Response:
        delivery = Delivery(request.url.path, dict(request.headers), await request.body())
        return await run_in_threadpool(self._answer, delivery)

    def _answer(self, delivery: Delivery) -> Response:
        with self._lock:
            self.deliveries.append(delivery)
            answer = self._answers.pop(0) if self._answers else Response(status_code=201)
        if self._hold and not self._hold.wait(self.url):
            return Dropped()
        return answer


class Browser:
    """A browser that asked its push service, a receiver, for messages; only it has the key to read them."""

    def __init__(self, receiver: Receiver, path: str = "/push/secret-of-the-browser") -> None:
        self._receiver = receiver
        self._path = path
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._auth = os.urandom(16)

    @property
    def subscription(self) -> dict[str, Any]:
        """As `PushSubscription.toJSON()` gives it."""
        point = self._key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
        return {
            "endpoint": f"{self._receiver.url}{self._path}",
            "expirationTime": None,
            "keys": {"p256dh": _base64url(point), "auth": _base64url(self._auth)},
        }

    @property
    def deliveries(self) -> list[Delivery]:
        return [delivery for delivery in self._receiver.deliveries if delivery.path == self._path]

    def read(self, delivery: Delivery) -> Any:
        """The message, decrypted."""
        assert delivery.headers["content-encoding"] == "aes128gcm"
        return json.loads(http_ece.decrypt(delivery.body, private_key=self._key, auth_secret=self._auth))


def vapid_claims(delivery: Delivery, public_key: str) -> dict[str, Any]:
    """What the sender of a push message says of itself. Raises InvalidSignature unless it has the key."""
    scheme, _, rest = delivery.headers["authorization"].partition(" ")
    given = dict(pair.split("=", 1) for pair in rest.split(","))
    assert scheme == "vapid"
    assert given["k"].rstrip("=") == public_key
    claims: dict[str, Any] = decode(given["t"], public_key)
    return claims


def is_signed(delivery: Delivery, secret: str) -> bool:
    """Whether a webhook's request carries the signature of https://www.standardwebhooks.com."""
    headers = delivery.headers
    content = b".".join([headers["webhook-id"].encode(), headers["webhook-timestamp"].encode(), delivery.body])
    key = base64.b64decode(secret.removeprefix("whsec_"))
    expected = base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()
    return hmac.compare_digest(headers["webhook-signature"], f"v1,{expected}")


def _base64url(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()
