"""Running a mapping document on rows in memory: the short way for tests of the language."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from ingot.converters.mapping import bind
from ingot.converters.rows import Batch
from ingot.converters.unify import Unified, Unifier


def unify_rows(
    document: dict[str, Any],
    rows: Sequence[Any],
    *,
    keys: Sequence[str] | None = None,
    **options: Any,
) -> Unified:
    """Bind the document on the rows and convert them as one batch of the file `rows.jsonl`."""
    mapping = bind(document, rows)
    unifier = Unifier(mapping, **{"source_name": "rows", **options})
    return unifier.batch(Batch(file="rows.jsonl", rows=range(len(rows)), values=rows, keys=keys))


@pytest.fixture
def unify() -> Callable[..., Unified]:
    """`unify(document, rows)` -> `Unified`."""
    return unify_rows
