"""Whatever reads what others wrote takes time that grows with the text and not faster, whatever the text is."""

import gc
import json
import os
import random
import time
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from itertools import count
from typing import Any, Final
from zoneinfo import ZoneInfo

import pytest

from email_assistant.agents.mail import own_letters
from email_assistant.agents.mail.own_letters import OwnLetter
from email_assistant.errors import AssistantError
from email_assistant.features.rehearsal.habits import facts as triage_facts
from email_assistant.features.rehearsal.habits.correspondence import Correspondence
from email_assistant.features.rehearsal.habits.pairing import Pairing
from email_assistant.gate import amounts, answers, provenance, spans
from email_assistant.gate.answers import answer
from email_assistant.gate.call import Labels, Proposed, Subject
from email_assistant.gate.doubt import Doubt
from email_assistant.gate.doubts import doubts
from email_assistant.gate.names import called, words
from email_assistant.gate.policy import GateSession, decide
from email_assistant.gate.sessions import arguments_in
from email_assistant.gate.spoken import Spoken, is_asked_for
from email_assistant.mail import css, history, two_parts
from email_assistant.mail.address import Address, address_of, in_ascii, is_recipient, parse_addresses, split_recipients
from email_assistant.mail.characters import People, address_inside, as_seen, clean, resemblance
from email_assistant.mail.charset import decode, decode_words, one_line
from email_assistant.mail.compose import fingerprint, reply_subject
from email_assistant.mail.contents import contents
from email_assistant.mail.diff import compare, survival
from email_assistant.mail.excerpt import asked, excerpt, said, tokens
from email_assistant.mail.history import passages, unwrapped
from email_assistant.mail.html_text import html_to_text
from email_assistant.mail.invite import event, invitation, summarise
from email_assistant.mail.links import bare_urls, link_note
from email_assistant.mail.message import Mail
from email_assistant.mail.parse import parse_bytes, parse_gmail, without_files
from email_assistant.mail.phrases import subject_of_conversation
from email_assistant.mail.prompt import delimited, for_prompt, mail_as_text, rule, shorten_blocks
from email_assistant.mail.rich import NotShown, sanitised
from email_assistant.mail.stored import StoredTexts, history_of
from email_assistant.memory import markdown
from email_assistant.memory.difference import difference, own_words
from email_assistant.memory.learn import named, strangers
from email_assistant.memory.rules import Rule
from email_assistant.memory.senders import sender_rule
from email_assistant.model.calls import read_calls
from email_assistant.model.structured import read_object
from email_assistant.sync.past_mails import Recorded
from email_assistant.tools.control import is_no_question
from email_assistant.tools.offered_times import spoken_times
from email_assistant.trail.chat_tools import _matching
from email_assistant_servers.google_sandbox import mime as sandbox

Reader = Callable[[str], object]

GROWTH: Final = 4
"""The longer of two texts is so many times the shorter; work that grows with the square takes 16 times as long."""
MOST: Final = 8
"""Times as long that the longer one may take."""
ENOUGH: Final = 5
"""Times as long that need not be measured again."""
FIRST: Final = 1_000
LONGEST: Final = 250_000
"""Characters of the shorter one, at first and at most."""
LONG: Final = 4_000
"""Where the square outweighs what grows as it should: at 1,000 characters a scan that took 442 ms here passed."""
MEASURABLE: Final = 0.0005
"""Seconds of the processor from which on a reader's time says something."""

LEAST: Final = MEASURABLE * GROWTH * GROWTH * 3
"""Seconds below which a text of sixteen times the length does not grow with the square, whatever disturbed another."""

