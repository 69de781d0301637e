"""Readers: any location and format to batches of rows, streaming. See docs/readers.md."""

from ingot.converters.readers.facts import FileFacts, LeftOut, RootCandidate, SourceFile
from ingot.converters.readers.source import Source, open_source
from ingot.converters.readers.spec import SourceSpec

__all__ = [
    "FileFacts",
    "LeftOut",
    "RootCandidate",
    "Source",
    "SourceFile",
    "SourceSpec",
    "open_source",
]
