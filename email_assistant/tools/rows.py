"""What tools tell of the mailbox, a line each. Others wrote parts of it: it is data, and stays within its line."""

from collections.abc import Sequence

from email_assistant.mail.prompt import delimited, one_line

_CELL = 200


def row(*cells: object) -> str:
    """The cells in one line. None of them can look like several."""
    return " | ".join(one_line(str(cell), _CELL).replace("|", "/") for cell in cells)


def told(rows: Sequence[str], nothing: str) -> str:
    """The lines as data for a prompt, or what to say if there are none."""
    return delimited("mail", "\n".join(rows)) if rows else nothing
