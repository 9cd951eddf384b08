"""Characters that a person doesn't see, though a model reads them and a recipient's program may act on them."""

import re
from typing import Final

# Control characters, zero-width and bidi marks, fillers without ink, variation selectors and tag characters.
_HIDDEN: Final = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff\ud800-\udfff"
)
_LINE_BREAKS: Final = re.compile("\r\n?|[\x85\u2028\u2029]")
_INVISIBLE: Final = re.compile(f"[{_HIDDEN}]")

_EMOJI: Final = (
    "[\u00a9\u00ae\u203c\u2049\u2122\u2139\u2190-\u21ff\u2300-\u23ff\u24c2\u25a0-\u27bf\u2900-\u297f\u2b00-\u2bff"
    "\u3030\u303d\u3297\u3299\U0001f000-\U0001faff][\ufe0e\ufe0f]?[\U0001f3fb-\U0001f3ff]?"
)
_OF_BRITAIN: Final = (
    "\U0001f3f4\U000e0067\U000e0062"
    "(?:\U000e0065\U000e006e\U000e0067|\U000e0073\U000e0063\U000e0074|\U000e0077\U000e006c\U000e0073)\U000e007f"
)
_BELONGING: Final = (
    # The flags of England, Scotland and Wales; keycaps; emoji, one or several joined into one (UTS #51).
    _OF_BRITAIN,
    "[0-9#*]\ufe0f\u20e3",
    f"{_EMOJI}(?:\u200d{_EMOJI})*",
    # A single joiner, or its contrary, behind a letter of a script that has them: Arabic, Indic and their like.
    "(?<=[\u0620-\u08ff\u0900-\u109f\u1780-\u17b3\u17b6-\u180a\u1810-\u1cff\ua800-\uabff\ufb50-\ufdff\ufe70-\ufefc"
    f"\U00010a00-\U00011fff\U0001e900-\U0001e95f])[\u200c\u200d](?![{_HIDDEN}])",
    # A Mongolian letter's variant.
    f"(?<=[\u1820-\u18aa])[\u180b-\u180f](?![{_HIDDEN}])",
)
_KEPT: Final = re.compile(f"({'|'.join(_BELONGING)})|[{_HIDDEN}]")
_MARKS: Final = "[\u200e\u200f\u061c]"
_MARK: Final = f"(?<![{_HIDDEN}]){_MARKS}(?![{_HIDDEN}])"
_KEPT_AMONG_RIGHT_TO_LEFT: Final = re.compile(f"({'|'.join([*_BELONGING, _MARK])})|[{_HIDDEN}]")
_RIGHT_TO_LEFT: Final = re.compile(
    "[\u0590-\u061b\u061d-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff]"
)
_SET_APART: Final = "[./,:\u2019\u2013\u2212'-]"
_WITHIN_A_NUMBER: Final = re.compile(
    f"(?<=[0-9]){_MARKS}(?={_SET_APART}?{_MARKS}?[0-9])"
    f"|(?<=[0-9]{_SET_APART}){_MARKS}(?=[0-9])|(?<=[0-9]{_MARKS}{_SET_APART}){_MARKS}(?=[0-9])"
)
"""There a mark makes 03/12 be read as 12/03 by whoever's program heeds it."""


def clean(text: str) -> str:
    """Text without characters that a person doesn't see."""
    return _INVISIBLE.sub("", _LINE_BREAKS.sub("\n", text))


def as_seen(text: str) -> str:
    """`clean` text that reads as the person meant it: what is needed to write an emoji or a script is left, such as the
    joiners of Persian and Hindi, and a mark of direction in a line with Hebrew or Arabic, of which one alone may stand
    between letters. What was read so once stays as it is."""
    return "\n".join(map(_line_as_seen, _LINE_BREAKS.sub("\n", text).split("\n")))


def _line_as_seen(line: str) -> str:
    if not _RIGHT_TO_LEFT.search(line):
        return _KEPT.sub(_belonging, line)
    return _WITHIN_A_NUMBER.sub("", _KEPT_AMONG_RIGHT_TO_LEFT.sub(_belonging, line))


def _belonging(found: re.Match[str]) -> str:
    return found[1] or ""
