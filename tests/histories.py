"""Invented histories of mail: a person's inbox and their own answers, as an mbox file.

Whether a mail is answered is drawn from a mixture that is another for every person: who asks, whether they ask at all,
their role, how many it went to, how the conversation stands, what it is about, and chance; some correspondents fade or
become close half way. No part of it is written as the classifier reads mail: requests often have no question mark, and
statements sometimes have one.
"""

import math
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from random import Random
from typing import Final

PERSON: Final = "vera.lindqvist@northgas.example"
ALIAS: Final = "v.lindqvist@northgas.example"
BEGAN: Final = datetime(2000, 3, 6, 7, tzinfo=UTC)

_SYLLABLES = (
    "ba",
    "co",
    "di",
    "fu",
    "ga",
    "he",
    "ki",
    "lo",
    "mu",
    "ne",
    "po",
    "ra",
    "si",
    "to",
    "vu",
    "wa",
    "ze",
    "in",
)
_FIRST = ("Ada", "Bob", "Cleo", "Dan", "Eva", "Finn", "Gita", "Hugo", "Ines", "Jan", "Kira", "Leo", "Mia", "Nils")
_ASKS = (
    "Can you look at this before Friday?", "Please send me your numbers.", "I need your approval on this one.",
    "What do you think", "Let me know whether that works for you.", "Do you have the latest version?",
    "Could we meet this week to go over it?", "Waiting to hear from you.", "Any chance you could join?",
    "Would like your comments by tomorrow", "Are you coming on Thursday?",
)  # fmt: skip
_TELLS = (
    "For your information.", "The new figures are attached.", "This went out this morning.", "Who would have thought?",
    "See the note below.", "The system will be down on Saturday.", "Please note the new room.", "Minutes to follow.",
    "Thanks for your help.", "Sounds good.", "I will be out of the office until Monday.",
)  # fmt: skip


@dataclass(slots=True)
class _Correspondent:
    name: str
    address: str
    pull: float  # towards being answered
    shift: float  # of the pull, after half of the time
    often: float
    asks: float  # the share of their mails that ask for something
    topic: int
    alone: float  # the share of their mails that go to the person alone


@dataclass(frozen=True, slots=True)
class History:
    """What is written to the file, and the truth about it."""

    mbox: bytes
    answered: frozenset[str]  # Message-IDs


@dataclass(slots=True)
class Person:
    """How this one decides, and how their mail system writes."""

    seed: int
    threads: bool = True  # whether it writes In-Reply-To
    labels: bool = False  # whether it is an export of Gmail's
    noise: float = 0.7
    deletes: float = 0.0  # the share of the answered mails that they delete
    began: datetime = BEGAN
    random: Random = field(init=False)

    def __post_init__(self) -> None:
        self.random = Random(self.seed)

    def history(self, mails: int, days: int = 400) -> History:
        """So many received mails with the answers to some of them."""
        return _Writer(self, mails, days).write()


