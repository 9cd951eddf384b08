"""Replies as they leave, and how they are recognised again."""

import base64
import re
import unicodedata
from collections.abc import Sequence
from datetime import UTC, datetime
from email import message_from_bytes, policy
from email.header import decode_header
from email.message import Message
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from email_assistant.mail.address import Address, address_of, is_recipient, split_recipients
from email_assistant.mail.characters import as_seen
from email_assistant.mail.compose import compose_mail, fingerprint, mail_fingerprint, reply_subject, with_signature
from email_assistant.mail.parse import parse_bytes, parse_gmail

ME = Address("Zoë Müller", "zoe@example.org")
NOW = datetime(2026, 5, 5, 10, 15, tzinfo=UTC)


def reply(
    *,
    to: Sequence[str | Address] = ("ann@example.org",),
    cc: Sequence[str | Address] = (),
    sender: Address = ME,
    subject: str = "Lunch",
    text: str = "Yes.",
    in_reply_to: str | None = "<1@example.org>",
    references: Sequence[str] = ("<0@example.org>",),
    signature: str | None = None,
) -> bytes:
    return compose_mail(
        to=to, cc=cc, sender=sender, subject=reply_subject(subject), text=text, in_reply_to=in_reply_to,
        references=references, signature=signature, date=NOW,
    )  # fmt: skip


def test_a_reply_carries_what_threads_it() -> None:
    data = reply(to=["Ann <ann@example.org>"], cc=[Address("Bob", "bob@example.org")], text="Grüße\n")
    mail = parse_bytes(data)
    assert mail.sender == ME
    assert mail.to == (Address("Ann", "ann@example.org"),)
    assert mail.cc == (Address("Bob", "bob@example.org"),)
    assert mail.subject == "Re: Lunch"
    assert mail.in_reply_to == "<1@example.org>"
    assert mail.references == ("<0@example.org>", "<1@example.org>")
    assert mail.date == NOW
    assert mail.text == "Grüße"
    assert data.isascii()
    assert b"\n" not in data.replace(b"\r\n", b"")
    assert message_from_bytes(data, policy=policy.default).defects == []


@pytest.mark.parametrize(
    ("thread", "expected"),
    [
        ("Lunch", "Re: Lunch"), ("Re: Lunch", "Re: Lunch"), ("RE: re: Re[2]: Lunch", "Re: Lunch"),
        ("AW: Lunch", "Re: AW: Lunch"), ("Fwd: Lunch", "Re: Fwd: Lunch"), ("Report", "Re: Report"), ("", "Re: "),
        ("Paid \u202e0001 to me", "Re: Paid 0001 to me"),
    ],
)  # fmt: skip
def test_subject_has_one_prefix(thread: str, expected: str) -> None:
    assert reply_subject(thread) == expected


def test_first_mail_of_a_thread_has_no_references() -> None:
    mail = parse_bytes(reply(in_reply_to=None, references=()))
    assert (mail.in_reply_to, mail.references) == (None, ())


def test_references_are_bounded_and_keep_both_ends() -> None:
    mail = parse_bytes(
        reply(references=[f"<{number}@example.org>" for number in range(500)], in_reply_to="<z@x.example>")
    )
    assert len(mail.references) == 20
    assert mail.references[0] == "<0@example.org>"
    assert mail.references[-2:] == ("<499@example.org>", "<z@x.example>")


def test_long_message_ids_are_kept_and_impossible_ones_left_out() -> None:
    long_id = "<" + "a" * 150 + "@mail.example.org>"
    mail = parse_bytes(reply(in_reply_to=long_id, references=["broken", "<ü@x.example>", "<" + "b" * 2_000 + ">"]))
    assert mail.in_reply_to == long_id
    assert mail.references == (long_id,)


@pytest.mark.parametrize("bad", ["x\r\nBcc: eve@example.net", "x\ny", "x\ry", "x\x00y", "x\u2028y"])
def test_header_injection_is_refused(bad: str) -> None:
    with pytest.raises(ValueError, match=r"control characters|address"):
        compose_mail(to=["ann@example.org"], sender=ME, subject=bad, text="Yes.", date=NOW)
    with pytest.raises(ValueError, match=r"control characters|address"):
        reply(to=[Address(bad, "ann@example.org")])
    with pytest.raises(ValueError, match=r"control characters|address"):
        reply(to=[Address("", f"ann@example.org{bad}")])
    with pytest.raises(ValueError, match=r"control characters|address"):
        reply(cc=[f"ann@example.org{bad}"])
    with pytest.raises(ValueError, match=r"control characters|address"):
        reply(sender=Address(bad, "zoe@example.org"))
    with pytest.raises(ValueError, match=r"control characters|address"):
        reply(in_reply_to=f"<{bad}@x.example>")
    with pytest.raises(ValueError, match=r"control characters|address"):
        reply(references=[f"<{bad}@x.example>"])


