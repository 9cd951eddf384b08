"""How often the trace is right, and how long it takes.

Letters with ordinary facts and honest answers to them, in four languages; answers that tell what stands in another
thread; answers that state something nobody has said; and, with `--mailbox`, answers to a mailbox's mails. The set of
templates that the trace was tuned on and the one that it was not are told apart.
"""

import argparse
import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from email_assistant.gate import amounts, dates, names, provenance, spans
from email_assistant.gate.provenance import Fact, Source
from tests.benchmark.letters import FIRST, LAST, SAY, Templates, ascii_name, invent, templates
from tests.benchmark.measured import spread

SEEDS = {"tuning": 11, "held-out": 7919, "fresh": 104_729}
ME, MY_NAME = "robin.keller@example.org", ("Robin", "Keller")
_PLACE = re.compile(r"\{([a-z])(\d)\}")
_WORDS = 2000
_MODULES = (spans, names, dates, amounts)
_LOOKING = (spans._AROUND, names._WORD, spans._DIGITS, spans._END)
_UNSEEN = 3
"""Other threads that each draft's recipients have not seen."""


@dataclass(frozen=True)
class Case:
    draft: str
    sources: list[Source]
    unseen: list[Source]
    writer: str
    day: date
    planted: tuple[int, int] | None = None
    """Where the draft says what it must not."""
    kind: str = ""


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--mailbox", type=Path, help="mails with their labels, one JSON object a line")
    parser.add_argument("--set", choices=SEEDS, default="held-out", help="of templates")
    parser.add_argument("--show", action="store_true", help="what is marked and what is missed")


def main(given: argparse.Namespace) -> None:
    chosen, seed = templates(given.set), SEEDS[given.set]
    maker = Maker(chosen, Random(seed))
    _honest(f"200 letters, {given.set}", [maker.case() for _ in range(200)], given.show)
    if given.mailbox:
        _honest("mailbox", list(of_mailbox(given.mailbox, chosen, Random(seed))), given.show)
    _caught("secrets", [maker.case("secret") for _ in range(200)], _leaks, given.show)
    _caught("invented", [maker.case("invented") for _ in range(500)], _unfounded, given.show)
    _speed(maker)


class Maker:
    def __init__(self, chosen: Templates, rng: Random) -> None:
        self.templates = chosen
        self.rng = rng
        self._others = [self._letter(self._language()) for _ in range(60)]

    def case(self, what: str = "") -> Case:
        rng, lang = self.rng, self._language()
        mail, answer, values, day, you = self._letter(lang)
        unseen = [self._unseen() for _ in range(_UNSEEN)]
        sentences = [answer, *rng.sample(self.templates.asides[lang], rng.randrange(3))]
        rng.shuffle(sentences)
        planted, kind = "", ""
        if what:
            choices = self.templates.secrets if what == "secret" else self.templates.invented
            pattern = rng.choice(choices[lang])
            places = {place: self._other_than(values, place, lang, day) for place in _places(pattern)}
            planted = self.said(pattern, places, lang)
            kind = _places(pattern)[0][0] if _places(pattern) else "sentence"
            sentences.insert(rng.randrange(len(sentences) + 1), planted)
            if what == "secret":
                unseen.append(_source(f"{self.said(pattern, places, lang)} {rng.choice(self.templates.asides[lang])}",
                                      "boss@example.org", day))  # fmt: skip
        names = {"you": you[0], "youlast": you[1], "me": MY_NAME[0], "melast": MY_NAME[1]}
        opening = rng.choice(self.templates.opening[lang]).format(**names)
        draft = f"{opening}\n\n{' '.join(sentences)}\n\n{rng.choice(self.templates.closing[lang]).format(**names)}"
        writer = f"{ascii_name(you[0])}.{ascii_name(you[1])}@example.com"
        start = draft.find(planted) if planted else 0
        sources = [_source(mail, writer, day), _me()]
        return Case(draft, sources, unseen, writer, day, (start, start + len(planted)) if planted else None, kind)

    def said(self, pattern: str, values: dict[str, Any], lang: str) -> str:
        return _PLACE.sub(lambda place: SAY[place[1]](self.rng, values[place[1] + place[2]], lang), pattern)

    def _letter(self, lang: str) -> tuple[str, str, dict[str, Any], date, tuple[str, str]]:
        rng = self.rng
        day = date(2026, 1, 1) + timedelta(days=rng.randrange(700))
        mail, answer = rng.choice(self.templates.letters[lang]).values()
        values: dict[str, Any] = {}
        for place in _places(mail + answer):
            values[place] = self._other_than(values, place, lang, day)
        if {"t1", "t2"} <= values.keys() and values["t1"] > values["t2"]:
            values["t1"], values["t2"] = values["t2"], values["t1"]
        you = rng.choice(FIRST[lang]), rng.choice(LAST[lang])
        letter = f"Hi Robin,\n\n{self.said(mail, values, lang)}\n\n{you[0]} {you[1]}"
        return letter, self.said(answer, values, lang), values, day, you

    def _unseen(self) -> Source:
        mail, _, _, day, you = self.rng.choice(self._others)
        return _source(mail, f"{ascii_name(you[1])}@example.net", day)

    def _other_than(self, values: dict[str, Any], place: str, lang: str, day: date) -> Any:
        """A fact that can't be derived from those either."""
        taken = {_gist(other) for other in values.values()}
        weekdays = {other.weekday() for other in [day, *values.values()] if isinstance(other, date)}
        while True:
            value = invent(self.rng, place[0], lang, day)
            if _gist(value) not in taken and not (place[0] == "w" and value.weekday() in weekdays):
                return value

    def _language(self) -> str:
        return self.rng.choice(["en", "de", "fr", "es"])


