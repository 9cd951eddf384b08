"""`eval`: a model's figures, what they were measured on, and the page of them."""

import hashlib
import json
import os
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, ClassVar

import pytest

from email_assistant import core_yaml
from email_assistant.features.rehearsal.requests import SHIPPED
from tests.doubles import warm
from tests.doubles.model import Model, ModelRequest, broken_tool, tool

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


class TestChat:
    """`eval chat`, for which nothing but a model is there."""

    LOOK = "What is on my calendar today?"
    PLAN = "Plan half an hour with Bob at three."
    ASK = "Move it."
    THANKS = "Thank you."
    REQUESTS: ClassVar[tuple[dict[str, Any], ...]] = (
        {"request": LOOK, "types": ["calendar"], "calls": {"list_events": {"start": ["2026-05-04", "2026-05-04T00*"]}}},
        {
            "request": PLAN,
            "types": [["calendar"], ["calendar", "mail"]],
            "calls": {
                "create_event": {"title": "*bob*", "start": "2026-05-04T15:00*", "attendees": "*bob@example.org*"}
            },
        },
        {"request": ASK, "types": ["calendar", "mail"], "calls": {"request_clarification": {}}},
        {"request": THANKS, "types": [], "words": True},
    )

    @pytest.fixture
    def requests(self, tmp_path: Path) -> str:
        return self.write(tmp_path, self.REQUESTS)

    def write(self, tmp_path: Path, requests: Any) -> str:
        (tmp_path / "requests.json").write_text(json.dumps({"today": "2026-05-04", "requests": requests}))
        return "requests.json"

    def test_what_is_right_is_counted_and_what_is_wrong_is_told(
        self, tmp_path: Path, model: Model, requests: str
    ) -> None:
        model.on_policy("calendar")
        planned = tool(
            "create_event", title="Talk with BOB", start="2026-05-04T16:00", end="2026-05-04T16:30",
            attendees=["Bob <bob@example.org>"],
        )  # fmt: skip
        model.on_chat(
            {
                self.LOOK: [[tool("list_events", start="2026-05-04T00:00:00+02:00", end="2026-05-05")]],
                self.PLAN: [[planned, tool("list_calendars")]],
                self.ASK: ["Where to?"],
                self.THANKS: ["You are welcome."],
            }
        )
        found = said(tmp_path, model, "chat", "--data", requests, "--model", "small", "--yes")
        assert [found[node]["right"] for node in ("router", "executor")] == [2, 2]
        assert found["router"]["wrong"] == {"too few": 1, "too many": 1}
        assert found["executor"]["wrong"] == {"wrong argument": 1, "no call": 1}
        assert found["executor"]["wrong_arguments"] == {"create_event.start": 1}
        low, high = found["router"]["interval"]
        assert 0.06 < low < 0.07
        assert 0.93 < high < 0.94
        assert [(each["number"], each["node"], each["outcome"]) for each in found["wrong"]] == [
            (2, "executor", "wrong argument"),
            (3, "router", "too few"),
            (3, "executor", "no call"),
            (4, "router", "too many"),
        ]
        assert found["wrong"][0]["got"].startswith("create_event(title: Talk with BOB, start: 2026-05-04T16:00,")
        assert (found["model"], found["cost"]["calls"]) == ("small", 8)
        assert found["data_sha256"] == hashlib.sha256((tmp_path / requests).read_bytes()).hexdigest()
        assert not (tmp_path / "home" / "postgres").exists()

        done = run(tmp_path, model, "chat", "--data", requests, "--yes")
        assert "the right types for 2 of 4, 50% (7% to 93%); too many 1, too few 1, other types 0, unreadable 0." in (
            done.stdout
        )
        assert "Wrong arguments: create_event.start 1." in done.stdout
        [line] = [line for line in done.stdout.splitlines() if "Where to?" in line]
        assert [self.ASK in line, "request_clarification()" in line] == [True, True]

    def test_the_model_is_asked_as_a_chat_asks_it(self, tmp_path: Path, model: Model, requests: str) -> None:
        model.on_policy()
        model.on_chat({each["request"]: ["Yes."] for each in self.REQUESTS})
        refused = run(tmp_path, model, "chat", "--data", requests)
        assert refused.returncode == 1
        assert "is asked 8 times, about" in refused.stderr
        assert model.requests == []
        said(tmp_path, model, "chat", "--data", requests, "--yes")
        first = model.calls("policy")[0].text
        assert first.startswith("You are the policy router of the assistant of Ada Keller <ada@example.com>.")
        assert "calendar: list_calendars, list_events, create_event, update_event" in first
        offered = {request.said[-1]: set(request.tools) for request in model.calls("chat")}
        assert offered[self.THANKS] == {"request_clarification"}
        assert {"create_event", "search_mail", "send_email_tool"} < offered[self.ASK]
        assert "It is Monday 4 May 2026, 09:00 (2026-05-04). Timezone: Europe/Berlin." in model.calls("chat")[0].text

    def test_what_cannot_be_read_is_told(self, tmp_path: Path, model: Model) -> None:
        data = self.write(tmp_path, self.REQUESTS[:1])
        model.on_policy("calendar")
        model.fault("policy", times=3, nonsense=True)
        model.on_chat({self.LOOK: [[broken_tool("list_events", "{start")]]})
        found = said(tmp_path, model, "chat", "--data", data, "--yes")
        assert found["router"]["wrong"] == found["executor"]["wrong"] == {"unreadable": 1}
        assert {each["got"] for each in found["wrong"]} == {"no answer that can be read"}

    def test_forty_requests_ship(self, tmp_path: Path, model: Model) -> None:
        shipped = core_yaml.load(SHIPPED.read_text())["requests"]
        model.on_policy("calendar")
        model.on_chat({each["request"]: ["Hello."] for each in shipped})
        found = said(tmp_path, model, "chat", "--yes")
        assert (found["router"]["n"], found["executor"]["n"], found["data"]) == (40, 40, None)
        assert found["router"]["right"] == sum(each["types"] == ["calendar"] for each in shipped)
        assert found["executor"]["right"] == sum("words" in each for each in shipped)
        assert len({each["request"] for each in shipped}) == 40

    @pytest.mark.parametrize(
        ("requests", "reason"),
        [
            ([{**REQUESTS[3], "types": ["weather"]}], "there is no type weather; there are mail, calendar, inbox"),
            ([{**REQUESTS[0], "types": ["mail"]}], "there is no tool list_events among the first types"),
            ([{"request": "Hello.", "types": []}], "nothing is right here: give calls, or words: true"),
            ([{"request": "Hello."}], "requests.0.types: is missing"),
            ([], "requests: "),
        ],
        ids=["type", "tool", "nothing", "no types", "empty"],
    )
    def test_a_file_that_cannot_be_used_is_told_in_one_line(
        self, tmp_path: Path, model: Model, requests: Any, reason: str
    ) -> None:
        done = run(tmp_path, model, "chat", "--data", self.write(tmp_path, requests), "--yes")
        assert (done.returncode, done.stderr.count("\n")) == (1, 1)
        assert "requests.json, line 1: " in done.stderr
        assert reason in done.stderr
        assert model.requests == []

    def test_canned_answers_are_not_measured(self, tmp_path: Path, model: Model) -> None:
        canned = run(tmp_path, model, "chat", "--yes", EMAIL_ASSISTANT_MODEL_STAND_IN="Canned answers.")
        assert canned.returncode == 1
        assert "its answers would say nothing: Canned answers." in canned.stderr
