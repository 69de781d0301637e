"""A small redacted sample of raw rows that is kept beside a mapping."""
