"""A proposal by a language model: the question, the evidence shown, the reply read."""
