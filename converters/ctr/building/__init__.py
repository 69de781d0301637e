"""A build from raw rows to the split's files: read, code, rank, select, encode, write."""
