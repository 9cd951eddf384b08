"""Token counts by o200k, the encoding of OpenAI's current models."""

from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bpe_openai import Encoding

_ENCODING = "o200k_base"


def count_tokens(text: str) -> int:
    """Tokens of a text; special tokens in it count as plain text."""
    return len(_encoding().encode_ordinary(text))


def tokenizer() -> str:
    """Name and version of what counts."""
    return f"{_ENCODING}, bpe-openai {version('bpe-openai')}"


@cache
def _encoding() -> "Encoding":
    import bpe_openai  # which takes a second, and most who can count never do

    return bpe_openai.get_encoding(_ENCODING)
