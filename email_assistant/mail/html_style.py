"""What of a mail's HTML is seen; its tags, style attributes and style sheets hide the rest. A page shows what a model
reads, so both ask here."""

import re
from collections.abc import Mapping
from typing import Literal

SKIPPED = frozenset(
    {"script", "style", "title", "template", "svg", "select", "map", "noscript", "textarea", "iframe", "audio", "video"}
    | {"canvas", "noembed", "noframes"}
)
_FONT_SIZE = re.compile(r"font-size:(?:0*1(?:\.\d*)?p[xt]|([\d.]+|[a-z]+))|font:(?:[^;]{0,99},)?0+(?:p[xt]|e?m)?[/,]")
_HIDDEN = re.compile(r"display:none|visibility:hidden|max-height:0(?![.\d])|opacity:0(?!\.?\d)|mso-hide:all")
_INK = re.compile(r"(?:^|;)color:([^;!]*)")
_PAPER = re.compile(r"(?:^|;)background(?:-color|-image)?:([^;!]*)")
_HEX = re.compile(r"#?([0-9a-f]{3}|[0-9a-f]{6})")
_RGB = re.compile(r"rgba?\((\d{1,3}),(\d{1,3}),(\d{1,3})")
_GREY = re.compile(r"hsla?\([\d.]{1,8}(?:deg)?,(?:0+%?,(\d{1,3})|[\d.]{1,8}%?,(0+|100))(?:\.0+)?%?[,)]")
_CLEAR = re.compile(r"(?:rgb|hsl)a?\((?:[^(),]{1,20},){3}([01]?(?:\.\d{1,4})?|0)%?\)")
_NAMED_COLOURS = {"white": (255, 255, 255), "black": (0, 0, 0), "snow": (255, 250, 250), "ivory": (255, 255, 240),
                  "ghostwhite": (248, 248, 255), "whitesmoke": (245, 245, 245)}  # fmt: skip
_ALIKE = 12  # of 255; what differs by no more is not seen
_COMMENT = re.compile(r"/\*.*?(?:\*/|\Z)", re.DOTALL)
_AT_RULE = re.compile(r"@[^{}@;]*+\{(?:[^{}]*+\{[^{}]*+\})*+[^{}]*+\}")
_ONE_CLASS = re.compile(r"[a-z0-9]*\.([\w-]+)")
_CLASS = re.compile(r"\.([\w-]+)")
_BLANKS = re.compile(r"\s+")
_COLON = re.compile(r" ?: ?")
_COLOUR = re.compile(r"\([^()]{1,60}\)")
_FONT = re.compile(r"(?<![\w-])font:[^;]{1,200}")


def inline_style(attributes: Mapping[str, str]) -> str:
    """The style attribute in lower case and without blanks; where they part values, commas do."""
    if not (written := attributes.get("style")):
        return ""
    style = _COLON.sub(":", _BLANKS.sub(" ", written.lower()))
    style = _COLOUR.sub(lambda found: re.sub(r"[\s,/]+", ",", found[0].replace("( ", "(").replace(" )", ")")), style)
    return _BLANKS.sub("", _FONT.sub(lambda found: _BLANKS.sub(",", found[0]), style))


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
    if not written:
        return None
    if named := _NAMED_COLOURS.get(written):
        return named
    if digits := _HEX.fullmatch(written):
        code = "".join(digit * 2 for digit in digits[1]) if len(digits[1]) == len("fff") else digits[1]
        return int(code[:2], 16), int(code[2:4], 16), int(code[4:], 16)
    if grey := _GREY.match(written):
        level = round(min(int(grey[1] or grey[2]), 100) * 2.55)
        return level, level, level
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


class Element:
    """What an open element means for the text in it."""

    __slots__ = ("classed", "depth_of_quote", "hidden", "ink", "invisible", "paper", "preformatted", "quotes", "tag")

    def __init__(self, tag: str, attributes: Mapping[str, str], parent: "Element | None") -> None:
        self.tag = tag
        style = inline_style(attributes)
        kind = attributes.get("class", "")
        self.hidden = tag not in ("html", "body") and ("hidden" in attributes or hides(style))
        # Gmail indents with a plain <blockquote>; only these mark another mail's text.
        self.quotes = tag == "blockquote" and (attributes.get("type") == "cite" or "quote" in kind)
        self.depth_of_quote: int = (parent.depth_of_quote if parent else 0) + self.quotes
        self.preformatted: bool = tag == "pre" or "white-space:pre" in style or bool(parent and parent.preformatted)
        # Wrappers with size 0 are a layout trick; only text of that very size is invisible.
        size = _FONT_SIZE.search(style)
        self.invisible: bool = not (size[1] or "").strip("0.") if size else bool(parent and parent.invisible)
        self.ink: Colour | Literal["none"] = ink(style, attributes) or (parent.ink if parent else BLACK)
        self.paper: Colour | Literal["unknown"] = paper(style, attributes) or (parent.paper if parent else WHITE)
        if "background" in attributes:  # a picture
            self.paper = "unknown"
        self.classed: bool = "class" in attributes or "id" in attributes or bool(parent and parent.classed)

    @property
    def is_light_on_unknown(self) -> bool:
        return self.paper == "unknown" and self.ink != "none" and is_alike(self.ink, WHITE)


class Visibility:
    """Which of the elements that stand open are seen, as they open and close in their order."""

    def __init__(self, *, show_hidden: bool) -> None:
        self._show_hidden = show_hidden
        self.elements: list[Element] = []
        self._hidden_from = 0
        self._sheet: list[str] = []
        self._hidden_classes: set[str] = set()
        self._paints = False

    @property
    def is_hidden(self) -> bool:
        return self._hidden_from > 0

    @property
    def shows_text(self) -> bool:
        """Whether text that stands here is seen: it may be too small, or of the colour that it stands on, as far as
        that is told here; what a style sheet paints behind it is not read."""
        if self.is_hidden:
            return False
        return self._show_hidden or not self.elements or not self._is_invisible(self.elements[-1])

    def open(self, tag: str, attributes: Mapping[str, str]) -> None:
        element = Element(tag, attributes, self.elements[-1] if self.elements else None)
        self.elements.append(element)
        if self.is_hidden:
            return
        if tag == "style" and "(" in attributes.get("media", ""):
            self._sheet.append("@media")
        if tag in SKIPPED or (self._hides(element, attributes) and not self._show_hidden):
            self._hidden_from = len(self.elements)

    def close(self) -> None:
        if len(self.elements) == self._hidden_from:
            self._hidden_from = 0
            sheet = "".join(self._sheet)
            self._paints = self._paints or "background" in sheet.lower()
            self._hidden_classes |= hidden_classes(sheet)
            self._sheet.clear()
        self.elements.pop()

    def read(self, text: str) -> None:
        """Text that stands here; that of a style sheet says what is seen below."""
        if self.elements and self.elements[-1].tag == "style":
            self._sheet.append(text)

    def _hides(self, element: Element, attributes: Mapping[str, str]) -> bool:
        if element.hidden or not self._hidden_classes:
            return element.hidden
        return not self._hidden_classes.isdisjoint(attributes.get("class", "").lower().split())

    def _is_invisible(self, element: Element) -> bool:
        if element.invisible or element.ink == "none":
            return True
        if element.paper == "unknown" or (element.classed and self._paints):
            return False
        return is_alike(element.ink, element.paper)
