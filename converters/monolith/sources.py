"""The rows of a stream, whatever kind of record it has, and of a table."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, BinaryIO, Final

from ingot.converters.errors import SourceError, StorageError
from ingot.converters.monolith.contract import Kind
from ingot.converters.monolith.records import Bad, Records
from ingot.converters.monolith.rows import Rows

if TYPE_CHECKING:
    import pyarrow as pa

    from ingot.converters.monolith.fid import Version
    from ingot.converters.monolith.framing.reading import RecordReader
    from ingot.converters.monolith.tables.table_file import TableFile

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


def as_far_as_read(reader: "RecordReader") -> Iterator[Records | Bad]:
    """The parts that a reader gives; that it cannot be read on is a `Bad` at its end.

    Raises:
        StorageError: its storage cannot be reached.
        SourceError: its records are of another kind.
    """
    from ingot.converters.monolith.framing.reading import OtherKindError

    number = 0
    try:
        for part in reader:
            yield part
            number = part.number + len(part) if isinstance(part, Records) else part.record + 1
    except (StorageError, OtherKindError):
        raise
    except SourceError as error:
        detail = f"after {number:,} records: {error.problem}"
        offset, size = reader.broken
        yield Bad(
            offset=offset, bytes=size, record=number, row=None, reason="unreadable", detail=detail
        )


def table_records(
    stream: BinaryIO, where: str, table: "TableFile | None" = None, fid: "Version" = "v2"
) -> Iterator[Records | Bad]:
    """The rows of a Parquet file as Examples, and those that cannot be; see `tables.plan`.

    Raises:
        SourceError: it is no Parquet file, or is damaged.
        ParametersError: its columns are not what they should be.
        ConversionError: numba or protobuf is not installed.
    """
    from ingot.converters.monolith.tables.files import open_table

    with open_table(stream, where) as (schema, batches):
        yield from batch_records(schema, batches, where, table, fid)


def batch_records(
    schema: "pa.Schema",
    batches: "Iterable[pa.RecordBatch]",
    where: str,
    table: "TableFile | None" = None,
    fid: "Version" = "v2",
) -> Iterator[Records | Bad]:
    """The same for the rows of record batches.

    Raises:
        ParametersError: their columns are not what they should be.
        ConversionError: numba or protobuf is not installed.
    """
    from ingot.converters.monolith.tables.encoding import examples_of
    from ingot.converters.monolith.tables.plan import plan_of

    number, plan = 0, plan_of(schema, table, fid, where)
    for batch in batches:
        records, wrong = examples_of(batch, plan, number)
        yield from _numbered(records, {bad.record for bad in wrong}, number)
        yield from wrong
        number += batch.num_rows


def _numbered(records: Records, wrong: set[int], number: int) -> Iterator[Records]:
    """Records of the good rows of a table, with the numbers that the rows have in it."""
    begin = 0
    for gap in (*sorted(wrong), number + len(records) + len(wrong)):
        end = begin + gap - number
        if end > begin:
            yield replace(records.part(begin, end), number=number)
        begin, number = end, gap + 1


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
