"""`/items/{id}/body`: the mail as it was sent, with its files and its invitation. Gmail may be slow, so it stands
alone, and what the sender made stands in a document of its own, which may do nothing."""

import asyncio
import base64
import hashlib
import re
from typing import Literal
from urllib.parse import quote

from fastapi.responses import HTMLResponse, Response

from email_assistant.app import App
from email_assistant.inbox.items import Item
from email_assistant.inbox.originals import NoOriginal, NoSuchFile, Original, original
from email_assistant.mail.charset import decode
from email_assistant.mail.contents import SHOWN_AS_TEXT, File
from email_assistant.mail.invite import Invitation
from email_assistant.mail.rich import NotShown, Rich, sanitised
from email_assistant.web.pages.day import ShownDay, Slot, day_of
from email_assistant.web.pictures import NoPicture, data_uris, media_type
from email_assistant.web.rendering import render
from email_assistant.web.routers import Assistant, ItemId, for_pages

_BLOCK = re.compile(r"<(?:br|div|h[1-6]|hr|li|p|tr)\b")
_TAG = re.compile(r"<[^>]*>")
_LINE_LENGTH = 70  # characters

_STYLE = """:root { color-scheme: light; background: #fff; color: #222; font: 15px/1.5 system-ui, sans-serif; }
body { margin: 8px; overflow-wrap: anywhere; }
img { max-width: 100%; height: auto; }
summary { color: #555; cursor: pointer; }
.picture { color: #555; border: 1px dotted #999; padding: 0 4px; }
.host { all: unset !important; color: #333 !important; background: #eee !important; font: 12px monospace !important; }
"""
_STYLE_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_SANDBOX = (
    "sandbox allow-popups allow-popups-to-escape-sandbox; default-src 'none'; base-uri 'none'; form-action 'none'"
)
_FRAMED = {
    # A mail brings colours and sizes in attributes; a style sheet is only ours.
    "Content-Security-Policy": f"{_SANDBOX}; img-src data:; style-src-attr 'unsafe-inline'; "
    f"style-src-elem 'sha256-{_STYLE_HASH}'; frame-ancestors 'self'",
    "Referrer-Policy": "no-referrer",
    "X-DNS-Prefetch-Control": "off",
}
_OPENED = {
    "Content-Security-Policy": "sandbox; default-src 'none'; img-src 'self' data:; style-src 'unsafe-inline'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    # A browser opens no sandboxed page with a policy on its openers (https://html.spec.whatwg.org/#coop-enforcement);
    # the link has no opener.
    "Cross-Origin-Opener-Policy": "unsafe-none",
}

router = for_pages()


@router.get("/items/{item_id}/body")
async def show(app: Assistant, item_id: ItemId) -> Response:
    item = await app.inbox.get(app.user_id, item_id)
    trouble, rich, invitation, day = None, None, None, None
    files: tuple[File, ...] = ()
    try:
        mail = (await _original(app, item)).contents
    except NoOriginal as refusal:
        trouble = f"{refusal}."
    else:
        files, invitation = mail.attached, mail.invitation
        try:
            rich = await _sanitised(mail.html) if mail.html else None
        except NotShown:
            trouble = "This mail is made in a way that can't be shown here as it was sent."
        day = await _day(app, item, invitation) if invitation else None
    return render(
        "original.html",
        item=item,
        zone=item.zone,
        trouble=trouble,
        rich=rich,
        height=_height(rich.html) if rich else 0,
        files=files,
        invitation=invitation,
        day=day,
        gmail=_at_gmail(app, item),
    )


@router.get("/items/{item_id}/body/rich")
async def show_rich(app: Assistant, item_id: ItemId, pictures: Literal["none", "shown", "all"] = "none") -> Response:
    """The HTML alone. `pictures`: which are fetched, all with those that are made not to be seen."""
    mail = await _original(app, await app.inbox.get(app.user_id, item_id))
    html = mail.contents.html
    try:
        rich = await _sanitised(html)
        if pictures != "none":
            wanted = rich.pictures + (rich.hidden if pictures == "all" else ())
            rich = await asyncio.to_thread(sanitised, html, await data_uris(wanted, mail, app.pictures))
    except NotShown:
        raise NoSuchFile("this mail has no HTML that can be shown") from None
    page = (
        '<!doctype html><html><head><meta charset="utf-8"><title>Mail</title>'
        f'<style>{_STYLE}</style></head><body dir="auto">{rich.html}</body></html>'
    )
    return HTMLResponse(page.encode("utf-8", "replace"), headers=_FRAMED)


@router.get("/items/{item_id}/files/{number}")
async def show_file(app: Assistant, item_id: ItemId, number: int, *, open: bool = False) -> Response:  # noqa: A002
    """A file, to be kept; with `open` to be looked at, where it is of a kind that can do nothing."""
    mail = await _original(app, await app.inbox.get(app.user_id, item_id))
    file = mail.file(number)
    content = await mail.content(file)
    if open and file.opens:
        return await _opened(file, content)
    return Response(content, media_type="application/octet-stream", headers=_OPENED | _disposition("attachment", file))


async def _opened(file: File, content: bytes) -> Response:
    headers = _OPENED | _disposition("inline", file)
    if file.mime_type in SHOWN_AS_TEXT:
        text = await asyncio.to_thread(decode, content, None)
        return Response(text, media_type="text/plain; charset=utf-8", headers=headers)
    try:
        return Response(content, media_type=media_type(content), headers=headers)
    except NoPicture as refusal:
        raise NoSuchFile(f"{refusal}; keep the file, and look at it with another program") from None


def _disposition(how: str, file: File) -> dict[str, str]:
    return {"Content-Disposition": f"{how}; filename*=UTF-8''{quote(file.safe_name, safe='')}"}


async def _original(app: App, item: Item) -> Original:
    return await original(app.clients, item.account_id, item.mail_id)


def _height(html: str) -> int:
    """Pixels that it needs, about. Nobody can look into the frame and measure it; the person can draw it larger."""
    blocks, characters = len(_BLOCK.findall(html)), len(_TAG.sub("", html))
    return min(max(blocks * 34 + characters // _LINE_LENGTH * 23, 120), 720)


async def _sanitised(html: str) -> Rich:
    """In a thread: a long mail takes as long as several requests."""
    return await asyncio.to_thread(sanitised, html)


async def _day(app: App, item: Item, invitation: Invitation) -> ShownDay | None:
    if invitation.start is None or invitation.end is None:
        return None
    start, end = invitation.start.astimezone(item.zone), invitation.end.astimezone(item.zone)
    return await day_of(app, item, start.date(), Slot(start, end, invitation.title, is_meant=True), invitation.uid)


def _at_gmail(app: App, item: Item) -> str | None:
    """Where Gmail shows the mail; None if the mailbox is none of Google's."""
    if app.clients.root is not None or item.mail_id is None:
        return None
    return f"https://mail.google.com/mail/?authuser={quote(item.account)}#all/{quote(item.mail_id)}"