SEEDED: Final = random.Random(8)
ANN, BOB, ME = "ann@example.org", "bob@example.org", "me@example.org"
BERLIN, NOON = ZoneInfo("Europe/Berlin"), datetime(2026, 5, 5, 12, tzinfo=UTC)
PEOPLE = People([ME], [(ME, "Ada Lovelace"), (BOB, "Bob Berg"), ("carl@bank.example", "Carl Cole")])
SEND = Labels(write_operation=True, read_private_data=False, read_untrusted_public_data=False, acl="PUBLIC", act="send")
CHANGE = Labels(
    write_operation=True, read_private_data=False, read_untrusted_public_data=False, acl="PRIVATE", act="change"
)
MAILS = Labels(write_operation=False, read_private_data=True, read_untrusted_public_data=True, acl="PRIVATE")
CONTACTS = Labels(write_operation=False, read_private_data=True, read_untrusted_public_data=False, acl="PRIVATE")
ASKED: Final = count()


def source(text: str, by: provenance.By = "stranger") -> provenance.Source:
    return provenance.read(text, label="a mail", by=by, writer=ANN, readers=[ANN, ME])


def known() -> tuple[provenance.Source, ...]:
    """Others each time, so that no question is answered by what was kept of an earlier one."""
    return source(f"{next(ASKED)}. Pay 12 € to DE89 3704 0044 0532 0130 00 by Friday, code ABC-1234."), source(
        "Write to Bob.", "person"
    )


def mail(text: str, kind: str = "plain", *headers: str) -> Mail:
    head = ["From: Ann <ann@example.org>", "To: me@example.org", f"Content-Type: text/{kind}; charset=utf-8", *headers]
    return parse_bytes("\r\n".join([*head, "", text]).encode("utf-8", "replace"))


def made(subject: str = "Hello", body: str = "", name: str = "Ann Berg", email: str = ANN) -> Mail:
    """A mail that has been read, of such parts: whatever may be said in them."""
    return Mail(
        message_id="<1@example.org>",
        in_reply_to=None,
        references=(),
        sender=Address(name, email),
        reply_to=(),
        to=(Address("", ME),),
        cc=(),
        subject=subject,
        date=NOON,
        text=body,
        body=body,
        attachments=(),
        auto_submitted=False,
        bulk=False,
        note="",
    )


def recorded(of: Mail, *, own: bool = False, at: datetime = NOON) -> Recorded:
    return Recorded(of.message_id or "", of, at, own, frozenset(), "")


def in_gmail(text: str) -> dict[str, Any]:
    headers = [{"name": name, "value": text} for name in ("From", "To", "Subject", "Content-Type", "References")]
    return {"headers": headers, "mimeType": "text/plain", "filename": text, "body": {"data": text}}


def learned(text: str, correspondence: Correspondence | None = None) -> object:
    known_people = correspondence or Correspondence([ME])
    for each in (made(subject=text), made(body=text), made(name=text), made(email=text)):
        known_people.received(recorded(each))
        known_people.facts(each, NOON)
    return known_people


def paired(text: str) -> object:
    pairing = Pairing([ME])
    pairing.received(recorded(made(subject=f"Re: {text[:998]}", body=text)))
    return pairing.wrote(recorded(made(subject=f"Re: {text[:998]}", body=text, email=ME), own=True))


def judged(text: str, labels: Labels, **arguments: Any) -> object:
    session = GateSession([*known(), source("Please send it, change it.", "person")], thread=frozenset({ANN}))
    return decide(session, Proposed("do_it", Subject("mail", labels, "gate"), arguments or {"to": text, "body": text}))


def edited(text: str) -> object:
    return difference({"response_text": "As agreed."}, {"response_text": text}, ["Of others."])


def stated(text: str) -> object:
    origin = {"by": "you"}
    return sender_rule(Rule("1", text, origin, NOON.isoformat(), [], removed=False))


def sheet(text: str) -> object:
    return css.hidden_classes(text), css.declarations(text)


def header(name: str) -> Reader:
    return lambda text: parse_bytes(f"{name}: {text}\r\nSubject: x\r\n\r\nhi".encode("utf-8", "replace"))


