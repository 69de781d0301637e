"""One id made many: what a multi-hot conversion is told, its tables, what it counts."""
