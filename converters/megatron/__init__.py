"""Megatron indexed data sets (`.bin/.idx`) from Parquet texts and unified records."""

from typing import TYPE_CHECKING

from ingot.converters.imports import lazy_names

if TYPE_CHECKING:
    from ingot.converters.megatron.chat.templates import render_chat
    from ingot.converters.megatron.indexed_dataset import IndexedReader
    from ingot.converters.megatron.options import BuildOptions, WorkOptions
    from ingot.converters.megatron.read.input_files import scan, stamp_files
    from ingot.converters.megatron.run.build import build
    from ingot.converters.megatron.run.data_set import TokenStats
    from ingot.converters.megatron.run.recipe import SideFiles

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

__getattr__ = lazy_names(
    __name__,
    {
        "BuildOptions": "options",
        "IndexedReader": "indexed_dataset",
        "SideFiles": "run.recipe",
        "TokenStats": "run.data_set",
        "WorkOptions": "options",
        "build": "run.build",
        "render_chat": "chat.templates",
        "scan": "read.input_files",
        "stamp_files": "read.input_files",
    },
)