def in_the_sandbox(text: str) -> object:
    """Read as the demo's mailbox reads an export of one's own mail."""
    body = f'Content-Type: text/html; name="{text}"\r\n\r\n{text}'
    raw = f"From: {text}\r\nDate: {text}\r\nReferences: {text}\r\nContent-Type: multipart/mixed; boundary=b; {text}"
    root = sandbox.parse.__wrapped__(f"{raw}\r\n\r\n--b\r\n{body}\r\n--b--".encode("utf-8", "replace"))
    of_parts = [(part.filename, part.is_attachment, part.text()) for part in root.walk()]
    of_headers = sandbox.addresses(root.node, "from"), sandbox.references(root.node), sandbox.date_ms(root.node)
    return of_parts, of_headers, sandbox.header(root.node, "from"), sandbox.snippet(sandbox.readable_text(root))


def file_in_the_sandbox(text: str) -> object:
    head = f"Content-Disposition: inline; a={text}\r\n\r\n".encode("utf-8", "replace")
    return sandbox.parse.__wrapped__(head).filename


def calendar(text: str) -> object:
    told = f"BEGIN:VCALENDAR\nBEGIN:VEVENT\nUID:1\nSUMMARY:{text}\nDTSTART:{text}\nORGANIZER;{text}\nEND:VEVENT\n{text}"
    return summarise(told), event(told), invitation(told)


def alike(text: str) -> object:
    return (
        resemblance(text, [text], PEOPLE),
        resemblance(f"bob@{text}", [text], PEOPLE),
        address_inside(ANN, [text]),
    )


def shown(text: str) -> object:
    each = made(subject=text, body=text, name=text, email=text)
    return for_prompt(each, "1", timezone=BERLIN, limit=1000, measure=tokens), mail_as_text(each)


def tolerant(read: Reader, *errors: type[Exception]) -> Reader:
    """One that may refuse a text."""

    def reads(text: str) -> object:
        with suppress(*errors):
            return read(text)
        return None

    return reads


