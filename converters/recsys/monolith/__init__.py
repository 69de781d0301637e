"""Monolith's Example and ExampleBatch: streams read and written, converted, cast from tables.

What is written, every rule and the decisions: `docs/monolith.md`.
"""

from typing import TYPE_CHECKING

from ingot.converters.imports import lazy_names

if TYPE_CHECKING:
    from ingot.converters.recsys.monolith.arrow_io import read_arrow, write_arrow
    from ingot.converters.recsys.monolith.example_io import (
        ExampleBatchReader,
        ExampleReader,
        read_examples,
        write_examples,
    )
    from ingot.converters.recsys.monolith.frames.framing import Framing

__all__ = [
    "ExampleBatchReader",
    "ExampleReader",
    "Framing",
    "fid",
    "read_arrow",
    "read_examples",
    "write_arrow",
    "write_examples",
]

__getattr__ = lazy_names(
    __name__,
    {
        "fid": "fid",
        "ExampleBatchReader": "example_io",
        "ExampleReader": "example_io",
        "Framing": "frames.framing",
        "read_arrow": "arrow_io",
        "read_examples": "example_io",
        "write_arrow": "arrow_io",
        "write_examples": "example_io",
    },
)
