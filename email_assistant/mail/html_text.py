"""HTML mail to compact text.

lxml reports its parse as events, so nothing here recurses, and no tree is built: a document nested 50,000 deep would
otherwise lose its text (libxml2 cuts the tree) or exhaust the stack.
"""

import re
from collections.abc import Mapping
from html import unescape

from lxml import etree

from .charset import readable
from .links import link_note

_MAX_DEPTH = 300
"""Beyond it tags are only stripped: each stray end tag costs libxml2 a walk over all open elements."""
_CHUNK = 16_384
"""Characters: an exception from a handler stops lxml only at the end of what it was fed."""

_SKIPPED = frozenset({"script", "style", "title", "template", "svg", "select", "map"})
_NEW_LINE = frozenset(
    {"address", "article", "aside", "center", "dd", "div", "dl", "dt", "fieldset", "figure", "footer", "form"}
    | {"header", "hr", "li", "main", "nav", "section", "tr"}
)
_NEW_PARAGRAPH = frozenset({"blockquote", "h1", "h2", "h3", "h4", "h5", "h6", "ol", "p", "pre", "table", "ul"})
_CELLS = frozenset({"td", "th"})
_CELL_END = "\x1f"

_HIDDEN_STYLE = re.compile(r"display:none|visibility:hidden|max-height:0(?![.\d])|opacity:0(?!\.?\d)")
_FONT_SIZE = re.compile(r"font-size:([\d.]+|[a-z]+)")
_TINY = re.compile(r"(?<![-\w])(?:width|height):[012](?:px)?(?:;|$)")
_FILE_NAME = re.compile(r"\S{1,200}\.(?:png|jpe?g|gif|svg|webp|bmp)", re.IGNORECASE)
_FILLER = re.compile("(?:[\u034f\u00ad\u200b-\u200f\u2007\u2060\ufeff]\\s*){3,}")
_TAG = re.compile(r"<[^<>]*>")
_BLANKS = re.compile(r"\s+")


def html_to_text(html: str) -> str:
    """The text that a reader of the HTML sees, in lines; hidden parts, tracking pixels and layout are dropped.

    Quoted mail is marked with `> ` as in plain text. Always returns, in time linear in the length.
    """
    html = readable(html)
    return _render(html, show_hidden=False) or _render(html, show_hidden=True)


def _render(html: str, *, show_hidden: bool) -> str:
    renderer = _Renderer(show_hidden=show_hidden)
    parser = etree.HTMLParser(target=renderer, huge_tree=True, no_network=True)
    try:
        for start in range(0, len(html), _CHUNK):
            parser.feed(html[start : start + _CHUNK])
        parser.close()
    except (_TooDeepError, etree.LxmlError):
        return _tidy(unescape(_TAG.sub(" ", html)))
    return _tidy(renderer.text())


def _tidy(text: str) -> str:
    text = "\n".join(line.rstrip() for line in _FILLER.sub(" ", text).split("\n"))
    return re.sub(r"\n{3,}", "\n\n", text).strip("\n")


class _TooDeepError(Exception):
    pass


