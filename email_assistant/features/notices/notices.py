"""Telling a person that something waits: in their browser (web push, which only that browser can read), and by webhooks
that are signed as https://www.standardwebhooks.com says. It stands beside the work: nothing waits for a notice."""

import asyncio
import json
import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID, uuid5

from email_assistant.accounts.accounts import Accounts
from email_assistant.accounts.vault import VaultError
from email_assistant.features.notices.channels import Channel, Channels, Notice
from email_assistant.features.notices.sealing import check_keys, new_key, new_secret, public_key, sealed, signed
from email_assistant.inbox.items import Item
from email_assistant.inbox.reading import Items
from email_assistant.inbox.recipients import addresses_in
from email_assistant.inbox.sentences import sentence
from email_assistant.mail.characters import clean
from email_assistant.mail.charset import cut
from email_assistant.outward import Answer, Outward, TargetRefused, Unreachable
from email_assistant.tools.spec import LETTER

log = logging.getLogger(__name__)

MOST_CARDS: Final = 3
"""A push message holds about 3,900 bytes (RFC 8291, section 4), and a character takes up to four."""
_LINE: Final = 100
_GAP: Final = re.compile(r"\s{3,}")
"""Room in which the end of a letter is out of sight."""
_WHOLE: Final = 200
"""Characters that a notice shows of a letter at most; a longer one is not sent from it."""

Card = dict[str, Any]


def cards(items: Sequence[Item], new: int) -> list[Card]:
    """A notice for each of the first items, each with who wrote; and one for the rest, if there is one.

    Args:
        new: how many there are in all.
    """
    shown = [_card(item, alone=new == 1) for item in items[:MOST_CARDS]]
    return [*shown, counted(new - len(shown), "more ")] if new > len(shown) else shown


def counted(waiting: int, more: str = "") -> Card:
    """A notice that names nobody."""
    said = f"1 {more}item waits for you" if waiting == 1 else f"{waiting} {more}items wait for you"
    return {"title": said, "body": "", "tag": "waiting", "url": "/"}


def bare(item: Item) -> Card:
    """A notice of one item that names nobody, and opens it."""
    marked = "It is marked: look at it by itself." if item.marks else ""
    return {**counted(1), "body": marked, "tag": str(item.id), "url": f"/items/{item.id}"}


def _card(item: Item, *, alone: bool) -> Card:
    nobody = "An agent of yours" if item.is_held else "(unknown sender)"
    who = "You, in a chat" if item.chat else item.sender or nobody
    named = f"{'! ' if item.marks else ''}{who}: {item.subject or '(no subject)'}"
    card = {**bare(item), "title": _one_line(named)}
    whole = _whole(item) if alone and len(_flat(named)) <= _LINE else None
    if whole is not None:
        # The hash is of all that is shown of the item and of its `asked`: under another, nothing is accepted.
        return {**card, "body": whole, "send": {"id": str(item.id), "hash": item.hash}}
    marked = f"Marked: {item.at_a_glance}" if item.marks else ""
    return {**card, "body": "\n".join(map(_one_line, filter(None, [marked, sentence(item, item.zone)])))}


def _whole(item: Item) -> str | None:
    """The letter that *Send* would send, all of it with everybody who gets it; None: it is opened to be answered."""
    if item.kind != "draft" or item.action != LETTER or item.alone or "accept" not in item.allowed:
        return None
    if item.parts or item.newer or item.left_out or item.asked_because:
        return None
    text = str(item.args.get("response_text") or "").strip()
    shown = f"From {item.sent_from} to {', '.join(addresses_in(item.args))}:\n{text}"
    return shown if len(shown) <= _WHOLE and clean(shown) == shown and not _GAP.search(shown) else None


def _one_line(text: str) -> str:
    return cut(_flat(text), _LINE)


def _flat(text: str) -> str:
    return " ".join(clean(text).split())


_GONE = (404, 410)


