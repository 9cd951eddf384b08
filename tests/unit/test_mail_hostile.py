"""Hostile and damaged mail: a readable text or a plain statement of what is missing, in bounded time and space."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from email import message_from_bytes, policy
from zoneinfo import ZoneInfo

import pytest

from email_assistant.mail.address import Address
from email_assistant.mail.compose import compose_mail, reply_subject
from email_assistant.mail.html_text import html_to_text
from email_assistant.mail.message import Mail
from email_assistant.mail.parse import parse_bytes, parse_gmail
from email_assistant.mail.prompt import for_prompt

pytestmark = pytest.mark.sampled

BASIC = b"From: Ann <ann@example.org>\r\nTo: bob@example.org\r\nSubject: Hello\r\n"
MAX_PROMPT = 5_000


def entity(kind: str, content: bytes | str = b"", *fields: str) -> bytes:
    head = "\r\n".join([f"Content-Type: {kind}", *fields])
    return head.encode() + b"\r\n\r\n" + (content.encode() if isinstance(content, str) else content)


def multipart(kind: str, *parts: bytes, boundary: str = "edge", declared: str | None = None) -> bytes:
    edge = b"--" + boundary.encode()
    body = b"".join(edge + b"\r\n" + part + b"\r\n" for part in parts) + edge + b"--\r\n"
    return entity(f'{kind}; boundary="{boundary if declared is None else declared}"', body)


def read(data: bytes) -> Mail:
    """Parse, and check what holds for any mail."""
    mail = parse_bytes(BASIC + data)
    assert mail.text.strip() or mail.note
    assert bool(mail.body.strip()) == bool(mail.text.strip())
    assert "\x00" not in mail.text
    mail.text.encode()
    assert len(mail.text) <= 3 * len(data) + 1_000
    assert len(mail.body) <= len(mail.text) + 1_000
    assert len(for_prompt(mail, "1", timezone=ZoneInfo("Europe/Berlin"), limit=1_000)) < MAX_PROMPT
    return mail


# --- structure


def nested(depth: int, kind: str = "multipart/mixed") -> bytes:
    data = entity("text/plain", "the words")
    for level in range(depth):
        data = multipart(kind, data, boundary=f"b{level}")
    return data


@pytest.mark.parametrize("kind", ["multipart/mixed", "multipart/alternative", "multipart/related", "multipart/digest"])
def test_a_thousand_multiparts_in_each_other(kind: str) -> None:
    mail = read(nested(1_000, kind))
    assert "the words" in mail.text
    assert "nested too deeply" in mail.note


def test_a_thousand_mails_in_each_other() -> None:
    mail = read(b"Content-Type: message/rfc822\r\n\r\n" * 1_000 + b"Content-Type: text/plain\r\n\r\nthe words")
    assert "the words" in mail.text
    assert "nested too deeply" in mail.note


@pytest.mark.parametrize("declared", ["", "other", "edge--", " ", "\\", "é", "e" * 3_000])
def test_a_boundary_that_is_not_there_is_guessed(declared: str) -> None:
    mail = read(multipart("multipart/mixed", entity("text/plain", "the words"), declared=declared))
    assert "the words" in mail.text


def test_inner_parts_with_the_boundary_of_the_outer_ones() -> None:
    inner = multipart("multipart/alternative", entity("text/plain", "first"), entity("text/html", "<p>first"))
    mail = read(multipart("multipart/mixed", inner, entity("text/plain", "second")))
    assert "first" in mail.text
    assert "second" in mail.text


def test_ten_thousand_parts() -> None:
    mail = read(multipart("multipart/mixed", *[entity("text/plain", f"part {number}") for number in range(10_000)]))
    assert "part 9999" in mail.text


def test_a_thousand_attachments_are_listed_in_short() -> None:
    parts = [entity(f'image/png; name="{number}.png"', b"x") for number in range(990)]
    mail = read(multipart("multipart/mixed", entity("text/plain", "pictures"), *parts))
    assert (mail.body, len(mail.attachments)) == ("pictures", 990)
    assert "and 985 more" in for_prompt(mail, "1", timezone=ZoneInfo("UTC"), limit=100)


def test_ten_thousand_recipients_in_each_field() -> None:
    people = ", ".join(f'"Person, {number}" <p{number}@example.org>' for number in range(10_000))
    mail = parse_bytes(f"To: {people}\r\nCc: {people}\r\nReply-To: {people}\r\n\r\nhi".encode())
    assert (len(mail.to), len(mail.cc), len(mail.reply_to)) == (10_000, 10_000, 10_000)
    assert len(for_prompt(mail, "1", timezone=ZoneInfo("UTC"), limit=100)) < MAX_PROMPT


# --- charsets and encodings


@pytest.mark.parametrize(
    "charset",
    ["utf-16", "utf-32", "utf-7", "idna", "punycode", "hex", "rot13", "zlib", "bz2", "undefined", "mbcs", "cp65001",
     "unicode_escape", "x" * 500, "\x00", "../../etc/passwd", '"', "utf-8; charset=ascii"],
)  # fmt: skip
def test_text_under_a_wrong_charset_is_not_lost(charset: str) -> None:
    mail = read(entity(f"text/plain; charset={charset}", "The meeting is at five, für 5 €."))
    assert mail.text.strip()
    if not charset.startswith(("utf-16", "utf-32")):
        assert "The meeting is at five" in mail.text


@pytest.mark.parametrize("encoding", ["base64", "quoted-printable", "x-uuencode", "x-unknown", "8bit, base64", "\x00"])
def test_text_under_a_wrong_transfer_encoding_is_not_lost(encoding: str) -> None:
    mail = read(entity("text/plain", "The meeting is at five.", f"Content-Transfer-Encoding: {encoding}"))
    assert mail.text == "The meeting is at five."


def test_nul_bytes_and_terminal_codes_are_left_out() -> None:
    assert read(entity("text/plain", b"a\x00b\x1b[31mc\x07")).text == "ab[31mc"


def test_one_line_of_a_megabyte() -> None:
    mail = read(entity("text/plain", b"word " * 200_000))
    assert mail.text.startswith("word word")


@pytest.mark.parametrize("marks", ["\u202e", "\u2066\u2069", "\u200b\u200d", "\u0301" * 5_000, "\U000e0041", "\ufeff"])
def test_marks_that_nobody_sees_do_not_hide_words_from_a_prompt(marks: str) -> None:
    mail = read(entity("text/plain; charset=utf-8", f"pay {marks}nobody"))
    prompt = for_prompt(mail, "1", timezone=ZoneInfo("UTC"), limit=10_000)
    assert "pay nobody" in prompt.replace("\u0301", "")
    assert not set(prompt) & set("\u202e\u2066\u2069\u200b\u200d\U000e0041\ufeff")


# --- headers

INJECTIONS = [
    "=?utf-8?q?x=0D=0ABcc:_eve@example.net?=",
    "=?utf-8?b?eA0KQmNjOiBldmVAZXhhbXBsZS5uZXQ=?=",
    "=?utf-8?q?x=0ABcc:_eve@example.net?=",
    "=?utf-7?q?x+AA0ACg-Bcc:_eve@example.net?=",
    "=?utf-8?q?x=E2=80=A8Bcc:_eve@example.net?=",
    "x\r Bcc: eve@example.net",
    "x\x0bBcc: eve@example.net\x00",
]


@pytest.mark.parametrize("value", INJECTIONS)
def test_what_is_written_back_of_a_header_is_one_line(value: str) -> None:
    data = (
        f"From: {value} <ann@example.org>\r\nSubject: {value}\r\nMessage-ID: <{value}@example.org>\r\n"
        f"References: <{value}@example.org> <0@example.org>\r\n\r\nhi"
    )
    mail = parse_bytes(data.encode())
    assert mail.sender
    reply = compose_mail(
        to=[Address(mail.sender.name, "ann@example.org")],
        sender=Address("Bob", "bob@example.org"),
        subject=reply_subject(mail.subject),
        text="hello",
        in_reply_to=mail.message_id,
        references=mail.references,
        date=datetime(2026, 5, 5, tzinfo=UTC),
    )
    written = message_from_bytes(reply, policy=policy.default)
    assert set(written.keys()) <= {
        *("Content-Type", "MIME-Version", "Content-Transfer-Encoding", "From", "To", "Subject", "Date"),
        *("In-Reply-To", "References"),
    }
    again = parse_bytes(reply)
    assert [address.email for address in (*again.to, *again.cc)] == ["ann@example.org"]
    assert "\n" not in again.subject
    assert again.body == "hello"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("Mon, 1 Jan 0000 00:00:00 +0000", datetime(2000, 1, 1, tzinfo=UTC)),  # RFC 5322, 4.3: below 50 is 20xx
        ("Mon, 1 Jan 99999 00:00:00 +0000", None),
        ("Tue, 5 May 2026 10:15:00 -2500", None),
        ("Tue, 5 May 2026 10:15:00 +99999999999999999999", None),
        ("Tue, 5 May 2026 10:15:00", datetime(2026, 5, 5, 10, 15, tzinfo=UTC)),
        ("Tue, 5 May 2026 10:15:00 (a comment)", datetime(2026, 5, 5, 10, 15, tzinfo=UTC)),
        ("Tue, 5 May 2026 24:00:61 +0200", None),
        ("0" * 100_000, None),
        ("٣ May 2026 10:15:00 +0000", datetime(2026, 5, 3, 10, 15, tzinfo=UTC)),
    ],
)
def test_dates(value: str, expected: datetime | None) -> None:
    mail = parse_bytes(f"Date: {value}\r\n\r\nhi".encode())
    assert mail.date == expected
    for_prompt(mail, "1", timezone=ZoneInfo("Pacific/Kiritimati"), limit=100)


@pytest.mark.parametrize(
    ("parameters", "name"),
    [
        ("filename*0*=utf-8''%C3%9C; filename*1=ber; filename*2*=%2Epdf", "Über.pdf"),
        ("filename*=iso-8859-1'de'%DCber.pdf", "Über.pdf"),
        ("filename*=no-such''%DCber.pdf", "Über.pdf"),
        ("filename*=utf-8''..%2F..%2Fetc%2Fpasswd", "passwd"),
        ('filename="..\\\\..\\\\windows\\\\evil.exe"', "evil.exe"),
        ("filename*=utf-8''a%0D%0AX%3A%20y.pdf", "a X: y.pdf"),
        ("filename==?utf-8?q?=C3=9Cber.pdf?=", "Über.pdf"),
        ("filename*1=b; filename*0=a", "ab"),
        ("filename*x=a", ""),
        ("filename*=utf-8'", None),
        ("filename*0*=utf-8''%FF; filename*2=x", None),
        ("; ".join(f"filename*{number}=a" for number in range(5_000)), None),
        ('filename="' + "n" * 100_000 + '"', None),
    ],
)
def test_file_names(parameters: str, name: str | None) -> None:
    part = entity("application/x", b"x", f"Content-Disposition: attachment; {parameters}")
    mail = read(multipart("multipart/mixed", entity("text/plain", "see file"), part))
    found = mail.attachments[0].name
    assert len(found) <= 200
    assert not set(found) & set("/\\\r\n")
    assert name is None or found == name


def test_parameters_are_read_up_to_a_number() -> None:
    """The standard library's parser costs the square of their number: 1,000 parts of 2,000 each, ten seconds."""
    for count, name in ((30, "offer.pdf"), (1_000, "")):
        fields = "Content-Disposition: attachment; " + "a;" * count + " filename=offer.pdf"
        mail = read(multipart("multipart/mixed", entity("text/plain", "see"), entity("application/x", b"x", fields)))
        assert mail.attachments[0].name == name


