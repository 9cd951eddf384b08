"""What the model understands and says, by `wording.yaml`, and what of mails that it knows, by `answers.yaml`."""

import re
from pathlib import Path
from typing import Any

import yaml


def _read(name: str) -> Any:
    return yaml.safe_load(Path(__file__).with_name(name).read_text())


def _pattern(wording: str | list[str]) -> re.Pattern[str]:
    expression = wording if isinstance(wording, str) else rf"\b(?:{'|'.join(wording)})\b"
    return re.compile(expression, re.IGNORECASE | re.DOTALL)


_FILE: dict[str, Any] = _read("wording.yaml")
_ANSWERS: list[dict[str, str]] = _read("answers.yaml")
ABILITIES: str = _FILE["abilities"]
SELF_DESCRIPTION = ABILITIES.partition(" It understands")[0]
SAYS: str = _FILE["says"]
PHRASES: dict[str, str] = _FILE["phrases"]
PATTERNS = {name: _pattern(wording) for name, wording in _FILE["patterns"].items()}
ADDRESS = re.compile(r"(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+")  # as people write it in a sentence


def by_rule(rules: str, text: str) -> dict[str, str]:
    """What the first of the file's `rules` says whose expression the text fits; empty: none does."""
    return _first_fitting(_FILE[rules], text)


def canned(sender: str, text: str) -> dict[str, str]:
    """The file's answer to a mail; empty: it has none. What it leaves open stands as {meeting} and {answer}."""
    return _first_fitting([each for each in _ANSWERS if each["sender"] == sender], " ".join(text.split()))


def _first_fitting(rules: list[dict[str, str]], text: str) -> dict[str, str]:
    """With what the expression found in place of `{…}`."""
    for rule in rules:
        if found := re.search(rule["when"], text, re.IGNORECASE | re.MULTILINE):
            facts = {"meeting": "{meeting}", "answer": "{answer}", **found.groupdict()}
            return {name: said.format(**facts) for name, said in rule.items() if name != "when"}
    return {}


def shorten(text: str, limit: int) -> str:
    """At most `limit` characters, cut between words."""
    text = " ".join(text.split())
    return text if len(text) <= limit else text[:limit].rsplit(" ", 1)[0] + " …"


def sentence(text: str) -> str:
    """With a capital at its start and a stop at its end."""
    text = " ".join(text.split())
    stop = "" if text.endswith((".", "!", "?", "…")) else "."
    return f"{text[:1].upper()}{text[1:]}{stop}"
