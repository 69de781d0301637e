"""A small redacted sample of raw rows beside a mapping, in files that read like the original."""
