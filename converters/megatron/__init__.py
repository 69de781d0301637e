"""Megatron indexed data sets (`.bin/.idx`) from Parquet texts and unified records."""

from ingot.converters.megatron.chat.rendering import render_chat
from ingot.converters.megatron.indexed_dataset import IndexedReader
from ingot.converters.megatron.options import BuildOptions, WorkOptions
from ingot.converters.megatron.read.input_files import scan, stamp_files
from ingot.converters.megatron.run.build import SideFiles, build
from ingot.converters.megatron.run.recipe import TokenStats

__all__ = [
    "BuildOptions",
    "IndexedReader",
    "SideFiles",
    "TokenStats",
    "WorkOptions",
    "build",
    "render_chat",
    "scan",
    "stamp_files",
]
