"""The house rules of the packages: arrows between rooms point one way, and nothing heavy loads for `--help`."""

import ast
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from graphlib import TopologicalSorter
from pathlib import Path
from pkgutil import iter_modules

import pytest

import email_assistant
import email_assistant_servers

PACKAGES = {"email_assistant": email_assistant, "email_assistant_servers": email_assistant_servers}
ROOTS = {name: Path(next(iter(package.__path__))) for name, package in PACKAGES.items()}

FEATURES = {f"features.{folder.name}" for folder in iter_modules([str(ROOTS["email_assistant"] / "features")])}
FLOORS = [
    {"servers.mcp", "servers.ask_seller"},
    FEATURES,
    {"__main__"},
    {"cli"},
    {"daemon", "web"},
    {"app", "metrics"},
    {"home", "toolbox", "work", "sync"},
    {"agents"},
    {"bounces", "tools", "gate", "inbox", "memory", "model", "trail"},
    {"outgoing"},
    {"accounts", "usage"},
    {"google", "mail", "db", "outward", "settings", "programs", "telemetry", "tracing"},
    {"plugins"},
    {"core_yaml", "errors", "files", "meters", "spans", "user_file"},
]
"""From the top: a room may import from its own floor and those below. `servers` is the package beside our own."""

PACKS: dict[str, set[str]] = {"features.auction": set(), "features.toolbench": {"app", "settings", "tracing"}}
"""Features that are agents which have nothing to do with mail: each needs the loop and tools, and no account; with what
else it needs: one that others import opens its models itself. Its command needs the command line, too."""

STANDALONE = {"servers.google_sandbox", "servers.demo_model"}
"""Programs for the demo that stand for somebody else's servers: they have nothing of ours."""

READS_OR_WRITES = {
    *("asyncio", "ftplib", "http", "httplib2", "httpx", "imaplib", "io", "logging", "mmap", "multiprocessing", "os"),
    *("pathlib", "poplib", "psycopg", "requests", "select", "selectors", "shelve", "shutil", "signal", "smtplib"),
    *("socket", "sqlite3", "ssl", "subprocess", "sys", "tempfile", "threading", "time", "urllib.request", "urllib3"),
}
"""Modules through which code reaches files, networks, processes or the clock."""

COLLABORATORS = {
    *("Accounts", "Clients", "Conversations", "Corrections", "Driver", "DueWork", "FencedSaver", "Handover", "Inbox"),
    *("Forgetting",),
    *("KeyedOutbox", "Labels", "Learner", "Ledger", "MailAgent", "Mailboxes", "Mails", "Memory", "Models", "PastMails"),
    *(
        "ModelServers",
        "Questions",
        "Queue",
        "Registry",
        "Removal",
        "Runs",
        "Settler",
        "Teaching",
        "Usage",
        "Vault",
        "Watches",
    ),
}
"""What is made once, by the composition root, and handed to everything else."""

MOST_LINES = 450
SAME_NAME: dict[str, str] = {
    "Labels": "Gmail's on a mail, and the gate's on a tool",
    "MailRow": "a row as work goes on with it, and as the pages list it",
    "Outcome": "of a run that went on, and of an answer among several",
    "Source": "a file that a person wrote, and a text that facts may come from",
}
"""Class names that mean two things on purpose, each with why; five at most."""

HEAVY = {
    *("fastapi", "googleapiclient", "langchain", "langchain_core", "langchain_openai", "langfuse", "langgraph"),
    *("google_auth_oauthlib", "mcp", "openai"),
    *("numpy", "psycopg", "scipy", "sklearn", "textual"),
}


