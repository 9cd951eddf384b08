"""The HTML of a mail, as it may be looked at: what is left of it, how long it takes, and what stands beside it."""

from html.parser import HTMLParser
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from email_assistant.mail.contents import contents
from email_assistant.mail.invite import invitation, summarise
from email_assistant.mail.passages import passages, unwrapped
from email_assistant.mail.rich import MOST_CHARACTERS, NotShown, sanitised

PIXEL = "https://t.example/p.gif"
PIECES = [
    *("<", ">", "</", "/>", "<!--", "-->", "<![CDATA[", "]]>", "'", '"', "=", " ", "&lt;", "&#x3c;", "\\", "`", "x"),
    *("script", "style", "svg", "math", "mtext", "mglyph", "table", "td", "form", "select", "noscript", "iframe", "a"),
    *(
        "img",
        "p",
        "b",
        "template",
        "title",
        "textarea",
        "xmp",
        "annotation-xml",
        "foreignObject",
        "details",
        "plaintext",
    ),
    *(
        " onerror=alert(1)",
        " src=https://e.example/x",
        " href=javascript:alert(1)",
        " style='background:url(//e.example)'",
    ),
]
KEYS = ["parts", "body", "headers", "mimeType", "filename", "data", "name", "value", "attachmentId"]


class Tags(HTMLParser):
    """The tags of a page, and its attributes."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.attributes: set[tuple[str, str, str]] = set()
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.attributes |= {(tag, name, value or "") for name, value in attrs}


def check(html: str) -> None:
    """Nothing in it is alive."""
    found = Tags(html)
    assert found.names <= {"a", "b", "p", "table", "tbody", "tr", "td", "details", "summary", "img", "span"}
    for tag, name, value in found.attributes:
        assert name in {"style", "href", "target", "rel", "class"}
        assert (tag, value[:8]) == ("a", "https://") if name == "href" else "e.example" not in value


@given(st.lists(st.sampled_from(PIECES), max_size=60).map("".join))
def test_whatever_it_is_made_of_nothing_is_alive(html: str) -> None:
    """Of what is read once more, as a browser would, nothing else comes: mutations have no second life."""
    try:
        once = sanitised(html).html
    except NotShown:
        return
    check(once)
    check(sanitised(once).html)


@pytest.mark.parametrize("html", ["<div>" * 1_000 + "x", "x" * (MOST_CHARACTERS + 1), "&" * MOST_CHARACTERS])
def test_too_much_is_refused(html: str) -> None:
    with pytest.raises(NotShown):
        sanitised(html)


@pytest.mark.parametrize(
    ("href", "host"),
    [
        ("https://shop.example/a?b", "shop.example"),
        ("https://bank.example@evil.example/", "evil.example"),
        ("https://bank.example\\@evil.example/", "bank.example"),
        ("https://xn--bcher-kva.example", "xn--bcher-kva.example"),
        ("https://bаnk.example", "xn--bnk-6cd.example"),  # with a Cyrillic letter
        ("mailto:bob@example.org?subject=x", "bob@example.org"),
    ],
)
def test_each_link_says_where_it_leads(href: str, host: str) -> None:
    assert f'</a><span class="host"> {host} </span>' in sanitised(f'<a href="{href}">the bank</a>').html


def test_a_link_that_says_it_already_does_not_say_it_twice() -> None:
    assert "host" not in sanitised('<a href="https://shop.example/a">https://shop.example/a</a>').html


def test_a_mail_can_not_pass_its_words_for_ours() -> None:
    assert "class" not in sanitised('<span class="host" id="host">bank.example</span>').html


@pytest.mark.parametrize(
    "spying",
    [
        f'<img src="{PIXEL}" width="1" height="1">',
        f'<img src="{PIXEL}" height="0">',
        f'<img src="{PIXEL}" style="width: 1px; height: 1px">',
        f'<img src="{PIXEL}" style="display: none">',
        f'<img src="{PIXEL}" width="2px">',
    ],
)
def test_pictures_that_are_made_not_to_be_seen_are_told_apart(spying: str) -> None:
    found = sanitised(f'{spying}<img src="https://c.example/chair.png" width="200" alt="A chair">')
    assert (found.pictures, found.hidden) == (("https://c.example/chair.png",), (PIXEL,))
    assert found.html == '<span class="picture">A chair</span>'


@pytest.mark.parametrize("style", ["display:none", "max-width: 1px", "font-size:0; width:0; overflow:hidden"])
def test_so_are_those_within_what_is_not_seen(style: str) -> None:
    chair = '<img src="https://c.example/chair.png">'
    found = sanitised(f'<div style="{style}"><p><img src="{PIXEL}"></p></div>{chair}')
    assert (found.pictures, found.hidden) == (("https://c.example/chair.png",), (PIXEL,))


@pytest.mark.parametrize("tag", ["embed", "wbr", "source", "track", "keygen", "bgsound"])
def test_what_is_never_closed_takes_nothing_with_it(tag: str) -> None:
    assert "<p>After</p>" in sanitised(f"<{tag} src=x>" * 1_000 + "<p>After</p>").html


def test_of_styles_only_those_stay_that_reach_nothing_and_cover_nothing() -> None:
    style = (
        "color: red; position: fixed; margin-top: -9px; background: url(x); width: calc(1px); font-size: 12px; top: 0"
    )
    assert sanitised(f'<p style="{style}">x</p>').html == '<p style="color:red;font-size:12px">x</p>'


def test_quoted_mail_is_folded_once() -> None:
    html = '<p>New</p><blockquote type="cite">Old<blockquote type="cite">Older</blockquote></blockquote><p>New too</p>'
    shown = sanitised(html).html
    assert shown.count("<details><summary>Quoted text</summary>") == shown.count("</details>") == 1
    assert shown.endswith("</details><p>New too</p>")


def test_passages_are_the_text_again() -> None:
    text = "Yes.\n\n> one line\n\nOn Monday:\n> a\n> b\n> c\n\nBob\n"
    found = passages(text)
    assert "\n".join(piece for piece, _ in found) == text
    assert [piece for piece, quoted in found if quoted] == ["> a\n> b\n> c"]


def _nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(inner) | st.dictionaries(st.sampled_from(KEYS), inner)


class TestContents:
    @given(st.recursive(st.none() | st.integers() | st.text(), _nested))
    def test_any_payload_gives_an_answer(self, payload: Any) -> None:
        contents(payload if isinstance(payload, dict) else {"parts": [payload]})

    @pytest.mark.parametrize(
        ("start", "told"),
        [
            ("DTSTART:20310602T080000Z\nDURATION:PT1H30M", "Monday 2 June 2031, 10:00 to 11:30 (Europe/Berlin)"),
            (
                "DTSTART;TZID=America/New_York:20310602T200000\nDTEND;TZID=America/New_York:20310602T210000",
                "Tuesday 3 June 2031, 02:00 to 03:00 (Europe/Berlin)",
            ),
            ("DTSTART;VALUE=DATE:20310602\nDTEND;VALUE=DATE:20310604", "2031-06-02 to 2031-06-03"),
            ("DTSTART;TZID=Somewhere Standard Time:20310602T090000", "2031-06-02 09:00 Somewhere Standard Time"),
            ("DTSTART:20310602T080000Z", "Monday 2 June 2031, 10:00 (Europe/Berlin)"),
            ("DTSTART;TZID=W. Europe Standard Time:20310602T090000", "Monday 2 June 2031, 09:00 (Europe/Berlin)"),
            ("DTSTART:99991231T235959Z", "9999-12-31 23:59 UTC"),
            ("DTSTART:00010101T000000Z", "0001-01-01 00:00 UTC"),
            ("X:1", ""),
        ],
    )
    def test_an_invitation_says_when_in_words(self, start: str, told: str) -> None:
        found = invitation(f"BEGIN:VCALENDAR\nBEGIN:VEVENT\nSUMMARY:Plan\n{start}\nEND:VEVENT\nEND:VCALENDAR")
        assert found is not None
        assert found.when(ZoneInfo("Europe/Berlin")) == told

    def test_several_events_are_told_as_several(self) -> None:
        one = "BEGIN:VEVENT\nSUMMARY:Plan\nRRULE:FREQ=SECONDLY\nEND:VEVENT\n"
        found = invitation(f"BEGIN:VCALENDAR\n{one * 3}END:VCALENDAR")
        assert found is not None
        assert found.in_words(ZoneInfo("UTC")).endswith("Plan; repeats in a way of its own; and 2 more events")

    def test_an_event_of_nothing_is_still_one(self) -> None:
        assert summarise("BEGIN:VEVENT\nEND:VEVENT") == "[Calendar event: ]"
        assert invitation("no calendar") is None


def test_sentences_broken_at_the_end_of_a_page_are_whole_again() -> None:
    long = "This sentence was broken by a program as its page had no more room for"
    assert unwrapped(f"{long}\nthe rest\n\nBob") == f"{long} the rest\n\nBob"
    for kept in (f"{long}.\nThe next", f"{long}:\n- one\n- two", f"> {long}\nthe rest", "Best wishes\nbob"):
        assert unwrapped(kept) == kept
