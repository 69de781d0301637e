"""Parquet, decoded in a process that may die without the run, and the checks of Arrow batches."""