# --- calendars


def calendar(*events: str, method: str = "REQUEST") -> bytes:
    text = "\r\n".join(f"BEGIN:VEVENT\r\n{event}\r\nEND:VEVENT" for event in events)
    return entity(f"text/calendar; method={method}",
                  f"BEGIN:VCALENDAR\r\nMETHOD:{method}\r\n{text}\r\nEND:VCALENDAR\r\n")  # fmt: skip


@pytest.mark.parametrize(
    ("method", "event", "text"),
    [
        ("REQUEST", "SUMMARY:Trip\r\nDTSTART;VALUE=DATE:20260505\r\nDTEND;VALUE=DATE:20260508",
         "[Calendar invitation: Trip; 2026-05-05 to 2026-05-07]"),
        ("REQUEST", "SUMMARY:Day off\r\nDTSTART;VALUE=DATE:20260505\r\nDTEND;VALUE=DATE:20260506",
         "[Calendar invitation: Day off; 2026-05-05]"),
        ("REQUEST", "SUMMARY:Talk\r\nDTSTART:20260505T080000Z\r\nDURATION:PT45M",
         "[Calendar invitation: Talk; 2026-05-05 08:00 UTC for PT45M]"),
        ("REQUEST", "SUMMARY:Weekly\r\nDTSTART;TZID=Nowhere/Land:20260505T080000\r\nRRULE:FREQ=WEEKLY;COUNT=4",
         "[Calendar invitation: Weekly; 2026-05-05 08:00 Nowhere/Land; repeats weekly, 4 times]"),
        ("CANCEL", "SUMMARY:Talk\r\nDTSTART:20260505T080000Z", "[Calendar cancellation: Talk; 2026-05-05 08:00 UTC]"),
        ("PUBLISH", "SUMMARY:Talk\r\nSTATUS:CANCELLED", "[Calendar cancellation: Talk]"),
        ("REPLY", "SUMMARY:Talk\r\nATTENDEE;PARTSTAT=DECLINED:mailto:a@b.example\r\nCOMMENT:Sorry\\, I'm away",
         "[Calendar reply: Talk; answer declined; comment: Sorry, I'm away]"),
        ("REQUEST", "SUMMARY:C:\\\\new\\, folder\\nline", "[Calendar invitation: C:\\new, folder line]"),
        ("REQUEST", "SUMMARY:Odd\r\nDTSTART;VALUE=DATE:20261399\r\nDTEND;VALUE=DATE:20261399",
         "[Calendar invitation: Odd; 20261399]"),
        ("REQUEST", "SUMMARY:Talk\r\nDESCRIPTION:Agenda:\\n1. Budget\\n2. Roof",
         "[Calendar invitation: Talk]\n\nAgenda:\n1. Budget\n2. Roof"),
    ],
)  # fmt: skip
def test_calendar_mail(method: str, event: str, text: str) -> None:
    assert read(calendar(event, method=method)).text == text


