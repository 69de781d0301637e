"""Compiled loops over the bytes of messages."""
