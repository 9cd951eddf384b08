"""A real HTTP/1.1 server on 127.0.0.1 whose answers, and the ways in which they fail, are chosen by the test."""

import json
import ssl
import threading
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal
from urllib.parse import parse_qs, urlsplit

Fault = Literal[
    "none", "drop before commit", "drop after commit", "hold", "truncate", "trickle body", "trickle headers"
]


@dataclass(frozen=True)
class Answer:
    """What the server does with one request, once it has read it whole."""

    status: int = 200
    body: bytes = b"{}"
    headers: Mapping[str, str] = field(default_factory=dict)
    fault: Fault = "none"
    together: int = 1
    """Written once so many such requests have come."""


def ok(body: Any, fault: Fault = "none") -> Answer:
    """A success with a JSON body."""
    return Answer(body=json.dumps(body).encode(), headers={"Content-Type": "application/json"}, fault=fault)


def refused(status: int, reason: str, message: str = "no", headers: Mapping[str, str] | None = None) -> Answer:
    """An error as Google's APIs write it."""
    error = {"code": status, "message": message, "errors": [{"reason": reason, "message": message}]}
    return Answer(status, json.dumps({"error": error}).encode(), headers or {})


@dataclass(frozen=True)
class Request:
    """A request that reached the server whole."""

    method: str
    path: str
    query: Mapping[str, list[str]]
    headers: Mapping[str, str]
    body: bytes
    connection: int

    def json(self) -> Any:
        return json.loads(self.body)


Script = Answer | Callable[[Request], Answer]


class FaultyServer:
    """Serves until `close`. Requests without an answer of their own get a 404."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.hold_handshakes = False
        self.connected = threading.Event()
        self.requests: list[Request] = []
        self.commits: list[Request] = []
        self.released = threading.Event()
        self._answers: dict[tuple[str, str], list[Script]] = defaultdict(list)
        self._arrival = threading.Condition()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._http.daemon_threads = True
        if tls:
            self._http.socket = tls.wrap_socket(self._http.socket, server_side=True, do_handshake_on_connect=False)
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self._http.server_address[1]}"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.001,), daemon=True)
        self._thread.start()

    def answer(self, method: str, path: str, *answers: Script) -> None:
        """Answer with these in turn; the last one stays."""
        self._answers[method, path] = list(answers)

    def received(self, method: str, path: str) -> list[Request]:
        with self._arrival:
            return [request for request in self.requests if (request.method, request.path) == (method, path)]

    def wait_for(self, method: str, path: str, count: int = 1) -> None:
        """Wait until so many such requests have arrived whole."""
        with self._arrival:
            arrived = self._arrival.wait_for(lambda: len(self.received(method, path)) >= count, 10)
        assert arrived, f"too few {method} {path} came"

    def close(self) -> None:
        self.released.set()
        self._http.shutdown()
        self._http.server_close()

    def take(self, request: Request) -> Answer:
        """Note a request and choose its answer."""
        with self._arrival:
            answers = self._answers[request.method, request.path]
            script = Answer(404) if not answers else answers.pop(0) if len(answers) > 1 else answers[0]
            answer = script if isinstance(script, Answer) else script(request)
            self.requests.append(request)
            if answer.status < 300 and answer.fault != "drop before commit":
                self.commits.append(request)
            self._arrival.notify_all()
        return answer

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def handle_any(self) -> None:
                target = urlsplit(self.path)
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                headers = {name.lower(): value for name, value in self.headers.items()}
                port: int = self.client_address[1]
                request = Request(self.command, target.path, parse_qs(target.query), headers, body, port)
                answer = server.take(request)
                server.wait_for(request.method, request.path, answer.together)
                self.reply(answer)

            do_GET = do_POST = do_PUT = do_DELETE = handle_any  # noqa: N815

            def reply(self, answer: Answer) -> None:
                if answer.fault.startswith("drop"):
                    self.close_connection = True
                    return
                if answer.fault == "hold":
                    server.released.wait()
                body = answer.body
                lines = {"Content-Length": str(len(body)), **answer.headers}
                head = f"HTTP/1.1 {answer.status} Status\r\n" + "".join(f"{k}: {v}\r\n" for k, v in lines.items())
                whole = head.encode() + b"\r\n" + body
                match answer.fault:
                    case "truncate":
                        self.wfile.write(whole[: -len(body) // 2])
                        self.close_connection = True
                    case "trickle body":
                        self.trickle(whole, fast=len(head) + 2)
                    case "trickle headers":
                        self.trickle(whole, fast=0)
                    case _:
                        self.wfile.write(whole)

            def trickle(self, whole: bytes, fast: int) -> None:
                self.wfile.write(whole[:fast])
                for byte in whole[fast:]:
                    if server.released.wait(0.1):
                        break
                    self.wfile.write(bytes([byte]))

            def handle(self) -> None:
                server.connected.set()
                if server.hold_handshakes:
                    server.released.wait()
                try:
                    super().handle()
                except OSError:
                    self.close_connection = True  # the client hung up

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                """Keep the test's output clean."""

        return Handler
