"""What style attributes and style sheets hide."""

import re
from collections.abc import Mapping
from typing import Literal

_HIDDEN = re.compile(r"display:none|visibility:hidden|max-height:0(?![.\d])|opacity:0(?!\.?\d)|mso-hide:all")
_INK = re.compile(r"(?:^|;)color:([^;!]*)")
_PAPER = re.compile(r"(?:^|;)background(?:-color|-image)?:([^;!]*)")
_HEX = re.compile(r"#?([0-9a-f]{3}|[0-9a-f]{6})")
_RGB = re.compile(r"rgba?\((\d{1,3}),(\d{1,3}),(\d{1,3})")
_CLEAR = re.compile(r"(?:rgba|hsla)\([^()]{1,40},([01]?(?:\.\d{1,4})?|0)\)")
_NAMED_COLOURS = {"white": (255, 255, 255), "black": (0, 0, 0), "snow": (255, 250, 250), "ivory": (255, 255, 240),
                  "ghostwhite": (248, 248, 255), "whitesmoke": (245, 245, 245)}  # fmt: skip
_ALIKE = 12  # of 255; what differs by no more is not seen
_COMMENT = re.compile(r"/\*.*?(?:\*/|\Z)", re.DOTALL)
_AT_RULE = re.compile(r"@[^{}@;]*+\{(?:[^{}]*+\{[^{}]*+\})*+[^{}]*+\}")
_ONE_CLASS = re.compile(r"[a-z0-9]*\.([\w-]+)")
_CLASS = re.compile(r"\.([\w-]+)")
_BLANKS = re.compile(r"\s+")


def inline_style(attributes: Mapping[str, str]) -> str:
    """The style attribute in lower case and without blanks."""
    return _BLANKS.sub("", attributes.get("style", "")).lower()


def hides(style: str) -> bool:
    """Whether a style such as `inline_style` gives makes its element invisible."""
    return _HIDDEN.search(style) is not None


Colour = tuple[int, int, int]
WHITE: Colour = (255, 255, 255)
BLACK: Colour = (0, 0, 0)


def ink(style: str, attributes: Mapping[str, str]) -> Colour | Literal["none"] | None:
    """The colour of an element's text; "none" if it is transparent, None if it says nothing that is known."""
    found = _INK.search(style)
    written = found[1] if found else attributes.get("color", attributes.get("text", "")).strip().lower()
    if written == "transparent" or ((clear := _CLEAR.fullmatch(written)) and float(clear[1]) == 0):
        return "none"
    return _colour(written)


def paper(style: str, attributes: Mapping[str, str]) -> Colour | Literal["unknown"] | None:
    """The colour behind an element's text; "unknown" if it is a picture or the like, None if it says nothing."""
    found = _PAPER.search(style)
    written = found[1] if found else attributes.get("bgcolor", "").strip().lower()
    if not written or written in ("transparent", "none", "inherit", "initial"):
        return None
    return _colour(written) or "unknown"


def is_alike(ink: Colour, paper: Colour) -> bool:
    """Whether a text of one colour on another can't be seen."""
    return all(abs(one - other) <= _ALIKE for one, other in zip(ink, paper, strict=True))


def _colour(written: str) -> Colour | None:
    if named := _NAMED_COLOURS.get(written):
        return named
    if digits := _HEX.fullmatch(written):
        code = "".join(digit * 2 for digit in digits[1]) if len(digits[1]) == len("fff") else digits[1]
        return int(code[:2], 16), int(code[2:4], 16), int(code[4:], 16)
    if numbers := _RGB.match(written):
        red, green, blue = (min(int(number), 255) for number in numbers.groups())
        return red, green, blue
    return None


def hidden_classes(sheet: str) -> set[str]:
    """The classes, in lower case, that a style sheet hides and nowhere shows to a wide screen."""
    sheet = _COMMENT.sub("", sheet.lower())
    wide = "".join(rule for rule in _AT_RULE.findall(sheet) if "min-width" in rule)
    sheet = _AT_RULE.sub("", sheet)
    if "@media" in sheet:  # nested in a way that isn't read: what it hides, a wide screen may show
        return set()
    hidden: set[str] = set()
    shown: set[str] = set()
    for rule in (sheet + wide).split("}"):
        selectors, _, style = rule.rpartition("{")
        style = _BLANKS.sub("", style)
        if hides(style):
            names = (_ONE_CLASS.fullmatch(selector.strip()) for selector in selectors.split(","))
            hidden |= {name[1] for name in names if name}
        elif "display:" in style:
            shown |= set(_CLASS.findall(selectors))
    return hidden - shown
