"""Write a reply by template, in the mail's language, taking up what the person said about it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from email_assistant_servers.demo_model.language import Phrases, phrases_for
from email_assistant_servers.demo_model.meeting import Plan, Wish
from email_assistant_servers.demo_model.reading import Mail, Person, shorten

LABEL = "(Draft by the demo model: fixed templates, no language model.)"
_LONGEST_STYLE_CLAUSE = 8  # words
_PLAIN, _FORMAL, _INFORMAL = 0, 1, 2
_SHORT = re.compile(r"\b(?:short(?:er)?|brief(?:er|ly)?|concise(?:ly)?|kürzer|kurz|plus court)\b", re.IGNORECASE)
_INFORMAL_TONE = re.compile(
    r"\b(?:less formal(?:ly)?|informal(?:ly)?|casual(?:ly)?|friendl(?:y|ier)|warmer|relaxed|lockerer)\b", re.IGNORECASE
)
_FORMAL_TONE = re.compile(r"\b(?:formal(?:ly)?|polite(?:r)?|förmlich(?:er)?|plus formel)\b", re.IGNORECASE)
_LEAVE_OUT = re.compile(
    r"^(?:remove|leave out|drop|(?:do not|don['’]t) (?:mention|say|quote|include))\b", re.IGNORECASE
)
_YES = re.compile(r"^(?:accept|agree|confirm|say yes|yes|zusagen)\b[ .!]*(?:it|this|that)?$", re.IGNORECASE)
_NO = re.compile(r"^(?:decline|refuse|say no|no|absagen|turn (?:it|this|\w+) down)\b[ .!]*(?:it|this)?$", re.IGNORECASE)
_POLITELY = re.compile(r",? ?\b(?:politely|kindly|please)\b[.!]?$", re.IGNORECASE)
_COURTESY = re.compile(r"^(?:please|bitte|politely|also|and|but)[, ]+", re.IGNORECASE)
_SAY = re.compile(
    r"^(?:say|add|write|state|reply|answer|include|tell (?:him|her|them|\w+))\b"
    r"(?: (?:that|a note that|a line that))?[:, ]*",
    re.IGNORECASE,
)
_MENTION = re.compile(r"^mention\b(?P<clause> that)?[:, ]*", re.IGNORECASE)
_ASK = re.compile(r"^ask\b(?: (?:him|her|them))?[:, ]*", re.IGNORECASE)
_CLAUSE_END = re.compile(
    r"(?<=[.!;])\s+|\n+|,? (?:and|but) "
    r"(?=(?:also |please )?(?:mention|say|add|tell|include|ask|make|keep|be|write|more|shorter)\b)",
    re.IGNORECASE,
)
_RULE_GREETING = re.compile(r"\bstart replies with [\"“]([^\"”]+)[\"”]", re.IGNORECASE)
_RULE_SIGN_OFF = re.compile(r"\bsign off with [\"“]([^\"”]+)[\"”]", re.IGNORECASE)
_RULE_SHORT = re.compile(r"\bkeep replies short\b", re.IGNORECASE)
_RULE_TONE = re.compile(r"\bwrite (in)?formally\b", re.IGNORECASE)


@dataclass(frozen=True)
class Style:
    """How a reply is written; `greeting` and `sign_off` replace the template's when the person's rules give them."""

    tone: int = _PLAIN
    short: bool = False
    greeting: str = ""
    sign_off: str = ""


def reply(
    mail: Mail, person: Person, hints: Sequence[str], about_meeting: Sequence[str] = (), answered: str = ""
) -> str:
    """The text of a reply to `mail`.

    `hints` are the person's words (instruction, feedback), `answered` their answer to our question about the mail,
    `about_meeting` sentences that stand in place of the usual ones.
    """
    phrases = phrases_for(mail.new_text or mail.subject)
    style, said = _take_up_all(hints, person, phrases)
    opening = [] if style.short else _opening(mail, phrases, with_question=not (about_meeting or answered))
    main = [*about_meeting, *([_answer(mail, answered, phrases)] if answered else []), *said]
    paragraphs = [
        _greeting(mail, style, phrases),
        *opening,
        *(main or [phrases.later]),
        _closing(person, style, phrases),
    ]
    return "\n\n".join(paragraphs)


def letter(person: Person, hints: Sequence[str]) -> str:
    """The text of a new mail that says what the person's words in `hints` say."""
    phrases = phrases_for(" ".join(hints))
    style, said = _take_up_all(hints, person, phrases)
    return "\n\n".join([phrases.greeting_nobody, *said, _closing(person, style, phrases)])


