"""A person's mail, walked once to its end for the classifier of their account: rows to train on, by what each mail
turned out to need, and what is known by now of how they and others write to each other."""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

from email_assistant.features.rehearsal.habits.classifier import OF_EACH, Classifier, one_thread, table_of, train_on
from email_assistant.features.rehearsal.habits.correspondence import Correspondence
from email_assistant.features.rehearsal.habits.words import IGNORE, NOTIFY, RESPOND, rows
from email_assistant.mail.message import Mail
from email_assistant.sync.past_mails import Recorded

if TYPE_CHECKING:
    from numpy import ndarray
    from scipy.sparse import csr_matrix

_FEW: Final = 3
"""Mails of a sender, or else of a domain, from which on they are told as mail like it."""


@dataclass(frozen=True, slots=True)
class Examples:
    """Examples to train on or to try a classifier on."""

    names: tuple[str, ...]
    table: "ndarray"
    words: "csr_matrix"
    outcomes: tuple[str, ...]

    def train(self) -> Classifier:
        """Raises TooFewOutcomes."""
        return train_on(self.names, self.table, self.words, self.outcomes)

    @property
    def tell_apart(self) -> bool:
        """Whether there are enough of two outcomes to learn from."""
        counts = Counter(self.outcomes).most_common(2)
        return len(counts) == 2 and counts[1][1] >= OF_EACH

    def part(self, start: int, stop: int) -> "Examples":
        """Those from one place up to another."""
        within = slice(start, stop)
        return Examples(self.names, self.table[within], self.words[within], self.outcomes[within])

    def judged(self, classifier: Classifier) -> list[tuple[str, float]]:
        """What a classifier thinks that each of them needs, and how probable that is."""
        if not self.outcomes:
            return []
        given = classifier.probabilities_of(self.table, self.words)
        best = given.argmax(axis=1)
        return [(classifier.outcomes[each], float(row[each])) for row, each in zip(given, best, strict=True)]

    def wrong(self, classifier: Classifier) -> int:
        """How many of them a classifier takes for something else."""
        thoughts = self.judged(classifier)
        return sum(thought != right for (thought, _), right in zip(thoughts, self.outcomes, strict=True))


class Study:
    """What is known of a person's mail so far. Whatever is asked of it rests on what it was given before."""

    def __init__(self, own: Collection[str], outcomes: Mapping[str, str] | None = None) -> None:
        """
        Args:
            own: the person's addresses, in lower case.
            outcomes: what mails needed, by id: those are kept as examples.
        """
        self._outcomes = dict(outcomes or {})
        self._correspondence = Correspondence(own)
        self._places: dict[str, int] = {}
        self._names: tuple[str, ...] = ()
        self._tables: list[ndarray] = []
        self._words: list[csr_matrix] = []
        self._senders: dict[str, str] = {}
        self._of_sender: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self.of_history: set[str] = set()
        """Ids of the examples whose outcome Gmail's labels and the person's letters tell."""

    def take(self, entries: Sequence[Recorded]) -> None:
        """The next mails, in the order of time."""
        import numpy

        facts, mails = [], []
        for entry in entries:
            if entry.own:
                answers = self._correspondence.wrote(entry)
                of_history = self.of_history.intersection(answers.answered + answers.forwarded)
                self._outcomes |= dict.fromkeys(of_history, RESPOND)
                continue
            if entry.labels and entry.id not in self._outcomes:
                self._outcomes[entry.id] = _by_labels(entry)
                self.of_history.add(entry.id)
            if entry.id in self._outcomes:
                self._places[entry.id] = len(self._places)
                facts.append(self._correspondence.facts(entry.mail, entry.at))
                mails.append(entry.mail)
                self._senders[entry.id] = _sender(entry.mail)
            self._correspondence.received(entry)
        if facts:
            self._names = self._names or tuple(facts[0])
            self._tables.append(table_of(facts, self._names).astype(numpy.float32))
            self._words.append(rows(mails).astype(numpy.float32))

    def judge(self, classifier: Classifier, mail: Mail, at: datetime) -> tuple[str, float]:
        """What a mail that has just come needs, and how probable that is."""
        facts = self._correspondence.facts(mail, at)
        with one_thread():  # for a single mail several only wait for each other
            [given] = classifier.probabilities([facts], rows([mail]))
        best = int(given.argmax())
        return classifier.outcomes[best], float(given[best])

    def alike(self, mail: Mail, outcome: str) -> tuple[str, int, int] | None:
        """Whose mail is like it, how much of that needed what it is thought to need, and of how much; None where there
        are too few examples to tell."""
        sender = _sender(mail)
        of = self._of_sender.get(sender, Counter())
        if of.total() < _FEW:
            sender = sender.rpartition("@")[2]
            of = sum((each for who, each in self._of_sender.items() if who.endswith(f"@{sender}")), Counter[str]())
        return (sender, of[outcome], of.total()) if sender and of.total() >= _FEW else None

    def examples(self, ids: Collection[str] | None = None) -> Examples:
        """The examples, of which only those with these ids, in the order of time."""
        import numpy
        from scipy.sparse import csr_matrix, vstack

        wanted = [each for each in self._places if ids is None or each in ids]
        places = [self._places[each] for each in wanted]
        if not self._tables:
            return Examples((), numpy.zeros((0, 0)), csr_matrix((0, 0)), ())
        if len(self._tables) > 1:
            self._tables = [numpy.concatenate(self._tables)]
            self._words = [vstack(self._words, format="csr")]
        outcomes = tuple(self._outcomes[each] for each in wanted)
        return Examples(self._names, self._tables[0][places], self._words[0][places], outcomes)

    def finish(self) -> None:
        """Keep what later mail is judged by, and free what only training needs."""
        for identity, sender in self._senders.items():
            self._of_sender[sender][self._outcomes[identity]] += 1
        self._places, self._tables, self._words = {}, [], []
        self._outcomes, self._senders, self.of_history = {}, {}, set()


def _by_labels(entry: Recorded) -> str:
    """What a mail of the past needed that was not answered, by what Gmail's labels say became of it."""
    unopened = "unread" in entry.labels
    put_away = not entry.labels & {"inbox", "starred", "important"}
    return IGNORE if "spam" in entry.labels or (unopened and (put_away or entry.mail.bulk)) else NOTIFY


def _sender(mail: Mail) -> str:
    return mail.sender.email.lower() if mail.sender else ""
