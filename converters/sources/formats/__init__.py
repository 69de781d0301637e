"""File formats as batches of rows."""