@dataclass(frozen=True)
class Module:
    package: str
    name: str
    """Below the package, with dots; a package is named for itself. Those beside our own are below `servers`."""
    path: Path
    tree: ast.Module

    @property
    def room(self) -> str:
        return _room(self.name)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        return list(ast.walk(self.tree))

    @cached_property
    def imports(self) -> list[str]:
        """Full names of the modules that it names in imports, wherever in the file they stand."""
        return list(self._imports())

    @cached_property
    def strings(self) -> list[str]:
        """Every text that stands in it, docstrings included."""
        return [node.value for node in self.nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]

    def _imports(self) -> Iterator[str]:
        for node in self.nodes:
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                base = self._absolute(node)
                # `from package import module` names the module only in its second half.
                yield from (f"{base}.{a.name}" if _is_module(f"{base}.{a.name}") else base for a in node.names)

    @cached_property
    def rooms(self) -> set[str]:
        """Other rooms that it imports from."""
        ours = {_below(name) for name in self.imports if name.partition(".")[0] in PACKAGES}
        return {_room(name) for name in ours if name not in ("", "servers")} - {self.room}

    def _absolute(self, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        inside = [self.package, *self.name.removeprefix("servers.").split(".")]
        up = node.level - (self.path.name == "__init__.py")
        return ".".join([*inside[: len(inside) - up], *([node.module] if node.module else [])])


def _is_module(name: str) -> bool:
    package, *below = name.split(".")
    if package not in ROOTS:
        return False
    path = ROOTS[package].joinpath(*below)
    return path.is_dir() or path.with_suffix(".py").is_file()


def _below(name: str) -> str:
    """A module's name within the house."""
    package, _, below = name.partition(".")
    return below if package == "email_assistant" else f"servers.{below}".rstrip(".")


def _room(name: str) -> str:
    parts = name.split(".")
    own = ".".join(parts[:2])
    return own if parts[0] in ("servers", "features") else parts[0]


@cache
def modules() -> list[Module]:
    found = []
    for package, root in ROOTS.items():
        for path in sorted(root.rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            name = _below(".".join([package, *(parts[:-1] if parts[-1] == "__init__" else parts)]))
            if name not in ("", "servers", "features"):
                found.append(Module(package, name, path, ast.parse(path.read_text())))
    return found


@cache
def imported_by(room: str) -> set[str]:
    return set().union(*(module.rooms for module in modules() if module.room == room))


def of_pack(pack: str) -> list[Module]:
    """Its modules, without that of its command."""
    return [module for module in modules() if module.room == pack and module.name != f"{pack}.command"]


@cache
def loaded_with_packs() -> set[str]:
    """All that an interpreter holds which has loaded every module of every pack."""
    script = (
        "import importlib, json, sys\n"
        f"for name in {sorted(module.name for pack in PACKS for module in of_pack(pack))}:\n"
        "    importlib.import_module(f'email_assistant.{name}')\n"
        "print(json.dumps(sorted(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    return set(json.loads(done.stdout))


def floor_of(room: str) -> int:
    return next(number for number, floor in enumerate(FLOORS) if room in floor)


def rooms() -> set[str]:
    return {module.room for module in modules()}


class TestArrows:
    def test_the_parser_sees_what_is_there(self) -> None:
        """A guard for this file: if nothing were found, nothing below could fail."""
        assert {"accounts", "db", "work", "tools"} < imported_by("app")
        assert {"app", "cli", "tools"} < imported_by("servers.mcp")
        assert {name for module in modules() if module.room == "servers.google_sandbox" for name in module.imports} > {
            "email_assistant_servers.google_sandbox.mailbox",  # relative there
            "uvicorn",
        }
        assert "lxml" in {name for module in modules() if module.room == "mail" for name in module.imports}
        assert {module.name for module in modules()} > {"app", "agents.loop", "agents.mail.graph"}
        [parse] = [module for module in modules() if module.name == "mail.parse"]
        assert "email_assistant.mail.charset" in parse.imports

    def test_every_room_has_its_floor(self) -> None:
        assert rooms() <= set().union(*FLOORS) | STANDALONE

    @pytest.mark.parametrize(
        "room",
        [room for floor in FLOORS for room in sorted(floor & rooms())],
    )
    def test_they_point_down(self, room: str) -> None:
        upward = {other for other in imported_by(room) - STANDALONE if floor_of(other) < floor_of(room)}
        assert upward == set()

    def test_no_rooms_need_each_other(self) -> None:
        list(TopologicalSorter({room: imported_by(room) for room in rooms()}).static_order())  # raises CycleError

    @pytest.mark.parametrize("room", ["google", "mail", "db", "settings", "telemetry", *sorted(STANDALONE)])
    def test_these_import_no_other_room(self, room: str) -> None:
        assert imported_by(room) <= {"errors", "files", "meters", "spans"}

    def test_only_what_is_started_as_a_command_imports_the_command_line(self) -> None:
        users = {room for room in rooms() if "cli" in imported_by(room)} - FEATURES
        assert users == {"__main__", "servers.mcp", "servers.ask_seller"}

    def test_the_spine_imports_no_feature_and_no_feature_another(self) -> None:
        users = {(room, each) for room in rooms() for each in imported_by(room) & FEATURES}
        assert users == {("servers.ask_seller", "features.auction"), ("servers.mcp", "features.mcp_doors")}

    def test_only_the_finder_names_features(self) -> None:
        naming = {m.name for m in modules() if m.room not in FEATURES if any("features." in t for t in m.strings)}
        assert naming == {"plugins"}

    def test_the_program_imports_no_server(self) -> None:
        """It starts them, by a name that one module knows."""
        ours = [module for module in modules() if module.package == "email_assistant"]
        assert not {module.name for module in ours for name in module.imports if "email_assistant_servers" in name}
        naming = {module.name for module in ours for text in module.strings if "email_assistant_servers." in text}
        assert naming == {"programs"}

    def test_only_the_command_line_imports_the_pages(self) -> None:
        assert {room for room in rooms() if "web" in imported_by(room)} - FEATURES == {"cli"}

    def test_agents_know_neither_queue_nor_pages(self) -> None:
        assert not imported_by("agents") & {"work", "sync", "web", "app"}

    @pytest.mark.parametrize("room", ["agents", "sync"])
    def test_only_the_queue_and_the_composition_root_import(self, room: str) -> None:
        users = {other for other in rooms() - FEATURES if room in imported_by(other)}
        assert users <= {"work", "daemon", "app"}

    @pytest.mark.parametrize("pack", sorted(PACKS))
    def test_a_pack_has_nothing_of_mail(self, pack: str) -> None:
        needs = set().union(*(module.rooms for module in of_pack(pack)))
        assert needs <= {"agents", "errors", "gate", "model", "plugins", "programs", "tools", "user_file"} | PACKS[pack]
        loaded = loaded_with_packs()
        assert {f"email_assistant.{pack}", "email_assistant.agents.loop"} < loaded
        assert not loaded & {"psycopg", "googleapiclient", "google_auth_oauthlib", "httplib2"}
        rooms_of_mail = (
            "accounts",
            "inbox",
            "memory",
            "work",
            "sync",
            "trail",
            "agents.mail",
            "agents.chat",
        )
        assert not {name for name in loaded if name.startswith(tuple(f"email_assistant.{r}" for r in rooms_of_mail))}

    @pytest.mark.parametrize("pack", sorted(PACKS))
    def test_a_pack_is_small(self, pack: str) -> None:
        """With its command and its server; lines that hold something."""
        rooms_of_it = {"features.auction": {pack, "servers.ask_seller"}, "features.toolbench": {pack}}[pack]
        inside = [module for module in modules() if module.room in rooms_of_it]
        assert 0 < sum(bool(line.strip()) for module in inside for line in module.path.read_text().splitlines()) < 1100

    @pytest.mark.parametrize(
        ("name", "users"),
        [
            ("servers.google_sandbox", {"cli.demo", "programs"}),
            ("servers.demo_model", {"cli.demo", "programs"}),
        ],
    )
    def test_only_the_demo_starts_servers_that_stand_for_others(self, name: str, users: set[str]) -> None:
        assert not [module.name for module in modules() if name in module.rooms]
        last = name.rpartition(".")[2]
        naming = {
            module.name
            for module in modules()
            if module.room != name and any(text.rpartition(".")[2] == last for text in module.strings)
        }
        assert naming == users


class TestSize:
    def test_no_file_is_longer_than_a_reader_keeps_in_mind(self) -> None:
        long = {module.name for module in modules() if len(module.path.read_text().splitlines()) > MOST_LINES}
        assert long == set()

    def test_a_class_name_means_one_thing(self) -> None:
        found = Counter(node.name for module in modules() for node in module.nodes if isinstance(node, ast.ClassDef))
        assert {name for name, count in found.items() if count > 1} - set(SAME_NAME) == set()
        assert len(SAME_NAME) <= 5


class TestPurity:
    def test_the_mail_room_neither_reads_nor_writes_anything(self) -> None:
        inside = [module for module in modules() if module.room == "mail"]
        imported = {name for module in inside for name in module.imports if not name.startswith("email_assistant")}
        tops = {name.partition(".")[0] for name in imported}
        assert not (imported | tops) & READS_OR_WRITES
        assert tops - sys.stdlib_module_names == {"chardet", "lxml", "nh3", "tzlocal"}
        called = {
            node.func.id
            for module in inside
            for node in module.nodes
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        }
        assert not called & {"open", "print", "input", "exec", "eval", "__import__"}

    def test_what_may_be_missing_is_not_looked_up_by_next_without_a_default(self) -> None:
        """In a coroutine its StopIteration would be a RuntimeError, and in a generator an end; `next` of what never
        ends, by its name, is something else."""
        bare = [
            f"{module.name}:{node.lineno}"
            for module in modules()
            for node in module.nodes
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "next"
            if len(node.args) == 1 and not isinstance(node.args[0], ast.Name)
        ]
        assert bare == []

    @pytest.mark.parametrize(
        "room",
        sorted(rooms() - {"app", "daemon"}),
    )
    def test_only_the_composition_root_makes_collaborators(self, room: str) -> None:
        made = {
            (module.name, node.func.id)
            for module in modules()
            if module.room == room
            for node in module.nodes
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in COLLABORATORS
        }
        assert made == set()


class TestStart:
    def test_help_loads_nothing_heavy(self) -> None:
        """One interpreter for all of them, as a cold one takes a second."""
        script = (
            "import json, runpy, sys\n"
            "for words in ['', 'up', 'inbox', 'inbox list', 'mcp']:\n"
            "    sys.argv = ['email-assistant', *words.split(), '--help']\n"
            "    try:\n"
            "        runpy.run_module('email_assistant', run_name='__main__')\n"
            "    except SystemExit as end:\n"
            "        assert not end.code, end.code\n"
            "print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})), file=sys.stderr)\n"
        )
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("Usage") == 5
        loaded = set(json.loads(done.stderr.splitlines()[-1]))
        assert "typer" in loaded
        assert not loaded & HEAVY

    def test_most_commands_load_neither_models_nor_tools(self) -> None:
        names = "json, sys, email_assistant.app, email_assistant.google.login"  # `doctor` needs the latter for the time
        script = f"import {names}; print(json.dumps(sorted(sys.modules)))"
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=30, check=True)
        loaded = set(json.loads(done.stdout))
        assert "psycopg" in loaded
        assert not loaded & {"google_auth_oauthlib", "openai", "langchain_core", "mcp", "sklearn"}