def test_of_several_events_the_others_are_counted() -> None:
    assert read(calendar("SUMMARY:One", "SUMMARY:Two", "SUMMARY:Three")).text == (
        "[Calendar invitation: One; and 2 more events]"
    )


def test_a_description_is_not_repeated_below_the_text() -> None:
    mail = read(
        multipart("multipart/mixed", entity("text/plain", "Agenda"), calendar("SUMMARY:A\r\nDESCRIPTION:Agenda"))
    )
    assert mail.text == "[Calendar invitation: A]\n\nAgenda"


def test_of_a_description_it_is_told_what_the_text_does_not_say() -> None:
    event = "SUMMARY:A\r\nDESCRIPTION:Agenda\\nPlease bring the signed contract.\\nBy noon?"
    mail = read(multipart("multipart/alternative", entity("text/plain", "Agenda by noon"), calendar(event)))
    assert mail.text == "[Calendar invitation: A]\n\nPlease bring the signed contract.\n\nAgenda by noon"


def test_a_calendar_without_an_event_is_listed() -> None:
    mail = read(entity("text/calendar", "BEGIN:VCALENDAR\r\nBEGIN:VTODO\r\nSUMMARY:x\r\nEND:VTODO\r\nEND:VCALENDAR"))
    assert [attachment.mime_type for attachment in mail.attachments] == ["text/calendar"]
    assert mail.note == "no text part; attachments only"


