"""An item as text: the mail, what is proposed, and what must be seen with it. Nothing of it is ever read as markup, and
no control character is left."""

from collections.abc import Iterator

from email_assistant.app import App
from email_assistant.inbox.describe import HERE, in_gmail, remarks, words_of_newer
from email_assistant.inbox.items import Item
from email_assistant.inbox.marks import Mark
from email_assistant.inbox.sentences import sentence
from email_assistant.mail.address import address_of
from email_assistant.mail.charset import one_line, plain
from email_assistant.mail.compose import reply_subject
from email_assistant.web.forms import Field, ProposalForm, form_of

NEW = " (new recipient: never written to before)"
WARNING = "$text-warning bold"

Part = str | tuple[str, str]
"""A text, or one with its style in a full screen."""


def whole_of(app: App, item: Item) -> str:
    """The mail and the proposal, in the words of the full screen."""
    form = form_of(app.tools, item)
    parts = proposed(item, form, sentence(item, item.zone))
    text = "".join(part if isinstance(part, str) else part[0] for part in parts).rstrip("\n")
    notes = [f"{note}." for note in item.notes]
    whole = [f"{'! ' * bool(item.marks)}{item.mail_text}", "", f"{title_of(item)}:", text, *notes]
    if item.decision and item.decision["type"] == "edit":
        changed = form.changed(form.filled_with(item.decision["args"]))
        whole += ["", "As you changed it:", *(f"{field.label}: {field.told}" for field in changed)]
    return "\n".join(whole)


def title_of(item: Item) -> str:
    """What stands above its proposal."""
    return "What an agent of yours would do" if item.is_held else "What the assistant proposes"


def proposed(item: Item, form: ProposalForm, does: str) -> Iterator[Part]:
    """What is asked. `does`: the same in a sentence."""
    for each in item.newer:
        yield f"Also in this conversation: {line(words_of_newer(each))}\n", WARNING
    shown = [field for field in form.fields if field.kind != "hidden" and field.parts]
    if item.kind != "draft" or not shown:
        yield f"{line(does)}\n"
    if item.kind == "link":
        yield f"Open this yourself: {line(item.args.get('url', ''))}\n"
        return
    if item.asked_because:
        yield f"You are asked again: {line(item.asked_because)}\n", WARNING
    if item.in_gmail and item.in_gmail.text:
        yield f"\n{in_gmail(item.in_gmail)}\n", WARNING
        yield f"{plain(item.in_gmail.text)}\n\n"
        yield f"{HERE}\n", WARNING
    if item.sent_from:
        yield "From: ", "dim"
        yield f"{line(item.sent_from)}\n"
    for field in (each for each in shown if each.kind != "text"):
        yield f"{field.label}: ", "dim"
        yield from _value(field, item)
        yield "\n"
    for warning in item.warnings:
        yield f"! {line(warning)}\n", WARNING
    for remark, warns in remarks(item):
        yield f"{'! ' * warns}{line(remark)}\n", WARNING if warns else "dim"
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
            yield NEW, WARNING


def line(text: object) -> str:
    """Text of a mail, on one line."""
    return one_line(plain(text))
