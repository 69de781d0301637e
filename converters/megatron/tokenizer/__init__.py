"""Tokenizers from files and the Hub."""
