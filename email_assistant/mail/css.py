"""Declarations and style sheets of a mail's HTML, as a browser reads them, as far as they tell what is seen.

Where it can't be told here whether something is seen, it is: what is read is shown, too."""

import re
from collections.abc import Iterator, Mapping
from colorsys import hls_to_rgb
from functools import lru_cache
from typing import Final, Literal

Declared = Mapping[str, str]
"""Values by names, in lower case and with single blanks; the last that was declared stands last."""

_TOKEN: Final = re.compile(
    r"""/\*.*?(?:\*/|\Z)|"(?:[^"\\\n]|\\.)*+(?:"|\Z)?|'(?:[^'\\\n]|\\.)*+(?:'|\Z)?|url\(\s*+(?!["'])[^)]*+\)?"""
    r"""|\\(?:[0-9a-f]{1,6}\s?|.)|\\\Z|[(){}\[\]:;]|[^"'\\(){}\[\]:;/u]++|.""",
    re.DOTALL,
)
_IMPORTANT: Final = re.compile(r" ?! ?important\Z")
_BLANKS: Final = re.compile(r"\s+")
_EVERYWHERE: Final = frozenset({"inherit", "initial", "unset", "revert", "revert-layer"})
"""Values of any property."""
_DISPLAYS: Final = re.compile(
    r"(?:(?:block|inline|run-in|flow|flow-root|table|flex|grid|ruby|math|list-item)(?: |$)){1,3}|none|contents"
    r"|inline-(?:block|table|flex|grid)|table-(?:row-group|header-group|footer-group|row|cell|column-group|column"
    r"|caption)|ruby-(?:base|text|base-container|text-container)|-webkit-(?:inline-)?(?:box|flex)|var\(.*"
)
_NUMBER: Final = r"[+-]?(?:\d++(?:\.\d++)?|\.\d++)(?:e[+-]?\d++)?"
_LENGTH: Final = re.compile(rf"{_NUMBER}(?:[a-z]{{1,5}}|%)?|[a-z-]+\(.*")
_VALID: Final = {
    "display": _DISPLAYS,
    "visibility": re.compile(r"visible|hidden|collapse|var\(.*"),
    "opacity": re.compile(rf"{_NUMBER}%?|(?:calc|var|min|max|clamp)\(.*"),
    "max-height": re.compile(rf"none|(?:min|max|fit)-content|{_LENGTH.pattern}"),
    "overflow": re.compile(r"(?:(?:visible|hidden|clip|scroll|auto|overlay)(?: |$)){1,2}|var\(.*"),
    "font-size": re.compile(rf"(?:xx?-|xxx-)?(?:small|large)|medium|smaller|larger|{_LENGTH.pattern}"),
}
"""What a browser takes for a value; it goes by the one before where there is another."""


def declarations(style: str) -> Declared:
    """What a style attribute, or a rule's block, says: comments and strings are known for what they are, the last
    declaration of a property holds, and one that is important before all others."""
    return _declarations(style) if len(style) < _LONG else _declared(style)


_LONG: Final = 400  # characters; shorter ones are what a mail repeats


@lru_cache(maxsize=512)
def _declarations(style: str) -> Declared:
    return _declared(style)


def _declared(style: str) -> Declared:
    found: dict[str, str] = {}
    important: set[str] = set()
    for name, written in _pairs(style.lower()):
        whole = _BLANKS.sub(" ", written).strip()
        value = _IMPORTANT.sub("", whole)
        weighs = value != whole
        if not value or (name in important and not weighs) or not _is_valid(name, value):
            continue
        if name == "all" and value in _EVERYWHERE:
            kept = {} if weighs else {each: found[each] for each in found if each in important}
            found = {"display": "inline", **kept}
            continue
        found.pop(name, None)
        found[name] = value
        if weighs:
            important.add(name)
    return found


def _is_valid(name: str, value: str) -> bool:
    known = _VALID.get(name)
    return known is None or value in _EVERYWHERE or known.fullmatch(value) is not None


def _pairs(style: str) -> list[tuple[str, str]]:
    """The names and values, by CSS Syntax, 5.4.4."""
    found: list[tuple[str, str]] = []
    pieces: list[str] = []
    name: str | None = None
    depth = 0
    for match in _TOKEN.finditer(style):
        piece = match[0]
        if piece.startswith("/*"):
            continue
        if piece in ("(", "[", "{"):
            depth += 1
        elif piece in (")", "]", "}"):
            depth = max(0, depth - 1)
            if piece == "}" and depth == 0 and name is None:  # the end of a rule
                pieces.clear()
                continue
        elif depth == 0 and piece == ":" and name is None:
            name = "".join(pieces).strip()
            pieces.clear()
            continue
        elif depth == 0 and piece == ";":
            if name:
                found.append((name, "".join(pieces)))
            name = None
            pieces.clear()
            continue
        pieces.append(_unescaped(piece))
    if name:
        found.append((name, "".join(pieces)))
    return found


