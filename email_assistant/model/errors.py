"""What can go wrong with a model, in words for the person."""

import json
import re
from datetime import UTC, datetime, timedelta

import openai
from langchain_core.exceptions import ContextOverflowError

from email_assistant.errors import AssistantError
from email_assistant.mail.charset import cut, one_line

_ROOM_FOR_ANSWER = 0.25
"""Share of a model's context that a prompt which was cut leaves free."""
_OVERFLOW = re.compile(
    r"exceed_context_size|context_length_exceeded"  # llama.cpp's type of error, OpenAI's code
    r"|(?:maximum|available|max) (?:model )?context|context (?:window|length|size)"  # OpenAI, vLLM, llama.cpp, others
    r"|input token count|must have less than \d+ tokens|tokens` must be <=",  # Gemini, Together, TGI
    re.IGNORECASE,
)


_FILTERED = re.compile(
    r"content[_ ]filter|content[_ ]policy|content management policy|ResponsibleAIPolicy"  # OpenAI, Azure, LiteLLM
    r"|data_inspection_failed|requires moderation|input was flagged",  # DashScope, OpenRouter
    re.IGNORECASE,
)
_UNCONNECTED = "ConnectTimeout"
"""Of httpx, or of the copy of it that OpenAI's library comes with; so are those below."""
_BROKEN_OFF = {"CloseError", "ReadError", "RemoteProtocolError", "WriteError"}
"""The server was there, and ended the connection."""
_WORDS = 200
"""Characters of a server's own words that are told."""


class ModelDown(AssistantError):
    """The model can't be reached, or not now; every call would end so. The message says what to do.

    Attributes:
        until: when the server said to come back, if it did, or when it is asked again.
        of_model: another model of the server may be there.
    """

    passes = "by itself"

    def __init__(
        self, message: str, until: datetime | None = None, *, waits_for: str | None = None, of_model: bool = False
    ) -> None:
        super().__init__(message)
        self.until = until
        self.waits_for = waits_for
        self.of_model = of_model


class NotTheProtocol(ModelDown):
    """The server answers, but no chat completions; or none in pieces."""


class ModelFault(AssistantError):
    """The server failed on this call; another try may go well.

    Attributes:
        at_all: it may fail on whatever it is asked.
    """

    passes = "on another try"

    def __init__(self, message: str, *, at_all: bool = False) -> None:
        super().__init__(message)
        self.at_all = at_all


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


class TextRefused(ModelRefused):
    """What is asked is what the server won't take, in whatever way it is asked."""


class ContextExceeded(TextRefused):
    """The request is longer than the model's context.

    Attributes:
        fits: share of this prompt that fits and leaves room for an answer.
    """

    def __init__(self, message: str, fits: float) -> None:
        super().__init__(message)
        self.fits = fits


def explain(error: openai.APIError, server: str, key_variable: str) -> Exception:
    match error:
        case openai.APITimeoutError() if type(error.__cause__).__name__ != _UNCONNECTED:
            return ModelFault(f"the model at {server} did not answer in time")
        case openai.APIConnectionError() if _causes(error) & _BROKEN_OFF:  # by what it was asked, it may be
            return ModelFault(f"the model at {server} broke off in the middle of this")
        case openai.APIConnectionError():
            return ModelDown(f"the model at {server} can't be reached; is it running, is OPENAI_BASE_URL right?")
        case _ if _is_overflow(error):
            return ContextExceeded(
                f"the context of the model at {server} is too small for this work, even with all mail cut short: give "
                "it a larger one (llama.cpp: --ctx-size, Ollama: OLLAMA_CONTEXT_LENGTH, vLLM: --max-model-len), or set "
                "EMAIL_ASSISTANT_MODEL to a model that has it",
                _share_that_fits(error.message),
            )
        case openai.APIStatusError():
            return _explain_status(error, server, key_variable)
        case _:
            return ModelFault(f"the model at {server} answered nonsense")


def _explain_status(error: openai.APIStatusError, server: str, key_variable: str) -> Exception:
    status, words = error.status_code, _words(error)
    says = f" ({status}: {words})"
    if _FILTERED.search(f"{error.type} {error.code} {error.message}"):
        return TextRefused(f"the content filter of the model at {server} refuses this text{says}")
    match status:
        case 401 | 403:
            return ModelDown(f"the model at {server} refuses the key; check {key_variable}{says}")
        case 402:
            return ModelDown(f"the model at {server} wants to be paid first: see to that where you have its key{says}")
        case 404:
            hint = "check EMAIL_ASSISTANT_MODEL and OPENAI_BASE_URL"
            return ModelDown(f"{server} does not know the model; {hint}{says}", of_model=True)
        case 429:
            return ModelDown(f"the model at {server} is over its rate limit or quota{says}", _retry_after(error))
        case 413:
            return TextRefused(f"the model at {server} takes no text of this length{says}")
        case 500:
            return ModelFault(f"the model at {server} failed ({status}): {words}", at_all=True)
        case 409 | 425:
            return ModelFault(f"the model at {server} failed ({status}): {words}")
        case _ if status == 408 or status > 501:
            return ModelDown(f"the model at {server} is not available ({status}): {words}", _retry_after(error))
        case _:
            reason = f"the model at {server} refuses the request{says}"
            return ModelRefused(reason, streamed=bool(json.loads(error.request.content).get("stream")))


def _causes(error: BaseException) -> set[str]:
    """The names of what it was raised from."""
    return {type(error.__cause__).__name__, *_causes(error.__cause__)} if error.__cause__ else set()


def _words(error: openai.APIStatusError) -> str:
    """The server's own, in one line."""
    told = error.body.get("message") if isinstance(error.body, dict) else error.body
    return cut(one_line(str(told or error.message)), _WORDS)


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
