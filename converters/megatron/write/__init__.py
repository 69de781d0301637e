"""Tokens on their way to `.bin/.idx` files."""
