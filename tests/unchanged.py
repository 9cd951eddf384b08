"""Leaves out the tests of stand-ins while nothing that they touch has changed since a commit where they were green.

`BASE` in the environment names that commit. What a test touches: every module that it imports, near or far; every
program that it starts, with all that this imports; whatever lies beside those modules (SQL, data, templates); and what
chooses the versions of libraries. Unset, or where git does not know the commit, nothing is left out.
"""

import ast
import os
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
OF_STAND_INS = (
    *("unit/test_doubles.py", "unit/test_chat_doubles.py", "contract/test_google_sandbox.py"),
    *("contract/test_google_doubles.py", "contract/test_demo_model.py", "contract/outsiders/test_google_doubles.py"),
    *("contract/outsiders/test_acceptance_emulator.py", "contract/outsiders/test_fault_table.py"),
)
"""Files whose tests are about Google or a model as somebody plays them, not about the program."""

_SOURCES = {"email_assistant": ROOT, "tests": ROOT, "email_assistant_servers": ROOT / "servers"}
_PROGRAM = "email_assistant"
_STARTS_THE_PROGRAM = ROOT / "tests/doubles/nursery.py"
_VERSIONS = ("pyproject.toml", "uv.lock", "package.json", "package-lock.json", "requirements.txt")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    changed = _changed_since(os.environ.get("BASE"))
    if changed is None:
        return
    files = {ROOT / "tests" / name for name in OF_STAND_INS}
    unchanged = {file for file in files if not changed & touched(file)}
    left = [item for item in items if item.path in unchanged]
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if item not in set(left)]


def touched(test: Path) -> set[Path]:
    """The files that the outcome of a file's tests may rest on."""
    modules = {*_reached(test), *_conftests(test)}
    if _STARTS_THE_PROGRAM in modules:
        modules |= set((ROOT / _PROGRAM).rglob("*.py"))
    beside = {file for module in modules - {test} for file in _data_of(module.parent)}
    return modules | beside


def _reached(start: Path) -> set[Path]:
    """What a module imports, near or far, and what it starts by name."""
    found, left = set[Path](), [start]
    while left:
        module = left.pop()
        if module not in found:
            found.add(module)
            left.extend(_next(module))
    return found


@cache
def _next(module: Path) -> tuple[Path, ...]:
    names = set(_named(ast.parse(module.read_text()), _name(module)))
    files = {file for name in names for file in _files(name)}
    return tuple(files)


def _named(tree: ast.Module, inside: str) -> Iterator[str]:
    """Modules that a file names, in imports or as the text by which a program is started."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join([*inside.split(".")[: -node.level], node.module or ""]) if node.level else node.module or ""
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and "." in node.value:
            yield from (node.value, f"{node.value}.__main__")


@cache
def _files(name: str) -> tuple[Path, ...]:
    """The file of a module, and those of the packages that it lies in."""
    top, *below = name.split(".")
    if top not in _SOURCES or not all(part.isidentifier() for part in below):
        return ()
    path, root = _SOURCES[top].joinpath(top, *below), _SOURCES[top] / top
    packages = [parent / "__init__.py" for parent in (path, *path.parents) if parent.is_relative_to(root)]
    return tuple(file for file in [path.with_suffix(".py"), *packages] if file.is_file())


def _name(module: Path) -> str:
    source = next(root for name, root in _SOURCES.items() if module.is_relative_to(root / name))
    return ".".join(module.relative_to(source).with_suffix("").parts)


def _conftests(test: Path) -> set[Path]:
    beside = [parent / "conftest.py" for parent in test.parents if parent.is_relative_to(ROOT / "tests")]
    return {module for conftest in beside if conftest.is_file() for module in _reached(conftest)}


@cache
def _data_of(folder: Path) -> tuple[Path, ...]:
    """What is no module and lies in the folder of one, or below it."""
    files = [file for file in folder.rglob("*") if file.suffix not in (".py", ".pyc") and file.is_file()]
    return tuple(file for file in files if "node_modules" not in file.parts and ".venv" not in file.parts)


def _changed_since(base: str | None) -> set[Path] | None:
    """None: not known, or one of the files by which the libraries are chosen is among them."""
    if not base:
        return None
    command = ["git", "diff", "--name-only", "-z", base, "--"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    changed = {ROOT / name for name in done.stdout.split("\0") if name}
    if done.returncode or any(file.name in _VERSIONS or file.is_relative_to(ROOT / ".ci") for file in changed):
        return None
    return changed
