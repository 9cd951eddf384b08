"""What the screens show, as styled text."""

from collections.abc import Iterable, Iterator
from zoneinfo import ZoneInfo

from textual.content import Content

from email_assistant.cli.card import NEW, WARNING, Part, line, proposed, title_of
from email_assistant.features.terminal.desk import Row, Sight
from email_assistant.inbox.items import Item
from email_assistant.inbox.sentences import moment
from email_assistant.mail.address import address_of
from email_assistant.mail.charset import plain
from email_assistant.mail.contents import MailContents
from email_assistant.mail.diff import compare
from email_assistant.trail.context import PastMail
from email_assistant.trail.story import Happening
from email_assistant.web import wording
from email_assistant.web.forms import Field
from email_assistant.web.wording import about, waits, who

_AGE_WIDTH = 8
_STYLES = {"same": "", "gone": "$text-error strike", "new": "$text-success bold"}


def row(shown: Row) -> Content:
    """Who wrote, the subject, what it is marked for, what the assistant would do, and how long it waits."""
    item = shown.item
    marks = line(item.at_a_glance)
    return Content.assemble(
        (waits(item.created_at).rjust(_AGE_WIDTH - 2) + "  ", "dim"),
        ("! " if marks else "", WARNING),
        (line(who(item)), "bold"),
        f"  {line(about(item))}\n",
        (" " * _AGE_WIDTH + f"{marks}\n" if marks else "", WARNING),
        (" " * _AGE_WIDTH + line(shown.does), "dim"),
    )


def sight(seen: Sight, does: str) -> Content:
    """What is asked of one item: all that an answer rests on."""
    return Content.assemble(*_head(seen), *_section(title_of(seen.item), proposed(seen.item, seen.form, does)))


def around(seen: Sight) -> Content:
    """Why that is asked, the conversation, and what happened so far."""
    return Content.assemble(
        *_section("Why", _reasons(seen)),
        *_section(
            "What you asked for" if seen.item.chat else "Who asks" if seen.item.is_held else "The conversation",
            _conversation(seen),
        ),
        *_section("What happened", (_event(event, seen) for event in seen.events)),
    )


def difference(before: Field, after: Field, strangers: Iterable[str]) -> Content:
    """What an edit makes of one field; addresses that were never written to are marked."""
    pieces = compare(plain(before.told), plain(after.told))
    new = [written for written in after.parts if after.holds_addresses and address_of(written) in strangers]
    return Content.assemble(
        (f"{before.label}\n", "bold"),
        *((piece.text, _STYLES[piece.kind]) for piece in pieces),
        "\n",
        *((f"{line(written)}{NEW}\n", WARNING) for written in new),
    )


def beside_the_text(mail: MailContents, zone: ZoneInfo) -> str:
    """A mail's invitation in words, and its files with their numbers."""
    lines = [line(mail.invitation.in_words(zone)), ""] if mail.invitation else []
    for file in mail.files:
        lines.append(f"{file.number}  {line(file.safe_name)}  ({line(file.kind)}, {file.told_size})")
    lines.append("\nThe number of a file saves it in the folder you are in." if mail.files else "No files.")
    return "\n".join(lines)


def done(item: Item) -> str:
    """What the person's answer makes of an item."""
    return wording.became(item)


def became(item: Item) -> str:
    """What was made of an item that doesn't wait any more; empty while it waits."""
    match item.status:
        case "decided" | "applied":
            decision = item.decision or {}
            at = f"{item.decided_at:%Y-%m-%d %H:%M:%S %Z}"
            said = f": {line(decision['args'])}" if decision.get("type") == "response" else ""
            then = f"; it {item.state}" if item.status == "decided" else ""
            if item.overwritten:
                then = f". What you wrote into its draft in Gmail was not sent: {line(item.overwritten)}"
            return f"You have answered: {done(item).lower()}, {item.answered_where} at {at}{said}{then}"
        case "superseded":
            because = line(item.ended_because or "the conversation went on")
            return f"Set aside: {because}, and nothing of this was done here."
        case "expired":
            why = item.ended_because if item.is_held else "it can no longer be answered"
            return f"Too late: {why}, and nothing of it was done here."
        case "pending":
            return ""


def _head(seen: Sight) -> Iterator[Part]:
    item = seen.item
    yield line(about(item)), "bold"
    since = moment(item.created_at, seen.zone)
    account = f" {'about' if item.chat else 'to'} {item.account}," if item.account else ""
    yield f"\n{line(who(item))},{account} waits since {since}\n", "dim"
    if end := became(item):
        yield f"\n{end}\n", WARNING
    for note in item.notes:
        yield f"\n{note}.\n", WARNING
    if item.shadow and not end:
        yield "\nShadow mode: this is what would have been done; nothing is sent.\n", WARNING


def _section(title: str, lines: Iterable[Part]) -> Iterator[Part]:
    yield f"\n{title}\n", "bold underline"
    yield from lines


def _reasons(seen: Sight) -> Iterator[Part]:
    triage = seen.context.triage
    if seen.item.chat:
        yield "You asked for it in a chat.\n"
    elif seen.item.is_held:
        yield "An agent of yours asks before it calls this tool.\n"
    elif triage is None:
        yield "The mail was not triaged.\n"
    else:
        yield f"{wording.CLASSES[triage.classification]} {line(triage.reason or '')}".rstrip() + "\n"
    for before in seen.context.before:
        at = moment(before.decided_at, seen.zone)
        did = wording.did(before.kind, before.decision).lower()
        yield f"Before: {did}: {line(before.subject or '(no subject)')}, {at}\n", "dim"


def _conversation(seen: Sight) -> Iterator[Part]:
    for letter in seen.context.conversation:
        yield from _letter(letter, seen)
    if not seen.context.conversation:
        yield f"{plain(seen.item.mail_text)}\n"


def _letter(letter: PastMail, seen: Sight) -> Iterator[Part]:
    who = f"{line(letter.name)} <{line(letter.sender)}>" if letter.name else line(letter.sender)
    yield f"{who} to {line(', '.join(letter.recipients) or 'nobody')}\n", "bold"
    yield f"{moment(letter.received_at, seen.zone)}\n", "dim"
    yield f"{plain(letter.text)}{' […]' if letter.cut else ''}\n"
    if letter.attachments:
        yield f"Attached: {', '.join(line(name or '(no name)') for name in letter.attachments)}\n", "dim"
    yield "\n"


def _event(event: Happening, seen: Sight) -> Part:
    at = moment(event.at, seen.zone) if event.at else "-"
    return f"{at}  {line(event.text)}{f' ({line(event.by)})' if event.by else ''}\n"
