"""Token counts by o200k, the encoding of OpenAI's current models."""

from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING

from email_assistant.errors import AssistantError

if TYPE_CHECKING:
    from bpe_openai import Encoding

_ENCODING = "o200k_base"


class NoTokenizer(AssistantError):
    """The package with the encoding is not installed; the message says how to get it."""


def count_tokens(text: str) -> int:
    """Tokens of a text; special tokens in it count as plain text. Raises NoTokenizer."""
    return len(_encoding().encode_ordinary(text))


def tokenizer() -> str:
    """Name and version of what counts."""
    return f"{_ENCODING}, bpe-openai {version('bpe-openai')}"


@cache
def _encoding() -> "Encoding":
    try:
        import bpe_openai
    except ModuleNotFoundError:
        raise NoTokenizer("tokens are counted with bpe-openai: pip install 'email-assistant[bench]'") from None
    return bpe_openai.get_encoding(_ENCODING)
