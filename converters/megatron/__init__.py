"""Megatron indexed data sets (`.bin/.idx`) from Parquet texts and unified records."""

from ingot.converters.megatron.build import Beside, build
from ingot.converters.megatron.chats.render import render_chat
from ingot.converters.megatron.indexed import IndexedReader
from ingot.converters.megatron.options import BuildOptions, WorkOptions
from ingot.converters.megatron.stats import TokenStats
from ingot.converters.megatron.units import scan, stamped

__all__ = [
    "Beside",
    "BuildOptions",
    "IndexedReader",
    "TokenStats",
    "WorkOptions",
    "build",
    "render_chat",
    "scan",
    "stamped",
]
