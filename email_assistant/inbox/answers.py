"""Which answers an item takes, and as what they are kept; and what a person wants different about a proposal, said
by one key or in their own words, with what they had typed."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from email_assistant.core_yaml import load
from email_assistant.db.pool import Pool, fetched
from email_assistant.inbox.items import Conflict, Invalid, Item
from email_assistant.inbox.kept import UNREADABLE
from email_assistant.inbox.recipients import addresses_in
from email_assistant.inbox.standing import Part, acts, answer_words
from email_assistant.tools.spec import LETTER, ToolError, check_storable, in_one_spelling

_ALL: Mapping[str, Any] = load(files("email_assistant.inbox").joinpath("refinements.yaml").read_text())
_THEIR_TEXT = f"\n\n{_ALL['their text']}\n\n"
BESIDE: str = _ALL["beside"]
"""What is said of the other parts where a person says in their own words what should be different about one."""
DONE = "done"
"""What puts an item of any kind away and teaches nothing; it is kept as the answer that has nothing done."""
Complete = Callable[[Mapping[str, Any], str, dict[str, Any]], Awaitable[dict[str, Any]]]
"""Checks and completes a call's arguments for a run; raises ToolError."""


@dataclass(frozen=True, slots=True)
class Refinement:
    """A change of a letter that is asked for by one key."""

    name: str
    key: str
    words: str
    """For the model."""
    beside: str
    """What is said of the other parts of the same proposal."""
    of_blank: bool = False
    """It is asked for where no letter was proposed."""


REFINEMENTS = {each["name"].lower(): Refinement(**{"beside": BESIDE, **each}) for each in _ALL["asked by a key"]}
_SAID_FOR_THEM = {each.words: each.name for each in REFINEMENTS.values()}
_ASIDE = {BESIDE, *(each.beside for each in REFINEMENTS.values())}


@dataclass(frozen=True, slots=True)
class Refined:
    """What a person has said to a proposal."""

    words: str
    letter: str | None = None
    """Their own version of it, if they had changed it before they said so."""

    @classmethod
    def of(cls, response: str) -> "Refined":
        words, with_letter, letter = response.partition(_THEIR_TEXT)
        return cls(words, letter if with_letter else None)

    def __str__(self) -> str:
        """As it is answered."""
        return self.words if self.letter is None else f"{self.words}{_THEIR_TEXT}{self.letter}"

    @property
    def by_key(self) -> bool:
        """Whether nobody typed the words. They are about this one letter, so nothing general follows from them."""
        return self.words in _SAID_FOR_THEM or self.words in _ASIDE

    @property
    def told(self) -> str:
        """As the person said it; empty: they said it of another part of the proposal."""
        return "" if self.words in _ASIDE else _SAID_FOR_THEM.get(self.words, self.words)


def spelled_out(text: str) -> str:
    """What a person says, where that may be no more than the name of a refinement."""
    named = REFINEMENTS.get(text.strip().lower())
    return named.words if named else text


