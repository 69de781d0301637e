"""The graph behind a LangGraph server."""
