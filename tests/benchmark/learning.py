"""Simulated weeks from an empty history, or a rehearsed one: what the cascade of triage saves, and whether its limits
hold.

Two simulations, of invented people alone: they show how the machinery behaves, and not how good it is for anybody.

- *Weeks*: people with invented mail, gone through in time by the program's own classifier, versions, proof and lot
  (`triage/study.py`, `triage/learned.py`, `triage/cascade.py`), with sender rules as corrections make them: what
  would undo a decision is held (`memory/trial.py`), and the person answers by what most of that sender's mail needs.
  The model is an oracle that is wrong in a given share of cases, whatever it is told; nothing was asked of a real one.
- *Lives*: the proof alone, of a thousand people who stay as they are, with error rates on both sides of the limits, and
  of some who change. Here confidences are drawn, and so are errors.
"""

import argparse
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random
from statistics import median
from time import perf_counter
from typing import Final

from email_assistant.features.rehearsal.habits.classifier import Classifier, TooFewOutcomes
from email_assistant.features.rehearsal.habits.learned import (
    FIRST,
    GROWS,
    Predecessor,
    Truth,
    backtest,
    learn,
    next_version,
)
from email_assistant.features.rehearsal.habits.proof import (
    LIMITS,
    Judgement,
    is_checked,
    may_decide,
    nothing_proven,
    take,
)
from email_assistant.features.rehearsal.habits.study import Study
from email_assistant.features.rehearsal.habits.words import IGNORE, NOTIFY, OUTCOMES, RESPOND
from email_assistant.mail.address import Address
from email_assistant.mail.message import Mail
from email_assistant.memory.rules import Rule
from email_assistant.memory.senders import deciding, stated
from email_assistant.memory.trial import MOST, PastDecision, undone
from email_assistant.sync.past_mails import Recorded

ADA: Final = "ada@home.example"
BEGAN: Final = datetime(2026, 1, 5, 7, tzinfo=UTC)
MAILS_A_DAY: Final = 50
ORACLE_WRONG: Final = 0.08
"""The share of mails that the oracle in the model's place takes for something else."""
NOTICED: Final = 0.8
"""The share of wrongly ignored mails that the person finds and corrects; others stay as they are, or are answered."""
BY_CLASS: Final = 0.5
"""The share of corrections that name the class, and so make a sender rule; others only answer what is shown."""
TEMPTING: Final = 1 / 3
"""The share of the senders whose mail was sometimes opened in the past though it needed nothing."""
OPENED: Final = 0.2
"""The share of such mail of theirs that was."""
SILENCE: Final = timedelta(days=14)
HUNDRED: Final = 100
CLAIMS: Final = [(kind, claim) for kind, claims in LIMITS.items() for claim in claims]

_ASKS = ("Can you send me the numbers?", "What do you think?", "Please confirm by Friday.", "Could we meet this week?")
_TELLS = ("For your information.", "The minutes are attached.", "This went out today.", "No action is needed.")
_SYLLABLES = ("ba", "co", "di", "fu", "ga", "he", "ki", "lo", "mu", "ne", "po", "ra", "si", "to", "vu", "wa", "ze")


@dataclass(frozen=True, slots=True)
class Sender:
    """How somebody writes, and what the person does with that."""

    address: str
    words: tuple[str, ...]
    bulk: bool
    often: float
    asks: float  # the share of their mails that ask for something
    needs: str  # what those need
    else_needs: str  # what their other mails need

    @property
    def mostly(self) -> str | None:
        """What most of their mail needs; None where that can't be said."""
        if self.needs == self.else_needs:
            return self.needs
        return None if self.asks == 0.5 else self.needs if self.asks > 0.5 else self.else_needs


@dataclass(frozen=True, slots=True)
class Post:
    """A mail, and what it needs."""

    id: str
    mail: Mail
    at: datetime
    truth: str
    who: Sender


