"""Rows with equal keys become one row: `group` of the mapping language, with bounded memory.

    {"group": {"by": ["conv_id"], "sort": "turn"}}

The rows of one file whose `by` values are equal become one row, the list of them. Groups stand in
the order in which their first rows were read. What the language leaves open is decided here:

- Keys are equal as JSON values are: `1` and `1.0` are, `1` and `"1"` are not. All hits of a path
  count, missing counts as null.
- A row whose keys are all missing or null belongs to nobody: it is a group of its own, so that
  rows without an id are never lumped into one conversation.
- `sort` reads the first hit. If every one of a group is a number, or text that spells one (a CSV
  has nothing else), they are ordered as numbers, exactly; else as text, by code point. Rows
  without a value come last. Equal values keep the order of the file.
- A row whose key path runs into a wrong type (`[*]` on a text) is a bad row.

The rows wait in a temporary SQLite file; what is in memory is one page cache and one group.
"""

import itertools
import json
import re
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from decimal import Decimal
from hashlib import blake2b
from pathlib import Path as FilePath
from uuid import uuid4

import orjson

from ingot.converters.errors import OutputError
from ingot.converters.mapping.language import Group
from ingot.converters.mapping.rows.values import row_nodes
from ingot.converters.paths import Node, Path
from ingot.converters.rows import BadRow, Batch, Json, RowError

# A batch of groups is closed by whichever comes first.
BATCH_GROUPS = 256
BATCH_BYTES = 4 << 20
_CACHED_KEYS = 100_000

_NUMBER = re.compile(r"\s*[+-]?[0-9]{1,400}(\.[0-9]{1,400})?([eE][+-]?[0-9]{1,4})?\s*", re.ASCII)
_TABLES = """
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
PRAGMA cache_size = -65536;
PRAGMA temp_store = FILE;
CREATE TABLE keys (key BLOB PRIMARY KEY, number INTEGER) WITHOUT ROWID;
CREATE TABLE entries (number INTEGER, place INTEGER, name TEXT, weight INTEGER, value ANY);
"""


def group_rows(
    batches: Iterable[Batch], group: Group, *, folder: FilePath | None = None
) -> Iterator[Batch]:
    """Group the rows of each file."""
    for file, stretch in itertools.groupby(batches, key=lambda batch: batch.file):
        yield from _group_file(file, stretch, group, folder)


def _group_file(
    file: str, batches: Iterable[Batch], group: Group, folder: FilePath | None
) -> Iterator[Batch]:
    path = folder / f"group-{uuid4().hex[:8]}.sqlite" if folder else None
    try:
        with closing(sqlite3.connect(path or "", isolation_level=None)) as database:
            database.executescript(_TABLES)
            shelf = _GroupStore(database=database)
            for batch in batches:
                bad = [*batch.bad, *shelf.add(batch, group.by)]
                if bad:
                    yield Batch(file=file, rows=(), values=(), bad=bad)
            database.execute("CREATE INDEX by_number ON entries (number)")
            yield from _group_batches(file, _groups(database, group.sort))
    except sqlite3.Error as error:
        where = str(path or "the temporary folder of SQLite")
        problem = f"cannot hold the rows that are grouped: {error}"
        raise OutputError(where, problem, "check the free space on the disk") from error
    finally:
        if path:
            path.unlink(missing_ok=True)


@dataclass(kw_only=True)
class _GroupStore:
    """Rows that wait for their group to be complete."""

    database: sqlite3.Connection
    known: dict[bytes | None, int] = field(default_factory=dict)
    count: int = 0

    def add(self, batch: Batch, by: Sequence[Path]) -> list[BadRow]:
        """Put a batch's rows away; gives those whose keys cannot be read."""
        entries = []
        bad = []
        names = batch.keys or itertools.repeat(None)
        weights = batch.weights or itertools.repeat(1)
        rows = zip(batch.rows, row_nodes(batch), names, weights, strict=False)
        self.database.execute("BEGIN")
        for row, node, name, weight in rows:
            try:
                number = self._number(_group_key(node, by))
            except RowError as error:
                bad.append(BadRow(row=row, detail=f"group: {error.reason}", found=error.found))
                continue
            entries.append((number, row, name, weight, _pack(node.value)))
        self.database.executemany("INSERT INTO entries VALUES (?, ?, ?, ?, ?)", entries)
        self.database.execute("COMMIT")
        return bad

    def _number(self, key: bytes | None) -> int:
        """The number of the group with this key, in order of first appearance; none is alone."""
        if key in self.known:
            return self.known[key]
        query = "SELECT number FROM keys WHERE key = ?"
        found = self.database.execute(query, (key,)).fetchone() if key else None
        number = int(found[0]) if found else self.count
        self.count += not found
        if key:
            if not found:
                self.database.execute("INSERT INTO keys VALUES (?, ?)", (key, number))
            if len(self.known) >= _CACHED_KEYS:
                self.known.clear()
            self.known[key] = number
        return number


