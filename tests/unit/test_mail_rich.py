"""The HTML of a mail, as it may be looked at: what is left of it, how long it takes, and what stands beside it."""

from datetime import UTC, datetime, timedelta
from html import escape
from html.parser import HTMLParser
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from email_assistant.mail.contents import contents
from email_assistant.mail.history import passages, unwrapped
from email_assistant.mail.html_text import html_to_text
from email_assistant.mail.invite import event, invitation, summarise
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


def test_what_its_sender_folds_is_open() -> None:
    folded = "<details><summary>More</summary>Words</details>"
    assert sanitised(folded).html == "<div><div>More</div>Words</div>"
    assert html_to_text(folded) == "More\nWords"


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


def zone_of_its_own(name: str) -> str:
    """New York's rules under a name that no database knows."""
    return (
        f"BEGIN:VTIMEZONE\nTZID:{name}\n"
        "BEGIN:STANDARD\nDTSTART:16010101T020000\nTZOFFSETFROM:-0400\nTZOFFSETTO:-0500\n"
        "RRULE:FREQ=YEARLY;BYDAY=1SU;BYMONTH=11\nEND:STANDARD\n"
        "BEGIN:DAYLIGHT\nDTSTART:16010101T020000\nTZOFFSETFROM:-0500\nTZOFFSETTO:-0400\n"
        "RRULE:FREQ=YEARLY;BYMONTHDAY=8,9,10,11,12,13,14;BYDAY=SU;BYMONTH=3\nEND:DAYLIGHT\nEND:VTIMEZONE\n"
    )


def calendar_of(*events: str, zones: str = "", method: str = "REQUEST") -> str:
    inner = "".join(f"BEGIN:VEVENT\nUID:roof@example.org\nSUMMARY:Roof\n{event}\nEND:VEVENT\n" for event in events)
    return f"BEGIN:VCALENDAR\nMETHOD:{method}\n{zones}{inner}END:VCALENDAR\n"


