"""Forget a mail, or a correspondent, wherever anything of them is stored; or an account: take each conversation from
its worker, settle what is under way, then delete. Nothing changes in Gmail.

A mail goes with its conversation: its other mails quote it, and what was read, drafted and decided there was about all
of them. Of what is gone only Gmail's ids stay, in `forgotten`, so that no look into the mailbox brings it back. Each
batch of conversations goes in one transaction; begun again after a crash, the same finds what is left.
"""

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from http import HTTPStatus
from typing import Any, Final, Self
from uuid import UUID

from email_assistant.accounts.account import Account
from email_assistant.accounts.accounts import Accounts
from email_assistant.accounts.clients import Clients
from email_assistant.accounts.vault import VaultError
from email_assistant.db import checkpoints, threads
from email_assistant.db.lease import Lease, held
from email_assistant.db.order import lock_all
from email_assistant.db.pool import Connection, Pool, fetched, fetched_as
from email_assistant.db.presence import Holder
from email_assistant.db.statements import statements
from email_assistant.errors import AssistantError
from email_assistant.gate import ledger, sessions
from email_assistant.gate.ledger import forget as forget_in_log
from email_assistant.google.errors import GoogleError
from email_assistant.inbox import recipients, rows
from email_assistant.inbox.items import Conflict
from email_assistant.inbox.mails import Mails
from email_assistant.mail.address import is_valid_address
from email_assistant.memory import trial
from email_assistant.memory.profiles import Memory
from email_assistant.memory.profiles import lock as lock_profiles
from email_assistant.memory.rules import PROFILES
from email_assistant.outgoing.effects import Ledger
from email_assistant.outgoing.entry import InDoubt, NotYetClear
from email_assistant.plugins import features
from email_assistant.sync.past_mails import forget_mails
from email_assistant.usage import of_no_run
from email_assistant.work.settle import Settler

_SQL = statements("work", "forgetting.sql")
_AT_ONCE: Final = 100  # conversations in one transaction
_TELLING: Final = 12  # characters of a subject by which a mail is known in a chat
_BUSY = (
    "the assistant is at work on it just now, or something of it is being sent: nothing was forgotten there; try again "
    "in a minute"
)
_READ_ELSEWHERE = (
    "{} open {} looked it up: answer or dismiss what waits there, then forget it; `email-assistant inbox list` shows it"
)
# In JSON, a line's first word stands behind `\n`, whose n is no part of it; in MessagePack, a text's behind its length.
_BEGINS: Final = r"((?<![\w.+-])|(?<=\\[nrtbf]))"
_BEGINS_INSIDE: Final = r"((?<![\w.+-])|(?<=\\[0-7]{3})|(?<=\\331.)|(?<=\\332(.|\\[0-7]{3}){2}))"
_ENDS: Final = r"(?![\w-]|\.\w)"
_HELD_CALL = "another program's agent waits for your answer on a call that names it: answer that first"
_RETRY_SECONDS = 0.5


class NobodyNamed(AssistantError):
    """Who is to be forgotten is neither an address nor a domain."""

    status = HTTPStatus.UNPROCESSABLE_ENTITY


@dataclass(frozen=True, slots=True)
class Going:
    """What goes as a whole."""

    id: UUID
    account: str
    chat: str | None
    """The id of the chat, if it is one."""
    sender: str | None
    subject: str | None
    """Sender and subject of its first mail; None in a chat."""
    mails: int
    waiting: int
    """Items that wait for the person."""
    decided: int
    """Answers that are not carried out yet, and will not be."""
    done: int
    """Letters sent and meetings made, which stay in Gmail and the calendar."""
    drafts: int
    """Left in Gmail, where they stay."""


@dataclass(frozen=True, slots=True)
class Named:
    """How it is found in what is stored: patterns of Postgres's, of a row's text, and of bytes."""

    text: str
    inside: str

    @classmethod
    def of(cls, words: Sequence[str]) -> Self:
        """Any of these words, not as parts of longer ones."""
        texts = {re.escape(form).replace(r"\\", r"\\+") for each in words for form in (each, json.dumps(each)[1:-1])}
        kept = {re.escape(_octal(each)).replace(r"\\", r"\\+") for each in words}
        named, inside = f"({'|'.join(sorted(texts))}){_ENDS}", f"({'|'.join(sorted(kept))}){_ENDS}"
        return cls(named, inside) if words[0].startswith("@") else cls(_BEGINS + named, _BEGINS_INSIDE + inside)


