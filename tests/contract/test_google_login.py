"""What a login asks of the token endpoint, and what it keeps to itself. The endpoint is a real HTTP server."""

import asyncio
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest

from email_assistant.google.errors import LoginFailed, Transient
from email_assistant.google.login import GMAIL, SCOPES, Consent, OAuthClient
from tests.contract.faulty_http import Answer, FaultyServer, ok

AMPLE = 30.0
BRIEF = 0.3
HERE = "http://127.0.0.1:4321/"
NOBODY = "192.0.2.1"  # an address for documentation (RFC 5737)
CODE, ACCESS, REFRESH = "4/the-code", "ya29.the-access-token", "1//the-refresh-token"
CLIENT = OAuthClient("the-client", "the-client-secret")
INSECURE = "OAUTHLIB_INSECURE_TRANSPORT"


def granted(**more: object) -> dict[str, Any]:
    return {"access_token": ACCESS, "refresh_token": REFRESH, "expires_in": 3600, "token_type": "Bearer", **more}


@pytest.fixture
def server() -> Iterator[FaultyServer]:
    server = FaultyServer()
    server.answer("POST", "/token", ok(granted(scope=GMAIL.uri)))
    yield server
    server.close()


def asked(root: str | None, seconds: float = AMPLE) -> Consent:
    """The person has the page before them."""
    consent = Consent(CLIENT, root, seconds)
    consent.url(HERE, None)
    return consent


@pytest.mark.parametrize(
    ("told", "means"),
    [
        ({"scope": f"{GMAIL.uri} openid"}, {GMAIL.uri, "openid"}),
        ({}, {scope.uri for scope in SCOPES}),
    ],
)
async def test_what_was_allowed_is_what_google_says(
    server: FaultyServer, told: dict[str, str], means: set[str]
) -> None:
    server.answer("POST", "/token", ok(granted(**told)))
    grant = await asked(server.url).redeem({"code": CODE})
    assert grant.scopes == means
    assert grant.token.keys() == {"type", "client_id", "client_secret", "token", "expiry", "refresh_token"}


async def test_nothing_secret_is_logged(server: FaultyServer, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    consent = asked(server.url)
    await consent.redeem({"code": CODE})
    [request] = server.received("POST", "/token")
    sent = {name: values[0] for name, values in parse_qs(request.body.decode()).items()}
    assert (sent["code"], sent["client_secret"]) == (CODE, CLIENT.secret)
    secrets = {CODE, CLIENT.secret, ACCESS, REFRESH, sent["code_verifier"], consent.state}
    assert {secret for secret in secrets if secret in caplog.text} == set()


async def test_neither_a_proxy_nor_passwords_of_the_environment_are_used(
    server: FaultyServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login somebody password else\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    await asked(server.url).redeem({"code": CODE})
    [request] = server.received("POST", "/token")
    assert "authorization" not in request.headers


async def test_no_redirect_is_followed(server: FaultyServer) -> None:
    other = FaultyServer()
    server.answer("POST", "/token", Answer(307, b"", {"Location": f"{other.url}/token"}))
    with pytest.raises(Transient, match="307"):
        await asked(server.url).redeem({"code": CODE})
    assert other.requests == []
    other.close()


@pytest.mark.parametrize("fault", ["hold", "trickle headers", "trickle body"])
async def test_the_deadline_is_for_all_of_it_and_leaves_nothing_behind(server: FaultyServer, fault: Any) -> None:
    server.answer("POST", "/token", ok(granted(padding="x" * 100_000), fault))
    with pytest.raises(Transient, match="no answer"):
        await asked(server.url, BRIEF).redeem({"code": CODE})
    async with asyncio.timeout(AMPLE):  # what a command waits for at its end; the answer would go on for half an hour
        await asyncio.get_running_loop().shutdown_default_executor()


class TestPlainHttp:
    """oauthlib takes it where the environment says so, and that is said for a server on this machine alone."""

    @pytest.fixture(autouse=True)
    def said(self, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        """Every variable that is set."""
        monkeypatch.delenv(INSECURE, raising=False)
        names: list[str] = []
        put = os.putenv

        def putenv(name: bytes, value: bytes) -> None:
            names.append(os.fsdecode(name))
            put(name, value)

        monkeypatch.setattr(os, "putenv", putenv)
        return names

    async def test_on_this_machine(self, server: FaultyServer, said: list[str]) -> None:
        during: list[str | None] = []

        def answer(_: object) -> Answer:
            during.append(os.environ.get(INSECURE))
            return ok(granted())

        server.answer("POST", "/token", answer)
        consent = asked(server.url)
        assert INSECURE not in os.environ
        await consent.redeem({"code": CODE})
        assert INSECURE not in os.environ
        assert during == ["1"]
        assert said.count(INSECURE) == 2

    async def test_nowhere_else(self, said: list[str]) -> None:
        asked(None)
        with pytest.raises(Transient):
            await asked(f"https://{NOBODY}", BRIEF).redeem({"code": CODE})
        assert INSECURE not in said

    @pytest.mark.parametrize(
        ("root", "page"),
        [(f"http://{NOBODY}", None), (f"http://{NOBODY}", "https://example.com"), (None, f"http://{NOBODY}")],
    )
    def test_and_is_refused_there(self, root: str | None, page: str | None) -> None:
        with pytest.raises(LoginFailed, match="over https, or to a server on this machine"):
            Consent(OAuthClient(CLIENT.id, CLIENT.secret, page), root, AMPLE)
