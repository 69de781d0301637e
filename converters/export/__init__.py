"""Finished records in the layout of a trainer."""
