"""The README's picture is one of the demo as it is."""

from pathlib import Path

import pytest

from tests.picture import SIZE, take

_HEADER = b"\x89PNG\r\n\x1a\n"


@pytest.mark.long
@pytest.mark.asyncio(loop_scope="session")
async def test_it_can_be_taken_anew(tmp_path: Path) -> None:
    target = tmp_path / "inbox.png"
    await take(target)
    image = target.read_bytes()
    assert image.startswith(_HEADER)
    assert (int.from_bytes(image[16:20]), int.from_bytes(image[20:24])) == (SIZE["width"], SIZE["height"])
    assert 20_000 < len(image) <= 150_000
