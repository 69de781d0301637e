"""Secrets and personal numbers taken out of text and JSON before a model or a report sees them."""

from ingot.agent.privacy.door import DIFFERS, NOT_SHOWN, Door, SafeProblem, SafeValue
from ingot.agent.privacy.redaction import joined, redact
from ingot.converters.rows import EMPTY_TEXT, Safe

__all__ = [
    "DIFFERS",
    "EMPTY_TEXT",
    "NOT_SHOWN",
    "Door",
    "Safe",
    "SafeProblem",
    "SafeValue",
    "joined",
    "redact",
]
