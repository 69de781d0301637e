"""The row executor: every mapping, one row at a time."""
