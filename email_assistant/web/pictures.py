"""The pictures of a mail, fetched for the person who asked for them, so that no sender's server meets their browser."""

import asyncio
import base64
from collections.abc import Iterable

from email_assistant.errors import AssistantError
from email_assistant.inbox.originals import Original
from email_assistant.outward import Outward

_MOST_BYTES = 5_000_000  # of one picture
_MOST_OF_ALL = 15_000_000
_AT_ONCE = 4
_SECONDS = 20.0

_BEGINNINGS = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)


class NoPicture(AssistantError):
    """What was fetched is none of the kinds that are shown."""


def media_type(content: bytes) -> str:
    """What a picture is, by how it begins. No SVG: that is a document, which may hold scripts. Raises NoPicture."""
    if content.startswith(b"RIFF") and content[8:12] == b"WEBP":
        return "image/webp"
    for beginning, name in _BEGINNINGS:
        if content.startswith(beginning):
            return name
    raise NoPicture("this is no PNG, JPEG, GIF or WebP picture")


async def data_uris(addresses: Iterable[str], mail: Original, outward: Outward) -> dict[str, str]:
    """What to show for addresses in a mail's HTML, by address; those that can't be had are left out."""
    gate = asyncio.Semaphore(_AT_ONCE)
    left = _MOST_OF_ALL
    found: dict[str, str] = {}

    async def fetch(address: str) -> None:
        nonlocal left
        async with gate:
            try:
                content = await _content(address, mail, outward)
                kind = media_type(content)
            except AssistantError:
                return
        left -= len(content)
        if left >= 0:
            found[address] = f"data:{kind};base64,{base64.b64encode(content).decode('ascii')}"

    try:
        async with asyncio.timeout(_SECONDS), asyncio.TaskGroup() as tasks:
            for address in addresses:
                tasks.create_task(fetch(address))
    except TimeoutError:
        pass  # what came in time is shown
    return found


async def _content(address: str, mail: Original, outward: Outward) -> bytes:
    if address[:4].lower() == "cid:":
        wanted = address[4:]
        file = next((file for file in mail.contents.files if file.content_id == wanted), None)
        if file is None or (file.size or 0) > _MOST_BYTES:
            raise NoPicture("the mail holds no such picture")
        return await mail.content(file)
    fetched = await outward.get(address, _MOST_BYTES)
    if not fetched.media_type.startswith("image/"):
        raise NoPicture(f"the server says that this is {fetched.media_type}")
    return fetched.content
