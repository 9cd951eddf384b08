"""The API of the public Agent Inbox web app (github.com/langchain-ai/agent-inbox), over our own items."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from email_assistant.plugins import Endpoints, Feature

if TYPE_CHECKING:
    from email_assistant.features.agent_inbox.settings import AgentInboxSettings
    from email_assistant.settings import Settings


def feature() -> Feature:
    return Feature(
        endpoints=Endpoints(
            paths=("/info", "/threads/"),
            open_paths=("/info",),
            routers=_routers,
            examples=Path(__file__).with_name("examples.yaml"),
            other_site=_origin,
        ),
        settings=_settings,
    )


def _routers() -> Sequence[Any]:
    from email_assistant.features.agent_inbox import routes

    return routes.info_router, routes.router


def _settings() -> "type[AgentInboxSettings]":
    from email_assistant.features.agent_inbox.settings import AgentInboxSettings

    return AgentInboxSettings


def _origin(settings: "Settings") -> str | None:
    return settings.of(_settings()).agent_inbox_origin
