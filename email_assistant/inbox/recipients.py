"""Whom an account has written to before, and what is remarkable about those whom a call would reach.

Known is whom the account has written to, or whom the person typed. Whoever merely wrote to us, or was put into a mail
by somebody else, is new. The table `asked_recipients` is used here only.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from pydantic import TypeAdapter

from email_assistant.accounts.account import Account, UnknownAccount
from email_assistant.accounts.clients import Clients
from email_assistant.accounts.vault import VaultError
from email_assistant.db.pool import Connection, Pool, fetched
from email_assistant.db.statements import statements
from email_assistant.google.errors import GoogleError, NotFound
from email_assistant.google.gmail import Gmail
from email_assistant.inbox.marks import Mark, MarkKind
from email_assistant.mail.address import Address, address_of, is_valid_address, parse_addresses
from email_assistant.mail.characters import People, address_inside, borrowed_name, name_key, resemblance
from email_assistant.mail.message import Mail

NEW: tuple[MarkKind, ...] = ("new_recipient", "unknown_recipient")

_MOST_ASKED = 5
"""Addresses of one item that Gmail is asked about: each costs 5 units, and 20 more if it finds something."""
_MOST_NAMES = 50
_ONE_WORD = re.compile(r"[a-z0-9][a-z0-9._+-]*@[a-z0-9.-]+")
"""An address in which Gmail's search can take nothing for an operator; others are quoted (none has a quote in it)."""
_MAIL = TypeAdapter(Mail)
_SQL = statements("inbox", "recipients.sql")


@dataclass(frozen=True, slots=True)
class RecipientMarks:
    """What is to be said of those whom a call would reach."""

    marks: list[Mark] = field(default_factory=list)
    first_answer: str | None = None
    """The From that is answered, if the mail that is stored knows of no mail to it."""

    @property
    def new_recipients(self) -> list[str]:
        return [mark.address for mark in self.marks if mark.kind in NEW]


def addresses_in(args: Mapping[str, Any]) -> list[str]:
    """The e-mail addresses that a call would reach, in lower case, each once. The database has this function too."""
    return list(dict.fromkeys(map(address_of, _recipients_in(args))))


def _recipients_in(args: Mapping[str, Any]) -> list[str]:
    """As they are written, with the names that stand before them."""
    lists = [each for name in ("additional_recipients", "attendees") if isinstance(each := args.get(name), list)]
    found = [args.get("email_address"), *(recipient for each in lists for recipient in each)]
    return [each for each in found if isinstance(each, str)]