def _group_key(start: Node, by: Sequence[Path]) -> bytes | None:
    """A digest of the row's keys, equal for equal JSON; None where all are missing or null."""
    hits = [path.find(start) for path in by]
    if all(hit is None for found in hits for hit in found):
        return None
    if all(found and all(hit.__class__ is str for hit in found) for found in hits):
        text = repr(hits)  # sooner than JSON; what holds anything but text has another spelling
    else:
        text = json.dumps([_plain_numbers(found or [None]) for found in hits], sort_keys=True)
    return blake2b(text.encode(), digest_size=16).digest()


def _plain_numbers(value: Json) -> Json:
    """The value with every whole float as an integer, so that equal numbers are spelt alike."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_plain_numbers(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain_numbers(item) for key, item in value.items()}
    return value


def _pack(value: Json) -> bytes | str:
    """A row as bytes of orjson, or as text of the slower `json` where it holds a wider integer."""
    try:
        return orjson.dumps(value)
    except TypeError:
        return json.dumps(value)


def _unpack(packed: bytes | str) -> Json:
    return orjson.loads(packed) if isinstance(packed, bytes) else json.loads(packed)


@dataclass(frozen=True, kw_only=True)
class _RowGroup:
    row: int
    key: str | None
    weight: int
    values: list[Json]
    size: int


def _groups(database: sqlite3.Connection, sort: Path | None) -> Iterator[_RowGroup]:
    query = "SELECT number, place, name, weight, value FROM entries ORDER BY number, rowid"
    for _, entries in itertools.groupby(database.execute(query), key=lambda entry: entry[0]):
        members = list(entries)
        values = [_unpack(packed) for *_, packed in members]
        if sort is not None:
            values = _sort_rows(values, sort)
        _, row, key, _, _ = members[0]
        yield _RowGroup(
            row=row,
            key=key,
            weight=sum(weight for *_, weight, _ in members),
            values=values,
            size=sum(len(packed) for *_, packed in members),
        )


def _sort_rows(values: list[Json], sort: Path) -> list[Json]:
    """The rows in the order of `sort`, those without a value last; a stable sort."""
    hits = [_first_hit(value, sort) for value in values]
    numbers = [_exact_number(hit) for hit in hits]
    numeric = all(
        one is not None for one, hit in zip(numbers, hits, strict=True) if hit is not None
    )

    def rank(index: int) -> tuple[bool, int | float | Decimal | str]:
        number = numbers[index]
        if numeric:
            return number is None, 0 if number is None else number
        hit = hits[index]
        return hit is None, "" if hit is None else _sort_text(hit)

    return [values[index] for index in sorted(range(len(values)), key=rank)]


def _first_hit(value: Json, sort: Path) -> Json:
    try:
        hits = sort.find(Node(value))
    except RowError:
        return None
    return hits[0] if hits else None


def _exact_number(value: Json) -> int | float | Decimal | None:
    """The number that a JSON number or a text spells; all these kinds compare exactly."""
    if isinstance(value, str):
        return Decimal(value.strip()) if _NUMBER.fullmatch(value) else None
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _sort_text(value: Json) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _group_batches(file: str, groups: Iterator[_RowGroup]) -> Iterator[Batch]:
    pending: list[_RowGroup] = []
    size = 0
    for one in groups:
        pending.append(one)
        size += one.size
        if len(pending) == BATCH_GROUPS or size >= BATCH_BYTES:
            yield _group_batch(file, pending)
            pending, size = [], 0
    if pending:
        yield _group_batch(file, pending)


def _group_batch(file: str, groups: list[_RowGroup]) -> Batch:
    keyed = any(one.key is not None for one in groups)
    return Batch(
        file=file,
        rows=[one.row for one in groups],
        values=[one.values for one in groups],
        keys=[one.key or str(one.row) for one in groups] if keyed else None,
        weights=[one.weight for one in groups],
    )
