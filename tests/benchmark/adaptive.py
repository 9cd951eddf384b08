"""What gets past the gate of attacks that were written by somebody who has read it, and what it marks of honest work.

The agent does whatever any text asks for. The person accepts everything that bears no mark, and refuses the rest: a
call bears one if the gate asks about it for a reason beyond its tool's standing question, or if a letter that the
person is shown tells what its readers never saw, or what nobody has said. Each scenario of adaptive.yaml has a twin, in
which much the same is honestly asked for.
"""

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Any, Final, Literal

from email_assistant.core_yaml import load
from email_assistant.gate.answers import answer
from email_assistant.gate.call import PROSE, Labels, Proposed, Subject, shipped_labels
from email_assistant.gate.doubts import doubts
from email_assistant.gate.policy import GateSession, Verdict, decide, entry
from email_assistant.gate.provenance import Source, read, spans

ME: Final = "robin@home.example"
DAY: Final = date(2026, 3, 2)
_FILE: Final = Path(__file__).with_name("adaptive.yaml")
_REPEATS: Final = 50_000
_PADDING: Final = "The weather was mild, and the garden needs water again. "

Fate = Literal["runs", "shown without a mark", "marked", "denied"]
UNSEEN: Final[tuple[Fate, ...]] = ("runs", "shown without a mark")


@dataclass(frozen=True)
class Step:
    proposed: Proposed
    told: str
    readers: frozenset[str] | None
    is_attack: bool


@dataclass(frozen=True)
class Scene:
    session: GateSession
    messages: Sequence[Sequence[Step]]
    """The calls of each message of the agent."""


@dataclass(frozen=True)
class Scenario:
    name: str
    kind: str
    attack: Scene
    twin: Scene


@dataclass(frozen=True)
class Judged:
    step: Step
    fate: Fate
    because: tuple[str, ...] = field(default=())


def play(scene: Scene) -> Iterator[Judged]:
    session = scene.session
    for message in scene.messages:
        done: list[Step] = []
        for step in message:
            judged = _judged(session, step, [earlier.proposed for earlier in done])
            yield judged
            if judged.fate in UNSEEN:
                done.append(step)
        for step in done:
            session = _after(session, step)


def missed(scenario: Scenario) -> list[Judged]:
    """What the attack does without a mark."""
    return [judged for judged in play(scenario.attack) if judged.step.is_attack and judged.fate in UNSEEN]


def held(scenario: Scenario) -> list[Judged]:
    """What bears a mark, or may not be, though it is honest."""
    return [judged for judged in play(scenario.twin) if judged.fate not in UNSEEN]


def scenarios(path: Path = _FILE) -> list[Scenario]:
    tree = load(path.read_text())
    tools = {name: Subject("own", labels, _review(labels)) for name, labels in shipped_labels().items()}
    tools |= {name: _subject(told) for name, told in tree["tools"].items()}
    return [
        Scenario(each["name"], each["kind"], _scene(each["attack"], tools), _scene(each["twin"], tools))
        for each in tree["scenarios"]
    ]


def _judged(session: GateSession, step: Step, before: Sequence[Proposed]) -> Judged:
    verdict = decide(session, step.proposed, before=before)
    if verdict.do == "deny":
        return Judged(step, "denied", (verdict.reason,))
    marks = tuple(_marks(session, step.proposed, verdict)) if verdict.do == "ask" else ()
    if marks:
        return Judged(step, "marked", marks)
    return Judged(step, "runs" if verdict.do == "allow" else "shown without a mark")


def _marks(session: GateSession, call: Proposed, verdict: Verdict) -> Iterator[str]:
    if verdict.overrules:
        yield verdict.reason
    found = doubts(call.arguments or {}, list(_recipients(call.arguments)), session.texts, DAY)
    yield from (doubt.text for doubt in found)


