"""The documents of mappings, as tests write and compare them."""

from typing import Any

from ingot.converters.mapping.documents.writer import to_document
from ingot.converters.mapping.language import Mapping


def document(mapping: Mapping | None) -> dict[str, Any]:
    """Return the document of a mapping that is there."""
    assert mapping is not None
    made: dict[str, Any] = to_document(mapping)
    return made
