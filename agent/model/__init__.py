"""A model's endpoint: where it is, how it is asked, what that may cost, what is remembered."""
