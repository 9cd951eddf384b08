"""One root for what this program foresees to go wrong: what a person may be told, its HTTP status, whether it passes.

Whatever has another root is a mistake of ours, or a library's: nobody is told its text.
"""

from collections.abc import Mapping
from datetime import datetime
from http import HTTPStatus
from typing import Any, ClassVar, Final, Literal

Passes = Literal["never", "on another try", "by itself"]
"""`by itself`: what was asked for has no fault, so work waits for as long as it lasts, and then goes on."""


class AssistantError(Exception):
    """Its message is one plain sentence for the person, which says what to do where there is something."""

    status: ClassVar[HTTPStatus] = HTTPStatus.INTERNAL_SERVER_ERROR
    """What a program that asked over HTTP is answered."""
    passes: ClassVar[Passes] = "never"
    is_plain: ClassVar[bool] = False
    """Its message holds nobody else's words, so that logs may repeat it."""
    needs_login: ClassVar[bool] = False
    """The person must log in to the account again before it can pass."""

    until: datetime | None = None
    """Nothing can go well before this time."""
    waits_for: str | None = None
    """The server that refuses, whoever asks. When it answers, work goes on, be it before that time."""


def logged(error: BaseException) -> str:
    """What went wrong, as a log says it: without a word of a mail, or of somebody's server."""
    name = type(error).__name__
    return f"{error} ({name})" if isinstance(error, AssistantError) and error.is_plain else name


_TAKES: Final[Mapping[str, str]] = {
    "missing": "is missing",
    "extra_forbidden": "there is no such key",
    "string_": "must be text",
    "string_pattern_mismatch": "is not written in the pattern {pattern}",
    "int_": "must be a whole number",
    "float_": "must be a number",
    "decimal_": "must be a number",
    "finite_": "must be a number",
    "bool_": "must be true or false",
    "list_": "must be a list",
    "tuple_": "must be a list",
    "dict_": "takes names with values",
    "mapping_": "takes names with values",
    "model_": "takes names with values",
    "date_": "must be a day, such as 2026-05-04",
    "literal_error": "must be {expected}",
    "greater_than_equal": "must be {ge} or more",
    "greater_than": "must be more than {gt}",
    "less_than_equal": "must be {le} or less",
    "less_than": "must be less than {lt}",
    "string_too_short": "is empty, or too short",
    "string_too_long": "must have {max_length} characters or fewer",
}
"""By the beginning of a kind of pydantic's, what is wrong with a value (https://docs.pydantic.dev/latest/errors)."""


def in_plain_words(fault: Mapping[str, Any]) -> str:
    """What pydantic says of one value, without its own terms."""
    if fault["type"] == "value_error":
        return str(fault["msg"]).removeprefix("Value error, ")
    known = max((kind for kind in _TAKES if fault["type"].startswith(kind)), key=len, default="")
    return (
        _TAKES[known].format(**fault.get("ctx", {})) if known else str(fault["msg"]).replace("Input should", "must", 1)
    )
