"""Megatron indexed data sets (`.bin/.idx`) from unified records."""

from ingot.converters.megatron.build import TokenStats, build_tokens
from ingot.converters.megatron.indexed import IndexedReader, IndexedWriter
from ingot.converters.megatron.render import render_chat

__all__ = ["IndexedReader", "IndexedWriter", "TokenStats", "build_tokens", "render_chat"]
