"""The classifier's room: what a mail shows, what is known of its sender, and what is learned from both."""

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random

import pytest

from email_assistant.features.rehearsal.habits import words
from email_assistant.features.rehearsal.habits.classifier import TooFewOutcomes, train
from email_assistant.features.rehearsal.habits.correspondence import Correspondence
from email_assistant.features.rehearsal.habits.words import by_rules
from email_assistant.features.rehearsal.ways import calibration, roc_auc
from email_assistant.mail.address import parse_addresses
from email_assistant.mail.message import Mail
from email_assistant.mail.phrases import subject_of_conversation
from email_assistant.sync.past_mails import Recorded

ME = "vera.lindqvist@example.com"
MONDAY = datetime(2026, 3, 2, 9, tzinfo=UTC)
DAY = timedelta(days=1)


def mail(body: str = "Hello.", *, sender: str = "Ada <ada@x.example>", to: str = ME, subject: str = "Figures") -> Mail:
    [address] = parse_addresses(sender)
    return Mail(
        None, None, (), address, (), parse_addresses(to), (), subject, None, body, body, (), False, False, ""
    )  # fmt: skip


def facts(*mails: Mail, of: Mail | None = None, answered: bool = False) -> dict[str, float]:
    """What is known of the last mail, a day after each of those before it."""
    correspondence = Correspondence([ME])
    for number, each in enumerate(mails):
        came(correspondence, each, MONDAY + number * DAY, answered_after=DAY / 2 if answered else None)
    return correspondence.facts(of or mail(), MONDAY + len(mails) * DAY)


def came(correspondence: Correspondence, received: Mail, at: datetime, answered_after: timedelta | None) -> None:
    identity = f"<{at.timestamp()}@x.example>"
    correspondence.received(Recorded(identity, received, at, False, frozenset(), ""))
    if answered_after:
        assert received.sender
        answer = mail(sender=ME, to=received.sender.email, subject=f"Re: {received.subject}")
        wrote(correspondence, replace(answer, in_reply_to=identity), at + answered_after)


def wrote(correspondence: Correspondence, letter: Mail, at: datetime) -> None:
    correspondence.wrote(Recorded(f"<{at.timestamp()}@me.example>", letter, at, True, frozenset(), ""))


class TestFacts:
    @pytest.mark.parametrize(
        ("to", "fact"),
        [
            (ME, "addressed to you alone"),
            (f"{ME}, bob@y.example", "addressed to you and few"),
            (f"{ME}, " + ", ".join(f"p{n}@y.example" for n in range(9)), "addressed to you and many"),
            ("all@y.example", "not addressed to you by name"),
        ],
    )
    def test_whom_it_is_addressed_to(self, to: str, fact: str) -> None:
        found = facts(of=mail(to=to))
        assert found[fact] == 1
        assert sum(found[each] for each in found if each.startswith(("addressed", "not addressed", "copied"))) == 1

    def test_a_copy(self) -> None:
        of = replace(mail(to="bob@y.example"), cc=parse_addresses(ME))
        assert facts(of=of)["copied to you"] == 1

    def test_the_greeting_names_the_person_as_others_do(self) -> None:
        named = mail(to=f'"Vera L. Lindqvist (Verchen)" <{ME}>')
        assert facts(of=mail("Dear Vera,\nhello"))["greets you"] == 1
        assert facts(of=mail("Dear Bob,\nVera is away"))["greets you"] == 0
        assert facts(of=mail("Hi Verchen,\nhello"))["greets you"] == 0
        assert facts(named, of=mail("Hi Verchen,\nhello"))["greets you"] == 1

    @pytest.mark.parametrize("ask", ["Can you come?", "Please send it.", "Let me know what you think."])
    def test_a_request_in_the_tail_is_seen_behind_much_text(self, ask: str) -> None:
        long = "The pipeline was looked at. " * 400
        assert facts(of=mail(f"{long}\n{ask}"))["asks near the end"] == 1
        assert facts(of=mail(long))["asks near the end"] == 0

    def test_machines(self) -> None:
        found = facts(of=replace(mail(sender="no-reply@x.example"), auto_submitted=True, bulk=True))
        names = ("from a machine", "to a list or by mass mail", "from a no-reply address")
        assert [found[name] for name in names] == [1, 1, 1]

    def test_every_mail_has_the_same_facts_and_they_are_figures(self) -> None:
        empty = replace(mail("", to="bob@y.example", subject=""), sender=None, to=())
        assert facts().keys() == facts(of=empty).keys()
        assert all(math.isfinite(value) for value in facts(of=empty).values())