def senders(random: Random) -> list[Sender]:
    """Newsletters, services and people; a few of each kind are treated otherwise than the rest."""
    found = []
    for number in range(150):
        words = tuple("".join(random.choices(_SYLLABLES, k=random.randint(2, 3))) for _ in range(25))
        often = random.paretovariate(1.6)
        if number % 3 == 0:
            needs = NOTIFY if random.random() < 0.1 else IGNORE
            found.append(Sender(f"news@{words[0]}{number}.example", words, True, 1.8 * often, 0.1, needs, needs))
        elif number % 3 == 1:
            needs = IGNORE if random.random() < 0.25 else NOTIFY
            found.append(Sender(f"service@{words[0]}{number}.example", words, False, often, 0.05, needs, needs))
        else:
            needs = RESPOND if random.random() < 0.85 else NOTIFY
            found.append(Sender(f"{words[0]}.{words[1]}@firm{number}.example", words, False, often, 0.5, needs, NOTIFY))
    return found


def post(seed: int, mails: int, noise: float) -> Iterator[Post]:
    """So many mails in the order of time. `noise`: the share that the person treats otherwise than usual."""
    random = Random(seed)
    everybody = senders(random)
    for number in range(mails):
        at = BEGAN + timedelta(days=number / MAILS_A_DAY)
        who = random.choices(everybody, [each.often for each in everybody])[0]
        asks = random.random() < who.asks
        truth = who.needs if asks else who.else_needs
        if random.random() < noise:
            truth = random.choice([each for each in OUTCOMES if each != truth])
        text = " ".join(random.choices(who.words, k=random.randint(15, 60)))
        body = f"{text}\n{random.choice(_ASKS if asks else _TELLS)}"
        subject = " ".join(random.choices(who.words, k=4))
        sender = Address(who.words[0].title(), who.address)
        yield Post(
            f"{seed}.{number}",
            Mail(f"<{seed}.{number}@x>", None, (), sender, (), (Address("Ada", ADA),), (), subject, at, body, body, (),
                 auto_submitted=False, bulk=who.bulk, note=""),
            at,
            truth,
            who,
        )  # fmt: skip


def answer(each: Post, at: datetime) -> Recorded:
    mail = each.mail
    assert mail.sender
    letter = Mail(f"<own.{each.id}@x>", mail.message_id, (), Address("Ada", ADA), (), (mail.sender,), (),
                  f"Re: {mail.subject}", at, "Yes.", "Yes.", (), auto_submitted=False, bulk=False, note="")  # fmt: skip
    return Recorded(f"own.{each.id}", letter, at, True, frozenset({"sent"}), each.id)


@dataclass(slots=True)
class Week:
    """What a hundred mails cost."""

    model: int = 0
    rules: int = 0
    habits: int = 0
    corrected: int = 0
    wrong: int = 0
    missed: int = 0  # ignored by habits, and an answer was needed


@dataclass(slots=True)
class Pending:
    """What is known of a mail at a time to come."""

    at: datetime
    mail_id: str
    truth: str
    silent: bool