class TestTimesOfACalendar:
    @pytest.mark.parametrize(
        ("name", "parameter"),
        [
            ("tzone://Example/Own", '"tzone://Example/Own"'),
            ("(UTC-05:00) Boston\\, New York", '"(UTC-05:00) Boston, New York"'),
            ("(UTC-05:00) Boston\\, New York", "(UTC-05:00) Boston, New York"),  # with no quotes around its colon
            ("Our  zone", '"our zone"'),
            ('"Our zone"', "Our zone"),
        ],
    )
    def test_a_timezone_that_the_file_defines_is_kept_to(self, name: str, parameter: str) -> None:
        for local, at, told in (
            ("20310602T090000", datetime(2031, 6, 2, 13, tzinfo=UTC), "UTC-04:00"),
            ("20310102T090000", datetime(2031, 1, 2, 14, tzinfo=UTC), "UTC-05:00"),
            ("20310309T030000", datetime(2031, 3, 9, 7, tzinfo=UTC), "UTC-04:00"),
            ("20311102T013000", datetime(2031, 11, 2, 5, 30, tzinfo=UTC), "UTC-04:00"),
        ):
            text = calendar_of(f"DTSTART;TZID={parameter}:{local}", zones=zone_of_its_own(name))
            found = event(text)
            assert found is not None
            assert found.start == at
            assert f" {told}]" in summarise(text)

    def test_of_several_rules_the_one_counts_that_began_last(self) -> None:
        rules = (
            "BEGIN:STANDARD\nDTSTART:19700101T000000\nTZOFFSETFROM:+0100\nTZOFFSETTO:+0200\nEND:STANDARD\n"
            "BEGIN:DAYLIGHT\nDTSTART:20000401T000000\nTZOFFSETFROM:+0200\nTZOFFSETTO:+0300\n"
            "RRULE:FREQ=YEARLY;BYMONTH=4;BYDAY=-1SU;UNTIL=20100425T000000Z\nEND:DAYLIGHT\n"
            "BEGIN:STANDARD\nDTSTART:20001001T000000\nTZOFFSETFROM:+0300\nTZOFFSETTO:+0200\n"
            "RRULE:FREQ=YEARLY;BYMONTH=10;BYSETPOS=-1;BYDAY=SU\nEND:STANDARD\n"
            "BEGIN:STANDARD\nDTSTART:20200101T000000\nTZOFFSETFROM:+0200\nTZOFFSETTO:+0430\n"
            "RDATE:20200101T000000\nEND:STANDARD\n"
        )
        zones = f"BEGIN:VTIMEZONE\nTZID:Moved\n{rules}END:VTIMEZONE\n"
        for local, hours in (("19690601", 1), ("19990601", 2), ("20100601", 3), ("20110601", 2), ("20200601", 4.5)):
            found = event(calendar_of(f"DTSTART;TZID=Moved:{local}T120000", zones=zones))
            assert found is not None
            start = datetime.strptime(f"{local}12+0000", "%Y%m%d%H%z") - timedelta(hours=hours)
            assert found.start == (start if start.year >= 1970 else None)

    @pytest.mark.parametrize("prefix", ["/freeassociation.sourceforge.net/", "/mozilla.org/20050126_1/", "/x.example/"])
    def test_a_prefix_before_the_name_of_a_timezone_is_passed_over(self, prefix: str) -> None:
        text = calendar_of(f"DTSTART;TZID={prefix}America/Argentina/Salta:20310602T090000")
        found = event(text)
        assert found is not None
        assert found.start == datetime(2031, 6, 2, 12, tzinfo=UTC)
        assert "09:00 America/Argentina/Salta" in summarise(text)

    @pytest.mark.parametrize(
        ("rule", "told"),
        [
            ("RRULE:FREQ=WEEKLY", "repeats weekly"),
            ("RRULE:FREQ=WEEKLY;BYDAY=MO;WKST=SU", "repeats weekly"),
            ("RRULE:FREQ=WEEKLY;INTERVAL=3;BYDAY=MO,FR", "repeats every 3 weeks on Monday and Friday"),
            ("RRULE:FREQ=DAILY;COUNT=1", "repeats daily, 1 time"),
            ("RRULE:FREQ=MONTHLY;BYDAY=-1MO;COUNT=6", "repeats monthly on the last Monday, 6 times"),
            ("RRULE:FREQ=MONTHLY;BYMONTHDAY=2,16", "repeats monthly on day 2, 16"),
            ("RRULE:FREQ=YEARLY;INTERVAL=2;UNTIL=20391231", "repeats every 2 years, until 31 December 2039"),
            ("RRULE:FREQ=WEEKLY;UNTIL=20310707T230000Z", "repeats weekly, until 8 July 2031"),  # there
            ("RRULE:FREQ=MONTHLY;BYDAY=MO;BYSETPOS=-1", "repeats monthly on Monday, in a way of its own"),
            ("RRULE:FREQ=WEEKLY\nEXDATE;TZID=Europe/Berlin:20310609T100000", "repeats weekly, but not 9 June"),
            ("RDATE:20310603T080000Z\nRDATE:20320604T080000Z", "also 3 June and 4 June 2032"),
            ("RDATE;VALUE=PERIOD:20310603T080000Z/PT1H", "also 3 June"),
            ("RDATE:" + ",".join(f"203107{day:02}T080000Z" for day in range(1, 10)),
             "also 1 July, 2 July, 3 July, 4 July, 5 July, 6 July and 3 more days"),
            ("RECURRENCE-ID:20310602T080000Z", "only one day of a series"),
            ("RECURRENCE-ID:20310603T080000Z", "only one day of a series, instead of 3 June 2031"),
            ("RECURRENCE-ID;RANGE=THISANDFUTURE:20310602T080000Z", "only this and the later days of a series"),
            ("RRULE:FREQ=WEEKLY;INTERVAL=x;COUNT=-4", "repeats in a way of its own"),
        ],
    )  # fmt: skip
    def test_how_it_repeats_is_told_in_prompt_and_page_alike(self, rule: str, told: str) -> None:
        text = calendar_of(f"DTSTART;TZID=Europe/Berlin:20310602T100000\n{rule}")
        found = invitation(text)
        assert found is not None
        assert found.in_words(ZoneInfo("Europe/Berlin")).endswith(f"10:00 (Europe/Berlin); {told}")
        assert summarise(text).endswith(f"10:00 Europe/Berlin; {told}]")

    def test_days_of_a_series_are_those_of_the_reader(self) -> None:
        found = invitation(calendar_of("DTSTART:20310602T233000Z\nRDATE:20310609T233000Z"))
        assert found is not None
        assert found.repeating(ZoneInfo("Europe/Berlin")) == "also 10 June"

    def test_of_a_series_the_whole_is_told_wherever_it_stands(self) -> None:
        moved = "DTSTART:20310610T080000Z\nRECURRENCE-ID:20310609T080000Z"
        found = invitation(calendar_of(moved, "DTSTART:20310602T080000Z\nRRULE:FREQ=WEEKLY"))
        assert found is not None
        assert (found.start, found.repeats, found.others) == (datetime(2031, 6, 2, 8, tzinfo=UTC), "weekly", 1)

    def test_what_follows_an_alarm_is_of_the_event(self) -> None:
        alarm = "BEGIN:VALARM\nDESCRIPTION:Ring\nEND:VALARM"
        assert "at Room 4" in summarise(calendar_of(f"DTSTART:20310602T080000Z\n{alarm}\nLOCATION:Room 4"))

    @pytest.mark.parametrize(
        ("attendees", "told"),
        [
            ("ATTENDEE;PARTSTAT=ACCEPTED;CN=Ann Lee:mailto:ann@example.org", "answer accepted by Ann Lee"),
            ('ATTENDEE;CN="Lee: Ann";PARTSTAT=TENTATIVE:mailto:ann@example.org', "answer tentative by Lee: Ann"),
            ("ATTENDEE;PARTSTAT=NEEDS-ACTION:mailto:bob@example.org\nATTENDEE;PARTSTAT=DECLINED:MAILTO:ann@example.org",
             "answer declined by ann@example.org"),
        ],
    )  # fmt: skip
    def test_a_reply_says_what_was_answered(self, attendees: str, told: str) -> None:
        text = calendar_of(f"DTSTART:20310602T080000Z\n{attendees}\nCOMMENT:On the train", method="REPLY")
        found = invitation(text)
        assert found is not None
        assert told in found.in_words(ZoneInfo("UTC"))
        assert found.in_words(ZoneInfo("UTC")).endswith("comment: On the train")
        assert told.partition(" by ")[0] in summarise(text)
        assert told not in summarise(text.replace("METHOD:REPLY", "METHOD:REQUEST"))

    def test_a_thousand_dates_in_a_thousand_rules_take_no_time(self) -> None:
        rule = (
            "BEGIN:STANDARD\nDTSTART:19700101T020000\nTZOFFSETTO:+0100\nRRULE:FREQ=YEARLY;BYDAY=SU,MO\nEND:STANDARD\n"
        )
        dates = ",".join(f"{year}0602T080000" for year in range(2000, 2999))
        zones = f"BEGIN:VTIMEZONE\nTZID:Own\n{rule * 1000}END:VTIMEZONE\n"
        text = calendar_of(f"DTSTART;TZID=Own:20310602T080000\nRDATE;TZID=Own:{dates}", zones=zones)
        assert "[Calendar invitation: Roof; 2031-06-02 08:00" in summarise(text)


