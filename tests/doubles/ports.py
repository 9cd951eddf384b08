"""Ports for servers that are told theirs before they start, and how they are asked."""

import random
import socket
import ssl
from contextlib import suppress
from typing import Final

NO_CERTIFICATES: Final = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""For clients that speak plain HTTP: to read the certificates of all the world takes longer than most tests."""


class NotStarted(Exception):
    """A process or a port that a test needs did not come up: nothing was tried yet."""


_CHOICE = random.SystemRandom()  # hypothesis seeds the shared generator, alike in every worker of the tests


def free_port() -> int:
    """A port below those that systems hand out by themselves, so that nobody is given it before its server starts."""
    while True:
        port = _CHOICE.randrange(10_000, 30_000)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