@pytest.mark.parametrize("bad", ["", "ann", "a@b.example, c@d.example", "ann@example.org@evil.example"])
def test_recipients_are_single_valid_addresses(bad: str) -> None:
    with pytest.raises(ValueError, match="address"):
        reply(to=[bad])


def test_a_reply_needs_a_recipient_and_a_timezone() -> None:
    with pytest.raises(ValueError, match="recipient"):
        reply(to=[])
    with pytest.raises(ValueError, match="timezone"):
        compose_mail(to=["a@b.example"], sender=ME, subject="x", text="x", in_reply_to=None,
                      date=datetime(2026, 5, 5))  # noqa: DTZ001  # fmt: skip


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        ("Yes.\n\nBest regards,\nZoë Ray\nExample Ltd", "Yes.\n\nBest regards,\nZoë Ray\nExample Ltd"),
        ("Yes.\n\nzoë ray, Example Ltd.\n", "Yes.\n\nzoë ray, Example Ltd.\n"),
        ("Yes.\n\nZoë Ray", "Yes.\n\nZoë Ray\n\n-- \nZoë Ray\nExample Ltd\n"),
        ("Zoë Ray of Example Ltd comes.", "Zoë Ray of Example Ltd comes.\n\n-- \nZoë Ray\nExample Ltd\n"),
    ],
)
def test_a_letter_that_is_signed_already_is_signed_once(text: str, sent: str) -> None:
    assert with_signature(text, "Zoë Ray\nExample Ltd") == sent
    assert with_signature(text, None) == text
    assert with_signature("Yes.", "\U0001f600") == "Yes.\n\n-- \n\U0001f600\n"


def test_signature_is_marked_and_not_part_of_the_body() -> None:
    mail = parse_bytes(reply(text="Yes.\n", signature="Zoë\n+49 1"))
    assert mail.text == "Yes.\n\n-- \nZoë\n+49 1"
    assert mail.body == "Yes."


def test_many_recipients_fit_into_legal_lines() -> None:
    people = [Address(f"Person, Nümber {number}", f"p{number}@example.org") for number in range(1_000)]
    data = reply(to=people, subject="Ü" * 1_000)
    assert parse_bytes(data).to == tuple(people)
    assert max(map(len, data.split(b"\r\n"))) <= 998


@pytest.mark.parametrize(
    ("written", "seen"),
    [
        ("Pay 03\u200f/\u200f12 \u061cEUR", "Pay 03/12 EUR"),
        ("03\u200f/\u200f12\u061c", "03/12"),
        ("\u200f12\u061c.\u200e5", "12.5"),
        ("שלום\n03\u200f/\u200f12 \u061c", "שלום\n03/12 "),
        ("שולם 03\u200f/\u200f12, 1\u200b\u200f.\u200f5", "שולם 03/12, 1.5"),
        ("הסכום הוא 100\u200f (מאה), C++\u200e.", "הסכום הוא 100\u200f (מאה), C++\u200e."),
    ],
)
def test_a_mark_of_direction_is_left_where_a_script_needs_it_only(written: str, seen: str) -> None:
    assert as_seen(written) == seen


@given(
    st.text(st.sampled_from("ab1 2/.\n\r\u2028ש\u0627\u200e\u200f\u061c\u200b\u200c\u200d\u202e\ufeff\u2060❤\ufe0f"))
)
def test_what_is_shown_is_sent_letter_by_letter(written: str) -> None:
    shown = as_seen(written)
    assert as_seen(shown) == shown
    body = message_from_bytes(reply(text=shown), policy=policy.default).get_content()
    assert body.replace("\r\n", "\n").rstrip("\n") == shown.rstrip("\n")


def test_fingerprint_sees_what_matters() -> None:
    one = fingerprint(["ann@example.org", "bob@example.org"], "Yes.\nBob")
    assert one == fingerprint(["Bob <BOB@example.org>", "Ann@example.org"], "Yes. \r\nBob\r\n\r\n")
    assert one != fingerprint(["ann@example.org"], "Yes.\nBob")
    assert one != fingerprint(["ann@example.org", "bob@example.org"], "No.\nBob")
    assert fingerprint(["a@b.example"], "é") == fingerprint(["a@b.example"], "e\u0301")
    assert fingerprint(["a"], "b\n") != fingerprint(["a", "b"], "")


WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=200) | st.text(
    "a -\r\n\t\u00e9e\u0301=.>", max_size=80
)
PEOPLE = st.lists(st.from_regex(r"\A[a-z]{1,8}(\.[A-Z]{1,3})?@[a-z]{1,8}\.example\Z"), min_size=1, max_size=5)


