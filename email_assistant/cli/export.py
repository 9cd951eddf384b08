"""`email-assistant export`"""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from email_assistant.cli.context import CommandError, awaited, err, opened, our_version, print_text, tell

if TYPE_CHECKING:
    from email_assistant.db.export import Opens


@awaited
async def export(
    target: Annotated[
        Path, typer.Argument(metavar="TARGET", help="A new folder, or a new file whose name ends in .zip.")
    ],
) -> None:
    """Write all that is stored of you, for other programs: a line of JSON for each row, a file for each table.

    manifest.json says what is in which file, how much, and what is left out: keys, tokens and logins, and the working
    state of runs. It can't be put back; `backup` is for that. Whoever has it can read your mail."""
    from email_assistant.db.export import export as exported

    if target.exists():
        raise CommandError(f"{target} is there already; choose another name")
    async with opened() as app:
        rows: dict[str, int] = {}
        with _written(target) as opens, err.status("Exporting …") as status:
            async for table, count in exported(app.pool, app.user_id, our_version(), opens):
                rows[table] = count
                status.update(f"Exporting … {sum(rows.values()):,} rows ({table})")
    print_text(f"Wrote {target}: {sum(rows.values()):,} rows, {rows.get('mails', 0):,} of them mails.")
    tell("It holds your mail, and no key, token or login. What is in which file stands in manifest.json.")


@contextmanager
def _written(target: Path) -> Iterator["Opens"]:
    """Files at the target, which is there only once all of it is, and which nobody but its owner can read."""
    try:
        with tempfile.TemporaryDirectory(prefix=f".{target.name}-", dir=target.parent) as folder:
            made = Path(folder, "made")
            with _zip(made) if target.suffix == ".zip" else _folder(made) as opens:
                yield opens
            if target.exists():
                raise FileExistsError(0, "it is there by now")
            shutil.move(made, target)
    except OSError as error:
        raise CommandError(f"{target} can't be written ({error.strerror})") from None


@contextmanager
def _zip(made: Path) -> Iterator["Opens"]:
    from zipfile import ZIP_DEFLATED, ZipFile

    from email_assistant.db.export import into

    with open(made, "xb", opener=_private) as file, ZipFile(file, "w", ZIP_DEFLATED) as archive:
        yield into(archive)


@contextmanager
def _folder(made: Path) -> Iterator["Opens"]:
    made.mkdir(mode=0o700)
    yield lambda name: open(made / name, "xb", opener=_private)  # noqa: SIM115 - who writes it closes it


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
