"""PyPI's myworld: Gmail and Calendar of somebody else's making, as a process on a loopback port."""

import subprocess
import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

import httpx

from tests.doubles.ports import NotStarted, free_port
from tests.doubles.proxy import Proxy, Upstream

_START_SECONDS = 60


@dataclass(frozen=True)
class World:
    """One person's account there."""

    host: str
    token: str
    """Access and refresh token in one."""

    def service(self, name: str) -> str:
        """Where one of Google's hosts is."""
        return f"{self.host}/gw/{name}.googleapis.com"


class MyWorld:
    """The process; one holds any number of accounts."""

    def __init__(self) -> None:
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        command = [str(Path(sys.executable).with_name("myworld")), "serve", "--port", str(port)]
        self._child = subprocess.Popen([*command, "--log-level", "error"], stdout=subprocess.DEVNULL)

    def __enter__(self) -> Self:
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline and self._child.poll() is None:
            try:
                httpx.get(f"{self.url}/healthz", trust_env=False)
                return self
            except httpx.TransportError:
                time.sleep(0.05)
        raise NotStarted("myworld")

    def __exit__(self, *_: object) -> None:
        self._child.kill()
        self._child.wait()

    def account(self, address: str, timezone: str) -> World:
        """A new account, with nothing in it."""
        user = {"email": address, "name": address.partition("@")[0].title()}
        seeds = {
            "gmail": {"user": user, "labels": [], "emails": []},
            "calendar": {"user": user, "timeZone": timezone, "events": []},
        }
        spec = {
            "name": "account",
            "task": "",
            "now": datetime.now(UTC).isoformat(),
            "servers": {name: {"seed": seed} for name, seed in seeds.items()},
        }
        made = httpx.post(f"{self.url}/envs", json={"spec": spec, "time": "realtime"}, trust_env=False)
        made.raise_for_status()
        [login] = made.json()["credentials"].values()
        return World(self.url, login["google_access_token"])


class MyWorldGoogle(Proxy):
    """One account there behind our front, which brings the token endpoint to where the others have it."""

    def __init__(self, host: MyWorld, address: str, timezone: str) -> None:
        world = host.account(address, timezone)
        upstreams = {
            "/token": Upstream(world.service("oauth2") + "/token"),
            "/revoke": Upstream(world.service("oauth2") + "/revoke"),
            "/gmail": Upstream(world.service("gmail") + "/gmail"),
            "/calendar": Upstream(world.service("www") + "/calendar"),
        }
        super().__init__(address, upstreams)
        self.login = {"client_id": "client-id", "client_secret": "client-secret", "refresh_token": world.token}