def test_a_huge_calendar_is_told_in_short() -> None:
    assert len(read(calendar(*["SUMMARY:" + "x" * 1_000] * 5_000)).text) < 1_000


# --- what can't be read


@pytest.mark.parametrize(
    ("data", "note"),
    [
        (multipart("multipart/encrypted; protocol=\"application/pgp-encrypted\"",
                   entity("application/pgp-encrypted", "Version: 1"), entity("application/octet-stream", "x")),
         "encrypted (OpenPGP): the text can't be read here"),
        (entity("application/pkcs7-mime; smime-type=enveloped-data", b"0\x80"),
         "encrypted (S/MIME): the text can't be read here"),
        (entity("application/x-pkcs7-mime; smime-type=signed-data", b"0\x80"),
         "signed (S/MIME) in a form whose text can't be read here"),
        (entity("application/ms-tnef; name=winmail.dat", b"x\x9f>\""),
         "what is packed into winmail.dat (Outlook's own format) can't be read here"),
        (entity("text/plain", bytes(range(1, 32)) * 100), "a text part holds no readable text"),
        (entity("text/plain"), "no text"),
        (entity("application/octet-stream", b"x"), "no text part; attachments only"),
        (entity("message/external-body; access-type=URL"), "no text part; attachments only"),
    ],
)  # fmt: skip
def test_what_is_missing_is_said(data: bytes, note: str) -> None:
    mail = read(data)
    assert (mail.text, mail.note) == ("", note)
    assert f"Note: {note}" in for_prompt(mail, "1", timezone=ZoneInfo("UTC"), limit=100)


