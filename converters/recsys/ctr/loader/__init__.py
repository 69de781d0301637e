"""Batches of a processed CTR data set."""
