"""What README, CONTRIBUTING and the pages under docs/ hold, as far as tests ask about it."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]

_FENCE = re.compile(r"^```(\S*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"\s+#\s.*$")
_FOLDED = re.compile(r"\\\n\s*")
_HERE_DOCUMENT = re.compile(r"<<(\w+)\n.*?\n\1$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Document:
    path: Path
    text: str

    @property
    def name(self) -> str:
        """Its path from the repository's root."""
        return str(self.path.relative_to(ROOT))

    @property
    def prose(self) -> str:
        """All but its blocks of code."""
        return _FENCE.sub("", self.text)

    @property
    def blocks(self) -> Iterator[tuple[str, str]]:
        """Language and content of each block of code."""
        yield from _FENCE.findall(self.text)

    @property
    def commands(self) -> Iterator[str]:
        """The lines of its blocks of shell, each as one line and without a comment behind it."""
        for language, content in self.blocks:
            if language == "sh":
                for line in _HERE_DOCUMENT.sub(r"<<\1", _FOLDED.sub("", content)).splitlines():
                    if command := _COMMENT.sub("", line).strip():
                        yield command

    @property
    def spans(self) -> Iterator[str]:
        """What stands between backticks in its prose."""
        for paragraph in self.prose.split("\n\n"):
            for span in re.findall(r"`([^`]+)`", paragraph):
                yield " ".join(span.split())


def documents() -> list[Document]:
    paths = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
    return [Document(path, path.read_text()) for path in paths]
