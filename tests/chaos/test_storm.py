"""Nothing lost, nothing twice: many processes, dying at any moment, judged at Google's side and in the inbox alone.

The size is set by EMAIL_ASSISTANT_CHAOS_KILLS, _MAILS, _SEED and _PROCESSES (commands, with commas between them);
EMAIL_ASSISTANT_CHAOS_REPORT names a file for the report as JSON.
"""

import os
from pathlib import Path

import pytest

from tests.chaos.slots import Weather
from tests.chaos.stage import stage
from tests.chaos.storm import Size, Storm

SIZE = Size.from_environment()
_SECONDS_OF_A_KILL = 10  # on a slow machine
pytestmark = pytest.mark.long


@pytest.mark.timeout(600 + _SECONDS_OF_A_KILL * SIZE.kills)
async def test_nothing_is_lost_and_nothing_happens_twice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with stage(tmp_path, SIZE.processes, Weather(SIZE.seed, SIZE.kills)) as opened:
        report = await Storm.on(opened, SIZE).run()
    with capsys.disabled():
        print(f"\n{report}")  # noqa: T201 - the table is the point
    if path := os.environ.get("EMAIL_ASSISTANT_CHAOS_REPORT"):
        report.write(Path(path))
    assert report.weather.own_errors == []
    assert len(report.weather.kills) >= SIZE.kills
    assert len(report.weather.database_kills) == SIZE.database_kills
    assert report.verdict.breaches == []
