"""`POST /google/push?token=…`: Google's Pub/Sub tells that something changed in a mailbox; it is looked at now.

The notice is not believed for more than that. Its token is its own, as it stands in a URL that Google keeps.
"""

import base64

from fastapi import HTTPException, Request
from pydantic import BaseModel

from email_assistant.db.values import storable
from email_assistant.web.auth import is_same
from email_assistant.web.routers import Assistant, undocumented

router = undocumented()


class _Message(BaseModel):
    data: str


class _Push(BaseModel):
    """What Pub/Sub posts (https://cloud.google.com/pubsub/docs/push#receive_push)."""

    message: _Message


class _Change(BaseModel):
    """What Gmail says in it, beside a `historyId` that isn't needed: what counts is the mailbox's own cursor."""

    emailAddress: str  # noqa: N815 - Google's name


@router.post("/google/push", status_code=204)
async def push(app: Assistant, request: Request, token: str = "") -> None:
    """Look into the mailbox that is named, if it is one of ours."""
    known = request.app.state.push_token
    if known is None:
        raise HTTPException(404, "push is off: set EMAIL_ASSISTANT_PUSH_TOPIC and EMAIL_ASSISTANT_PUSH_TOKEN")
    if not is_same(token, known):
        raise HTTPException(403, "this address holds another token than EMAIL_ASSISTANT_PUSH_TOKEN")
    address = _address(await request.body())
    await app.queue.poll([account.id for account in await app.accounts.pollable(storable(address))])


def _address(body: bytes) -> str:
    try:
        data = _Push.model_validate_json(body).message.data
        # Pub/Sub writes base64; Gmail's guide calls it base64url.
        change = base64.b64decode(data.replace("-", "+").replace("_", "/"), validate=True)
        return _Change.model_validate_json(change).emailAddress.lower()
    except ValueError:  # which those of pydantic, base64 and text encodings are
        raise HTTPException(400, "this is no notice of Gmail's in a push of Pub/Sub's") from None
