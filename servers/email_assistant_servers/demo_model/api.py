"""The HTTP surface: models and chat completions, with OpenAI's error bodies."""

import json
from collections.abc import Iterator
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from fastapi.sse import EventSourceResponse, format_sse_event
from starlette.exceptions import HTTPException

from email_assistant_servers.demo_model.answer import answer
from email_assistant_servers.demo_model.protocol import MODEL, ChatRequest, RequestError, chunks, completion

_bearer = HTTPBearer(auto_error=False)


def _need_key(key: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]) -> None:
    if key is None or not key.credentials:
        raise HTTPException(401, "You didn't provide an API key. Any bearer key will do for the demo model.")


def create_app() -> FastAPI:
    app = FastAPI(title="Demo model", docs_url=None, redoc_url=None, openapi_url=None)
    for error in (RequestError, RequestValidationError, HTTPException):
        app.add_exception_handler(error, _refused)

    @app.get("/v1/models", dependencies=[Depends(_need_key)])
    def models() -> dict[str, Any]:
        model = {"id": MODEL, "object": "model", "created": 0, "owned_by": "email-assistant"}
        return {"object": "list", "data": [model]}

    @app.post("/v1/chat/completions", dependencies=[Depends(_need_key)])
    def chat_completions(request: ChatRequest) -> Response:
        request.check()
        if request.stream:
            return EventSourceResponse(_events(request))
        return JSONResponse(completion(request, answer(request)))

    return app


def _events(request: ChatRequest) -> Iterator[bytes]:
    for chunk in chunks(request, answer(request)):
        yield format_sse_event(data_str=json.dumps(chunk, ensure_ascii=False))
    yield format_sse_event(data_str="[DONE]")


def _refused(request: Request, error: Exception) -> JSONResponse:
    status, param, code = 400, None, None
    match error:
        case HTTPException():
            status, message = error.status_code, error.detail
            if status == 404:
                message = f"Invalid URL ({request.method} {request.url.path})"
        case RequestValidationError():
            first = error.errors()[0]
            param = ".".join(str(step) for step in first["loc"][1:])
            message = f"Invalid '{param}': {first['msg']}."
            if first["type"] == "json_invalid":
                message, param = "We could not parse the JSON body of your request.", None
            elif first["type"] == "missing":
                message, code = f"Missing required parameter: '{param}'.", "missing_required_parameter"
        case _:
            message, param = str(error), getattr(error, "param", None)
    body = {"message": message, "type": "invalid_request_error", "param": param, "code": code}
    return JSONResponse({"error": body}, status)
