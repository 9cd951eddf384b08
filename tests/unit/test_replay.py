"""What other rules would have made of mail that the person decided on."""

from collections.abc import Sequence
from datetime import UTC, datetime
from uuid import uuid4

from hypothesis import given
from hypothesis import strategies as st

from email_assistant.inbox.mails import CLASSES, Class
from email_assistant.memory.rules import Rule
from email_assistant.memory.senders import deciding
from email_assistant.memory.trial import PastDecision, otherwise

SENDERS = ("ann@a.example", "bob@a.example", "cai@b.example", "dan@m.b.example")
WHOM = (*SENDERS, "a.example", "b.example")
classes = st.sampled_from(CLASSES)
words = st.builds(
    "{} mail from {}.".format, st.sampled_from(["Ignore", "Notify me of", "Answer"]), st.sampled_from(WHOM)
)
wanted = st.frozensets(classes, min_size=1, max_size=2)
mails = st.lists(st.tuples(st.sampled_from(SENDERS), classes, wanted), max_size=12)


def rule(text: str) -> Rule:
    return Rule(str(uuid4()), text, {"did": "You wrote it."}, "2026-01-01T00:00:00+00:00", [], removed=False)


def decided(rows: Sequence[tuple[str, Class, frozenset[Class]]]) -> list[PastDecision]:
    at = datetime.now(UTC)
    return [PastDecision(str(n), sender, "", given, right, at) for n, (sender, given, right) in enumerate(rows)]


def right_ones(rules: Sequence[Rule], decisions: Sequence[PastDecision]) -> set[str]:
    """Mails that these rules sort as the person wants them; what is left to the model counts as triage had it."""
    found = ((each, deciding(rules, each.sender)) for each in decisions)
    return {each.mail for each, by in found if (by[0].classification if by else each.given) in each.right}


@given(rows=mails, taught=st.lists(st.tuples(words, st.booleans()), max_size=8))
def test_what_breaks_nothing_loses_no_decision_whatever_is_taught(
    rows: list[tuple[str, Class, frozenset[Class]]], taught: list[tuple[str, bool]]
) -> None:
    """Feedback in bad faith: any rule, added or put in the place of the oldest, one after the other."""
    decisions, rules = decided(rows), list[Rule]()
    for text, replaces in taught:
        after = [*rules[replaces:], rule(text)]
        if not any(each.is_broken for each in otherwise(rules, after, decisions)):
            assert right_ones(rules, decisions) <= right_ones(after, decisions)
            rules = after


@given(rows=mails, texts=st.lists(words, max_size=5))
def test_rules_that_stay_change_nothing_in_whatever_order(
    rows: list[tuple[str, Class, frozenset[Class]]], texts: list[str]
) -> None:
    rules = [rule(text) for text in texts]
    assert otherwise(rules, rules[::-1], decided(rows)) == []


def test_what_is_left_to_the_model_again_may_be_broken() -> None:
    [decision] = decided([("ann@a.example", "notify", frozenset({"ignore"}))])
    [found] = otherwise([rule("Ignore mail from a.example.")], [], [decision])
    assert (found.was, found.becomes, found.is_broken) == ("ignore", "read", True)


def test_what_was_wrong_may_become_anything() -> None:
    [decision] = decided([("ann@a.example", "notify", frozenset({"ignore"}))])
    [found] = otherwise([], [rule("Answer mail from a.example.")], [decision])
    assert (found.was, found.becomes, found.is_broken) == ("notify", "respond", False)