READERS: Final[Mapping[str, Reader]] = {
    "a mail": lambda text: parse_bytes(text.encode("utf-8", "replace")),
    "a mail's text": mail,
    "a mass mail's text": lambda text: mail(text, "plain", "List-Id: <x>", "Subject: Fwd: x"),
    "a flowing text": lambda text: mail(text, "plain; format=flowed; delsp=yes"),
    "a mail's HTML": lambda text: mail(text, "html"),
    "a style in HTML": lambda text: mail(f'<p style="{text}" class="{text}">x<a href="{text}">{text}</a>', "html"),
    "a mail in parts": lambda text: mail(
        f"--b\n{text}\n--b--\n{text}", "html", "Content-Type: multipart/mixed; boundary=b"
    ),
    "the HTML part beside the text part": lambda text: two_parts.together([("text", "See you then."), ("HTML", text)]),
    "the text part beside the HTML part": lambda text: two_parts.together([("text", text), ("HTML", "See you then.")]),
    "a stub beside a page": lambda text: (two_parts.is_stub(text, "See"), two_parts.is_stub("See it online", text)),
    "history and its introductions": history.reading,
    "history that may be stored": lambda text: history_of(
        made("Re: Hello", f"Yes.\n\nOn Monday Bob wrote:\n> {text}\n"), StoredTexts([made("Hello", text)])
    ),
    "a mail in base64": lambda text: mail(text, "plain", "Content-Transfer-Encoding: base64"),
    "a mail of Gmail's": lambda text: (parse_gmail(in_gmail(text)), contents(in_gmail(text))),
    "a mail in quoted-printable": lambda text: mail(text, "plain", "Content-Transfer-Encoding: quoted-printable"),
    "a mail with a long boundary": lambda text: mail(
        text, "x", f"Content-Type: multipart/mixed; boundary={'-' * 3000}"
    ),
    **{
        f"{name}:": header(name)
        for name in ("From", "Subject", "Date", "References", "Content-Type", "Content-Disposition")
    },
    "addresses": lambda text: (parse_addresses(text), split_recipients(text), is_recipient(text), address_of(text)),
    "a domain": in_ascii,
    "a look-alike": alike,
    "a charset": lambda text: decode(text.encode("utf-8", "replace") + b"\xff", text),
    "encoded words": lambda text: (decode_words(text), one_line(text), reply_subject(text)),
    "what is new": lambda text: history.new_text(text, bulk=True),
    "what was written": history.written,
    "HTML as text": html_to_text,
    "HTML as it looks": tolerant(sanitised, NotShown),
    "a style sheet": sheet,
    "files in a text": without_files,
    "links in a text": bare_urls,
    "a link": lambda text: (link_note(text, f"https://a.example/{text}"), link_note("here", f"https://{text}")),
    "a calendar": calendar,
    "what is unseen": lambda text: (clean(text), as_seen(text)),
    "an excerpt by tokens": lambda text: excerpt(text, 1400, tokens),
    "an excerpt": lambda text: excerpt(text, 3000),
    "a prompt and an item": shown,
    "blocks of a prompt": lambda text: (
        delimited("mail", text),
        rule(text),
        shorten_blocks(f"<mail>\n{text}\n</mail>", 99),
    ),
    "the gist": lambda text: (asked(text), said(text, "We agreed.")),
    "passages": lambda text: (passages(text), unwrapped(text)),
    "a difference": lambda text: compare("As agreed.", text),
    "what survived": lambda text: (survival("As agreed. See you then.", text), survival(text, "As agreed.")),
    "a fingerprint": lambda text: fingerprint([ANN], text),
    "spans": lambda text: spans.scan.__wrapped__(text, None),
    "a source": lambda text: provenance.read(text, label="", by="stranger"),
    "their words": lambda text: provenance.read(text, label="", by="person"),
    "a record of theirs": lambda text: provenance.read(text, label="", by="own"),
    "a value": lambda text: (provenance.sources_of(text, known()), answers.whole(text)),
    "leaks": lambda text: provenance.leaks(text, [BOB], known()),
    "facts unfounded": lambda text: provenance.unfounded(text, known()),
    "doubts": lambda text: doubts({"body": text, "to": [text]}, [BOB], known(), NOON.date()),
    "a doubt": lambda text: Doubt("leak", text, "a mail", (BOB,)).holds({"body": f"x {text}"}, [BOB]),
    "an answer": lambda text: answer(text, "an answer", MAILS),
    "an answer in JSON": lambda text: answer(json.dumps([{"title": text, "id": text}]), "", CONTACTS),
    "an answer in YAML": lambda text: answer(f"- title: {text}\n  id: {text}", "", CONTACTS),
    "a list of events": lambda text: list(
        answers.events(f"2026-05-05T12:00 to {text}: {text}\n  Id: {text}\n  {text}")
    ),
    "arguments of a call": lambda text: arguments_in(f'{{"to": "{text}"}}'),
    "a call that sends": lambda text: judged(text, SEND),
    "a call that changes": lambda text: judged(text, CHANGE, id=text, name=text, amount=text),
    "a name": lambda text: (called(text), words(text), is_asked_for("send_it", "send", [words(text)])),
    "what they mean": lambda text: Spoken.of([source(text, "person")]).means_any(f"{text[:20]} Bob"),
    "a code": lambda text: (amounts.code_after(text, 0), amounts.numbers(text)),
    "spoken times": lambda text: list(spoken_times(text)),
    "facts for triage": lambda text: triage_facts.facts(made(text[:998], text), NOON, [ME], ["ada"]),
    "a correspondence": learned,
    "a subject": subject_of_conversation,
    "a pairing": paired,
    "what a rule names": lambda text: (named(text), strangers(text, ["ann@example.org"])),
    "words of their own": lambda text: own_words(text, [text, "Of others."]),
    "an edit": edited,
    "a rule of a sender": stated,
    "a file of rules": tolerant(lambda text: markdown.read(f"## triage_preferences\n- {text}\n{text}"), AssistantError),
    "a letter of theirs": lambda text: OwnLetter.sent("1", (), text, text, NOON, [text[:100]]),
    "words of a letter": own_letters.words,
    "lines that match": lambda text: _matching(text, ["hello", "a"]),
    "the sandbox": in_the_sandbox,
    "a file in the sandbox": file_in_the_sandbox,
    "a model's words": is_no_question,
    "a model's written calls": tolerant(lambda text: read_calls(text, [], required=True), ValueError),
    "a model's answer": tolerant(lambda text: read_object(text, dict), ValueError),
}


