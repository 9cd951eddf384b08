"""Start the demo model: `python -m email_assistant_servers.demo_model`."""

import argparse
import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable

import uvicorn

from email_assistant_servers.demo_model.api import create_app
from email_assistant_servers.demo_model.protocol import MODEL
from email_assistant_servers.demo_model.wording import SAYS

_STDIN = 0


def main() -> None:
    """Listen, print base_url, model and what it is as one line of JSON, serve until a signal or the parent's end."""
    options = _options()
    server = uvicorn.Server(uvicorn.Config(create_app(), log_level="warning", timeout_graceful_shutdown=2))

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


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m email_assistant_servers.demo_model",
        description="A demo model: a file of answers, fixed rules and templates behind the OpenAI HTTP interface.",
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=int, default=0, help="port to listen on (default: any free one)")
    parser.add_argument("--exit-with-parent", action="store_true", help="stop at the end of standard input")
    return parser.parse_args()


def _at_end_of_input(stop: Callable[[], None]) -> None:
    # os.read takes no lock on sys.stdin, which a thread that is still reading would hold at interpreter exit
    while os.read(_STDIN, 4096):
        pass
    stop()


if __name__ == "__main__":
    main()
