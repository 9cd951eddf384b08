"""What style attributes and style sheets hide."""

import re
from collections.abc import Mapping

_HIDDEN = re.compile(r"display:none|visibility:hidden|max-height:0(?![.\d])|opacity:0(?!\.?\d)|mso-hide:all")
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
