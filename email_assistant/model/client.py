"""The library's client, but for answers that it would refuse as a whole."""

import json

from langchain_core.outputs import ChatResult
from langchain_openai import ChatOpenAI
from openai import BaseModel
from openai.types.chat import ChatCompletion, ChatCompletionMessageFunctionToolCall


class Client(ChatOpenAI):
    def _create_chat_result(
        self, response: dict[str, object] | BaseModel, generation_info: dict[str, object] | None = None
    ) -> ChatResult:
        """Arguments that are JSON and no object raise in the library (`create_tool_call`, langchain-core 1.7), and all
        that the model said is lost; as something else than JSON they become one call that can't be read."""
        if isinstance(response, ChatCompletion):
            for choice in response.choices or ():
                for call in choice.message.tool_calls or ():
                    if isinstance(call, ChatCompletionMessageFunctionToolCall):
                        call.function.arguments = _readable(call.function.arguments)
        return super()._create_chat_result(response, generation_info)


def _readable(arguments: str) -> str:
    try:
        is_object = not arguments or isinstance(json.loads(arguments), dict)
    except ValueError:
        return arguments
    return arguments if is_object else f"no object: {arguments}"
