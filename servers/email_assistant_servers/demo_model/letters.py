"""Write a letter from the file of answers or by template, and write one again as the person asks."""

import math
import re
from collections.abc import Mapping, Sequence

from .reading import Person, PromptMail
from .wording import PATTERNS, PHRASES, sentence, shorten

_SENTENCE = re.compile(r"(?<=[.!?…])\s+")
_GREETING = re.compile(r"[^\n.?]{1,60}[,!]")
_SIGN_OFF = re.compile(r"[^\n.?!]{1,40}(?:\n[^\n.?!]{1,40}){0,2}")
_NOTES = (PHRASES["label"], PHRASES["not_understood"])


def letter(name: str, person: Person, paragraphs: Sequence[str], greeting: str = "", sign_off: str = "") -> str:
    """A letter to somebody of this name; the person's own rules for greeting and sign-off come first."""
    first, own = name.partition(" ")[0], person.name.partition(" ")[0]
    greeting = _rule(person, "rule_greeting") or greeting or PHRASES["greeting"]
    greeting = greeting.replace("<first name>", first) if name else PHRASES["greeting_to_nobody"]
    sign_off = _rule(person, "rule_sign_off") or sign_off or PHRASES["sign_off"]
    return "\n\n".join([greeting, *paragraphs, f"{sign_off}\n{own}".strip(), PHRASES["label"]])


def reply(
    mail: PromptMail, person: Person, said: Sequence[str], meeting: str, answer: str, known: Mapping[str, str]
) -> str:
    """A letter that answers a mail by what is `known` for it, unless the person wants something else to be `said`;
    `meeting` is about the one that the mail asks for, `answer` the person's to our question."""
    open_parts = {"{meeting}": meeting, "{answer}": answer}
    text = known.get("reply", "").strip()
    if not text or said or any(name in text and not given for name, given in open_parts.items()):
        subject, main = shorten(mail.subject, 80), [each for each in (meeting, answer, *said) if each]
        thanks = PHRASES["thanks"].format(subject=subject) if subject else PHRASES["thanks_bare"]
        asked = [PHRASES["asked"].format(question=question) for question in mail.questions[:1]]
        text = "\n\n".join([thanks, *asked, *(main or [PHRASES["later"]])])
    else:
        for name, given in open_parts.items():
            text = text.replace(name, given)
    return letter(mail.sender_name, person, [text], known.get("greeting", ""), known.get("sign_off", ""))


def dictated(words: str) -> str:
    """What the person's words about a letter say to write ("say that …"), or ""."""
    found = PATTERNS["dictated"].match(words)
    return sentence(found["text"]) if found else ""


def rewritten(standing: str, feedback: str, mail: PromptMail, person: Person) -> str:
    """The letter that stood there, changed as `feedback` asks, which is by a key or in the person's own words."""
    words, *theirs = PATTERNS["their_letter"].split(feedback, maxsplit=1)
    is_same = PATTERNS["same"].match(words)
    if is_same and not theirs:
        return standing
    greeting, body, sign_off = _parts(theirs[0] if theirs else standing)
    note = ""
    if text := dictated(words):
        body = [*body, text] if theirs else [text]
    elif PATTERNS["shorter"].match(words):
        said = _SENTENCE.split(" ".join(each for each in body if not PATTERNS["courtesy"].match(each)))
        body = [" ".join(said[: math.ceil(len(said) / 2)])]
    elif PATTERNS["friendlier"].match(words):
        first, own = mail.sender_name.partition(" ")[0], person.name.partition(" ")[0]
        greeting = PHRASES["warm_greeting"].replace("<first name>", first) if first else greeting
        sign_off = "\n".join([PHRASES["warm_sign_off"], *(sign_off.split("\n")[1:] or [own])])
    elif PATTERNS["declines"].match(words):
        body = [PHRASES["thanks_bare"], PHRASES["decline"]]
    elif not is_same:
        note = PHRASES["not_understood"]
    return "\n\n".join(filter(None, [greeting, *body, sign_off, note, PHRASES["label"]]))


def _parts(written: str) -> tuple[str, list[str], str]:
    """Greeting, paragraphs and sign-off of a letter, as far as it has them; without the demo's own notes."""
    body = [each.strip() for each in written.split("\n\n") if each.strip() and each.strip() not in _NOTES]
    greeting = body.pop(0) if len(body) > 1 and _GREETING.fullmatch(body[0]) else ""
    sign_off = body.pop() if len(body) > 1 and _SIGN_OFF.fullmatch(body[-1]) else ""
    return greeting, body, sign_off


def _rule(person: Person, name: str) -> str:
    """What the person's newest rule of a kind gives, which stands last; "" without one."""
    return next((found[1] for rule in reversed(person.rules) if (found := PATTERNS[name].search(rule))), "")
