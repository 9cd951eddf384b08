"""The library's client, but for answers that it would refuse as a whole, for what it counts more than once, and for
answers without end: it would keep them whole, however long they are. And by which way a model is reached: what the
environment says of proxies and certificates, read once and checked.

The libraries find out with the first request, whose mail would then wait as if the model were away.
"""

import json
import os
import ssl
from collections.abc import AsyncIterator
from functools import cache
from typing import Any, Final, TypedDict

import httpx
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
from email_assistant.settings.environment import SettingsError
from email_assistant.settings.values import is_on_this_machine

_PROXIES = ("http_proxy", "https_proxy", "all_proxy")
_MOST_BYTES: Final = 8_000_000  # of an answer, unpacked
_MOST_TEXT: Final = 1_000_000  # characters of what it says, with the arguments of its calls
_WORDS: Final = 200
_OF_PACKING: Final = ("content-encoding", "content-length", "transfer-encoding")


class Network(TypedDict):
    """Keyword arguments of an HTTP client, httpx's or OpenAI's."""

    trust_env: bool
    verify: ssl.SSLContext


def network_to(url: str | None) -> Network:
    """The way to a model's server; None: to OpenAI's. To this machine it leads through no proxy.

    Raises:
        SettingsError: a variable can't be used; the message names it.
    """
    if url is None or not is_on_this_machine(url):
        _check_proxies()
        return {"trust_env": True, "verify": _certificates()}
    return {"trust_env": False, "verify": _certificates() if url.startswith("https:") else _no_certificates()}


def _check_proxies() -> None:
    for name in _PROXIES:
        given = next((each for each in (name, name.upper()) if os.environ.get(each)), None)
        if given is None:
            continue
        value = os.environ[given]
        try:
            host = httpx.Proxy(value if "://" in value else f"http://{value}").url.host
        except (httpx.InvalidURL, ValueError):
            host = ""
        if not host:  # nor is it quoted: it may hold a password
            raise SettingsError(f"{given}: takes the address of a proxy, such as http://127.0.0.1:3128 or socks5://…")
    try:
        httpx.Client(verify=False).close()  # noqa: S501 - nothing is asked
    except httpx.InvalidURL:
        raise SettingsError("NO_PROXY: takes names and addresses of hosts, set apart by commas") from None


def _certificates() -> ssl.SSLContext:
    """Those that the environment names, else the library's own."""
    if file := os.environ.get("SSL_CERT_FILE"):
        try:
            return ssl.create_default_context(cafile=file)
        except OSError as error:
            raise SettingsError(f"SSL_CERT_FILE: no certificates can be read from {file} ({error.strerror})") from None
    if folder := os.environ.get("SSL_CERT_DIR"):
        return ssl.create_default_context(capath=folder)
    return _usual()


@cache
def _usual() -> ssl.SSLContext:
    """The library's own, read once: that takes longer than a request."""
    return httpx.create_ssl_context(trust_env=False)


def _no_certificates() -> ssl.SSLContext:
    """For what is asked without TLS: to read certificates takes longer than the program's start may."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


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
