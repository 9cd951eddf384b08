"""What a rule that only a model can read would make of mail that the person has decided on.

The model that sorts mail is asked about a few of those mails, by the rules as they would be; where it goes wrong, by
those in force too. Both times it is asked alike, of each mail and set of rules once, and once more where that decides.
"""

import re
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Final, Protocol
from uuid import UUID

from email_assistant.db.pool import Pool, fetched
from email_assistant.db.statements import statements
from email_assistant.inbox.mails import Class
from email_assistant.memory.fires import COUNTED
from email_assistant.memory.replay import Otherwise, PastDecision, decisions, undone
from email_assistant.memory.rules import Rule, with_rule
from email_assistant.memory.senders import deciding

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
_SQL = statements("memory", "trial.sql")


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
