"""The small questions that show what a server can do. Each costs about a hundred tokens."""

from typing import Any

from pydantic import BaseModel

WORD = "Answer with the word: ready"
CALL = "Call the tool."

READY_TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "ready",
        "description": "Says that you are ready.",
        "parameters": {"type": "object", "properties": {}},
    },
}


class Ready(BaseModel):
    """A form that no model keeps to by itself when it is asked for a word."""

    ready: bool
