"""The card of a mail: the parts of a proposal, and what the person's form answers to each."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any
from uuid import UUID

from email_assistant.app import App
from email_assistant.inbox.answers import BESIDE, DONE, REFINEMENTS, Refined, Refinement, check_shown
from email_assistant.inbox.items import Conflict, Invalid, Item
from email_assistant.inbox.sentences import sentence, would_do
from email_assistant.mail.compose import reply_subject
from email_assistant.tools.spec import LETTER
from email_assistant.tools.times import MeetingTime
from email_assistant.web.forms import Field, ProposalForm, form_of
from email_assistant.web.pages.answered import BY
from email_assistant.web.pages.day import days_of
from email_assistant.web.pages.proposal import LETTER_TEXT, Input, answer_of, arguments_in, inputs_of, taken_back_in
from email_assistant.web.wording import Button, buttons

_IN_GMAIL = "gmail"
_BESIDE = re.compile(r"[0-9a-f-]{36}:")
"""Prefix of a field's name if it belongs to another part than the one in the URL: that part's id."""


@dataclass(frozen=True, slots=True)
class CardPart:
    """One part of a proposal, as its card shows it."""

    item: Item
    form: ProposalForm
    posted: Mapping[str, str]  # what the person has typed into it
    prefix: str  # of its fields' names; empty: it is the part in the URL
    beside: Sequence[Item]  # what stands on the same card

    @property
    def buttons(self) -> Mapping[Button, str]:
        return buttons(self.item)

    @property
    def inputs(self) -> list[Input]:
        return inputs_of(self.form, arguments_in(self.posted))

    @property
    def changed(self) -> list[Field]:
        return self.form.changed(arguments_in(self.posted))

    @property
    def response(self) -> str:
        return self.posted.get("response", "")

    @property
    def edits(self) -> bool:
        return "edit" in self.item.allowed and bool(self.inputs)

    @property
    def can_be_changed(self) -> bool:
        return self.edits or "response" in self.item.allowed

    @property
    def can_be_done(self) -> bool:
        return "accept" in self.item.allowed

    @property
    def letter(self) -> Input | None:
        """What the letter says, as the field that it is."""
        is_letter = self.edits and self.item.action == LETTER
        return next((each for each in self.inputs if is_letter and each[0].name == LETTER_TEXT), None)

    @property
    def refinements(self) -> Mapping[str, Refinement]:
        """The changes that are asked for by one key."""
        if not (self.letter and "response" in self.item.allowed and self.item.chat is None):
            return {}
        return {name: each for name, each in REFINEMENTS.items() if each.of_blank == self.item.is_blank}

    def said(self, button: str) -> dict[str, Any]:
        """The answer "make it different", with the person's words. Raises Invalid: there are none."""
        words = REFINEMENTS[button].words if button in REFINEMENTS else self.response
        if not words.strip():
            raise Invalid("say what should be different")
        letter = next((field.value for field in self.changed if self.letter and field.name == LETTER_TEXT), None)
        return {"type": "response", "args": str(Refined(words, letter))}

    @property
    def can_be_made_anew(self) -> bool:
        """Whether the assistant proposes this part again when another part is to be different. A question is not."""
        return self.can_be_done and "hash" in self.posted and "response" in self.item.allowed and self.item.chat is None

    @property
    def first_field(self) -> str:
        """The id of the field that a change most often means."""
        shown = [field for field in self.form.fields if field.kind not in ("hidden", "said")]
        first = next((field for field in (*(f for f in shown if f.kind == "text"), *shown)), None)
        return f"{self.prefix}arg.{first.name}" if self.edits and first else f"{self.prefix}response"

    @property
    def says(self) -> str | None:
        """In a sentence, where no field says it."""
        match self.item.kind:
            case "confirmation" if not self.item.is_held:
                return f"{would_do(self.item)}."
            case "notification" | "in_doubt":
                return sentence(self.item, self.form.home)
            case _:
                return None

    @property
    def subject(self) -> str | None:
        """Of the letter, which has no field for that."""
        item = self.item
        if item.undelivered:
            return item.subject
        return reply_subject(item.subject or "") if item.kind == "draft" and item.mail_id else None

    @property
    def when(self) -> str | None:
        """From when to when a meeting is, and how long; None where that can't be read."""
        when = MeetingTime.read(self.item.args, self.form.home) if self.item.kind == "meeting" else None
        return f"{when.told(self.form.home)} · {when.minutes} min" if when else None

    @property
    def days(self) -> list[date]:
        """On which days the times are that it is about; those of a letter beside its meeting are the meeting's."""
        meetings = [part for part in self.beside if part.kind == "meeting"]
        return days_of(self.item) if self.item in meetings or not meetings else []

    @property
    def notes(self) -> list[str]:
        """What there is to say of parts that are not on the card."""
        on_card = len(self.beside) > 1
        return [note for note in self.item.notes if not (on_card and note.startswith("One proposal with"))]


async def parts_of(app: App, item: Item, posted: Mapping[str, str] | None) -> list[CardPart]:
    """The item, then what waits beside it; `posted`: what the person has typed, else what they took back."""
    waiting = await app.inbox.proposal(item) if item.status == "pending" else []
    items = [item, *(part for part in waiting if part.id != item.id)]
    return [await _part(app, part, item, items, posted) for part in items]


