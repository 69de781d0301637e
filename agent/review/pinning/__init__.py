"""Pin a small redacted sample of raw rows beside a mapping."""
