"""Rows as every reader gives them and every executor takes them: JSON values with their place."""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final, NewType, TypeAlias, TypedDict, TypeVar

from ingot.converters.errors import MappingError, Problem, count_text

# Readers give JSON types only: None, bool, int, float, str, list, dict. Times, decimals, bytes and
# Arrow scalars are turned into these at the reader, and a text that is not valid Unicode is a bad
# row.
Json: TypeAlias = Any
# A mapping as its file holds it, of either version: `schemas/mapping.schema.json` says what.
MappingDocument: TypeAlias = dict[str, Any]
# Who made a mapping and what was seen then: its `provenance`, which anybody may have written.
Provenance: TypeAlias = dict[str, Json]
# A text that may leave the machine or be kept beside results: `ingot.agent.privacy` makes it of raw
# text. Elsewhere `Safe(...)` stands only in functions that take nothing raw; a test looks at them.
Safe = NewType("Safe", str)
EMPTY_TEXT = Safe("")


class RowError(Exception):
    """A row or record cannot be converted: reason of the closed list, path, and what was found."""

    def __init__(self, reason: str, path: str | None, found: str) -> None:
        super().__init__(reason, path, found)
        self.reason = reason
        self.path = path
        self.found = found


@dataclass(frozen=True, kw_only=True, slots=True)
class BadRow:
    """A row that could not be read: its number in the file from 0, why, and what was found."""

    row: int
    detail: str
    found: str
    reason: str = "bad_row"  # or `bad_json`: the field at `path` should hold JSON, and does not
    path: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Batch:
    """Consecutive rows of one file; rows read = `sum(weights) + len(bad)`."""

    file: str
    rows: Sequence[int]
    values: Sequence[Json]
    keys: Sequence[str] | None = None  # what `~` gives for each row, None: the row number
    weights: Sequence[int] | None = None  # input rows behind each value (a group), None: 1 each
    bad: Sequence[BadRow] = ()
    table: Any | None = None  # the same rows as a `pyarrow.RecordBatch` where the file is columnar
    non_finite: Sequence[tuple[int, int]] = ()  # rows, and how many NaN and so on became null

    def take(self, places: Sequence[int], bad: Sequence[BadRow] = ()) -> "Batch":
        """Return some of the rows, without a table, beside some that could not be read."""
        take = getattr(self.values, "take", None)  # rows that are made on the first look
        return Batch(
            file=self.file,
            rows=[self.rows[place] for place in places],
            values=take(places) if take else [self.values[place] for place in places],
            keys=None if self.keys is None else [self.keys[place] for place in places],
            weights=None if self.weights is None else [self.weights[place] for place in places],
            bad=bad,
        )


class NonFinite(TypedDict):
    """Numbers of JSON that are not finite and were read as null: how many, and the first row."""

    numbers: int
    rows: int
    file: str
    row: int


def count_non_finite(counted: Iterable[tuple[str, int, int]]) -> NonFinite | None:
    """Sum up (file, row, numbers) of some rows in their order; None if there is no row."""
    rows = list(counted)
    if not rows:
        return None
    numbers = sum(count for _, _, count in rows)
    return {"numbers": numbers, "rows": len(rows), "file": rows[0][0], "row": rows[0][1]}


def add_non_finite(former: NonFinite | None, other: NonFinite | None) -> NonFinite | None:
    """Add what comes later to what came first."""
    if former is None or other is None:
        return former or other
    numbers, rows = former["numbers"] + other["numbers"], former["rows"] + other["rows"]
    return {**former, "numbers": numbers, "rows": rows}


def non_finite_text(found: NonFinite) -> str:
    """Return what people read of such numbers."""
    row = f" row {found['row']}" if found["row"] >= 0 else ""  # of a sample it may be unknown
    numbers = count_text(found["numbers"], "number")
    rows = count_text(found["rows"], "row")
    where = f"the first in {found['file']}{row}"
    return f"NaN or Infinity was read as null: {numbers} in {rows}, {where}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Reject:
    """A row or record that did not become a record."""

    file: str
    row: int
    element: int | None
    reason: str  # of the closed list in docs/mapping.md
    path: str | None
    found: str | None
    rows: int = 1  # of the input, of which this is the only outcome


_Piece = TypeVar("_Piece")


def group_sized(
    pieces: Iterable[tuple[_Piece, int]], most: int, most_size: int
) -> Iterator[list[_Piece]]:
    """Yield neighbours together: `most` of them, or fewer once their sizes reach `most_size`."""
    held: list[_Piece] = []
    size = 0
    for piece, own in pieces:
        held.append(piece)
        size += own
        if len(held) == most or size >= most_size:
            yield held
            held, size = [], 0
    if held:
        yield held


def read_ahead(pieces: Iterator[_Piece], reader: ThreadPoolExecutor) -> Iterator[_Piece]:
    """Yield the pieces, the next of them read while one is worked on."""
    following = reader.submit(next, pieces, None)
    while (piece := following.result()) is not None:
        following = reader.submit(next, pieces, None)
        yield piece


# --- how much a mapping may look at

_MOST_LOOKED_AT: Final = 5_000_000  # places that a mapping may look at while it is tried
_LEFT: ContextVar[list[int] | None] = ContextVar("places left to look at", default=None)


@contextmanager
def limit_looks() -> Iterator[None]:
    """Bound how much paths may visit inside: a hostile `l[*].^.l[*]` multiplies any list.

    Raises MappingError if they visit too much.
    """
    token = _LEFT.set([_MOST_LOOKED_AT])
    try:
        yield
    finally:
        _LEFT.reset(token)


def count_looks(places: int) -> None:
    """Count places that are looked at, where `limit_looks` bounds them. Raises MappingError."""
    if left := _LEFT.get():
        left[0] -= places
        if left[0] < 0:
            wanted = f"at most {_MOST_LOOKED_AT:,} places to look at in the sampled rows"
            raise MappingError("the mapping", (Problem("", "too_much", wanted, "more"),))
