"""Collects what the gate judges the calls of a run by: the person's words, their records, what others wrote, and what
was read so far.

Texts are indexed here and not in the database, where an index would go stale when the rules of indexing change.
"""

import asyncio
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from typing import Any, Final
from uuid import UUID
from zoneinfo import ZoneInfo

from langchain_core.messages import ToolCall

from email_assistant.accounts.account import Account
from email_assistant.accounts.accounts import Accounts
from email_assistant.agents.mail.own_letters import shown_in
from email_assistant.db.lease import Lease
from email_assistant.db.pool import Pool, fetched
from email_assistant.db.statements import statements
from email_assistant.db.values import time_in_json
from email_assistant.gate import answers, provenance
from email_assistant.gate.answers import Indexed
from email_assistant.gate.call import PROSE
from email_assistant.gate.doubt import Doubt
from email_assistant.gate.doubts import doubts, lacking
from email_assistant.gate.ledger import OWN_LETTERS, entry_in
from email_assistant.gate.policy import GateEntry, GateSession
from email_assistant.gate.provenance import Source, sources_of, spans
from email_assistant.gate.spoken import Spoken
from email_assistant.inbox.items import TOGETHER
from email_assistant.inbox.kept import args_in, decision_in
from email_assistant.inbox.recipients import Recipients, addresses_in
from email_assistant.mail.characters import clean
from email_assistant.mail.charset import cut, one_line
from email_assistant.mail.diff import compare
from email_assistant.mail.excerpt import looked_through
from email_assistant.mail.history import written
from email_assistant.mail.message import Mail
from email_assistant.memory.profiles import Memory
from email_assistant.memory.rules import Rule, is_by_hand
from email_assistant.settings.values import WorkingHours
from email_assistant.tools.config import SEARCH_MAIL
from email_assistant.tools.times import time_warnings, times_of
from email_assistant.trail.chat_tools import mails_in
from email_assistant.work.conversations import Conversations, StoredMail, read_mails

_ADDRESS: Final = re.compile(r"[\w.+-]{1,64}@[\w-]+(?:\.[\w-]+)+")
_ANSWERS: Final = 100  # of a conversation's calls, the newest, whose answers are sources
_NAME: Final = 60  # characters of what somebody calls themselves
_MOST_MAILS: Final = 50  # of a conversation, the newest, that are sources; the one that is answered is one as well
_MOST_SENT: Final = 100  # letters to anybody, the newest, in which the person has said what is so
_FREE: Final = re.compile(r"^(?:\w+ \d\d-\d\d-\d{4} \(.*\)|Free: .*)$", re.MULTILINE)
"""The lines of `check_calendar_tool` that nobody who invites has written."""
_SQL = statements("work", "evidence.sql")
_CALLED: Final = {
    "check_calendar_tool": "your calendar",
    "list_calendars": "your calendar",
    "list_events": "your calendar",
    "schedule_meeting_tool": "your calendar",
    "create_event": "your calendar",
    "update_event": "your calendar",
    "search_mail": "mail that was looked up",
    SEARCH_MAIL: "mail that was looked up",
    "get_thread": "mail that was looked up",
    "find_mail": "mail that was looked up",
    "explain_mail": "mail that was looked up",
    "send_email_tool": "a mail that was sent",
    "list_waiting": "your inbox",
}
"""What the person knows the answers of our own tools as."""

_KEPT: Final = 32  # indexes of each kind: most take kilobytes, those of the longest texts three megabytes

_read = lru_cache(maxsize=_KEPT)(provenance.read)
_answer = lru_cache(maxsize=_KEPT)(answers.answer)


