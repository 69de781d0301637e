"""A conversion: what it reads, what it writes, and one stream of it."""
