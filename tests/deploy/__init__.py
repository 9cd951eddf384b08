"""The files of `deploy/`: by their own validators, and by starting what they start."""

import re
from pathlib import Path
from typing import Any, Final

import yaml

REPOSITORY: Final = Path(__file__).parents[2]
FOLDER: Final = REPOSITORY / "deploy"
COMPOSE: Final = FOLDER / "compose.yaml"
PARTS: Final = ("api", "scheduler", "worker")
"""Of the program, by the names of their commands."""


def documents(text: str) -> list[dict[str, Any]]:
    """What a YAML stream holds."""
    return [document for document in yaml.safe_load_all(text) if document is not None]


def commands_under(heading: str) -> str:
    """The first shell commands of a section of docs/deploy.md."""
    section = (REPOSITORY / "docs" / "deploy.md").read_text().partition(f"\n## {heading}\n")[2]
    found = re.search(r"```sh\n(.*?)```", section, re.DOTALL)
    assert found, f"docs/deploy.md has no commands under {heading}"
    return found[1]
