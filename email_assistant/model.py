"""Calls to the language model, by role: time-outs, structured answers, and an account of what was used."""

import asyncio
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, TypeVar
from uuid import UUID

import openai
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_openai import ChatOpenAI
from pydantic import BaseModel, SecretStr, ValidationError

from email_assistant.accounts.accounts import Accounts
from email_assistant.settings import Role, Settings
from email_assistant.usage import Usage

T = TypeVar("T", bound=BaseModel)

_ANSWERS = 2
"""Times that a model is asked for an answer that can be read."""


_CHARACTERS = 3
"""Characters of a token, on the cautious side for European languages."""


class ModelDown(Exception):
    """The model can't be reached, or not now; every call would end so. The message says what to do.

    Attributes:
        until: when the server said to come back, if it did.
    """

    def __init__(self, message: str, until: datetime | None = None) -> None:
        super().__init__(message)
        self.until = until


class ModelFault(Exception):
    """The server failed on this call; another try may go well."""


class BadAnswer(Exception):
    """The model's answer could not be read, however often it was asked."""


class ModelRefused(Exception):
    """The server will never take this request."""


class Models:
    def __init__(self, settings: Settings, usage: Usage, accounts: Accounts) -> None:
        self._settings = settings
        self._usage = usage
        self._accounts = accounts
        self._formats: dict[Role, str] = {}

    async def call(
        self, role: Role, messages: Sequence[AnyMessage], *, account_id: UUID, run_id: UUID | None, **options: Any
    ) -> AIMessage:
        """One answer. `options` go into the request as they are (`tools`, `tool_choice`, `response_format`).

        Raises:
            ModelDown, ModelFault, ModelRefused, BudgetSpent, UnknownAccount.
        """
        await self._usage.check(await self._accounts.get(account_id))
        model = self._client(role)
        try:
            # The client's own time-out restarts with every byte that comes in.
            async with asyncio.timeout(self._settings.model_timeout_seconds):
                answer = await model.ainvoke(list(messages), **options)
        except TimeoutError:
            raise ModelFault(f"the model took longer than {self._settings.model_timeout_seconds:g} s") from None
        except openai.APIError as error:
            raise _explain(error, self._settings.openai_base_url) from error
        except (AttributeError, TypeError, KeyError) as error:  # another protocol: a web page, or other JSON
            server = self._settings.openai_base_url or "OpenAI"
            raise ModelDown(
                f"{server} answers no chat completions; check OPENAI_BASE_URL, it often ends in /v1"
            ) from error
        except ValueError as error:  # an answer that isn't the protocol's
            raise ModelFault(f"the model server answered nonsense ({type(error).__name__})") from error
        assert isinstance(answer, AIMessage)
        prompt_tokens, completion_tokens = _tokens(messages, answer)
        model_name = self._settings.model_for(role)
        await self._usage.record(account_id, run_id, role, model_name, prompt_tokens, completion_tokens)
        return answer

    async def parse(
        self,
        role: Role,
        messages: Sequence[AnyMessage],
        schema: type[T],
        name: str,
        *,
        account_id: UUID,
        run_id: UUID | None,
    ) -> T:
        """An answer that fits `schema`.

        The strict schema goes out with the request, but servers that ignore or refuse it are served too: the text is
        read as JSON, fenced or not, and a wrong answer is sent back once with what is wrong.

        Raises:
            BadAnswer, and what `call` raises.
        """
        asked = list(messages)
        complaint = ""
        for _ in range(_ANSWERS):
            answer = await self._formatted(role, asked, schema, name, account_id, run_id)
            try:
                return schema.model_validate(_read_json(answer.text))
            except ValueError as error:
                complaint = _first_line(error)
                asked = [
                    *messages,
                    AIMessage(answer.text),
                    HumanMessage(f"Answer with the JSON object only: {complaint}"),
                ]
        raise BadAnswer(f"the model's answer can't be read: {complaint}")

    async def _formatted(
        self, role: Role, messages: Sequence[AnyMessage], schema: type[T], name: str, account: UUID, run: UUID | None
    ) -> AIMessage:
        """Ask with the strictest response format that the server takes, and remember which that is."""
        refusal: ModelRefused | None = None
        for kind, response_format in _formats(schema, name, start=self._formats.get(role, "json_schema")):
            # Whoever watches a run sees its words as they come; these are for the program alone.
            options: dict[str, Any] = {"stream": False}
            if response_format:
                options["response_format"] = response_format
            try:
                answer = await self.call(role, messages, account_id=account, run_id=run, **options)
            except ModelRefused as error:
                refusal = error
                continue
            self._formats[role] = kind
            return answer
        assert refusal is not None
        raise refusal

    def _client(self, role: Role) -> ChatOpenAI:
        settings = self._settings
        key = settings.openai_api_key.get_secret_value() if settings.openai_api_key else "none"
        return _make_client(settings.model_for(role), settings.openai_base_url, key, settings.model_timeout_seconds)


