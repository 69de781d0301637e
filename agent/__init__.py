"""The agent: samples a data set, proposes and validates a mapping, asks for review, converts."""
