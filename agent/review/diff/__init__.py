"""Classify the changes of a mapping by written rules."""
