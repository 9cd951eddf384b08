"""The JSON that the API takes and gives."""

from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any, Literal, Self
from uuid import UUID

from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from email_assistant.accounts.account import Account, Mode
from email_assistant.accounts.account import State as AccountState
from email_assistant.gate.call import Labels
from email_assistant.gate.call import Rule as ReviewRule
from email_assistant.inbox.items import MOST_AT_ONCE, NIL
from email_assistant.inbox.listing import Status
from email_assistant.inbox.mails import Class
from email_assistant.inbox.mails import State as MailState
from email_assistant.inbox.marks import MarkKind
from email_assistant.memory.rules import Profile
from email_assistant.tools.spec import Answer, Kind, ToolState
from email_assistant.usage import Day


class Told(BaseModel):
    model_config = ConfigDict(from_attributes=True)


class Given(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Decision(Given):
    """A person's answer to an item. done puts it away, of whatever kind it is, and teaches nothing: of a notice it is
    accept, of all else nothing is done. ignore says that such mail needs no notice, or no answer."""

    type: Answer | Literal["done"]
    args: dict[str, Any] | str | None = Field(
        None, description="For edit all of the tool's arguments, for response a text, else nothing."
    )


class NewerOut(BaseModel):
    """Another mail of the conversation that came after the one that an item answers, or waits with it."""

    id: str = Field(description="Gmail's id.")
    sender: str
    subject: str
    classification: Class | None = Field(description="Null: it was not sorted, or not yet.")
    received_at: datetime


class MarkOut(Told):
    """Something about an item that must be seen before it is decided."""

    kind: MarkKind = Field(
        description="`new_recipient`: never written to. `unknown_recipient`: whether it was can't be told now. "
        "`outside`: known, but not in this conversation, and not named by the person. "
        "`lookalike`: the address, or the name that it bears, passes for somebody known. `gate_reason`: why it is "
        "asked about, though the person's own rule would let it run. `leak`: it tells recipients what they have not "
        "seen, as far as is known. `unfounded`: nobody has said this before. `undelivered`: a mail system, or somebody "
        "who claims to be one, reported that a letter did not reach its recipient, or not yet."
    )
    address: str = Field(description="Of a recipient; empty: the mark is about something else.")
    text: str = Field(description="One sentence.")
    value: str = Field(description="The words of the proposal that it is about, if it is about some.")
    source: str = Field(description="What the text is known as in which they stand; empty: none.")


class InGmailOut(Told):
    """What the person has made of a letter's draft in Gmail, as last heard of."""

    did: Literal["changed", "sent", "gone"] = Field(description="`gone`: discarded, or sent in another way.")
    text: str = Field(description="As it stands there, its recipients first, or as it was sent; empty: it is gone.")
    args: dict[str, Any] | None = Field(
        description="To send that one, answer with edit and these; null: it is to be sent from Gmail only, as it holds "
        "what can't be said here (a file, a Bcc, another subject), or is not there any more."
    )


class ItemOut(Told):
    """Something that waits, or waited, for a person."""

    id: UUID
    run: Annotated[UUID | None, BeforeValidator(lambda run: None if run == NIL else run)] = Field(
        validation_alias="run_id",
        description="Null: somebody else's agent waits for the answer.",
    )
    call_id: str
    account: str
    mail_id: str | None = Field(description="Gmail's id of the mail that it is about; null: it comes from a chat.")
    chat: str | None = Field(description="Id of the chat that it comes from.")
    kind: Kind
    action: str
    args: dict[str, Any]
    allowed: list[Answer]
    status: Status
    state: str = Field(description='How it stands, in plain words, such as "goes out with your answer on the meeting".')
    group: str = Field(
        description="The same for all parts of one proposal: nothing of it is done before all is decided."
    )
    waits_for: list[UUID] = Field(description="Parts that are yet to be decided before this answer takes effect.")
    decision: Decision | None
    taken_back: Decision | None = Field(
        description="What the person had typed, an edit or a response, before they took it back; or into a letter to "
        "the same person that was not sent, as newer mail came."
    )
    in_gmail: InGmailOut | None = Field(
        description="While it waits: what the draft that was left in Gmail has become; null: it is as it was left, or "
        "none was. It is part of `hash`, and counts `asked` up."
    )
    decided_at: datetime | None
    undo_until: datetime | None = Field(description="Until then the decision can be taken back.")
    superseded_by: UUID | None = Field(description="The run that took its place.")
    ended_because: str | None = Field(
        description="Why it was superseded, or expired, or the run was closed that was to carry it out."
    )
    overwritten: str | None = Field(
        description="What the person had written into its draft in Gmail before that was sent as they had approved it."
    )
    shadow: bool = Field(description="It only shows what would have been done: its account is in shadow mode.")
    sender: str | None
    subject: str | None
    sent_from: str | None = Field(
        description="The address that a mail goes from: the one that the answered mail came to; null if none is sent."
    )
    left_out: list[str] = Field(
        description="People of the answered mail who would get no copy, as it was proposed; of a mail to more than "
        "500, the last entry says how many more."
    )
    marks: list[MarkOut] = Field(
        description="A marked item is never accepted among others. Of an edit, they are those of what the person left."
    )
    new_recipients: list[str] = Field(
        description="Addresses it would reach that are not known to have been written to before, nor typed by the "
        "person. Whoever merely wrote, or stands in a mail of somebody else's, is new."
    )
    first_answer: str | None = Field(
        description="The From that it answers, if the mail that is stored knows of none to it; that alone is no mark."
    )
    hash: str = Field(description="Of all that there is to decide on; to accept several items, name each with it.")
    conflicts: list[str] | None = Field(
        description="What stood in the calendar at the time of a proposed meeting, when it was proposed; "
        "null if the calendar could not be read."
    )
    asked: int = Field(description="1; more where the person is asked once more about the same call.")
    asked_because: str | None = Field(
        description="Why it is asked again: it was refused, it had been accepted with a part that then was not, or "
        "newer mail came before what was decided was done, with the person's words."
    )
    calendars: list[str] = Field(description="Names of the calendars that counted in that: the person's own.")
    newer: list[NewerOut] = Field(
        description="While the item can be answered: other mail of the conversation that came since or waits with it, "
        "newest first (at most 10). It takes nothing of the item's place."
    )
    description: str = Field(description="The mail and the proposal as text, with HTML's characters escaped.")
    decided_by: str | None
    created_at: datetime
    snoozed_until: datetime | None = Field(description="While it is pending, it is left out of listings until then.")
    urgency: int = Field(description="Rank in the order of urgency, by kind alone: 0 (in doubt) to 4 (notification).")


class AnsweredOut(ItemOut):
    """An item as an answer has left it."""

    notice: str | None = Field(
        None, description="Why nothing follows yet: no process works on its account. Null while one does."
    )


class ItemPage(BaseModel):
    items: list[ItemOut]
    next: str | None = Field(description="Cursor of the next page; null on the last.")


class Snooze(Given):
    """When an item is to come back."""

    until: AwareDatetime | None = Field(description="A time to come, with its timezone; null brings the item back now.")


class AnswerIn(Decision):
    """An answer to an item."""

    asked: int | None = Field(
        None,
        description="The item's `asked` as it was served: another by now gives 409. Left out, it is the first asking.",
    )


class Shown(Given):
    """An item as it was served."""

    id: UUID
    hash: str = Field(description="The item's `hash` at that time.")


class ItemAnswer(Decision):
    """An answer to the item that it names."""

    id: UUID
    hash: str | None = Field(None, description="The item's `hash` as it was served; accept and edit take it only so.")


class Decisions(Given):
    """One answer to several items, or an answer to each of several."""

    items: list[UUID | Shown] | None = Field(
        None,
        min_length=1,
        max_length=MOST_AT_ONCE,
        description="With `decision`. For accept and edit each as it was served; for other answers an id is enough.",
    )
    decision: Decision | None = Field(None, description="The answer to all `items`, each taken or refused for itself.")
    answers: list[ItemAnswer] | None = Field(
        None,
        min_length=1,
        max_length=MOST_AT_ONCE,
        description="Instead of those two: an answer to each item. The parts of one proposal (`group`) are decided "
        "together: all that are named are taken, or none.",
    )

    @model_validator(mode="after")
    def _is_one_of_two(self) -> Self:
        if (self.items is None) != (self.decision is None) or (self.items is None) == (self.answers is None):
            raise ValueError("give `items` with their `decision`, or `answers`")
        if self.answers and len({answer.id for answer in self.answers}) < len(self.answers):
            raise ValueError("an item stands in `answers` twice")
        return self

    @property
    def seen(self) -> list[tuple[UUID, str | None]]:
        """Ids, and the hashes that came with them."""
        return [(each.id, each.hash) if isinstance(each, Shown) else (each, None) for each in self.items or ()]


class Result(BaseModel):
    """What came of answering one item."""

    id: UUID
    status: int = Field(
        description="As if it had been answered alone: 200 taken, 404 no such item, 409 answered, superseded, or not "
        "as it was served, 422 it takes no such answer, or none among others, 503 the database could not be reached."
    )
    detail: str | None = Field(description="Why it was refused.")
    item: AnsweredOut | None = Field(description="The item, if it took the answer.")


class Results(BaseModel):
    items: list[Result] = Field(description="In the order that was asked for.")


class CountsOut(Told):
    """How much there is of what. Each number stops at `most`, which then means "or more"."""

    most: int
    by_status: dict[Status, int] = Field(description="Snoozed items are not among the pending.")
    waiting_by_kind: dict[Kind, int]
    waiting_by_account: dict[str, int]
    snoozed: int


class MailOut(Told):
    """A mail and what became of it."""

    id: str = Field(description="Gmail's id, unique in its account.")
    account: str
    thread: str
    sender: str
    sender_name: str | None = Field(
        description="As the mail itself has it; whoever writes may call themselves anything."
    )
    subject: str
    received_at: datetime
    state: MailState
    classification: str | None
    stage: str | None = Field(
        description="Who gave it its class: rules, habits (what you did with mail like it), model, fixed (a rule of "
        "the program's own), report (on a letter of yours) or person; null: it has no class."
    )
    reason: str | None


class LetterOut(Told):
    """A mail of the conversation."""

    id: str = Field(description="Gmail's id.")
    own: bool = Field(description="Sent by the account itself.")
    sender: str
    name: str | None
    recipients: list[str]
    subject: str
    received_at: datetime
    text: str = Field(description="Its text; HTML was turned into text.")
    cut: bool = Field(description="Whether the text goes on.")
    attachments: list[str | None] = Field(description="Their names.")


class TriageOut(Told):
    classification: str
    reason: str | None
    at: datetime | None


class BeforeOut(Told):
    """What was decided on an earlier item of the same kind about mail from the same sender."""

    id: UUID
    sender: str
    subject: str
    kind: Kind
    decision: Answer
    decided_by: str | None
    decided_at: datetime


class RuleOut(Told):
    """A rule of a preference profile."""

    id: str = Field(validation_alias="key")
    text: str
    version: int
    at: datetime = Field(description="When it was last changed.")
    origin: dict[str, Any] = Field(
        description="`did` says in one sentence where this version comes from; `item`, `mail`, `sender`, `subject`, "
        "`by` and `reason` where they apply."
    )
    removed: bool


class ContextOut(Told):
    conversation: list[LetterOut] = Field(description="Oldest first; of a long conversation its newest mails.")
    triage: TriageOut | None
    before: list[BeforeOut] = Field(description="Latest first.")
    rules: dict[Profile, list[RuleOut]] = Field(description="All that stood in the prompts.")


class ToolOut(Told):
    """A tool, where it runs and whether it can be used."""

    name: str
    type: str | None = Field(description="The type that chat chooses it by; null: it is not chosen by type.")
    backend: str = Field(description="Where it runs: local, or a server's name.")
    review: ReviewRule = Field(
        description="When a person is asked about its calls; gate: where it may change something."
    )
    labels: Labels | None = Field(description="What it touches; null: nobody has said, so it counts as a write.")
    state: ToolState
    reason: str | None = Field(description="Why it can't be used.")


class ToolsOut(BaseModel):
    tools: list[ToolOut]
    remarks: list[str] = Field(description="What is set that takes a safeguard away.")


class SeenToolOut(Told):
    """A tool of somebody else's server: as it was accepted, and as it is now."""

    hash: str
    description: str
    parameters: dict[str, Any] = Field(validation_alias="schema")
    seen_at: datetime
    new_hash: str | None = Field(description="Of what it has become, to accept it by; null: it has not changed.")
    new_description: str | None
    new_parameters: dict[str, Any] | None = Field(validation_alias="new_schema")
    changed_at: datetime | None


class OneToolOut(BaseModel):
    tool: ToolOut
    seen: SeenToolOut | None = Field(description="Null for a tool of ours, and for one that was never listed.")


class AcceptTool(Given):
    """A person's word that a tool which has changed may be used."""

    hash: str = Field(max_length=64, description="The `new_hash` that they were shown.")


class Today(Told):
    """The use of models since midnight of the account's timezone, and what is allowed for the day."""

    tokens: int
    most_tokens: int | None
    money: float = Field(description="By EMAIL_ASSISTANT_PRICES, in their currency.")
    most_money: float | None


class OlderMail(Told):
    """How far the fetching of mail from before the account was connected is."""

    done: int
    total: int
    seconds_left: int | None = Field(description="At the pace of late; null until that is known.")


class AccountOut(Told):
    """A connected mailbox."""

    address: str
    state: AccountState
    mode: Mode = Field(
        description="What becomes of proposals: shown only, left as Gmail drafts too, or done if accepted."
    )
    timezone: str | None
    last_sync: datetime | None = Field(validation_alias="listed_at")
    last_error: str | None
    watch_error: str | None = Field(description="Why Gmail does not push, though it was asked to; polling goes on.")
    spent_until: datetime | None = Field(description="The day's budget for models is spent until then.")
    older_mail: OlderMail | None = Field(description="Null unless mail from before the connection is being fetched.")
    today: Today

    @classmethod
    def of(cls, account: Account, day: Day) -> Self:
        more = {"spent_until": account.spent_until, "older_mail": account.older_mail, "today": day}
        return cls.model_validate({**asdict(account), **more})