def _unescaped(token: str) -> str:
    """A letter or a digit that is written by its number; what else is escaped stays so."""
    if not token.startswith("\\") or len(token) == 1:
        return token
    code = token[1:].strip()
    character = chr(int(code, 16)) if re.fullmatch(r"[0-9a-f]{1,4}", code) else code
    return character.lower() if character.isalnum() or character in ("-", "_") else token


def hides(declared: Declared, *, is_block: bool) -> bool:
    """Whether an element and all that stands in it takes no room, or is clear. `is_block`: whether it is one by
    itself; heights bound no others."""
    if declared.get("display") == "none" or _is_clear(declared.get("opacity", "")):
        return True
    return _is_nothing(declared.get("max-height", "")) and _is_clipped(declared, is_block=is_block)


def _is_clear(opacity: str) -> bool:
    return re.fullmatch(_NUMBER + "%?", opacity) is not None and float(opacity.rstrip("%")) <= 0


def _is_clipped(declared: Declared, *, is_block: bool) -> bool:
    display = declared.get("display", "")
    is_bounded = "block" in display or "flex" in display or "grid" in display or (is_block and not display)
    overflow = declared.get("overflow", declared.get("overflow-y", ""))
    room = [value for name, value in declared.items() if name.startswith("padding") or name == "min-height"]
    return is_bounded and overflow.startswith(("hidden", "clip", "scroll", "auto")) and all(map(_is_nothing, room))


def _is_nothing(lengths: str) -> bool:
    """Whether all lengths of a value are 0."""
    found = [_ZERO.fullmatch(length) for length in lengths.split()]
    return bool(found) and all(found)


_ZERO: Final = re.compile(r"[+-]?(?:0++(?:\.0++)?|\.0++)(?:[a-z]{1,5}|%)?")

Colour = tuple[int, int, int]
WHITE: Final[Colour] = (255, 255, 255)
BLACK: Final[Colour] = (0, 0, 0)
_ALIKE: Final = 12  # of 255; what differs by no more is not seen
_LIGHT: Final = {
    "white": "ffffff", "black": "000000", "snow": "fffafa", "ivory": "fffff0", "ghostwhite": "f8f8ff",
    "whitesmoke": "f5f5f5", "floralwhite": "fffaf0", "azure": "f0ffff", "mintcream": "f5fffa", "aliceblue": "f0f8ff",
    "canvas": "ffffff", "canvastext": "000000", "initial": "000000",
}  # fmt: skip
"""Names of colours that are told from each other only by their numbers; all others differ from white and black."""
_HEX: Final = re.compile(r"([0-9a-f]{3,4}|[0-9a-f]{6}|[0-9a-f]{8})")
_FUNCTION: Final = re.compile(r"(rgb|hsl)a?\(([^()]{1,90})\)")
_NONE_OF_ITS_OWN: Final = (_EVERYWHERE - {"initial"}) | {"", "currentcolor"}
_BACKGROUNDS: Final = ("background", "background-color", "background-image")


def ink(declared: Declared, attributes: Mapping[str, str]) -> Colour | Literal["none", "unknown"] | None:
    """The colour of an element's text; "none" if it is transparent, None if it says nothing."""
    if "color" in declared:
        return _colour(declared["color"])
    written = attributes.get("color", attributes.get("text", "")).strip().lower()
    return _colour(f"#{written}" if _HEX.fullmatch(written) else written)


def paper(declared: Declared, attributes: Mapping[str, str]) -> Colour | Literal["unknown"] | None:
    """The colour behind an element's text; "unknown" if it is a picture or the like, None if it says nothing."""
    written = [value for name, value in declared.items() if name in _BACKGROUNDS and value not in ("none", "initial")]
    if not any(name in declared for name in _BACKGROUNDS):
        plain = attributes.get("bgcolor", "").strip().lower()
        written = [f"#{plain}" if _HEX.fullmatch(plain) else plain]
    found = [_colour(value) for value in written]
    if "unknown" in found or "background" in attributes:
        return "unknown"
    last = found[-1] if found else None
    return None if last == "none" else last


