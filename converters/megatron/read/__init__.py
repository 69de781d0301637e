"""Input files of a token build and their rows."""
