"""A proposal by rules: deterministic, offline, with a measured confidence."""
