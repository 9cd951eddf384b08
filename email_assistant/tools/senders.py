"""Which of the person's addresses a letter goes from, and whom an answer goes to. Every letter asks here."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from email_assistant.accounts.account import Account, Identity
from email_assistant.google.gmail import Gmail
from email_assistant.mail.address import Address, address_of, is_recipient, is_valid_address, split_recipients
from email_assistant.mail.message import Mail, reply_addresses
from email_assistant.tools.spec import ToolError

MOST_NAMED = 500  # people of a mail who are known by name; Gmail sends to no more at once


class AliasGone(ToolError):
    """What a letter was to go from is no address of the person's any more."""

    def __init__(self, address: str) -> None:
        super().__init__(f"not sent: {address} is no longer an address that Gmail lets you send from")
        self.address = address


def answers_as(account: Account, mail: Mail) -> Identity:
    """What an answer goes from: the address that the mail came to, by To, Cc and Delivered-To, in this order; to the
    person's own mail, what that went from.

    Where it names none of theirs, it is the address that they write new mail from."""
    return identity_of(account, addressed_to(account, mail))


def addressed_to(account: Account, mail: Mail) -> list[str]:
    """The person's own addresses that a mail names, the one to answer from first."""
    named = [*(person.email for person in (*mail.to, *mail.cc)), *mail.delivered_to]
    named += [mail.sender.email] if mail.sender else []
    known = [account.identity(email) for email in named]
    return list(dict.fromkeys(identity.address for identity in known if identity))


def identity_of(account: Account, addressed: Sequence[str]) -> Identity:
    """What an answer goes from to a mail that came to these of the person's addresses, as far as they still are."""
    known = (account.identity(address) for address in addressed)
    return next((identity for identity in known if identity), account.new_mail_identity)


def argument_of(account: Account, identity: Identity) -> dict[str, str]:
    """How a call's arguments hold what it goes from: not at all where that is the account's own address."""
    return {} if identity.address == account.address else {"from_address": identity.address}


def check_unchanged(account: Account, given: str | None, identity: Identity) -> None:
    """Nobody but us chooses what a letter goes from; what is no address of the person's any more gives way. Raises
    ToolError."""
    if given and account.identity(given) not in (None, identity):
        raise ToolError(f"from_address: this goes from {identity.address}; leave {given} out")


async def permitted(gmail: Gmail, account: Account, address: str | None) -> Identity:
    """What a letter goes from, as it was proposed, if Gmail still lets it; None is the account's own address.

    Gmail is asked, since it sends a mail from what is no alias any more all the same: from the account's own address.

    Raises:
        AliasGone: it does not.
        GoogleError: it can't be asked.
    """
    if address is None or address.lower() == account.address:
        return account.identities[0]
    identity = next((each for each in account.identities if each.address == address.lower()), None)
    if identity and any(s.verified and s.address.lower() == identity.address for s in await gmail.send_as()):
        return identity
    raise AliasGone(address)


def answered_at(account: Account, mail: Mail, *, own: bool) -> list[str]:
    """Where an answer goes: to all that the mail asks for; to its recipients, if the person wrote it."""
    addresses = _usable(mail.to if own else reply_addresses(mail))
    return [address for address in addresses if not account.is_own(address)] or addresses


def everybody(account: Account, mail: Mail, *, own: bool) -> list[str]:
    """Whom a reply to all reaches: where an answer goes, and all others in To and Cc but the person."""
    others = [address for address in _usable((*mail.to, *mail.cc)) if not account.is_own(address)]
    return list({address.lower(): address for address in (*answered_at(account, mail, own=own), *others)}.values())


def without_oneself(account: Account, recipients: Iterable[str], addressed: Sequence[str]) -> list[str]:
    """Who gets a copy of an answer to a mail that came to these addresses of the person's: not those, since nobody
    answers themselves. Another of their own that somebody put there stays."""
    own = {recipient: account.identity(address_of(recipient)) for recipient in recipients}
    return [recipient for recipient, identity in own.items() if identity is None or identity.address not in addressed]


def recipients(to: str, copies: Iterable[str]) -> tuple[str, list[str]]:
    """Whom a letter goes to, and who gets a copy: each once by address, where it stands first. Of several in `to` the
    first is written to, and the others get a copy.

    Raises:
        ToolError: one is no e-mail address.
    """
    written = [to, *copies]
    named = [
        entry for each in written for entry in ([each] if is_recipient(each) else split_recipients(each) or [each])
    ]
    if wrong := [entry for entry in named if not is_recipient(entry)]:
        raise ToolError(f"not an e-mail address: {', '.join(wrong)}")
    each_once: dict[str, str] = {}
    for entry in named:
        each_once.setdefault(address_of(entry), entry)
    first, *others = each_once.values()
    return first, others


def check_not_oneself_alone(account: Account, recipients: Iterable[str]) -> None:
    """Raises ToolError: an answer would reach nobody but the person."""
    if all(account.is_own(address_of(each)) for each in recipients):
        raise ToolError("email_address: that is the person you work for; an answer goes to somebody else")


def left_out(everyone: Iterable[str], more: int, arguments: Mapping[str, Any]) -> list[str]:
    """Who of a reply to all gets nothing by a call's arguments.

    Args:
        more: people whom `everyone` leaves out in its turn.
    """
    copies = arguments.get("additional_recipients") or ()
    reached = {address_of(str(recipient)) for recipient in (arguments.get("email_address"), *copies)}
    named = [address for address in everyone if address.lower() not in reached]
    return [*named, *([f"and {more} more"] if more else [])]


def _usable(people: Iterable[Address]) -> list[str]:
    found = {person.email.lower(): person.email for person in people if is_valid_address(person.email)}
    return list(found.values())
