"""What the person decided on their mail, by a correction of its class or by their answer to what it was given; and what
other rules would have made of it: as far as code can tell, and by the model that sorts mail.

The model is asked about a few of those mails, by the rules as they would be; where it goes wrong, by those in force
too. Both times it is asked alike, of each mail and set of rules once, and once more where that decides. How often a
rule had a say in what a mail is, is counted of rules on triage only: its model can name them cheaply.
"""

import re
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal, Protocol
from uuid import UUID

from email_assistant.db.lease import HELD, RowChange
from email_assistant.db.pool import Connection, Pool, fetched
from email_assistant.db.statements import statements
from email_assistant.inbox.mails import CLASSES, Class
from email_assistant.memory.rules import Profile, Rule, with_rule
from email_assistant.memory.senders import deciding

MOST: Final = 200
"""Decisions that a change to the rules is tried on, the newest."""
_RIGHT: Final[Mapping[str, frozenset[Class]]] = {
    **{name: frozenset({name}) for name in CLASSES},
    "no answer": frozenset({"ignore", "notify"}),  # a draft was dismissed
}
Outcome = Class | Literal["read"]
"""`read`: no rule decides, and the model would read it."""
COUNTED: Profile = "triage_preferences"
MOST_ASKED: Final = 20
"""Mails of the past on which a rule is tried, those that it is most likely about."""
_WORD: Final = re.compile(r"[^\W\d_]{4,40}")
_WORDS_OF_RULES: Final = """
about always answer answered answers anything email emails everything from ignore ignored into mail mails message
messages need needs neither never notice notices notify person reply respond sender should shown such that their them
they this what when which whom wants with
"""
_OF_RULES: Final = frozenset(_WORDS_OF_RULES.split())
"""Words of rules that say nothing of which mail they are about."""
_SQL = statements("memory", "trial.sql", held=HELD)


@dataclass(frozen=True, slots=True)
class PastDecision:
    mail: str  # Gmail's id
    sender: str  # empty if it is forged
    subject: str
    given: Class  # what triage had come to before the person said anything
    right: frozenset[Class]  # what it may be, by their word
    at: datetime


async def decisions(pool: Pool, account_id: UUID) -> Sequence[PastDecision]:
    """The newest decisions of an account, of each mail the last, newest first."""
    return [
        PastDecision(
            row["mail"],
            "" if row["forged"] else row["sender"].lower(),
            row["subject"],
            row["given"],
            _RIGHT[row["said"]],
            row["at"],
        )
        for row in await fetched(pool, _SQL["newest"], {"account": account_id, "most": MOST})
    ]


@dataclass(frozen=True, slots=True)
class Otherwise:
    """A mail that other rules sort otherwise."""

    decision: PastDecision
    was: Outcome
    becomes: Outcome

    @property
    def wanted(self) -> Outcome:
        """What the person decided; where several classes would do, what it was."""
        right = tuple(self.decision.right)
        return right[0] if len(right) == 1 else self.was

    @property
    def is_broken(self) -> bool:
        """It was as the person wants it, and would no longer be, or not for certain."""
        return self.was in self.decision.right and self.becomes not in self.decision.right


def otherwise(before: Sequence[Rule], after: Sequence[Rule], decided: Iterable[PastDecision]) -> list[Otherwise]:
    """The mails that change class with the rules, in their order. Where no rule decides now, the class that triage gave
    a mail is what it has."""
    found = []
    for decision in decided:
        old, new = _class(before, decision), _class(after, decision)
        if old != new:
            found.append(Otherwise(decision, old or decision.given, new or "read"))
    return [each for each in found if each.was != each.becomes]


def undone(before: Sequence[Rule], stated: Rule, decided: Iterable[PastDecision]) -> list[Otherwise]:
    """The decisions that a rule would undo, were it to say this."""
    return [each for each in otherwise(before, with_rule(before, stated), decided) if each.is_broken]


def _class(rules: Sequence[Rule], decision: PastDecision) -> Class | None:
    found = deciding(rules, decision.sender)
    return found[0].classification if found else None


@dataclass(frozen=True, slots=True)
class Fired:
    """How often a rule was used, whatever it said then."""

    times: int = 0  # mails
    last_at: datetime | None = None


def noted(account_id: UUID, mail_id: str, fired: Sequence[Rule]) -> list[RowChange]:
    """Rules counted for a mail, to go along with its class; a repeat changes nothing."""
    keys, versions = [rule.key for rule in fired], [rule.version for rule in fired]
    return [RowChange(_SQL["note"], (COUNTED, mail_id, keys, versions, account_id))] if fired else []


async def counted(pool: Pool, account_id: UUID) -> Mapping[tuple[Profile, str], Fired]:
    """By profile and key, the rules that were ever used."""
    rows = await fetched(pool, _SQL["counted"], (account_id,))
    return {(row["profile"], row["rule"]): Fired(row["times"], row["last_at"]) for row in rows}