@dataclass(frozen=True)
class Evidence:
    pool: Pool
    accounts: Accounts
    recipients: Recipients
    memory: Memory
    hours: WorkingHours
    conversations: Conversations | None
    """Of conversations by mail; None: of chats."""

    async def doubts_about(self, question: Mapping[str, Any], account: Account, session: GateSession) -> list[Doubt]:
        """What a person must see of what a call says, before they decide it."""
        if question["kind"] not in TOGETHER:
            return []
        args, now = question["args"], datetime.now(account.zone)
        to = [each for each in addresses_in(args) if each not in account.own_addresses]
        of_time = [Doubt.time(times_of(args), each) for each in time_warnings(args, account.zone, self.hours, now)]
        return of_time + await asyncio.to_thread(doubts, args, to, session.texts, now.date(), session.sent)

    async def session(self, run: Mapping[str, Any], calls: Sequence[ToolCall], lease: Lease) -> GateSession:
        """What holds when these calls are judged, by whoever holds the lease."""
        given = [call["args"] for call in calls]
        if self.conversations is None:
            return await self.of(run, given)
        at = self.conversations.under(lease)
        session = await self.of(run, given, await self.conversations.letters(at))
        at.judged.update({str(call["id"]): session for call in calls})
        return session

    async def of(
        self, run: Mapping[str, Any], calls: Sequence[Mapping[str, Any]], letters: Sequence[StoredMail] | None = None
    ) -> GateSession:
        """What holds for calls with these arguments. `letters`: the conversation's; None: those that a chat's calls
        name."""
        account = await self.accounts.get(UUID(run["account_id"]))
        began = letters is not None
        if letters is None:
            letters = await self._named(account, [str(args["email_id"]) for args in calls if args.get("email_id")])
        [row] = await fetched(self.pool, _SQL["of_run"], {"run": run["id"], "answers": _ANSWERS})
        named = _addresses([*calls, {"to": run.get("reply", {}).get("to")}])
        if began:  # a stranger's mail has nothing written to those who have no part in it, whoever they are
            named = [each for each in named if each in {person for letter in letters for person in _people(letter)}]
        else:
            named += [each.lower() for call in row["calls"] for each in _ADDRESS.findall(call["answer"] or "")]
        known = await self.recipients.written_to(account, list(dict.fromkeys(named)))
        rules = [rule for of in (await self.memory.in_force(account.id)).values() for rule in of]
        found = await self._found(account, row["calls"])
        session = await asyncio.to_thread(_session, account, run, row, letters, found, known, rules, began=began)
        return await self._with_sent(account, calls, session)

    async def _named(self, account: Account, gmail_ids: Sequence[str]) -> Sequence[StoredMail]:
        if not gmail_ids:
            return ()
        rows = await fetched(self.pool, _SQL["around"], (account.id, account.id, list(gmail_ids)))
        return await asyncio.to_thread(read_mails, rows)

    async def _found(self, account: Account, calls: Sequence[Mapping[str, Any]]) -> Sequence[StoredMail]:
        """The mails that searches told of."""
        told = [call["answer"] for call in calls if call["tool"] == SEARCH_MAIL and call["server"] is None]
        if not (ids := [each for answer in filter(None, told) for each in mails_in(answer)]):
            return ()
        return await asyncio.to_thread(read_mails, await fetched(self.pool, _SQL["found"], (account.id, ids)))

    async def _with_sent(
        self, account: Account, calls: Sequence[Mapping[str, Any]], session: GateSession
    ) -> GateSession:
        """The same, with what the person wrote to anybody if a call says what has no other source."""
        if not await asyncio.to_thread(lambda: any(lacking(args, session.texts, session.day) for args in calls)):
            return session
        rows = await fetched(self.pool, _SQL["sent"], (account.id, _MOST_SENT))
        sent = await asyncio.to_thread(lambda: [_sent(account, letter) for letter in read_mails(rows)])
        return replace(session, sent=sent)


def outsiders(args: Mapping[str, Any], letters: Sequence[StoredMail], session: GateSession) -> list[str]:
    """Whom a call reaches that answers these letters, though they have no part in them and the person has not named
    them."""
    part_of = {person for letter in letters for person in _people(letter)}
    said, spoken = [source for source in session.sources if source.by in ("person", "own")], Spoken.of(session.sources)
    return [
        each
        for each in addresses_in(args)
        if each not in part_of and not sources_of(each, said) and not spoken.means_any(each.partition("@")[0])
    ]