@dataclass(frozen=True)
class WhatGoes:
    """What would be forgotten."""

    what: str
    conversations: list[Going] = field(default_factory=list)
    rules: list[str] = field(default_factory=list)
    """What they say."""
    past_mails: int = 0
    """Of those that rehearsals have read."""
    agents_calls: int = 0
    """Rows of other programs' agents' calls whose words are taken out."""
    notes: list[str] = field(default_factory=list)
    """What is left alone, and what to do about it."""
    refused: list[str] = field(default_factory=list)
    """Why it can't be forgotten now."""

    @property
    def counts(self) -> list[tuple[int, str]]:
        """What is not shown one by one, in words."""
        undone = sum(each.decided for each in self.conversations)
        drafts = sum(each.drafts for each in self.conversations)
        done = sum(each.done for each in self.conversations)
        return [
            (self.past_mails, "mails that rehearsals have read"),
            (self.agents_calls, "calls or answers of other programs' agents, whose words are taken out"),
            (undone, "of your answers that are not carried out yet, and will not be"),
            (done, "letters or meetings that were sent or made, and stay where they are"),
            (drafts, "drafts that were left in Gmail, and stay there"),
        ]

    @property
    def told(self) -> dict[str, Any]:
        """For programs."""
        return asdict(self)

    @property
    def is_nothing(self) -> bool:
        return not (self.conversations or self.rules or self.past_mails or self.agents_calls)


@dataclass(frozen=True)
class ToForget:
    """What a person wants forgotten."""

    what: str
    user: UUID
    named: Named
    chats: Named
    """How a chat is known that quotes it."""
    of_mail: Mapping[str, Any] | None = None
    """The one conversation by mail; None: whichever matches."""

    def given(self, named: Named | None = None, **more: object) -> dict[str, Any]:
        chosen = named or self.named
        return {"user": self.user, "named": chosen.text, "inside": chosen.inside, **more}


