"""Monolith's Example and ExampleBatch: streams read and written, converted, cast from tables.

What is written, every rule and the decisions: `docs/monolith.md`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ingot.converters.monolith import fid
    from ingot.converters.monolith.arrow import read_arrow, write_arrow
    from ingot.converters.monolith.framing.framing import Framing
    from ingot.converters.monolith.reading import (
        ExampleBatchReader,
        ExampleReader,
        read_examples,
        write_examples,
    )

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

_MODULES = {
    "ExampleBatchReader": "reading",
    "ExampleReader": "reading",
    "Framing": "framing.framing",
    "read_arrow": "arrow",
    "read_examples": "reading",
    "write_arrow": "arrow",
    "write_examples": "reading",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - any of them
    """Load what reads and writes when it is asked for."""
    if name == "fid":
        return import_module(f"{__name__}.fid")
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
