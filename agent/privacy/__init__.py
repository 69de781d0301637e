"""Secrets and personal numbers taken out of text and JSON before a model or a report sees them."""

from ingot.agent.privacy.door import Door, SafeProblem, SafeValue
from ingot.agent.privacy.redaction import joined, redact
from ingot.converters.rows import EMPTY_TEXT, Safe

__all__ = ["EMPTY_TEXT", "Door", "Safe", "SafeProblem", "SafeValue", "joined", "redact"]