class Forgetting:
    def __init__(self, pool: Pool, mails: Mails, memory: Memory) -> None:
        self._pool = pool
        self._mails = mails
        self._memory = memory

    async def of_mail(self, user_id: UUID, mail_id: str, account: str | None = None) -> ToForget:
        """A mail, to be forgotten with its conversation. Raises NoItem."""
        mail = await self._mails.get(user_id, mail_id, account)
        [at] = await self._rows("of_mail", {"user": user_id, "account": mail.account, "mail": mail_id})
        ids, telling = await self._called([at["id"]])
        what = f"the conversation of the mail “{mail.subject or '(no subject)'}” from {mail.sender}"
        return ToForget(what, user_id, Named.of(ids), Named.of([*ids, *telling]), at)

    def of_correspondent(self, user_id: UUID, who: str) -> ToForget:
        """Everything that names an address, or any address of a domain. Raises NobodyNamed."""
        who = who.strip().lower()
        address = who if "@" in who[1:] else f"x@{who.removeprefix('@')}"
        if not is_valid_address(address):
            raise NobodyNamed(f"{who!r} is neither an address, as bob@example.org, nor a domain, as @example.org")
        named = Named.of([who if "@" in who[1:] else f"@{who.removeprefix('@')}"])
        return ToForget(f"everything that names {who}", user_id, named, named)

    async def plan(self, wanted: ToForget) -> WhatGoes:
        """What would go; nothing is changed."""
        found = await self._conversations(wanted)
        ids = [each["id"] for each in found]
        shown = await fetched_as(Going, self._pool, _SQL["shown"], {"threads": ids})
        rules, past, open_readers = list[str](), 0, 0
        for account_id in await self._accounts(wanted):
            rules += [rule.text for _, rule in await self._memory.naming(account_id, wanted.named.text)]
            given = wanted.given(account=account_id, threads=ids, all=ids)
            past += len(await self._rows("past", given))
            open_readers += sum(row["is_open"] for row in await self._rows("readers", given))
        [blotted], [held] = [await self._rows(name, wanted.given()) for name in ("blottable_calls", "held_calls")]
        notes = [
            f"What you wrote of yourself for {row['address']} names it: `email-assistant memory background` changes it."
            for row in await self._rows("background", wanted.given())
        ]
        if wanted.of_mail is None:
            notes += [
                f"{row['address']} is a mailbox of your own: nearly all of its mail names it."
                for row in await self._rows("own", wanted.given())
            ]
        refused = [_READ_ELSEWHERE.format(open_readers, "run" if open_readers == 1 else "runs")] if open_readers else []
        refused += [_HELD_CALL] if held["n"] else []
        return WhatGoes(wanted.what, shown, rules, past, blotted["n"], notes, refused)

    async def carry_out(self, wanted: ToForget) -> WhatGoes:
        """Forget it; returns what that was. Raises Conflict: not now, and why. What was forgotten until then stays so,
        and the same again finds the rest."""
        plan = await self.plan(wanted)
        if plan.refused:
            raise Conflict("; ".join(plan.refused))
        found = await self._conversations(wanted)
        every = [row["id"] for row in found]
        await self._blot(wanted)
        for account_id in await self._accounts(wanted):
            ids = [row["id"] for row in found if row["account_id"] == account_id]
            for start in range(0, max(len(ids), 1), _AT_ONCE):
                await self._forget(wanted, account_id, ids[start : start + _AT_ONCE], every)
        return plan

    async def _forget(self, wanted: ToForget, account_id: UUID, ids: list[UUID], every: list[UUID]) -> None:
        given = wanted.given(account=account_id, threads=ids, all=every)
        async with self._pool.connection() as conn, conn.transaction():
            await lock_profiles(conn, account_id, *PROFILES)
            await lock_all(conn, account_id, ids)
            if await _found(conn, "under_way", given):
                raise Conflict(_BUSY)
            readers = await _found(conn, "readers", given)
            past, mails = [await _found(conn, name, given, "gmail_id") for name in ("past", "mails")]
            await self._memory.forget(conn, account_id, wanted.named.text)
            await trial.forget_mails(conn, account_id, mails)
            await recipients.forget(conn, account_id, wanted.named.text, ids)
            await ledger.blot(conn, readers)
            await checkpoints.forget(conn, readers)
            await delete_conversations(conn, account_id, ids, past)

    async def _blot(self, wanted: ToForget) -> None:
        """Take the words out of what other programs' agents told, and of what belongs to no conversation."""
        for session in await sessions.naming(self._pool, wanted.user, wanted.named.text):
            async with self._pool.connection() as conn, conn.transaction():
                await conn.execute(_SQL["lock_session"].encode(), (session,))
                for kind, blotted in (await sessions.blot(conn, session, wanted.named.text)).items():
                    await forget_in_log(conn, kind, blotted)
        async with self._pool.connection() as conn, conn.transaction():
            await forget_in_log(conn, "answered", await rows.blot_calls(conn, wanted.user, wanted.named.text))
            await Ledger.forget_words(conn, wanted.user, wanted.named.text)

    async def _conversations(self, wanted: ToForget) -> list[Mapping[str, Any]]:
        """Those that go, each with its account."""
        # Chats first, and a mail last: as long as it is there, the same can be begun again.
        if wanted.of_mail:
            return [*await self._rows("naming", wanted.given(wanted.chats, chats_alone=True)), wanted.of_mail]
        found = {row["id"]: row for row in await self._rows("naming", wanted.given(chats_alone=False))}
        ids, telling = await self._called(list(found))
        quoting = wanted.given(Named.of([*ids, *telling]), chats_alone=True) if ids else None
        chats = await self._rows("naming", quoting) if quoting else []
        return [*(row for row in chats if row["id"] not in found), *found.values()]

    async def _called(self, threads: Sequence[UUID]) -> tuple[list[str], list[str]]:
        """The ids of conversations by mail, and those of their subjects that tell them."""
        ids = [row["id"] for row in await self._rows("ids", {"threads": threads})]
        subjects = [_longest(row["subject"]) for row in await self._rows("subjects", {"threads": threads})]
        return ids, [each for each in subjects if len(each) >= _TELLING]

    async def _accounts(self, wanted: ToForget) -> list[UUID]:
        """The person's, that of the mail last."""
        last = wanted.of_mail["account_id"] if wanted.of_mail else None
        query = "select id from accounts where user_id = %s order by id is not distinct from %s::uuid, id"
        return [row["id"] for row in await fetched(self._pool, query, (wanted.user, last))]

    async def _rows(self, name: str, given: Mapping[str, Any]) -> list[dict[str, Any]]:
        return await fetched(self._pool, _SQL[name], given)