class Recipients:
    def __init__(self, pool: Pool, clients: Clients) -> None:
        self._pool = pool
        self._clients = clients

    async def judge(
        self,
        account: Account,
        args: Mapping[str, Any],
        answered: Mail | None,
        around: Iterable[Mail] = (),
        outside: Collection[str] = (),
    ) -> RecipientMarks:
        """
        Args:
            answered: the mail that the call answers.
            around: the mails of its conversation.
            outside: those who have no part in that, and whom the person has not named.
        """
        reached = addresses_in(args)
        # A notice, or a question, reaches nobody: then it is whom it comes from that may not be who they seem.
        looked_at = reached or ([answered.sender.email.lower()] if answered and answered.sender else [])
        others = [each for each in looked_at if each not in account.own_addresses]
        if not others:
            return RecipientMarks()
        mails = [*around, *([answered] if answered else [])]
        called = [each for written in _recipients_in(args) for each in parse_addresses(written)]
        called += [each for mail in mails for each in _people_in(mail)]
        unwritten = await self._unwritten(account.id, others)
        alike = await self._resembling(account, list(unwritten), called)
        first = _only_from(answered)
        # The From that is answered bears no mark for being new. So Gmail is asked about it only where a likeness is
        # to be ruled out: the usual answer costs no units here.
        to_ask = {
            each: said for each, said in unwritten.items() if each in alike or (each in reached and each != first)
        }
        asked = await self._ask(account, to_ask)
        marks: list[Mark] = []
        for address in others:
            names = _names_of(address, called)
            new = address in unwritten and not asked.get(address)
            seems = address_inside(address, names)
            seems = seems or (alike.get(address) if new else await self._borrowed(account, address, names))
            if seems:
                marks.append(Mark.lookalike(address, seems))
            if new and address in reached and address != first:
                marks.append(Mark.unknown(address) if asked[address] is None else Mark.new(address))
            elif address in outside:
                marks.append(Mark.outside(address))
        is_first = first in reached and first in unwritten and not asked.get(first)
        return RecipientMarks(marks, first if is_first else None)

    async def strangers(self, account: Account, addresses: Sequence[str]) -> list[str]:
        """Those of the addresses that an edit adds and that are new: nothing stored knows them, and they were not typed
        but stood in some proposal before."""
        others = [each.lower() for each in addresses if each.lower() not in account.own_addresses]
        unwritten = list(await self._unwritten(account.id, others))
        async with self._pool.connection() as conn:
            typed = await unproposed(conn, account.id, unwritten)
        return [each for each in unwritten if each not in typed]

    async def written_to(self, account: Account, addresses: Sequence[str]) -> list[str]:
        """Those of the addresses, in lower case, that are known to have been written to, without asking Gmail."""
        unwritten = await self._unwritten(account.id, addresses)
        return [each for each in addresses if unwritten.get(each, True)]

    async def stored_mail(self, account_id: UUID, gmail_id: object) -> Mail | None:
        query = "select content from mails where account_id = %s and gmail_id = %s and not own and readable"
        rows = await fetched(self._pool, query, (account_id, str(gmail_id)))
        return _MAIL.validate_python(rows[0]["content"]) if rows else None

    async def _unwritten(self, account_id: UUID, addresses: Sequence[str]) -> dict[str, bool | None]:
        """Those that nothing stored knows, and what Gmail has said of each: False, or None if it was not asked. A *no*
        is good until something is sent to them: that is stored here, and comes first."""
        if not addresses:
            return {}
        rows = await fetched(self._pool, _SQL["written_to"], {"account": account_id, "addresses": list(addresses)})
        return {row["address"]: row["written"] for row in rows if not row["written"]}

    async def _people(self, account: Account) -> People:
        known = await fetched(self._pool, _SQL["people"], {"account": account.id})
        own = [(each, account.name) for each in account.own_addresses]
        return People(account.own_addresses, [*own, *((row["address"], row["name"] or "") for row in known)])

    async def _resembling(
        self, account: Account, addresses: Sequence[str], called: Iterable[Address]
    ) -> dict[str, str]:
        """Whom those of the addresses pass for that pass for somebody, though they were never written to.

        Args:
            called: what names the mail and the call give them.
        """
        if not addresses:
            return {}
        given = {"account": account.id, "addresses": list(addresses), "most": _MOST_NAMES}
        before = await fetched(self._pool, _SQL["called"], given)
        people = await self._people(account)
        theirs = [*called, *(Address(row["name"] or "", row["address"]) for row in before)]
        found = {
            address: address_inside(address, _names_of(address, called))
            or resemblance(address, _names_of(address, theirs), people)
            for address in addresses
        }
        return {address: why for address, why in found.items() if why}

    async def _borrowed(self, account: Account, address: str, names: Iterable[str]) -> str | None:
        """Whose name somebody bears now who was written to, and was so under another name, or before they bore it."""
        rows = await fetched(self._pool, _SQL["between"], {"account": account.id, "address": address})
        passed = [(row["own"], row["name"] or "") for row in rows]
        odd = [name for name in names if name_key(name) and not _is_accepted(name, passed)]
        people = await self._people(account) if odd else None
        return next((why for name in odd if people and (why := borrowed_name(address, name, people))), None)

    async def _ask(self, account: Account, said: Mapping[str, bool | None]) -> dict[str, bool | None]:
        """Whether they were ever written to, by Gmail's own search where that was not asked before; None: not known."""
        answers = dict(said)
        to_ask = [address for address, known in said.items() if known is None]
        for address in (each for each in to_ask if not is_valid_address(each)):
            answers[address] = False  # nobody can have sent to it, and no search may hold it
        for address in [each for each in to_ask if is_valid_address(each)][:_MOST_ASKED]:
            try:
                gmail = (await self._clients.of(account)).gmail
                answers[address] = await _has_written(gmail, address)
            except (GoogleError, VaultError, UnknownAccount):
                break
            await self._keep(account, address, written=bool(answers[address]))
        return answers

    async def _keep(self, account: Account, address: str, *, written: bool) -> None:
        given = {"account": account.id, "address": address, "user": account.user_id, "written": written}
        await fetched(self._pool, _SQL["asked"], given)


