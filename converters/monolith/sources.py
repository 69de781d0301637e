"""The rows of a stream, whatever kind of record it has."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from ingot.converters.monolith.contract import Kind
from ingot.converters.monolith.records import Bad, Records
from ingot.converters.monolith.rows import Rows

_FEATURES: Final = 1 << 17
"""Features of rows that are given together."""


def rows_of(
    parts: Iterable[Records | Bad], kind: Kind, lost: Counter[str] | None = None
) -> Iterator[Rows | Bad]:
    """The rows of records, some at a time, and what cannot be used, in the order of the stream.

    Args:
        parts: as a `RecordReader` gives them.
        kind: what the records are.
        lost: where given, fields are counted that an Example has no place for, by their names.

    Raises:
        ConversionError: numba or protobuf is not installed.
        SourceError: the stream cannot be read.
    """
    for part in parts:
        if isinstance(part, Bad):
            yield part
            continue
        yield from _together(_indexed(part, kind, lost))


def _together(found: Iterable[tuple[Rows, list[Bad]]]) -> Iterator[Rows | Bad]:
    """Rows of small batches as one: what follows costs something for each `Rows`, too."""
    from ingot.converters.monolith.wire.joining import join

    held: list[Rows] = []
    features = 0
    for rows, wrong in found:
        if len(rows):
            held.append(rows)
            features += len(rows.name)
        if held and (wrong or features >= _FEATURES):
            yield join(held)
            held, features = [], 0
        yield from wrong
    if held:
        yield join(held)


def _indexed(
    records: Records, kind: Kind, lost: Counter[str] | None
) -> Iterable[tuple[Rows, list[Bad]]]:
    # Kernels are loaded with what calls them.
    from ingot.converters.monolith.wire.indexing import index_batches, index_examples
    from ingot.converters.monolith.wire.instances import index_instances

    if kind == "examplebatch":
        return index_batches(records)
    if kind == "example":
        return [index_examples(records)]
    found = index_instances(records)
    if lost is not None:
        lost.update(found.lost)
    return [(found.rows, found.wrong)]
