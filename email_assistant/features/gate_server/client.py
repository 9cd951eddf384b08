"""For other people's agents: ask the gate before a tool runs, and tell it afterwards how that went.

gate = Gate()  # at EMAIL_ASSISTANT_GATE_URL, with the key EMAIL_ASSISTANT_AGENT_KEY

@tool
@gate.track()
def send(to: str, text: str) -> str: ...

model = gate.bind_tools(model, [send])
"""

import asyncio
import atexit
import inspect
import json
import logging
import os
import queue
import time
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from functools import wraps
from threading import Lock, Thread
from typing import Any, Final, TypeVar, cast
from uuid import uuid4

import httpx

log = logging.getLogger(__name__)

F = TypeVar("F", bound=Callable[..., Any])

_LONGEST: Final = 1_000_000  # characters of a preview
_SESSION_ARGUMENT: Final = "__gate_session_id"
_TRIES: Final = 5  # of a report
_BACK_OFF: Final = 0.2  # seconds, doubled after each
_LEAVE_SECONDS: Final = 5.0  # that reports may take when the program ends
_CHECK_SECONDS: Final = 3.0
_HERE: Final = "http://127.0.0.1:3001"
_KEYS: Final = ("EMAIL_ASSISTANT_AGENT_KEY", "EMAIL_ASSISTANT_API_TOKEN")
_TO_MEND_KEY: Final = "set EMAIL_ASSISTANT_AGENT_KEY to the one that `email-assistant gate key` prints there"
_GRACE: Final = 2.0  # seconds that the server's own answer may come after its time

_session: ContextVar[str | None] = ContextVar("gate_session", default=None)


def current_session() -> str:
    """This context's session; it begins one where there is none."""
    found = _session.get()
    if found is None:
        _session.set(found := str(uuid4()))
    return found


def use_session(session_id: str) -> None:
    """From now on, calls in this context belong to that session."""
    _session.set(session_id)


