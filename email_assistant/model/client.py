"""The library's client, but for answers that it would refuse as a whole, for what it counts more than once, and for
answers without end: it would keep them whole, however long they are."""

import json
from collections.abc import AsyncIterator
from typing import Any, Final

import httpx2
import openai
from langchain_core.messages import AIMessageChunk
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_openai import ChatOpenAI
from openai import BaseModel
from openai.types.chat import ChatCompletion, ChatCompletionMessageFunctionToolCall
from openai.types.chat.chat_completion import Choice

from email_assistant.mail.charset import cut, one_line
from email_assistant.model.errors import BadAnswer, ModelFault, TextRefused

_MOST_BYTES: Final = 8_000_000  # of an answer, unpacked
_MOST_TEXT: Final = 1_000_000  # characters of what it says, with the arguments of its calls
_WORDS: Final = 200


class BoundedHttp(openai.DefaultAsyncHttpxClient):
    """Reads no answer further than it may be long."""

    async def send(self, request: httpx2.Request, *, stream: bool = False, **more: Any) -> httpx2.Response:
        answer = await super().send(request, stream=True, **more)
        headers = [(name, value) for name, value in answer.headers.multi_items() if name not in _OF_PACKING]
        unpacked = httpx2.Response(
            answer.status_code, headers=headers, stream=_Bounded(answer), request=request, extensions=answer.extensions
        )
        if not stream:
            try:
                await unpacked.aread()
            finally:
                await unpacked.aclose()
        return unpacked


_OF_PACKING: Final = ("content-encoding", "content-length", "transfer-encoding")


class _Bounded(httpx2.AsyncByteStream):
    def __init__(self, answer: httpx2.Response) -> None:
        self._answer = answer

    async def __aiter__(self) -> AsyncIterator[bytes]:
        length = 0
        async for piece in self._answer.aiter_bytes():
            length += len(piece)
            if length > _MOST_BYTES:
                raise BadAnswer(f"the model's answer has more than {_MOST_BYTES // 1_000_000} MB")
            yield piece

    async def aclose(self) -> None:
        await self._answer.aclose()


class Client(ChatOpenAI):
    def _create_chat_result(
        self, response: dict[str, object] | BaseModel, generation_info: dict[str, object] | None = None
    ) -> ChatResult:
        """Arguments that are JSON and no object, or too deep to be read, raise in the library (`create_tool_call`,
        langchain-core 1.7), and all that the model said is lost; as something else than JSON they become one call that
        can't be read."""
        if isinstance(response, ChatCompletion):
            _check(response)
            for choice in response.choices or ():
                for call in choice.message.tool_calls or ():
                    if isinstance(call, ChatCompletionMessageFunctionToolCall):
                        call.function.arguments = _readable(call.function.arguments)
        return super()._create_chat_result(response, generation_info)

    def _convert_chunk_to_generation_chunk(
        self, chunk: dict[str, Any], default_chunk_class: type, base_generation_info: dict[str, Any] | None
    ) -> ChatGenerationChunk | None:
        for choice in chunk.get("choices") or ():
            for call in (choice.get("delta") or {}).get("tool_calls") or ():
                function = call.get("function") or {}
                if isinstance(
                    function.get("arguments"), dict
                ):  # of a server that gives the object itself, in one piece
                    function["arguments"] = json.dumps(function["arguments"])
        return super()._convert_chunk_to_generation_chunk(chunk, default_chunk_class, base_generation_info)

    async def _astream(self, *args: Any, **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
        """The library adds up the usage of all pieces; some servers tell in each what there was so far (Gemini's)."""
        used: UsageMetadata | None = None
        length = 0
        async for chunk in super()._astream(*args, **kwargs):
            length += len(chunk.text)
            if isinstance(chunk.message, AIMessageChunk):
                length += sum(len(call["args"] or "") for call in chunk.message.tool_call_chunks)
            _check_length(length)
            if isinstance(chunk.message, AIMessageChunk):
                used, chunk.message.usage_metadata = chunk.message.usage_metadata or used, None
            yield chunk
        if used:
            yield ChatGenerationChunk(message=AIMessageChunk(content="", usage_metadata=used))


def _check(answer: ChatCompletion) -> None:
    """Raises BadAnswer; ModelFault: an error stands in its place, as some servers put it."""
    if not answer.choices:
        error = (answer.model_extra or {}).get("error")
        if error:
            words = error.get("message") if isinstance(error, dict) else error
            raise ModelFault(f"the model failed: {cut(one_line(str(words)), _WORDS)}", at_all=True)
        if answer.choices is not None:
            raise BadAnswer("the model's answer has no choice in it")
    for choice in answer.choices or ():
        _check_said(choice)
        calls = [call for call in choice.message.tool_calls or () if call.type == "function"]
        _check_length(len(choice.message.content or "") + sum(len(call.function.arguments) for call in calls))


def _check_said(choice: Choice) -> None:
    """Raises TextRefused: it says nothing, and that it won't."""
    message = choice.message
    if message.content or message.tool_calls:
        return
    if message.refusal:
        raise TextRefused(f"the model refuses this text: {cut(one_line(message.refusal), _WORDS)}")
    if choice.finish_reason == "content_filter":
        raise TextRefused("the content filter of the model's server refuses this text, and says no more")


def _check_length(characters: int) -> None:
    if characters > _MOST_TEXT:
        raise BadAnswer(f"the model's answer has more than {_MOST_TEXT // 1_000_000} MB of text")


def _readable(arguments: object) -> str:
    """Arguments as the protocol has them, a JSON object in a string: some servers give the object itself, or put its
    string into a string once more."""
    if isinstance(arguments, dict):
        return json.dumps(arguments)
    text = str(arguments)
    try:
        found = json.loads(text) if text else {}
        if isinstance(found, str):
            text, found = found, json.loads(found)
    except ValueError:
        return text
    except RecursionError:
        found = None
    return text if isinstance(found, dict) else f"no readable object: {text}"