class TestCorrespondence:
    SHARE = "share of the sender's mails that you answered"

    def test_a_share_begins_with_what_is_usual_and_moves_to_the_senders_own(self) -> None:
        unknown = facts()[self.SHARE]
        assert facts(mail(), answered=True)[self.SHARE] > unknown > facts(mail())[self.SHARE]
        assert facts(*[mail()] * 9, answered=True)[self.SHARE] > facts(mail(), answered=True)[self.SHARE]

    def test_a_new_sender_is_known_by_the_domain(self) -> None:
        of = mail(sender="new@x.example")
        known = [mail(sender=f"p{n}@x.example") for n in range(6)]
        assert facts(*known, of=of, answered=True)[self.SHARE] > facts(*known, of=of)[self.SHARE]

    def test_lately_counts_what_was_lately(self) -> None:
        correspondence = Correspondence([ME])
        for number in range(20):
            came(correspondence, mail(), MONDAY + number * 20 * DAY, answered_after=DAY if number < 10 else None)
        found = correspondence.facts(mail(), MONDAY + 400 * DAY)
        assert found["the same, lately"] < found[self.SHARE]

    def test_an_answer_to_ones_own_letter(self) -> None:
        correspondence = Correspondence([ME])
        wrote(correspondence, mail(sender=ME, to="ada@x.example", subject="Pipes"), MONDAY)
        found = correspondence.facts(mail(subject="RE: Pipes"), MONDAY + DAY)
        assert found["answers a mail of yours"] == found["you wrote in this conversation"] == 1
        other = correspondence.facts(mail(subject="RE: Tubes"), MONDAY + DAY)
        assert other["answers a mail of yours"] == other["you wrote in this conversation"] == 0

    def test_an_old_conversation_of_the_same_subject_is_over(self) -> None:
        correspondence = Correspondence([ME])
        wrote(correspondence, mail(sender=ME, to="ada@x.example", subject="Report"), MONDAY)
        assert correspondence.facts(mail(subject="Report"), MONDAY + 40 * DAY)["the last word was yours"] == 0

    @pytest.mark.parametrize(
        "subject", ["Figures", "RE: Figures", "Re: AW: figures", "Fwd: Re: Figures ", "re[2]: Figures"]
    )
    def test_the_subject_of_a_conversation(self, subject: str) -> None:
        assert subject_of_conversation(subject) == "figures"


class TestClassifier:
    @pytest.fixture
    def examples(self) -> tuple[list[Mail], list[str]]:
        random = Random(4)
        made = [(random.choice(("lunch", "pipes")), random.random() < 0.5) for _ in range(700)]
        mails = [
            mail(f"About {what}{' - can you?' if asks else '.'}", subject=f"{what} {n}")
            for n, (what, asks) in enumerate(made)
        ]
        return mails, ["answered" if what == "pipes" and asks else "left" for what, asks in made]

    @pytest.mark.parametrize("count", [120, 700])
    def test_it_learns_what_words_and_facts_mean_together(
        self, examples: tuple[list[Mail], list[str]], count: int
    ) -> None:
        mails, outcomes = examples
        found = train([facts(of=each) for each in mails[:count]], words.rows(mails[:count]), outcomes[:count])
        asked = [mail("About pipes - can you?"), mail("About lunch - can you?"), mail("About pipes.")]
        given = found.probabilities([facts(of=each) for each in asked], words.rows(asked))[:, 0]
        assert found.outcomes == ("answered", "left")
        assert given[0] > 0.5 > max(given[1:])

    def test_the_same_examples_make_the_same_classifier(self, examples: tuple[list[Mail], list[str]]) -> None:
        mails, outcomes = examples
        table, rows = [facts(of=each) for each in mails], words.rows(mails)
        one, other = train(table, rows, outcomes), train(table, rows, outcomes)
        assert (one.probabilities(table, rows) == other.probabilities(table, rows)).all()

    def test_a_judgement_does_not_depend_on_what_is_judged_beside_it(
        self, examples: tuple[list[Mail], list[str]]
    ) -> None:
        mails, outcomes = examples
        table, rows = [facts(of=each) for each in mails], words.rows(mails)
        found = train(table, rows, outcomes)
        assert (found.probabilities(table, rows)[:5] == found.probabilities(table[:5], rows[:5])).all()

    def test_one_outcome_is_nothing_to_learn(self) -> None:
        with pytest.raises(TooFewOutcomes, match="same outcome"):
            train([facts()] * 3, words.rows([mail()] * 3), ["left"] * 3)

    def test_no_word_of_a_mail_is_kept(self, examples: tuple[list[Mail], list[str]]) -> None:
        mails, outcomes = examples
        found = train([facts(of=each) for each in mails], words.rows(mails), outcomes)
        assert "pipes" not in repr(found)
        assert words.rows(mails).shape == (700, words.WIDTH)


def test_plain_rules() -> None:
    for body, outcome in (
        ("Could you send me the figures by Friday?", "respond"),
        ("For your information: the figures are on track. No action needed.", "notify"),
        ("Exclusive offer! 50% discount, limited time. Click here to order now.", "ignore"),
    ):
        assert by_rules(facts(of=mail(body))) == outcome


class TestFigures:
    def test_auc(self) -> None:
        assert roc_auc([True, False, True, False], [0.9, 0.8, 0.7, 0.1]) == 0.75
        assert roc_auc([True, False], [0.5, 0.5]) == 0.5
        assert roc_auc([True], [0.5]) is None

    def test_calibration(self) -> None:
        [low, high] = calibration([False, True, True], [0.1, 0.9, 1.0])
        assert (low.cases, low.observed, high.cases, high.observed, high.expected) == (1, 0.0, 2, 1.0, 0.95)
