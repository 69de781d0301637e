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

The rows wait in memory up to a bound of bytes, and beyond it in a temporary SQLite file.
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
from operator import itemgetter
from pathlib import Path as FilePath
from uuid import uuid4

import orjson

from ingot.converters.errors import OutputError
from ingot.converters.json_yaml import map_leaves
from ingot.converters.mapping.language import Group
from ingot.converters.mapping.rows.values import row_nodes
from ingot.converters.paths import MISSING, Node, Path
from ingot.converters.rows import BadRow, Batch, Json, RowError, group_sized

# A batch of groups is closed by whichever comes first.
BATCH_GROUPS = 256
BATCH_BYTES = 4 << 20
HELD_BYTES = 32 << 20  # of rows that wait in memory
_KNOWN_BYTES = 32 << 20  # of keys in memory
_ENTRY_BYTES = 300  # of an entry in memory beside its rows

_NUMBER = re.compile(r"\s*[+-]?[0-9]{1,400}(\.[0-9]{1,400})?([eE][+-]?[0-9]{1,4})?\s*", re.ASCII)
_TABLES = """
PRAGMA page_size = 32768;
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
PRAGMA cache_size = -8192;
PRAGMA temp_store = FILE;
CREATE TABLE keys (key BLOB PRIMARY KEY, number INTEGER) WITHOUT ROWID;
CREATE TABLE entries (
    number INTEGER, place INTEGER, name TEXT, weight INTEGER, size INTEGER, value ANY
);
"""

# The keys of a group; an entry of the table: some of its rows, those of one batch.
_Key = tuple[str, ...] | str | None
_Entry = tuple[int, int, str | None, int, int, bytes | str]


def group_rows(
    batches: Iterable[Batch], group: Group, *, folder: FilePath | None = None
) -> Iterator[Batch]:
    """Group the rows of each file."""
    for file, stretch in itertools.groupby(batches, key=lambda batch: batch.file):
        path = folder / f"group-{uuid4().hex[:8]}.sqlite" if folder else None
        try:
            with closing(sqlite3.connect(path or "", isolation_level=None)) as database:
                database.executescript(_TABLES)
                shelf = _GroupStore(database=database)
                for batch in stretch:
                    bad = [*batch.bad, *shelf.add(batch, group.by)]
                    if bad:
                        yield Batch(file=file, rows=(), values=(), bad=bad)
                sized = ((one, one.size) for one in _groups(shelf.entries(), group.sort))
                for some in group_sized(sized, BATCH_GROUPS, BATCH_BYTES):
                    yield _group_batch(file, some)
        except sqlite3.Error as error:
            where = str(path or "the temporary folder of SQLite")
            problem = f"cannot hold the rows that are grouped: {error}"
            raise OutputError(where, problem, "check the free space on the disk") from error
        finally:
            if path:
                path.unlink(missing_ok=True)


@dataclass(kw_only=True)
class _GroupStore:
    """Rows that wait for their group to be complete: in memory, and what was put away before."""

    database: sqlite3.Connection
    known: dict[_Key, int] = field(default_factory=dict)
    known_bytes: int = 0
    keys_away: bool = False
    count: int = 0
    held: dict[int, list[_Entry]] = field(default_factory=dict)
    held_bytes: int = 0
    rows_away: bool = False

    def add(self, batch: Batch, by: Sequence[Path]) -> list[BadRow]:
        """Take a batch's rows; gives those whose keys cannot be read."""
        bad = []
        groups: dict[int, list[int]] = {}  # the places of each group's rows in the batch
        for place, node in enumerate(row_nodes(batch)):
            try:
                number = self._number(_group_key(node, by))
            except RowError as error:
                row = batch.rows[place]
                bad.append(BadRow(row=row, detail=f"group: {error.reason}", found=error.found))
                continue
            groups.setdefault(number, []).append(place)
        for number, places in groups.items():
            found = list(_pack_rows(batch, number, places))
            self.held.setdefault(number, []).extend(found)
            self.held_bytes += sum([_ENTRY_BYTES + len(packed) for *_, packed in found])
        if self.held_bytes > HELD_BYTES:
            self._put_rows_away()
        return bad

    def entries(self) -> Iterator[_Entry]:
        """Yield all entries by their groups, in the order in which they came."""
        if not self.rows_away:  # groups are numbered in the order in which they are held
            yield from itertools.chain.from_iterable(self.held.values())
            return
        self._put_rows_away()
        self.database.execute("CREATE INDEX by_number ON entries (number)")
        yield from self.database.execute("SELECT * FROM entries ORDER BY number, rowid")

    def _put_rows_away(self) -> None:
        entries = itertools.chain.from_iterable(self.held.values())
        self._insert("INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?)", entries)
        self.held, self.held_bytes, self.rows_away = {}, 0, True

    def _put_keys_away(self) -> None:
        keys = ((_digest(key), number) for key, number in self.known.items())
        self._insert("INSERT OR IGNORE INTO keys VALUES (?, ?)", keys)
        self.known, self.known_bytes, self.keys_away = {}, 0, True

    def _insert(self, statement: str, rows: Iterable[tuple[object, ...]]) -> None:
        self.database.execute("BEGIN")
        self.database.executemany(statement, rows)
        self.database.execute("COMMIT")

    def _number(self, key: _Key) -> int:
        """The number of the group with this key, in order of first appearance; none is alone."""
        number = self.known.get(key)
        if number is not None:
            return number
        if key and self.keys_away:
            query = "SELECT number FROM keys WHERE key = ?"
            found = self.database.execute(query, (_digest(key),)).fetchone()
            number = int(found[0]) if found else None
        if number is None:
            number = self.count
            self.count += 1
        if key:
            if self.known_bytes > _KNOWN_BYTES:
                self._put_keys_away()
            self.known[key] = number
            self.known_bytes += len(repr(key)) + _ENTRY_BYTES
        return number