def _session(
    account: Account,
    run: Mapping[str, Any],
    row: Mapping[str, Any],
    letters: Sequence[StoredMail],
    found: Sequence[StoredMail],
    written: Sequence[str],
    rules: Sequence[Rule],
    *,
    began: bool,
) -> GateSession:
    """`began`: it began with the letters; `found`: those that were looked up."""
    wrote = frozenset(letter.mail.sender.email.lower() for letter in letters if not letter.own and letter.mail.sender)
    shown = [each for each in letters[:-_MOST_MAILS] if each.gmail_id == run.get("mail")] + [*letters[-_MOST_MAILS:]]
    mails = [source for letter in shown for source in _mail(account, letter)]
    told = [(call, entry_in(call)) for call in row["calls"]]
    return GateSession(
        sources=[
            *_words(row),
            *_records(account, run, written, rules, letters),
            *mails,
            *_gone_out(account, row["done"]),
            *_free(account, row["calls"]),
            *_examples(account, row["calls"]),
            *_in_other_matters(account, found),
        ],
        answers=[_told(account, call, entry) for call, entry in told if call["answer"] and not _is_example(call)],
        calls=[entry for _, entry in told],
        thread=wrote if began else None,
        answered=wrote,
        own=account.own_addresses,
        day=datetime.now(account.zone).date(),
    )


def _words(row: Mapping[str, Any]) -> Iterator[Source]:
    """The person's own: what they asked for and answered, and what an edit put in."""
    for request in filter(None, row["requests"]):
        yield _read(request, label="your request", by="person")
    for said in row["said"]:
        decision = decision_in(said["decision"])
        if decision is None:
            continue
        texts = (
            [decision["args"]] if decision["type"] == "response" else _put_in(args_in(said["args"]), decision["args"])
        )
        for text in texts:
            yield _read(text, label="your answer", by="person")


def _put_in(proposed: Mapping[str, Any], final: Mapping[str, Any]) -> Iterator[str]:
    """What an edit changed: of a text the words that it put in."""
    for name, value in final.items():
        before = proposed.get(name)
        if value == before or value is None:
            continue
        if isinstance(value, str) and isinstance(before, str) and PROSE.fullmatch(name):
            yield "\n".join(piece.text for piece in compare(before, value) if piece.kind == "new")
        elif isinstance(value, list):
            yield "\n".join(str(each) for each in value if not (isinstance(before, list) and each in before))
        else:
            yield str(value)


def _records(
    account: Account,
    run: Mapping[str, Any],
    written: Sequence[str],
    rules: Sequence[Rule],
    letters: Sequence[StoredMail],
) -> Iterator[Source]:
    """The person's own, and what was learned from them, which vouches for nobody."""
    own = [f"{each.name} <{each.address}>\n{each.signature}" for each in account.identities]
    yield _read("\n".join([*own, account.background]), label="your account", by="own")
    yield _read("\n".join(written), label="whom you have written to", by="own")
    # Which of their mails is answered says nothing of whom that reaches.
    ids = [*run.get("mails", ()), run.get("thread"), run.get("invitation"), *(letter.gmail_id for letter in letters)]
    yield _read("\n".join(filter(None, ids)), label="this conversation", by="own")
    for rule in rules:
        by_hand = is_by_hand(rule.origin)
        yield _read(rule.text, label="a rule of yours", by="own" if by_hand else "stranger")


def _mail(account: Account, letter: StoredMail) -> Iterator[Source]:
    mail = letter.mail
    writer = mail.sender.email.lower() if mail.sender else ""
    readers = (
        frozenset(each.email.lower() for each in (*mail.to, *mail.cc, *mail.bcc)) | account.own_addresses | {writer}
    )
    label = _called(mail, account.zone, own=letter.own)
    said = {"label": label, "writer": writer, "readers": readers, "day": _day(mail.date, account.zone)}
    if letter.own:  # what it quotes is not theirs
        theirs = [*map(str, (*mail.to, *mail.cc, *mail.bcc)), mail.subject, written(looked_through(mail.text))]
        yield _read("\n".join(theirs), by="own", **said)
    yield _read("\n".join(_parts(mail, account.zone)), by="stranger", **said)


def _sent(account: Account, letter: StoredMail) -> Source:
    mail = letter.mail
    label, day = _called(mail, account.zone, own=True), _day(mail.date, account.zone)
    return _read(written(looked_through(mail.text)), label=label, by="own", day=day)


