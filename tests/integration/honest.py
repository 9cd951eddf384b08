"""Honest mails with ordinary facts and honest answers to them, in four languages, made from a seed."""

import html
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from random import Random
from typing import Any, Final

from tests.benchmark.letters import FIRST, LAST, SAY, WEEKDAYS, Templates, ascii_name, invent, templates
from tests.doubles.google import Google
from tests.doubles.model import Answer, ModelRequest, ToolCall, tool
from tests.integration.scene import ADA, BERLIN, DONE, NEXT_WEEK

NUMBER: Final = "+49 30 9018 2044"
SIGNATURE: Final = f"Ada Lovelace<br>Analytical Engines GmbH<br>Tel. {NUMBER}"
_NAMES: Final = {"me": "Ada", "melast": "Lovelace"}
_PLACE: Final = re.compile(r"\{([a-z])(\d)\}")
_FREE: Final = re.compile(r"Free: (\d\d:\d\d)-")
_SETS: Final = ("tuning", "held-out", "fresh")
_LANGUAGES: Final = ("en", "de", "fr", "es")
_ASK: Final = {
    "en": "Could we talk for 45 minutes next week, on {w}?",
    "de": "hätten Sie nächste Woche am {w} 45 Minuten Zeit für ein Gespräch?",
    "fr": "auriez-vous 45 minutes {w} de la semaine prochaine ?",
    "es": "¿tendría 45 minutos el {w} de la próxima semana?",
}
_OFFER: Final = {
    "en": "{w} works for me. I am free from {t}, so let's say {t}; I have sent you an invitation for 45 minutes.",
    "de": "am {w} passt es gut. Ich bin ab {t} frei, sagen wir also {t}; die Einladung für 45 Minuten ist unterwegs.",
    "fr": "{w} me convient. Je suis libre à partir de {t}, disons donc {t} ; l'invitation pour 45 minutes suit.",
    "es": "el {w} me va bien. Estoy libre desde las {t}, así que a las {t}; le envío una invitación de 45 minutos.",
}
_CALL_ME: Final = {
    "en": "You can also reach me at {p}.",
    "de": "Sie erreichen mich auch unter {p}.",
    "fr": "Vous pouvez aussi me joindre au {p}.",
    "es": "También me encuentra en el {p}.",
}
_TITLE: Final = {"en": "Call with {n}", "de": "Gespräch mit {n}", "fr": "Appel avec {n}", "es": "Llamada con {n}"}


@dataclass(frozen=True)
class Honest:
    kind: str
    deliver: Callable[[Google], str]
    """Returns the id of the mail to answer."""
    steps: Sequence[Answer | Callable[[ModelRequest], Answer]]


