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

    async def _astream(self, *args: Any, **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
        """The library adds up the usage of all pieces; some servers tell in each what there was so far (Gemini's)."""
        used: UsageMetadata | None = None
        async for chunk in super()._astream(*args, **kwargs):
            if isinstance(chunk.message, AIMessageChunk):
                used, chunk.message.usage_metadata = chunk.message.usage_metadata or used, None
            yield chunk
        if used:
            yield ChatGenerationChunk(message=AIMessageChunk(content="", usage_metadata=used))


def _readable(arguments: str) -> str:
    try:
        is_object = not arguments or isinstance(json.loads(arguments), dict)
    except ValueError:
        return arguments
    except RecursionError:
        is_object = False
    return arguments if is_object else f"no readable object: {arguments}"
