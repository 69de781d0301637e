"""Preprocessed parts as batches for training."""
