"""Write a letter again: what is asked for by a key, or with a version that the person has changed themselves."""

import math
import re

from .reading import Person, PromptMail
from .reply import Style, answers, changes_draft, contents, greeting
from .wording import PHRASES, patterns

_ASKED = patterns("refinements")
_SENTENCE = re.compile(r"(?<=[.!?…])\s+")
_GREETING = re.compile(r"[^\n.?]{1,60}[,!]")
_SIGN_OFF = re.compile(r"[^\n.?!]{1,40}(?:\n[^\n.?!]{1,40}){0,2}")


def told(feedback: str) -> str:
    """What a person said in their own words; "" where they pressed a key."""
    words = _ASKED["their_letter"].split(feedback, maxsplit=1)[0].strip()
    return (
        "" if any(_ASKED[name].match(words) for name in ("shorter", "friendlier", "decline", "same", "drop")) else words
    )


def declines(feedback: str) -> bool:
    """Whether the mail is to be declined, by a key."""
    return any(_ASKED[name].match(feedback) for name in ("decline", "drop"))


def rewritten(letter: str, feedback: str, mail: PromptMail, person: Person) -> str | None:
    """The letter that stood there, changed as `feedback` asks; None: it says what to write in its place."""
    words, *theirs = _ASKED["their_letter"].split(feedback, maxsplit=1)
    said = told(words)
    if said and not theirs and (changes_draft(said) or answers(said)):
        return None
    if _ASKED["same"].match(words) and not theirs:
        return letter
    begin, body, end = _parts(theirs[0] if theirs else letter)
    note = ""
    if _ASKED["shorter"].match(words):
        body = _shorter(body)
    elif _ASKED["friendlier"].match(words):
        begin, end = greeting(mail.sender_name, Style("informal")), _warmer(end, person)
    elif _ASKED["decline"].match(words):
        body = [PHRASES["thanks_bare"], PHRASES["no"]]
    elif said and changes_draft(said):
        body = [*body, *contents(said)]
    elif said:
        note = PHRASES["not_understood"]
    return "\n\n".join(filter(None, [begin, *body, end, note, PHRASES["label"]]))


def _parts(letter: str) -> tuple[str, list[str], str]:
    """Greeting, paragraphs and sign-off of a letter, as far as it has them; without the demo's own notes."""
    notes = (PHRASES["label"], PHRASES["not_understood"])
    body = [each.strip() for each in letter.strip().split("\n\n") if each.strip() and each.strip() not in notes]
    begin = body.pop(0) if len(body) > 1 and _GREETING.fullmatch(body[0]) else ""
    end = body.pop() if len(body) > 1 and _SIGN_OFF.fullmatch(body[-1]) else ""
    return begin, body, end


def _shorter(body: list[str]) -> list[str]:
    """The half that says something; courtesies and what was asked are left out first."""
    said = [each for each in body if not _ASKED["courtesy"].match(each)] or body
    if len(said) < len(body):
        return said
    sentences = [each for paragraph in said for each in _SENTENCE.split(paragraph)]
    return [" ".join(sentences[: math.ceil(len(sentences) / 2)])]


def _warmer(end: str, person: Person) -> str:
    _, _, name = end.partition("\n")
    return f"{PHRASES['sign_off']['warm']}\n{name or person.name.split(' ')[0]}".strip()
