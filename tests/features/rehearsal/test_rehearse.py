"""`rehearse` and `eval`, as commands."""

import csv
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.doubles import warm
from tests.histories import ALIAS, PERSON, Person

Start = Callable[..., list[str]]
OWN = ["--address", PERSON, "--address", f"Vera <{ALIAS}>"]


def run(home: Path, *arguments: str, start: Start = warm.command) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        start("-m", "email_assistant", *arguments),
        env={"PATH": os.environ["PATH"], "HOME": str(home), "EMAIL_ASSISTANT_HOME": str(home / "home")},
        cwd=home,
        capture_output=True,
        text=True,
        timeout=300,
    )


def said(home: Path, *arguments: str, start: Start = warm.command) -> Any:
    done = run(home, *arguments, "--json", start=start)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rehearse")
    (folder / "mail.mbox").write_bytes(Person(41, threads=False, labels=True).history(500, days=250).mbox)
    (folder / "bare.mbox").write_bytes(Person(42).history(60).mbox)
    return folder


def test_it_tells_what_would_have_been_shown(home: Path) -> None:
    done = run(home, "rehearse", "--mbox", "mail.mbox", *OWN)
    assert done.returncode == 0, done.stderr
    found = said(home, "rehearse", "--mbox", "mail.mbox", *OWN)
    low, high = found["ways"]["ours"]["interval"]
    assert done.stdout.startswith(
        f"Of {found['answered']:,} later mails that you answered, I would have shown you {found['shown_answered']:,}: "
        f"{found['shown_answered'] / found['answered']:.0%} ({low:.0%} to {high:.0%}). In all I would have shown "
        f"{found['shown']:,} of {found['mails']:,} mails.\n"
    )
    for missed in found["missed"][:20]:
        assert missed["sender"] in done.stdout
        assert missed["subject"] in done.stdout
    told = " ".join(done.stdout.split())
    assert found["go_by"] in told
    assert list(found["ways"]) == ["everything", "addressed_to_few", "written_to", "ours"]
    for way in found["ways"].values():
        assert f"{way['name']} {way['shown']:,} {way['caught']:,}: " in told


def test_the_scores_are_the_same_again_and_those_of_the_report(home: Path) -> None:
    found = said(home, "rehearse", "--mbox", "mail.mbox", *OWN, "--scores", "one.csv")
    said(home, "rehearse", "--mbox", "mail.mbox", *OWN, "--scores", "other.csv", start=warm.cold)
    assert (home / "one.csv").read_bytes() == (home / "other.csv").read_bytes()
    with (home / "one.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == found["mails"] + found["only_learned_from"]
    assert all(0 <= float(row["probability"]) <= 1 for row in rows)
    assert {row["action"] for row in rows} <= {"show", "leave"}
    left = {row["message_id"] for row in rows if row["action"] == "leave"}
    assert {missed["id"] for missed in found["missed"]} <= left


def test_it_judges_what_came_after_a_day_or_in_the_last_months(home: Path) -> None:
    whole = said(home, "rehearse", "--mbox", "mail.mbox", *OWN)
    until = said(home, "rehearse", "--mbox", "mail.mbox", *OWN, "--until", "2000-09-01")
    months = said(home, "rehearse", "--mbox", "mail.mbox", *OWN, "--months", "2")
    assert 0 < months["mails"] < whole["mails"]
    assert 0 < until["mails"] < whole["mails"]
    assert until["only_learned_from"] == 0


def test_it_is_measured_beside_the_simple_ways(home: Path) -> None:
    found = said(home, "eval", "rehearsal", "--mbox", "mail.mbox", *OWN)
    assert {"everything", "addressed_to_few", "written_to", "words", "ours", "go_by"} <= found.keys()
    assert found["judged"] == pytest.approx(200, abs=10)
    told = run(home, "eval", "rehearsal", "--mbox", "mail.mbox", *OWN).stdout
    assert all(found[name]["name"] in told for name in ("addressed_to_few", "written_to", "words", "ours"))
    assert found["go_by"] in " ".join(told.split())


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--mbox", "none.mbox", *OWN], "there is no such file"),
        (["--mbox", ".", *OWN], "is a folder"),
        (["--mbox", "mail.mbox", "--address", "me"], "'me' is no address"),
        (["--mbox", "bare.mbox", "--address", "bob@y.example"], f"most of it went to {PERSON}"),
        (["--mbox", "mail.mbox", *OWN, "--until", "soon"], "--until takes a day"),
        (["--mbox", "mail.mbox", *OWN, "--until", "1999-01-01"], "too little to learn from"),
        (["--mbox", "mail.mbox", *OWN, "--until", "2030-01-01"], "no received mail in the time"),
        (["--mbox", "mail.mbox", *OWN, "--until", "2000-09-01", "--months", "2"], "give one of them"),
        (["--mbox", "mail.mbox", *OWN, "--scores", "none/scores.csv"], "can't be written"),
    ],
)
def test_what_can_not_be_done_is_said_in_one_line(home: Path, arguments: list[str], line: str) -> None:
    done = run(home, "rehearse", *arguments)
    assert done.returncode == 1
    assert line in done.stderr
    assert done.stderr.startswith("Error: ")
    assert done.stderr.count("\n") == 1


