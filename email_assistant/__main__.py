"""The `email-assistant` command's door: what it is made of takes a second to import, and Ctrl-C may come by then."""

import gc
import os
import signal
import sys

_COLLECT_EVERY = 10_000
"""Objects more, after which garbage is looked for. What is imported leaves none, and by Python's own 700 to look for it
there takes a tenth of an import; what serves requests leaves little, too."""


def main() -> None:
    gc.set_threshold(_COLLECT_EVERY)
    # While it is imported there is nothing to put in order, and an interrupt would be told by a traceback, or be lost
    # in a module that catches it. Who has it ignored, as `nohup` does, keeps that.
    if heeded := signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, lambda *_: os._exit(130))
    from email_assistant.cli import main as command

    try:
        if heeded:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        command()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
