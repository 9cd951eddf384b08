"""Webhooks, signed as https://www.standardwebhooks.com says, so that receivers can check them with its libraries."""

import base64
import hashlib
import hmac
import secrets
import time

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