@pytest.mark.parametrize("kind", ["pgp-signature", "pkcs7-signature", "x-pkcs7-signature"])
def test_clearly_signed_mail_is_read_without_its_signature(kind: str) -> None:
    mail = read(multipart("multipart/signed", entity("text/plain", "Yes."), entity(f"application/{kind}", b"0\x80")))
    assert (mail.text, mail.attachments, mail.note) == ("Yes.", (), "")


def test_encrypted_passage_inside_text() -> None:
    armour = "-----BEGIN PGP MESSAGE-----\n\nhQEMA\n=abcd\n-----END PGP MESSAGE-----"
    mail = read(entity("text/plain", f"For you only:\n\n{armour}\n\nAnn"))
    assert mail.body == "For you only:\n\n[encrypted OpenPGP message]\n\nAnn"
    assert mail.note == "encrypted (OpenPGP): the text can't be read here"


def test_winmail_beside_text_is_noted() -> None:
    mail = read(multipart("multipart/mixed", entity("text/plain", "See attached."),
                          entity("application/octet-stream; name=winmail.dat", b"x")))  # fmt: skip
    assert mail.body == "See attached."
    assert "winmail.dat" in mail.note


def test_a_piece_of_a_mail_is_read_and_noted() -> None:
    mail = read(entity("message/partial; id=a; number=2; total=3", "and the second half of the sentence."))
    assert mail.text == "and the second half of the sentence."
    assert "one piece of a mail" in mail.note


@pytest.mark.parametrize(
    "file",
    [
        "begin 644 ../photo.jpg\n" + "M" + "(" * 60 + "\nM" + ")" * 60 + "\n#0V%T\n`\nend",
        "begin 644 photo.jpg\n" + "M" + "(" * 60 + "\n \nend",
        "begin-base64 644 photo.jpg\n" + "QUJD" * 15 + "\n====",
        "=ybegin line=128 size=9 name=photo.jpg\n" + "r\xf1\xe9" * 40 + "\n=yend size=9 crc32=0",
    ],
)
def test_files_inside_the_text_are_listed_and_the_words_around_them_kept(file: str) -> None:
    mail = read(entity("text/plain; charset=utf-8", f"Look:\n\n{file}\n\nNice?"))
    assert mail.body == "Look:\n\n[file in the text: photo.jpg]\n\nNice?"
    assert [attachment.name for attachment in mail.attachments] == ["photo.jpg"]


@pytest.mark.parametrize("words", ["begin 644 nothing\nThanks", "=ybegin line=128 name=x\nThanks", "begin anew\nThanks",
                                   "begin-base64 644 x\nThanks"])  # fmt: skip
def test_words_that_look_like_the_start_of_a_file_are_kept(words: str) -> None:
    assert read(entity("text/plain", words)).body == words


# --- HTML


@pytest.mark.parametrize(
    "hidden",
    [
        "<p style='display : none'>secret</p>",
        "<p style='visibility:hidden'>secret</p>",
        "<p style='font-size:1px'>secret</p>",
        "<p style='font-size:0'>secret</p>",
        "<p style='opacity:0'>secret</p>",
        "<p hidden>secret</p>",
        "<style>.x, p.y { DISPLAY: none }</style><p class='a x'>secret</p>",
        "<style>p.y{display:none}</style><p class=y>secret</p>",
        "<template>secret</template><script>secret</script><!-- secret -->",
        "<iframe>secret</iframe><video>secret</video>",
        "<p style='color:#fff'>secret</p>",
        "<p style='COLOR: rgb(254, 254, 254)'>secret</p>",
        "<p style='color:transparent'>secret</p>",
        "<p style='color:rgba(0, 0, 0, 0)'>secret</p>",
        "<font color=white>secret <b>secret</b></font>",
        "<table><tr><td bgcolor='#000000'><span style='color:black'>secret</span></td></tr></table>",
        "<div style='background:#123456'><p style='color:#123458'>secret</p></div>",
    ],
)
def test_hidden_text_is_left_out(hidden: str) -> None:
    assert html_to_text(f"<div>seen {hidden} too</div>").split() == ["seen", "too"]


