"""Batches of preprocessed Criteo arrays."""
