"""Raw data of known kinds, recognized by content."""
