"""How likely a proposal of the rules is right, and what speaks against it."""