def meeting_sentences(mail: Mail, wanted: Wish, result: Plan) -> list[str]:
    """What a reply says about the wanted meeting."""
    phrases = phrases_for(mail.new_text or mail.subject)
    if result.booked:
        return [_capital(phrases.booked.format(moment=phrases.moment(result.booked.day, result.booked.start or 0)))]
    sentences = []
    first = wanted.proposals[0]
    if wanted.named:
        sentences.append(
            phrases.whole_day.format(day=phrases.day(first.day))
            if first.start is None
            else phrases.taken.format(moment=phrases.moment(first.day, first.start))
        )
    if result.offers:
        moments = phrases.either.join(phrases.moment(offer.day, offer.start or 0) for offer in result.offers)
        return [*sentences, phrases.offers.format(moments=moments)]
    return [phrases.nothing_free.format(days=phrases.either.join(phrases.day(day) for day in wanted.days))]


def is_message(words: str) -> bool:
    """Whether the person's words are something to write in the mail ("say …", "mention …", "ask …")."""
    return any(pattern.match(_COURTESY.sub("", words.strip())) for pattern in (_SAY, _MENTION, _ASK))


def changes_draft(words: str) -> bool:
    """Whether the person's words about a draft say what to write or how, and not only why it won't do."""
    clauses = [_COURTESY.sub("", part.strip()) for part in _CLAUSE_END.split(words.strip())]
    return any(is_message(clause) or _restyle(clause, Style()) for clause in clauses)


def _closing(person: Person, style: Style, phrases: Phrases) -> str:
    sign_off = f"{style.sign_off or phrases.sign_offs[style.tone]}\n{person.name.split(' ')[0]}".strip()
    return f"{sign_off}\n\n{LABEL}"


def _take_up_all(hints: Sequence[str], person: Person, phrases: Phrases) -> tuple[Style, list[str]]:
    style, said = _style(person), list[str]()
    for hint in hints:
        style, content = _take_up(hint, style, phrases)
        said += content
    return style, list(dict.fromkeys(said))


def _opening(mail: Mail, phrases: Phrases, *, with_question: bool) -> list[str]:
    subject = shorten(mail.subject, 80)
    thanks = phrases.thanks.format(subject=subject) if subject else phrases.thanks_bare
    return [thanks, phrases.asked.format(question=mail.question)] if with_question and mail.question else [thanks]


def _answer(mail: Mail, answered: str, phrases: Phrases) -> str:
    return (
        phrases.answer.format(question=mail.question, answer=_sentence(answered))
        if mail.question
        else _sentence(answered)
    )


def _greeting(mail: Mail, style: Style, phrases: Phrases) -> str:
    full = mail.sender_name
    if not full:
        return phrases.greeting_nobody
    first = full.split(" ")[0]
    if style.greeting:
        return style.greeting.replace("<first name>", first).replace("<full name>", full)
    return phrases.greetings[style.tone].format(first=first, full=full)


def _style(person: Person) -> Style:
    style = Style()
    for rule in person.rules:
        if found := _RULE_GREETING.search(rule):
            style = replace(style, greeting=found[1])
        if found := _RULE_SIGN_OFF.search(rule):
            style = replace(style, sign_off=found[1])
        if found := _RULE_TONE.search(rule):
            style = replace(style, tone=_INFORMAL if found[1] else _FORMAL)
        if _RULE_SHORT.search(rule):
            style = replace(style, short=True)
    return style


def _take_up(hint: str, style: Style, phrases: Phrases) -> tuple[Style, list[str]]:
    """Read the person's words clause by clause: how to write, or what to write."""
    content = []
    for part in _CLAUSE_END.split(hint.strip()):
        clause = _COURTESY.sub("", _COURTESY.sub("", part.strip()))
        changed = _restyle(clause, style)
        if changed is not None:
            style = changed
        elif clause:
            content.append(_content(clause, phrases))
    return style, content


def _restyle(clause: str, style: Style) -> Style | None:
    """The style that a short clause asks for ("more formal, please"), or `None` if it speaks of something else."""
    if len(clause.split()) > _LONGEST_STYLE_CLAUSE or is_message(clause):
        return None
    short = bool(_SHORT.search(clause) or _LEAVE_OUT.match(clause))
    informal, formal = _INFORMAL_TONE.search(clause), _FORMAL_TONE.search(clause)
    if informal or formal:
        tone = _INFORMAL if informal else _FORMAL
        return replace(style, tone=tone, greeting="", sign_off="", short=style.short or short)
    return replace(style, short=True) if short else None


def _content(clause: str, phrases: Phrases) -> str:
    clause = _POLITELY.sub("", clause)
    if _YES.match(clause):
        return phrases.yes
    if _NO.match(clause):
        return phrases.no
    if found := _MENTION.match(clause):
        rest = clause[found.end() :]
        return _sentence(rest) if found["clause"] else phrases.note.format(text=_full_stop(rest))
    if found := _ASK.match(clause):
        return phrases.ask.format(text=clause[found.end() :].rstrip(".?! "))
    return _sentence(_SAY.sub("", clause))


def _sentence(text: str) -> str:
    return _full_stop(_capital(" ".join(text.split())))


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _full_stop(text: str) -> str:
    return text if text.endswith((".", "!", "?", "…")) else f"{text}."
