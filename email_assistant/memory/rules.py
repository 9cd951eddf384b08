"""A rule of a preference profile: what it says, where that comes from, and what it said before."""

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args
from uuid import UUID

from pydantic import AfterValidator, BaseModel, Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from email_assistant.db.values import FIRST, LAST
from email_assistant.inbox.items import Invalid
from email_assistant.mail.charset import one_line
from email_assistant.mail.prompt import rule as as_rule

if TYPE_CHECKING:
    from langgraph.store.base import Item


Profile = Literal["triage_preferences", "response_preferences", "cal_preferences"]
PROFILES: tuple[Profile, ...] = get_args(Profile)
LONGEST_RULE = 300
MOST_RULES = 200  # of a profile
GIVEN = "given"
"""Value of `by` in the origin of a rule that every new mailbox gets."""

log = logging.getLogger(__name__)


class BadRule(Invalid):
    """A rule, or a file of them, can't be taken as it stands."""


class RuleChange(BaseModel):
    """One change to a profile, as the memory model answers it."""

    action: Literal["add", "revise", "remove", "none"]
    rule: int | None = None  # number of the rule that is revised or removed, counted from 1 in the list that was shown
    text: str = Field("", max_length=LONGEST_RULE)
    reason: str = Field("", max_length=300)

    def of(self, shown: "list[Rule]") -> "Rule | None":
        """The rule that it is about, of those that were shown."""
        return shown[self.rule - 1] if self.rule is not None and 1 <= self.rule <= len(shown) else None

    def made(self, shown: "list[Rule]", key: str, origin: Mapping[str, Any]) -> "Rule | None":
        """The rule after this change, under `key` if it is new; None: nothing would change."""
        old = None if self.action == "add" else self.of(shown)
        removed = self.action == "remove"
        text = old.text if old and removed else " ".join(self.text.split())
        if self.action == "none" or not text or (old is None and self.action != "add"):
            return None
        history = old.versions if old else []
        return Rule(old.key if old else key, text, {**origin, "reason": self.reason}, now(), history, removed=removed)


@dataclass(frozen=True, slots=True)
class Rule:
    key: str  # the inbox item that it was first learned from, or an id of its own
    text: str
    origin: dict[str, Any]
    at: str
    history: list[dict[str, Any]]
    removed: bool

    @property
    def version(self) -> int:
        """1 for a rule as it first was; every change, and its removal, makes another."""
        return len(self.history) + 1

    @property
    def versions(self) -> list[dict[str, Any]]:
        """Every version, oldest first: {text, origin, at, removed}."""
        return [*self.history, _as_version(self)]

    @property
    def is_corrected(self) -> bool:
        """Whether it states a correction of a triage: code wrote it, and no model reads or changes it."""
        return any("correction" in version["origin"] for version in self.versions)

    @property
    def is_given(self) -> bool:
        """Whether it is one that every mailbox begins with, in the words that it came in: it tells of nobody."""
        return self.origin.get("by") == GIVEN

    @property
    def senders(self) -> set[str]:
        """Who wrote the mails that it was learned from."""
        return self._named("sender")

    @property
    def items(self) -> set[str]:
        """Every inbox item that this rule was learned from."""
        return self._named("item")

    def _named(self, what: str) -> set[str]:
        return {str(named) for version in self.versions if (named := version["origin"].get(what)) is not None}


def _a_time(text: str) -> str:
    at = datetime.fromisoformat(text)
    if at.tzinfo is None or not FIRST <= at <= LAST:
        raise ValueError("it is no time that every timezone has")
    return text


class _Version(TypedDict):
    text: str
    origin: dict[str, str | int | None]
    at: Annotated[str, AfterValidator(_a_time)]
    removed: bool


class _Kept(_Version):
    history: list[_Version]


def checked(text: str) -> str:
    """A rule is one line of text. Raises BadRule."""
    line = one_line(text)
    if not line or len(line) > LONGEST_RULE:
        raise BadRule(f"a rule is a text of 1 to {LONGEST_RULE} characters, and this has {len(line)}")
    return line


def now() -> str:
    return datetime.now(UTC).isoformat()