async def forget_mails(conn: Connection, account_id: UUID, mail_ids: Sequence[str]) -> None:
    await conn.execute(_SQL["forget_mails"].encode(), (account_id, list(mail_ids)))


async def forget_rule(conn: Connection, account_id: UUID, profile: Profile, key: str) -> None:
    await conn.execute(_SQL["forget_rule"].encode(), (account_id, profile, key))


class Sorter(Protocol):
    """The model that sorts mail."""

    def __call__(
        self, account_id: UUID, rules: Sequence[Rule], mails: Sequence[str], *, anew: bool = False
    ) -> Awaitable[Mapping[str, Class]]:
        """What it says of stored mails by these rules; of what it was asked before, what it said then, unless it is
        asked `anew`. A mail that can't be read is left out. Raises BudgetSpent, ModelDown, ModelFault, ModelRefused,
        BadAnswer."""
        ...


class PastTrial:
    def __init__(self, pool: Pool, sort: Sorter) -> None:
        self._pool = pool
        self._sort = sort

    async def __call__(
        self, account_id: UUID, before: Sequence[Rule], stated: Rule, mail_id: str | None
    ) -> list[Otherwise]:
        """What speaks against a rule: decisions that it undoes, and the one that it came of, if it does not mend it.

        Nobody is asked where code can tell that it undoes a decision.

        Args:
            before: the rules on triage in force.
            stated: the rule as it would be.
            mail_id: what it came of.

        Raises:
            What a Sorter raises.
        """
        decided = await decisions(self._pool, account_id)
        if undone(before, stated, decided):
            return []
        after = with_rule(before, stated)
        near = await self._near(account_id, before, after, stated, mail_id, decided)
        wrong = await self._wrong(account_id, after, near)
        was = await self._sort(account_id, before, [each.mail for each in wrong if each.mail != mail_id])
        suspects = [each for each in wrong if each.mail == mail_id or was.get(each.mail) in each.right]
        becomes = await self._sort(account_id, after, [each.mail for each in suspects], anew=True)
        return [
            Otherwise(each, was.get(each.mail, each.given), becomes[each.mail])
            for each in suspects
            if each.mail in becomes and becomes[each.mail] not in each.right
        ]

    async def _wrong(
        self, account_id: UUID, rules: Sequence[Rule], mails: Sequence[PastDecision]
    ) -> list[PastDecision]:
        said = await self._sort(account_id, rules, [each.mail for each in mails])
        return [each for each in mails if each.mail in said and said[each.mail] not in each.right]

    async def _near(
        self,
        account_id: UUID,
        before: Sequence[Rule],
        after: Sequence[Rule],
        stated: Rule,
        mail_id: str | None,
        decided: Sequence[PastDecision],
    ) -> list[PastDecision]:
        """What it came of first; then what it is likely about: mail on which the rule had a say, of the same sender or
        domain, with words of the rule, and mail of the same kind of which the person said something else. Mail without
        text is left out."""
        open_ = [each for each in decided if not deciding(after, each.sender)]
        texts = [stated.text, *(rule.text for rule in before if rule.key == stated.key)]
        given = {
            "account": account_id,
            "mails": [each.mail for each in open_],
            "profile": COUNTED,
            "rule": stated.key,
            "starts": sorted({_start(word) for text in texts for word in _WORD.findall(text.lower())} - {""}),
        }
        rows = {row["mail"]: row for row in await fetched(self._pool, _SQL["about"], given)}
        open_ = [each for each in open_ if each.mail in rows]
        source = next((each for each in open_ if each.mail == mail_id), None)
        of_source = rows[source.mail] if source else None

        def rank(each: PastDecision) -> tuple[Any, ...]:
            row = rows[each.mail]
            named = any(_names(text, each.sender) for text in texts)
            same = (each.sender == source.sender, _domain(each) == _domain(source)) if source else (False, False)
            kin = bool(source and of_source and row["kind"] == of_source["kind"] and not each.right & source.right)
            return each is source, row["fired"], named or same[0], same[1], row["shared"], kin

        ranked = [(rank(each), each) for each in open_]
        alike = [each for each in ranked if any(each[0])]
        alike.sort(key=lambda each: each[0], reverse=True)
        return [each for _, each in alike[:MOST_ASKED]]


def _start(word: str) -> str:
    """As much of a word as its other forms begin with."""
    return "" if word in _OF_RULES else word[: max(4, len(word) - 2)]


def _domain(each: PastDecision) -> str:
    return each.sender.rpartition("@")[2] or each.mail


def _names(text: str, sender: str) -> bool:
    return bool(sender) and (sender in text.lower() or sender.rpartition("@")[2] in text.lower())
