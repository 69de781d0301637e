"""Monolith's Example and ExampleBatch: streams read and written, converted, cast from tables.

What is written, every rule and the decisions: `docs/monolith.md`.
"""
