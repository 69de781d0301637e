"""From a source and a mapping to committed records."""
