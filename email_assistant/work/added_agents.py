"""Agents that other distributions add: each is run to its end, on the loop that works on mail."""

from langchain_core.messages import HumanMessage

from email_assistant.agents.agent import Agent
from email_assistant.agents.loop import Loop
from email_assistant.model import Models
from email_assistant.plugins import plugin


async def run(name: str, models: Models, task: str) -> str:
    """What is said or answered last. Raises BadPlugin, and whatever ends a run (docs/packs.md)."""
    agent = plugin("agents", name).made(Agent, models)  # type: ignore[type-abstract]
    ended = await Loop(agent, ask_tool=None).graph().ainvoke({"run": {}, "messages": [HumanMessage(task)]})
    return str(ended["messages"][-1].text)
