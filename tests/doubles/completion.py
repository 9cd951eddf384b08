"""Answers in the form of OpenAI's chat completions, whole or piece by piece."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from starlette.responses import JSONResponse, Response, StreamingResponse


def completion(
    body: Mapping[str, Any], message: Mapping[str, Any], usage: Mapping[str, int] | None, *, usage_in_each: bool = False
) -> Response:
    """The answer to a request; streamed if that asks for it, with `usage` at the end if it asks for that too.

    Args:
        usage_in_each: it stands in every piece, as with Gemini.
    """
    finish = "tool_calls" if message.get("tool_calls") else "stop"
    common = {"id": "chatcmpl-1", "created": 1, "model": body.get("model")}
    if not body.get("stream"):
        choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
        whole = {**common, "object": "chat.completion", "choices": [choice]}
        return JSONResponse(whole | ({"usage": usage} if usage else {}))
    wants_usage = (body.get("stream_options") or {}).get("include_usage")
    chunks: list[dict[str, Any]] = [
        {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in _pieces(message)
    ]
    chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    if usage and usage_in_each:
        chunks = [{**chunk, "usage": usage} for chunk in chunks]
    elif usage and wants_usage:
        chunks.append({"choices": [], "usage": usage})
    events = [json.dumps({**common, "object": "chat.completion.chunk", **chunk}) for chunk in chunks]
    return StreamingResponse((f"data: {event}\n\n" for event in [*events, "[DONE]"]), media_type="text/event-stream")


def _pieces(message: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    yield {"role": "assistant", "content": ""}
    for word in (message.get("content") or "").split(" "):
        yield {"content": f"{word} "}
    for number, call in enumerate(message.get("tool_calls") or []):
        yield {"tool_calls": [{"index": number, **call}]}


def error(status: int, message: str, **more: Any) -> Response:
    return JSONResponse({"error": {"message": message, "type": "invalid_request_error", "code": status} | more}, status)
