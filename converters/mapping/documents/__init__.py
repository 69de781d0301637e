"""Mapping documents: read by version and grammar, and written."""