def is_alike(ink: Colour, paper: Colour) -> bool:
    """Whether a text of one colour on another can't be seen."""
    return all(abs(one - other) <= _ALIKE for one, other in zip(ink, paper, strict=True))


def _colour(written: str) -> Colour | Literal["none", "unknown"] | None:
    if written in _NONE_OF_ITS_OWN:
        return None
    if written == "transparent":
        return "none"
    code = _LIGHT.get(written, written.removeprefix("#") if written.startswith("#") else "")
    if _HEX.fullmatch(code):
        return _of_numbers([int(digits, 16) for digits in _digits(code)], 255)
    if not (function := _FUNCTION.fullmatch(written)):
        return "unknown"
    try:
        return _of_function(function[1], re.split(r"[\s,/]+", function[2].strip()))
    except ValueError:
        return "unknown"


def _digits(code: str) -> Iterator[str]:
    width = 1 if len(code) < len("rrggbb") else 2
    return (code[start : start + width] * (2 // width) for start in range(0, len(code), width))


def _of_function(kind: str, parts: list[str]) -> Colour | Literal["none", "unknown"]:
    first, second, third, *clear = parts
    opaque = [_share(part, 1) for part in clear[:1]]
    if kind == "rgb":
        return _of_numbers([*(round(255 * _share(part, 255)) for part in (first, second, third)), *opaque], 1)
    hue = float(first.removesuffix("deg")) / 360
    red, green, blue = hls_to_rgb(hue, _share(third, 100), _share(second, 100))
    return _of_numbers([*(round(255 * each) for each in (red, green, blue)), *opaque], 1)


def _share(written: str, whole: float) -> float:
    share = float(written[:-1]) / 100 if written.endswith("%") else float(written) / whole
    return min(max(share, 0.0), 1.0)


def _of_numbers(numbers: list[int] | list[float], opaque: int) -> Colour | Literal["none", "unknown"]:
    red, green, blue, *alpha = numbers
    if alpha and alpha[0] < opaque / 10:
        return "none"
    if alpha and alpha[0] < opaque:
        return "unknown"
    return int(red), int(green), int(blue)


_COMMENT: Final = re.compile(r"/\*.*?(?:\*/|\Z)", re.DOTALL)
_AT_RULE: Final = re.compile(r"@[^{}@;]*+\{(?:[^{}]*+\{[^{}]*+\})*+[^{}]*+\}")
_ONE_CLASS: Final = re.compile(r"[a-z0-9]*\.(-?[_a-z][\w-]*)")
_SELECTOR: Final = re.compile(r"[a-z0-9]*(?:[.#]-?[_a-z][\w-]*+)*(?:[ >]+[a-z0-9]*(?:[.#]-?[_a-z][\w-]*+)*)*+")
_CLASS: Final = re.compile(r"\.([\w-]+)")
_TYPES: Final = re.compile(r"[a-z0-9, >]*")
_HIDDEN: Final = re.compile(r"(?<![\w-])display:none")
_UNREAD: Final = re.compile(r"\\|[\"'][^\"'\n]*[{}]")
"""Escapes, and braces in strings, by which a rule may end elsewhere than it seems to."""


def hidden_classes(sheet: str) -> set[str]:
    """The classes, in lower case, that a style sheet hides and nowhere shows to a wide screen."""
    sheet = _COMMENT.sub("", sheet.lower())
    wide = [_HIDDEN.sub("", rule.partition("{")[2]) for rule in _AT_RULE.findall(sheet) if "min-width" in rule]
    sheet = _AT_RULE.sub("", sheet)
    if "@media" in sheet or _UNREAD.search(sheet):  # in a way that isn't read: what it hides, a screen may show
        return set()
    hidden: set[str] = set()
    shown: set[str] = set()
    for block in [*sheet.split("}"), *("".join(wide).split("}"))]:
        selectors, _, style = block.rpartition("{")
        declared = declarations(style) if "display" in style or "opacity" in style else {}
        named = [selector.strip() for selector in selectors.split(",")]
        if hides(declared, is_block=False):
            names = [_ONE_CLASS.fullmatch(selector) for selector in named]
            if all(map(_SELECTOR.fullmatch, named)):  # of a list with an error nothing holds
                hidden |= {name[1] for name in names if name}
        elif declared:
            if any("." not in each and ("important" in style or not _TYPES.fullmatch(each)) for each in named):
                return set()
            shown |= set(_CLASS.findall(selectors))
    return hidden - shown