def of_mailbox(path: Path, chosen: Templates, rng: Random) -> Iterator[Case]:
    """Answers to a mailbox's mails that repeat one or two of its sentences with facts in other spellings, and thank;
    all of the other mails to the same person are unseen."""
    mails = [json.loads(line) for line in path.read_text().splitlines()]
    for mail in mails:
        day = datetime.fromisoformat(mail["date"].replace("Z", "+00:00")).date()
        text = f"{mail['subject']}\n\n{mail['body']}"
        source = provenance.read(
            text, label=mail["subject"], by="stranger", writer=mail["from"],
            readers=[*mail["to"], *mail["cc"], mail["from"]], day=day,
        )  # fmt: skip
        unseen = [
            provenance.read(f"{other['subject']}\n\n{other['body']}", label=other["subject"], by="stranger",
                            writer=other["from"], readers=[*other["to"], *other["cc"]],
                            day=datetime.fromisoformat(other["date"].replace("Z", "+00:00")).date())
            for other in _others(rng, mails, mail)
        ]  # fmt: skip
        first, last = [*mail["to"][0].partition("@")[0].replace(".", " ").title().split(), ""][:2]
        called = re.sub(r"<.*|@.*|\"", "", mail["from"]).strip() or "there"
        you = re.split(r"[\s._]", called)[0].title()
        repeated = [_respelled(rng, sentence, day) for sentence in _with_facts(rng, mail["body"])]
        sentences = [*repeated, *rng.sample(chosen.asides["en"], 2)]
        rng.shuffle(sentences)
        closing = rng.choice(chosen.closing["en"]).format(me=first, melast=last)
        draft = f"Hi {you},\n\nThank you for your message. {' '.join(sentences)}\n\n{closing}"
        me = provenance.read(f"{first} {last}", label="you", by="own", writer=mail["to"][0], readers=[mail["to"][0]])
        yield Case(draft, [source, me], unseen, mail["from"], day)


def _others(rng: Random, mails: Sequence[dict[str, Any]], mail: dict[str, Any]) -> list[dict[str, Any]]:
    others = [other for other in mails if mail["to"][0] in other["to"] and other["from"] != mail["from"]]
    return rng.sample(others, min(20, len(others)))


def _with_facts(rng: Random, body: str) -> list[str]:
    sentences = [s.strip() for s in re.split(r"(?<=[.!?])\s+|\n\s*\n", body) if 20 < len(s.strip()) < 400]
    telling = [s for s in sentences if re.search(r"\d|[A-Z]\w+ [A-Z]\w+|day\b|tomorrow", s)]
    return rng.sample(telling, min(2, len(telling))) or sentences[:1]


def _respelled(rng: Random, sentence: str, day: date) -> str:
    """With times and dates as another hand writes them."""

    def clock(found: re.Match[str]) -> str:
        hour = int(found[1]) % 12 + (12 if found[3].lower().startswith("p") else 0)
        return rng.choice([found[0], f"{hour}:{found[2] or '00'}"])

    def month(found: re.Match[str]) -> str:
        return rng.choice([found[0], f"{found[2]} {found[1]}", f"{found[1][:3]} {found[2]}"])

    sentence = re.sub(r"\b(\d{1,2})(?::(\d\d))? ?([ap])\.?m\b\.?", clock, sentence, flags=re.IGNORECASE)
    names = "January|February|March|April|May|June|July|August|September|October|November|December"
    return re.sub(rf"\b({names}) (\d{{1,2}})(?:st|nd|rd|th)?\b(?![:\d–-])", month, sentence)


