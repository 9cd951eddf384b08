"""The API of the public Agent Inbox web app (github.com/langchain-ai/agent-inbox), over our own items."""

from typing import TYPE_CHECKING

from email_assistant.plugins import Feature, Site

if TYPE_CHECKING:
    from email_assistant.features.agent_inbox.settings import AgentInboxSettings


def feature() -> Feature:
    return Feature(settings=_settings, site=_site)


def _settings() -> "type[AgentInboxSettings]":
    from email_assistant.features.agent_inbox.settings import AgentInboxSettings

    return AgentInboxSettings


def _site() -> Site:
    from email_assistant.features.agent_inbox.routes import site

    return site()
