"""The MCP server: tools that other programs' models call, confined to one folder."""
