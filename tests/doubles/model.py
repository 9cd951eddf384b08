"""A stub model server: OpenAI's chat completions over HTTP, answering what a test scripted.

It recognises the kinds of request by their protocol: `triage`, `memory` and `policy` by the name of the schema in
`response_format`, or by the schema that is told in words, `chat` and `response` by their `tools`. It refuses, as OpenAI
does, a conversation in which a tool call lacks its one tool message, and records that in `violations`, with every
request it had no script for.
"""

import json
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from email_assistant.model.asking import CALL, WORD
from tests.doubles.completion import completion
from tests.doubles.serving import Dropped, Hold, Server

_CALLS_AS_JSON = "Answer with one JSON object only"
"""Stands in the prompt where a server that refuses tools is asked for calls in another way."""
Kind = Literal["triage", "memory", "response", "policy", "chat", "probe", "other"]
"""`probe`: a question of what the server can do, which is answered as by one that can do all."""


@dataclass(frozen=True)
class ToolCall:
    """A tool call of the model. `id` set by hand imitates servers that repeat theirs."""

    name: str
    args: Mapping[str, Any]
    id: str | None = None
    raw: str | None = None
    """Arguments to send as they are, JSON or not."""


def tool(name: str, **args: Any) -> ToolCall:
    """A well-formed call. Arguments that the bound tool does not declare are left out, as a strict model does."""
    return ToolCall(name, args)


def broken_tool(name: str, arguments: Any) -> ToolCall:
    """A call whose arguments are sent as they are."""
    return ToolCall(name, {}, raw=arguments)


Answer = str | Sequence[ToolCall]
"""One message of the model: text, or tool calls."""


@dataclass(frozen=True)
class Mail:
    """One mail as a prompt shows it."""

    id: str
    headers: Mapping[str, str]
    text: str

    @property
    def subject(self) -> str:
        return self.headers.get("subject", "")


@dataclass(frozen=True)
class ModelRequest:
    """One request as it came."""

    kind: Kind
    body: Mapping[str, Any]
    root: str
    """The root by which it came."""
    time: float
    prompt_tokens: int

    @property
    def messages(self) -> list[dict[str, Any]]:
        return list(self.body["messages"])

    @property
    def text(self) -> str:
        """All that the model reads as text, the system prompt included."""
        return "\n".join(_text(message) for message in self.messages)

    @property
    def mails(self) -> list[Mail]:
        """The mails of the conversation, oldest first."""
        text = "\n".join(_text(message) for message in self.messages if message["role"] != "system")
        return [_mail(*found) for found in re.findall(r'<mail id="([^"]+)">\n(.*?)\n?</mail>', text, re.DOTALL)]

    @property
    def mail(self) -> Mail:
        """The mail to answer."""
        return self.mails[-1]

    @property
    def said(self) -> list[str]:
        """What the person has said in a chat, oldest first."""
        return [_text(message) for message in self.messages if message["role"] == "user"]

    @property
    def step(self) -> int:
        """How often the model has answered since the person's last words: which answer of a turn this asks for."""
        roles = [message["role"] for message in self.messages]
        return roles[len(roles) - roles[::-1].index("user") :].count("assistant")

    @property
    def tools(self) -> dict[str, dict[str, Any]]:
        """Bound tools: name → JSON schema of the parameters."""
        functions = [entry["function"] for entry in self.body.get("tools", [])]
        return {function["name"]: function.get("parameters", {}) for function in functions}

    @property
    def tool_calls(self) -> list[tuple[str, dict[str, Any]]]:
        """The calls that the conversation shows: name and arguments."""
        calls = [call["function"] for message in self.messages for call in message.get("tool_calls") or []]
        return [(call["name"], json.loads(call["arguments"])) for call in calls]

    @property
    def tool_results(self) -> list[str]:
        """The texts of the tool messages, in order."""
        return [_text(message) for message in self.messages if message["role"] == "tool"]


Answers = Sequence[Answer | Callable[[ModelRequest], Answer]]
Script = Answers | Callable[[ModelRequest], Answer] | Mapping[str, Answers]

Turns = Mapping[str, Sequence[Answer | Callable[[ModelRequest], Answer]]]
"""What the model answers in a chat, step by step, to each request of the person."""

LEARN_ONE_RULE = {"action": "add", "rule": None, "text": "Keep it short.", "reason": "The person asked for it."}


@dataclass
class Fault:
    match: Kind | Literal["*"]
    times: int
    root: str | None
    status: int | None
    retry_after: int | None
    delay: float
    hold: Hold | None
    nonsense: bool
    body: bytes | None


