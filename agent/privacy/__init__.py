"""Secrets and personal numbers taken out of text and JSON before a model or a report sees them."""

from ingot.agent.privacy.redaction import joined, redact
from ingot.agent.privacy.redactor import DIFFERS, NOT_SHOWN, Redactor, SafeProblem, SafeValue
from ingot.converters.rows import EMPTY_TEXT, Safe

__all__ = [
    "DIFFERS",
    "EMPTY_TEXT",
    "NOT_SHOWN",
    "Redactor",
    "Safe",
    "SafeProblem",
    "SafeValue",
    "joined",
    "redact",
]
