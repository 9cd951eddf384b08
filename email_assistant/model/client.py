"""The library's client, but for answers that it would refuse as a whole, and for what it counts more than once."""

import json
from collections.abc import AsyncIterator
from typing import Any

from langchain_core.messages import AIMessageChunk
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_openai import ChatOpenAI
from openai import BaseModel
from openai.types.chat import ChatCompletion, ChatCompletionMessageFunctionToolCall


class Client(ChatOpenAI):
    def _create_chat_result(
        self, response: dict[str, object] | BaseModel, generation_info: dict[str, object] | None = None
    ) -> ChatResult:
        """Arguments that are JSON and no object, or too deep to be read, raise in the library (`create_tool_call`,
        langchain-core 1.7), and all that the model said is lost; as something else than JSON they become one call that
        can't be read."""
        if isinstance(response, ChatCompletion):
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
        async for chunk in super()._astream(*args, **kwargs):
            if isinstance(chunk.message, AIMessageChunk):
                used, chunk.message.usage_metadata = chunk.message.usage_metadata or used, None
            yield chunk
        if used:
            yield ChatGenerationChunk(message=AIMessageChunk(content="", usage_metadata=used))


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
