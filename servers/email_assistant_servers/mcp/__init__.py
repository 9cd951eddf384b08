"""Our MCP servers, calendar, mail and agent, for any client. What they offer is `email_assistant.tools.own`."""
