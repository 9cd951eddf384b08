"""Rules that only say what mail from an address or a domain is: which those are, and which of them decide."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from email_assistant.inbox.mails import CLASSES, Class
from email_assistant.mail.parse import parse_bytes
from email_assistant.memory.rules import Rule
from email_assistant.memory.senders import contradictions, deciding, sender_rule, stated

BY_HAND = {"did": "You wrote this rule.", "by": "cli"}
LEARNED = {"did": "You ignored it.", "item": "1"}
labels = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,8}[a-z0-9])?", fullmatch=True)
domains = st.builds(lambda *parts: ".".join(parts), labels, labels, st.sampled_from(["org", "example"]))
senders = st.builds(lambda local, domain: f"{local}@{domain}", labels, domains)


def rule(text: str, origin: dict[str, Any] | None = None, *history: dict[str, Any], key: str = "k") -> Rule:
    return Rule(key, text, origin or BY_HAND, "2026-01-01T00:00:00+00:00", list(history), removed=False)


def version(text: str, origin: dict[str, Any]) -> dict[str, Any]:
    return {"text": text, "origin": origin, "at": "2026-01-01T00:00:00+00:00", "removed": False}


def read(text: str) -> tuple[str, str] | None:
    found = sender_rule(rule(text))
    return (found.whom, found.classification) if found else None


@given(sender=senders, classification=st.sampled_from(CLASSES))
def test_what_a_correction_states_is_read_back(sender: str, classification: Class) -> None:
    assert read(stated(sender, classification)) == (sender, classification)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Ignore mail from example.org", ("example.org", "ignore")),
        ("ignore all e-mails from @News.Example.org.", ("news.example.org", "ignore")),
        ("Everything from bob@example.org is ignore.", ("bob@example.org", "ignore")),
        ("Always answer mail from bob@example.org", ("bob@example.org", "respond")),
        ("Notify me of messages from shop.example", ("shop.example", "notify")),
        ("Mail from shop.example is always to be ignored.", ("shop.example", "ignore")),
        ("Ignore mail from bücher.example", ("xn--bcher-kva.example", "ignore")),
        ("Ignore mail from Bob", None),
        ("Ignore mail from org", None),
        ("Ignore mail from a@x.example and b@x.example", None),
        ("Ignore mail from shop.example unless it is an invoice", None),
        ("Never ignore mail from shop.example", None),
        ("Show mail from shop.example", None),
        ("Do not answer mail from shop.example", None),
        ("Ignore mail from shop.example\u2028", None),
    ],
)
def test_only_what_says_nothing_else_is_one(text: str, found: tuple[str, str] | None) -> None:
    assert read(text) == found


@pytest.mark.parametrize(
    ("origin", "history", "own"),
    [
        (BY_HAND, [], True),
        ({"did": "You corrected it.", "correction": "1"}, [], True),
        (LEARNED, [], False),
        ({"did": "Taken back.", "undid": 2}, [version("Ignore mail from a.example", BY_HAND)], True),
        ({"did": "Taken back.", "undid": 2}, [version("Ignore mail from a.example", LEARNED)], False),
        (LEARNED, [version("Be brief.", BY_HAND)], False),
    ],
)
def test_only_the_persons_own_word_is_one(origin: dict[str, Any], history: list[dict[str, Any]], *, own: bool) -> None:
    assert (sender_rule(rule("Ignore mail from a.example", origin, *history)) is not None) is own


@given(sender=senders, other=senders)
def test_it_is_about_its_sender_alone(sender: str, other: str) -> None:
    rules = [rule(stated(sender, "ignore"))]
    assert bool(deciding(rules, sender.upper()))
    assert bool(deciding(rules, other)) is (sender == other)


class TestDomains:
    def test_are_about_their_subdomains_and_not_about_what_ends_alike(self) -> None:
        rules = [rule("Ignore mail from shop.example")]
        found = {who for who in ("a@shop.example", "a@m.shop.example", "a@myshop.example") if deciding(rules, who)}
        assert found == {"a@shop.example", "a@m.shop.example"}

    def test_have_exceptions(self) -> None:
        rules = [
            rule("Ignore mail from shop.example"),
            rule("Answer mail from boss@shop.example"),
            rule("Notify me of mail from m.shop.example"),
        ]
        found = {who: deciding(rules, f"{who}@shop.example")[0].classification for who in ("boss", "ads")}
        assert found == {"boss": "respond", "ads": "ignore"}
        assert deciding(rules, "boss@m.shop.example")[0].classification == "notify"
        assert contradictions(rules) == []


@given(
    classes=st.lists(st.sampled_from(CLASSES), min_size=1, max_size=5),
    others=st.lists(st.builds(stated, senders, st.sampled_from(CLASSES)), max_size=3),
    order=st.randoms(),
)
def test_where_they_contradict_none_decides_whatever_came_last(
    classes: list[Class], others: list[str], order: Any
) -> None:
    rules = [rule(stated("x@y.z-1.example", each), key=str(n)) for n, each in enumerate(classes)]
    rules += [rule(text, key=text) for text in others]
    order.shuffle(rules)
    agree = len(set(classes)) == 1
    assert {each.classification for each in deciding(rules, "x@y.z-1.example")} == (set(classes) if agree else set())
    pairs = [pair for pair in contradictions(rules) if "x@y.z-1" in pair[0].text]
    assert len(pairs) == sum(a != b for n, a in enumerate(classes) for b in classes[n + 1 :])


@pytest.mark.parametrize(
    ("fields", "forged"),
    [
        ([], False),
        (["mx.example; dkim=pass; spf=pass; dmarc=pass (p=REJECT)"], False),
        (["mx.example; spf=fail; dmarc=fail (p=NONE) header.from=shop.example"], True),
        (["mx.example;\r\n DMARC = Fail"], True),
        (["mx.example; dmarc=pass", "elsewhere.example; dmarc=fail"], False),
        (["mx.example; dmarc=fail", "elsewhere.example; dmarc=pass"], True),
    ],
)
def test_a_mail_is_forged_if_its_receiver_says_so(fields: list[str], *, forged: bool) -> None:
    headers = "".join(f"Authentication-Results: {field}\r\n" for field in fields)
    assert parse_bytes(f"{headers}From: a@shop.example\r\n\r\nHello".encode()).forged is forged


@pytest.mark.parametrize("said", ["bücher.example", "xn--bcher-kva.example", "BÜCHER.example"])
@pytest.mark.parametrize("came", ["news@bücher.example", "news@xn--bcher-kva.example"])
def test_both_spellings_of_a_domain_are_one_sender(said: str, came: str) -> None:
    [found] = deciding([rule(f"Ignore mail from {said}")], came)
    assert found.classification == "ignore"


def test_both_spellings_contradict_each_other() -> None:
    rules = [rule("Ignore mail from bücher.example"), rule("Answer mail from xn--bcher-kva.example", key="l")]
    assert contradictions(rules) == [tuple(rules)]