@dataclass(frozen=True, slots=True)
class Answers:
    pool: Pool
    complete: Complete

    async def read(self, item: Item, answer: Mapping[str, Any]) -> dict[str, Any]:
        """The decision, {type, args}, that an answer to an item makes. Raises Conflict, Invalid."""
        if item.status != "pending":
            raise Conflict(became(item))
        return await self._decision(item, answer)

    async def is_repeat(self, item: Item, answer: Mapping[str, Any], *, teaches: bool = True) -> bool:
        """Whether an item was given this very answer already. `teaches`: as of `Inbox.decide`."""
        if item.status not in ("decided", "applied") or item.decision is None:
            return False
        try:
            decision = await self._decision(item, answer)
        except Invalid:
            return False
        if decision["type"] == "ignore" and item.teachable and item.teaches is not (teaches and answer["type"] != DONE):
            return False
        return decision == item.decision

    async def _decision(self, item: Item, answer: Mapping[str, Any]) -> dict[str, Any]:
        """Raises Invalid."""
        kind, args = answer.get("type"), answer.get("args")
        if kind == DONE:
            kind = "accept" if item.kind == "notification" and "accept" in item.allowed else "ignore"
        try:
            check_storable(args)
        except ToolError as error:
            raise Invalid(str(error)) from None
        if item.unreadable and kind not in item.allowed:
            raise Invalid(UNREADABLE)
        if item.shadow and acts(item.kind, kind):
            raise Invalid(shadowed(item))
        if kind not in item.allowed:
            raise Invalid(f"{kind!r} is no answer to this; it takes {', '.join(item.allowed)}")
        match kind:
            case "edit":
                return {"type": "edit", "args": await self._edited(item, args)}
            case "response":
                if not isinstance(args, str) or not args.strip():
                    raise Invalid("a response is a text: say in words what you want")
                return {"type": "response", "args": args}
            case "accept" if item.reopened and item.reopened["args"] is not None:
                return {"type": "edit", "args": item.args}  # as the person had left it, and is shown it
            case _:
                return {"type": kind, "args": None}

    async def _edited(self, item: Item, args: object) -> dict[str, Any]:
        """An edit takes the place of the proposed arguments; it is checked before it is taken."""
        if isinstance(args, Mapping) and isinstance(args.get("args"), Mapping) and "action" in args:
            args = args["args"]  # the public Agent Inbox sends the whole action request
        if not isinstance(args, Mapping):
            raise Invalid("an edit is an object with the tool's arguments")
        given = dict(args)
        if item.action == LETTER:
            if "email_address" not in given:
                raise Invalid("email_address is left out: an edit is all of the arguments, so it says to whom it goes")
            if not str(given["email_address"] or "").strip():
                raise Invalid("To is empty: say to whom it goes")
            given.setdefault("additional_recipients", [])  # nobody: who else was proposed is not put back either
        [row] = await fetched(self.pool, "select input from runs where id = %s", (item.run_id,))
        try:
            complete = await self.complete(row["input"], item.action, given)
        except ToolError as error:
            raise Invalid(str(error)) from None
        except (KeyError, TypeError):  # what the run was given is none of ours
            raise Invalid(UNREADABLE) from None
        if str(given.get("from_address") or item.sent_from).lower() != str(item.sent_from).lower():
            raise Invalid(f"from_address: this goes from {item.sent_from}; leave {given['from_address']} out")
        if "accept" not in item.allowed and _is_as_it_was(item, complete):
            raise Invalid("nothing is changed, and as it stands it can't be sent: change the address, or what it says")
        if complete.get("from_address") != item.args.get("from_address"):
            raise Invalid(f"it would not go from {item.sent_from} any more: accept it, and you are shown from where")
        return complete


def _is_as_it_was(item: Item, complete: Mapping[str, Any]) -> bool:
    """Whether an edit changes nothing for whoever would read it."""
    if item.action != LETTER:
        return complete == item.args
    before, after = (
        (sorted(addresses_in(args)), in_one_spelling(str(args.get("response_text")))) for args in (item.args, complete)
    )
    return before == after


def check_shown(item: Item, shown: str | None, *, among_others: bool) -> None:
    """Whether an item that waits may be accepted by whoever was shown it, together with others or with those of its own
    proposal only. Raises Conflict, Invalid."""
    if item.status != "pending":
        return
    if shown is None:
        raise Invalid("what is accepted among others is named with the hash that it was shown with, as {id, hash}")
    if shown != item.hash:
        raise Conflict(f"this is not as it was shown; look at it again{item.both_texts}")
    if among_others and item.alone:
        raise Invalid(item.alone)


def overturned(item: Item, decision: Mapping[str, Any]) -> Sequence[Part]:
    """The parts that were accepted with an item as it was proposed, and are not to be done without another look: all,
    where it is turned down; letters, where a meeting is changed that they may promise. A question is only answered."""
    if decision["type"] == "ignore" or (decision["type"] == "response" and item.kind != "question"):
        return item.parts
    is_moved = item.kind == "meeting" and decision["type"] == "edit" and decision["args"] != item.args
    return [part for part in item.parts if part.kind == "draft"] if is_moved else ()


def shadowed(item: Item) -> str:
    """Why an item takes no answer that acts while its account is in shadow mode."""
    return (
        f"{item.account} is in shadow mode: this is what would have been done, and nothing is sent; "
        f"`email-assistant account mode {item.account} send` ends that"
    )


def again(item: Item) -> str:
    """Why an item takes no answer to what it was before."""
    return f"you are asked again about this: see why, and answer once more{item.both_texts}"


def became(item: Item) -> str:
    """Why an item takes no answer now."""
    match item.status:
        case "decided" | "applied":
            answer = answer_words(item.kind, (item.decision or {})["type"])
            at = item.decided_at.astimezone(item.zone) if item.decided_at else None
            told = f"already answered ({answer}) {item.answered_where} at {at:%Y-%m-%d %H:%M:%S %Z}"
            if item.status == "applied" and item.waits_for and item.chat is None:
                told += f"; it {item.coming}: turn that down, and you are asked about this again"
            return told
        case "superseded":
            why = item.ended_because or "the conversation went on"
            return f"set aside: {why}" + ("; see the newer item" if item.superseded_by else "")
        case "expired":
            return f"too late: {item.ended_because or 'it can no longer be answered'}"
        case "pending" if item.is_held:
            return "the program that asked waits no more, so nothing would come of an answer: dismiss it"
        case "pending":
            return "its account is being removed"
