"""A setting that was renamed counts under its name of before, and the person is told of the new one."""

from pathlib import Path

import pytest

from email_assistant.settings import Settings
from email_assistant.settings.renamed import RENAMED, told_of_renamed
from tests.doubles.daemon import Daemon

TOLD = "EMAIL_ASSISTANT_WORKERS is called EMAIL_ASSISTANT_CONCURRENCY now"


def test_it_counts_unless_the_new_one_is_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMAIL_ASSISTANT_HOME", str(tmp_path))
    assert told_of_renamed(Settings.load().env_file) == []
    (tmp_path / ".env").write_text("EMAIL_ASSISTANT_WORKERS=7\n")
    settings = Settings.load()
    assert settings.concurrency == 7
    [told] = told_of_renamed(settings.env_file)
    assert told.startswith(TOLD)
    monkeypatch.setenv("EMAIL_ASSISTANT_CONCURRENCY", "9")
    assert Settings.load().concurrency == 9


@pytest.mark.parametrize(("before", "now"), RENAMED.items())
def test_each_is_one_of_a_field(before: str, now: str) -> None:
    names = [str(getattr(field.validation_alias, "choices", "")) for field in Settings.model_fields.values()]
    assert [(before in each, now in each) for each in names].count((True, True)) == 1


def test_whoever_starts_it_or_asks_is_told(daemon: Daemon) -> None:
    daemon.stop()
    daemon.environment["EMAIL_ASSISTANT_WORKERS"] = "3"
    process = daemon.up()
    assert process.log.count(TOLD) == 1
    assert f"note: {TOLD}" in daemon.run("doctor").stdout
