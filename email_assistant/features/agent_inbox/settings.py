"""The settings of the Agent Inbox app's API."""

from email_assistant.settings.environment import FromEnvironment
from email_assistant.settings.values import Origin


class AgentInboxSettings(FromEnvironment):
    agent_inbox_origin: Origin | None = None
    """Where the public Agent Inbox app is served, such as https://dev.agentinbox.ai; unset: no other site may call."""
