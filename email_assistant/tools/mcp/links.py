"""Links that a server wants the person to open: where they lead, if that is what a person reads in them."""

from urllib.parse import urlsplit

from email_assistant.settings.loopback import is_loopback


def leads_to(url: str, *, here: bool) -> str | None:
    """The host of a link that may be shown: one of https or, from a server on this machine's loopback, of http to it.

    None: it is neither, or hides where it leads.

    Args:
        here: its server is on loopback.
    """
    if any(ord(c) <= 32 or ord(c) >= 127 or c == "\\" for c in url):
        return None
    try:
        parts = urlsplit(url)
        host = parts.hostname
        if not host or "@" in parts.netloc or parts.port == 0:
            return None
    except ValueError:
        return None
    return host if parts.scheme == "https" or (parts.scheme == "http" and here and is_loopback(host)) else None
