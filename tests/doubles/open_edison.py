"""Somebody else's agent as a process of its own: the public `open_edison` client from PyPI."""

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.tools import OPEN_EDISON

_FOLDER = Path(__file__).parent.parent / "open_edison"


class OpenEdison:
    """The process. It makes one call after the other."""

    def __init__(self, root: str, key: str, seconds: float = 30) -> None:
        self._child = subprocess.Popen(
            [str(OPEN_EDISON), str(_FOLDER / "agent.py"), root, key, str(seconds)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def __enter__(self) -> "OpenEdison":
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def call(
        self, session: str, tool: str, *args: object, result: str = "", is_async: bool = False, **kwargs: object
    ) -> dict[str, Any]:
        """What came of a call: {result}, {denied} or {down}."""
        self.begin(session, tool, *args, result=result, is_async=is_async, **kwargs)
        return self.outcome()

    def begin(
        self, session: str, tool: str, *args: object, result: str = "", is_async: bool = False, **kwargs: object
    ) -> None:
        """Start a call, of which `outcome` tells."""
        call = {"session": session, "tool": tool, "args": args, "kwargs": kwargs}
        assert self._child.stdin
        self._child.stdin.write(json.dumps({**call, "result": result, "is_async": is_async}) + "\n")
        self._child.stdin.flush()

    def outcome(self) -> dict[str, Any]:
        assert self._child.stdout
        told: dict[str, Any] = json.loads(self._child.stdout.readline())
        return told

    def kill(self) -> None:
        self._child.kill()
        self._child.communicate()
