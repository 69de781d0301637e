"""A processed folder looked at: every rule of the contract, and figures of it."""
