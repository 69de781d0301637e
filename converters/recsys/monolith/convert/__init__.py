"""Conversions between Monolith streams and tables."""
