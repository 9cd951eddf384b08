"""The walk through a person's own history: what answers what, and that nothing is known before its time."""

import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.message import EmailMessage
from email.utils import format_datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from email_assistant.features.rehearsal.mbox import read
from email_assistant.features.rehearsal.report import Period, rehearsed, report, write_scores
from email_assistant.features.rehearsal.walk import AIM, ENOUGH, Prediction, Walked, held_out, threshold, walk
from email_assistant.features.rehearsal.ways import by_each_way, compare
from email_assistant.mail.address import Address
from email_assistant.mail.message import Mail
from email_assistant.sync.past_mails import NoHistory, Recorded
from tests.histories import ALIAS, PERSON, Person

OWN = frozenset({PERSON, ALIAS})
MONDAY = datetime(2026, 3, 2, 9, tzinfo=UTC)
LETTER = (
    "Could you send me the figures of the northern pipeline by Friday?\nThe board wants to see them before it meets."
)


def letter(number: str, after: timedelta = timedelta(), body: str = LETTER, **headers: str) -> bytes:
    """One mail of an mbox file, from Ada to the person unless told otherwise."""
    message = EmailMessage()
    at = MONDAY + after
    given = {"From": "Ada <ada@x.example>", "To": PERSON, "Subject": "Figures", "Message-ID": f"<{number}@x.example>"}
    for name, value in (given | {"Date": format_datetime(at)} | headers).items():
        if value:
            message[name.replace("_", "-")] = value
    message.set_content(body)
    return b"From x@y " + at.strftime("%a %b %d %H:%M:%S %Y").encode() + b"\n" + message.as_bytes() + b"\n\n"


def answer(hours: float, body: str = "Here they are.", **headers: str) -> bytes:
    return letter(
        f"own{hours}",
        timedelta(hours=hours),
        body,
        **{"From": f"Vera <{PERSON}>", "To": "ada@x.example", "Subject": "Re: Figures"} | headers,
    )


def history(tmp_path: Path, *mails: bytes) -> list[Recorded]:
    path = tmp_path / "mail.mbox"
    path.write_bytes(b"".join(mails))
    return read(path, OWN)


def walked(tmp_path: Path, *mails: bytes) -> dict[str, Prediction]:
    return {each.entry.id: each for each in walk(history(tmp_path, *mails), OWN).judged}


def answered(tmp_path: Path, *mails: bytes) -> set[str]:
    return {name.strip("<>").partition("@")[0] for name, each in walked(tmp_path, *mails).items() if each.answered}


def test_no_mail_comes_in_the_future(tmp_path: Path) -> None:
    late, lost = letter("late", Date="Thu, 01 Jan 2099 09:00:00 +0000"), letter("lost", timedelta(hours=1))
    entries = history(tmp_path, late, lost, answer(2))
    assert [(each.id, each.at) for each in entries[:2]] == [
        ("<late@x.example>", MONDAY), ("<lost@x.example>", MONDAY + timedelta(hours=1))
    ]  # fmt: skip


