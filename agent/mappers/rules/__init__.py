"""The embedded mapper: deterministic rules over names and values, offline."""

from ingot.agent.mappers.rules.propose import propose

__all__ = ["propose"]
