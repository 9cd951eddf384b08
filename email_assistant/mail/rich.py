"""The HTML of a mail, made fit to be looked at: no script, no style sheet, no address that is asked by itself.

What a mail holds is first read into one balanced run of tags, bounded in depth, since HTML parsers of every kind take
time that grows with the square of hostile nesting. The sanitiser has the last word (https://github.com/rust-ammonia/ammonia):
it parses as browsers do, and lets through only what is named here.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from html import escape
from typing import Final

import nh3
from lxml import etree

from email_assistant.mail.charset import plain, readable
from email_assistant.mail.html_style import SKIPPED, Visibility, is_tiny, words_of
from email_assistant.mail.links import host_of

MOST_CHARACTERS: Final = 500_000  # of HTML, and twice as many once it is balanced; Gmail shows a fifth of that
_MAX_DEPTH: Final = 200  # browsers lay out no more than about 500
_CHUNK: Final = 16_384  # an exception from a handler stops lxml only at the end of what it was fed
_MOST_PICTURES: Final = 100
_LONGEST_TEXT: Final = 2_000
"""Characters without a tag: the sanitiser takes the square of them to write those from U+0080 to U+00BF (nh3 0.3.8)."""

_VOID: Final = frozenset({"br", "hr", "img", "col", "wbr"})
_LINES: Final = frozenset({"details", "summary", "option", "text", "textarea", "xmp", "plaintext"})
"""What is shown as a line of its own: what its sender folds too, since a model reads it."""
_TAGS: Final = frozenset(
    {"a", "abbr", "b", "big", "blockquote", "br", "caption", "center", "cite", "code", "col", "colgroup", "dd", "del"}
    | {"details", "div", "dl", "dt", "em", "font", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "i", "img", "ins", "kbd"}
    | {"li", "ol", "p", "pre", "q", "s", "samp", "small", "span", "strike", "strong", "sub", "summary", "sup", "table"}
    | {"tbody", "td", "tfoot", "th", "thead", "tr", "tt", "u", "ul", "var", "wbr"}
)
_SIZES: Final = ("width", "height")
_BOUNDS: Final = (*_SIZES, "max-width", "max-height")
_BOX: Final = {"align", "valign", "bgcolor", *_SIZES}
_ATTRIBUTES: Final[dict[str, set[str]]] = {
    "*": {"style", "dir", "lang", "align"},
    "a": {"href"},
    "img": {"src", "alt", *_SIZES},
    "font": {"color", "face", "size"},
    "ol": {"start", "type"},
    "table": {"border", "cellpadding", "cellspacing", *_BOX},
    **dict.fromkeys(("tr", "tbody", "thead", "tfoot", "col", "colgroup"), _BOX),
    **{cell: {"colspan", "rowspan", "nowrap", *_BOX} for cell in ("td", "th")},
}
_CLASSES: Final = {"span": {"host", "picture"}}  # our own; a mail's are dropped before
_STYLES: Final = frozenset(
    {"color", "background-color", "display", "direction", "text-align", "text-decoration", "text-transform"}
    | {"text-indent", "white-space", "letter-spacing", "word-break", "word-wrap"}
    | {"font", "font-family", "font-size", "font-style", "font-weight", "font-variant", "width", "max-width"}
    | {"min-width", "border-collapse", "border-spacing", "border-radius", "table-layout"}
    | {f"{box}{side}" for box in ("margin", "padding", "border") for side in ("", "-top", "-right", "-bottom", "-left")}
    | {f"border-{what}" for what in ("color", "style", "width")}
)
"""None takes an image, and none puts one thing over another, as a height does that is less than what it holds."""
_REFUSED_STYLE: Final = re.compile(r"[\\@<]|/\*|(?<!\brgb)(?<!\brgba)(?<!\bhsl)(?<!\bhsla)\(|[:\s]-\s*[.\d]|\bfixed\b")
"""Escapes, functions but for colours, and lengths below zero, which lay one thing over another."""
_LINK: Final = re.compile(r"https?://[^/\s]|mailto:\S", re.IGNORECASE)
_SOURCE: Final = re.compile(r"(?:https?://[^/\s]|cid:)\S*", re.IGNORECASE)
_PLAIN_COLOUR: Final = re.compile(r"[a-z]{1,30}|#[0-9a-f]{3,8}|(?:rgb|hsl)a?\([^();]{1,60}\)")
_INK: Final = "#222"
_INK_ON_DARK: Final = "#fff"
_NEVER_CLOSED: Final = re.compile(r"<(wbr|embed|keygen|bgsound|source|track)\b[^<>]*>", re.IGNORECASE)
"""Elements that end where they begin, which libxml2 takes for open ones: it knows those of HTML 4."""
_QUOTING: Final = re.compile(r"\b(?:gmail_quote|yahoo_quoted|protonmail_quote|zmail_extra)\b")


class NotShown(Exception):
    """The HTML is too long, or nested too deeply, to be looked at; its text is there all the same."""


@dataclass(frozen=True, slots=True)
class Rich:
    """HTML to be put into a body. `pictures` are addresses (http, https, cid) that it would show; `hidden` those of
    pictures too small to be seen, which tell the sender that the mail was opened."""

    html: str
    pictures: tuple[str, ...]
    hidden: tuple[str, ...]


def sanitised(html: str, pictures: Mapping[str, str] | None = None) -> Rich:
    """What may be shown of a mail's HTML, in a time that grows with its length and not faster. Raises NotShown.

    Quoted mail is folded, and each link says the host that it leads to.

    Args:
        pictures: what to show for addresses of pictures, as `data:` URIs; the others are left out, but for their text.
    """
    if len(html) > MOST_CHARACTERS:
        raise NotShown
    html = _NEVER_CLOSED.sub(r"\g<0></\1>", plain(html))
    reader = _read(html, _Reader(pictures or {}, show_hidden=False))
    if not reader.has_text:  # as the text of such a mail is read, too
        reader = _read(html, _Reader(pictures or {}, show_hidden=True))
    clean = nh3.clean(
        reader.html,
        tags=_TAGS,
        clean_content_tags=SKIPPED | {"svg", "math", "select", "noscript", "textarea", "xmp", "plaintext", "head"},
        attributes=_ATTRIBUTES,
        attribute_filter=_filter(pictures or {}),
        allowed_classes=_CLASSES,
        filter_style_properties=_STYLES,
        url_schemes={"http", "https", "mailto", "cid"},
        url_relative="deny",
        link_rel="noopener noreferrer nofollow",
        set_tag_attribute_values={"a": {"target": "_blank"}},
    )
    return Rich(clean, tuple(reader.pictures)[:_MOST_PICTURES], tuple(reader.hidden)[:_MOST_PICTURES])


def _read(html: str, reader: "_Reader") -> "_Reader":
    parser = etree.HTMLParser(target=reader, huge_tree=True, no_network=True)
    try:
        for start in range(0, len(html), _CHUNK):
            parser.feed(html[start : start + _CHUNK])
        parser.close()
    except etree.LxmlError:  # also where there is nothing to read
        if reader.html:
            raise NotShown from None
    if len(reader.html) > 2 * MOST_CHARACTERS:
        raise NotShown
    return reader


def _filter(pictures: Mapping[str, str]) -> Callable[[str, str, str], str | None]:
    def kept(tag: str, name: str, value: str) -> str | None:
        match tag, name:
            case "img", "src":
                return pictures.get(value)
            case _, "style":
                return ";".join(each for each in value.split(";") if not _REFUSED_STYLE.search(each.lower()))
            case "a", "href":
                return value if _LINK.match(value) else None
            case _:
                return value

    return kept


class _Reader:
    """Receives lxml's parse events and writes them down again, balanced."""

    def __init__(self, shown: Mapping[str, str], *, show_hidden: bool) -> None:
        self._shown = shown
        self._seen = Visibility(show_hidden=show_hidden)
        self._left_out = {"class", "id", *(["style"] if show_hidden else [])}
        self._written: list[str] = []
        self._open: list[str] = []  # what ends each open element
        self._quoted_from = 0
        self._unseen_from = 0
        self._href = ""
        self._label: list[str] = []
        self._length = 0  # of the text since one was last parted from the next
        self.has_text = False
        self.pictures: dict[str, None] = {}
        self.hidden: dict[str, None] = {}

    @cached_property
    def html(self) -> str:
        return "".join(self._written)

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        if len(self._open) >= _MAX_DEPTH:
            raise NotShown
        self._open.append("")
        self._seen.open(tag, attributes)
        element = self._seen.elements[-1]
        is_unseen = self._seen.is_hidden or element.hidden or is_tiny(element.declared, _BOUNDS)
        if not self._unseen_from and is_unseen:
            self._unseen_from = len(self._open)
        if tag == "img":
            self._picture(attributes)
        elif (tag in _TAGS or tag in _LINES) and not self._seen.is_hidden:
            self._element(tag, attributes)
        if (said := words_of(tag, attributes)) and self._seen.shows_text:
            self._say(f" {said} ")

    def end(self, tag: str) -> None:
        self._seen.close()
        self._written.append(self._open[-1])
        if tag == "a":
            self._say_host()
        if len(self._open) == self._quoted_from:
            self._quoted_from = 0
        if len(self._open) == self._unseen_from:
            self._unseen_from = 0
        self._open.pop()

    def data(self, text: str) -> None:
        self._seen.read(text)
        if self._seen.shows_text:
            self._say(text)

    def _say(self, text: str) -> None:
        self.has_text = self.has_text or not text.isspace()
        for start in range(0, len(text), _LONGEST_TEXT):
            self._text(text[start : start + _LONGEST_TEXT])
        if self._href:
            self._label.append(text)

    def close(self) -> None:
        return

    def _text(self, piece: str) -> None:
        self._length += len(piece)
        if self._length > _LONGEST_TEXT:
            self._written.append("<span></span>")
            self._length = len(piece)
        self._written.append(escape(piece))

    def _element(self, tag: str, attributes: Mapping[str, str]) -> None:
        tag = "div" if tag in _LINES else tag
        end = "" if tag in _VOID else f"</{tag}>"
        if not self._quoted_from and _quotes(tag, attributes):
            self._quoted_from = len(self._open)
            self._written.append("<details><summary>Quoted text</summary>")
            end += "</details>"
        if tag == "a":
            self._href, self._label = attributes.get("href", "").strip(), []
        kept = {name: value for name, value in attributes.items() if name not in self._left_out}
        if style := self._style(with_own="style" in kept):
            kept["style"] = style
        self._written.append(f"<{tag}{_written(kept)}>")
        self._open[-1] = end

    def _style(self, *, with_own: bool) -> str:
        """The element's style as it is read, so that a browser reads none of it otherwise; and a colour to be seen in,
        where its own is seen only by what is not shown here."""
        element, parent = self._seen.elements[-1], self._seen.elements[-2:-1]
        declared = dict(element.declared) if with_own else {}
        if (behind := declared.get("background")) and _PLAIN_COLOUR.fullmatch(behind):
            declared["background-color"] = behind
        seen_in: list[str] = []
        if element.ink == "unknown":  # no colour, perhaps, by which that of what holds it shows
            seen_in = [f"color:{_INK}"] if "color" in declared and any(each.is_washed_out for each in parent) else []
        elif element.is_washed_out and self._seen.shows_text:
            declared.pop("color", None)
            seen_in = [f"color:{_INK if element.is_on_light else _INK_ON_DARK}"]
        return ";".join([*seen_in, *(f"{name}:{value}" for name, value in declared.items())])

    def _picture(self, attributes: Mapping[str, str]) -> None:
        source = attributes.get("src", "").strip()
        if not _SOURCE.fullmatch(source):
            source = ""
        is_hidden = self._unseen_from > 0 or not self._seen.shows_pictures or _has_tiny_sides(attributes)
        if source:
            (self.hidden if is_hidden else self.pictures)[source] = None
        if source in self._shown:
            kept = {name: value for name, value in attributes.items() if name in ("alt", "style", *_SIZES)}
            self._written.append(f"<img{_written({'src': source, **kept})}>")
        elif not is_hidden and (said := attributes.get("alt", "").strip()):
            self._written.append(f'<span class="picture">{escape(said)}</span>')

    def _say_host(self) -> None:
        href, self._href = self._href, ""
        host = readable_host(href)
        if host and host not in "".join(self._label).lower():
            self._written.append(f'<span class="host"> {escape(host)} </span>')


def readable_host(href: str) -> str:
    """Where a link leads, in letters that can't pass for others; empty for one that is not opened."""
    if not _LINK.match(href):
        return ""
    if href[:7].lower() == "mailto:":
        return href[7:].partition("?")[0].lower()
    host = host_of(href)
    try:
        return host if host.isascii() else host.encode("idna").decode()
    except UnicodeError:
        return readable(host)


def _written(attributes: Mapping[str, str]) -> str:
    named = ((name, value) for name, value in attributes.items() if re.fullmatch(r"[a-z]{1,20}", name))
    return "".join(f' {name}="{escape(value)}"' for name, value in named)


def _quotes(tag: str, attributes: Mapping[str, str]) -> bool:
    is_cited = tag == "blockquote" and attributes.get("type") == "cite"
    return is_cited or (tag in ("blockquote", "div") and _QUOTING.search(attributes.get("class", "")) is not None)


def _has_tiny_sides(attributes: Mapping[str, str]) -> bool:
    return any(attributes.get(name, "").strip().removesuffix("px") in ("0", "1", "2") for name in _SIZES)
