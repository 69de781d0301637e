"""The frames and compressions of a stream of records."""