def with_rule(rules: Sequence[Rule], stated: Rule) -> list[Rule]:
    """The rules in force after `stated` replaces the rule with its key, or is added. Removed, it is left out."""
    said = [] if stated.removed else [stated]
    if all(rule.key != stated.key for rule in rules):
        return [*rules, *said]
    return [each for rule in rules for each in (said if rule.key == stated.key else [rule])]


_SHAPE: TypeAdapter[Any] = TypeAdapter(_Kept)


def render(rules: list[Rule]) -> str:
    """The profile as prompts show it."""
    return "\n".join(f"- {as_rule(rule.text)}" for rule in rules)


def numbered(rules: Sequence[Rule]) -> str:
    """With numbers, for prompts whose answer names the rules used."""
    return "\n".join(f"{number}. {as_rule(rule.text)}" for number, rule in enumerate(rules, 1))


def in_order(found: "Iterable[Item]") -> list[Rule]:
    """Oldest first. What this program never writes, and somebody else must have, is left out."""
    rules, foreign = list[Rule](), 0
    for item in sorted(found, key=lambda each: (each.created_at, each.key)):
        try:
            rules.append(Rule(key=item.key, **_SHAPE.validate_python(item.value)))
        except ValidationError:
            foreign += 1
    if foreign:
        log.warning("%s rules in the database were damaged, or changed by somebody else; they are left out", foreign)
    return rules


def _as_version(rule: Rule) -> dict[str, Any]:
    return {"text": rule.text, "origin": rule.origin, "at": rule.at, "removed": rule.removed}


def standing(versions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Versions without those that were learned from a mail and taken back."""
    stands: list[dict[str, Any]] = []
    for version in versions:
        if version["origin"].get("took_back"):
            stands = [each for each in stands if each["origin"].get("mail") != version["origin"]["mail"]]
        else:
            stands.append(version)
    return stands


def origin_words(origin: Mapping[str, Any]) -> str:
    """Where a version of a rule comes from, in a sentence."""
    about = f" From {origin['sender']}" if "sender" in origin else ""
    subject = f": {origin['subject']}" if "subject" in origin else ""
    return f"{origin.get('did', '')}{about}{subject}"


def without_mail(rule: Rule, gone: Collection[str]) -> Rule:
    """The rule, which tells no longer of what mail it came where that is among `gone`, items' ids and Gmail's.

    A sender whom it names stays: the model that learns is shown another name in their place (`memory/learn.py`)."""
    texts = " ".join(version["text"] for version in rule.versions)

    def bare(origin: dict[str, Any]) -> dict[str, Any]:
        sender = str(origin.get("sender", ""))
        if not {origin.get("item"), origin.get("mail")} & set(gone):
            return origin
        if sender and sender in texts:
            return {name: said for name, said in origin.items() if name != "subject"}
        did = str(origin.get("did", ""))
        kept = {name: said for name, said in origin.items() if name not in ("sender", "subject")}
        return {**kept, "did": did.replace(sender, "somebody") if sender else did}

    history = [{**version, "origin": bare(version["origin"])} for version in rule.history]
    return replace(rule, origin=bare(rule.origin), history=history)


def is_by_hand(origin: Mapping[str, Any]) -> bool:
    """Whether that version of a rule was not learned: the person wrote or chose it, or the mailbox began with it
    (`is_given`)."""
    return not origin.keys() & {"item", "correction", "undid"}


def without(versions: list[dict[str, Any]], undone: set[Any]) -> dict[str, Any] | None:
    """`text` and `removed` of the newest version that is left without `undone`; None: none is left."""
    left = [each for n, each in enumerate(versions, 1) if n not in undone and "undid" not in each["origin"]]
    stands = standing(left)
    return {name: stands[-1][name] for name in ("text", "removed")} if stands else None


rules_cache: ContextVar[dict[UUID, dict[Profile, list[Rule]]] | None] = ContextVar("rules that were read", default=None)
"""By account, those in force."""


@contextmanager
def cached_rules() -> Iterator[None]:
    """Within the block, by tasks started in it too, rules that are asked for are those in force as they were read
    first."""
    token = rules_cache.set({})
    try:
        yield
    finally:
        rules_cache.reset(token)