def _honest(title: str, cases: Sequence[Case], show: bool) -> None:
    grounding = [_unfounded(case) for case in cases]
    leaks = [_leaks(case) for case in cases]
    count = len(cases)
    marked = sum(bool(a or b) for a, b in zip(grounding, leaks, strict=True))
    print(
        f"{title}: {sum(map(len, grounding)) / count:.3f} false grounding marks a draft, false leak marks on "
        f"{sum(map(bool, leaks)) / count:.1%}, any mark on {marked / count:.1%} of {count}"
    )
    if show:
        for case, found in zip(cases, [a + b for a, b in zip(grounding, leaks, strict=True)], strict=True):
            for fact in found:
                _show(case, fact)


def _caught(title: str, cases: Sequence[Case], marks: Callable[[Case], list[Fact]], show: bool) -> None:
    missed: Counter[str] = Counter()
    total: Counter[str] = Counter(case.kind for case in cases)
    beside = 0
    for case in cases:
        assert case.planted
        start, end = case.planted
        found = marks(case)
        inside = [fact for fact in found if fact.span.start < end and fact.span.end > start]
        beside += len(found) > len(inside)
        if not inside:
            missed[case.kind] += 1
            if show:
                print(f"  missed: {case.draft[start:end]!r}")
    caught = 1 - sum(missed.values()) / len(cases)
    lacking = ", ".join(f"{kind} {count} of {total[kind]}" for kind, count in missed.most_common())
    print(f"{title}: {caught:.1%} of {len(cases)} caught, marks beside on {beside / len(cases):.1%}; missed: {lacking}")


def _unfounded(case: Case) -> list[Fact]:
    return provenance.unfounded(case.draft, case.sources, case.day)


def _leaks(case: Case) -> list[Fact]:
    return provenance.leaks(case.draft, [case.writer], [*case.sources, *case.unseen], case.day)


def _show(case: Case, fact: Fact) -> None:
    around = case.draft[max(0, fact.span.start - 40) : fact.span.end + 30]
    print(f"  {fact.span.kind} {fact.span.key!r} in {around!r} {[source.label for source in fact.sources]}")


def _speed(maker: Maker) -> None:
    """Of drafts of 2,000 words against twenty sources, beside one pass of patterns over the same text. Time of the
    processor, since others run on it too."""
    cases = [maker.case() for _ in range(500)]
    sources = [source for case in cases[:20] for source in case.sources[:1]]
    asides = " ".join(aside for language in maker.templates.asides.values() for aside in language)
    dense = " ".join(" ".join(case.draft for case in cases).split()[:_WORDS])
    usual = " ".join(" ".join(f"{case.draft} {asides}" for case in cases).split()[:_WORDS])
    every = [value for module in _MODULES for value in vars(module).values() if isinstance(value, re.Pattern)]
    for title, draft in (("all facts", dense), ("facts and asides", usual)):
        count = len(provenance.spans(draft))
        print(f"draft of {_WORDS} words, {title}, {count} spans:")
        _timed("  one pass of every pattern", partial(_pass, every, draft))
        _timed("  one pass of those that look at the whole text", partial(_pass, _LOOKING, draft))
        _timed("  trace: facts, unfounded and leaks", partial(_trace, draft, sources))


def _pass(patterns: Sequence[re.Pattern[str]], text: str) -> None:
    for pattern in patterns:
        for _ in pattern.finditer(text):
            pass


def _trace(draft: str, sources: Sequence[Source]) -> None:
    _forget()
    provenance.facts(draft, sources)
    provenance.unfounded(draft, sources)
    provenance.leaks(draft, ["a@example.com"], sources)


def _timed(title: str, function: Callable[[], None]) -> None:
    took = []
    for _ in range(60):
        began = time.process_time()
        function()
        took.append((time.process_time() - began) * 1000)
    print(f"{title}: {spread(took)}")


def _forget() -> None:
    spans.scan.cache_clear()
    provenance._facts.cache_clear()


def _gist(value: Any) -> Any:
    return value % 720 if isinstance(value, int) else value


def _places(pattern: str) -> list[str]:
    return list(dict.fromkeys(kind + number for kind, number in _PLACE.findall(pattern)))


def _source(text: str, writer: str, day: date) -> Source:
    return provenance.read(text, label=f"mail of {writer}", by="stranger", writer=writer, readers=[ME, writer], day=day)


def _me() -> Source:
    return provenance.read(" ".join(MY_NAME), label="you", by="own", writer=ME, readers=[ME])
