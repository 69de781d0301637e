"""The choice of the executor: each batch goes to the Arrow executor where that carries it."""

import pyarrow as pa

from ingot.converters.columnar import ColumnarUnified, ColumnarUnifier, carries
from ingot.converters.language import Mapping
from ingot.converters.rows import Batch
from ingot.converters.unify import Unified, Unifier


class AnyUnifier:
    """Executes one mapping on batches of any kind; both executors give the same records.

    Args:
        mapping: a bound mapping.
        source_name: `meta.source` where the mapping has none.
        language: `meta.language` likewise.
        columns: False = never the Arrow executor.

    Attributes:
        stats: counts per path over all batches, whoever executed them.
    """

    def __init__(
        self,
        mapping: Mapping,
        *,
        source_name: str,
        language: str | None = None,
        columns: bool = True,
    ) -> None:
        self._mapping = mapping
        self._source_name, self._language = source_name, language
        self._rows = Unifier(mapping, source_name=source_name, language=language)
        self.stats = self._rows.stats
        self._columns = columns
        self._by_schema: dict[pa.Schema, ColumnarUnifier | None] = {}

    def batch(self, batch: Batch) -> Unified | ColumnarUnified:
        """Convert a batch. Nothing is raised for bad rows: they are rejects of the result."""
        by_columns = self._for(batch.table.schema) if batch.table is not None else None
        return self._rows.batch(batch) if by_columns is None else by_columns.batch(batch)

    def _for(self, schema: pa.Schema) -> ColumnarUnifier | None:
        if schema not in self._by_schema:
            self._by_schema[schema] = self._made_for(schema) if self._columns else None
        return self._by_schema[schema]

    def _made_for(self, schema: pa.Schema) -> ColumnarUnifier | None:
        if carries(self._mapping, schema) is not None:
            return None
        return ColumnarUnifier(
            self._mapping,
            schema,
            source_name=self._source_name,
            language=self._language,
            rows=self._rows,
        )
