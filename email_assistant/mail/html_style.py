"""What of a mail's HTML is seen; its tags, style attributes and style sheets hide the rest. A page shows what a model
reads, so both ask here."""

import re
from collections.abc import Mapping
from typing import Final, Literal

from email_assistant.mail.css import (
    BLACK,
    WHITE,
    Colour,
    Declared,
    declarations,
    hidden_classes,
    hides,
    ink,
    is_alike,
    paper,
)

SKIPPED: Final = frozenset(
    {"script", "style", "title", "template", "iframe", "audio", "video", "canvas", "noembed", "noframes", "datalist"}
    | {"meter", "progress", "rp", "desc", "metadata", "annotation", "annotation-xml"}
)
"""Elements whose text no browser shows."""
_BLOCKS: Final = frozenset(
    {"address", "article", "aside", "blockquote", "center", "dd", "details", "div", "dl", "dt", "fieldset", "figure"}
    | {"footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header", "li", "main", "nav", "ol", "p", "pre"}
    | {"section", "ul"}
)
_WITHOUT_WORDS: Final = frozenset({"hidden", "checkbox", "radio", "image", "file", "range", "color", "password"})
_RELATIVE: Final = re.compile(r".*(?:%|em|ex|ch|ic|lh|cap)|inherit|unset|smaller|larger")
_NO_SIZE: Final = re.compile(r"(?:0++(?:\.0++)?|\.0++)(?:[a-z]{1,4})?|0*+1(?:\.\d++)?p[xt]")
_FONT: Final = re.compile(r"(?:.{0,99} )?(\d\S{0,9}?) ?(?:/.*|[ ,].*)")
_PAINTED: Final = ("text-shadow", "-webkit-text-fill-color", "-webkit-text-stroke", "filter", "mix-blend-mode")
"""By these a text is seen whatever its colour."""


def declared_in(attributes: Mapping[str, str]) -> Declared:
    """What an element's style attribute says."""
    style = attributes.get("style")
    return declarations(style) if style else {}


def is_tiny(declared: Declared, names: tuple[str, ...]) -> bool:
    """Whether one of its sides is made not to be seen."""
    return any(declared.get(name, "").removesuffix("px") in ("0", "1", "2") for name in names)


def words_of(tag: str, attributes: Mapping[str, str]) -> str:
    """What an element without content shows: a field, or a button of old."""
    if tag == "option" or tag == "optgroup":
        return attributes.get("label", "").strip()
    if tag == "textarea":
        return attributes.get("placeholder", "").strip()
    if tag != "input" or attributes.get("type", "").strip().lower() in _WITHOUT_WORDS:
        return ""
    return (attributes.get("value", "") or attributes.get("placeholder", "")).strip()


class Element:
    """What an open element means for the text in it."""

    __slots__ = (
        *("classed", "declared", "depth_of_quote", "hidden", "ink", "invisible", "is_painted", "paper"),
        *("preformatted", "quotes", "tag", "unseen"),
    )

    def __init__(self, tag: str, attributes: Mapping[str, str], parent: "Element | None") -> None:
        self.tag = tag
        self.declared = declared = declared_in(attributes)
        kind = attributes.get("class", "")
        is_left_out = "hidden" in attributes and "display" not in declared
        self.hidden = tag not in ("html", "body") and (is_left_out or hides(declared, is_block=tag in _BLOCKS))
        # Gmail indents with a plain <blockquote>; only these mark another mail's text.
        self.quotes = tag == "blockquote" and (attributes.get("type") == "cite" or "quote" in kind)
        self.depth_of_quote: int = (parent.depth_of_quote if parent else 0) + self.quotes
        spaces = declared.get("white-space", "pre" if tag == "pre" else "")
        self.preformatted: bool = spaces.startswith("pre") or bool(parent and parent.preformatted)
        self.unseen: bool = bool(parent and parent.unseen)
        if declared:
            visibility = declared.get("visibility", "inherit")
            self.unseen = self.unseen if visibility in ("inherit", "unset") else visibility in ("hidden", "collapse")
        # Wrappers with size 0 are a layout trick; only text of that very size is invisible.
        self.invisible: bool = _has_no_size(declared, of_parent=bool(parent and parent.invisible))
        self.ink: Colour | Literal["none", "unknown"] = ink(declared, attributes) or (parent.ink if parent else BLACK)
        self.paper: Colour | Literal["unknown"] = paper(declared, attributes) or (parent.paper if parent else WHITE)
        self.classed: bool = "class" in attributes or "id" in attributes or bool(parent and parent.classed)
        painted = any(name.startswith(_PAINTED) and value != "none" for name, value in declared.items())
        self.is_painted: bool = painted or bool(parent and parent.is_painted)

    @property
    def is_washed_out(self) -> bool:
        """Whether its text can't be seen on a page that shows neither pictures nor style sheets behind it."""
        if isinstance(self.ink, str):
            return True
        return is_alike(self.ink, WHITE if isinstance(self.paper, str) else self.paper)

    @property
    def is_on_light(self) -> bool:
        return isinstance(self.paper, str) or sum(self.paper) > sum(WHITE) / 2


def _has_no_size(declared: Declared, *, of_parent: bool) -> bool:
    size = ""
    for name, value in declared.items():
        if name == "font-size":
            size = value
        elif name == "font" and (found := _FONT.fullmatch(value)):
            size = found[1]
    if not size or (of_parent and _RELATIVE.fullmatch(size)):
        return of_parent
    return _NO_SIZE.fullmatch(size) is not None


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
    def shows_pictures(self) -> bool:
        """Whether what stands here beside text is seen."""
        return not self.is_hidden and (self._show_hidden or not self.elements or not self.elements[-1].unseen)

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
        if tag == "style" and not _is_for_screens(attributes):
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
        if element.hidden or not self._hidden_classes or "display" in element.declared:
            return element.hidden
        return not self._hidden_classes.isdisjoint(attributes.get("class", "").lower().split())

    def _is_invisible(self, element: Element) -> bool:
        if element.invisible or element.unseen:
            return True
        if element.is_painted or element.ink == "unknown":
            return False
        if element.ink == "none":
            return True
        if element.paper == "unknown" or (element.classed and self._paints):
            return False
        return is_alike(element.ink, element.paper)


def _is_for_screens(attributes: Mapping[str, str]) -> bool:
    media = attributes.get("media", "").strip().lower()
    return media in ("", "all", "screen") and attributes.get("type", "").strip().lower() in ("", "text/css")