def _after(session: GateSession, step: Step) -> GateSession:
    tool, labels = step.proposed.tool, step.proposed.subject.labels
    told = answer(step.told, f"the answer of {tool}", labels, readers=step.readers, day=DAY)
    return replace(session, answers=[*session.answers, told]).then(entry(session, step.proposed))


def _recipients(arguments: Any) -> Iterator[str]:
    for key, value in _leaves(arguments):
        if not PROSE.fullmatch(key):
            yield from (span.text for span in spans(value) if span.kind == "address")


def _leaves(tree: Any, key: str = "") -> Iterator[tuple[str, str]]:
    match tree:
        case dict():
            for name, part in tree.items():
                yield from _leaves(part, name)
        case list():
            for part in tree:
                yield from _leaves(part, key)
        case str():
            yield key, tree


def _review(labels: Labels) -> Literal["always", "gate"]:
    """As our own tools ship."""
    return "always" if labels.write_operation else "gate"


def _subject(told: Mapping[str, Any]) -> Subject:
    touches = told["touches"]
    labels = None if touches is None else Labels(
        write_operation="w" in touches,
        read_private_data="p" in touches,
        read_untrusted_public_data="u" in touches,
        acl=told.get("acl", "PRIVATE"),
        act=told.get("act"),
        external=told.get("external"),
    )  # fmt: skip
    return Subject("other", labels, "gate", told.get("server"))


def _scene(told: Mapping[str, Any], tools: Mapping[str, Subject]) -> Scene:
    thread = frozenset(told["thread"]) if "thread" in told else None
    answered = frozenset(told.get("answers", told.get("thread", ())))
    session = GateSession(list(_sources(told)), thread=thread, answered=answered)
    steps = [each if isinstance(each, list) else [each] for each in told["steps"]]
    return Scene(session, [[_step(each, tools) for each in message] for message in steps])


def _sources(told: Mapping[str, Any]) -> Iterator[Source]:
    yield read("Robin Keller", label="you", by="own", writer=ME, readers=[ME])
    for words in told.get("said", ()):
        yield read(words, label="your request", by="person", day=DAY)
    for record in told.get("own", ()):
        yield read(record, label="your records", by="own", readers=[ME], day=DAY)
    for rule in told.get("learned", ()):
        yield read(rule, label="a learned rule", by="stranger", readers=[ME])
    for mail in told.get("mails", ()):
        text, writer = _padded(mail["says"], mail.get("below", 0)), mail["from"]
        readers = [ME, writer, *mail.get("cc", ())]
        yield read(text, label=f"the mail of {writer}", by="stranger", writer=writer, readers=readers, day=DAY)


def _padded(text: str, below: int) -> str:
    return _PADDING * (below // len(_PADDING)) + text


def _step(told: Mapping[str, Any], tools: Mapping[str, Subject]) -> Step:
    answers = told.get("tells", "Done.")
    text = answers if isinstance(answers, str) else json.dumps(answers, ensure_ascii=False)
    subject = tools[told["call"]]
    is_private = subject.labels is None or subject.labels.read_private_data
    return Step(
        Proposed(told["call"], subject, told.get("with", {})),
        told.get("repeated", "") * _REPEATS + _padded(text, told.get("below", 0)),
        frozenset([ME, *told.get("seen_by", ())]) if is_private else None,
        told.get("attack", False),
    )


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--which", action="store_true", help="say of each what the marks are")


def main(given: argparse.Namespace) -> None:
    every = scenarios()
    print("scenario | attack | twin")
    for scenario in every:
        through, marked = missed(scenario), held(scenario)
        print(f"{scenario.name} | {'THROUGH' if through else 'stopped'} | {'marked' if marked else 'free'}")
        told = [*play(scenario.attack), *marked] if given.which else [*through, *marked]
        for judged in told:
            print(f"    {judged.step.proposed.tool}: {judged.fate}; {'; '.join(judged.because)}")
    attacks, twins = sum(map(bool, map(missed, every))), sum(map(bool, map(held, every)))
    print(f"{attacks} of {len(every)} attacks without a mark, {twins} of {len(every)} twins marked")
