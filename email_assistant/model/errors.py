"""What can go wrong with a model, in words for the person."""

import json
import re
from datetime import UTC, datetime, timedelta

import openai
from langchain_core.exceptions import ContextOverflowError

from email_assistant.errors import AssistantError

_ROOM_FOR_ANSWER = 0.25
"""Share of a model's context that a prompt which was cut leaves free."""
_OVERFLOW = re.compile(
    r"exceed_context_size|context_length_exceeded"  # llama.cpp's type of error, OpenAI's code
    r"|(?:maximum|available|max) (?:model )?context|context (?:window|length|size)"  # OpenAI, vLLM, llama.cpp, others
    r"|input token count|must have less than \d+ tokens|tokens` must be <=",  # Gemini, Together, TGI
    re.IGNORECASE,
)


class ModelDown(AssistantError):
    """The model can't be reached, or not now; every call would end so. The message says what to do.

    Attributes:
        until: when the server said to come back, if it did.
    """

    passes = "by itself"

    def __init__(self, message: str, until: datetime | None = None) -> None:
        super().__init__(message)
        self.until = until


class NotTheProtocol(ModelDown):
    """The server answers, but no chat completions; or none in pieces."""


class ModelFault(AssistantError):
    """The server failed on this call; another try may go well."""

    passes = "on another try"


class BadAnswer(AssistantError):
    """The model's answer could not be used, in any way that it was asked for."""


class ModelRefused(AssistantError):
    """The server will never take this request.

    Attributes:
        streamed: the request asked for its answer piece by piece.
    """

    def __init__(self, message: str, *, streamed: bool = False) -> None:
        super().__init__(message)
        self.streamed = streamed


class ContextExceeded(ModelRefused):
    """The request is longer than the model's context.

    Attributes:
        fits: share of this prompt that fits and leaves room for an answer.
    """

    def __init__(self, message: str, fits: float) -> None:
        super().__init__(message)
        self.fits = fits


def explain(error: openai.APIError, base_url: str | None, key_variable: str) -> Exception:
    server = base_url or "OpenAI"
    match error:
        case openai.APITimeoutError():
            return ModelFault(f"the model at {server} did not answer in time")
        case openai.APIConnectionError():
            return ModelDown(f"the model at {server} can't be reached; is it running, is OPENAI_BASE_URL right?")
        case openai.AuthenticationError() | openai.PermissionDeniedError():
            return ModelDown(f"the model at {server} refuses the key; check {key_variable}")
        case openai.NotFoundError():
            return ModelDown(f"{server} does not know the model; check EMAIL_ASSISTANT_MODEL and OPENAI_BASE_URL")
        case openai.RateLimitError():
            return ModelDown(f"the model at {server} is over its rate limit or quota", _retry_after(error))
        case _ if _is_overflow(error):
            return ContextExceeded(
                f"the context of the model at {server} is too small for this work, even with all mail cut short: give "
                "it a larger one (llama.cpp: --ctx-size, Ollama: OLLAMA_CONTEXT_LENGTH, vLLM: --max-model-len), or set "
                "EMAIL_ASSISTANT_MODEL to a model that has it",
                _share_that_fits(error.message),
            )
        case openai.APIStatusError(status_code=501 as status):
            return _refused(error, server, status)
        case openai.APIStatusError(status_code=502 | 503 | 504):
            return ModelDown(f"the model at {server} is not available ({error.status_code})", _retry_after(error))
        case openai.APIStatusError(status_code=status) if status >= 500 or status in (408, 409, 425):
            return ModelFault(f"the model at {server} failed ({status})")
        case openai.APIStatusError(status_code=status):
            return _refused(error, server, status)
        case _:
            return ModelFault(f"the model at {server} answered nonsense")


def _refused(error: openai.APIError, server: str, status: int) -> ModelRefused:
    reason = f"the model at {server} refuses the request ({status}: {error.message[:200]})"
    return ModelRefused(reason, streamed=bool(json.loads(error.request.content).get("stream")))


def _is_overflow(error: openai.APIError) -> bool:
    if isinstance(error, ContextOverflowError):
        return True
    refused = isinstance(error, openai.APIStatusError) and error.status_code in (400, 413, 422)
    return refused and _OVERFLOW.search(f"{error.type} {error.code} {error.message}") is not None


def _share_that_fits(message: str) -> float:
    """By the numbers that servers put into their refusals; half where they don't."""
    limit = re.search(r"context (?:length|size|window)\D*(\d+)", message)
    longest = max(map(int, re.findall(r"\d+", message)), default=0)
    if limit is None or int(limit[1]) >= longest:
        return 0.5
    return int(limit[1]) / longest * (1 - _ROOM_FOR_ANSWER)


def _retry_after(error: openai.APIStatusError) -> datetime | None:
    value = error.response.headers.get("retry-after", "")
    return datetime.now(UTC) + timedelta(seconds=int(value)) if value.isdigit() else None
