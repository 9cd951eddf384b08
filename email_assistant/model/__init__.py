"""Calls to the language model, by role, to any server that speaks OpenAI's chat completions.

models.py     `Models`: what the rest of the program calls
client.py     the library's client
asking.py     while a server refuses, one asks again, and nobody else
network.py    by which way a model is reached
abilities.py  what a server was found to do, and not to do
structured.py answers as JSON that fits a schema
calls.py      tool calls for servers that make none
context.py    prompts cut shorter for a small context
questions.py  the small questions that show what a server can do
several.py    several questions at a time
tally.py      who keeps account of what was asked for
errors.py     what can go wrong, in words for the person
"""

from email_assistant.model.errors import BadAnswer, ContextExceeded, ModelDown, ModelFault, ModelRefused
from email_assistant.model.models import Models

__all__ = ["BadAnswer", "ContextExceeded", "ModelDown", "ModelFault", "ModelRefused", "Models"]
