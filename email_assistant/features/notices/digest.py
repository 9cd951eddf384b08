"""The daily mail to oneself: when it is due, and what it tells. What others wrote in it is data: one line each, without
characters that nobody sees."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from email import policy
from email.message import EmailMessage
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from email_assistant.accounts.account import Account, UnknownAccount
from email_assistant.accounts.accounts import Accounts
from email_assistant.accounts.clients import Clients
from email_assistant.accounts.vault import VaultError
from email_assistant.db.lease import LeaseLost
from email_assistant.db.pool import Pool, fetched
from email_assistant.db.statements import statements
from email_assistant.errors import logged
from email_assistant.google.errors import GoogleError, Refused
from email_assistant.inbox.items import Item
from email_assistant.inbox.reading import Items
from email_assistant.mail.characters import clean
from email_assistant.mail.charset import cut
from email_assistant.memory.lessons import Learned, Lessons
from email_assistant.outgoing.entry import InDoubt, NotYetClear
from email_assistant.outgoing.keyed import KeyedOutbox
from email_assistant.outgoing.letters import Letter

MOST_LINES = 20  # of each section; the rest is counted
_DAY = "X-Email-Assistant-Digest"  # the header that a digest is known by in the mailbox
_MOST_LENGTH = 160


@dataclass(frozen=True, slots=True)
class Line:
    sender: str | None
    subject: str | None
    what: str  # what waits, what was done, or why it failed
    id: UUID | None = None  # of what waits


@dataclass(frozen=True, slots=True)
class Section:
    total: int
    lines: Sequence[Line]  # the first of them


@dataclass(frozen=True, slots=True)
class Contents:
    waiting: Section
    done: Section
    failed: Section
    left_alone: int  # mails that needed nothing
    learned: Sequence[Learned] = ()

    @property
    def is_empty(self) -> bool:
        return not (self.waiting.total or self.done.total or self.failed.total or self.learned)


def compose(account: Account, day: date, since: datetime, at: datetime, contents: Contents, inbox_url: str) -> bytes:
    """The whole mail, from the person to themselves, as RFC 5322 bytes."""
    message = EmailMessage(policy=policy.SMTP)
    message["From"] = message["To"] = account.address
    message["Subject"] = f"Your mail on {day:%A}, {day.day} {day:%B %Y}: {_waiting(contents.waiting.total)}"
    message["Date"] = at.astimezone(account.zone)
    message["Auto-Submitted"] = "auto-generated"
    message["X-Auto-Response-Suppress"] = "All"
    message[_DAY] = day.isoformat()
    message.set_content(_text(account.zone, since, contents, inbox_url), cte="quoted-printable")
    return message.as_bytes()


def _text(zone: ZoneInfo, since: datetime, contents: Contents, inbox_url: str) -> str:
    done = _lines(contents.done)
    if contents.left_alone:
        done.append(f"- {contents.left_alone} mail{'s' * (contents.left_alone != 1)} needed nothing")
    blocks = [
        [f"{_waiting(contents.waiting.total).capitalize()} for you: {inbox_url}", *_lines(contents.waiting)],
        [f"Done since {since.astimezone(zone):%A %H:%M}:", *(done or ["- nothing"])],
    ]
    if contents.failed.total:
        blocks.append(["Failed; in the inbox it can be tried again:", *_lines(contents.failed)])
    if contents.learned:
        learned = [f"- learned: {_one_line(each.said)} ({str(each.id)[:8]})" for each in contents.learned]
        back = f"`email-assistant memory undo ID` takes one back, and so does {inbox_url.rstrip('/')}/memory"
        blocks.append(["Learned from your answers:", *learned, back])
    blocks.append(["Your e-mail assistant wrote this mail. It reads no answers to it."])
    return "\n\n".join("\n".join(block) for block in blocks) + "\n"


def _waiting(count: int) -> str:
    return f"{count or 'nothing'} {'wait' if count > 1 else 'waits'}"


def _lines(section: Section) -> list[str]:
    shown = [_line(line) for line in section.lines]
    more = section.total - len(shown)
    return [*shown, f"- and {more} more"] if more else shown


def _line(line: Line) -> str:
    mail = f"{line.sender or '(no sender)'}: {line.subject or '(no subject)'}"
    return f"- {_one_line(mail)} ({_one_line(line.what)})"


def _one_line(text: str) -> str:
    return cut(" ".join(clean(text).split()), _MOST_LENGTH)


log = logging.getLogger(__name__)

_NOT_FOUND = "its draft is gone, and it is not in Sent"


class _NothingToSay(Exception):
    """The digest would be empty."""


@dataclass(frozen=True, slots=True)
class _Digest:
    account_id: UUID
    day: date
    since: datetime
    until: datetime
    tries: int


_SQL = statements("features/notices", "digest.sql")
_WORDS: Mapping[str, str] = {
    "draft": "a draft to approve",
    "meeting": "a meeting to approve",
    "notification": "to be seen",
    "confirmation": "an action to approve",
    "question": "a question",
    "link": "a page to be opened by you",
    "in_doubt": "it is not known whether it was done",
}


@dataclass(frozen=True, slots=True)
class Digests:
    """`at`: the local time from which a day's digest is due, by each account's own timezone; None: never; `inbox_url`:
    where the person opens the inbox; `claim`: how long a process that died keeps a digest."""

    pool: Pool
    accounts: Accounts
    clients: Clients
    outbox: KeyedOutbox
    items: Items
    at: time | None
    inbox_url: str
    claim: timedelta
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)

    async def send_due(self) -> None:
        """Send what is due now, to each account that is watched."""
        if self.at is None:
            return
        for account in await self.accounts.pollable():
            if account.mode == "shadow":
                continue
            await self._open(account, self.at)
            if digest := await self._claim(account):
                await self._send(account, digest)

    async def last_errors(self, user_id: UUID) -> dict[str, str]:
        """By address, what is wrong with the digest that should have been sent last."""
        rows = await self._rows("last_errors", (user_id,))
        return {row["address"]: row["last_error"] for row in rows if row["last_error"]}

    async def _open(self, account: Account, at: time) -> None:
        """Make today's row once its time has come. The wall clock decides: it may skip an hour, or repeat one."""
        now = self.clock()
        local = now.astimezone(account.zone)
        if local.time() < at:
            return
        given = {"account": account.id, "day": local.date(), "earliest": now - timedelta(days=1), "now": now}
        await self._rows("open", given)

    async def _claim(self, account: Account) -> _Digest | None:
        """The oldest one that is open, unless a process is at it or it must wait."""
        now = self.clock()
        rows = await self._rows("claim", {"account": account.id, "now": now, "until": now + self.claim})
        return _Digest(**rows[0]) if rows else None

    async def _send(self, account: Account, digest: _Digest) -> None:
        async def write() -> Letter:
            contents = await self._contents(digest, account.user_id)
            if contents.is_empty:
                raise _NothingToSay
            return Letter(compose(account, digest.day, digest.since, self.clock(), contents, self.inbox_url), None)

        try:
            gmail = (await self.clients.get(account.id)).gmail
            await self.outbox.send(gmail, account, "digest", digest.day.isoformat(), {}, write)
        except _NothingToSay:
            await self._end(digest, "empty", None)
        except NotYetClear:
            await self._put_off(digest, _NOT_FOUND)
        except InDoubt:
            await self._end(digest, "failed", _NOT_FOUND)
        except Refused as error:
            await self._end(digest, "failed", f"Gmail refuses it: {error}")
        except (GoogleError, VaultError, UnknownAccount, LeaseLost) as error:
            log.warning("%s: no digest: %s; it is tried again by itself", account.address, logged(error))
            await self._put_off(digest, str(error))
        else:
            await self._end(digest, "sent", None)

    async def _put_off(self, digest: _Digest, why: str) -> None:
        await self._rows("put_off", (self.clock(), why, digest.account_id, digest.day))

    async def _end(self, digest: _Digest, state: str, why: str | None) -> None:
        await self._rows("end", (state, why, digest.account_id, digest.day))

    async def _contents(self, digest: _Digest, user_id: UUID) -> Contents:
        period = {"account": digest.account_id, "since": digest.since, "until": digest.until}
        waiting = await self._section("waiting", period)
        done = await self._section("done", period)
        failed = await self._section("failed", period)
        [left] = await self._rows("left", period)
        items = await self.items.of_ids(user_id, [line.id for line in waiting.lines if line.id])
        found: dict[UUID | None, Item] = {item.id: item for item in items}
        kinds = [replace(line, what=_waits(line.what, found.get(line.id))) for line in waiting.lines]
        learned = await Lessons(self.pool).between(digest.account_id, digest.since, digest.until)
        return Contents(Section(waiting.total, kinds), done, failed, left["n"], learned)

    async def _section(self, name: str, period: Mapping[str, object]) -> Section:
        counted = "select *, count(*) over () as total from ({}) found order by at limit {}"
        rows = await fetched(self.pool, counted.format(_SQL[name], MOST_LINES), period)
        lines = [Line(row["sender"], row["subject"], row["what"], row.get("id")) for row in rows]
        return Section(rows[0]["total"] if rows else 0, lines)

    async def _rows(self, name: str, parameters: tuple[object, ...] | Mapping[str, object]) -> list[dict[str, Any]]:
        return await fetched(self.pool, _SQL[name], parameters)


def _waits(kind: str, item: Item | None) -> str:
    says = "a letter to write" if item and item.is_blank else _WORDS[kind]
    return f"{says}; marked: {item.at_a_glance}" if item and item.marks else says