@pytest.mark.parametrize(
    "shown",
    [
        "<style>@media (max-width:600px){.x{display:none}}</style><p class=x>words</p>",
        "<style>@media print{.a{b:c}.x{display:none}}</style><p class=x>words</p>",
        "<style media='(max-width:600px)'>.x{display:none}</style><p class=x>words</p>",
        "<style>.x{display:none} .x{display:block}</style><p class=x>words</p>",
        "<style>.a .x{display:none}</style><p class=x>words</p>",
        "<style>.x{display:none} div.a .x{display:block}</style><div class=a><p class=x>words</p></div>",
        "<style>.x{display:none}@media (min-width:600px){.x{display:block}}</style><p class=x>words</p>",
        "<style>@media screen{ @supports (x) { .y{} } .w{} .x{display:none} }</style><p class=x>words</p>",
        "<p style='font-size:1em'>words</p>",
        "<p style='font-size:10px'>words</p>",
        "<p style='opacity:0.8'>words</p>",
        "<table><tr><td bgcolor=navy><span style='color:white'>words</span></td></tr></table>",
        "<div style='background-color:#000'><p style='color:#fff'>words</p></div>",
        "<div style='background:url(x.png)'><p style='color:white'>words</p></div>",
        "<table background='x.png'><tr><td style='color:#fff'>words</td></tr></table>",
        "<style>.b{background:#00f}</style><p class=b><font color=white>words</font></p>",
        "<p style='color:rgba(0,0,0,.5)'>words</p>",
        "<details><summary>words</summary></details>",
    ],
)
def test_text_that_some_screen_shows_is_kept(shown: str) -> None:
    assert html_to_text(f"<p>seen</p>{shown}").split() == ["seen", "words"]


