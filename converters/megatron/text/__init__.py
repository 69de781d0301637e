"""Documents on their way to an engine and behind it: texts, limits, sequences."""