def seconds(read: Reader, text: str) -> float:
    begun = time.thread_time()
    read(text)
    return time.thread_time() - begun


def grows_faster(read: Reader, text: Callable[[int], str], length: int = FIRST) -> bool:
    """Whether a longer text takes more than its share of time, from this length on. What only begins at a length, such
    as to cut, does so once; what grows faster does at the next length too."""
    while (small := seconds(read, text(length))) < MEASURABLE and length < LONGEST:
        length = min(LONGEST, length * (2 if small * 4 > MEASURABLE else 4))
    return ratio(read, text, length) > MOST and ratio(read, text, GROWTH * length, LEAST) > MOST


def ratio(read: Reader, text: Callable[[int], str], length: int, least: float = 0) -> float:
    """By the least of five times of each, as far as it takes so many to tell; 0 if the longer one takes less than the
    least."""
    small = large = float("inf")
    for _ in range(5):
        small = min(small, seconds(read, text(length)))
        large = min(large, seconds(read, text(GROWTH * length)))
        if large <= ENOUGH * small:
            break
    return large / max(small, MEASURABLE / GROWTH) if large > least else 0


_TELLING: Final = (
    "00¦00:¦123 ¦1.1.¦1am¦1h ¦1a--¦a-1-¦12 May ¦- 12 May ¦at 3 ¦12 12 ¦+49 1¦1,1¦http://¦www.¦www.)¦a.b@¦@a.¦"
    "a@b.c ¦<a@b> ¦://x(¦mailto:¦xn--¦xn--a.¦é.¦&amp;¦password ¦password:¦code: #¦is:¦PIN is no. ¦one ¦one two ¦"
    "Mr. ¦von ¦De ¦V. ¦Bob's ¦ at ¦x at ¦ dot ¦[at] ¦(dot)¦ arobase ¦Re: ¦re:\t¦fwd ¦=?utf-8?q?¦=?a?q?x?= ¦'a' ¦"
    '"a" ¦"a¦wrote:\n¦> a\nb\n¦On 5 May x\n¦On 5 May x@y wrote:\n¦From: a\nDate: 5\n¦-- \n¦--\nx\n\n¦'
    "begin 644 x\nM\n¦begin-base64 644 x\nabc\n¦=ybegin name=x\n¦-----BEGIN PGP MESSAGE-----\n¦[cid:¦\n ¦ \n¦"
    "This message is confidential ¦unsubscribe ¦2026年 ¦Sent from my ¦______________________________\n¦To: a\n¦"
    "To: \n¦? ¦. ¦<br> ¦<td><br></td>¦<div><p>¦<table><tr><td>¦<li>x¦<ol><li>¦<sup>1</sup>¦</p>¦<b>x</i>¦"
    "<a href='https://x.example'>here¦<blockquote type=cite>¦<style>@¦<style>.a{¦@{a{}¦<p style='a:b'>¦"
    '<pre>\n \n¦<!--¦/*¦<![CDATA[¦<img alt=\'a\'>¦BEGIN:VEVENT\n¦ATTENDEE;a="b":c\n¦\u200b ¦```{¦```\n{}¦{"a":¦'
    '- a: ¦--b\n¦--b\nContent-Type: text/plain;a\n\nx\n¦a;¦filename*0=a;¦a,¦"a\\¦(¦all day x (a ¦  Id: x\n¦'
    "<h1><a></h1>¦<table><tr><b></table>¦<svg>¦<img src=https://e/x>¦1 ¦a@¦A. ¦<td><p>x</p></td>¦<tr><td>x<td>¦"
    '@media{¦X: y\r\n¦"Person, 1" <p@e.org>, ¦\u0301¦a\nb\n¦!?¦](¦{a}'
)
TELLING: Final = _TELLING.split("¦")
"""Pieces by which something begins that a reader looks for."""


