"""The inbox's tasks: tell what waits for the person, and why a mail was treated as it was."""

from collections.abc import Sequence

from email_assistant_servers.demo_model.chat.conversation import EXPLAIN, FIND, WAITING
from email_assistant_servers.demo_model.chat.results import content, read_entries
from email_assistant_servers.demo_model.chat.script import Script, look
from email_assistant_servers.demo_model.reading import shorten

_CLASS = 4
"""Place of a found mail's class among its fields."""
_LONGEST = 160


def waiting() -> Script:
    """Tell what waits for the person."""
    entries = read_entries((yield from look(WAITING)))
    if not entries:
        return "Nothing waits for you."
    return "\n".join(["This waits for you:", *(f"- {shorten(', '.join(fields[1:]), _LONGEST)}" for fields in entries)])


def explain(words: str, wanted_class: str) -> Script:
    """Tell what became of the newest mail that fits the words, of the wanted class if there is one."""
    found = read_entries((yield from look(FIND, words=words)))
    if not found:
        return f"I find no mail that fits “{words}”."
    entry = _chosen(found, wanted_class)
    trail = content((yield from look(EXPLAIN, mail_id=entry[0])))
    return f"{' · '.join(entry[1:])}\n\n{trail}"


def _chosen(found: Sequence[list[str]], wanted_class: str) -> list[str]:
    fits = [fields for fields in found if fields[_CLASS : _CLASS + 1] == [wanted_class]]
    return (fits or list(found))[0]
