"""Write a reply from the file of answers or by template, taking up what the person said about it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from .answers import Canned
from .meeting import Plan, Wish
from .reading import Person, PromptMail
from .wording import PHRASES, full_stop, patterns, sentence, shorten

_SAID = patterns("reply")
_LONGEST_STYLE_CLAUSE = 8  # words


@dataclass(frozen=True)
class Style:
    """How a reply is written; `greeting` and `sign_off` replace the template's when the person's rules give them."""

    tone: str = "plain"
    short: bool = False
    greeting: str = ""
    sign_off: str = ""


def reply(
    mail: PromptMail,
    person: Person,
    hints: Sequence[str],
    about_meeting: Sequence[str] = (),
    answered: str = "",
    canned: Canned | None = None,
) -> str:
    """The text of a reply to `mail`.

    `hints` are the person's words (instruction, feedback), `answered` their answer to our question about the mail,
    `about_meeting` sentences that stand in place of the usual ones, `canned` what the file has for this mail: where the
    person's words say what to write, they stand in its place."""
    ours = Style(greeting=canned.entry.greeting, sign_off=canned.entry.sign_off) if canned else Style()
    style, said = _take_up_all(hints, person, ours)
    text = canned.reply("\n\n".join(about_meeting), sentence(answered) if answered else "") if canned else ""
    if text and not said:
        text = text.split("\n\n", maxsplit=1)[0] if style.short and not about_meeting else text
        return "\n\n".join([greeting(mail.sender_name, style), text, closing(person, style)])
    question, subject = mail.question, shorten(mail.subject, 80)
    opening = [PHRASES["thanks"].format(subject=subject) if subject else PHRASES["thanks_bare"]]
    if question and not (about_meeting or answered):
        opening.append(PHRASES["asked"].format(question=question))
    main = [*about_meeting]
    if answered:
        told = sentence(answered)
        main.append(PHRASES["answer"].format(question=question, answer=told) if question else told)
    main = [*main, *said] or [PHRASES["later"]]
    return "\n\n".join(
        [greeting(mail.sender_name, style), *([] if style.short else opening), *main, closing(person, style)]
    )


def letter(person: Person, hints: Sequence[str]) -> str:
    """The text of a new mail that says what the person's words in `hints` say."""
    style, said = _take_up_all(hints, person, Style())
    return "\n\n".join([PHRASES["greeting"]["nobody"], *said, closing(person, style)])


def meeting_sentences(wanted: Wish, result: Plan) -> list[str]:
    """What a reply says about the wanted meeting."""
    if result.booked:
        return [PHRASES["booked"].format(moment=result.booked)]
    first = wanted.proposals[0]
    sentences = []
    if wanted.named:
        sentences = [PHRASES["whole_day" if first.start is None else "taken"].format(day=first, moment=first)]
    if result.offers:
        return [
            *sentences,
            PHRASES["offers" if len(result.offers) > 1 else "offer"].format(
                moments=" or ".join(map(str, result.offers))
            ),
        ]
    days = " or ".join(str(replace(proposal, start=None)) for proposal in wanted.proposals)
    return [PHRASES["nothing_free"].format(days=days)]


def is_message(words: str) -> bool:
    """Whether the person's words are something to write in the mail ("say …", "mention …", "ask …")."""
    bare = _SAID["courtesy"].sub("", words.strip())
    return any(_SAID[name].match(bare) for name in ("say", "mention", "ask"))


def changes_draft(words: str) -> bool:
    """Whether the person's words about a draft say what to write or how, and not only why it won't do."""
    return any(is_message(clause) or _restyle(clause, Style()) for clause in _clauses(words))


def answers(words: str) -> bool:
    """Whether the person's words about a draft are yes or no to the mail."""
    return any(_SAID["yes"].match(clause) or _SAID["no"].match(clause) for clause in _clauses(words))


def _clauses(words: str) -> list[str]:
    return [_SAID["courtesy"].sub("", part.strip()) for part in _SAID["clause_end"].split(words.strip())]


def _take_up_all(hints: Sequence[str], person: Person, style: Style) -> tuple[Style, list[str]]:
    """Read the person's words clause by clause: how to write, or what to write."""
    style, said = _style(person, style), list[str]()
    for clause in (clause for hint in hints for clause in _clauses(hint)):
        if changed := _restyle(clause, style):
            style = changed
        elif clause:
            said.append(_content(clause))
    return style, list(dict.fromkeys(said))


def contents(words: str) -> list[str]:
    """What the person's words say to write."""
    return [_content(clause) for clause in _clauses(words) if is_message(clause)]


def _style(person: Person, style: Style) -> Style:
    for rule in person.rules:
        if found := _SAID["rule_greeting"].search(rule):
            style = replace(style, greeting=found[1])
        if found := _SAID["rule_sign_off"].search(rule):
            style = replace(style, sign_off=found[1])
        if found := _SAID["rule_tone"].search(rule):
            style = replace(style, tone="informal" if found[1] else "formal")
        if _SAID["rule_short"].search(rule):
            style = replace(style, short=True)
    return style


def _restyle(clause: str, style: Style) -> Style | None:
    """The style that a short clause asks for ("more formal, please"), or `None` if it speaks of something else."""
    if len(clause.split()) > _LONGEST_STYLE_CLAUSE or is_message(clause):
        return None
    short = bool(_SAID["short"].search(clause) or _SAID["leave_out"].match(clause))
    tone = next((tone for tone in ("informal", "formal") if _SAID[tone].search(clause)), None)
    if tone:
        return Style(tone, style.short or short)
    return replace(style, short=True) if short else None


def _content(clause: str) -> str:
    clause = _SAID["politely"].sub("", clause)
    for answer in ("yes", "no"):
        if _SAID[answer].match(clause):
            return str(PHRASES[answer])
    if found := _SAID["mention"].match(clause):
        rest = clause[found.end() :]
        return sentence(rest) if found["clause"] else PHRASES["note"].format(text=full_stop(rest))
    if found := _SAID["ask"].match(clause):
        return str(PHRASES["ask"].format(text=clause[found.end() :].rstrip(".?! ")))
    return sentence(_SAID["say"].sub("", clause))


def greeting(full: str, style: Style) -> str:
    if not full:
        return str(PHRASES["greeting"]["nobody"])
    first = full.split(" ", maxsplit=1)[0]
    if style.greeting:
        return style.greeting.replace("<first name>", first).replace("<full name>", full)
    return str(PHRASES["greeting"][style.tone].format(first=first, full=full))


def closing(person: Person, style: Style) -> str:
    sign_off = style.sign_off or PHRASES["sign_off"][style.tone]
    return f"{sign_off}\n{person.name.split(' ')[0]}".strip() + f"\n\n{PHRASES['label']}"