class Model:
    """The stub server. `roots` are the same model under different ports: `ModelRequest.root` tells who asked."""

    def __init__(self, roots: int = 1) -> None:
        self._lock = threading.RLock()
        self._holds: list[Hold] = []
        self.forget()
        routes = [Route("/v1/chat/completions", self._endpoint, methods=["POST"])]
        self._server = Server(Starlette(routes=routes), roots)
        self.roots = [f"{url}/v1" for url in self._server.urls]

    def forget(self) -> None:
        """Be as new."""
        for hold in self._holds:
            hold.abandon()
        self.requests: list[ModelRequest] = []
        self.violations: list[str] = []
        self.reports_usage = True
        """Whether answers say how many tokens were used, as some servers' don't."""
        self._triage: Callable[[ModelRequest], str] = _unscripted
        self._named: Mapping[str, Any] = {}
        self._response: Callable[[ModelRequest], Answer] = _unscripted
        self._memory: Callable[[ModelRequest], Mapping[str, Any]] = lambda _: LEARN_ONE_RULE
        self._policy: Callable[[ModelRequest], Sequence[str]] = _unscripted
        self._turns: Turns = {}
        self._faults: list[Fault] = []
        self._holds = []

    @property
    def root(self) -> str:
        """What goes into OPENAI_BASE_URL."""
        return self.roots[0]

    def __enter__(self) -> "Model":
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        for hold in self._holds:
            hold.abandon()
        self._server.stop()

    # What a test does

    def on_triage(self, rule: str | Mapping[str, str] | Callable[[ModelRequest], str]) -> None:
        """Classify every mail alike, by its subject, or by a function of the request."""
        if isinstance(rule, str):
            self._triage = lambda _: rule
        elif isinstance(rule, Mapping):
            self._triage = lambda request: rule[request.mail.subject]
        else:
            self._triage = rule

    def on_rules(self, named: Any) -> None:
        """What triage says of the rules that it went by; without this, it leaves the field out."""
        self._named = {"rules": named}

    def script(self, script: Script) -> None:
        """What the response agent's model answers: one answer after the other, or by a function of the request.

        An answer taken from a sequence is used up, whoever asked; a member may itself be a function of the request. A
        mapping holds a sequence for each conversation, by the subject of the mail to answer.
        """
        if isinstance(script, Mapping):
            parts = {subject: _in_turn(answers) for subject, answers in script.items()}
            self._response = lambda request: parts[request.mail.subject](request)
        else:
            self._response = script if callable(script) else _in_turn(script)

    def on_memory(self, rule: Mapping[str, Any] | Callable[[ModelRequest], Mapping[str, Any]]) -> None:
        """What memory requests are answered with; without this, one rule is added."""
        self._memory = rule if callable(rule) else lambda _: rule

    def on_policy(self, *types: str) -> None:
        """The tool types that every request of a chat is allowed."""
        self._policy = lambda _: types

    def on_chat(self, turns: Turns) -> None:
        """What the chat's model answers, by the words of the person and the step of the turn.

        So a request that is made again is answered again alike, and threads can be served at once. The tool calls are
        named `call_0` and so on in each message, as by servers that repeat their ids.
        """
        self._turns = turns

    def fault(
        self,
        match: Kind | Literal["*"] = "*",
        *,
        times: int = 1,
        root: str | None = None,
        status: int | None = None,
        retry_after: int | None = None,
        delay: float = 0,
        hold: Hold | None = None,
        nonsense: bool = False,
        body: bytes | None = None,
    ) -> None:
        """Let the next `times` requests of a kind go wrong.

        `status` answers with that HTTP error; `hold` keeps the request waiting, then answers it as usual (or drops it,
        if abandoned); `nonsense` answers with JSON that fits no schema, `body` with these bytes; `delay` is in seconds.
        """
        with self._lock:
            self._faults.append(Fault(match, times, root, status, retry_after, delay, hold, nonsense, body))
            if hold:
                self._holds.append(hold)

    def clear_faults(self) -> None:
        with self._lock:
            self._faults.clear()

    def calls(self, kind: Kind | None = None) -> list[ModelRequest]:
        """The requests of one kind, in order; all of them without a kind."""
        return [request for request in list(self.requests) if kind in (None, request.kind)]

    # The server

    async def _endpoint(self, request: Request) -> Response:
        if not request.headers.get("authorization", "").removeprefix("Bearer ").strip():
            return _error(401, "invalid_api_key", "You didn't provide an API key.")
        body = await request.json()
        root = "http://{}:{}/v1".format(*request.scope["server"])
        came = ModelRequest(_kind(body), body, root, time.monotonic(), _tokens(_prompt(body)))
        return await run_in_threadpool(self._answer, came)

    def _answer(self, request: ModelRequest) -> Response:
        with self._lock:
            self.requests.append(request)
            fault = self._take_fault(request)
        if request.kind == "probe" and not fault:
            return _able(request)
        complaint = complain(request.messages)
        if complaint:
            return self._refuse(complaint)
        if request.body.get("stream") and request.kind != "chat":
            return self._refuse("this double streams chats only")
        if fault:
            time.sleep(fault.delay)
            if fault.hold and not fault.hold.wait(request.root):
                return Dropped()
            if fault.status:
                headers = {} if fault.retry_after is None else {"Retry-After": str(fault.retry_after)}
                return _error(fault.status, "injected", "injected", headers)
            if fault.body is not None:
                return Response(fault.body, media_type="application/json")
            if fault.nonsense:
                return self._completion(request, {"content": '{"weather": "sunny"}'})
        if request.kind == "other" and _CALLS_AS_JSON in json.dumps(request.messages):
            return _error(400, "injected", "it makes its calls as tool calls only")
        try:
            with self._lock:
                return self._completion(request, self._message(request))
        except LookupError as unscripted:
            return self._refuse(f"no script for this {request.kind} request: {unscripted}")

    def _message(self, request: ModelRequest) -> dict[str, Any]:
        if request.kind == "triage":
            verdict = {"reasoning": "Scripted.", "classification": self._triage(request), **self._named}
            return {"content": json.dumps(verdict)}
        if request.kind == "memory":
            return {"content": json.dumps(self._memory(request))}
        if request.kind == "policy":
            return {"content": json.dumps({"allowed_tool_types": list(self._policy(request))})}
        is_chat = request.kind == "chat"
        answer = self._turn(request) if is_chat else self._response(request)
        if isinstance(answer, str):
            return {"content": answer}
        minted = "call" if is_chat else f"call_{len(self.requests)}"
        calls = [_wire(call, f"{minted}_{n}", request.tools) for n, call in enumerate(answer)]
        return {"content": None, "tool_calls": calls}

    def _turn(self, request: ModelRequest) -> Answer:
        answer = self._turns[request.said[-1]][request.step]
        return answer(request) if callable(answer) else answer

    def _completion(self, request: ModelRequest, message: Mapping[str, Any]) -> Response:
        answered = _tokens(json.dumps(message))
        usage = {
            "prompt_tokens": request.prompt_tokens,
            "completion_tokens": answered,
            "total_tokens": request.prompt_tokens + answered,
        }
        shared = {
            "id": f"chatcmpl-{time.monotonic_ns()}",
            "created": int(time.time()),
            "model": request.body.get("model"),
        }
        finish = "tool_calls" if message.get("tool_calls") else "stop"
        counted = {"usage": usage} if self.reports_usage else {}
        if request.body.get("stream"):
            asked = (request.body.get("stream_options") or {}).get("include_usage")
            return StreamingResponse(
                _chunks(shared, message, finish, counted if asked else {}), media_type="text/event-stream"
            )
        choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
        return JSONResponse({**shared, "object": "chat.completion", "choices": [choice], **counted})

    def _refuse(self, complaint: str) -> Response:
        self.violations.append(complaint)
        return _error(400, "invalid_request_error", complaint)

    def _take_fault(self, request: ModelRequest) -> Fault | None:
        for fault in self._faults:
            if fault.times > 0 and fault.match in ("*", request.kind) and fault.root in (None, request.root):
                fault.times -= 1
                return fault
        return None


