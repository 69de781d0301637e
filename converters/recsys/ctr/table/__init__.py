"""Plain tables as blocks of raw tokens."""
