"""Secrets and personal numbers taken out of text and JSON before a model or a report sees them."""

from ingot.agent.privacy.door import Door, hide_secrets, named_secrets
from ingot.agent.privacy.redaction import (
    is_secret,
    redact,
    redact_value,
    value_shapes,
)

SHARE = ("none", "redacted", "raw")

__all__ = [
    "SHARE",
    "Door",
    "hide_secrets",
    "is_secret",
    "named_secrets",
    "redact",
    "redact_value",
    "value_shapes",
]
