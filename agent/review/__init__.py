"""Review changed mappings: what a change does to rows."""