class _Renderer:
    """Receives lxml's parse events and writes lines."""

    def __init__(self, *, show_hidden: bool) -> None:
        self._show_hidden = show_hidden
        self._lines: list[str] = []
        self._line: list[str] = []
        self._elements: list[_Element] = []
        self._hidden_from = 0
        self._href = ""
        self._label: list[str] = []
        self._counters: list[int] = []

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        if len(self._elements) >= _MAX_DEPTH:
            raise _TooDeepError
        element = _Element(tag, attributes, self._elements[-1] if self._elements else None)
        self._elements.append(element)
        if self._hidden_from:
            return
        if tag in _SKIPPED or (element.hidden and not self._show_hidden):
            self._hidden_from = len(self._elements)
            return
        self._break_before(tag)
        if tag == "br":
            self._line_break()
        elif tag == "li":
            self._write(self._bullet())
        elif tag == "img":
            self._write(f" {_alternative_text(attributes)} ")
        elif tag == "a":
            self._href, self._label = attributes.get("href", ""), []
        elif tag in ("ol", "ul"):
            self._counters.append(0 if tag == "ol" else -1)

    def end(self, tag: str) -> None:
        if not self._hidden_from:
            self._finish(tag, self._elements[-1])
        elif len(self._elements) == self._hidden_from:
            self._hidden_from = 0
        self._elements.pop()

    def data(self, text: str) -> None:
        if self._hidden_from or (not self._show_hidden and self._elements and self._elements[-1].invisible):
            return
        if not (self._elements and self._elements[-1].preformatted):
            self._write(_BLANKS.sub(" ", text))
            return
        first, *others = text.split("\n")
        self._write(first)
        for line in others:
            self._line_break()
            self._write(line)

    def close(self) -> None:
        self._flush()

    def text(self) -> str:
        return "\n".join(self._lines)

    def _finish(self, tag: str, element: "_Element") -> None:
        if tag == "a" and self._href:
            self._line.append(link_note(" ".join("".join(self._label).split()), self._href))
            self._href = ""
        elif tag in _CELLS:
            self._line.append(_CELL_END)
        elif tag in ("ol", "ul") and self._counters:
            self._counters.pop()
        if tag in _NEW_LINE or tag in _NEW_PARAGRAPH or element.quotes:
            self._flush(element.depth_of_quote)
        if tag in _NEW_PARAGRAPH:
            self._blank_line()

    def _write(self, text: str) -> None:
        self._line.append(text)
        if self._href:
            self._label.append(text)

    def _break_before(self, tag: str) -> None:
        element = self._elements[-1]
        if tag in _NEW_LINE or tag in _NEW_PARAGRAPH or element.quotes:
            self._flush(element.depth_of_quote - element.quotes)
        if tag in _NEW_PARAGRAPH:
            self._blank_line()

    def _flush(self, quote: int | None = None) -> None:
        """End the line, if there is one."""
        current = self._elements[-1] if self._elements else None
        if quote is None:
            quote = current.depth_of_quote if current else 0
        raw = "".join(self._line)
        self._line.clear()
        if current is None or not current.preformatted:
            cells = (re.sub(" +", " ", cell).strip() for cell in raw.split(_CELL_END))
            raw = " | ".join(cell for cell in cells if cell)
        if raw.strip():
            self._lines.append("> " * min(quote, 9) + raw.replace(_CELL_END, " ").rstrip())

    def _line_break(self) -> None:
        if "".join(self._line).strip():
            self._flush()
        else:
            self._blank_line()

    def _blank_line(self) -> None:
        if self._lines and self._lines[-1]:
            self._lines.append("")

    def _bullet(self) -> str:
        if not self._counters or self._counters[-1] < 0:
            return "- "
        self._counters[-1] += 1
        return f"{self._counters[-1]}. "


class _Element:
    """What an open element means for the text in it."""

    __slots__ = ("depth_of_quote", "hidden", "invisible", "preformatted", "quotes")

    def __init__(self, tag: str, attributes: Mapping[str, str], parent: "_Element | None") -> None:
        style = _BLANKS.sub("", attributes.get("style", "")).lower()
        kind = attributes.get("class", "")
        self.hidden = tag not in ("html", "body") and ("hidden" in attributes or bool(_HIDDEN_STYLE.search(style)))
        # Gmail indents with a plain <blockquote>; only these mark another mail's text.
        self.quotes = tag == "blockquote" and (attributes.get("type") == "cite" or "quote" in kind)
        self.depth_of_quote: int = (parent.depth_of_quote if parent else 0) + self.quotes
        self.preformatted: bool = tag == "pre" or "white-space:pre" in style or bool(parent and parent.preformatted)
        # Wrappers with size 0 are a layout trick; only text of that very size is invisible.
        size = _FONT_SIZE.search(style)
        self.invisible: bool = (not size[1].strip("0.")) if size else bool(parent and parent.invisible)


def _alternative_text(attributes: Mapping[str, str]) -> str:
    style = _BLANKS.sub("", attributes.get("style", "")).lower()
    sizes = (attributes.get("width", ""), attributes.get("height", ""))
    if any(size.strip() in ("0", "1", "2") for size in sizes) or _TINY.search(style):
        return ""
    text = _BLANKS.sub(" ", attributes.get("alt", "")).strip()
    return "" if _FILE_NAME.fullmatch(text) else text[:300]
