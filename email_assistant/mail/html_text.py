"""HTML mail to compact text.

lxml reports its parse as events, so nothing here recurses, and no tree is built: a document nested 50,000 deep would
otherwise lose its text (libxml2 cuts the tree) or exhaust the stack.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from html import unescape

from lxml import etree

from email_assistant.mail.charset import readable
from email_assistant.mail.html_style import Element, Visibility, declared_in, is_tiny, words_of
from email_assistant.mail.links import bare_url, host_of, link_note

_MAX_DEPTH = 300  # beyond it tags are only stripped: each stray end tag costs libxml2 a walk over all open elements
_CHUNK = 16_384  # characters: an exception from a handler stops lxml only at the end of what it was fed

_NEW_LINE = frozenset(
    {
        "address",
        "article",
        "aside",
        "center",
        "dd",
        "details",
        "div",
        "dl",
        "summary",
        "dt",
        "fieldset",
        "figure",
        "footer",
        "form",
    }
    | {"header", "hr", "li", "main", "nav", "section", "tr", "option", "text", "textarea"}
)
_NEW_PARAGRAPH = frozenset({"blockquote", "h1", "h2", "h3", "h4", "h5", "h6", "ol", "p", "pre", "table", "ul"})
_CELLS = frozenset({"td", "th"})
_STRUCK = frozenset({"s", "strike", "del"})

_FILE_NAME = re.compile(r"\S{1,200}\.(?:png|jpe?g|gif|svg|webp|bmp)", re.IGNORECASE)
_FILLER = re.compile("(?:[\u034f\u00ad\u200b-\u200f\u2007\u2060\ufeff]\\s*){3,}")
_TAG = re.compile(r"<[^<>]*>")
_BLANKS = re.compile(r"\s+")
_SIGNATURE_MARK = "-- "


@dataclass(frozen=True, slots=True)
class Beside:
    """What HTML holds beside its words."""

    hosts: set[str] = field(default_factory=set)
    """Where its links lead."""
    pictures: set[str] = field(default_factory=set)
    """What stands for its pictures."""


def html_to_text(html: str, beside: Beside | None = None) -> str:
    """The text that a reader of the HTML sees, in lines; hidden parts, tracking pixels and layout are dropped.

    Quoted mail is marked with `> ` as in plain text. Always returns, in time linear in the length.

    Args:
        beside: gets what the HTML holds beside its words.
    """
    html = readable(html)
    beside = beside or Beside()
    return _render(html, beside, show_hidden=False) or _render(html, beside, show_hidden=True)


def _render(html: str, beside: Beside, *, show_hidden: bool) -> str:
    renderer = _Renderer(beside, show_hidden=show_hidden)
    parser = etree.HTMLParser(target=renderer, huge_tree=True, no_network=True)
    try:
        for start in range(0, len(html), _CHUNK):
            parser.feed(html[start : start + _CHUNK])
        parser.close()
    except (_TooDeepError, etree.LxmlError):
        return _tidy(unescape(_TAG.sub(" ", html)))
    return _tidy(renderer.text())


def _tidy(text: str) -> str:
    text = "\n".join(map(_rstrip, _FILLER.sub(" ", text).split("\n")))
    return re.sub(r"\n{3,}", "\n\n", text).strip("\n")


def _rstrip(line: str) -> str:
    """Without trailing blanks, but for the one that tells the mark above a signature from a dash."""
    return line if line == _SIGNATURE_MARK else line.rstrip()


class _TooDeepError(Exception):
    pass


class _Renderer:
    """Receives lxml's parse events and writes lines."""

    def __init__(self, beside: Beside, *, show_hidden: bool) -> None:
        self._beside = beside
        self._seen = Visibility(show_hidden=show_hidden)
        self._lines: list[str] = []
        self._line: list[str] = []
        self._has_ink = False
        self._bullet = ""
        self._href = ""
        self._label: list[str] = []
        self._counters: list[int] = []
        self._tables: list[Table] = []
        self._superscripts: list[int] = []

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        if len(self._seen.elements) >= _MAX_DEPTH:
            raise _TooDeepError
        attributes = dict(attributes)  # lxml's own mapping answers ten times slower
        self._seen.open(tag, attributes)
        if not self._seen.is_hidden:
            self._break_before(tag)
            self._open(tag, attributes)

    def _open(self, tag: str, attributes: Mapping[str, str]) -> None:
        if tag == "br":
            self._line_break()
        elif tag == "li":
            self._bullet = self._next_bullet()
        elif tag == "img":
            said = _alternative_text(attributes) if self._seen.shows_pictures else ""
            self._beside.pictures.add(said)
            self._write(f" {said} ")
        elif (said := words_of(tag, attributes)) and self._seen.shows_text:
            self._write(f" {_BLANKS.sub(' ', said)} ")
        elif tag == "a":
            self._href, self._label = attributes.get("href", ""), []
            self._beside.hosts.add(host_of(bare_url(self._href)).removeprefix("www."))
        elif tag in ("ol", "ul"):
            self._counters.append(_first_number(attributes) - 1 if tag == "ol" else -1)
        elif tag in _STRUCK:
            self._write("~~")
        elif tag == "sup":
            self._superscripts.append(len(self._line))
        elif tag == "table":
            for outer in self._tables[-1:]:
                outer.holds_table = True
            self._tables.append(Table(attributes))
        elif self._tables and tag == "tr":
            self._tables[-1].start_row(len(self._lines))
        elif self._tables and tag in _CELLS:
            self._flush()
            self._tables[-1].start_cell(tag, attributes, len(self._lines))

    def end(self, tag: str) -> None:
        if not self._seen.is_hidden:
            self._finish(tag, self._seen.elements[-1])
        self._seen.close()

    def data(self, text: str) -> None:
        self._seen.read(text)
        if not self._seen.shows_text:
            return
        if not (self._seen.elements and self._seen.elements[-1].preformatted):
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

    def _finish(self, tag: str, element: Element) -> None:
        if tag == "a" and self._href:
            note, self._href = link_note(" ".join("".join(self._label).split()), self._href), ""
            self._write(note)
        elif tag in ("ol", "ul") and self._counters:
            self._counters.pop()
        elif tag in _STRUCK:
            self._write("~~")
        elif tag == "sup" and self._superscripts:
            self._raise(self._superscripts.pop())
        elif self._tables:
            self._finish_in_table(tag, element)
        if tag in _NEW_LINE or tag in _NEW_PARAGRAPH or element.quotes:
            self._flush(element.depth_of_quote)
        if tag in _NEW_PARAGRAPH:
            self._blank_line()

    def _finish_in_table(self, tag: str, element: Element) -> None:
        if tag in _CELLS or tag == "tr":
            self._flush(element.depth_of_quote)
        if tag in _CELLS:
            self._tables[-1].end_cell(self._lines)
        elif tag == "tr":
            self._join_cells("> " * min(element.depth_of_quote, 9))
        elif tag == "table":
            self._tables.pop()

    def _join_cells(self, prefix: str) -> None:
        """Put a row's cells, which may hold paragraphs, on one line."""
        table = self._tables[-1]
        if row := table.row(prefix, len(self._lines)):
            del self._lines[table.row_start :]
            self._lines.append(prefix + row)

    def _raise(self, start: int) -> None:
        """Tell a power or a footnote's number from the digits before it."""
        if "".join(self._line[start:]).strip("-−+ ").isdecimal():
            self._line.insert(start, "^")

    def _write(self, text: str) -> None:
        self._line.append(text)
        self._has_ink = self._has_ink or not (not text or text.isspace())
        if self._href:
            self._label.append(text)

    def _break_before(self, tag: str) -> None:
        element = self._seen.elements[-1]
        if tag in _NEW_LINE or tag in _NEW_PARAGRAPH or element.quotes:
            self._flush(element.depth_of_quote - element.quotes)
        if tag in _NEW_PARAGRAPH:
            self._blank_line()

    def _flush(self, quote: int | None = None) -> None:
        """End the line, if there is one."""
        current = self._seen.elements[-1] if self._seen.elements else None
        if quote is None:
            quote = current.depth_of_quote if current else 0
        has_ink, self._has_ink = self._has_ink, False
        raw = "".join(self._line)
        self._line.clear()
        if not has_ink:
            return
        if raw != _SIGNATURE_MARK and (current is None or not current.preformatted):
            raw = re.sub(" +", " ", raw).strip()
        bullet, self._bullet = self._bullet, ""
        self._lines.append("> " * min(quote, 9) + _rstrip(bullet + raw))

    def _line_break(self) -> None:
        if self._has_ink:
            self._flush()
        else:
            self._line.clear()
            self._blank_line()

    def _blank_line(self) -> None:
        if self._lines and self._lines[-1]:
            self._lines.append("")

    def _next_bullet(self) -> str:
        if not self._counters or self._counters[-1] < 0:
            return "- "
        self._counters[-1] += 1
        return f"{self._counters[-1]}. "