@pytest.fixture(scope="module")
def labelled(home: Path) -> Path:
    return of_each_label(home / "labelled.jsonl", "report", "figures", "pipes", "plan")


@pytest.fixture(scope="module")
def older(home: Path) -> Path:
    return of_each_label(home / "older.jsonl", "report", "figures", "chairs", "offer")


def of_each_label(path: Path, *things: str) -> Path:
    """20 mails that need an answer, 20 that are good to know, 20 that need nothing."""
    random = Random(path.name)
    texts = {
        "respond": "Could you send me the {} by Friday?",
        "notify": "For your information: the {} went out. No action needed.",
        "ignore": "Exclusive offer on {}! Click here for 50% off, limited time.",
    }
    lines = [
        {
            "id": str(number), "from": f"p{number % 7}@x.example", "to": [PERSON], "cc": [], "label": label,
            "subject": random.choice(("Hello", "News", "Today")), "is_phishing": label == "ignore" and number % 2 == 0,
            "body": text.format(random.choice(things)),
        }
        for number in range(20) for label, text in texts.items()
    ]  # fmt: skip
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


KEYS = {"n", "accuracy", "coverage", "error_in_coverage", "bound", "per_class", "confusion", "calibration", "interval"}


@pytest.mark.parametrize("more", [["--stage", "rules"], ["--train", "older.jsonl"], []])
def test_the_triage_is_measured(home: Path, labelled: Path, older: Path, more: list[str]) -> None:
    found = said(home, "eval", "triage", "--data", labelled.name, *more)
    assert found.keys() >= KEYS
    assert found["n"] == 60
    assert found["accuracy"] >= 0.9
    assert sum(count for row in found["confusion"].values() for count in row.values()) == 60
    assert found["interval"][0] < found["accuracy"] <= found["interval"][1]
    assert found["phishing"] == {"n": 10, "judged_respond": 0}
    assert found["proven"] is False


def test_it_says_that_few_mails_prove_nothing(home: Path, labelled: Path, older: Path) -> None:
    done = run(home, "eval", "triage", "--data", labelled.name, "--train", older.name)
    assert "proves nothing for deciding alone" in done.stdout


def test_what_is_measured_on_is_not_learned_by_heart(home: Path, labelled: Path) -> None:
    done = run(home, "eval", "triage", "--data", labelled.name, "--train", labelled.name)
    assert done.returncode == 1
    assert "every mail to train on is also measured on" in done.stderr


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("", "is empty"),
        ("{", "line 1 of bad.jsonl is no JSON"),
        ('{"label": "respond"}\n\n["x"]', 'line 3 of bad.jsonl has no "label"'),
        ('{"label": "perhaps"}', 'has no "label" that is one of ignore, notify, respond'),
        ('{"label": "respond", "from": 7, "to": {}, "body": null}', "too few mails with different labels"),
    ],
)
def test_a_file_that_can_not_be_measured_on(home: Path, content: str, line: str) -> None:
    (home / "bad.jsonl").write_text(content)
    done = run(home, "eval", "triage", "--data", "bad.jsonl")
    assert done.returncode == 1
    assert line in done.stderr
    assert done.stderr.startswith("Error: ")


def test_stages_that_there_are(home: Path, labelled: Path) -> None:
    done = run(home, "eval", "triage", "--data", labelled.name, "--stage", "oracle")
    assert done.returncode == 1
    assert "--stage takes rules, classifier, model, cascade, not 'oracle'" in done.stderr
