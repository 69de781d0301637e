"""Running a mapping document on rows in memory: the short way for tests of the language."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from ingot.converters.mapping.bind import bind
from ingot.converters.mapping.rows.executor import RowExecutor, UnifiedBatch
from ingot.converters.rows import Batch


def unify_rows(
    document: dict[str, Any],
    rows: Sequence[Any],
    *,
    keys: Sequence[str] | None = None,
    **options: Any,
) -> UnifiedBatch:
    """Bind the document on the rows and convert them as one batch of the file `rows.jsonl`."""
    mapping = bind(document, rows)
    unifier = RowExecutor(mapping, **{"source_name": "rows", **options})
    return unifier.batch(Batch(file="rows.jsonl", rows=range(len(rows)), values=rows, keys=keys))


@pytest.fixture
def unify() -> Callable[..., UnifiedBatch]:
    """`unify(document, rows)` -> `Unified`."""
    return unify_rows