async def delete_conversations(
    conn: Connection, account_id: UUID, thread_ids: Sequence[UUID], past: Sequence[str]
) -> None:
    """Delete conversations that the caller has locked, and past mails, all but Gmail's ids of mail, by which no look
    into the mailbox brings any of it back."""
    given = {"account": account_id, "threads": thread_ids}
    runs, calls = [await _found(conn, name, given) for name in ("runs", "calls")]
    mails = [*past, *await _found(conn, "mails", given, "gmail_id")]
    await conn.execute(_SQL["keep_away"].encode(), {"account": account_id, "mails": mails})
    await forget_mails(conn, account_id, past)
    for feature in features():
        if feature.on_conversations_deleted:
            await feature.on_conversations_deleted(conn, account_id, thread_ids)
    await of_no_run(conn, runs)
    await checkpoints.forget(conn, runs)
    await forget_in_log(conn, "ran", calls)
    await threads.forget(conn, thread_ids)


async def _found(conn: Connection, name: str, given: Mapping[str, Any], column: str = "id") -> list[Any]:
    """A column of what a statement finds."""
    return [row[column] for row in await (await conn.execute(_SQL[name].encode(), given)).fetchall()]


def _octal(word: str) -> str:
    """As Postgres's `encode(…, 'escape')` writes it."""
    return "".join(chr(byte) if byte < 128 else f"\\{byte:03o}" for byte in word.encode())


def _longest(subject: str) -> str:
    """The longest piece of it that nothing is put into where it is quoted."""
    return max((piece.strip() for piece in re.split(r'["\\]', subject)), key=len)


@dataclass(frozen=True)
class Removal:
    pool: Pool
    accounts: Accounts
    clients: Clients
    ledger: Ledger
    settler: Settler
    lease_seconds: float
    holder: Holder

    async def remove(self, account: Account) -> int:
        """Delete all that is stored about an account. Nothing changes in its mailbox.

        Returns:
            The number of actions of which it is not known whether they happened.
        """
        await self.accounts.set_state(account.id, "removing")
        if account.watch_until:
            with suppress(GoogleError, VaultError):  # it ends by itself within a week
                await (await self.clients.get(account.id)).gmail.stop_watch()
        unclear = 0
        for thread_id in await self._threads_of(account):
            unclear += await self._close(account, thread_id)
        async with self.pool.connection() as conn, conn.transaction():
            await lock_all(conn, account.id)
            runs = await conn.execute("select id from runs where account_id = %s", (account.id,))
            await checkpoints.forget(conn, [row["id"] for row in await runs.fetchall()])
            await conn.execute("delete from store where prefix like %s", (f"email_assistant.{account.id}.%",))
            await self.accounts.delete(conn, account.id)
        return unclear

    async def _threads_of(self, account: Account) -> list[UUID]:
        async with self.pool.connection() as conn:
            cursor = await conn.execute("select id from threads where account_id = %s", (account.id,))
            return [row["id"] for row in await cursor.fetchall()]

    async def _close(self, account: Account, thread_id: UUID) -> int:
        while True:
            async with held(self.pool, "conversation", thread_id, self.lease_seconds, self.holder) as lease:
                if lease is not None and not await self._is_busy(thread_id):
                    return await self._settle(account, lease)
            await asyncio.sleep(_RETRY_SECONDS)

    async def _is_busy(self, thread_id: UUID) -> bool:
        """Whether a write of a worker that died may still be under way."""
        return any(effect.busy_until for effect in await self.ledger.in_thread(thread_id, "started"))

    async def _settle(self, account: Account, lease: Lease) -> int:
        started = await self.ledger.in_thread(lease.thread_id, "started")
        tolerated = (GoogleError, VaultError, NotYetClear, InDoubt)
        await self.settler.settle_all(started, account, lease, tolerated)
        left = [len(await self.ledger.in_thread(lease.thread_id, state)) for state in ("started", "unknown")]
        return sum(left)
