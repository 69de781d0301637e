"""What a change of a mapping means: normal form, what differs target by target, and the rules."""