class _Writer:
    def __init__(self, person: Person, mails: int, days: int) -> None:
        self.person, self.mails, self.days = person, mails, days
        self.random = random = person.random
        self.words = ["".join(random.choices(_SYLLABLES, k=random.randint(1, 3))) for _ in range(3000)]
        self.topics = [random.sample(self.words, 60) for _ in range(12)]
        self.topic_pull = [random.gauss(0, 0.6) for _ in self.topics]
        self.people = [self._correspondent(number) for number in range(max(12, mails // 25))]
        self.weights = {
            "asks": random.uniform(0.5, 2.0), "alone": random.uniform(0.3, 1.6), "copied": -random.uniform(0.5, 2.0),
            "many": -random.uniform(0.2, 0.7), "open": random.uniform(0.3, 1.5), "base": -random.uniform(1.8, 2.8),
        }  # fmt: skip
        self.lists = [f"all-{self.words[number]}@northgas.example" for number in range(4)]
        self.open: list[tuple[str, _Correspondent, int, str]] = []
        self.out: list[tuple[datetime, bytes]] = []
        self.answered: set[str] = set()

    def write(self) -> History:
        step = timedelta(days=self.days) / self.mails
        for number in range(self.mails):
            at = self.person.began + step * (number + self.random.random())
            if self.random.random() < 0.12:
                self._mass_mail(number, at)
            else:
                self._letter(number, at, late=number > self.mails / 2)
        return History(b"".join(raw for _, raw in sorted(self.out, key=lambda each: each[0])), frozenset(self.answered))

    def _correspondent(self, number: int) -> _Correspondent:
        random = self.random
        first, last = random.choice(_FIRST), random.choice(self.words).capitalize()
        host = "northgas.example" if random.random() < 0.6 else f"{random.choice(self.words)}.example"
        return _Correspondent(
            f"{first} {last}", f"{first}.{last}{number}@{host}".lower(), random.gauss(0, 1.2),
            random.gauss(0, 1.5) if random.random() < 0.2 else 0.0, random.paretovariate(0.9), random.betavariate(2, 3),
            random.randrange(len(self.topics)), random.betavariate(1.5, 1.5),
        )  # fmt: skip

    def _letter(self, number: int, at: datetime, *, late: bool) -> None:
        random = self.random
        who = random.choices(self.people, [each.often for each in self.people])[0]
        topic = who.topic if random.random() < 0.6 else random.randrange(len(self.topics))
        subject, goes_on = " ".join(self._say(topic, 3)), False
        if self.open and random.random() < 0.3:
            subject, who, topic, _ = random.choice(self.open[-20:])
            goes_on = True
        asks = random.random() < who.asks
        to, cc = self._recipients(who)
        mine = PERSON in to
        pull = (
            self.weights["base"] + who.pull + (who.shift if late else 0) + self.topic_pull[topic]
            + self.weights["asks"] * asks + self.weights["alone"] * (to == [PERSON] and not cc)
            + self.weights["copied"] * (not mine) + self.weights["many"] * math.log(len(to) + len(cc))
            + self.weights["open"] * goes_on + random.gauss(0, self.person.noise)
        )  # fmt: skip
        body = self._body(topic, asks)
        identity = f"<{number}.{self.person.seed}@thyme.example>"
        answered = random.random() < 1 / (1 + math.exp(-pull))
        gone = answered and random.random() < self.person.deletes
        if not gone:
            self._put(identity, at, f"{who.name} <{who.address}>", to, cc, f"{'RE: ' * goes_on}{subject}", body, {})
        if answered:
            self._answer(number, identity, at, who, topic, subject, body)
            if not gone:
                self.answered.add(identity)

    def _recipients(self, who: _Correspondent) -> tuple[list[str], list[str]]:
        random = self.random
        me = PERSON if random.random() < 0.9 else ALIAS
        if random.random() < who.alone:
            return [PERSON], []
        others = [each.address for each in random.sample(self.people, random.choice((1, 1, 2, 3, 6, 10)))]
        match random.choices(("to", "cc", "list"), (5, 3, 2))[0]:
            case "to":
                return [*others[: random.randrange(3)], me, *others[3:]], others[:1] if random.random() < 0.4 else []
            case "cc":
                return others[:3], [me, *others[3:]]
            case _:
                return [random.choice(self.lists)], []

    def _body(self, topic: int, asks: bool) -> str:
        random = self.random
        sentences = [
            " ".join(self._say(topic, random.randint(5, 14))).capitalize() + "."
            for _ in range(random.choice((1, 2, 3, 6)))
        ]
        if asks:
            sentences.insert(random.choice((0, len(sentences))), random.choice(_ASKS))
        if random.random() < 0.5:
            sentences.insert(random.randint(0, len(sentences)), random.choice(_TELLS))
        greeting = random.choice(("", "", "Vera,\n\n", "Hi Vera\n", "All,\n\n"))
        return greeting + "\n".join(sentences)

    def _say(self, topic: int, length: int) -> list[str]:
        return [
            self.random.choice(self.topics[topic] if self.random.random() < 0.4 else self.words) for _ in range(length)
        ]

    def _answer(
        self, number: int, identity: str, at: datetime, who: _Correspondent, topic: int, subject: str, body: str
    ) -> None:
        random = self.random
        sent = at + timedelta(hours=min(300.0, random.lognormvariate(1.2, 1.4)))
        own = " ".join(self._say(topic, random.randint(4, 20))).capitalize() + "."
        if self.person.threads:
            quote = "\n".join(f"> {line}" for line in body.splitlines())
            text = f"{own}\n\nOn {at:%a, %d %b %Y %H:%M}, {who.name} wrote:\n{quote}\n"
        elif random.random() < 0.7:
            header = f"From: \t{who.name}\nSent:\t{at:%A, %B %d, %Y %H:%M}\nTo:\tLindqvist, Vera\nSubject:\t{subject}"
            text = f"{own}\n\n -----Original Message-----\n{header}\n\n{body}\n"
        else:
            text = own
        extra = {"In-Reply-To": identity, "References": identity} if self.person.threads else {}
        self._put(
            f"<own.{number}.{self.person.seed}@thyme.example>",
            sent,
            f"Vera Lindqvist <{PERSON}>",
            [who.address],
            [],
            f"RE: {subject}",
            text,
            extra,
        )
        self.open.append((subject, who, topic, identity))

    def _mass_mail(self, number: int, at: datetime) -> None:
        name = self.random.choice(self.words)
        text = f"{' '.join(self._say(0, 30))}\nUnsubscribe: http://{name}.example/out\n"
        extra = {"List-Unsubscribe": f"<http://{name}.example/out>"}
        self._put(
            f"<{number}.{self.person.seed}@thyme.example>",
            at,
            f"news@{name}.example",
            [PERSON],
            [],
            f"{name.capitalize()} news {number}",
            text,
            extra,
        )

    def _put(
        self, identity: str, at: datetime, sender: str, to: list[str], cc: list[str], subject: str, body: str,
        extra: dict[str, str],
    ) -> None:  # fmt: skip
        own = identity.startswith("<own")
        labels = {"X-Gmail-Labels": "Sent" if own else "Inbox,Opened"} if self.person.labels else {}
        headers = {
            "Message-ID": identity, "Date": format_datetime(at), "From": sender, "To": ", ".join(to),
            **({"Cc": ", ".join(cc)} if cc else {}), "Subject": subject, **extra, **labels,
        }  # fmt: skip
        head = "".join(f"{name}: {value}\n" for name, value in headers.items())
        self.out.append((at, f"From x@y {at:%a %b %d %H:%M:%S %Y}\n{head}\n{body}\n\n".encode()))
