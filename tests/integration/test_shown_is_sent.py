"""What a person accepts holds no character that they don't see: what is shown and what is sent are the same."""

from html import unescape

import pytest

from tests.doubles.daemon import Daemon
from tests.doubles.google import Google
from tests.doubles.model import Model, tool
from tests.integration.scene import BOB, DONE, meeting, reply

HIDDEN = {
    "tag characters": ("Fine.\U000e0053\U000e0065\U000e006e\U000e0064 See you.", "Fine. See you."),
    "overrides": ("Pay \u202e0001\u202c EUR \u2066to\u2069 Bob", "Pay 0001 EUR to Bob"),
    "zero-width runs": ("a\u200b\u200c\u200d\u2060\ufeffb \u200d\u200c\u200dc \u200e\u200f\u200ed", "ab c d"),
    "variation selectors": ("a\ufe00b\ufe0fc\U000e0100d\U000e01efe 5\ufe0f6", "abcde 56"),
    "marks of direction in a date": ("Pay 03\u200f/\u200f12, 1\u061c000.", "Pay 03/12, 1000."),
    "marks within a number beside a right-to-left word": ("שולם 03\u200f/\u200f12, 1\u200f.\u200f5", "שולם 03/12, 1.5"),
    "fillers": ("a\u3164b\u115fc\u1160d\uffa0e\u2800f\u00adg", "abcdefg"),
    "among other scripts": (
        "שלום\u200e\u200f\u200eעולם می\u200c\u200dخواهم क्\u200d\u200b\u200dष 😀\U000e0041\ufe01",
        "שלוםעולם میخواهم क्ष 😀",
    ),
}
SEEN = {
    "emoji": "\u2764\ufe0f \U0001f469\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466 \U0001f3f3\ufe0f\u200d\U0001f308"
    "\U0001f469\U0001f3fd\u200d\u2695\ufe0f 1\ufe0f\u20e3 #\ufe0f\u20e3 \u260e\ufe0e \U0001f1e9\U0001f1ea \u00a9\ufe0f"
    "\U0001f441\ufe0f\u200d\U0001f5e8\ufe0f \U0001f3f4\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f",
    "Hebrew": "הסכום הוא 100\u200f (מאה) ב-C++\u200e, בבקשה",
    "Arabic": "السعر 100\u061c يورو، \u200fشكرا؛ سنة ١٤٤٥ ه\u200d.",
    "Persian": "می\u200cخواهم کتاب\u200cها را ببینم",
    "Indic": "क्\u200dष র\u200d্য ക്\u200c ශ්\u200dරී ಕ್\u200dಷ",
    "Mongolian": "ᠮᠣᠩᠭᠣᠯ\u180bᠤᠨ",
    "the rest": "Grüße, Łódź: 5 × 3 ≠ 10…\n\n\tDễ thương, 日本語、한국어.",
}
CASES = HIDDEN | {name: (text, text) for name, text in SEEN.items()}


@pytest.fixture(scope="module")
def everything() -> tuple[str, str]:
    """All that is written, and all that is seen of it."""
    pairs = CASES.values()
    return "\n".join(written for written, _ in pairs), "\n".join(seen for _, seen in pairs)


def test_a_reply(daemon: Daemon, google: Google, model: Model, everything: tuple[str, str]) -> None:
    written, seen = everything
    model.script([[reply(written)], [DONE]])
    google.deliver(BOB, "Lunch?", "Friday?")
    [item] = daemon.pending()
    assert item["args"]["response_text"] == seen
    assert seen in unescape(daemon.http.get(f"/items/{item['id']}").text)
    daemon.accept(item)
    daemon.wait_for(lambda: google.sent, "it is sent")
    assert google.sent[0].text == seen


def test_a_persons_edit_and_its_address(
    daemon: Daemon, google: Google, model: Model, everything: tuple[str, str]
) -> None:
    written, seen = everything
    model.script([[reply("Yes."), DONE]])
    google.deliver(BOB, "Lunch?", "Friday?")
    [item] = daemon.pending()
    args = {**item["args"], "response_text": written, "email_address": "bob\u200b@example.org"}
    daemon.answer(item, "edit", args)
    daemon.wait_for(lambda: google.sent, "it is sent")
    assert (google.sent[0].text, google.sent[0].addresses("To")) == (seen, ["bob@example.org"])


def test_a_meeting_and_a_question(daemon: Daemon, google: Google, model: Model, everything: tuple[str, str]) -> None:
    written, seen = (" ".join(text.split()) for text in everything)
    question = tool("Question", content=written)
    model.script([[meeting(title=written)], [question], [DONE]])
    google.deliver(BOB, "Lunch?", "Friday?")
    [item] = daemon.pending()
    assert item["args"]["title"] == seen
    daemon.accept(item)
    daemon.wait_for(lambda: google.events, "it is made")
    [event] = google.events.values()
    assert event["summary"] == seen
    [asked] = daemon.pending()
    assert asked["args"]["content"] == seen
