"""A proposal as the fields of a form, and the answer that a person's fields and button make."""

from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import Request

from email_assistant.inbox.answers import Refined
from email_assistant.inbox.items import Invalid, Item
from email_assistant.mail.diff import Piece, compare
from email_assistant.web.forms import Field, ProposalForm

LETTER_TEXT = "response_text"  # the argument that holds what a letter says
_ARGUMENT = "arg."  # prefix of the form fields that are arguments

Input = tuple[Field, Field, Sequence[Piece]]  # a field as it was filled in, as it was proposed, and the difference


async def fields_of(request: Request) -> dict[str, str]:
    """What was posted; a browser ends lines with CR LF."""
    return {name: str(value).replace("\r\n", "\n") for name, value in (await request.form()).items()}


def inputs_of(form: ProposalForm, given: Mapping[str, str]) -> list[Input]:
    """Long texts last, as they are shown."""
    both = zip(form.typed(given), form.fields, strict=True)
    found = [(after, before, _pieces(before, after)) for after, before in both]
    return sorted(found, key=lambda each: each[0].kind == "text")


def arguments_in(posted: Mapping[str, str]) -> dict[str, str]:
    return {name.removeprefix(_ARGUMENT): text for name, text in posted.items() if name.startswith(_ARGUMENT)}


def taken_back_in(form: ProposalForm, item: Item) -> dict[str, str]:
    """What the person had typed before they took their answer back, as it was posted."""
    match item.taken_back:
        case {"type": "edit", "args": dict(args)}:
            return {f"{_ARGUMENT}{name}": text for name, text in form.filled_with(args).items()}
        case {"type": "response", "args": str(text)}:
            said = Refined.of(text)
            letter = {} if said.letter is None else {f"{_ARGUMENT}{LETTER_TEXT}": said.letter}
            return letter if said.by_key else {**letter, "response": said.words}
        case _:
            return {}


def answer_of(form: ProposalForm, posted: Mapping[str, str]) -> dict[str, Any]:
    """Raises Invalid: a field can't be read; or "accept" with a changed proposal, where what is on the screen is not
    what would be sent."""
    kind, given = posted.get("answer"), arguments_in(posted)
    match kind:
        case "accept" if form.changed(given):
            raise Invalid("you changed the proposal: send it as changed, or take the changes back")
        case "edit" if form.changed(given):
            return {"type": "edit", "args": form.read(given)}
        case "edit":
            return {"type": "accept"}
        case "response":
            return {"type": "response", "args": posted.get("response", "")}
        case _:
            return {"type": kind}


def _pieces(before: Field, after: Field) -> list[Piece]:
    """What the edit changes in a field; empty if nothing."""
    return compare(before.value, after.value) if before.value != after.value else []
