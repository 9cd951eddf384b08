"""`eval`: a model's figures, what they were measured on, and the page of them."""

import hashlib
import json
import os
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from tests.doubles import warm
from tests.doubles.model import Model, ModelRequest

LABELS = {"Report?": "respond", "Minutes": "notify", "Offer <b>now</b>": "ignore"}
BODIES = {**dict.fromkeys(range(9), "Unclear."), 9: "Odd."}
EVIL = '<script>alert("x")</script>'


@pytest.fixture
def labelled(tmp_path: Path) -> Path:
    """60 mails, two thirds of them made up; of nine it is hard to tell what they need, and of one it is odd."""
    lines = [
        {
            "id": f"m{number}", "from": "Bob <bob@example.org>", "to": ["Ada <ada@example.com>"], "cc": [],
            "subject": subject, "body": BODIES.get(number, "Clear.") if label == "notify" else "Clear.",
            "label": label, "source": "real" if label == "respond" else "synthetic_llm",
        }
        for number in range(20) for subject, label in LABELS.items()
    ]  # fmt: skip
    path = tmp_path / f"{EVIL.replace('/', '_')}.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def run(home: Path, model: Model, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        warm.command("-m", "email_assistant", "eval", *arguments),
        env={
            "PATH": os.environ["PATH"], "HOME": str(home), "EMAIL_ASSISTANT_HOME": str(home / "home"),
            "OPENAI_API_KEY": "key", "OPENAI_BASE_URL": model.root, **settings,
        },
        cwd=home, capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL,
    )  # fmt: skip


def said(*given: Any) -> Any:
    done = run(*given, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def classes(request: ModelRequest) -> str:
    return {"Unclear.": "respond", "Odd.": "perhaps"}.get(request.mail.text, LABELS[request.mail.subject])


class Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs


def test_a_model_is_asked_by_the_agents_own_prompt_once_its_price_was_told(
    tmp_path: Path, model: Model, labelled: Path
) -> None:
    model.on_triage(classes)
    stage = ["triage", "--data", labelled.name, "--stage", "model", "--model", "small"]
    prices = json.dumps({"small": {"prompt": 1000, "completion": 1000}})
    refused = run(tmp_path, model, *stage, EMAIL_ASSISTANT_PRICES=prices)
    assert refused.returncode == 1
    assert "small is asked 60 times, about" in refused.stderr
    canned = run(tmp_path, model, *stage, "--yes", EMAIL_ASSISTANT_MODEL_STAND_IN="Canned answers.")
    assert canned.returncode == 1
    assert "its answers would say nothing: Canned answers." in canned.stderr
    assert model.requests == []

    found = said(tmp_path, model, *stage, "--yes", "--report", "figures.html")
    assert len(model.requests) == 62  # the odd one's was asked for twice more
    first = model.requests[0]
    assert first.text.startswith("Sort an e-mail for Ada <ada@example.com>.")
    assert first.mail.headers["from"] == "Bob <bob@example.org>"
    assert (found["n"], found["accuracy"], found["model"]) == (60, 50 / 60, "small")
    assert found["confusion"]["notify"] == {"no answer": 1, "notify": 10, "respond": 9}
    assert found["per_class"]["respond"]["precision"] == 20 / 29
    assert found["synthetic"] == 2 / 3
    assert found["data_sha256"] == hashlib.sha256(labelled.read_bytes()).hexdigest()
    tokens = sum(request.prompt_tokens for request in model.requests)
    assert found["cost"]["prompt_tokens"] == tokens
    assert found["cost"]["tokens_of_a_mail"] > tokens / 60

    text = (tmp_path / "figures.html").read_text()
    page = Page(text)
    assert {"script", "link", "img", "iframe"}.isdisjoint(page.tags)
    assert not [name for name, _ in page.attributes if name in ("style", "src", "href") or name.startswith("on")]
    assert "default-src 'none'; style-src 'sha256-" in text
    assert page.tags.count("svg") == 4
    assert "83% (71% to 92%)" in text
    assert "all mails (60)" in text
    assert f"{found['cost']['tokens_of_a_mail']:,.0f} tokens; 83% right" in text
    again = run(tmp_path, model, *stage, "--yes", "--report", "figures.html")
    assert (again.returncode, "figures.html is there already" in again.stderr) == (1, True)
    assert "67% of the mails are made up" in text


def test_the_page_of_the_classifier_shows_how_well_its_confidence_holds(
    tmp_path: Path, model: Model, labelled: Path
) -> None:
    found = said(tmp_path, model, "triage", "--data", labelled.name, "--report", "figures.html")
    text = (tmp_path / "figures.html").read_text()
    assert text.count("<circle") == len(found["calibration"])
    assert EVIL.replace("/", "_") not in text
    assert found["model"] is None
    done = run(tmp_path, model, "triage", "--data", labelled.name, "--report", "none/figures.html")
    assert "can't be written" in done.stderr


def test_letters_are_measured_by_week_and_kind(tmp_path: Path, model: Model) -> None:
    same = "I will bring the contract to you. See you at three."
    lines = [
        {"proposed": same, "sent": same, "at": "2026-03-04T10:00:00Z"},
        {"proposed": same, "sent": "I will bring the contract to you. Call me.", "at": "2026-03-08T23:00:00Z"},
        {"proposed": same, "sent": "No, thank you very much.", "at": "2026-03-09T00:00:00Z", "kind": EVIL},
    ]
    (tmp_path / "letters.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = said(tmp_path, model, "drafts", "--data", "letters.jsonl", "--report", "drafts.html")
    assert [(each["name"], each["letters"], each["share"]) for each in found["weeks"]] == [
        ("2026-03-02", 2, 0.75),
        ("2026-03-09", 1, 0),
    ]
    assert (found["all"]["share"], found["all"]["unchanged"]) == (0.5, 1)
    assert found["all"]["distance"] == pytest.approx((4 + 10) / 11 / 3)
    low, high = found["weeks"][1]["interval"]
    assert (low, high) == (0, 1)  # of one letter nothing is known
    text = (tmp_path / "drafts.html").read_text()
    assert EVIL not in text
    assert "&lt;script&gt;" in text
    (tmp_path / "letters.jsonl").write_text('{"proposed": 7}')
    wrong = run(tmp_path, model, "drafts", "--data", "letters.jsonl")
    assert (wrong.returncode, wrong.stderr.count("\n")) == (1, 1)
    assert "line 1 of letters.jsonl is no JSON object" in wrong.stderr


@pytest.mark.long
def test_the_cascade_asks_the_model_about_what_is_not_proven_yet(tmp_path: Path, model: Model) -> None:
    model.on_triage("notify")
    lines = [
        {"id": f"m{number}", "to": ["ada@example.com"], "subject": subject, "body": f"Clear {number}.", "label": label}
        for number in range(800)
        for subject, label in list(LABELS.items())[:2]
    ]
    (tmp_path / "many.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = said(tmp_path, model, "triage", "--data", "many.jsonl", "--stage", "cascade", "--yes")
    assert found["cost"]["mails"] == len(model.requests)
    # Its first look is at 300 clean cases of a class; one in ten of those that it may decide is checked.
    assert 700 < len(model.requests) < 850
    assert found["coverage"] == pytest.approx(1 - len(model.requests) / 1600)
    assert (found["error_in_coverage"], found["proven"]) == (0, True)