def _gone_out(account: Account, done: Sequence[Mapping[str, Any]]) -> Iterator[Source]:
    """What was said by letters and invitations of this conversation that the person has approved: it may be in no mail
    yet that was read back."""
    for effect in done:
        args, day = args_in(effect["args"]), _day(time_in_json(effect["at"]), account.zone)
        text = "\n".join(value for name, value in args.items() if isinstance(value, str) and PROSE.fullmatch(name))
        readers = frozenset(addresses_in(args)) | account.own_addresses
        yield _read(text, label="what you sent", by="own", writer=account.address, readers=readers, day=day)


def _parts(mail: Mail, zone: ZoneInfo) -> Iterator[str]:
    yield from map(str, filter(None, (mail.sender, *mail.reply_to, *mail.to, *mail.cc)))
    yield mail.subject
    yield from (attachment.name for attachment in mail.attachments)
    if mail.event:
        yield from (f"{at.astimezone(zone):%Y-%m-%d %H:%M}" for at in (mail.event.start, mail.event.end) if at)
    yield looked_through(mail.text)
    if looked_through(mail.text) != mail.text:  # the end of what is new in it stands above what it quotes
        yield looked_through(clean(mail.body))


def _called(mail: Mail, zone: ZoneInfo, *, own: bool) -> str:
    name = cut(one_line(mail.sender.name), _NAME) or mail.sender.email if mail.sender else "somebody"
    who = "your" if own else f"{name}'s"
    return f"{who} mail" + (f" of {mail.date.astimezone(zone):%-d %B %Y}" if mail.date else "")


def _told(account: Account, call: Mapping[str, Any], entry: GateEntry) -> Indexed:
    """What a call told is known to the person alone, unless it was read where anybody may."""
    is_private = entry.labels is None or entry.labels.read_private_data
    readers = account.own_addresses if is_private else None
    at = time_in_json(call["at"])
    told = _answer(
        call["answer"],
        f"an answer of {entry.server}" if entry.server else _CALLED.get(entry.tool, "an earlier answer"),
        entry.labels,
        readers=readers,
        day=_day(at, account.zone),
    )
    is_listing = entry.tool == "list_events" and entry.server is None
    return replace(told, things=tuple(answers.events(call["answer"]))) if is_listing else told


def _free(account: Account, calls: Sequence[Mapping[str, Any]]) -> Iterator[Source]:
    """What our own look into the calendar says of free time is the person's own."""
    for call in calls:
        if call["tool"] == "check_calendar_tool" and call["server"] is None and call["answer"]:
            day = _day(time_in_json(call["at"]), account.zone)
            yield _read("\n".join(_FREE.findall(call["answer"])), label="your calendar", by="own", day=day)


def _examples(account: Account, calls: Sequence[Mapping[str, Any]]) -> Iterator[Source]:
    """The person's own letters that a draft's writer was shown, each with who got it."""
    for call in calls:
        for letter in shown_in(call["answer"]) if _is_example(call) and call["answer"] else ():
            readers = letter.readers | account.own_addresses
            said = {"label": letter.label, "writer": account.address, "readers": readers, "day": letter.day}
            yield _read(letter.text, by="example", **said)


def _in_other_matters(account: Account, found: Sequence[StoredMail]) -> Iterator[Source]:
    """Mails of other conversations: what stands there names nobody whom this one may reach."""
    for source in (source for letter in found for source in _mail(account, letter)):
        yield replace(source, by="example") if source.by == "own" else source


def _is_example(call: Mapping[str, Any]) -> bool:
    return call["tool"] == OWN_LETTERS.tool and call["server"] is None


def _addresses(calls: Sequence[Mapping[str, Any]]) -> list[str]:
    return [span.key for call in calls for span in spans(str(call)) if span.kind == "address"]


def _people(letter: StoredMail) -> Iterator[str]:
    mail = letter.mail
    for each in (*([mail.sender] if mail.sender else []), *mail.reply_to, *mail.to, *mail.cc, *mail.bcc):
        yield each.email.lower()


def _day(at: datetime | None, zone: ZoneInfo) -> Any:
    return at.astimezone(zone).date() if at else None
