"""What `up` tells while it runs: a line for each thing that happens.

In a terminal, which is the person's own, lines name sender and subject. Elsewhere they may be kept (a file, the
system's journal, Docker's log), so there they say which mailbox and which item, and no word of the mail.
"""

import asyncio
import logging
from collections import OrderedDict
from datetime import datetime
from typing import TypeVar
from urllib.parse import urlsplit

import psycopg

from email_assistant.accounts.account import UnknownAccount
from email_assistant.app import App
from email_assistant.cli.accounts import MODES
from email_assistant.cli.context import here, invocation, out, print_text
from email_assistant.inbox.feed import Change, Feed, Listener
from email_assistant.inbox.items import Item, NoItem
from email_assistant.mail.charset import cut, one_line
from email_assistant.trail.story import Trail

K = TypeVar("K")
V = TypeVar("V")

log = logging.getLogger(__name__)

_LONGEST = 70
_MOST_KNOWN = 10_000
_TOLD = ("new", "done", "failed")
"""States of a mail."""
_NAMES = {
    "draft": "a reply",
    "meeting": "a meeting",
    "notification": "a mail to see",
    "question": "a question",
    "confirmation": "what you asked for",
    "link": "a link to open",
    "in_doubt": "what may have been done",
}
_DONE = {"sent": "Sent", "scheduled": "Put into the calendar", "done": "Done", "refused": "Not done"}


async def introduce(app: App) -> None:
    """Say which mailboxes are watched, in which mode, which are left alone, and which model is asked."""
    accounts = await app.accounts.of_user(app.user_id)
    away = {account.id: app.accounts.away(account) for account in accounts}
    for account in accounts:
        if why := away[account.id]:
            print_text(f"{account.address} {why}.")
        elif account.state == "active":
            print_text(f"Mailbox: {account.address}, in {account.mode} mode: {MODES[account.mode]}.")
        else:
            print_text(here(f"Mailbox: {account.address}, not watched now; `email-assistant status` says more."))
    if all(away.values()):
        print_text(here("No account is watched yet: `email-assistant auth login --help` says how."))
    settings = app.settings
    host = urlsplit(settings.openai_base_url or "https://api.openai.com").hostname
    print_text(f"Model: {settings.model}, at {host}")


async def follow(app: App) -> None:
    """Print what happens until cancelled."""
    heard = _Heard()
    teller = _Teller(app)
    with Feed(app.pool).listener(app.user_id, heard):
        while True:
            change = await heard.changes.get()
            try:
                await teller.tell(change)
            except (psycopg.Error, NoItem, UnknownAccount) as error:  # it is gone, or the database restarts
                log.info("a line is left out (%s)", type(error).__name__)
            except Exception as error:  # what happens must go on, told or not
                log.warning("a line is left out (%s)", type(error).__name__)


class _Heard(Listener):
    """Every change in its order, where a page needs the last one of each thing only."""

    def __init__(self) -> None:
        super().__init__()
        self.changes: asyncio.Queue[Change] = asyncio.Queue()

    def tell(self, change: Change) -> None:
        self.changes.put_nowait(change)


class _Teller:
    def __init__(self, app: App) -> None:
        self._app = app
        self._trail = Trail(app.pool, app.memory)
        self._began = datetime.now().astimezone()
        self._told: OrderedDict[object, str | None] = OrderedDict()
        """The last state that was told of each thing, oldest first."""
        self._mails: OrderedDict[str, tuple[str, str | None]] = OrderedDict()
        """Each mail's account, and what it is told by."""
        self._by_name = out.is_terminal

    async def tell(self, change: Change) -> None:
        match change["what"]:
            case "mail" if change["state"] in _TOLD and self._is_news(change["id"], change["state"]):
                await self._mail(change["id"], change["state"])
            case "item" if self._is_news(change["id"], change["status"]) and change["status"] == "pending":
                item = await self._app.inbox.get(self._app.user_id, change["id"])
                which = f"`{invocation(f'inbox show {str(item.id)[:8]}')}`"
                name = "a call of an agent of yours" if item.is_held else _NAMES[item.kind]
                self._line(f"Waits for you: {name}", item.account, self._of_item(item), which)
            case "account":
                account = await self._app.accounts.get(change["id"])
                if self._is_news(account.id, account.last_error) and account.last_error:
                    self._line("Trouble", account.address, here(account.last_error))

    async def _mail(self, mail_id: str, state: str) -> None:
        if state == "done" and (known := self._mails.get(mail_id)):
            account, about = known
        else:
            mail = await self._app.mails.get(self._app.user_id, mail_id)
            account, about = mail.account, self._of_mail(mail.sender, mail.subject)
            _keep(self._mails, mail_id, (account, about))
        if state == "new":
            self._line("Mail came", account, about)
        elif state == "failed":
            self._line("Failed", account, about, mail.reason if self._by_name else None)
        else:
            for event in await self._trail.done_for(self._app.user_id, mail_id, account):
                if event.what in _DONE and event.at and event.at >= self._began and self._is_news(event, event.what):
                    self._line(_DONE[event.what], account, about)

    def _is_news(self, thing: object, state: str | None) -> bool:
        key = repr(thing)
        if key in self._told and self._told[key] == state:
            return False
        _keep(self._told, key, state)
        return True

    def _of_item(self, item: Item) -> str | None:
        return self._of_mail("you, in a chat" if item.chat else item.sender or "", item.subject or "")

    def _of_mail(self, sender: str, subject: str) -> str | None:
        return f"{_cut(sender) or '(unknown sender)'}: {_cut(subject) or '(no subject)'}" if self._by_name else None

    def _line(self, what: str, account: str, *more: str | None) -> None:
        where = f"{what}, {account}" if account else what
        told = "; ".join(one_line(each) for each in (where, *more) if each)
        print_text(f"{datetime.now().astimezone():%H:%M:%S}  {told}")


def _keep(known: OrderedDict[K, V], key: K, value: V) -> None:
    """As the newest of not too many."""
    known.pop(key, None)
    known[key] = value
    if len(known) > _MOST_KNOWN:
        known.popitem(last=False)


def _cut(text: str) -> str:
    return cut(one_line(text), _LONGEST)
