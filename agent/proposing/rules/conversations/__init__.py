"""Conversations in lists, rows and texts."""
