"""Settings that once had another name. Each still counts under it, and the person is told of the new one."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from dotenv import dotenv_values

RENAMED: Final[Mapping[str, str]] = {"EMAIL_ASSISTANT_WORKERS": "EMAIL_ASSISTANT_CONCURRENCY"}
"""By the name of then, that of now: the first of the aliases of its field, of which the other is the last."""


def told_of_renamed(file: Path) -> list[str]:
    """A sentence for each old name that is set, in the environment or in this file."""
    named = {name.upper() for name in (*os.environ, *dotenv_values(file))}
    return [
        f"{old} is called {new} now; it still counts: write that in its place"
        for old, new in RENAMED.items()
        if old in named
    ]