def bombs(size: int) -> Iterator[tuple[str, str]]:
    for piece in (
        *("<br> ", "<td><br></td>", "<div><p>", "<table><tr><td>", "<li>x", "<ol><li>", "<sup>1</sup>", "<s>", "</p>"),
        *("<a href='https://x.example'>here", "<blockquote type=cite>", "<b>x</i>", "<style>@", "<style>.a{", "&nbsp;"),
        *(
            "<p style='display:none'>x",
            "<img alt='a'>",
            "<pre>\n \n",
            "<!--",
            "<![CDATA[",
            "\u200b ",
            "<p class='a b'>x",
        ),
    ):
        yield piece, piece * (size // len(piece))
    yield "table", "<table><tr>" + "<td><p>x</p></td>" * (size // 17)
    yield "rows", "<table>" + "<tr><td>x<td>" * (size // 13)
    yield "style", "<style>" + "@media{" * (size // 14) + "}" * (size // 14) + "</style><p>x"
    yield "rules", "<style>" + ".a{display:none}" * (size // 16) + "</style><p class=a>x"


def plain_bombs(size: int) -> Iterator[tuple[str, str]]:
    for piece in (
        *(
            "> a\nb\n",
            ">",
            "On 5 May x\n",
            "From: a\nDate: 5\n",
            "-- \n",
            "-- \nx\n\n",
            "--\nx\n\n",
            "begin 644 x\nM\n",
        ),
        *("=ybegin name=x\n", "begin-base64 644 x\nabc\n", "https://x.example/?utm_a=1&", "https://", "&amp;", "[cid:"),
        *("-----BEGIN PGP MESSAGE-----\n", "-----BEGIN PGP SIGNED MESSAGE-----\n", "From: a@b\n", "wrote:\n", "_" * 30),
        *("This message is confidential ", "unsubscribe ", "2026年 ", "\n\n", " \n", "a", "\u0301", "Sent from my "),
    ):
        yield piece, piece * (size // len(piece))


def header_bombs(size: int) -> Iterator[tuple[str, str]]:
    for name, piece in (
        ("To", "a,"), ("To", "<"), ("To", "("), ("To", '"'), ("To", "a@b.example,"), ("To", "a:"),
        ("Subject", "=?a?q?"),
        ("Subject", "=?utf-8?q?=C3?= "), ("References", "<a@b> "), ("References", "<"), ("Date", "5 May "),
        ("Content-Type", "a;"), ("Content-Type", 'a;"'), ("Content-Disposition", "filename*0=a;"), ("List-Id", "x"),
        ("Subject", "x\r\n "),
    ):  # fmt: skip
        yield f"{name} {piece}", f"{name}: " + piece * (size // len(piece)) + "\r\n\r\nhi"
    yield "fields", "X: y\r\n" * (size // 6) + "\r\nhi"
    yield "boundary", f"Content-Type: multipart/mixed; boundary={'-' * 3_000}\r\n\r\n" + "-" * size
    part = "--b\r\nContent-Type: text/plain;" + "a;" * 1_900 + "\r\n\r\nx\r\n"
    yield "parameters", "Content-Type: multipart/mixed; boundary=b\r\n\r\n" + part * (size // len(part))
    yield "flowed", "Content-Type: text/plain; format=flowed\r\n\r\n" + "x \r\n" * (size // 4)
    yield "quoted", "Content-Transfer-Encoding: quoted-printable\r\n\r\n" + "=" * size
    yield "calendar", 'Content-Type: text/calendar\r\n\r\nBEGIN:VEVENT\r\nSUMMARY;"' + '"a";' * (size // 4)


SIZE = 80_000


def html_mail(content: str) -> Mail:
    return parse_bytes(b"Content-Type: text/html; charset=utf-8\r\n\r\n" + content.encode())


def plain_mail(content: str) -> Mail:
    return parse_bytes(b"Content-Type: text/plain; charset=utf-8\r\nList-Id: <x>\r\n\r\n" + content.encode())


def raw_mail(content: str) -> Mail:
    return parse_bytes(content.encode())


BOMBS = [
    pytest.param(work, text, id=f"{work.__name__}-{name!r}")
    for work, make in ((html_mail, bombs), (plain_mail, plain_bombs), (raw_mail, header_bombs))
    for name, text in make(SIZE)
]


@pytest.mark.parametrize(("work", "text"), BOMBS)
def test_text_grows_with_the_mail_and_not_faster(work: Callable[[str], Mail], text: str) -> None:
    """How its time grows, tests/unit/test_growth.py asks."""
    mail = work(text)
    assert mail.text.strip() or mail.note
    assert len(mail.text) <= 30 * len(text) + 1_000


def test_a_hundred_thousand_nested_tags_keep_the_text() -> None:
    assert "hello" in html_to_text("<div>" * 100_000 + "hello")


def test_headers_of_very_many_characters_are_kept_as_a_line_of_a_mail_is() -> None:
    long = "A" * 400_000
    head = f'From: "{long}" <eve@evil.example>\nTo: {long}@evil.example\nSubject: {long}\nMessage-ID: <{long}@x>\n'
    whole = parse_bytes(head.encode() + b"In-Reply-To: <a@b>\n\nThe words.")
    payload = {
        "headers": [{"name": "Subject", "value": long}, {"name": "From", "value": f"{long} <eve@evil.example>"}],
        "mimeType": "text/plain",
        "body": {"data": "aGk="},
    }
    for mail in (whole, parse_gmail(payload)):
        assert mail.sender
        assert (mail.sender.email, mail.sender.name) == ("eve@evil.example", "A" * 997 + "…")
        assert mail.subject == "A" * 997 + "…"
    assert whole.to == (Address("", "A" * 997 + "…"),)
    assert (whole.message_id, whole.in_reply_to) == (None, "<a@b>")
    assert whole.text == "The words."


def test_a_hundred_commas_before_an_address() -> None:
    mail = parse_bytes(b"To: " + b"a," * 100 + b" Ann <a@b.example>\n\nx")
    assert [address.email for address in mail.to] == ["a@b.example"]


def test_gmail_payload_nested_four_hundred_deep() -> None:
    payload: dict[str, object] = {"mimeType": "text/plain", "body": {"data": "aGk="}}
    for _ in range(400):
        payload = {"mimeType": "multipart/mixed", "parts": [payload]}
    assert "nested too deeply" in parse_gmail(payload).note
