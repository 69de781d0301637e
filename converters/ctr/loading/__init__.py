"""A split as batches for training."""