def characters() -> list[str]:
    """All of ASCII, one of each class of Unicode's, and pairs of them."""
    classes: dict[str, str] = {}
    for code in range(0x80, 0x20000):
        classes.setdefault(unicodedata.category(chr(code)), chr(code))
    single = [*map(chr, range(0x80)), *classes.values()]
    return [*single, *("".join(SEEDED.sample(single, 2)) for _ in range(60)), *TELLING]


BESIDE: Final = ("word", "7", "@", "<")


def texts() -> Iterator[tuple[str, Callable[[int], str]]]:
    """A name, and what makes a text of about a length: a piece over and over, once before and behind something, and in
    turn with it."""
    for piece in characters():
        yield repr(piece), partial(repeated, piece=piece)
        for beside in BESIDE[: 1 if piece in TELLING else None]:
            yield f"{piece!r} before {beside}", partial(repeated, piece=piece, behind=beside)
            yield f"{beside} before {piece!r}", partial(repeated, piece=piece, before=beside)
            yield f"{piece + beside!r}", partial(repeated, piece=piece + beside)


def repeated(length: int, piece: str, before: str = "", behind: str = "") -> str:
    return before + piece * (length // len(piece)) + behind


FOUND: Final = [
    *(("spans", "", ".", ""), ("spans", "@", "a", ""), ("spans", "0049", "1", ":"), ("spans", "http://a.b/", ")", "")),
    *(
        ("spans", "password", ":", " x"),
        ("spans", "", "code: #", ""),
        ("an excerpt", "", "?", "x"),
        ("the gist", "", "?", "x"),
    ),
    *(("what a rule names", "", "a", ""), ("what a rule names", "x", " ", "x"), ("a look-alike", "", "a", "")),
    *(("a look-alike", "", ".", ""), ("a difference", "", "-", ""), ("a subject", "Re", " ", "x")),
    *(("what they mean", "", "bob ", ""), ("HTML as it looks", "<p>", "\u00a2", "</p>")),
    *(("a style sheet", "", "\n", "word"), ("a style sheet", "", "font:", "")),
    *(("spans", "", "00000_", "\0"), ("a mail", "", "-", "@"), ("history and its introductions", "--a", "-", "@")),
    *(("a file in the sandbox", '"', '\\";', ""), ("a model's words", "", "-", "x")),
]
"""Readers that took minutes of these texts once, or did not end."""
TEXTS: Final = sorted(texts(), key=lambda _: SEEDED.random())
PART: Final = 16
PARTS: Final = len(TEXTS) if os.environ.get("EMAIL_ASSISTANT_ALL_TEXTS") else 12 * PART
"""Texts that are tried; all of them take hours."""


@pytest.mark.sampled
@pytest.mark.parametrize("part", range(0, PARTS, PART))
def test_time_grows_with_the_text_and_not_faster(part: int) -> None:
    gc.disable()  # it comes when it likes, and looks at everything that there is
    try:
        slow = [
            f"{reader}: {name}"
            for name, text in TEXTS[part : part + PART]
            for reader, read in READERS.items()
            if grows_faster(read, text)
        ]
    finally:
        gc.enable()
    assert not slow


@pytest.mark.parametrize(("reader", "before", "piece", "behind"), FOUND)
def test_what_once_took_long_does_so_no_more(reader: str, before: str, piece: str, behind: str) -> None:
    text = partial(repeated, piece=piece, before=before, behind=behind)
    assert not grows_faster(READERS[reader], text, LONG)
