"""Recommendation data: Ali-CCP CTR, Criteo, Monolith."""
