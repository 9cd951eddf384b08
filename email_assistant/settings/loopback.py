"""Whether an address is this machine's own."""

import ipaddress
from urllib.parse import urlsplit


def is_on_this_machine(url: str) -> bool:
    try:
        return is_loopback(urlsplit(url).hostname or "")
    except ValueError:  # nothing that can be read
        return False


def is_loopback(host: str) -> bool:
    """Whether a host, by name or address, is this machine."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:  # another name
        return False
