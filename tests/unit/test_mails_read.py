"""`mails read`: what it tells of a mail in a file, by the functions that the product reads mail with."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from email_assistant.cli import app
from email_assistant.mail.parse import parse_bytes

LETTER = (
    b"From: Ann Lee <ann@example.org>\nTo: kim@example.org\nCc: Bob <bob@example.org>\nSubject: Re: Roof\n"
    b"Date: Tue, 5 May 2026 10:15:00 +0200\nMessage-ID: <2@example.org>\nIn-Reply-To: <1@example.org>\n"
    b"Content-Type: text/plain; charset=utf-8\n\n"
    b"Adding Kim, who knows about tiles.\n-- \nAnn Lee\nExample Ltd\n\n"
    b"On 4 May 2026 at 9:00, Tom Old <tom@example.org> wrote:\n> How many tiles do we need by Friday?\n"
)
ASKED = b"From: Tom Old <tom@example.org>\nMessage-ID: <1@example.org>\n\nHow many tiles do we need by Friday?\n"
INVITED = (
    "BEGIN:VCALENDAR\nMETHOD:REQUEST\nBEGIN:VEVENT\nUID:1\nSUMMARY:Roof\nDTSTART;TZID=America/New_York:20310602T090000\n"
    "DURATION:PT1H\nRRULE:FREQ=WEEKLY;COUNT=3\nEND:VEVENT\nEND:VCALENDAR\n"
)


def ran(*arguments: str, given: bytes | None = None) -> Result:
    return CliRunner().invoke(app, ["mails", "read", *arguments], input=given)


def told(*arguments: str, given: bytes | None = None) -> Any:
    result = ran(*arguments, "--json", "--timezone", "Europe/Paris", given=given)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


class TestOfAMail:
    def test_whose_words_are_whose_and_why(self) -> None:
        read = told("-", given=LETTER)
        assert read["sender"] == {"name": "Ann Lee", "address": "ann@example.org"}
        assert [each["address"] for name in ("to", "cc") for each in read["recipients"][name]] == [
            "kim@example.org",
            "bob@example.org",
        ]
        assert (read["own"], read["signature"]["text"]) == (
            "Adding Kim, who knows about tiles.",
            "Ann Lee\nExample Ltd",
        )
        assert read["signature"]["why"] == "it follows the line “-- ”"
        [history] = read["history"]
        assert (history["by"], history["status"]) == ("Tom Old <tom@example.org>", "not known")
        assert history["why"].endswith("Tom Old <tom@example.org> wrote:” introduces it")
        assert (read["times"]["sent"], read["files"], read["invitation"]) == ("2026-05-05T08:15:00Z", [], None)
        assert "not found in this mailbox" in read["prompt"]

    def test_history_is_looked_for_in_a_folder(self, tmp_path: Path) -> None:
        assert told("-", "--with", str(tmp_path), given=LETTER)["history"][0]["status"] == "kept"
        (tmp_path / "asked.mbox").write_bytes(
            b"From x Mon May  4 09:00:00 2026\n" + LETTER[:40] + b"\n\n\nFrom x\n" + ASKED
        )
        read = told("-", "--with", str(tmp_path), given=LETTER)
        assert read["history"][0]["status"] == "stored"
        assert "Friday" not in read["prompt"]

    def test_of_an_mbox_the_first_is_read(self, tmp_path: Path) -> None:
        file = tmp_path / "two.mbox"
        file.write_bytes(b"From x Mon May  4 09:00:00 2026\n" + ASKED + b"\nFrom x Tue May  5 10:15:00 2026\n" + LETTER)
        assert told(str(file))["sender"]["name"] == "Tom Old"

    def test_it_is_read_as_the_product_reads_it(self) -> None:
        assert told("-", given=LETTER)["text"] == parse_bytes(LETTER).text

    def test_files_and_an_invitation(self) -> None:
        parts = (
            f"--b\nContent-Type: text/plain\n\nCan you come?\n--b\nContent-Type: text/calendar\n\n{INVITED}"
            '--b\nContent-Type: application/pdf; name="plan.pdf"\n\nxyz\n--b--\n'
        )
        read = told("-", given=f"From: a@b.example\nContent-Type: multipart/mixed; boundary=b\n\n{parts}".encode())
        assert read["own"] == "Can you come?"
        assert [(each["name"], each["type"], each["bytes"]) for each in read["files"]] == [
            ("plan.pdf", "application/pdf", 3)
        ]
        assert read["times"]["start"] == "2031-06-02T13:00:00Z"

    def test_for_people_it_says_the_same_in_words(self) -> None:
        shown = ran("-", given=LETTER).stdout
        for said in (
            "From: Ann Lee <ann@",
            "Own text:\nAdding",
            "Quoted by Tom Old",
            "not known, as no",
            "Signature: it",
        ):
            assert said in shown


def test_of_a_calendar_part_times_and_repeats_are_told(tmp_path: Path) -> None:
    file = tmp_path / "roof.ics"
    file.write_text(INVITED)
    read = told(str(file))
    assert (read["times"]["start"], read["times"]["end"]) == ("2031-06-02T13:00:00Z", "2031-06-02T14:00:00Z")
    assert read["invitation"]["when"] == "Monday 2 June 2031, 15:00 to 16:00 (Europe/Paris)"
    assert read["invitation"]["repeats"] == "weekly, 3 times"
    assert "repeats weekly, 3 times" in ran(str(file)).stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["{tmp}/none.eml"], "there is no such file"),
        (["{tmp}"], "is a folder"),
        (["{tmp}/empty.eml"], "is empty"),
        (["{tmp}/no.ics"], "there is no event"),
        (["{tmp}/a.eml", "--with", "{tmp}/none"], "is no folder"),
        (["{tmp}/a.eml", "--timezone", "Nowhere/Land"], "is no timezone"),
    ],
)
def test_what_can_not_be_read_is_said_in_one_line(tmp_path: Path, arguments: list[str], said: str) -> None:
    (tmp_path / "empty.eml").touch()
    (tmp_path / "a.eml").write_bytes(ASKED)
    (tmp_path / "no.ics").write_text("BEGIN:VCALENDAR\nEND:VCALENDAR\n")
    result = ran(*(each.format(tmp=tmp_path) for each in arguments))
    assert result.exit_code == 1
    assert said in " ".join(result.stderr.split())
    assert "Traceback" not in result.output
