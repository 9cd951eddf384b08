"""What `deploy/compose.yaml` starts, read as Docker Compose reads it (https://docs.docker.com/reference/compose-file/)."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dotenv import dotenv_values

from tests.deploy import COMPOSE, documents

_REQUIRED = re.compile(r"\$\{(\w+):\?[^}]+\}")
"""The one form of interpolation that the file uses."""


@dataclass(frozen=True)
class Service:
    command: Sequence[str]
    environment: Mapping[str, str]
    replicas: int
    health: Sequence[str]
    """The command that tells whether it is well; none for most."""


def services(env_file: Path) -> dict[str, Service]:
    """All services by name, with the variables of `env_file` in place of deploy/.env. Raises KeyError if one lacks."""
    given = {name: value or "" for name, value in dotenv_values(env_file).items()}
    [content] = documents(COMPOSE.read_text())
    return {name: _service(service, given) for name, service in content["services"].items()}


def _service(service: Mapping[str, Any], given: Mapping[str, str]) -> Service:
    file = service.get("env_file")
    assert file in (None, ".env")
    own = {name: _interpolated(value, given) for name, value in service["environment"].items()}
    return Service(
        command=service["command"],
        environment={**(given if file else {}), **own},
        replicas=service.get("deploy", {}).get("replicas", 1),
        health=service.get("healthcheck", {}).get("test", [])[1:],
    )


def _interpolated(value: str, given: Mapping[str, str]) -> str:
    whole = _REQUIRED.sub(lambda found: given[found[1]], value)
    assert "$" not in _REQUIRED.sub("", value), value
    return whole
