"""How bytes reach Google and come back: one connection pool, one deadline a call, and no request is ever sent twice."""

import contextlib
import http.client
import logging
import socket
import sys
import threading
import time
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection

from email_assistant.google.errors import Ambiguous, GoogleError, Transient

# "gzip" in the agent's name is how Google is asked to compress
# (https://developers.google.com/workspace/gmail/api/guides/performance).
USER_AGENT: Final = "email-assistant (gzip)"

# A kept connection that has been idle for longer may be dead without a sign, after a laptop's sleep for one.
MAX_IDLE_SECONDS: Final = 60.0

# Both write whole URLs, and so search texts, at level DEBUG.
for _talkative in ("googleapiclient", "urllib3.connectionpool"):
    logging.getLogger(_talkative).setLevel(logging.ERROR)


def _clock() -> float:
    """Seconds that also pass while the machine sleeps: time.monotonic() stands still then (clock_gettime(2))."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if sys.platform == "linux" else time.monotonic()


class GoogleCall:
    """One call to Google: until when it may run, and whether what it asks for may have happened.

    It belongs to the thread that talks to Google; `cut` and `failure` may be called from any other.
    """

    def __init__(self, name: str, seconds: float) -> None:
        self.name = name
        self._deadline = _clock() + seconds
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._is_cut = False
        self._in_doubt = False
        self.effect = False

    def remaining(self) -> float:
        """Seconds until the deadline, 0 when it has passed."""
        return max(0.0, self._deadline - _clock())

    def begin(self, *, effect: bool) -> float:
        """Begin one request of this call; `effect` says that it must not happen twice. Returns the seconds it has."""
        with self._lock:
            self.effect = effect
            self._in_doubt = False
        if not (seconds := self.remaining()):
            raise self.failure("deadline passed before sending")
        return seconds

    def admit(self, sock: socket.socket) -> None:
        """Let bytes of the request out through this socket, unless the call is over: a thawed process sends nothing."""
        with self._lock:
            seconds = self.remaining()
            allowed = seconds > 0 and not self._is_cut
            if allowed:
                self._socket = sock
                self._in_doubt = self.effect
        if not allowed:
            raise self.failure("deadline passed before sending")
        sock.settimeout(seconds)

    def end(self) -> None:
        """The request has left its socket, which may serve another call from now on."""
        with self._lock:
            self._socket = None

    def was_refused(self) -> None:
        """Google has answered that the request was not executed."""
        with self._lock:
            self._in_doubt = False

    def cut(self) -> None:
        """End the call now: nothing more is sent, and the thread that waits for Google is woken."""
        with self._lock:
            self._is_cut = True
            if self._socket is not None:
                with contextlib.suppress(OSError):
                    # Of the TCP connection below TLS: an SSLSocket's own shutdown may not run beside its recv.
                    socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def failure(self, what: str) -> GoogleError:
        """The error for a call that ended without an answer to believe."""
        with self._lock:
            kind = Ambiguous if self._in_doubt else Transient
        return kind(f"{self.name}: {what}")


@dataclass(frozen=True, slots=True)
class HttpReply:
    """A complete HTTP answer."""

    status: int
    headers: Mapping[str, str]
    data: bytes


_current: ContextVar[GoogleCall] = ContextVar("the call that this thread makes")


class _Connection(HTTPConnection):
    """Asks the current call before it writes."""

    _last_used = 0.0

    @property
    def is_connected(self) -> bool:
        """Whether the pool may use this connection again.

        A write gets a fresh one: Google may be closing a kept connection just as the request leaves, and then nobody
        knows whether the write happened. A handshake more is cheaper than a look.
        """
        fresh = _clock() - self._last_used < MAX_IDLE_SECONDS
        return fresh and not _current.get().effect and super().is_connected

    def send(self, data: Any) -> None:
        if self.sock is None:
            self.connect()
        self._last_used = _clock()
        _current.get().admit(self.sock)
        super().send(data)


class _TLSConnection(_Connection, HTTPSConnection):
    pass


class _Pool(urllib3.HTTPConnectionPool):
    ConnectionCls = _Connection


class _TLSPool(urllib3.HTTPSConnectionPool):
    ConnectionCls = _TLSConnection


class Transport:
    """Sends requests from any thread, each exactly once."""

    def __init__(self, connections: int) -> None:
        self._pool = urllib3.PoolManager(maxsize=connections)
        self._pool.pool_classes_by_scheme = {"http": _Pool, "https": _TLSPool}

    def send(
        self,
        call: GoogleCall,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str],
        body: str | bytes | None,
        effect: bool,
    ) -> HttpReply:
        """Send one request and read the whole answer, whatever its status.

        Raises Ambiguous when a request with an effect may have reached Google and no answer came back, Transient for
        every other fault.
        """
        seconds = call.begin(effect=effect)
        current = _current.set(call)
        try:
            response = self._pool.urlopen(
                method,
                url,
                headers={**headers, "user-agent": USER_AGENT},
                body=body,
                retries=False,
                redirect=False,
                timeout=urllib3.Timeout(total=seconds),
            )
        except (urllib3.exceptions.HTTPError, http.client.HTTPException, OSError) as error:
            raise call.failure(f"no answer ({type(error).__name__})") from None  # the original's text holds the URL
        finally:
            call.end()
            _current.reset(current)
        return HttpReply(response.status, response.headers, response.data)

    def close(self) -> None:
        self._pool.clear()