def encoded_again(data: bytes, encoding: str) -> bytes:
    """The same mail as another transport would write it: LF line ends, NFC, another transfer encoding."""
    message = message_from_bytes(data)
    text = message.get_payload(decode=True)
    assert isinstance(text, bytes)
    del message["Content-Transfer-Encoding"]
    message["Content-Transfer-Encoding"] = encoding
    body = unicodedata.normalize("NFC", text.decode()).replace("\r\n", "\n").encode() + b"\n"
    if encoding == "base64":
        body = base64.encodebytes(body)
    head = "".join(f"{name}: {value}\n" for name, value in message.items()).encode()
    return head + b"\n" + body


def gmail_payload(message: Message) -> dict[str, Any]:
    content = message.get_payload(decode=True)
    assert isinstance(content, bytes)
    return {
        "mimeType": message.get_content_type(),
        "filename": "",
        "headers": [{"name": name, "value": str(value)} for name, value in message.items()],
        "body": {"size": len(content), "data": base64.urlsafe_b64encode(content).decode().rstrip("=")},
    }


@pytest.mark.long
@given(to=PEOPLE, cc=PEOPLE | st.just([]), text=WORDS, signature=WORDS | st.none())
def test_our_own_mail_is_recognised_after_any_transport(
    to: list[str], cc: list[str], text: str, signature: str | None
) -> None:
    expected = fingerprint([*to, *cc], with_signature(text, signature))
    data = reply(to=to, cc=cc, text=text, signature=signature)
    assert mail_fingerprint(parse_bytes(data)) == expected
    assert mail_fingerprint(parse_bytes(encoded_again(data, "base64"))) == expected
    assert mail_fingerprint(parse_bytes(encoded_again(data, "8bit"))) == expected
    assert mail_fingerprint(parse_gmail(gmail_payload(message_from_bytes(data)))) == expected


NAMES = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), max_size=60)


@given(name=NAMES, subject=NAMES)
def test_names_and_subjects_survive(name: str, subject: str) -> None:
    mail = parse_bytes(reply(to=[Address(name, "ann@example.org")], subject=subject))
    assert [address.email for address in mail.to] == ["ann@example.org"]
    assert mail.subject == " ".join(reply_subject(subject).split())
    assert mail.cc == ()


@pytest.mark.parametrize("subject", ["x" * 5_000, "ü" * 2_000, f"short {'y' * 1_200} short", "a" * 899, "日本" * 600])
def test_a_subject_without_blanks_is_folded_and_read_back_whole(subject: str) -> None:
    data = reply(subject=subject)
    assert max(map(len, data.split(b"\r\n"))) <= 998
    for word in re.findall(rb"=\?[^ \r]*\?=", data):
        assert len(word) <= 75  # RFC 2047, 2
        decode_header(word.decode())[0][0].decode("utf-8")  # none holds half a character
    assert message_from_bytes(data, policy=policy.default)["subject"].strip() == f"Re: {subject}"


def test_a_name_without_blanks_is_folded_and_read_back_whole() -> None:
    person = Address("N" * 990, "ann@example.org")
    data = reply(to=[person])
    assert max(map(len, data.split(b"\r\n"))) <= 998
    assert parse_bytes(data).to == (person,)


@pytest.mark.parametrize(
    ("written", "address"),
    [
        ("bob@example.org", "bob@example.org"),
        ("Bob Berg <Bob@Example.org>", "bob@example.org"),
        ('"Berg, Bob" <bob@example.org>', "bob@example.org"),
        ('"eve@example.net" <bob@example.org>', "bob@example.org"),
        ("Zoë <bob@example.org> ", "bob@example.org"),
        ("<bob@example.org>", "bob@example.org"),
    ],
)
def test_a_recipient_may_bear_a_name(written: str, address: str) -> None:
    assert is_recipient(written)
    assert address_of(written) == address
    assert [found.email.lower() for found in parse_bytes(reply(to=[written])).to] == [address]


@pytest.mark.parametrize(
    "written",
    [
        "",
        "Bob",
        "Bob <>",
        "Bob <bob>",
        "Berg, Bob <bob@example.org>, eve@example.net",
        "eve@example.net, Bob <bob@example.org>",
        "eve@example.net; <bob@example.org>",
        "a <eve@example.net> <bob@example.org>",
        "Bob <bob@example.org> eve@example.net",
        "Bob\nBcc: eve@example.net <bob@example.org>",
    ],
)
def test_what_names_no_one_address_is_no_recipient(written: str) -> None:
    assert not is_recipient(written)


def test_a_written_list_is_split_outside_of_quotes() -> None:
    written = '"Berg, Bob" <bob@example.org>, ann@example.org; "open, <carl@example.org>,'
    assert split_recipients(written) == [
        '"Berg, Bob" <bob@example.org>',
        "ann@example.org",
        '"open',
        "<carl@example.org>",
    ]
