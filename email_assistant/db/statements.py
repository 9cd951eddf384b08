"""SQL that stands in a file beside the code that runs it: each statement under a line `-- name: NAME`."""

import re
from collections.abc import Mapping
from importlib.resources import files

_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)


def statements(room: str, file: str) -> Mapping[str, str]:
    """The statements of a file of a room, such as `inbox`, by name."""
    _, *found = _NAME.split(files("email_assistant").joinpath(room, file).read_text())
    return {name: text.strip() for name, text in zip(found[::2], found[1::2], strict=True)}