async def answer_card(app: App, item: Item, posted: Mapping[str, str]) -> list[Item]:
    """Take what the person has said to a card; returns the parts that are answered. Raises NoItem, Conflict,
    Invalid."""
    part, _, button = posted.get("answer", "").rpartition(":")
    if button == "response" or button in REFINEMENTS:
        return await _pass_on(app, item, posted, part, button)
    if button == _IN_GMAIL:
        return [await _send_from_gmail(app, item, posted, part)]
    if "hash" in posted and button in ("accept", "edit", "ignore", DONE):
        return await _answer_all(app, item, posted)
    given = answer_of(form_of(app.tools, item), posted)
    return [await app.inbox.decide(app.user_id, item.id, given, by=BY, asked=_asked(posted) or item.first_asked)]


async def _send_from_gmail(app: App, item: Item, posted: Mapping[str, str], part_id: str) -> Item:
    """Send what the person has made of a letter in Gmail. Raises Invalid: they have changed it here too."""
    shown = next((p for p in await parts_of(app, item, posted) if p.prefix.rstrip(":") == part_id), None)
    if shown is None:
        raise Conflict("this is not as it was shown; look at it again")
    if shown.changed:
        raise Invalid("you changed this one too: send it as changed, or take the changes back")
    found = shown.item.in_gmail
    answer = {"type": "edit", "args": found.args if found else None}
    asked = _asked(shown.posted) or shown.item.first_asked
    return await app.inbox.decide(app.user_id, shown.item.id, answer, by=BY, asked=asked)


async def _answer_all(app: App, item: Item, posted: Mapping[str, str]) -> list[Item]:
    """All parts that were shown, at once; a question only if it is answered. What was not shown is not answered; what
    was answered meanwhile in another way refuses them all."""
    beside = [UUID(name[:36]) for name in posted if _BESIDE.match(name) and name.endswith(":hash")]
    items = [item, *[await app.inbox.get(app.user_id, part) for part in beside if part != item.id]]
    given: list[tuple[UUID, str | None, Mapping[str, Any]]] = []
    for part in [await _part(app, each, item, items, posted) for each in items]:
        check_shown(part.item, part.posted["hash"], among_others=False)
        if answer := _answer(part, posted["answer"]):
            given.append((part.item.id, part.posted["hash"], answer))
    return await _decide_all(app, given)


async def _pass_on(app: App, item: Item, posted: Mapping[str, str], part_id: str, button: str) -> list[Item]:
    """Tell the assistant what is to be different about one part; what was shown beside it is made anew with it."""
    shown = await parts_of(app, item, posted)
    told = next((part for part in shown if part.prefix.rstrip(":") == part_id), None)
    if told is None:
        raise Conflict("this is not as it was shown; look at it again")
    answer = told.said(button)
    beside = [part for part in shown if part is not told and part.can_be_made_anew]
    if not beside or "hash" not in told.posted:
        asked = _asked(told.posted) or told.item.first_asked
        return [await app.inbox.decide(app.user_id, told.item.id, answer, by=BY, asked=asked)]
    words = REFINEMENTS[button].beside if button in REFINEMENTS else BESIDE
    for part in (told, *beside):
        check_shown(part.item, part.posted["hash"], among_others=False)
    others = [
        (part, {"type": DONE} if "strike" in part.posted else {"type": "response", "args": words}) for part in beside
    ]
    return await _decide_all(
        app, [(part.item.id, part.posted["hash"], given) for part, given in [(told, answer), *others]]
    )


async def _decide_all(app: App, given: Sequence[tuple[UUID, str | None, Mapping[str, Any]]]) -> list[Item]:
    """Take all answers together. Raises why one was refused."""
    outcomes = await app.inbox.decide_parts(app.user_id, given, by=BY)
    for outcome in sorted(outcomes, key=lambda each: str(each.refused).startswith("not taken, as another part")):
        if outcome.refused:
            raise outcome.refused
    return [outcome.item for outcome in outcomes if outcome.item]


def _answer(part: CardPart, button: str) -> Mapping[str, Any] | None:
    """Raises Invalid."""
    if "strike" in part.posted or button in ("ignore", DONE):
        kind = DONE if "strike" in part.posted else button
        return {"type": kind} if "ignore" in part.item.allowed else None
    if part.can_be_done:
        return answer_of(part.form, {**part.posted, "answer": button})
    return {"type": "response", "args": part.response} if part.response.strip() else None


async def _part(
    app: App, item: Item, addressed: Item, beside: Sequence[Item], posted: Mapping[str, str] | None
) -> CardPart:
    """`addressed`: the item in the URL."""
    form = form_of(app.tools, item)
    prefix = "" if item.id == addressed.id else f"{item.id}:"
    typed = taken_back_in(form, item) if posted is None else _own(posted, prefix.rstrip(":"))
    return CardPart(item, form, typed, prefix, beside)


def _own(posted: Mapping[str, str], prefix: str) -> dict[str, str]:
    """The fields of one part, without its prefix."""
    if not prefix:
        return {name: value for name, value in posted.items() if not _BESIDE.match(name)}
    return {name.removeprefix(f"{prefix}:"): value for name, value in posted.items() if name.startswith(f"{prefix}:")}


def _asked(posted: Mapping[str, str]) -> int | None:
    """The how manieth time the person was asked by the form that they sent."""
    given = posted.get("asked", "")
    return int(given) if given.isdecimal() else None
