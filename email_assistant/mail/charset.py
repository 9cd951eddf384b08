"""Bytes and encoded words to text, whatever their label says."""

import binascii
import codecs
import re
from collections.abc import Sequence

_UNWANTED = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_SURROGATES = re.compile(r"[\ud800-\udfff]")
_LINE_BREAKS = re.compile(r"[\r\x85\u2028\u2029]")
_AT_ONCE = 250_000  # characters: while one of these patterns runs, no other thread does
_BLANKS = re.compile(r"\s+")
_QUOTED = 120  # characters
MOST_ON_A_LINE = 20
_REORDERING = re.compile("[\u202a-\u202e\u2066-\u2069]")
"""Embeddings, overrides and isolates: they reorder what stands around them."""

# Senders use the left name and mean the right, a superset (WHATWG Encoding Standard, "Names and labels").
_SUPERSETS = {
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "iso8859-11": "cp874",
    "tis-620": "cp874",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
}
# Their bytes can be valid UTF-8 and mean something else, so the label comes first.
_LABEL_FIRST = ("iso2022", "utf-7", "hz", "utf-16", "utf-32")
_NOT_CHARSETS = {"punycode", "idna", "unicode_escape", "raw_unicode_escape", "undefined", "mbcs", "oem"}
_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)

_ENCODED_WORD = re.compile(r"=\?([^?\s]{1,60})\?([BbQq])\?([^?\r\n]*)\?=")
_BASE64_NOISE = bytes(set(range(256)) - set(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"))


def readable(text: str) -> str:
    """Text that any database, terminal and encoder accepts: no control characters but tab and newline."""
    text = text.replace("\r\n", "\n")
    return "".join(_readable(text[start : start + _AT_ONCE]) for start in range(0, len(text), _AT_ONCE))


def _readable(text: str) -> str:
    return _UNWANTED.sub("", _LINE_BREAKS.sub("\n", _SURROGATES.sub("\ufffd", text)))


def plain(text: object) -> str:
    """Text to show: `readable`, and without marks that reorder it."""
    return _REORDERING.sub("", readable(str(text)))


def one_line(text: str) -> str:
    """`readable` text with every run of white space as one blank."""
    return _BLANKS.sub(" ", readable(text)).strip()


def cut(text: str, most: int) -> str:
    """No more than so many characters, and a sign where some are missing."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def quoted(text: str) -> str:
    """Words of somebody's, to be shown within ours; of many the first."""
    return f"“{cut(one_line(text), _QUOTED)}”"


def listed(names: Sequence[str], most: int = MOST_ON_A_LINE) -> str:
    """All of them on one line; of very many, how many more there are."""
    more = len(names) - most
    return ", ".join(names) if more <= 0 else f"{', '.join(names[:most])} and {more} more"


def decode(data: bytes, declared: str | None) -> str:
    """Decode bytes as UTF-8 where they are, else by their declared charset, else as Windows-1252."""
    for mark, name in _BYTE_ORDER_MARKS:
        if data.startswith(mark):
            return readable(data.decode(name, "replace"))
    codec = _codec(declared)
    if codec and codec.startswith(_LABEL_FIRST):
        return readable(data.decode(codec, "replace"))
    try:
        return readable(data.decode("utf-8"))
    except UnicodeDecodeError:
        return readable(_decode_legacy(data, codec))


def _decode_legacy(data: bytes, codec: str | None) -> str:
    if codec and codec != "utf-8":
        return data.decode(codec, "replace")
    lenient = data.decode("utf-8", "replace")
    # A few broken bytes in UTF-8 text are damage; mostly broken ones mean that it never was UTF-8.
    broken = lenient.count("\ufffd")
    intact = sum(character > "\x7f" for character in lenient) - broken
    return lenient if broken < intact else data.decode("cp1252", "replace")


def _codec(name: str | None) -> str | None:
    """The Python codec for a charset label, or None if there is none that fits."""
    if not name or not re.fullmatch(r"[\w.:+-]{1,40}", name, re.ASCII):
        return None
    try:
        codec = codecs.lookup(name)
        b"x".decode(codec.name, "replace")  # refuses codecs that don't make text
    except (LookupError, ValueError):
        return None
    found = codec.name
    return None if found in _NOT_CHARSETS else _SUPERSETS.get(found, found)


def decode_words(value: str) -> str:
    """Decode RFC 2047 encoded words anywhere in a header value; what is broken stays as it is."""
    pieces: list[str] = []
    pending, charset, end = bytearray(), "", 0
    for word in _ENCODED_WORD.finditer(value):
        between = value[end : word.start()]
        adjacent = end > 0 and not between.strip()
        label = word[1].partition("*")[0].lower()  # RFC 2231 allows a language after the star
        # A character may be split between two words of one charset: decode them together.
        if not adjacent or label != charset:
            pieces.append(decode(bytes(pending), charset))
            pending.clear()
        if not adjacent:
            pieces.append(between)
        pending += _word_bytes(word[2], word[3])
        charset, end = label, word.end()
    return "".join([*pieces, decode(bytes(pending), charset), value[end:]])


def _word_bytes(encoding: str, payload: str) -> bytes:
    raw = payload.encode("utf-8", "replace")
    return decode_base64(raw) if encoding in "Bb" else binascii.a2b_qp(raw, header=True)


def decode_base64(data: bytes) -> bytes:
    """Decode base64 that may hold noise, lack its padding or be cut off."""
    letters = data.translate(None, _BASE64_NOISE)
    letters = letters[: len(letters) - (len(letters) % 4 == 1)]
    return binascii.a2b_base64(letters + b"=" * (-len(letters) % 4))


def decode_base64url(data: str) -> bytes:
    """Decode the URL-safe alphabet that Gmail uses, or the standard one."""
    return decode_base64(data.encode("ascii", "ignore").replace(b"-", b"+").replace(b"_", b"/"))
