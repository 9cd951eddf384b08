"""The mail's and the inbox's tasks: answer somebody's newest mail, write a new one, tell what waits and why."""

from collections.abc import Generator

from ..protocol import ModelCall
from ..reading import Person, Step, read_mails
from ..reply import changes_draft, letter, reply
from ..wording import ADDRESS, capital, shorten
from .results import content, read_entries, read_found
from .script import EXPLAIN, FIND, READ, SEARCH, SEND, WAITING, GiveUp, Script, ask, look, not_done, propose

_LONGEST_SUBJECT = 60
_LONGEST_ENTRY = 160
_CLASS = 4  # place of a found mail's class among its fields


def answer(who: str, text: str, person: Person) -> Script:
    """Answer the newest mail of whom the person named."""
    thread = yield from _search(who)
    if thread is None:
        name = yield from ask(f"I find no mail that fits “{who}”. Whose mail do you mean?")
        thread = yield from _search(name)
    if thread is None:
        return "I find no such mail, so nothing was sent."
    mails = read_mails((yield from look(READ, thread_id=thread)))
    mail = next((mail for mail in reversed(mails) if mail.sender not in ("", person.address)), None)
    if mail is None:
        return "I find no mail of somebody else in that conversation, so nothing was sent."
    if not text:
        text = yield from ask("What should I answer?", f"From {mail.sender}: {mail.subject}")
    address = mail.reply_address

    def called(hints: list[str]) -> ModelCall:
        return ModelCall(
            SEND, {"email_id": mail.id, "response_text": reply(mail, person, hints), "email_address": address}
        )

    step = yield from propose([f"Say that {text}"], called, _with_feedback)
    return _told(step, address)


def write(who: str, subject: str, text: str, person: Person) -> Script:
    """Write a new mail. Its address is only ever taken from the person's own words."""
    found = ADDRESS.search(who) or ADDRESS.search((yield from ask(f"What is the address of {who}?")))
    if found is None:
        raise GiveUp(f"I don't know the address of {who}, so nothing was sent.")
    address = found[0]
    if not text:
        text = yield from ask(f"What should I write to {address}?")
    subject = shorten(subject or capital(text), _LONGEST_SUBJECT).rstrip(".")

    def called(hints: list[str]) -> ModelCall:
        told = letter(person, hints)
        return ModelCall(SEND, {"email_id": None, "subject": subject, "response_text": told, "email_address": address})

    step = yield from propose([f"Say that {text}"], called, _with_feedback)
    return _told(step, address)


def waiting() -> Script:
    """Tell what waits for the person."""
    entries = read_entries((yield from look(WAITING)))
    if not entries:
        return "Nothing waits for you."
    told = (f"- {shorten(', '.join(fields[1:]), _LONGEST_ENTRY)}" for fields in entries)
    return "\n".join(["This waits for you:", *told])


def explain(words: str, wanted_class: str) -> Script:
    """Tell what became of the newest mail that fits the words, of the wanted class if there is one."""
    found = read_entries((yield from look(FIND, words=words)))
    if not found:
        return f"I find no mail that fits “{words}”."
    entry = next((fields for fields in found if fields[_CLASS : _CLASS + 1] == [wanted_class]), found[0])
    trail = content((yield from look(EXPLAIN, mail_id=entry[0])))
    return f"{' · '.join(entry[1:])}\n\n{trail}"


def _search(who: str) -> Generator[ModelCall, Step, str | None]:
    """The thread of the newest mail that somebody else wrote and that fits; one of theirs comes first."""
    mails = read_found((yield from look(SEARCH, query=who)))
    from_them = (thread for sender, thread in mails if who.lower() in sender.lower())
    return next(from_them, mails[0][1] if mails else None)


def _with_feedback(hints: list[str], words: str) -> list[str]:
    return [*hints, words] if changes_draft(words) else hints


def _told(step: Step, address: str) -> str:
    to = step.arguments.get("email_address") or address  # the person may have edited it
    return f"Sent to {to}." if step.outcome == "done" else not_done(step, f"The mail to {to} was not sent")
