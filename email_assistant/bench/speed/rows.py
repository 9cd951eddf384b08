"""What can be measured, by name, in the order in which it is shown."""

from collections.abc import Awaitable, Callable, Mapping

from email_assistant.bench.speed.chat import chat
from email_assistant.bench.speed.commands import commands
from email_assistant.bench.speed.cursor import expired_cursor
from email_assistant.bench.speed.figures import Reading, RowProgress, Size
from email_assistant.bench.speed.flow import decisions, in_flight
from email_assistant.bench.speed.idle import accounts, alone
from email_assistant.bench.speed.mail import cpu, statements, stored
from email_assistant.bench.speed.years import years

Measure = Callable[[Size, RowProgress], Awaitable[list[Reading]]]

ROWS: Mapping[str, Measure] = {
    "cpu": cpu,
    "statements": statements,
    "accounts": accounts,
    "idle": alone,
    "in-flight": in_flight,
    "decisions": decisions,
    "stored": stored,
    "commands": commands,
    "chat": chat,
    "cursor": expired_cursor,
    "years": years,
}
