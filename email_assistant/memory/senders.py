"""Rules that only say what mail from an address or a domain is. Code applies them, and no model is asked.

Only the person's own word is such a rule: what they typed, or a correction of theirs. What a model wrote, even in the
same words, is read by the model that sorts mail.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

from email_assistant.inbox.mails import CLASSES, Class
from email_assistant.mail.address import in_ascii, is_valid_address
from email_assistant.memory.rules import Rule, is_by_hand

BY_RULE: Final = "by your rule"
"""How the reason of a class begins that such a rule gave."""
_MEANS: Final[Mapping[Class, str]] = {
    "ignore": "needs neither an answer nor a notice (ignore)",
    "notify": "is to be shown, not answered (notify)",
    "respond": "is to be answered (respond)",
}
_ORDERS: Final[Mapping[Class, str]] = {
    "ignore": "ignore",
    "notify": "notify me (?:of|about)",
    "respond": "(?:answer|reply to|respond to)",
}
_IS: Final[Mapping[Class, str]] = {
    "ignore": "(?:ignored?|to be ignored)",
    "notify": "notify",
    "respond": "(?:respond|to be answered)",
}
_FROM = r"(?:(?:all |any |every )?(?:e-?mails?|mails?|messages?)|everything|anything) from (?P<whom>\S+?)"
_FORMS: Final = {
    name: re.compile(
        rf"(?:always )?{_ORDERS[name]} {_FROM}\.?|{_FROM.replace('whom', 'of')} "
        rf"(?:{re.escape(_MEANS[name])}|(?:is|are) (?:always )?{_IS[name]})\.?",
        re.IGNORECASE,
    )
    for name in CLASSES
}
_DOMAIN = re.compile(r"(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)+[a-z][a-z0-9-]*[a-z0-9]")


@dataclass(frozen=True, slots=True)
class SenderRule:
    rule: Rule
    whom: str  # an address or a domain, as `in_ascii` gives it
    classification: Class

    def is_about(self, sender: str) -> bool:
        """A domain's is about its subdomains too: newsletters come from there."""
        return sender == self.whom or ("@" not in self.whom and sender.endswith((f"@{self.whom}", f".{self.whom}")))


def stated(sender: str, classification: Class) -> str:
    """Such a rule in words, as `sender_rule` reads them."""
    return f"Mail from {sender} {_MEANS[classification]}."


def sender_rule(rule: Rule) -> SenderRule | None:
    """The rule as one that code applies; None if it says more than that, or the person has not said it themselves."""
    if not _is_own_word(rule):
        return None
    for classification, form in _FORMS.items():
        if found := form.fullmatch(rule.text):
            whom = in_ascii((found["whom"] or found["of"]).removeprefix("@"))
            is_someone = is_valid_address(whom) or _DOMAIN.fullmatch(whom)
            return SenderRule(rule, whom, classification) if is_someone else None
    return None


def deciding(rules: Iterable[Rule], sender: str) -> Sequence[SenderRule]:
    """Those that say what a mail of this sender is, all the same; none where none does, or where they contradict.

    The narrowest decide: an address is an exception to its domain, and a subdomain to the one above it.
    """
    about = [each for rule in rules if (each := sender_rule(rule)) and each.is_about(in_ascii(sender))]
    narrowest = max((_breadth(each) for each in about), default=None)
    found = [each for each in about if _breadth(each) == narrowest]
    return found if len({each.classification for each in found}) == 1 else []


def believed(rules: Sequence[Rule], *, forged: bool) -> Sequence[Rule]:
    """Those that a model is shown with a mail: what is said of a sender is not said of whoever forged them."""
    return [rule for rule in rules if not sender_rule(rule)] if forged else rules


def contradictions(rules: Iterable[Rule]) -> list[tuple[Rule, Rule]]:
    """Pairs of them that say different things of mail from the same address or domain; neither decides alone."""
    found = filter(None, map(sender_rule, rules))
    return [
        (one.rule, other.rule)
        for one, other in combinations(found, 2)
        if one.whom == other.whom and one.classification != other.classification
    ]


def alone(rules: Iterable[Rule]) -> set[str]:
    """The keys of those that decide by themselves."""
    known = list(rules)
    torn = {rule.key for pair in contradictions(known) for rule in pair}
    return {rule.key for rule in known if sender_rule(rule)} - torn


def _breadth(rule: SenderRule) -> tuple[bool, int]:
    return "@" in rule.whom, len(rule.whom)


def _is_own_word(rule: Rule) -> bool:
    """A lesson that was undone leaves a version of no origin of its own: what counts is who wrote those words."""
    said = [version["origin"] for version in rule.versions if version["text"] == rule.text]
    return any(is_by_hand(origin) or "correction" in origin for origin in said)