class TestPairing:
    def test_by_the_header(self, tmp_path: Path) -> None:
        found = walked(tmp_path, letter("a"), letter("b", timedelta(hours=1)), answer(5, In_Reply_To="<a@x.example>"))
        assert found["<a@x.example>"].answered_after == timedelta(hours=5)
        assert not found["<b@x.example>"].answered

    def test_by_references_only_of_those_whom_it_goes_to(self, tmp_path: Path) -> None:
        mails = (letter("a"), letter("b", timedelta(hours=1)), letter("c", From="bob@y.example"))
        references = "<c@x.example> <a@x.example> <b@x.example>"
        assert answered(tmp_path, *mails, answer(5, References=references)) == {"a", "b"}

    def test_by_gmails_conversation(self, tmp_path: Path) -> None:
        mails = (letter("a", X_GM_THRID="7"), letter("b", X_GM_THRID="8", From="bob@y.example"))
        assert answered(tmp_path, *mails, answer(5, Subject="Something else", X_GM_THRID="7")) == {"a"}

    @pytest.mark.parametrize(
        "quoted",
        [
            "Here.\n\n> " + LETTER.replace("\n", "\n> "),
            f"Here.\n\n-----Original Message-----\nFrom: Ada\nSent: Monday\nSubject: Figures\n\n{LETTER}",
            f"Here.\n\n\n\n\nAda@XY\n03/02/2026 09:00 AM\nTo: Vera/HOU/XY\ncc:\nSubject: Figures\n\n{LETTER}",
            "Here.\n\n> " + LETTER.replace(" the ", "\n> the ").replace("\nThe", " The"),
        ],
        ids=["marks", "original message", "notes", "broken lines"],
    )
    def test_by_what_it_quotes(self, tmp_path: Path, quoted: str) -> None:
        other = letter("b", timedelta(hours=1), "Shall we have lunch on Thursday at the usual place with the others?")
        assert answered(tmp_path, letter("a"), other, answer(5, quoted)) == {"a"}

    def test_by_subject_with_sender_and_order(self, tmp_path: Path) -> None:
        mails = (
            letter("a"),
            letter("other-sender", From="bob@y.example"),
            letter("other-subject", Subject="Lunch"),
            letter("to-others", To="carl@z.example, dora@z.example"),
            letter("later", timedelta(hours=9)),
        )
        assert answered(tmp_path, *mails, answer(5)) == {"a"}

    def test_the_same_subject_is_no_answer_to_somebody_else(self, tmp_path: Path) -> None:
        assert answered(tmp_path, letter("a"), answer(5, To="bob@y.example")) == set()

    def test_not_after_two_weeks(self, tmp_path: Path) -> None:
        assert answered(tmp_path, letter("a"), answer(14 * 24 + 1, In_Reply_To="<a@x.example>")) == set()

    def test_a_machines_answer_is_none(self, tmp_path: Path) -> None:
        away = answer(1, In_Reply_To="<a@x.example>", Auto_Submitted="auto-replied")
        assert answered(tmp_path, letter("a"), away) == set()

    def test_a_mail_that_was_passed_on(self, tmp_path: Path) -> None:
        [found] = walked(
            tmp_path, letter("a"), answer(5, f"FYI\n\n{LETTER}", To="bob@y.example", Subject="Fw: Figures")
        ).values()
        assert found.forwarded
        assert not found.answered

    def test_a_mail_that_is_gone_counts_by_its_quotation(self, tmp_path: Path) -> None:
        quoting = answer(5, "Here.\n\n> Where are the minutes of the last meeting?\n> I need them.")
        assert walk(history(tmp_path, letter("a", Subject="Lunch"), quoting), OWN).deleted == 1

    def test_on_invented_histories(self, tmp_path: Path) -> None:
        """Without In-Reply-To, and with a third of the answered mails gone."""
        truth = Person(3, threads=False, deletes=0.3).history(1500)
        mails = history(tmp_path, truth.mbox)
        before_all = mails[0].at - timedelta(days=1)  # nothing is learned, which pairing asks nothing of
        found = {each.entry.id for each in walk(mails, OWN, before_all).judged if each.answered}
        assert len(found & truth.answered) >= 0.95 * len(truth.answered)
        assert len(found & truth.answered) >= 0.9 * len(found)


