"""The tools of our own MCP servers: offered to chat within this process, and to others by `email_assistant_servers`."""