def _first_number(attributes: Mapping[str, str]) -> int:
    start = attributes.get("start", "")
    return int(start) if re.fullmatch(r"[0-9]{1,6}", start) else 1


def _alternative_text(attributes: Mapping[str, str]) -> str:
    sizes = (attributes.get("width", ""), attributes.get("height", ""))
    if any(size.strip() in ("0", "1", "2") for size in sizes) or is_tiny(declared_in(attributes), ("width", "height")):
        return ""
    text = _BLANKS.sub(" ", attributes.get("alt", "")).strip()
    return "" if _FILE_NAME.fullmatch(text) else text[:300]


_MAX_ROW = 300  # characters; the cells of a longer row keep their own lines


@dataclass(slots=True)
class Table:
    """An open table."""

    attributes: Mapping[str, str]
    row_start: int = 0
    holds_table: bool = False
    _cell_start: int = 0
    _told_up_to: int = 0
    """The line after the row's last cell: what stands between is text beside cells."""
    _has_loose_text: bool = False
    _cells: list[list[str]] = field(default_factory=list)
    _has_grid: bool = False
    """It shows data: an empty cell means something there, and nothing where cells only lay out a page."""

    def __post_init__(self) -> None:
        self._has_grid = self.attributes.get("border", "0").strip() not in ("", "0")

    def start_row(self, line: int) -> None:
        self.row_start, self.holds_table, self._cells = line, False, []
        self._told_up_to, self._has_loose_text = line, False

    def start_cell(self, tag: str, attributes: Mapping[str, str], line: int) -> None:
        self._cell_start = line
        self._has_loose_text = self._has_loose_text or line > self._told_up_to
        self._has_grid = self._has_grid or tag == "th" or "solid" in declared_in(attributes).get("border", "")

    def end_cell(self, lines: list[str]) -> None:
        if not self.holds_table:
            self._cells.append(lines[self._cell_start :])
        self._told_up_to = len(lines)

    def row(self, prefix: str, end: int) -> str:
        """The row in one line, where it ends before line `end`; empty if it has no text, more than fits, or text beside
        its cells."""
        cells = [[line.removeprefix(prefix) for line in cell if line] for cell in self._cells]
        full = [cell for cell in cells if cell]
        has_blocks = any(len(cell) > 1 for cell in full)
        length = sum(len(line) for cell in full for line in cell)
        stays = self.holds_table or self._has_loose_text or end > self._told_up_to
        if stays or len(full) == 0 or (has_blocks and (len(full) == 1 or length > _MAX_ROW)):
            return ""
        while not cells[-1]:
            cells.pop()
        return " | ".join(" ".join(cell) for cell in (cells if self._has_grid else full))
