"""Mail and proposals as text on the screen. None of it is ever read as markup, and no control character is left."""

from collections.abc import Iterable, Iterator
from zoneinfo import ZoneInfo

from textual.content import Content

from email_assistant.cli.screen.desk import Row, Sight
from email_assistant.inbox.describe import HERE, in_gmail, remarks, said_of
from email_assistant.inbox.items import Item
from email_assistant.inbox.marks import Mark
from email_assistant.inbox.sentences import moment
from email_assistant.mail.address import address_of
from email_assistant.mail.charset import one_line, plain
from email_assistant.mail.compose import reply_subject
from email_assistant.mail.contents import MailContents
from email_assistant.mail.diff import compare
from email_assistant.trail.context import PastMail
from email_assistant.trail.story import Happening
from email_assistant.web import wording
from email_assistant.web.forms import Field, ProposalForm
from email_assistant.web.wording import about, waits, who

NEW = " (new recipient: never written to before)"
_AGE_WIDTH = 8
_WARNING = "$text-warning bold"
_STYLES = {"same": "", "gone": "$text-error strike", "new": "$text-success bold"}

Part = str | tuple[str, str] | Content


def line(text: object) -> str:
    """Text of a mail, on one line."""
    return one_line(plain(text))


def row(shown: Row) -> Content:
    """Who wrote, the subject, what it is marked for, what the assistant would do, and how long it waits."""
    item = shown.item
    marks = line(item.at_a_glance)
    return Content.assemble(
        (waits(item.created_at).rjust(_AGE_WIDTH - 2) + "  ", "dim"),
        ("! " if marks else "", _WARNING),
        (line(who(item)), "bold"),
        f"  {line(about(item))}\n",
        (" " * _AGE_WIDTH + f"{marks}\n" if marks else "", _WARNING),
        (" " * _AGE_WIDTH + line(shown.does), "dim"),
    )


def sight(seen: Sight, does: str) -> Content:
    """What is asked of one item: all that an answer rests on."""
    return Content.assemble(*_head(seen), *_section(title_of(seen.item), _proposal(seen.item, seen.form, does)))


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


def title_of(item: Item) -> str:
    """What stands above its proposal."""
    return "What an agent of yours would do" if item.is_held else "What the assistant proposes"


def proposal(item: Item, form: ProposalForm, does: str) -> str:
    """What is asked, as plain text."""
    return Content.assemble(*_proposal(item, form, does)).plain


def difference(before: Field, after: Field, strangers: Iterable[str]) -> Content:
    """What an edit makes of one field; addresses that were never written to are marked."""
    pieces = compare(plain(before.told), plain(after.told))
    new = [written for written in after.parts if after.holds_addresses and address_of(written) in strangers]
    return Content.assemble(
        (f"{before.label}\n", "bold"),
        *((piece.text, _STYLES[piece.kind]) for piece in pieces),
        "\n",
        *((f"{line(written)}{NEW}\n", "$text-warning bold") for written in new),
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
            return f"You have answered: {done(item).lower()}, by {item.decided_by} at {at}{said}{then}"
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
        yield f"\n{end}\n", "$text-warning bold"
    for note in item.notes:
        yield f"\n{note}.\n", "$text-warning bold"
    if item.shadow and not end:
        yield "\nShadow mode: this is what would have been done; nothing is sent.\n", "$text-warning bold"


def _section(title: str, lines: Iterable[Part]) -> Iterator[Part]:
    yield f"\n{title}\n", "bold underline"
    yield from lines


def _proposal(item: Item, form: ProposalForm, does: str) -> Iterator[Part]:
    for each in item.newer:
        yield f"Also in this conversation: {line(said_of(each))}\n", "$text-warning bold"
    shown = [field for field in form.fields if field.kind != "hidden" and field.parts]
    if item.kind != "draft" or not shown:
        yield f"{line(does)}\n"
    if item.kind == "link":
        yield f"Open this yourself: {line(item.args.get('url', ''))}\n"
        return
    if item.asked_because:
        yield f"You are asked again: {line(item.asked_because)}\n", "$text-warning bold"
    if item.in_gmail and item.in_gmail.text:
        yield f"\n{in_gmail(item.in_gmail)}\n", _WARNING
        yield f"{plain(item.in_gmail.text)}\n\n"
        yield f"{HERE}\n", _WARNING
    if item.sent_from:
        yield "From: ", "dim"
        yield f"{line(item.sent_from)}\n"
    for field in (each for each in shown if each.kind != "text"):
        yield f"{field.label}: ", "dim"
        yield from _value(field, item)
        yield "\n"
    for warning in item.warnings:
        yield f"! {line(warning)}\n", _WARNING
    for remark, warns in remarks(item):
        yield f"{'! ' * warns}{line(remark)}\n", _WARNING if warns else "dim"
    if item.kind == "draft" and item.mail_id:
        yield "Subject: ", "dim"
        yield f"{line(reply_subject(item.subject or ''))}\n"
    for field in (each for each in shown if each.kind == "text"):
        yield f"\n{plain(field.value)}\n"


def _value(field: Field, item: Item) -> Iterator[Part]:
    if field.kind == "json":
        yield plain(field.value)
        return
    if field.kind == "time":
        yield line(field.told)
        return
    for number, part in enumerate(field.parts):
        yield ", " * bool(number) + line(part)
        if field.holds_addresses and Mark.new(address_of(part)) in item.marks:
            yield NEW, _WARNING


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