class TestFile:
    def test_what_looks_like_a_separator_within_a_text_is_text(self, tmp_path: Path) -> None:
        mails = history(tmp_path, letter("a", body="Dear all,\n\nFrom Monday on we meet.\n\nFrom here: x"), answer(1))
        assert len(mails) == 2
        assert "we meet" in mails[0].mail.body

    def test_a_mail_in_two_folders_is_one(self, tmp_path: Path) -> None:
        [first, _] = history(tmp_path, letter("a"), letter("copy"), letter("a"), answer(1))
        assert (first.id, first.copies) == ("<a@x.example>", ("<copy@x.example>",))

    def test_drafts_and_chats_are_left_out(self, tmp_path: Path) -> None:
        mails = (letter("a", X_Gmail_Labels="Draft"), letter("b", X_Gmail_Labels="Chat"), answer(1))
        assert len(history(tmp_path, *mails)) == 1

    def test_googles_labels(self, tmp_path: Path) -> None:
        labels = "=?UTF-8?Q?Inbox,Starred,Caf=C3=A9?="
        [mail, own] = history(
            tmp_path, letter("a", X_Gmail_Labels=labels), letter("b", timedelta(hours=1), X_Gmail_Labels="Sent")
        )
        assert mail.labels == {"inbox", "starred", "café"}
        assert own.own

    @pytest.mark.parametrize("date", ["", "Yesterday", "Mon, 99 Foo 2026 99:99:99 +9999", "=?x?b?!!?="])
    def test_a_broken_date_is_that_of_the_separator(self, tmp_path: Path, date: str) -> None:
        assert history(tmp_path, letter("a", timedelta(hours=2), Date=date), answer(3))[0].at == MONDAY + timedelta(
            hours=2
        )

    @pytest.mark.parametrize(
        ("content", "said"),
        [
            (b"", "is empty"),
            (b"\n\n\n", "is empty"),
            (b"Subject: x\n\nHello", "it looks like one single mail"),
            (b"\x1f\x8b\x08\x00", "packed by gzip"),
            (b"PK\x03\x04", "packed by zip"),
            (b"\xff\xfe\x00 junk", "does not begin with"),
            (b"From nowhere\n\n\n", "no mail with a header"),
            (letter("a"), f"none of them from {ALIAS} or {PERSON}"),
        ],
    )
    def test_what_is_none_is_said_in_words(self, tmp_path: Path, content: bytes, said: str) -> None:
        path = tmp_path / "mail.mbox"
        path.write_bytes(content)
        with pytest.raises(NoHistory, match=said):
            read(path, OWN)

    def test_there_is_no_file(self, tmp_path: Path) -> None:
        for path, said in ((tmp_path / "none.mbox", "no such file"), (tmp_path, "is a folder")):
            with pytest.raises(NoHistory, match=said):
                read(path, OWN)

    @settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
    @given(st.lists(st.binary(max_size=200), max_size=6), st.randoms(use_true_random=False))
    def test_whatever_bytes_there_are(self, tmp_path: Path, junk: list[bytes], chance: random.Random) -> None:
        whole = bytearray(letter("a") + answer(1) + letter("b", timedelta(hours=3)))
        for each in junk:
            place = chance.randrange(len(whole))
            whole[place : place + chance.randrange(20)] = each
        path = tmp_path / "mail.mbox"
        path.write_bytes(bytes(whole))
        with suppress(NoHistory):
            walk(read(path, OWN), OWN)


@pytest.fixture(scope="module")
def entries(tmp_path_factory: pytest.TempPathFactory) -> list[Recorded]:
    path = tmp_path_factory.mktemp("history") / "mail.mbox"
    path.write_bytes(Person(21, threads=False).history(650, days=300).mbox)
    return read(path, OWN)


@pytest.fixture(scope="module")
def found(entries: list[Recorded]) -> Walked:
    return walk(entries, OWN)


@pytest.fixture(scope="module")
def whole(found: Walked) -> list[tuple[str, float, bool]]:
    return told(found.judged)


@pytest.fixture(scope="module")
def until(entries: list[Recorded]) -> datetime:
    return entries[500].at


@pytest.fixture(scope="module")
def found_after(entries: list[Recorded], until: datetime) -> Walked:
    return walk(entries, OWN, until)


def told(found: Sequence[Prediction]) -> list[tuple[str, float, bool]]:
    return [(each.entry.id, each.probability, each.shown) for each in found]