@dataclass
class Life:
    """One person's mail through the cascade."""

    seed: int
    mails: int
    noise: float
    by_class: float
    history: int = 0  # mails before the first that is sorted
    hundreds: list[Week] = field(default_factory=list)
    versions: list[tuple[datetime, int, bool]] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)  # of each decision
    first_by_habits: int | None = None
    held: int = 0  # corrections that would have undone a decision

    def live(self) -> None:
        self.random = Random(self.seed + 1)
        self.rules: dict[str, Rule] = {}  # by sender
        self.decided: deque[PastDecision] = deque(maxlen=MOST)
        self.entries: list[Recorded] = []
        self.cases: dict[str, tuple[str, float, bool, bool]] = {}
        self.taught: list[Truth] = []
        self.pending: list[Pending] = []
        self.proof = nothing_proven()
        self.student: tuple[Study, Classifier, datetime] | None = None
        self.fed = 0
        posts = post(self.seed, self.history + self.mails, self.noise)
        self._rehearse([next(posts) for _ in range(self.history)])
        for number, each in enumerate(posts):
            if number % HUNDRED == 0:
                self.hundreds.append(Week())
            self._settle(each.at)
            self._triage(number, each, self.hundreds[-1])
            self.entries.append(Recorded(each.id, each.mail, each.at, False, frozenset(), each.id))

    def _rehearse(self, past: Sequence[Post]) -> None:
        """What a rehearsal reads of it, and what that proves."""
        if not past:
            return
        for each in past:
            labels = self._labels(each) if each.at < past[-1].at - SILENCE else frozenset[str]()
            self.entries.append(Recorded(each.id, each.mail, each.at, False, labels, each.id))
            if each.truth == RESPOND:
                self.entries.append(answer(each, each.at + timedelta(hours=self.random.expovariate(1 / 6))))
        self.entries.sort(key=lambda entry: entry.at)
        study = Study([ADA])
        study.take(self.entries)
        for case in backtest(study, [entry for entry in self.entries if not entry.own]):
            take(self.proof, Judgement(case.thought, case.confidence, case.truth, False, False, past=True))

    def _labels(self, each: Post) -> frozenset[str]:
        """What is to be ignored lies unopened, but for some of some senders' mail."""
        sender = each.mail.sender.email if each.mail.sender else ""
        tempts = Random(sender).random() < TEMPTING
        opened = each.truth != IGNORE or (tempts and self.random.random() < OPENED)
        return frozenset({"inbox"} if opened else {"unread"})

    def _settle(self, now: datetime) -> None:
        due = sorted((each for each in self.pending if each.at <= now), key=lambda each: each.at)
        self.pending = [each for each in self.pending if each.at > now]
        for each in due:
            thought = self.cases.get(each.mail_id)
            if thought:
                outcome, confidence, decided, checked = thought
                take(self.proof, Judgement(outcome, confidence, each.truth, decided, checked))
            if not each.silent or not thought or thought[3] or not thought[2]:
                self.taught.append(Truth(each.mail_id, each.truth, each.at))
        grown = GROWS * self.versions[-1][1] if self.versions else 0
        if len(self.taught) >= max(FIRST, grown):
            self._learn()

    def _learn(self) -> None:
        study = Study([ADA], {each.mail_id: each.truth for each in self.taught})
        study.take(self.entries)
        before = Predecessor(self.student[2], self.student[1]) if self.student else None
        version = next_version(self.taught, is_first=before is None)
        try:
            learned, _ = learn(study, self.taught, before, version)
        except TooFewOutcomes:
            learned = None
        self.versions.append((version, len(self.taught), learned is not None and learned[0] == version))
        if learned:
            study.finish()
            self.student, self.fed = (study, learned[1], learned[0]), len(self.entries)

    def _triage(self, number: int, each: Post, week: Week) -> None:
        rule = self.rules.get(each.who.address)
        if rule and (said_by := deciding([rule], each.who.address)):
            week.rules += 1
            self._answered(each, said_by[0].classification, week)
            return
        thought, decided, checked = None, False, False
        if self.student:
            study, classifier, _ = self.student
            study.take(self.entries[self.fed :])
            self.fed = len(self.entries)
            begun = perf_counter()
            thought = study.judge(classifier, each.mail, each.at)
            self.seconds.append(perf_counter() - begun)
            decided = may_decide(self.proof, *thought)
            checked = decided and is_checked(each.id)
            self.cases[each.id] = (*thought, decided, checked)
        if thought and decided and not checked:
            week.habits += 1
            self.first_by_habits = number if self.first_by_habits is None else self.first_by_habits
            week.missed += thought[0] == IGNORE and each.truth == RESPOND
            self._answered(each, thought[0], week)
            return
        week.model += 1
        said = each.truth
        if self.random.random() < ORACLE_WRONG:
            said = self.random.choice([other for other in OUTCOMES if other != said])
        if thought and decided and said != thought[0] and said == IGNORE:
            said = NOTIFY
        self._answered(each, said, week)

    def _answered(self, each: Post, given: str, week: Week) -> None:
        """What the person does with a mail of a class, and when that is known."""
        soon = each.at + timedelta(hours=self.random.expovariate(1 / 6))
        if given == each.truth:
            silent = given == IGNORE
            if not silent:
                self._decided(each, given)
            at = each.at + SILENCE if silent else soon
            self.pending.append(Pending(at, each.id, each.truth, silent))
            return
        week.wrong += 1
        if given == IGNORE and self.random.random() > NOTICED:
            if each.truth == RESPOND:  # answered in Gmail
                self.pending.append(Pending(soon + timedelta(days=2), each.id, RESPOND, silent=False))
            else:
                self.pending.append(Pending(each.at + SILENCE, each.id, IGNORE, silent=True))
            return
        week.corrected += 1
        self.pending.append(Pending(soon, each.id, each.truth, silent=False))
        by_class = self.random.random() < self.by_class
        if by_class or given != IGNORE:
            self._decided(each, given)
        if by_class:
            self._taught(each)

    def _decided(self, each: Post, given: str) -> None:
        right = frozenset({each.truth})
        self.decided.append(PastDecision(each.id, each.who.address, each.mail.subject, given, right, each.at))  # type: ignore[arg-type]

    def _taught(self, each: Post) -> None:
        """A correction by class, as `memory/profiles.py` takes it: what it contradicts decides nothing more, and it is
        itself a rule once the person says so."""
        sender, origin = each.who.address, {"correction": each.id}
        said = Rule(sender, stated(sender, each.truth), origin, "", [], removed=False)  # type: ignore[arg-type]
        known = [self.rules[sender]] if sender in self.rules else []
        if undone(known, said, self.decided):
            self.held += 1
            self.rules.pop(sender, None)
            if each.truth != each.who.mostly:
                return
        self.rules[sender] = said


