"""SQL that stands in a file beside the code that runs it: each statement under a line `-- name: NAME`."""

import re
from collections.abc import Mapping
from importlib.resources import files

_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
_PART = re.compile(r"\{(\w+)\}")


def statements(room: str, file: str, **parts: str) -> Mapping[str, str]:
    """The statements of a file of a room, such as `inbox`, by name. In each, `{name}` stands for one of `parts`, or for
    a statement before it; what is neither stays as it is."""
    _, *found = _NAME.split(files("email_assistant").joinpath(room, file).read_text())
    known = dict(parts)
    for name, text in zip(found[::2], found[1::2], strict=True):
        known[name] = _PART.sub(lambda part: known.get(part[1], part[0]), text.strip())
    return known