class Gate:
    """A gate's server. What is wrong with it at the start is logged; then each call raises, and no function runs.

    Args:
        url: left out: EMAIL_ASSISTANT_GATE_URL, else where `gate serve` is on this machine.
        token: its key, as `gate key` prints it; left out: EMAIL_ASSISTANT_AGENT_KEY, else EMAIL_ASSISTANT_API_TOKEN.
        timeout: seconds that a call waits for a person.
        session_id: what all calls belong to; left out: the session of the context that they are made in.
        healthcheck: whether to look at the start.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        timeout: float = 30.0,
        agent_name: str | None = None,
        agent_type: str | None = None,
        session_id: str | None = None,
        healthcheck: bool = True,
    ) -> None:
        self._url = (url or os.environ.get("EMAIL_ASSISTANT_GATE_URL") or _HERE).rstrip("/")
        key = token or next((found for name in _KEYS if (found := os.environ.get(name))), "")
        self._settings: dict[str, Any] = {"trust_env": False}
        if key:
            self._settings["headers"] = {"authorization": f"Bearer {key}"}
        self._timeout = timeout
        self._who = {"agent_name": agent_name, "agent_type": agent_type}
        self._session_id = session_id
        self._reports = _Reports(f"{self._url}/agent/end", self._settings)
        if healthcheck and (wrong := self._wrong()):
            log.warning("%s; no call runs before that is mended", wrong)

    def _wrong(self) -> str:
        """What is wrong with the server now; empty: nothing."""
        for path in ("/health", "/mcp/status"):
            try:
                answer = httpx.get(f"{self._url}{path}", timeout=_CHECK_SECONDS, **self._settings)
            except httpx.HTTPError as error:
                return f"the gate at {self._url} can't be reached: {error}"
            if answer.status_code == httpx.codes.UNAUTHORIZED:
                return f"the gate at {self._url} takes another key: {_TO_MEND_KEY}"
            if answer.is_error:
                return f"the gate at {self._url} is not well: {answer.status_code}"
        return ""

    def track(self, name: str | None = None, *, session_id: str | None = None) -> Callable[[F], F]:
        """Have the gate asked before each call of a function. `__gate_session_id=…` names the session of one call.

        Args:
            name: of the tool; left out, the function's.

        Raises:
            TypeError: what is to be wrapped can't be.
            PermissionError: of a call: it was denied, or nobody answered in time.
            RuntimeError: of a call: the gate is down. The function did not run.
        """

        def wrap(function: F) -> F:
            if not (inspect.isroutine(function) or inspect.isfunction(inspect.unwrap(function))):
                raise TypeError(f"{function!r} can't be gated: it is no function")
            if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
                raise TypeError(f"{function!r} can't be gated: it gives its results one by one")
            tool = name or function.__name__
            wrapped = self._wrap_async if inspect.iscoroutinefunction(function) else self._wrap
            return cast("F", wrapped(function, tool, session_id))

        return wrap

    def bind_tools(self, llm: Any, tools: Sequence[Any], **more: Any) -> Any:
        """The model with these tools, each of them gated: functions, and LangChain tools that are made of one. Raises
        TypeError: a tool can't be gated, or the model takes none."""
        if not callable(getattr(llm, "bind_tools", None)):
            raise TypeError(f"{llm!r} takes no tools")
        return llm.bind_tools([self.gated(tool) for tool in tools], **more)

    def gated(self, tool: Any) -> Any:
        """A tool that asks the gate; a LangChain tool is copied, the given one stays as it is. Raises TypeError."""
        if not hasattr(tool, "invoke"):
            return tool if _is_tracked(tool) else self.track()(tool)
        functions = {part: f for part in ("func", "coroutine") if callable(f := getattr(tool, part, None))}
        if not functions or not hasattr(tool, "model_copy"):
            raise TypeError(f"{getattr(tool, 'name', tool)!r} can't be gated: it is made of no function")
        changed = {p: f if _is_tracked(f) else self.track(tool.name)(f) for p, f in functions.items()}
        return tool.model_copy(update=changed)

    def flush(self, seconds: float = _LEAVE_SECONDS) -> None:
        """Wait until what ended is reported, but no longer than this."""
        self._reports.flush(seconds)

    def _wrap(self, function: Callable[..., Any], tool: str, session_id: str | None) -> Callable[..., Any]:
        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            body = self._body(function, tool, session_id, args, kwargs)
            try:
                answer = httpx.post(
                    f"{self._url}/agent/begin", json=body, timeout=self._timeout + _GRACE, **self._settings
                )
            except httpx.HTTPError as error:
                raise _down(error) from error
            report = self._begun(answer)
            try:
                result = function(*args, **kwargs)
            except BaseException as error:
                report("error", repr(error))
                raise
            report("ok", result)
            return result

        return _tracked(call)

    def _wrap_async(self, function: Callable[..., Any], tool: str, session_id: str | None) -> Callable[..., Any]:
        @wraps(function)
        async def call(*args: Any, **kwargs: Any) -> Any:
            body = self._body(function, tool, session_id, args, kwargs)
            try:
                async with httpx.AsyncClient(timeout=self._timeout + _GRACE, **self._settings) as http:
                    answer = await http.post(f"{self._url}/agent/begin", json=body)
            except httpx.HTTPError as error:
                raise _down(error) from error
            report = self._begun(answer)
            try:
                result = await function(*args, **kwargs)
            except (Exception, asyncio.CancelledError) as error:
                report("error", repr(error))
                raise
            report("ok", result)
            return result

        return _tracked(call)

    def _body(
        self,
        function: Callable[..., Any],
        tool: str,
        session_id: str | None,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> dict[str, Any]:
        """Takes the session's argument out of `kwargs`. Raises TypeError: the function takes no such arguments."""
        session = kwargs.pop(_SESSION_ARGUMENT, None) or session_id or self._session_id or current_session()
        named = inspect.signature(function).bind(*args, **kwargs).arguments
        return {
            "session_id": session,
            "name": tool,
            "args_summary": _preview(named),
            "timeout_s": self._timeout,
            **self._who,
        }

    def _begun(self, answer: httpx.Response) -> Callable[[str, Any], None]:
        """How the call's end is reported. Raises PermissionError, RuntimeError."""
        if answer.status_code == httpx.codes.UNAUTHORIZED:
            raise RuntimeError(f"the gate at {self._url} takes another key: {_TO_MEND_KEY}")
        try:
            told = answer.json() if answer.is_success else {}
        except (ValueError, RecursionError):
            told = None
        if not isinstance(told, dict) or (told.get("ok") and not isinstance(told.get("approved"), bool)):
            raise RuntimeError(f"{self._url} does not answer as a gate does: EMAIL_ASSISTANT_GATE_URL names it")
        if not told.get("ok"):
            raise RuntimeError(f"the gate does not work: {told.get('error') or answer.status_code}")
        if not told["approved"]:
            raise PermissionError(told.get("error") or "the gate said no")
        began = time.monotonic()

        def report(status: str, result: Any) -> None:
            text = result if isinstance(result, str) else _preview(result)
            ended = {"session_id": told["session_id"], "call_id": told["call_id"], "status": status}
            took = (time.monotonic() - began) * 1000
            self._reports.put({**ended, "duration_ms": took, "result_summary": text[:_LONGEST]})

        return report


class _Reports:
    """Sends what ended in the background, so that no call waits for it."""

    def __init__(self, url: str, settings: dict[str, Any]) -> None:
        self._url = url
        self._settings = settings
        self._queue = queue.Queue[dict[str, Any]]()
        self._lock = Lock()
        self._thread: Thread | None = None

    def put(self, report: dict[str, Any]) -> None:
        with self._lock:
            self._queue.put(report)
            if self._thread is None:
                self._thread = Thread(target=self._run, name="gate reports", daemon=True)
                self._thread.start()
                atexit.register(self.flush, _LEAVE_SECONDS)

    def flush(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while self._queue.unfinished_tasks and time.monotonic() < until:
            time.sleep(0.01)

    def _run(self) -> None:
        with httpx.Client(timeout=_CHECK_SECONDS, **self._settings) as http:
            while True:
                try:
                    report = self._queue.get(timeout=3600)
                except queue.Empty:
                    continue
                try:
                    self._send(http, report)
                finally:
                    self._queue.task_done()

    def _send(self, http: httpx.Client, report: dict[str, Any]) -> None:
        """A repeat is harmless: the server takes the first."""
        for tried in range(_TRIES):
            try:
                if http.post(self._url, json=report).status_code < httpx.codes.INTERNAL_SERVER_ERROR:
                    return
            except httpx.HTTPError:
                pass
            time.sleep(_BACK_OFF * 2**tried)


def _preview(value: Any) -> str:
    try:
        return json.dumps(value, default=str)[:_LONGEST]
    except (TypeError, ValueError, RecursionError):
        return repr(value)[:_LONGEST]


def _down(error: httpx.HTTPError) -> Exception:
    """No answer within the time is a no; no connection is a gate that is down."""
    if isinstance(error, httpx.ReadTimeout):
        return PermissionError("nobody answered in time")
    return RuntimeError(f"the gate can't be reached: {error}")


def _tracked(function: Callable[..., Any]) -> Callable[..., Any]:
    function.__gated__ = True  # type: ignore[attr-defined]
    return function


def _is_tracked(tool: Any) -> bool:
    return bool(getattr(tool, "__gated__", False))
