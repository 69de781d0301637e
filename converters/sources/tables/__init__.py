"""Tables that are folders with a log: one version of them, file by file."""
