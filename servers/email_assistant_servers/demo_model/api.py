"""The HTTP surface: models and chat completions, with OpenAI's error bodies."""

import json
from collections.abc import Iterator
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response, StreamingResponse
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.exceptions import HTTPException

from email_assistant_servers.demo_model.answer import answer
from email_assistant_servers.demo_model.protocol import MODEL, ChatRequest, RequestError, chunks, completion

_bearer = HTTPBearer(auto_error=False)


def _need_key(key: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]) -> None:
    if key is None or not key.credentials:
        raise HTTPException(401, "You didn't provide an API key. Any bearer key will do for the demo model.")


def create_app() -> FastAPI:
    """Build the application."""
    app = FastAPI(title="Demo model", docs_url=None, redoc_url=None, openapi_url=None)
    app.add_exception_handler(RequestError, _request_error)
    app.add_exception_handler(RequestValidationError, _validation_error)
    app.add_exception_handler(HTTPException, _http_error)

    @app.get("/v1/models", dependencies=[Depends(_need_key)])
    def models() -> dict[str, Any]:
        model = {"id": MODEL, "object": "model", "created": 0, "owned_by": "email-assistant"}
        return {"object": "list", "data": [model]}

    @app.post("/v1/chat/completions", dependencies=[Depends(_need_key)])
    def chat_completions(request: ChatRequest) -> Response:
        request.check()
        if request.stream:
            return StreamingResponse(_events(request), media_type="text/event-stream")
        return JSONResponse(completion(request, answer(request)))

    return app


def _events(request: ChatRequest) -> Iterator[str]:
    for chunk in chunks(request, answer(request)):
        yield f"data: {json.dumps(chunk, ensure_ascii=False)}\n\n"
    yield "data: [DONE]\n\n"


def _request_error(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestError)
    return _error(400, error.message, error.param)


def _validation_error(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    param = ".".join(str(step) for step in first["loc"][1:])
    if first["type"] == "json_invalid":
        return _error(400, "We could not parse the JSON body of your request.")
    if first["type"] == "missing":
        return _error(400, f"Missing required parameter: '{param}'.", param, "missing_required_parameter")
    return _error(400, f"Invalid '{param}': {first['msg']}.", param)


def _http_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    if error.status_code == 404:
        return _error(404, f"Invalid URL ({request.method} {request.url.path})")
    return _error(error.status_code, error.detail)


def _error(status: int, message: str, param: str | None = None, code: str | None = None) -> JSONResponse:
    body = {"message": message, "type": "invalid_request_error", "param": param, "code": code}
    return JSONResponse({"error": body}, status)