@lru_cache
def _make_client(model: str, base_url: str | None, key: str, timeout: float) -> ChatOpenAI:
    # The client would sleep out a Retry-After in a worker's slot; the conversation's own back-off does not.
    return ChatOpenAI(
        model=model,
        base_url=base_url,
        api_key=SecretStr(key),
        timeout=timeout,
        max_retries=0,
        use_responses_api=False,
    )


def _tokens(messages: Sequence[AnyMessage], answer: AIMessage) -> tuple[int, int]:
    """Prompt and completion tokens, as the server counted them.

    Where it doesn't say, they are guessed from the characters: else a budget would never be spent.
    """
    used: Mapping[str, Any] = answer.usage_metadata or {}
    return (
        used.get("input_tokens") or sum(len(m.text) for m in messages) // _CHARACTERS,
        used.get("output_tokens") or len(answer.text) // _CHARACTERS,
    )


def _formats(schema: type[BaseModel], name: str, start: str) -> Iterator[tuple[str, dict[str, Any] | None]]:
    strict = {"name": name, "strict": True, "schema": _strict_schema(schema)}
    all_formats: list[tuple[str, dict[str, Any] | None]] = [
        ("json_schema", {"type": "json_schema", "json_schema": strict}),
        ("json_object", {"type": "json_object"}),
        ("text", None),
    ]
    kinds = [kind for kind, _ in all_formats]
    yield from all_formats[kinds.index(start) :]


def _strict_schema(schema: type[BaseModel]) -> dict[str, Any]:
    """The model's JSON schema without titles, closed and with every field required, as strict mode asks."""
    full = schema.model_json_schema()
    properties = {
        name: {key: value for key, value in field.items() if key not in ("title", "default")}
        for name, field in full["properties"].items()
    }
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def _read_json(text: str) -> Any:
    """The first JSON object in a text, whether it stands alone, in a code fence or among words."""
    fenced = re.search(r"```(?:json)?\s*(\{.*?\})\s*```", text, re.DOTALL)
    candidate = fenced[1] if fenced else text[text.find("{") :] if "{" in text else text
    value, _ = json.JSONDecoder().raw_decode(candidate.strip())
    return value


def _first_line(error: ValueError) -> str:
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return str(error).partition("\n")[0]


def _explain(error: openai.APIError, base_url: str | None) -> Exception:
    server = base_url or "OpenAI"
    match error:
        case openai.APITimeoutError():
            return ModelFault(f"the model at {server} did not answer in time")
        case openai.APIConnectionError():
            return ModelDown(f"the model at {server} can't be reached; is it running, is OPENAI_BASE_URL right?")
        case openai.AuthenticationError() | openai.PermissionDeniedError():
            return ModelDown(f"the model at {server} refuses the key; check OPENAI_API_KEY")
        case openai.NotFoundError():
            return ModelDown(f"{server} does not know the model; check EMAIL_ASSISTANT_MODEL and OPENAI_BASE_URL")
        case openai.RateLimitError():
            return ModelDown(f"the model at {server} is over its rate limit or quota", _retry_after(error))
        case openai.APIStatusError(status_code=502 | 503 | 504):
            return ModelDown(f"the model at {server} is not available ({error.status_code})", _retry_after(error))
        case openai.APIStatusError(status_code=status) if status >= 500 or status in (408, 409, 425):
            return ModelFault(f"the model at {server} failed ({status})")
        case openai.APIStatusError(status_code=status):
            return ModelRefused(f"the model at {server} refuses the request ({status}: {error.message[:200]})")
        case _:
            return ModelFault(f"the model at {server} answered nonsense")


def _retry_after(error: openai.APIStatusError) -> datetime | None:
    value = error.response.headers.get("retry-after", "")
    return datetime.now(UTC) + timedelta(seconds=int(value)) if value.isdigit() else None
