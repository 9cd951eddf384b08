"""A file that a person wrote, checked as a whole: what is wrong with it is told with file, line and reason."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, Self, TypeVar

from pydantic import BaseModel, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.constructor import DuplicateKeyError
from ruamel.yaml.error import MarkedYAMLError
from ruamel.yaml.events import AliasEvent, CollectionEndEvent, CollectionStartEvent, ScalarEvent

from email_assistant.errors import AssistantError, in_plain_words
from email_assistant.files import NoFile, read_whole

M = TypeVar("M", bound=BaseModel)
_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,39}|\[key\]")
"""A key that is told as it is. Another may be a value, such as a token, that slipped out of its place."""
_LONGEST: Final = 256 * 1024  # bytes
_MOST: Final = 10_000  # names and values, those that `*name` repeats counted each time
_DEEPEST: Final = 32  # lists and mappings in one another
Place = Sequence[int | str]  # keys and positions that lead to a value, from the outside in


class BadFile(AssistantError):
    """A file can't be used; the message is one line with file, line and reason. Until it is mended, all that it rules
    waits."""

    status = HTTPStatus.SERVICE_UNAVAILABLE

    passes = "by itself"


@dataclass(frozen=True, slots=True)
class Source:
    """A file's content, and where each part of it stands."""

    name: str
    tree: Any

    @classmethod
    def yaml(cls, name: str, text: str) -> Self:
        """Raises BadFile."""
        try:
            too_much = _too_much(text)
            tree = None if too_much else YAML(typ="rt").load(text)
        except MarkedYAMLError as error:
            line = error.problem_mark.line + 1 if error.problem_mark else 1
            raise BadFile(f"{name}, line {line}: {_problem(error)}") from None
        except Exception:  # for a date in a 13th month, or a tag of another type, the library raises what it comes upon
            raise BadFile(f"{name}: no YAML") from None
        if too_much:
            raise BadFile(f"{name}, line {too_much}: holds more than {_MOST} values, or is more than {_DEEPEST} deep")
        return cls(name, tree)

    @classmethod
    def json(cls, name: str, text: str) -> Self:
        """Raises BadFile."""
        try:
            json.loads(text)
        except json.JSONDecodeError as error:
            raise BadFile(f"{name}, line {error.lineno}: no JSON ({error.msg})") from None
        except (RecursionError, ValueError):  # such as for a number with very many digits
            raise BadFile(f"{name}: no JSON") from None
        # All JSON is YAML, which also tells lines, but for tabs between its parts.
        return cls.yaml(name, text.replace("\t", " "))

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
        content = {} if self.tree is None else _plain(self.tree)
        if not isinstance(content, dict):
            raise self.bad((), "takes names with values, such as `tools:`")
        return content

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
        node, line = self.tree, 0
        for part in place:
            if isinstance(node, CommentedMap) and part in node:
                line = node.lc.key(part)[0]
            elif isinstance(node, CommentedSeq) and isinstance(part, int) and part < len(node):
                line = node.lc.item(part)[0]
            else:
                break
            node = node[part]
        return int(line) + 1


def _too_much(text: str) -> int | None:
    """The first line that holds too much, or too deep, found before anything is built. Raises YAMLError."""
    count, within, sizes = 0, list[tuple[str | None, int]](), dict[str, int]()
    for event in YAML(typ="rt").parse(text):
        match event:
            case AliasEvent():
                inside = any(event.anchor == anchor for anchor, _ in within)  # then it would have no end
                count += _MOST if inside else sizes.get(event.anchor, 0)
            case ScalarEvent() | CollectionStartEvent():
                count += 1
                if isinstance(event, CollectionStartEvent):
                    within.append((event.anchor, count))
            case CollectionEndEvent():
                anchor, before = within.pop()
                if anchor:
                    sizes[anchor] = count - before + 1
        if count > _MOST or len(within) > _DEEPEST:
            return int(event.start_mark.line) + 1
    return None


def _plain(node: Any) -> Any:
    match node:
        case CommentedMap():
            return {key: _plain(value) for key, value in node.items()}
        case CommentedSeq():
            return [_plain(value) for value in node]
        case str():
            return str(node)
        case bool() | None:
            return node
        case int():
            return int(node)
        case float():
            return float(node)
        case _:
            return node


def _name(place: Place) -> str:
    return ".".join(map(_told, place)) or "the file"


def _told(part: int | str) -> str:
    return str(part) if isinstance(part, int) or _PLAIN.fullmatch(part) else "(a key)"


def _problem(error: MarkedYAMLError) -> str:
    """What is wrong, without what stands there: the library quotes keys with their values, and names of aliases."""
    text = str(error.problem or error.context or "no YAML").strip().partition("\n")[0]
    if isinstance(error, DuplicateKeyError):
        key = text.removeprefix('found duplicate key "').partition('"')[0]
        return f"{_told(key)} stands here twice"
    return text.partition(" '")[0] if "alias" in text else text
