"""What a change of a mapping means, by written rules."""