async def unproposed(conn: Connection, account_id: UUID, addresses: Sequence[str]) -> list[str]:
    """Those of the addresses that have stood in no proposal so far: who has them in an edit, has typed them."""
    if not addresses:
        return []
    cursor = await conn.execute(
        """select address from unnest(%s::text[]) as given (address) where not exists (
               select from inbox_items where account_id = %s and addresses_in(args) @> array[given.address])""",
        (list(addresses), account_id),
    )
    return [row["address"] for row in await cursor.fetchall()]


async def _has_written(gmail: Gmail, address: str) -> bool:
    """Search sent mail for a valid address. What Gmail finds is looked at: its search takes likenesses for hits."""
    wanted = address if _ONE_WORD.fullmatch(address) else f'"{address}"'
    for ref in (await gmail.list_messages(f"in:sent to:{wanted}", max_results=1)).refs:
        try:
            message = await gmail.message_head(ref.id)
        except NotFound:  # deleted just now
            return False
        from email_assistant.mail.parse import parse_gmail  # whoever only reads items needs none of it

        mail = parse_gmail(message.payload)
        reached = {each.email.lower() for each in (*mail.to, *mail.cc, *mail.bcc)}
        return "SENT" in message.labels and address in reached
    return False


def _only_from(mail: Mail | None) -> str | None:
    """Who is answered, where the mail asks for its answers nowhere else."""
    if mail is None or mail.sender is None:
        return None
    sender = mail.sender.email.lower()
    return sender if all(each.email.lower() == sender for each in mail.reply_to) else None


def _names_of(address: str, called: Iterable[Address]) -> list[str]:
    return list(dict.fromkeys(each.name for each in called if each.email.lower() == address))


def _is_accepted(name: str, passed: Sequence[tuple[bool, str]]) -> bool:
    """Whether the person calls an address so, or it never called itself otherwise and was written to since, as a
    friend's second address. What Gmail alone knows to be written to must only have called itself so always.

    Args:
        passed: what passed between them, oldest first: whether the person wrote it, and the name in it.
    """
    key = name_key(name)
    if any(own and name_key(called) == key for own, called in passed):
        return True
    wrote = [at for at, (own, _) in enumerate(passed) if own]
    theirs = [at for at, (own, _) in enumerate(passed) if not own]
    is_always_so = all(name_key(passed[at][1]) == key for at in theirs)
    return is_always_so and (not wrote or wrote[-1] > min(theirs, default=len(passed)))


def _people_in(mail: Mail) -> list[Address]:
    return [*([mail.sender] if mail.sender else []), *mail.reply_to, *mail.to, *mail.cc]


async def forget(conn: Connection, account_id: UUID, named: str, threads: Sequence[UUID]) -> None:
    """What Gmail said of the people of some conversations, and of those whose address matches a pattern; it is asked
    again."""
    given = {"account": account_id, "named": named, "threads": list(threads)}
    await conn.execute(_SQL["forget"].encode(), given)
