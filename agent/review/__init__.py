"""The review of a changed mapping: what the change means, what it does to the sample, a verdict."""