def complain(messages: Sequence[Mapping[str, Any]]) -> str | None:
    """What OpenAI would refuse: every tool call needs exactly one tool message, before any other message."""
    open_calls: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            if message.get("tool_call_id") not in open_calls:
                return f"tool message for {message.get('tool_call_id')!r}, which no preceding tool call waits for"
            open_calls.remove(message["tool_call_id"])
            continue
        if open_calls:
            return f"tool calls {open_calls} have no tool message before the next {message['role']} message"
        open_calls = [call["id"] for call in message.get("tool_calls") or []]
        if len(set(open_calls)) < len(open_calls):
            return f"tool call ids repeat in one message: {open_calls}"
        if any(len(call_id) > 40 for call_id in open_calls):
            return f"tool call ids are longer than 40 characters: {open_calls}"
    return f"tool calls {open_calls} have no tool message" if open_calls else None


def _tokens(text: str) -> int:
    return len(text) // 4  # as a server counts them that has no tokenizer of its own


def _unscripted(request: ModelRequest) -> Any:
    raise LookupError("nothing was scripted")


def _in_turn(answers: Answers) -> Callable[[ModelRequest], Answer]:
    left = list(answers)

    def next_answer(request: ModelRequest) -> Answer:
        if not left:
            raise LookupError("the script is used up")
        answer = left.pop(0)
        return answer(request) if callable(answer) else answer

    return next_answer


