"""By which way a model is reached: what the environment says of proxies and certificates, read once and checked.

The libraries find out with the first request, whose mail would then wait as if the model were away.
"""

import os
import ssl
from functools import cache
from typing import TypedDict

import httpx

from email_assistant.settings.environment import SettingsError
from email_assistant.settings.loopback import is_on_this_machine

_PROXIES = ("http_proxy", "https_proxy", "all_proxy")


class Network(TypedDict):
    """Keyword arguments of an HTTP client, httpx's or OpenAI's."""

    trust_env: bool
    verify: ssl.SSLContext


def network_to(url: str | None) -> Network:
    """The way to a model's server; None: to OpenAI's. To this machine it leads through no proxy.

    Raises:
        SettingsError: a variable can't be used; the message names it.
    """
    if url is None or not is_on_this_machine(url):
        _check_proxies()
        return {"trust_env": True, "verify": _certificates()}
    return {"trust_env": False, "verify": _certificates() if url.startswith("https:") else _no_certificates()}


def _check_proxies() -> None:
    for name in _PROXIES:
        given = next((each for each in (name, name.upper()) if os.environ.get(each)), None)
        if given is None:
            continue
        value = os.environ[given]
        try:
            host = httpx.Proxy(value if "://" in value else f"http://{value}").url.host
        except (httpx.InvalidURL, ValueError):
            host = ""
        if not host:  # nor is it quoted: it may hold a password
            raise SettingsError(f"{given}: takes the address of a proxy, such as http://127.0.0.1:3128 or socks5://…")
    try:
        httpx.Client(verify=False).close()  # noqa: S501 - nothing is asked
    except httpx.InvalidURL:
        raise SettingsError("NO_PROXY: takes names and addresses of hosts, set apart by commas") from None


def _certificates() -> ssl.SSLContext:
    """Those that the environment names, else the library's own."""
    if file := os.environ.get("SSL_CERT_FILE"):
        try:
            return ssl.create_default_context(cafile=file)
        except OSError as error:
            raise SettingsError(f"SSL_CERT_FILE: no certificates can be read from {file} ({error.strerror})") from None
    if folder := os.environ.get("SSL_CERT_DIR"):
        return ssl.create_default_context(capath=folder)
    return _usual()


@cache
def _usual() -> ssl.SSLContext:
    """The library's own, read once: that takes longer than a request."""
    return httpx.create_ssl_context(trust_env=False)


def _no_certificates() -> ssl.SSLContext:
    """For what is asked without TLS: to read certificates takes longer than the program's start may."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
