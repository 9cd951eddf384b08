"""Start the demo model: `python -m email_assistant_servers.demo_model`. Models and chat completions, over HTTP."""

import argparse
import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import uvicorn
from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from fastapi.sse import EventSourceResponse, format_sse_event
from starlette.exceptions import HTTPException

from email_assistant_servers.demo_model.answer import answer
from email_assistant_servers.demo_model.protocol import MODEL, ChatRequest, chunks, completion
from email_assistant_servers.demo_model.wording import SAYS

_STDIN = 0


def main() -> None:
    """Listen, print base_url, model and what it is as one line of JSON, serve until a signal or the parent's end."""
    parser = argparse.ArgumentParser(prog="python -m email_assistant_servers.demo_model")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=int, default=0, help="port to listen on (default: any free one)")
    parser.add_argument("--exit-with-parent", action="store_true", help="stop at the end of standard input")
    options = parser.parse_args()
    server = uvicorn.Server(uvicorn.Config(_app(), log_level="warning", timeout_graceful_shutdown=2))

    def stop(*_: object) -> None:
        server.should_exit = True

    # uvicorn raises the signal again once it has shut down: with our own handlers in place that ends in no traceback
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    try:
        listener = socket.create_server((options.host, options.port))
    except OSError as error:
        sys.exit(f"cannot listen on {options.host}:{options.port}: {error.strerror}")
    # asyncio does so only where the socket names its protocol; else each answer waits 40 ms for a delayed ACK.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    host, port = listener.getsockname()[:2]
    ready = {"base_url": f"http://{host}:{port}/v1", "model": MODEL, "says": SAYS}
    sys.stdout.write(json.dumps(ready) + "\n")
    sys.stdout.flush()
    if options.exit_with_parent:
        threading.Thread(target=_at_end_of_input, args=(stop,), daemon=True).start()
    server.run(sockets=[listener])


def _at_end_of_input(stop: Callable[[], None]) -> None:
    # os.read takes no lock on sys.stdin, which a thread that is still reading would hold at interpreter exit
    while os.read(_STDIN, 4096):
        pass
    stop()


def _need_key(key: Annotated[HTTPAuthorizationCredentials | None, Depends(HTTPBearer(auto_error=False))]) -> None:
    if key is None or not key.credentials:
        raise HTTPException(401, "You didn't provide an API key. Any bearer key will do for the demo model.")


def _app() -> FastAPI:
    app = FastAPI(title="Demo model", docs_url=None, redoc_url=None, openapi_url=None)
    for error in (RequestValidationError, HTTPException):
        app.add_exception_handler(error, _refused)

    @app.get("/v1/models", dependencies=[Depends(_need_key)])
    def models() -> dict[str, Any]:
        model = {"id": MODEL, "object": "model", "created": 0, "owned_by": "email-assistant"}
        return {"object": "list", "data": [model]}

    @app.post("/v1/chat/completions", dependencies=[Depends(_need_key)])
    def chat_completions(request: ChatRequest) -> Response:
        request.check()
        answered = answer(request)
        if request.stream:
            return EventSourceResponse(_events(chunks(request, answered)))
        return JSONResponse(completion(request, answered))

    return app


def _events(bodies: Iterator[dict[str, Any]]) -> Iterator[bytes]:
    for body in bodies:
        yield format_sse_event(data_str=json.dumps(body, ensure_ascii=False))
    yield format_sse_event(data_str="[DONE]")


def _refused(_: Request, error: Exception) -> JSONResponse:
    """An error in OpenAI's form."""
    status, message, param = 400, str(error), ""
    match error:
        case HTTPException():
            status, message = error.status_code, error.detail
        case RequestValidationError():
            first = error.errors()[0]
            param = ".".join(str(step) for step in first["loc"][1:])
            message = f"Invalid '{param}': {first['msg']}."
            if first["type"] == "json_invalid":
                message, param = "We could not parse the JSON body of your request.", ""
    body = {"message": message, "type": "invalid_request_error", "param": param or None, "code": None}
    return JSONResponse({"error": body}, status)


if __name__ == "__main__":
    main()
