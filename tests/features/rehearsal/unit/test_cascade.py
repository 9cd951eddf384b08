"""What the stage that learned from the person may decide, and that a new version unlearns nothing."""

from datetime import UTC, datetime, timedelta
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from email_assistant.features.rehearsal.habits.learned import NEWEST, REPLAYED, Predecessor, Truth, learn, next_version
from email_assistant.features.rehearsal.habits.proof import (
    MISSED,
    ONE_IN,
    WRONG,
    Judgement,
    is_checked,
    may_decide,
    prove,
)
from email_assistant.features.rehearsal.habits.study import Study
from email_assistant.features.rehearsal.habits.words import IGNORE, NOTIFY, OUTCOMES, RESPOND
from email_assistant.mail.address import Address
from email_assistant.mail.message import Mail
from email_assistant.sync.past_mails import Recorded

BEGAN = datetime(2026, 1, 5, tzinfo=UTC)
ADA = "ada@example.com"


def judged(number: int, thought: str = IGNORE, truth: str | None = None, **more: bool) -> list[Judgement]:
    given = {"decided": False, "checked": False, **more}
    return [Judgement(thought, 0.97, truth or thought, **given)] * number


class TestWhatMayBeDecided:
    def test_nothing_within_the_first_hundred_however_clean(self) -> None:
        for outcome in OUTCOMES:
            assert not may_decide(prove(judged(100, outcome)), outcome, 1.0)

    def test_to_ignore_takes_more_than_to_show(self) -> None:
        assert not may_decide(prove(judged(299, NOTIFY)), NOTIFY, 0.97)
        assert may_decide(prove(judged(300, NOTIFY)), NOTIFY, 0.97)
        assert not may_decide(prove(judged(1199)), IGNORE, 0.97)
        assert may_decide(prove(judged(1200)), IGNORE, 0.97)

    def test_two_answers_that_were_needed_among_as_many_are_too_much(self) -> None:
        assert may_decide(prove([*judged(1199), *judged(1, truth=RESPOND)]), IGNORE, 0.97)
        proof = prove([*judged(1198), *judged(2, truth=RESPOND)])
        assert proof.bound(IGNORE, WRONG) < 0.02
        assert proof.threshold(IGNORE) is None
        assert may_decide(prove([*judged(8, truth=NOTIFY), *judged(1192)]), IGNORE, 0.97)

    def test_of_the_past_only_what_it_tells_counts(self) -> None:
        """That a mail was opened does not say that it was to be shown."""
        assert may_decide(prove(judged(1200, past=True)), IGNORE, 0.97)
        assert may_decide(prove(judged(300, RESPOND, past=True)), RESPOND, 0.97)
        assert not may_decide(prove(judged(5000, NOTIFY, past=True)), NOTIFY, 0.97)

    def test_what_is_contradicted_now_outweighs_the_past(self) -> None:
        now = judged(3, truth=RESPOND, decided=True)
        assert not may_decide(prove([*judged(5000, past=True), *now]), IGNORE, 0.97)

    def test_silence_on_what_nobody_else_saw_proves_nothing(self) -> None:
        assert not may_decide(prove(judged(5000, decided=True)), IGNORE, 0.97)
        assert may_decide(prove(judged(1200, decided=True, checked=True)), IGNORE, 0.97)

    @pytest.mark.parametrize("checked", [False, True])
    def test_what_the_person_contradicts_counts_against_it_checked_or_not(self, checked: bool) -> None:
        proven = judged(1200)
        wrong = judged(3, truth=RESPOND, decided=True, checked=checked)
        assert not may_decide(prove([*proven, *wrong]), IGNORE, 0.97)

    def test_less_sure_than_the_lowest_proven_threshold_is_not_enough(self) -> None:
        assert not may_decide(prove(judged(1200)), IGNORE, 0.49)

    def test_the_lot_falls_on_one_in_so_many_and_again_on_the_same(self) -> None:
        drawn = [is_checked(f"{number:016x}") for number in range(20_000)]
        assert sum(drawn) == pytest.approx(20_000 / ONE_IN, rel=0.1)
        assert drawn == [is_checked(f"{number:016x}") for number in range(20_000)]

    @given(st.lists(st.tuples(st.sampled_from(OUTCOMES), st.sampled_from(OUTCOMES), st.floats(0, 1)), max_size=60))
    def test_the_same_rows_prove_the_same(self, rows: list[tuple[str, str, float]]) -> None:
        cases = [Judgement(thought, confidence, truth, False, False) for thought, truth, confidence in rows]
        one, other = prove(cases), prove(list(cases))
        assert all(one.bound(kind, WRONG) == other.bound(kind, WRONG) for kind in OUTCOMES)
        assert one.bound(IGNORE, MISSED) == other.bound(IGNORE, MISSED)


