"""What would have been thought of past mail: by what was known on its day, and nothing that came later."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random

import pytest

from email_assistant.features.rehearsal.habits.learned import FIRST, Backtested, backtest
from email_assistant.features.rehearsal.habits.pairing import WITHIN
from email_assistant.features.rehearsal.habits.study import Study
from email_assistant.features.rehearsal.habits.words import IGNORE, NOTIFY, RESPOND
from email_assistant.mail.address import Address
from email_assistant.mail.message import Mail
from email_assistant.sync.past_mails import Recorded

BEGAN = datetime(2026, 1, 5, tzinfo=UTC)
ADA = "ada@example.com"
KINDS = {
    "news@shop.example": ("offer chairs save now", {"unread"}),
    "build@ci.example": ("the build has passed", {"inbox"}),
    "eve@firm.example": ("can you send me the plan", {"inbox"}),
}


def letter(identity: str, sender: str, to: str, text: str, at: datetime, answers: str | None = None) -> Mail:
    return Mail(
        identity, answers, (), Address("", sender), (), (Address("", to),), (), text[:20], at, text, text, (),
        auto_submitted=False, bulk=False, note="",
    )  # fmt: skip


def history(mails: int) -> list[Recorded]:
    """Eve's are answered the next day, all but the last ones, the shop's lie unopened, the others are read."""
    random, found = Random(8), []
    for place in range(mails):
        sender, (words, labels) = random.choice(list(KINDS.items()))
        at, identity = BEGAN + timedelta(hours=3 * place), f"<{place}>"
        text = f"{' '.join(random.sample(words.split(), 3))} {random.randrange(50)}"
        mail = letter(identity, sender, ADA, text, at)
        found.append(Recorded(identity, mail, at, False, frozenset(labels), ""))
        if sender.startswith("eve"):
            own, at = f"<own.{place}>", at + timedelta(days=1)
            found.append(
                Recorded(own, letter(own, ADA, sender, "Yes.", at, identity), at, True, frozenset({"sent"}), "")
            )
    return sorted(found, key=lambda each: each.at)


def backtested(entries: list[Recorded]) -> list[Backtested]:
    study = Study([ADA])
    study.take(entries)
    return backtest(study, entries)


@pytest.fixture(scope="module")
def entries() -> list[Recorded]:
    return history(360)


@pytest.fixture(scope="module")
def found(entries: list[Recorded]) -> list[Backtested]:
    return backtested(entries)


def test_each_is_judged_once_by_what_was_known_before_it_came(entries: list[Recorded], found: list[Backtested]) -> None:
    came = {each.id: each.at for each in entries if not each.own}
    assert len({each.mail_id for each in found}) == len(found) > FIRST
    assert all(each.version <= came[each.mail_id] == each.known_at - WITHIN for each in found)
    assert all(sum(at + WITHIN <= each.version for at in came.values()) >= FIRST for each in found)


def test_what_became_of_it_is_told_by_letters_and_labels(entries: list[Recorded], found: list[Backtested]) -> None:
    senders = {each.id: each.mail.sender.email for each in entries if each.mail.sender}
    truths = {"news@shop.example": IGNORE, "build@ci.example": NOTIFY, "eve@firm.example": RESPOND}
    assert all(each.truth == truths[senders[each.mail_id]] for each in found)
    assert sum(each.thought == each.truth for each in found) > 0.9 * len(found)


def test_the_same_history_tells_the_same(entries: list[Recorded], found: list[Backtested]) -> None:
    assert backtested(entries) == found


@pytest.mark.parametrize("change", ["gone", "turned round", "answered"])
def test_no_later_mail_changes_what_was_judged(entries: list[Recorded], found: list[Backtested], change: str) -> None:
    since = BEGAN + timedelta(days=34)
    earlier = [each for each in entries if each.at < since]
    later = [each for each in entries if each.at >= since]
    if change == "turned round":
        later = [
            replace(each, labels=frozenset({"inbox"} if "unread" in each.labels else {"unread"})) for each in later
        ]
    elif change == "answered":
        later = [
            *(each for each in later if not each.own),
            *(
                Recorded(f"{each.id}!", letter(f"{each.id}!", ADA, str(each.mail.sender and each.mail.sender.email),
                         "No.", since, each.id), since, True, frozenset({"sent"}), "")
                for each in earlier if not each.own
            ),
        ]  # fmt: skip
        later.sort(key=lambda each: each.at)
    else:
        later = []
    again = {each.mail_id: each for each in backtested([*earlier, *later])}
    before = [each for each in found if each.known_at - WITHIN < since]
    assert len(before) > 20
    for each in before:
        now = again[each.mail_id]
        assert (now.thought, now.confidence, now.version) == (each.thought, each.confidence, each.version)
        assert now.truth == each.truth or each.known_at > since
