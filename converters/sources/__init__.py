"""Readers: any location and format to batches of rows, streaming. See docs/readers.md."""

from typing import TYPE_CHECKING

from ingot.converters.imports import lazy_names

if TYPE_CHECKING:
    from ingot.converters.sources.facts import (
        FileFacts,
        LeftOut,
        RootCandidate,
        SourceFile,
        SourceSpec,
    )
    from ingot.converters.sources.source import Source, open_source

__all__ = [
    "FileFacts",
    "LeftOut",
    "RootCandidate",
    "Source",
    "SourceFile",
    "SourceSpec",
    "open_source",
]
__getattr__ = lazy_names(
    __name__,
    {
        **dict.fromkeys(("Source", "open_source"), "source"),
        **dict.fromkeys(("FileFacts", "LeftOut", "RootCandidate"), "facts"),
        **dict.fromkeys(("SourceFile", "SourceSpec"), "facts"),
    },
)
