"""A token build from its recipe to its finished files."""
