"""`ingot ctr`, `ingot criteo` and `ingot monolith`: data sets for recommendation models."""