def _able(request: ModelRequest) -> Response:
    usage = {"prompt_tokens": request.prompt_tokens, "completion_tokens": 1, "total_tokens": request.prompt_tokens + 1}
    if request.tools:
        return completion(request.body, {"content": None, "tool_calls": [_wire(tool("ready"), "call_1", {})]}, usage)
    said = '{"ready": true}' if request.body.get("response_format") else "ready"
    return completion(request.body, {"content": said}, usage)


def _kind(body: Mapping[str, Any]) -> Kind:
    schema = (body.get("response_format") or {}).get("json_schema", {}).get("name") or _told_schema(body)
    if schema == "triage":
        return "triage"
    if schema == "rule_change":
        return "memory"
    if schema == "policy":
        return "policy"
    if any(entry["function"]["name"] == "request_clarification" for entry in body.get("tools", [])):
        return "chat"
    if _text(body["messages"][-1]) in (WORD, CALL):
        return "probe"
    return "response" if body.get("tools") else "other"


def _told_schema(body: Mapping[str, Any]) -> str | None:
    """The name of the schema that the messages tell in words."""
    _, _, told = "\n".join(map(_text, body["messages"])).rpartition("by this JSON schema: ")
    known = {"classification": "triage", "allowed_tool_types": "policy", "action": "rule_change"}
    return next((name for field, name in known.items() if f'"{field}":' in told), None)


def _prompt(body: Mapping[str, Any]) -> str:
    calls = [call["function"] for message in body["messages"] for call in message.get("tool_calls") or []]
    rest = [part for part in (calls, body.get("tools"), body.get("response_format")) if part]
    return "\n".join([*(_text(m) for m in body["messages"]), *(json.dumps(part) for part in rest)])


def _text(message: Mapping[str, Any]) -> str:
    content = message.get("content") or ""
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def _mail(mail_id: str, block: str) -> Mail:
    head, _, text = block.partition("\n\n")
    lines = [line.partition(":") for line in head.splitlines()]
    return Mail(mail_id, {name.strip().lower(): value.strip() for name, _, value in lines}, text)


def _wire(call: ToolCall, minted: str, tools: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    declared = tools.get(call.name, {}).get("properties", {})
    args = {name: value for name, value in call.args.items() if name in declared or call.name not in tools}
    arguments = json.dumps(args) if call.raw is None else call.raw
    return {"id": call.id or minted, "type": "function", "function": {"name": call.name, "arguments": arguments}}


def _chunks(
    shared: Mapping[str, Any], message: Mapping[str, Any], finish: str, counted: Mapping[str, Any]
) -> Iterator[str]:
    """A message as it streams: text word by word, the arguments of each call in two halves."""
    deltas: list[Mapping[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": piece} for piece in re.findall(r"\S+\s*", message.get("content") or "")]
    for index, call in enumerate(message.get("tool_calls") or []):
        arguments = call["function"]["arguments"]
        half = len(arguments) // 2
        named = {**call, "index": index, "function": {**call["function"], "arguments": arguments[:half]}}
        deltas += [{"tool_calls": [named]}]
        deltas += [{"tool_calls": [{"index": index, "function": {"arguments": arguments[half:]}}]}]
    choices: list[Mapping[str, Any]] = [{"index": 0, "delta": d, "finish_reason": None} for d in deltas]
    choices += [{"index": 0, "delta": {}, "finish_reason": finish}]
    for choice in choices:
        yield _event({**shared, "object": "chat.completion.chunk", "choices": [choice]})
    if counted:
        yield _event({**shared, "object": "chat.completion.chunk", "choices": [], **counted})
    yield "data: [DONE]\n\n"


def _event(data: Mapping[str, Any]) -> str:
    return f"data: {json.dumps(data)}\n\n"


def _error(status: int, code: str, message: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    body = {"error": {"message": message, "type": code, "param": None, "code": code}}
    return JSONResponse(body, status, dict(headers or {}))
