"""Examples from Arrow tables, and back."""
