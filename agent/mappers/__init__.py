"""Mappers: who proposes a mapping (rules, an LLM, a script)."""
