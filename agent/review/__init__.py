"""Review of changed mappings: what a change does to rows, as people see it."""
