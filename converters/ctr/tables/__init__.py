"""Plain tables as rows of raw tokens."""