def _pack_rows(batch: Batch, number: int, places: list[int]) -> Iterator[_Entry]:
    """The rows of a group: in one entry, or one each where orjson cannot write them."""
    rows = _pack([batch.values[place] for place in places])
    parts = [(places, rows)]
    if isinstance(rows, str) and len(places) > 1:
        parts = [([place], _pack([batch.values[place]])) for place in places]
    for part, packed in parts:
        first, weights = part[0], batch.weights
        weight = sum(weights[place] for place in part) if weights else len(part)
        name = batch.keys[first] if batch.keys else None
        # The size of its rows: without the brackets and commas of the list.
        size = len(packed) - len(part) - 1
        yield number, batch.rows[first], name, weight, size, packed


def _pack(rows: list[Json]) -> bytes | str:
    """Rows as bytes of orjson, or as text of the slower `json` where one has a wider integer."""
    try:
        return bytes(memoryview(orjson.dumps(rows)))  # a copy: what orjson gives holds 4 KB
    except TypeError:
        return json.dumps(rows)


def _unpack(packed: bytes | str) -> list[Json]:
    rows: list[Json] = (orjson if isinstance(packed, bytes) else json).loads(packed)
    return rows


def _digest(key: _Key) -> bytes:
    return blake2b(repr(key).encode(), digest_size=16).digest()


def _group_key(start: Node, by: Sequence[Path]) -> _Key:
    """The row's keys, equal for equal JSON; None if all are missing or null."""
    found = [path.single(start) if path.single else None for path in by]
    texts = [text for text in found if isinstance(text, str)]
    if len(texts) == len(by):
        return tuple(texts)
    hits = [path.find(start) for path in by]
    if all(hit is None for found in hits for hit in found):
        return None
    # Another spelling than that of texts alone.
    return json.dumps(
        map_leaves([found or [None] for found in hits], _plain_number), sort_keys=True
    )


def _plain_number(value: Json) -> Json:
    """A number as an integer where it is whole, so that equal numbers are spelt alike."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


@dataclass(frozen=True, kw_only=True)
class _RowGroup:
    row: int
    key: str | None
    weight: int
    values: list[Json]
    size: int


def _groups(entries: Iterator[_Entry], sort: Path | None) -> Iterator[_RowGroup]:
    for _, of_group in itertools.groupby(entries, key=itemgetter(0)):
        members = list(of_group)
        values = [value for *_, packed in members for value in _unpack(packed)]
        _, row, key, *_ = members[0]
        yield _RowGroup(
            row=row,
            key=key,
            weight=sum(member[3] for member in members),
            values=values if sort is None else _sort_rows(values, sort),
            size=sum(member[4] for member in members),
        )


def _sort_rows(values: list[Json], sort: Path) -> list[Json]:
    """The rows in the order of `sort`, those without a value last; a stable sort."""
    hits = [_first_hit(value, sort) for value in values]
    if {*map(type, hits)} == {int}:
        return [values[index] for index in sorted(range(len(values)), key=hits.__getitem__)]
    numbers = [_exact_number(hit) for hit in hits]
    numeric = all(
        one is not None for one, hit in zip(numbers, hits, strict=True) if hit is not None
    )

    def rank(index: int) -> tuple[bool, int | float | Decimal | str]:
        number = numbers[index]
        if numeric:
            return number is None, 0 if number is None else number
        hit = hits[index]
        if hit is None or isinstance(hit, str):
            return hit is None, hit or ""
        return False, json.dumps(hit, ensure_ascii=False)

    return [values[index] for index in sorted(range(len(values)), key=rank)]


def _first_hit(value: Json, sort: Path) -> Json:
    if sort.single:
        found = sort.single(Node(value))
        return None if found is MISSING else found
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


def _group_batch(file: str, groups: list[_RowGroup]) -> Batch:
    keyed = any(one.key is not None for one in groups)
    return Batch(
        file=file,
        rows=[one.row for one in groups],
        values=[one.values for one in groups],
        keys=[one.key or str(one.row) for one in groups] if keyed else None,
        weights=[one.weight for one in groups],
    )
