"""A file whose path a person gives, read whole and no further than it may be long."""

import os
import stat
from pathlib import Path


class NoFile(ValueError):
    """What the path leads to is no file, or a longer one than it may be; the message says which."""


def read_whole(path: Path, longest: int) -> bytes:
    """Its content, of `longest` bytes at most. Raises OSError, NoFile."""
    # Without waiting, as a pipe has it, for somebody who writes into it.
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise NoFile(f"{path}: is no file")
        content = file.read(longest + 1)
    if len(content) > longest:
        raise NoFile(f"{path}: is longer than {longest // 1024} KiB")
    return content
