"""Tools that run on MCP servers: one session with each server, kept open, and what it says kept within bounds."""
