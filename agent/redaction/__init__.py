"""Secrets and personal numbers taken out of text and JSON before a model or a report sees them."""

from ingot.agent.redaction.named import hidden, named_secrets
from ingot.agent.redaction.text import is_secret, redact
from ingot.agent.redaction.values import redacted, shaped

SHARE = ("none", "redacted", "raw")

__all__ = ["SHARE", "hidden", "is_secret", "named_secrets", "redact", "redacted", "shaped"]
