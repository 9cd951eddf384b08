"""What our MCP servers share: how a tool is told and called, the mailbox behind them, and how clients reach them."""