@pytest.mark.parametrize(
    "hidden",
    [
        '<span style="color:hsl(0,0%,100%)">9000</span>',
        '<span style="color:hsl(120deg 100% 100%)">9000</span>',
        '<span style="color: rgb(255 255 255)">9000</span>',
        '<span style="color:rgb(0 0 0 / 0)">9000</span>',
        '<span style="COLOR : WHITE !important">9000</span>',
        '<span style="font:0/0 a">9000</span>',
        '<span style="visibility:hidden">9000</span>',
        '<span style="opacity:0">9000</span>',
        '<div style="max-height:0;overflow:hidden">9000</div>',
        '<b style="opacity:0.0">9000</b>',
        '<b style="opacity:1;opacity:0%">9000</b>',
        '<b style="color:#ffffff00">9000</b>',
        '<b style="display:none!important;display:block">9000</b>',
        '<b style="display:block;display:none;display:nonsense">9000</b>',
        "<b style=\"font-family:';display:block';DISPLAY/**/:/**/NO\\4e E\">9000</b>",
        '<div style="visibility:hidden"><b>9000</b><img src=x alt="9000" width=90></div>',
        '<div style="font-size:0"><b style="font-size:100%">9000</b></div>',
        '<input type="hidden" value="9000"><input type="password" value="9000">',
        "<canvas>9000</canvas><datalist><option>9000</datalist><svg><title>9000</title><desc>9000</desc></svg>",
        "<b hidden>9000</b>",
        "<style>.h{display:none} .a,.b{opacity:0}</style><b class=h>9000</b><b class=b>9000</b>",
    ],
)
def test_what_is_hidden_is_neither_read_nor_shown(hidden: str) -> None:
    html = f"<p>Please pay.{hidden}"
    assert "9000" not in html_to_text(html)
    assert "9000" not in sanitised(html).html
    assert "Please pay." in sanitised(html).html


@pytest.mark.parametrize(
    "seen",
    [
        '<b style="color:rgb(0,0,0)">9000</b>',
        '<b style="color:hsl(0 0% 0%)">9000</b>',
        '<b style="font: bold 12px/0 arial">9000</b>',
        '<div style="display:none">9000</div>',
    ],
)
def test_what_is_seen_or_all_there_is_is_read_and_shown(seen: str) -> None:
    assert "9000" in html_to_text(seen)
    shown = sanitised(seen).html
    assert "9000" in shown
    assert "none" not in shown


