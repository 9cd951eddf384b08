"""The mail's tasks: answer somebody's newest mail, or write a new one, with the person's words in it."""

from collections.abc import Generator

from email_assistant_servers.demo_model.chat.conversation import READ, SEARCH, SEND
from email_assistant_servers.demo_model.chat.results import Found, read_found
from email_assistant_servers.demo_model.chat.script import GiveUp, Script, ask, look, not_done, propose
from email_assistant_servers.demo_model.protocol import Call
from email_assistant_servers.demo_model.reading import Mail, Person, read_mails, shorten
from email_assistant_servers.demo_model.reply import changes_draft, letter, reply
from email_assistant_servers.demo_model.steps import Step
from email_assistant_servers.demo_model.wording import ADDRESS

_LONGEST_SUBJECT = 60


def answer(who: str, text: str, person: Person) -> Script:
    """Answer the newest mail of whom the person named."""
    found = yield from _find(who)
    mail = _newest_of_others((yield from look(READ, thread_id=found.thread)), person)
    if not text:
        text = yield from ask("What should I answer?", f"From {mail.sender}: {mail.subject}")
    step = yield from propose(
        [f"Say that {text}"],
        lambda hints: Call(
            SEND,
            {
                "email_id": mail.id,
                "response_text": reply(mail, person, hints),
                "email_address": mail.reply_address,
            },
        ),
        _with_feedback,
    )
    return _told(step, mail.reply_address)


def write(who: str, subject: str, text: str, person: Person) -> Script:
    """Write a new mail. Its address is only ever taken from the person's own words."""
    address = ADDRESS.search(who) or ADDRESS.search((yield from ask(f"What is the address of {who}?", "")))
    if address is None:
        raise GiveUp(f"I don't know the address of {who}, so nothing was sent.")
    if not text:
        text = yield from ask(f"What should I write to {address[0]}?", "")
    step = yield from propose(
        [f"Say that {text}"],
        lambda hints: Call(
            SEND,
            {
                "email_id": None,
                "subject": shorten(subject or text[:1].upper() + text[1:], _LONGEST_SUBJECT).rstrip("."),
                "response_text": letter(person, hints),
                "email_address": address[0],
            },
        ),
        _with_feedback,
    )
    return _told(step, address[0])


def _find(who: str) -> Generator[Call, Step, Found]:
    """The newest mail that somebody else wrote and that fits; asks once if there is none."""
    found = yield from _search(who)
    if found is None:
        name = yield from ask(f"I find no mail that fits “{who}”. Whose mail do you mean?", "")
        found = yield from _search(name)
    if found is None:
        raise GiveUp("I find no such mail, so nothing was sent.")
    return found


def _search(who: str) -> Generator[Call, Step, Found | None]:
    mails = [mail for mail in read_found((yield from look(SEARCH, query=who))) if not mail.by_person]
    from_them = [mail for mail in mails if who.lower() in mail.sender.lower()]
    return next(iter(from_them or mails), None)


def _newest_of_others(thread: str, person: Person) -> Mail:
    mails = [mail for mail in read_mails(thread) if mail.sender and mail.sender != person.address]
    if not mails:
        raise GiveUp("I find no mail of somebody else in that conversation, so nothing was sent.")
    return mails[-1]


def _with_feedback(hints: list[str], words: str) -> list[str]:
    return [*hints, words] if changes_draft(words) else hints


def _told(step: Step, address: str) -> str:
    to = step.arguments.get("email_address") or address  # the person may have edited it
    return f"Sent to {to}." if step.outcome == "done" else not_done(step, f"The mail to {to} was not sent")
