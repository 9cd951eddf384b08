"""The chat agent's next message: tool calls, or the text that ends the turn."""

from collections.abc import Sequence

from email_assistant_servers.demo_model.chat.conversation import read_conversation
from email_assistant_servers.demo_model.chat.requests import Circumstances, read_tasks
from email_assistant_servers.demo_model.chat.script import play
from email_assistant_servers.demo_model.protocol import Answer, Message
from email_assistant_servers.demo_model.schema import SELF_DESCRIPTION

ABILITIES = f"""\
{SELF_DESCRIPTION} It understands requests such as these:
- What is on my calendar on Friday?
- Create a meeting called Standup tomorrow at 9am
- Move my 3 pm to 4
- What's waiting?
- Why did you ignore the mail from …?
- Reply to … that Tuesday works
- Write to bob@example.org that I'll be late"""


def next_message(messages: Sequence[Message], tools: frozenset[str]) -> Answer:
    """What comes next in the turn that the newest user message began, with the offered tools."""
    turn = read_conversation(messages)
    tasks = read_tasks(turn.request)
    if not tasks or turn.now is None:
        return Answer(ABILITIES)
    at = Circumstances(turn.person, turn.now)
    return play([script for task in tasks for script in task.scripts(at)], turn.rounds, tools)