def weeks(persons: Sequence[int], mails: int, history: int) -> None:
    print(f"\nWeeks: {len(persons)} people, {mails:,} mails each at {MAILS_A_DAY} a day, after {history:,} "
          f"that were rehearsed; the oracle in the model's place is wrong in {ORACLE_WRONG:.0%}")  # fmt: skip
    for seed in persons:
        noise, by_class = ((0.002, BY_CLASS), (0.01, BY_CLASS), (0.03, BY_CLASS), (0.002, 0.0))[seed % 4]
        begun = perf_counter()
        life = Life(seed, mails, noise, by_class, history)
        life.live()
        took = perf_counter() - begun
        print(
            f"\nperson {seed} (treats {noise:.1%} of mail otherwise than usual, {'makes' if by_class else 'makes no'} "
            f"sender rules; {took:.0f} s)"
        )
        print("  mails          model calls  rules  habits  corrected  wrong  (each per 100 mails)")
        for start, end in ((0, 1), (1, 3), (3, 6), (6, 10), (10, 20), (20, 40), (40, 60), (60, 100)):
            part = life.hundreds[start:end]
            if not part:
                continue
            shares = [sum(getattr(each, name) for each in part) / len(part)
                      for name in ("model", "rules", "habits", "corrected", "wrong")]  # fmt: skip
            print(
                f"  {start * 100 + 1:>5,}-{(start + len(part)) * 100:<6,}" + "".join(f"{each:11.1f}" for each in shares)
            )
        kept = sum(each[2] for each in life.versions)
        decided, missed = sum(each.habits for each in life.hundreds), sum(each.missed for each in life.hundreds)
        slowest = (
            f"{1000 * median(life.seconds):.1f} ms median, {1000 * max(life.seconds):.1f} ms at most"
            if life.seconds
            else "-"
        )
        print(f"  first decided by habits: {life.first_by_habits}; decided so: {decided:,}, of these missed: {missed}; "
              f"held: {life.held}; versions kept: {kept} of {len(life.versions)}; a judgement: {slowest}")  # fmt: skip
        bounds = ", ".join(f"{kind} {claim}: {life.proof.bound(kind, claim):.2%}" for kind, claim in CLAIMS)
        print(f"  proven at best: {bounds}")


Error = Callable[[int, str, float], tuple[float, float]]
"""From the number of a mail, what is thought and the confidence, how probable it is that it is wrong, and that it is
ignored where an answer was needed."""


@dataclass(slots=True)
class Lived:
    decided: Counter[str]  # by kind
    wrong: Counter[tuple[str, str]]  # by kind and claim
    decided_late: int  # after the middle of the life

    def excess(self) -> float:
        """By how much the worst claim's share of wrong ones is above its limit."""
        return max(
            (
                self.wrong[kind, claim] / self.decided[kind] - LIMITS[kind][claim]
                for kind, claim in CLAIMS
                if self.decided[kind]
            ),
            default=0.0,
        )


