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
_SHOWN_BLANKS = "\n\u00a0\u202f"
"""Beside the blank: those that Python calls not printable, and that harm nobody."""
_QUOTED = 120  # characters
MOST_ON_A_LINE = 20
_REORDERING = re.compile("[\u202a-\u202e\u2066-\u2069]")
"""Embeddings, overrides and isolates: they reorder what stands around them."""

# The names that browsers know (WHATWG Encoding Standard, "Names and labels") and Python does not.
_NAMES = {
    name: codec
    for codec, names in {
        "utf-8": "unicode-1-1-utf-8 unicode11utf8 unicode20utf8 x-unicode20utf8",
        "iso8859-2": "iso88592",
        "iso8859-3": "iso88593",
        "iso8859-4": "iso88594",
        "iso8859-5": "iso88595",
        "iso8859-6": "csiso88596e csiso88596i iso-8859-6-e iso88596",
        "iso8859-7": "iso88597 sun_eu_greek",
        "iso8859-8": "csiso88598e csiso88598i iso-8859-8-e iso-8859-8-i iso88598 logical visual",
        "iso8859-10": "iso885910",
        "iso8859-13": "iso885913",
        "iso8859-14": "iso885914",
        "iso8859-15": "csisolatin9 iso885915",
        "koi8-r": "koi koi8",
        "koi8-u": "koi8-ru",
        "mac-roman": "csmacintosh mac x-mac-roman",
        "mac-cyrillic": "x-mac-cyrillic x-mac-ukrainian",
        "cp874": "dos-874 iso885911 windows-874",
        "cp1250": "x-cp1250",
        "cp1251": "x-cp1251",
        "cp1252": "iso88591 x-cp1252",
        "cp1253": "x-cp1253",
        "cp1254": "iso88599 x-cp1254",
        "cp1255": "x-cp1255",
        "cp1256": "x-cp1256",
        "cp1257": "x-cp1257",
        "cp1258": "x-cp1258",
        "gb18030": "csgb2312 gb_2312 gb_2312-80 x-gbk",
        "cp950": "cn-big5 x-x-big5",
        "euc_jp": "cseucpkdfmtjapanese x-euc-jp",
        "cp932": "windows-31j x-sjis",
        "cp949": "cseuckr csksc56011987 iso-ir-149 ks_c_5601-1989 ksc_5601 windows-949",
        "utf-16-be": "unicodefffe",
        "utf-16-le": "csunicode iso-10646-ucs-2 ucs-2 unicode unicodefeff",
    }.items()
    for name in names.split()
}
# Senders use the left name and mean the right, a superset (the same standard).
_SUPERSETS = {
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "iso8859-11": "cp874",
    "tis-620": "cp874",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
    "big5": "cp950",
}
# Their bytes can be valid UTF-8 and mean something else, so the label comes first.
_LABEL_FIRST = ("iso2022", "utf-7", "hz", "utf-16", "utf-32")
_NOT_CHARSETS = {"punycode", "idna", "unicode_escape", "raw_unicode_escape", "undefined", "mbcs", "oem"}
_ESCAPES = {b"\x1b$B": "iso2022_jp", b"\x1b$@": "iso2022_jp", b"\x1b$)C": "iso2022_kr"}
"""By which a charset of 7 bits is sure, whatever the label (RFC 1468, RFC 1557)."""
_JIS_ESCAPE = re.compile(rb"\x1b(\$[@B]|\([A-Z])")
_JIS_PAIRS = re.compile(rb"(?:[\x21-\x7e]{2})+")
_EUC_PAIRS = re.compile(rb"((?:[\xa1-\xfe]{2})+)|(?:[\x00-\x7f]|\x8e[\xa1-\xdf]|\x8f[\xa1-\xfe]{2})+|.", re.DOTALL)
_GUESSED = (
    *("big5hkscs", "cp932", "cp949", "euc_jis_2004", "gb18030", "cp874", "koi8-r", "koi8-u", "cp866", "iso8859-2"),
    *("iso8859-5", "cp1250", "cp1251", "cp1252", "cp1253", "cp1254", "cp1255", "cp1256", "cp1257", "cp1258"),
)
_MOST_GUESSED_FROM = 8_000  # bytes
_EIGHT_BIT = re.compile(rb"[\x80-\xff]")
_LETTER = re.compile(rb"[A-Za-z]")
_WESTERN = re.compile(
    "|".join(
        f"[{letters}{letters.upper()}€£§°·•…–—‘’‚“”„«»©®™\xa0\\x00-\x7f]*"
        for letters in ("äöüß", "àâæçéèêëîïôùûüÿœ", "áéíñóúü¿¡", "àèéìòùî", "àáâãçéêíóôõúü", "áèéëïóöü", "åäöæøé")
    )
)
"""What is written in one language of Western Europe."""
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


