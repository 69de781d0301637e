"""Unified records on disk: schemas, writers and readers. See docs/output.md."""

from typing import TYPE_CHECKING, Literal

from ingot.converters.imports import lazy_names

if TYPE_CHECKING:
    from ingot.converters.records.readers import read_batches, read_records
    from ingot.converters.records.writers import RecordWriter

RecordFormat = Literal["parquet", "jsonl", "delta"]

__all__ = ["RecordFormat", "RecordWriter", "read_batches", "read_records"]

__getattr__ = lazy_names(
    __name__, {"RecordWriter": "writers", "read_batches": "readers", "read_records": "readers"}
)