SHOWN = "Can you pay 500 euros to me by Friday?"


@pytest.mark.parametrize(
    "style",
    [
        "display:none;display:block",
        "/*display:none*/",
        "font-family:'display:none'",
        "font-family:'a;display:none'",
        "font-family:'\n;display:none'",
        "background:url(;display:none)",
        "x{display:none}",
        "display:none foo",
        "display:block!important;display:none",
        "display:none;d\\69splay:block",
        "display:none;all:unset",
        "opacity:0;opacity:1",
        "opacity:0foo",
        "mso-hide:all",
        "max-height:0",
        "max-height:0;overflow:hidden;padding:20px",
        "visibility:hidden;visibility:visible",
        "font-size:0;font-size:14px",
        "font-size:0;font:14px arial",
        "color:white;text-shadow:0 0 2px black",
        "color:white;-webkit-text-fill-color:black",
        "color:white;color:red",
        "color:ffffff",
    ],
)
def test_what_a_browser_shows_is_read_and_shown(style: str) -> None:
    """Whatever a declaration that it does not go by would hide."""
    check_shown(f'<p>Thanks</p><div style="{escape(style)}">{SHOWN}</div>')


@pytest.mark.parametrize(
    "html",
    [
        f'<div style="visibility:hidden">x<p style="visibility:visible">{SHOWN}</p></div>',
        f'<div style="color:white"><p style="color:red">{SHOWN}</p></div>',
        f'<div style="color:white"><p style="color:oklch(20% 0 0)">{SHOWN}</p></div>',
        f'<div style="color:white"><p style="text-shadow:0 0 2px black">{SHOWN}</p></div>',
        f'<span style="max-height:0;overflow:hidden">{SHOWN}</span>',
        f"<p hidden style=display:block>{SHOWN}</p>",
        f"<style media=print>.x{{display:none}}</style><p class=x>{SHOWN}</p>",
        f"<style>.x,:y(){{display:none}}</style><p class=x>{SHOWN}</p>",
        f"<style>.x{{display:none}} #y{{display:block}}</style><p class=x id=y>{SHOWN}</p>",
        f"<style>.x{{opacity:0}} .x{{opacity:1}}</style><p class=x>{SHOWN}</p>",
        f"<style>.y{{content:'}} .x{{display:none}} '}}</style><p class=x>{SHOWN}</p>",
        f"<style>@media (min-width:9999px){{.x{{display:none}}}}</style><p class=x>{SHOWN}</p>",
        f"<style>.x{{display:none}}</style><p class=x style=display:block>{SHOWN}</p>",
        f"<style>.x{{background:black}}</style><p class=x style=color:white>{SHOWN}</p>",
        f"<noscript><p>{SHOWN}</p></noscript>",
        f"<textarea>{SHOWN}</textarea>",
        f'<textarea placeholder="{SHOWN}"></textarea>',
        f'<input value="{SHOWN}">',
        f'<input type=submit value="{SHOWN}">',
        f'<input placeholder="{SHOWN}">',
        f"<button>{SHOWN}</button>",
        f"<select><option>Yes<option>{SHOWN}</select>",
        f'<select><option label="{SHOWN}"></select>',
        f"<svg><text>{SHOWN}</text></svg>",
        f"<svg><foreignObject><p>{SHOWN}</p></foreignObject></svg>",
        f"<math><mtext>{SHOWN}</mtext></math>",
        f"<map>{SHOWN}</map>",
        f"<xmp>{SHOWN}</xmp>",
        f"<plaintext>{SHOWN}",
    ],
)
def test_so_is_what_an_element_shows(html: str) -> None:
    check_shown(f"<p>Thanks</p>{html}")


def check_shown(html: str) -> None:
    """Both read it, and the page in a colour that is not its paper's."""
    assert SHOWN in html_to_text(html)
    page = sanitised(html).html
    assert SHOWN in page
    assert page.rpartition("color:white")[2].count("color:") or "color:white" not in page
    assert html_to_text(page).endswith(SHOWN)


def test_text_that_the_page_would_hide_is_shown() -> None:
    """Its colour is to be seen on another, or on a picture, which a page does not show."""
    assert "background-color:black" in sanitised('<p style="color:white;background:black">9000</p>').html
    pictured = '<div style="background:url(https://a.example/x.png)"><p style="COLOR : white;margin:0">9000</p></div>'
    assert "9000" in html_to_text(pictured)
    assert "white" not in sanitised(pictured).html.lower()
