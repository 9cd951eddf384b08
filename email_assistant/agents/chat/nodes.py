"""What the two nodes of a chat ask a model, for whomever: the policy router, which types of tools a request needs; the
task executor, what comes next."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage

from email_assistant.agents.chat.prompts import Speaker, executor_prompt, policy_schema, router_prompt
from email_assistant.model import Models
from email_assistant.tools.registry import Offer

Types = Mapping[str, Iterable[str]]
"""The names of each type's tools."""
_ROUTER_SEES: Final = 8
"""Messages before the request: what "yes, that one" is about."""


def to_route(speaker: Speaker, types: Types, messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """What the policy router asks about the last of these messages."""
    return [SystemMessage(router_prompt(speaker, types)), *_words(messages[:-1]), messages[-1]]


async def routed(
    models: Models,
    asked: Sequence[AnyMessage],
    types: Types,
    account_id: UUID | None = None,
    run_id: UUID | None = None,
) -> list[str]:
    """The types of tools that a request may use. Raises what `Models.parse` raises."""
    policy = await models.parse("chat", asked, policy_schema(*types), "policy", account_id=account_id, run_id=run_id)
    return [name for name in types if name in policy.allowed_tool_types]


def to_execute(
    speaker: Speaker, preferences: tuple[str, str], now: datetime, offered: Offer, messages: Sequence[AnyMessage]
) -> list[AnyMessage]:
    """What the task executor asks about a conversation. `preferences`: the rules on letters, and on meetings; `now`: in
    the speaker's timezone."""
    prompt = executor_prompt(speaker, *preferences, now, [str(down) for down in offered.down])
    return [SystemMessage(prompt), *messages]


async def executed(
    models: Models,
    asked: Sequence[AnyMessage],
    offered: Offer,
    account_id: UUID | None = None,
    run_id: UUID | None = None,
) -> AIMessage:
    """Calls that are proposed, or words. Raises what `Models.call` raises."""
    return await models.call(
        "chat", asked, account_id=account_id, run_id=run_id, tools=offered.schemas(), tool_choice="auto"
    )


def _words(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """What was said of late, without the calls and what came of them."""
    said = [m for m in messages if isinstance(m, HumanMessage) or (isinstance(m, AIMessage) and m.text)]
    return [HumanMessage(m.text) if isinstance(m, HumanMessage) else AIMessage(m.text) for m in said[-_ROUTER_SEES:]]
