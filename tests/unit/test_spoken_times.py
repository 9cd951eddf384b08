"""Times in words, where they can mean nothing else."""

from datetime import time

import pytest

from email_assistant.tools.offered_times import spoken_times


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("I am free at ten.", "10:00 22:00"),
        ("Shall we say half past two?", "02:30 14:30"),
        ("Three o'clock suits me", "03:00 15:00"),
        ("A quarter to nine is fine", "08:45 20:45"),
        ("Passt es um zehn?", "10:00 22:00"),
        ("Halb drei passt mir.", "02:30 14:30"),
        ("Um Viertel nach drei Uhr", "03:15 15:15"),
        ("Gern um fünfzehn Uhr", "15:00"),
        ("Disons à trois heures et demie", "03:30 15:30"),
        ("Je suis libre à quinze heures", "15:00"),
        ("A las tres y media", "03:30 15:30"),
        ("¿Le va bien a las cuatro?", "04:00 16:00"),
        ("下午三点可以吗？", "03:00 15:00"),
        ("我们三点半见", "03:30 15:30"),
        ("15時はいかがですか", "15:00"),
        ("午後三時半", "03:30 15:30"),
        ("１５時でお願いします", "15:00"),
    ],
)
def test_are_read(text: str, told: str) -> None:
    assert sorted(set(spoken_times(text))) == [time.fromisoformat(each) for each in told.split()]


@pytest.mark.parametrize(
    "text",
    [
        "At one of our offices there are ten people.",
        "It took ten hours, and two to four weeks more.",
        "Es sind um zehn Prozent mehr, also halb so viel.",
        "Cela dure trois heures.",
        "Vinieron a las cuatro reuniones.",
        "三点意见",
        "三時間かかります",
        "99時",
    ],
)
def test_are_not_read_into_what_else_is_counted(text: str) -> None:
    assert list(spoken_times(text)) == []