def lived(seed: int, mails: int, error: Error) -> Lived:
    """A life by the proof: what is decided alone is evidence only where it is checked, or contradicted."""
    random, proof = Random(seed), nothing_proven()
    shares = (random.uniform(0.4, 0.8), random.uniform(0.1, 0.2))
    found = Lived(Counter(), Counter(), 0)
    unknown: deque[Judgement] = deque()
    for number in range(mails):
        drawn, confidence = random.random(), random.random()
        thought = IGNORE if drawn < shares[0] else NOTIFY if drawn < sum(shares) else RESPOND
        other, needed = error(number, thought, confidence)
        chance = random.random()
        truth = thought
        if thought == IGNORE and chance < needed:
            truth = RESPOND
        elif chance < other:
            truth = NOTIFY if thought != NOTIFY else RESPOND
        decided = may_decide(proof, thought, confidence)
        checked = decided and random.random() < 0.1
        if decided and not checked:
            found.decided_late += number >= mails / 2
            found.decided[thought] += 1
            found.wrong.update((thought, claim) for claim in Judgement(thought, confidence, truth, True, False).against)
        seen = truth if not decided or checked or random.random() < NOTICED else thought
        unknown.append(Judgement(thought, confidence, seen, decided, checked))
        if len(unknown) > 3 * MAILS_A_DAY:
            take(proof, unknown.popleft())
    return found


def steady(seed: int) -> Error:
    """Error rates on both sides of the limits, the same for the whole life."""
    random = Random(-seed - 1)
    wrong = random.choice((0.002, 0.01, 0.0195, 0.0205, 0.025, 0.05))
    needed = random.choice((0.0, 0.0005, 0.002, 0.0049, 0.0051, 0.01))
    slope = random.choice((0.0, 0.0, 1.0))
    return lambda _, __, confidence: (
        max(wrong, needed) * (1 + slope * (1 - 2 * confidence)), needed * (1 + slope * (1 - 2 * confidence))
    )  # fmt: skip


def lives(persons: int, mails: int) -> None:
    found = [lived(seed, mails, steady(seed)) for seed in range(persons)]
    trusted = [each for each in found if any(each.decided.values())]
    broken = sum(each.excess() > 0 for each in trusted)
    ignored = sum(each.decided[IGNORE] > 0 for each in found)
    print(f"\nLives: of {persons:,} steady people with {mails:,} mails each, {len(trusted)} came to be decided for, "
          f"{ignored} of them to have mail ignored; a limit was broken over the life of {broken} "
          f"({broken / persons:.1%}; at most 5 % may be)")  # fmt: skip
    kinds: dict[str, Callable[[int], Error]] = {
        "drifting": lambda mails: lambda number, *_: (0.002 + 0.1 * number / mails, 0.02 * number / mails),
        "contradictory": lambda mails: lambda number, *_: (0.4, 0.2) if number >= mails / 2 else (0.001, 0.0),
        "noisy": lambda _: lambda *_: (0.3, 0.1),
    }
    for kind, error in kinds.items():
        some = [lived(seed, 2 * mails, error(2 * mails)) for seed in range(40)]
        after = sorted(each.decided_late for each in some if any(each.decided.values()))
        worst = max(each.excess() for each in some)
        told = f"{median(after):.0f} mails in the median, {after[-1]} at most" if after else "none"
        print(f"  {kind}: {len(after)} of 40 came to be decided for; decided after the middle of the life: {told}; "
              f"worst excess over a limit: {max(0.0, worst):.2%}")  # fmt: skip


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--persons", type=int, default=4)
    parser.add_argument("--person", type=int, help="this one alone")
    parser.add_argument("--history", type=int, default=0, help="mails that each has rehearsed before")
    parser.add_argument("--mails", type=int, default=6000)
    parser.add_argument("--lives", type=int, default=1000)
    parser.add_argument("--life", type=int, default=12_000, help="mails of each of those")


def main(given: argparse.Namespace) -> None:
    persons = range(given.persons) if given.person is None else [given.person]
    if persons:
        weeks(persons, given.mails, given.history)
    if given.lives:
        lives(given.lives, given.life)
