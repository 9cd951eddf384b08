"""What is done over and over is missed once it is late, and not while there is a reason for it."""

import pytest

from email_assistant.work import heartbeat


class Clock:
    now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(heartbeat, "time", clock)
    return clock


def test_a_beat_that_is_late_is_told_until_it_comes(clock: Clock) -> None:
    beats = heartbeat.Heartbeat()
    beats.expect("nobody looked", within=30)
    clock.now += 30
    assert beats.missed() == []
    clock.now += 12
    assert beats.missed() == ["nobody looked for 42 s"]
    beats.beat("nobody looked")
    assert beats.missed() == []


def test_what_pauses_is_not_missed_before_it_has_gone_on(clock: Clock) -> None:
    beats = heartbeat.Heartbeat()
    beats.expect("nobody looked", within=30)
    beats.pause("nobody looked")
    clock.now += 1000
    assert beats.missed() == []
    beats.beat("nobody looked")
    clock.now += 31
    assert beats.missed() == ["nobody looked for 31 s"]


def test_what_nobody_expects_is_not_missed(clock: Clock) -> None:
    beats = heartbeat.Heartbeat()
    beats.beat("nobody looked")
    clock.now += 1000
    assert beats.missed() == []