SENDERS = {"news@shop.example": IGNORE, "build@ci.example": NOTIFY, "eve@firm.example": RESPOND}
WORDS = {IGNORE: "offer chairs save now", NOTIFY: "the build has passed", RESPOND: "can you send me the plan please"}


def mails(number: int, seed: int) -> list[Recorded]:
    random = Random(seed)
    found = []
    for place in range(number):
        sender, needs = random.choice(list(SENDERS.items()))
        text = f"{' '.join(random.sample(WORDS[needs].split(), 3))} {random.randrange(50)}"
        at = BEGAN + timedelta(hours=place)
        mail = Mail(
            f"<{place}>", None, (), Address("", sender), (), (Address("", ADA),), (), text[:20], at, text, text, (),
            auto_submitted=False, bulk=False, note="",
        )  # fmt: skip
        found.append(Recorded(str(place), mail, at, False, frozenset(), str(place)))
    return found


class TestVersions:
    @pytest.mark.parametrize(
        "feedback",
        [
            "turned round",
            *(pytest.param(kind, marks=pytest.mark.long) for kind in ("steady", "at random", "one class", "half")),
        ],
    )
    def test_no_feedback_lowers_the_accuracy_on_earlier_decisions(self, feedback: str) -> None:
        entries, random = mails(1000, seed=3), Random(4)
        turned = dict(zip(OUTCOMES, (RESPOND, IGNORE, NOTIFY), strict=True))

        def taught(place: int, entry: Recorded) -> str:
            assert entry.mail.sender
            needs = SENDERS[entry.mail.sender.email]
            if place < 520 or feedback == "steady":
                return needs
            if feedback == "half":
                return turned[needs] if place % 2 else needs
            return {"turned round": turned[needs], "at random": random.choice(OUTCOMES)}.get(feedback, IGNORE)

        known = [Truth(e.id, taught(place, e), e.at + timedelta(minutes=1)) for place, e in enumerate(entries)]
        study = Study([ADA], {each.mail_id: each.truth for each in known})
        study.take(entries)
        before, _ = learn(study, known[:520], None, next_version(known[:520], is_first=True))
        assert before is not None
        kept_one = []
        for upto in (700, 1000):
            version = next_version(known[:upto], is_first=False)
            after, tried = learn(study, known[:upto], Predecessor(*before), version)
            assert after is not None and tried is not None  # noqa: PT018 - for the types
            earlier = [each for each in known[:upto] if each.known_at <= before[0]][-REPLAYED:]
            replayed = study.examples({each.mail_id for each in earlier})
            assert replayed.wrong(after[1]) <= replayed.wrong(before[1])
            assert tried.newest == min(NEWEST, upto // 5)
            kept_one.append(after[0] == version)
            before = after
        if feedback == "steady":
            assert any(kept_one)
        if feedback == "turned round":
            assert not all(kept_one)

    def test_the_same_examples_make_the_same_classifier(self) -> None:
        entries = mails(160, seed=5)
        known = [Truth(e.id, SENDERS[e.mail.sender.email], e.at) for e in entries if e.mail.sender]
        given = []
        for _ in range(2):
            study = Study([ADA], {each.mail_id: each.truth for each in known})
            study.take(entries)
            learned, _ = learn(study, known, None, known[-1].known_at)
            assert learned is not None
            given.append([study.judge(learned[1], each.mail, each.at) for each in entries[-20:]])
        assert given[0] == given[1]
