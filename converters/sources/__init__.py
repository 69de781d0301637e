"""Readers: any location and format to batches of rows, streaming. See docs/readers.md."""

from ingot.converters.sources.facts import FileFacts, LeftOut, RootCandidate, SourceFile, SourceSpec
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
