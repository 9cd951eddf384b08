"""How a notice is closed: signed for a webhook (https://www.standardwebhooks.com), and encrypted for one browser
(RFC 8291, under a key of ours by RFC 8292)."""

import base64
import binascii
import hashlib
import hmac
import secrets
import time
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from email_assistant.errors import AssistantError

_PREFIX = "whsec_"


def new_secret() -> str:
    return _PREFIX + base64.b64encode(secrets.token_bytes(24)).decode()


def signed(secret: str, message_id: str, body: bytes) -> dict[str, str]:
    """The headers of a request with this body."""
    key = base64.b64decode(secret.removeprefix(_PREFIX))
    at = str(int(time.time()))
    signature = hmac.new(key, b".".join([message_id.encode(), at.encode(), body]), hashlib.sha256).digest()
    return {
        "Content-Type": "application/json",
        "Webhook-Id": message_id,
        "Webhook-Timestamp": at,
        "Webhook-Signature": f"v1,{base64.b64encode(signature).decode()}",
    }


_CURVE: Final = ec.SECP256R1()  # which RFC 8291 and RFC 8292 name
_KEPT_SECONDS = 12 * 3600  # how long a push service keeps a message for a browser that is off
_SIGNED_SECONDS = 12 * 3600  # RFC 8292 allows 24 hours at most, by the push service's clock


class BadSubscription(AssistantError):
    """What a browser sent as its subscription can't be used."""

    status = HTTPStatus.UNPROCESSABLE_ENTITY


def new_key() -> str:
    """A private key to be known by, as PEM."""
    key = ec.generate_private_key(_CURVE)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def public_key(key: str) -> str:
    """The public half, as browsers take it (`applicationServerKey`)."""
    half = load_pem_private_key(key.encode(), None).public_key()
    point = half.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
    return base64.urlsafe_b64encode(point).rstrip(b"=").decode()


def check_keys(p256dh: str, auth: str) -> None:
    """Raises BadSubscription."""
    try:
        ec.EllipticCurvePublicKey.from_encoded_point(_CURVE, _decoded(p256dh))
        secret = _decoded(auth)
    except (ValueError, binascii.Error):
        raise BadSubscription("p256dh is no public key of a browser") from None
    if len(secret) != 16:
        raise BadSubscription("auth has another length than a browser's secret")


def sealed(key: str, contact: str, subscription: Mapping[str, str], message: bytes) -> tuple[dict[str, str], bytes]:
    """Headers and body of the request to the subscription's push service. `contact`: a mailto: or https: address for
    the push service's operators; `subscription`: `url`, `p256dh` and `auth`."""
    import http_ece  # type: ignore[import-untyped]
    import httpx
    import jwt

    url = httpx.URL(subscription["url"])
    body: bytes = http_ece.encrypt(
        message,
        private_key=ec.generate_private_key(_CURVE),
        dh=_decoded(subscription["p256dh"]),
        auth_secret=_decoded(subscription["auth"]),
    )
    claims = {"aud": f"{url.scheme}://{url.netloc.decode()}", "exp": int(time.time()) + _SIGNED_SECONDS, "sub": contact}
    headers = {
        "Authorization": f"vapid t={jwt.encode(claims, key, 'ES256')},k={public_key(key)}",
        "Content-Encoding": "aes128gcm",
        "Content-Type": "application/octet-stream",
        "TTL": str(_KEPT_SECONDS),
        "Topic": "waiting",  # a newer notice takes the place of one that no browser has fetched
    }
    return headers, body


def _decoded(value: str) -> bytes:
    return base64.b64decode(value + "=" * (-len(value) % 4), altchars=b"-_", validate=True)
