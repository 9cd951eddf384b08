"""The graphs as LangGraph's studio shows them: `langgraph.json` names them, docs/deploy.md says how to open it.

They are only shown. A run needs a conversation's lease, which only workers take (`email-assistant worker`), and here is
nothing for it to act with.
"""

from dataclasses import fields
from typing import Any, NoReturn

from langgraph.graph.state import CompiledStateGraph

from email_assistant.agents.chat.graph import ChatAgent
from email_assistant.agents.mail.graph import MailAgent


class _OnlyShown:
    """In the place of every collaborator."""

    def __getattr__(self, name: str) -> NoReturn:
        raise RuntimeError("the studio only shows this graph; `email-assistant worker` runs it")


def _shown(agent: type[ChatAgent] | type[MailAgent]) -> CompiledStateGraph[Any, Any, Any, Any]:
    collaborators: dict[str, Any] = {field.name: _OnlyShown() for field in fields(agent)}
    return agent(**collaborators).graph(None)


mail = _shown(MailAgent)
chat = _shown(ChatAgent)
