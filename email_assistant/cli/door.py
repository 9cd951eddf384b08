"""Where the inbox is opened: the address that it listens on, and a name of this machine that no other server shares."""

import errno
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import urlencode

from email_assistant.cli.context import tell
from email_assistant.home import api_token, own_host
from email_assistant.settings import Settings
from email_assistant.web.auth import OwnName

_LOOPBACK, _LOOPBACK_6 = "127.0.0.1", "::1"
_RESOLVER_SECONDS = 2.0
_MISSING = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT, errno.EPROTONOSUPPORT)  # what a machine without IPv6 says


@dataclass(frozen=True, slots=True)
class Door:
    """
    Attributes:
        name: answered to beside the address; None where it can't be had, or is of no use since no token is asked for.
    """

    listeners: Sequence[socket.socket]
    token: str | None
    name: OwnName | None

    @property
    def address(self) -> str:
        """Where the inbox is, as anybody may know: without the name."""
        return self._root(None)

    @property
    def link(self) -> str:
        """The address that opens the inbox, with the token that logs in."""
        query = f"?{urlencode({'token': self.token})}" if self.token else ""
        return f"{self._root(self.name.host if self.name and self.name.is_known else None)}{query}"

    @property
    def plain(self) -> str | None:
        """Where a browser logs in that does not find the name; None if the link needs no name."""
        return f"{self.address}login" if self.name and self.name.is_known else None

    def _root(self, name: str | None) -> str:
        host, port = self.listeners[0].getsockname()[:2]
        shown = f"[{host}]" if ":" in host else _LOOPBACK if host == "0.0.0.0" else host  # noqa: S104 - compared
        return f"http://{name or shown}:{port}/"


@contextmanager
def opened_door(settings: Settings, listener: socket.socket, *, no_token: bool = False) -> Iterator[Door]:
    """The door to a server that listens already."""
    if no_token:
        yield Door([listener], None, None)
        return
    token = api_token(settings)
    with _own_name(settings, listener) as (name, listeners):
        yield Door([listener, *listeners], token, name)


@contextmanager
def _own_name(settings: Settings, listener: socket.socket) -> Iterator[tuple[OwnName | None, list[socket.socket]]]:
    """The name, and what more is listened on: browsers try it at ::1 as well, where nobody else may answer to it."""
    address, port = listener.getsockname()[:2]
    if address != _LOOPBACK:
        yield None, []
        return
    try:
        host = own_host(settings)
        second = _listening_at_6(port)
    except OSError as error:  # another program listens there, or the home can't be written to
        tell(
            f"The inbox has no name of its own ({_LOOPBACK_6}: {error.strerror}): what logs in now, other servers "
            "of this machine can use, and what was logged in at the name is logged out"
        )
        yield None, []
        return
    try:
        yield OwnName(host, is_known=_is_known(host)), [second] if second else []
    finally:
        if second:
            second.close()


def _listening_at_6(port: int) -> socket.socket | None:
    """None on a machine without IPv6. Raises OSError if another program listens there."""
    listener = None
    try:
        listener = socket.socket(socket.AF_INET6, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((_LOOPBACK_6, port))
        listener.listen()
    except OSError as error:
        if listener:
            listener.close()
        if error.errno not in _MISSING:
            raise
        return None
    return listener


def _is_known(host: str) -> bool:
    """Whether the system's resolver finds the name, and only where we listen; a slow one counts as not knowing it."""
    found: list[str] = []

    def ask() -> None:
        try:
            found.extend(str(place[4][0]) for place in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM))
        except OSError:
            return

    asking = threading.Thread(target=ask, name="resolver", daemon=True)
    asking.start()
    asking.join(_RESOLVER_SECONDS)
    return _LOOPBACK in found and set(found) <= {_LOOPBACK, _LOOPBACK_6}
