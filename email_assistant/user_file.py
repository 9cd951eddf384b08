"""A file that a person wrote, checked as a whole: what is wrong with it is told with file, line and reason."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, Self, TypeVar

from pydantic import BaseModel, ValidationError
from yaml import MappingNode, MarkedYAMLError, Node, SequenceNode, YAMLError

from email_assistant.core_yaml import RepeatedKey, document
from email_assistant.errors import AssistantError, in_plain_words
from email_assistant.files import NoFile, read_whole

M = TypeVar("M", bound=BaseModel)
_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,39}|\[key\]")
"""A key that is told as it is. Another may be a value, such as a token, that slipped out of its place."""
_LONGEST: Final = 256 * 1024  # bytes
Place = Sequence[int | str]  # keys and positions that lead to a value, from the outside in


class BadFile(AssistantError):
    """A file can't be used; the message is one line with file, line and reason. Until it is mended, all that it rules
    waits."""

    status = HTTPStatus.SERVICE_UNAVAILABLE

    passes = "by itself"


@dataclass(frozen=True, slots=True)
class UserFile:
    """A file's content, and where each part of it stands."""

    name: str
    content: Any
    root: Node | None = None

    @classmethod
    def yaml(cls, name: str, text: str) -> Self:
        """Raises BadFile."""
        try:
            return cls(name, *document(text))
        except MarkedYAMLError as error:
            line = error.problem_mark.line + 1 if error.problem_mark else 1
            raise BadFile(f"{name}, line {line}: {_problem(error)}") from None
        except YAMLError:
            raise BadFile(f"{name}: no YAML") from None

    @classmethod
    def json(cls, name: str, text: str) -> Self:
        """Raises BadFile."""
        try:
            content = json.loads(text)
        except json.JSONDecodeError as error:
            raise BadFile(f"{name}, line {error.lineno}: no JSON ({error.msg})") from None
        except (RecursionError, ValueError):  # such as for a number with very many digits
            raise BadFile(f"{name}: no JSON") from None
        # All JSON is YAML, but for tabs between its parts; read as that it also tells lines, and what stands twice.
        return replace(cls.yaml(name, text.replace("\t", " ")), content=content)

    @classmethod
    def read(cls, path: Path) -> Self:
        """Raises BadFile."""
        try:
            text = read_whole(path, _LONGEST).decode()
        except OSError as error:
            raise BadFile(f"{path}: can't be read ({error.strerror})") from None
        except UnicodeDecodeError:
            raise BadFile(f"{path}: is not in UTF-8") from None
        except NoFile as error:
            raise BadFile(str(error)) from None
        return cls.json(str(path), text) if path.suffix == ".json" else cls.yaml(str(path), text)

    def mapping(self) -> dict[str, Any]:
        """The whole content as plain values; an empty file has none. Raises BadFile: it is no mapping."""
        content = {} if self.content is None else self.content
        if not isinstance(content, dict):
            raise self.bad((), "takes names with values, such as `tools:`")
        return dict(content)

    def parsed(self, model: type[M], content: Mapping[str, Any]) -> M:
        """Raises BadFile."""
        try:
            return model.model_validate(content)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            raise self.bad(first["loc"], f"{_name(first['loc'])}: {in_plain_words(first)}") from None

    def bad(self, place: Place, reason: str) -> BadFile:
        """The error to raise about a part of the file."""
        return BadFile(f"{self.name}, line {self._line(place)}: {reason}")

    def _line(self, place: Place) -> int:
        """Of a part, or of the nearest one around it that is there; 1 is the first."""
        node, line = self.root, 0
        for part in place:
            match node:
                case MappingNode():
                    found = [(key, value) for key, value in node.value if key.value == str(part)]
                case SequenceNode() if isinstance(part, int):
                    found = [(item, item) for item in node.value[part : part + 1]]
                case _:
                    break
            if not found:
                break
            at, node = found[0]
            line = at.start_mark.line
        return int(line) + 1


def _name(place: Place) -> str:
    return ".".join(map(_told, place)) or "the file"


def _told(part: int | str) -> str:
    return str(part) if isinstance(part, int) or _PLAIN.fullmatch(part) else "(a key)"


def _problem(error: MarkedYAMLError) -> str:
    """What is wrong, without what stands there: of that the library quotes a character, or the handle of a tag."""
    if isinstance(error, RepeatedKey):
        return f"{_told(error.key)} stands here twice"
    text = str(error.problem or error.context or "no YAML")
    return text.partition(" '")[0] if "tag handle" in text else text
