"""The documents: what they name is there. `integration/test_documents.py` runs their commands."""

import re
import shlex
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer.main

from email_assistant.cli import app as command_line
from email_assistant.plugins import features
from email_assistant.settings import Settings
from email_assistant.settings.environment import FromEnvironment
from tests.documents import ROOT, Document, documents
from tests.named import names_in

DOCUMENTS = documents()
ARCHITECTURE = next(document for document in DOCUMENTS if document.name == "docs/architecture.md")

LANGUAGES = {"sh", "python", "text", "yaml", "json", "ini", "toml", "nginx", "dockerfile", "mermaid"}
"""What a block of code may be in. None without a language: it could be a command that no test looks at."""

each = pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.name)


def anchors(document: Document) -> set[str]:
    """The places that a link may lead to, as GitHub names them."""
    headings = re.findall(r"^#+ (.+)$", document.prose, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


class TestReadme:
    def test_it_is_read_in_three_minutes(self) -> None:
        assert len(DOCUMENTS[0].text.splitlines()) <= 150

    def test_its_picture_is_there_and_of_modest_size(self) -> None:
        [picture] = re.findall(r"!\[[^\]]{20,}\]\(([^)]+)\)", DOCUMENTS[0].text)
        assert (ROOT / picture).read_bytes().startswith(b"\x89PNG")
        assert (ROOT / picture).stat().st_size <= 150_000

    def test_it_leads_to_every_page(self) -> None:
        linked = set(re.findall(r"\]\((docs/[\w-]+\.md)\)", DOCUMENTS[0].text))
        assert linked >= {document.name for document in DOCUMENTS if document.name.startswith("docs/")}


@each
def test_every_block_says_what_it_is_in(document: Document) -> None:
    assert {language for language, _ in document.blocks} <= LANGUAGES


@each
def test_links_lead_somewhere(document: Document) -> None:
    by_path = {other.path: other for other in DOCUMENTS}
    lost = []
    for link in re.findall(r"\]\(([^)\s]+)\)", document.prose):
        target, _, anchor = link.partition("#")
        if target.startswith(("https:", "http:")):
            continue
        path = (document.path.parent / target).resolve() if target else document.path
        if not path.exists() or (anchor and anchor not in anchors(by_path[path])):
            lost.append(link)
    assert lost == []


@each
def test_commands_in_its_sentences_are_there(document: Document) -> None:
    """As far as a command line tells before it is run: names and options."""
    wrong = [span for span in [*document.spans, *document.commands] if not is_known(span)]
    assert wrong == []


def is_known(span: str) -> bool:
    """False if it is a command of ours that there is not, or with an option that it does not take."""
    words = shlex.split(span.replace("…", "")) if span.count('"') % 2 == 0 and "'" not in span else span.split()
    if "email-assistant" in words:
        words = words[words.index("email-assistant") + 1 :]
    command = _ours()
    if not words or words[0] not in _below(command):
        return True
    taken = _options(command)
    while words and words[0] in _below(command):
        command = _below(command)[words.pop(0)]
        taken |= _options(command)
    if words and _below(command) and re.fullmatch(r"[a-z-]+", words[0]) and not words[0].startswith("-"):
        return False
    return {word.partition("=")[0] for word in words if word.startswith("--")} <= taken


@cache
def _ours() -> Any:
    return typer.main.get_command(command_line)


def _below(command: Any) -> dict[str, Any]:
    """The commands of a group."""
    return getattr(command, "commands", {})


def _options(command: Any) -> set[str]:
    """What it takes; of `chat`, also what stands behind it without `ask`."""
    commands = [command, *(below for name, below in _below(command).items() if name == "ask")]
    return {"--help"} | {option for each in commands for parameter in each.params for option in parameter.opts}


@each
def test_settings_that_it_names_are_there(document: Document) -> None:
    kinds: list[type[FromEnvironment]] = [Settings, *(feature.settings() for feature in features() if feature.settings)]
    variables = {f"EMAIL_ASSISTANT_{name.upper()}" for kind in kinds for name in kind.model_fields}
    named = set(re.findall(r"\bEMAIL_ASSISTANT_[A-Z_]+[A-Z]\b", document.text))
    elsewhere = {
        "EMAIL_ASSISTANT_CHAOS_KILLS",
        "EMAIL_ASSISTANT_CHAOS_SOAK",
        "EMAIL_ASSISTANT_GATE_URL",
    }  # of tests, of agents
    assert named <= variables | elsewhere


class TestComingFrom:
    """Each row of its tables ends with what shows it: tests that are there, or pages."""

    PAGE = next(document for document in DOCUMENTS if document.name == "docs/coming-from.md")

    def test_every_row_names_a_test_or_a_page(self) -> None:
        rows = re.findall(r"^\| (?!there \|)(.*) \| ([^|]+) \|$", self.PAGE.text, re.MULTILINE)
        assert len(rows) > 160
        assert [
            row for row, shown in rows if not re.fullmatch(r"(?:(?:`tests/[^`]+`|\[[^]]+\]\(.+?\))(?:, |$))+", shown)
        ] == []

    def test_every_test_that_it_names_is_there(self) -> None:
        assert [span for span in self.PAGE.spans if span.startswith("tests/") and not is_there(span)] == []


def is_there(test: str) -> bool:
    """A file of tests; with a name behind it, a class or function of that name in it."""
    path, _, name = test.partition("::")
    file = ROOT / path
    return file.is_file() and (not name or any(f"{each.name}::".startswith(f"{name}::") for each in names_in(file)))


class TestArchitecture:
    def test_every_file_that_it_names_is_there(self) -> None:
        missing = [path for path in named_paths() if not located(path).exists()]
        assert missing == []

    def test_what_it_names_in_a_file_is_there(self) -> None:
        """As in `db/lease.py: claim`."""
        missing = []
        for path, names in re.findall(r"`([\w/]+\.py): ([\w ,]+)`", ARCHITECTURE.text):
            source = located(path).read_text()
            missing += [
                f"{path}: {name}" for name in re.findall(r"\w+", names) if not re.search(rf"\b{name}\b", source)
            ]
        assert missing == []

    def test_every_room_is_in_it(self) -> None:
        rooms = {
            f"{folder.relative_to(ROOT / base)}/"
            for base, within in (("email_assistant", "*"), (".", "servers/*/*"))
            for folder in (ROOT / base).glob(within)
            if (folder / "__init__.py").exists()
        }
        assert len(rooms) > 10
        assert rooms <= named_paths()

    def test_its_glossary_is_short(self) -> None:
        words = glossary()
        assert len(words) <= 33
        assert words == sorted(words)


def named_paths() -> set[str]:
    """Files and folders between backticks, which end like one."""
    paths = {span.partition(":")[0] for span in ARCHITECTURE.spans}
    return {path for path in paths if re.fullmatch(r"[\w./-]+(/|\.(py|md|json|example))", path)}


def located(path: str) -> Path:
    at_root = path.startswith(("email_assistant/", "servers/", "tests/", "docs/", "."))
    return ROOT / path if at_root else ROOT / "email_assistant" / path


def glossary() -> list[str]:
    rows = ARCHITECTURE.text.partition("## Glossary")[2]
    return re.findall(r"^\| (?!word \|)([a-z]+) \|", rows, re.MULTILINE)
