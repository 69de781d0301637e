"""Megatron indexed data sets (`.bin/.idx`) from unified records."""