class TestNoLookAhead:
    @settings(max_examples=4, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
    @given(st.integers(250, 780), st.sampled_from(["cut off", "emptied", "all answered", "none answered"]))
    def test_what_comes_later_changes_no_earlier_judgement(
        self, entries: list[Recorded], whole: list[tuple[str, float, bool]], place: int, what: str
    ) -> None:
        now = entries[min(place, len(entries) - 1)].at
        before = [entry for entry in entries if entry.at <= now]
        after = [entry for entry in entries if entry.at > now]
        match what:
            case "cut off":
                after = []
            case "emptied":
                after = [_emptied(entry) for entry in after]
            case "all answered":
                after = [_answer_to(entry, now) for entry in before if not entry.own]
            case _:
                after = [entry for entry in after if not entry.own]
        changed = told(walk([*before, *after], OWN).judged)
        received = sum(not entry.own for entry in before)
        assert any(0 < probability < 1 for _, probability, _ in whole[150:received])
        assert changed[:received] == whole[:received]

    def test_of_what_came_after_the_day_nothing_is_learned(
        self, entries: list[Recorded], until: datetime, found_after: Walked
    ) -> None:
        """How those write to each other is seen all the same, and so is left out here: the classifier is the same."""
        one = found_after.classifier
        other = walk([entry for entry in entries if entry.at <= until] + [_emptied(entries[-1])], OWN, until).classifier
        assert one
        assert other
        assert one.weights("answered") == other.weights("answered")

    def test_only_what_came_after_the_day_is_judged(self, until: datetime, found_after: Walked) -> None:
        assert {each.entry.at > until for each in found_after.judged} == {True}


def _emptied(entry: Recorded) -> Recorded:
    return replace(entry, mail=replace(entry.mail, subject="", body="", text="", to=(), cc=()))


def _answer_to(entry: Recorded, now: datetime) -> Recorded:
    own = replace(entry.mail, in_reply_to=entry.id, references=(), message_id=f"<late{entry.id[1:]}", subject="Re: x")
    return replace(entry, id=f"<late{entry.id[1:]}", mail=own, own=True, at=now + timedelta(minutes=1), copies=())


class TestThreshold:
    def test_what_it_is_chosen_on_was_not_learned_from(
        self, entries: list[Recorded], until: datetime, found_after: Walked
    ) -> None:
        settled = [each for each in entries if not each.own and until - each.at > timedelta(days=14)]
        newest = {each.id for each in settled[-40:]}
        changed = [_emptied(each) if each.id in newest else each for each in entries]
        one, other = found_after.classifier, walk(changed, OWN, until).classifier
        assert one
        assert other
        assert one.weights("answered") == other.weights("answered")

    def test_of_a_conversation_that_is_learned_from_it_is_not_chosen_on_a_later_mail(self, tmp_path: Path) -> None:
        every = [letter(str(n), timedelta(hours=n), Subject=f"Re: Talk {n % 90 if n % 3 else n}") for n in range(400)]
        mails = [each for each in history(tmp_path, *every, answer(900)) if not each.own]
        held = held_out(mails, [place % 2 == 0 for place in range(400)])
        assert held
        learned = {each.mail.subject for each in mails[: held.learned]}
        assert len(held.answered) >= ENOUGH
        assert min(held.answered) >= held.learned
        assert not learned & {mails[place].mail.subject for place in held.answered}

    @pytest.mark.parametrize(("answered", "is_enough"), [(ENOUGH - 1, False), (ENOUGH, True)])
    def test_it_takes_enough_later_answered_mails(self, tmp_path: Path, answered: int, is_enough: bool) -> None:
        every = [letter(str(n), timedelta(hours=n), Subject=f"Talk {n}") for n in range(200)]
        mails = [each for each in history(tmp_path, *every, answer(900)) if not each.own]
        right = [place < 20 or place >= 200 - answered for place in range(200)]
        assert (held_out(mails, right) is not None) is is_enough

    @pytest.mark.parametrize("many", [ENOUGH, 39, 70, 200])
    def test_of_later_mails_like_those_it_was_chosen_on_it_shows_what_is_aimed_at(self, many: int) -> None:
        chance = random.Random(many)
        drawn = [[chance.random() for _ in range(many + 1)] for _ in range(4000)]
        shown = sum(later >= threshold(before) for *before, later in drawn) / len(drawn)
        assert AIM - 0.01 <= shown <= AIM + 1 / many + 0.01

    def test_where_too_few_were_answered_all_is_shown_and_no_share_is_told(
        self, entries: list[Recorded], found: Walked
    ) -> None:
        received = [each for each in found.judged if each.answered]
        rare = {each.answer.id for each in received[: len(received) // 5] if each.answer}
        few = [each for each in entries if not each.own or each.id in rare]
        figures = report(walk(few, OWN), OWN)
        assert not figures.by_threshold
        assert figures.shown == figures.mails
        assert "%" not in figures.sentence
        assert "too few to choose" in figures.sentence
        assert figures.go_by.startswith("Look at everything")

    def test_of_a_mailbox_all_is_judged_where_the_older_months_have_too_few_to_choose_by(
        self, entries: list[Recorded]
    ) -> None:
        newest = [each for each in entries if entries[-1].at - each.at < timedelta(days=230)]
        assert not rehearsed(newest, OWN, Period(months=6))[1].by_threshold
        _, figures = rehearsed(newest, OWN, Period())
        assert figures.by_threshold
        assert figures.only_learned_from > 0


def judged(number: int, probability: float, **more: bool) -> Prediction:
    """One that came to the person alone, or among many others; `answered`, `alone`, `shown` and `written_to`."""
    to = [PERSON] if more.get("alone") else [PERSON, *(f"p{each}@y.example" for each in range(9))]
    mail = Mail(
        f"<{number}@x>", None, (), Address("", "ada@x.example"), (), tuple(Address("", each) for each in to), (),
        "Figures", MONDAY, LETTER, LETTER, (), auto_submitted=False, bulk=False, note="",
    )  # fmt: skip
    entry = Recorded(f"<{number}@x>", mail, MONDAY, False, frozenset(), "")
    return Prediction(
        entry, probability, more.get("shown", True), True, True, more.get("written_to", False),
        answer=entry if more.get("answered") else None,
    )  # fmt: skip


class TestWays:
    """Of 400 mails 100 are answered, and 100 come to the person alone, `both` of them answered."""

    def mails(self, both: int, given: Callable[[bool], float], answered: int = 100) -> list[Prediction]:
        found = []
        for number in range(400):
            is_answered, alone = number < answered, number < both or number >= 300 + both
            probability = given(is_answered) + number * 1e-6
            found.append(judged(number, probability, answered=is_answered, alone=alone, shown=probability >= 0.5))
        return found

    def test_what_was_learned_where_it_catches_more_of_as_many(self) -> None:
        found = by_each_way(self.mails(60, lambda answered: 0.9 if answered else 0.1), OWN)
        assert [(each.shown, each.caught) for each in found.ways.values()] == [
            (400, 100),
            (100, 60),
            (0, 0),
            (100, 100),
        ]
        assert found.go_by == (
            'Go "by what I learned of you": 100 mails so chosen hold 100 of the 100 that you answered, and as many '
            '"to you, among few" 60.'
        )

    def test_else_the_simple_way(self) -> None:
        given = iter([0.9] * 64 + [0.1] * 300 + [0.9] * 36)
        found = by_each_way(self.mails(60, lambda _: next(given)), OWN)
        assert found.go_by == (
            'Go by "to you, among few": these 100 mails hold 60 of the 100 that you answered, and as many "by what I '
            'learned of you" 64, which does not prove that learning helps.'
        )

    def test_where_no_way_beats_chance_everything(self) -> None:
        """It shows 95 % of all, with 97 % of the answered."""
        spared = {1, 40, 80, *range(120, 137)}
        place = iter(range(400))
        found = by_each_way(self.mails(25, lambda _: 0.1 if next(place) in spared else 0.9), OWN)
        assert (found.ways["ours"].shown, found.ways["ours"].caught) == (380, 97)
        assert found.go_by == "Look at everything: no way does better than mails drawn by lot."

    def test_with_too_few_answers_everything(self) -> None:
        found = by_each_way(self.mails(9, lambda answered: 0.9 if answered else 0.1, answered=ENOUGH - 1), OWN)
        assert found.go_by.startswith("Look at everything: you answered 19 of these mails, too few")
        assert found.ways["ours"].in_words(19) == "19, too few to tell a share"

    def test_its_share_is_told_with_its_interval(self) -> None:
        assert (
            by_each_way(self.mails(60, lambda _: 0.9), OWN).ways["addressed_to_few"].in_words(100)
            == "60: 60% (50% to 70%)"
        )


class TestReport:
    def test_twice_the_same(self, entries: list[Recorded], whole: list[tuple[str, float, bool]]) -> None:
        assert told(walk(entries, OWN).judged) == whole

    def test_its_figures_are_those_of_the_judgements(self, entries: list[Recorded], found: Walked) -> None:
        figures = report(found, OWN)
        judged = [each for each in found.judged if each.by_threshold]
        assert figures.mails == len(judged) == sum(each.cases for each in figures.calibration)
        assert figures.shown_answered + len(figures.missed) == figures.answered
        assert figures.mails + figures.only_learned_from == sum(not entry.own for entry in entries)
        assert figures.shown < figures.mails
        ours = figures.ways["ours"]
        assert (ours.shown, ours.caught) == (figures.shown, figures.shown_answered)
        low, high = ours.interval
        assert low < figures.shown_answered / figures.answered < high
        assert figures.sentence == (
            f"Of {figures.answered} later mails that you answered, I would have shown you {figures.shown_answered}: "
            f"{figures.shown_answered / figures.answered:.0%} ({low:.0%} to {high:.0%}). In all I would have shown "
            f"{figures.shown} of {figures.mails} mails."
        )

    def test_most_of_what_was_answered_would_have_been_shown(self, found: Walked) -> None:
        figures = report(found, OWN)
        assert figures.shown_answered >= 0.85 * figures.answered

    def test_better_than_the_simple_ways(self, tmp_path: Path) -> None:
        """On invented people, whom no part of the program knows: by 0.04 of AUC on average."""
        gains, more = [], []
        for seed, threads in ((31, True), (32, False)):
            path = tmp_path / f"{seed}.mbox"
            path.write_bytes(Person(seed, threads=threads).history(1000).mbox)
            found = compare(read(path, OWN), OWN)
            few, written_to, words, ours = (
                found.ways[name] for name in ("addressed_to_few", "written_to", "words", "ours")
            )
            print(f"person {seed}: {found.ways}")  # noqa: T201
            gains.append((ours.auc or 0) - max(each.auc or 0 for each in (few, written_to, words)))
            assert ours.shown == words.shown
            more.append(ours.caught - words.caught)
        assert sum(gains) / len(gains) >= 0.04
        assert min(more) > 0

    def test_every_copy_has_its_line(self, found: Walked, tmp_path: Path) -> None:
        first_judged, *others = found.judged
        doubled = replace(first_judged, entry=replace(first_judged.entry, copies=("<copy@x.example>",)))
        write_scores(tmp_path / "scores.csv", [doubled, *others])
        head, first, copy, *_ = (tmp_path / "scores.csv").read_text().splitlines()
        assert head == "message_id,probability,action"
        assert copy == first.replace(first_judged.entry.id, "<copy@x.example>")

    @pytest.mark.parametrize("what", ["none answered", "all answered", "few mails"])
    def test_where_nothing_can_be_learned_it_says_so(self, entries: list[Recorded], tmp_path: Path, what: str) -> None:
        received = [entry for entry in entries if not entry.own]
        late = received[-1].at + timedelta(days=20)
        given = {
            "none answered": received,
            "all answered": [each for entry in received for each in (entry, _answer_to(entry, entry.at))],
            "few mails": entries[:40],
        }[what]
        with pytest.raises(NoHistory, match="answered"):
            report(walk([*given, _answer_to(entries[0], late)], OWN), OWN)