def visible(text: str) -> str:
    """`readable` text with a sign for each character that shows nothing, or turns the text around it."""
    return "".join(c if c.isprintable() or c in _SHOWN_BLANKS else f"⟨U+{ord(c):04X}⟩" for c in readable(text))


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
    """Decode bytes as UTF-8 where they are, else by their declared charset, else by the one that they look like."""
    for mark, name in _BYTE_ORDER_MARKS:
        if data.startswith(mark):
            return readable(data.decode(name, "replace"))
    codec = _codec(declared)
    if codec and codec.startswith(_LABEL_FIRST):
        return readable(_decoded(data, codec))
    if b"\x1b$" in data and (sure := next((codec for mark, codec in _ESCAPES.items() if mark in data), None)):
        return readable(_decoded(data, sure))
    try:
        return readable(data.decode("utf-8"))
    except UnicodeDecodeError:
        return readable(_decode_legacy(data, codec))


def _decode_legacy(data: bytes, codec: str | None) -> str:
    if codec and codec != "utf-8":
        return _decoded(data, codec)
    lenient = data.decode("utf-8", "replace")
    # A few broken bytes in UTF-8 text are damage; mostly broken ones mean that it never was UTF-8.
    broken = lenient.count("\ufffd")
    intact = sum(character > "\x7f" for character in lenient) - broken
    return lenient if broken < intact else _decoded(data, _guessed(data))


def _decoded(data: bytes, codec: str) -> str:
    try:
        return data.decode(codec)
    except UnicodeDecodeError:
        if codec == "iso2022_jp":
            return _from_jis(data)
        if codec == "euc_jp":
            return _from_euc(data)
        return data.decode("big5hkscs" if codec == "cp950" else codec, "replace")


def _from_jis(data: bytes) -> str:
    """ISO-2022-JP with the characters that NEC and IBM added, which Python's codec refuses."""
    first, *others = _JIS_ESCAPE.split(data)
    pieces = [first.decode("ascii", "replace")]
    for escape, piece in zip(others[::2], others[1::2], strict=True):
        if escape.startswith(b"$"):
            pairs = _JIS_PAIRS.sub(lambda found: bytes(byte | 0x80 for byte in found[0]), piece)
            pieces.append(_from_euc(pairs))
        elif escape == b"(I":
            pieces.append(bytes(byte | 0x80 if byte > 0x20 else byte for byte in piece).decode("cp932", "replace"))
        else:
            pieces.append(piece.decode("ascii", "replace"))
    return "".join(pieces)


def _from_euc(data: bytes) -> str:
    """EUC-JP with the same characters (WHATWG Encoding Standard, "index jis0208")."""
    return "".join(
        _from_pairs(found[1]) if found[1] else found[0].decode("euc_jp", "replace")
        for found in _EUC_PAIRS.finditer(data)
    )


def _from_pairs(pairs: bytes) -> str:
    """Rows and cells of JIS X 0208 by Windows-31J, which is the same table, moved."""
    moved = bytearray()
    for row, cell in zip((byte - 0xA1 for byte in pairs[::2]), (byte - 0xA1 for byte in pairs[1::2]), strict=True):
        moved += bytes((row // 2 + (0x81 if row < 62 else 0xC1), cell + (0x9F if row % 2 else 0x40 + (cell >= 63))))
    return moved.decode("cp932", "replace")


def _guessed(data: bytes) -> str:
    """The charset of 8-bit text that names none: that of Western Europe where one of its languages has all letters of
    the text, else the one that such text looks like."""
    from chardet import detect

    first = _EIGHT_BIT.search(data)
    start = data.rfind(b"\n", 0, first.start()) + 1 if first else 0
    sample = data[start : start + _MOST_GUESSED_FROM]
    is_latin = 2 * len(_EIGHT_BIT.findall(sample)) <= len(_LETTER.findall(sample))
    if is_latin and _WESTERN.fullmatch(sample.decode("cp1252", "replace")):
        return "cp1252"
    found = detect(sample, include_encodings=_GUESSED, compat_names=False)["encoding"]
    return _codec(found) or "cp1252"


def _codec(name: str | None) -> str | None:
    """The Python codec for a charset label, or None if there is none that fits. ASCII is no answer for 8-bit text."""
    if not name or not re.fullmatch(r"[\w.:+-]{1,40}", name, re.ASCII):
        return None
    try:
        codec = codecs.lookup(_NAMES.get(name.lower(), name))
        b"x".decode(codec.name, "replace")  # refuses codecs that don't make text
    except (LookupError, ValueError):
        return None
    found = codec.name
    return None if found in _NOT_CHARSETS or found == "ascii" else _SUPERSETS.get(found, found)


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