@dataclass(frozen=True, slots=True)
class Notices:
    """`items`: what waits; `inbox_url`: where the person opens the inbox; `contact`: for the operators of push
    services, a mailto: or https: address; None: the person's first account; `show_mail`: write who wrote, and what is
    proposed, into web push, whose messages only the person's browser can read."""

    channels: Channels
    items: Items
    accounts: Accounts
    outward: Outward
    inbox_url: str
    contact: str | None
    show_mail: bool

    async def add_webhook(self, user_id: UUID, url: str) -> tuple[Channel, str]:
        """The channel, and the secret that its requests are signed with. Raises TargetRefused."""
        secret = new_secret()
        channel = await self.channels.add(user_id, "webhook", self.outward.check(url).host, url, {"secret": secret})
        return channel, secret

    async def add_browser(
        self, user_id: UUID, url: str, p256dh: str, auth: str, session_id: UUID | None = None
    ) -> Channel:
        """A browser is told for as long as the session lasts. Raises TargetRefused, BadSubscription."""
        check_keys(p256dh, auth)
        secrets = {"p256dh": p256dh, "auth": auth}
        return await self.channels.add(user_id, "push", self.outward.check(url).host, url, secrets, session_id)

    async def public_key(self, user_id: UUID) -> str:
        """What a browser must be told before it subscribes. Raises VaultError."""
        return public_key(await self._key(user_id))

    async def tell(self) -> None:
        """Send what is due; a channel that is slow keeps none of the others."""
        await asyncio.gather(*(self._tell(notice) for notice in await self.channels.claim()))

    async def test(self, channel: Channel) -> str | None:
        """Send a notice of nothing; what is wrong with the channel, if anything is."""
        try:
            answer = await self._send(channel, Notice(channel, [], 0, 0, None), "test")
        except (TargetRefused, Unreachable, VaultError) as error:
            return str(error)
        return None if _is_taken(answer) else f"the server answers {answer.status}"

    async def _tell(self, notice: Notice) -> None:
        try:
            answer = await self._send(notice.channel, notice, "items.waiting")
        except (TargetRefused, Unreachable, VaultError) as error:
            await self.channels.failed(notice, str(error), 0)
            return
        if _is_taken(answer):
            await self.channels.told(notice)
        elif answer.status in _GONE:
            log.warning("channel %s is gone: its server answers %s", notice.channel.id, answer.status)
            await self.channels.gone(notice.channel, f"its server answers {answer.status}: add it again")
        else:
            await self.channels.failed(notice, f"the server answers {answer.status}", answer.retry_after)

    async def _send(self, channel: Channel, notice: Notice, type_: str) -> Answer:
        address = await self.channels.address(channel)
        if channel.kind == "webhook":
            body = json.dumps(await self._for_webhook(notice, type_)).encode()
            # The same notice, tried again, has the same id: a receiver may leave out what it knows.
            message_id = str(uuid5(channel.id, f"{type_} {notice.until}"))
            return await self.outward.post(address["url"], signed(address["secret"], message_id, body), body)
        key, contact = await self._key(channel.user_id), await self._contact_of(channel.user_id)
        headers, body = sealed(key, contact, address, await self._for_browser(notice))
        return await self.outward.post(address["url"], headers, body)

    async def _for_webhook(self, notice: Notice, type_: str) -> dict[str, Any]:
        """Ids and numbers: a webhook goes to somebody else's server, in the clear for it."""
        found = await self.items.of_ids(notice.channel.user_id, notice.items)
        return {
            "type": type_,
            "timestamp": datetime.now(UTC).isoformat(),
            "data": {
                "new": notice.new,
                "waiting": notice.waiting,
                "items": list(map(str, notice.items)),
                "marked": [str(item.id) for item in found if item.marks],
                "link": self.inbox_url,
            },
        }

    async def _for_browser(self, notice: Notice) -> bytes:
        """`notices` to be shown, each under a `tag` that a later one of the same item replaces, and leading to a `url`;
        `send`: it may be accepted from there, with what the server must find unchanged."""
        if not notice.waiting:
            shown = [{**counted(0), "title": "Notices reach this browser"}]
        else:
            found = await self.items.of_ids(notice.channel.user_id, notice.items[:MOST_CARDS])
            if self.show_mail:
                shown = cards(found, notice.new)
            else:
                shown = [bare(found[0]) if found and notice.waiting == 1 else counted(notice.waiting)]
        return json.dumps({"waiting": notice.waiting, "notices": shown}, ensure_ascii=False).encode("utf-8", "replace")

    async def _key(self, user_id: UUID) -> str:
        return await self.channels.vapid_key(user_id, new_key())

    async def _contact_of(self, user_id: UUID) -> str:
        if self.contact:
            return self.contact
        accounts = await self.accounts.of_user(user_id)
        if not accounts:
            raise Unreachable(
                "push services ask whom to write to: add an account, or set EMAIL_ASSISTANT_NOTIFY_CONTACT"
            )
        return f"mailto:{accounts[0].address}"


def _is_taken(answer: Answer) -> bool:
    return 200 <= answer.status < 300
