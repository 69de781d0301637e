"""Deterministic converters: the same input and mapping give the same bytes."""
