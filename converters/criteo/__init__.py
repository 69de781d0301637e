"""Criteo click logs to what DLRM trains on. Text and decisions: `docs/criteo.md`."""
