"""Stands in front of a process that is forked off the warm one (tests/doubles/warm.py), for whoever starts commands.

    python -S -E launcher.py SOCKET (-m MODULE | -c SCRIPT) [ARGUMENT...]

The process has this one's files, environment and folder. It ends this one by its own end, is passed on signals, and is
killed if this one is.
"""

import marshal
import os
import signal
import socket
import sys

_PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def ask(
    address: str, arguments: list[str], environment: dict[str, str], folder: str, files: tuple[int, int, int]
) -> socket.socket:
    """Have a process forked; it lives no longer than what is returned, which `answer` reads: its id, then its end."""
    warm = socket.socket(socket.AF_UNIX)
    warm.connect(address)
    socket.send_fds(warm, [b"\0"], files)
    warm.sendall(marshal.dumps((arguments, environment, folder)))
    return warm


def answer(warm: socket.socket) -> int:
    """The next number that the warm process tells. If it is gone, so is all that it forked."""
    told = warm.recv(8, socket.MSG_WAITALL)
    return int.from_bytes(told, "big", signed=True) if told else -signal.SIGKILL


def _main(address: str, *arguments: str) -> None:
    warm = ask(address, list(arguments), dict(os.environ), os.getcwd(), (0, 1, 2))  # noqa: PTH109 - pathlib takes as long to import as all else
    os.closerange(0, 3)  # pipes end with the process itself
    pid = answer(warm)
    for number in _PASSED_ON:
        signal.signal(number, lambda number, _: os.kill(pid, number))
    code = answer(warm)
    if code < 0:
        for number in _PASSED_ON:
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


if __name__ == "__main__":
    _main(*sys.argv[1:])
