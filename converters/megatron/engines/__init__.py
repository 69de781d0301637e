"""Engines from text to token ids, and the checks that they agree."""