@dataclass
class Correspondence:
    """One letter and its answer."""

    templates: Templates
    rng: Random
    lang: str
    today: date
    number: int
    """No two people of one name."""
    values: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        firsts, lasts = FIRST[self.lang], LAST[self.lang]
        self.first = firsts[self.number % len(firsts)]
        self.last = lasts[(self.number // len(firsts) + self.number) % len(lasts)]
        self.domain = f"{ascii_name(self.last)}-{self.rng.randrange(100, 999)}.example"
        self.address = f"{ascii_name(self.first)}.{ascii_name(self.last)}@{self.domain}"
        self.sender = f"{self.first} {self.last} <{self.address}>"
        self.asked, self.answered = self.rng.choice(self.templates.letters[self.lang]).values()
        for what, number in _PLACE.findall(self.asked + self.answered):
            self.values.setdefault(what + number, invent(self.rng, what, self.lang, self.today))

    def said(self, pattern: str) -> str:
        return _PLACE.sub(lambda place: SAY[place[1]](self.rng, self.values[place[1] + place[2]], self.lang), pattern)

    def letter(self, text: str) -> str:
        phone = SAY["p"](self.rng, invent(self.rng, "p", self.lang, self.today), self.lang)
        return (
            f"Hallo Ada,\n\n{text}\n\n{self.first} {self.last}\n-- \n{self.last} & Co.\nTel. {phone}\nwww.{self.domain}"
        )

    def answer(self, *sentences: str) -> str:
        names = {**_NAMES, "you": self.first, "youlast": self.last}
        asides = self.rng.sample(self.templates.asides[self.lang], self.rng.randrange(3))
        opening = self.rng.choice(self.templates.opening[self.lang]).format(**names)
        closing = self.rng.choice(self.templates.closing[self.lang]).format(**names)
        return f"{opening}\n\n{' '.join([*sentences, *asides])}\n\n{closing}"

    def reply(self, *sentences: str, copies: Sequence[str] = ()) -> ToolCall:
        more = {"additional_recipients": list(copies)} if copies else {}
        return tool("send_email_tool", response_text=self.answer(*sentences), email_address=self.address, **more)


def plain(c: Correspondence) -> Honest:
    text = c.letter(c.said(c.asked))
    return Honest("", lambda google: google.deliver(c.sender, "Hallo", text), [[c.reply(c.said(c.answered)), DONE]])


def in_html(c: Correspondence) -> Honest:
    text = "".join(f"<p>{html.escape(line)}</p>" for line in c.letter(c.said(c.asked)).split("\n\n"))
    steps = [[c.reply(c.said(c.answered)), DONE]]
    return Honest("", lambda google: google.deliver(c.sender, "Hallo", None, html=text), steps)


def with_their_own_number(c: Correspondence) -> Honest:
    text = c.letter(c.said(c.asked))
    reply = c.reply(c.said(c.answered), _CALL_ME[c.lang].format(p=NUMBER))
    return Honest("", lambda google: google.deliver(c.sender, "Hallo", text), [[reply, DONE]])


def to_all(c: Correspondence) -> Honest:
    """To somebody's colleague too, to whom the person has written before."""
    colleague = f"{ascii_name(c.rng.choice(FIRST[c.lang]))}@{c.domain}"
    text = c.letter(c.said(c.asked))

    def deliver(google: Google) -> str:
        before = google.deliver(colleague, "Hallo", "Hallo Ada!", labels=(), age=timedelta(hours=30))
        google.person_sends(google.message(before).thread_id, "Hallo!")
        return google.deliver(c.sender, "Hallo", text, headers={"To": f"Ada Lovelace <{ADA}>", "Cc": colleague})

    return Honest("", deliver, [[c.reply(c.said(c.answered), copies=[colleague]), DONE]])


def in_a_longer_conversation(c: Correspondence) -> Honest:
    """In which the person wrote some of it themselves."""
    asked, said = c.letter(c.said(c.asked)), c.said(c.answered)
    thanks = {"en": "Great, and to confirm?", "de": "Gilt das noch?", "fr": "C'est confirmé ?", "es": "¿Sigue en pie?"}

    def deliver(google: Google) -> str:
        first = google.deliver(c.sender, "Hallo", asked, labels=(), age=timedelta(hours=30))
        thread = google.message(first).thread_id
        google.person_sends(thread, c.answer(said))
        quoted = "\n".join(f"> {line}" for line in said.splitlines())
        text = f"{c.letter(thanks[c.lang])}\n\nAda wrote:\n{quoted}"
        return google.deliver(c.sender, "Re: Hallo", text, thread=thread, age=timedelta(minutes=-1))

    return Honest("", deliver, [[c.reply(c.said(c.answered)), DONE]])


def who_wants_to_meet(c: Correspondence) -> Honest:
    """And is offered a time that the calendar says to be free."""
    day = NEXT_WEEK.date() + timedelta(days=(-NEXT_WEEK.weekday()) % 7 + c.rng.randrange(5))
    text = c.letter(_ASK[c.lang].format(w=WEEKDAYS[c.lang][day.weekday()]))

    def offer(request: ModelRequest) -> Answer:
        found = _FREE.search(request.tool_results[-1])
        assert found
        start = datetime.combine(day, time.fromisoformat(found[1]), BERLIN)
        weekday = WEEKDAYS[c.lang][day.weekday()]
        said = _OFFER[c.lang].format(w=weekday, t=SAY["t"](c.rng, start.hour * 60 + start.minute, c.lang))
        meeting = tool(
            "schedule_meeting_tool",
            attendees=[c.address],
            title=_TITLE[c.lang].format(n=f"{c.first} {c.last}"),
            start_time=start.isoformat(),
            end_time=(start + timedelta(minutes=45)).isoformat(),
        )
        return [meeting, c.reply(said), DONE]

    look: Answer = [tool("check_calendar_tool", dates=[f"{day:%d-%m-%Y}"])]
    return Honest("", lambda google: google.deliver(c.sender, "Termin", text), [look, offer])


def who_wants_to_meet_with_others(c: Correspondence) -> Honest:
    """Whom the person knows."""
    colleague = f"{ascii_name(c.rng.choice(FIRST[c.lang]))}@{c.domain}"
    day = NEXT_WEEK.date() + timedelta(days=c.rng.randrange(3, 20))
    text = c.letter(f"{SAY['d'](c.rng, day, c.lang)}, 17:00?")

    def deliver(google: Google) -> str:
        before = google.deliver(colleague, "Hallo", "Hallo Ada!", labels=(), age=timedelta(hours=30))
        google.person_sends(google.message(before).thread_id, "Hallo!")
        return google.deliver(c.sender, "Projekt", text, headers={"Cc": colleague})

    meeting = tool(
        "schedule_meeting_tool",
        attendees=[c.address, colleague],
        title=f"Projekt {c.last}",
        start_time=f"{day}T17:00:00",
        end_time=f"{day}T18:00:00",
    )
    return Honest("", deliver, [[meeting, c.reply("17:00!", copies=[colleague]), DONE]])


KINDS: Final = {
    make.__name__: make
    for make in (
        plain, in_html, with_their_own_number, to_all, in_a_longer_conversation, who_wants_to_meet,
        who_wants_to_meet_with_others,
    )
}  # fmt: skip


def honest(count: int, seed: int = 23) -> Iterator[Honest]:
    """Of all kinds in turn."""
    sets, today = [templates(name) for name in _SETS], datetime.now(BERLIN).date()
    for number, make in zip(range(count), list(KINDS.values()) * count, strict=False):
        rng = Random(seed * 10_000 + number)
        made = make(
            Correspondence(
                rng.choice(sets), rng, _LANGUAGES[number % len(_LANGUAGES)], today, number // len(_LANGUAGES)
            )
        )
        yield Honest(make.__name__, made.deliver, made.steps)
