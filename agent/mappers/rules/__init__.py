"""The embedded mapper: deterministic rules over names and values, offline."""
