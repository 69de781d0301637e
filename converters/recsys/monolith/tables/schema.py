"""Find the columns that rows need, with their names, Arrow types and metadata."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ingot.converters.recsys.monolith.contract import FEATURE_KINDS, INSTANCE_WEIGHT, LABEL
from ingot.converters.recsys.monolith.features import DEPTH, VALUES, Features, read_features
from ingot.converters.recsys.monolith.line_ids import (
    FIELDS,
    LISTS,
    NUMBERS,
    TEXTS,
    LineIds,
    decode_line_ids,
)
from ingot.converters.recsys.monolith.record_index import Places, Rows, frozen, prefix_sums
from ingot.converters.recsys.monolith.tables.keys import (
    MAX_COLUMNS,
    MAX_KEYS,
    FeatureKeys,
    count_reordered,
    too_many_columns,
)

Null = Literal["absent", "unset"]

KIND: Final = b"monolith.kind"
NAME: Final = b"monolith.name"
IDENT: Final = b"monolith.id"
SORTED_ID: Final = b"monolith.sorted_id"
NULL: Final = b"monolith.null"
"""Keys of a field's metadata: the feature of a column, and whether null is an absent or an unset
one."""
TABLE: Final = b"monolith.table"  # key of a schema's metadata, with the version of these rules
VERSION: Final = b"1"

LINE_COLUMNS: Final[Mapping[str, str]] = {field: f"__{field.upper()}__" for field in FIELDS}
"""The columns of a LineId's fields, as Monolith's own ParquetDataset names them."""
LINE_REST: Final = "__LINE_ID_REST__"
SOURCE: Final = "__DATA_SOURCE_KEY__"
SORT_ID: Final = "__SORT_ID__"
REST: Final = "__REST__"
SPECIAL: Final = frozenset(
    (*LINE_COLUMNS.values(), LINE_REST, LABEL, INSTANCE_WEIGHT, SOURCE, SORT_ID, REST)
)
"""Columns that are no features."""

UNSET: Final = 0
KIND_NUMBERS: Final[Mapping[str, int]] = {name: number for number, name in FEATURE_KINDS.items()}
_FIDS: Final = frozenset(number for number, name in FEATURE_KINDS.items() if "fid_" in name)
_BY_VALUES: Final = (pa.float64(), pa.float32(), pa.int64(), pa.binary())


def _type_of(kind: int) -> pa.DataType:
    values = pa.uint64() if kind in _FIDS else _BY_VALUES[VALUES[kind]]
    for _ in range(DEPTH[kind]):
        values = pa.list_(values)
    return values


TYPES: Final[Mapping[int, pa.DataType]] = {
    kind: pa.bool_() if kind == UNSET else _type_of(kind) for kind in FEATURE_KINDS
}
"""The Arrow type of a feature's column by its kind; a column that says where one is unset is bool.
It is never Arrow's null type: Spark before 4.2 cannot read a file with such a column."""


def is_fid(kind: int) -> bool:
    """Return whether values of a kind are fids."""
    return kind in _FIDS


def line_type(field: str) -> pa.DataType:
    """Return the Arrow type of a LineId field's column."""
    if field in LISTS:
        return pa.list_(pa.int32())
    return pa.string() if field in TEXTS else pa.from_numpy_dtype(np.dtype(NUMBERS[field].dtype))


@dataclass(frozen=True, kw_only=True)
class Column:
    """A column of features."""

    label: str
    name: bytes  # the features' name, in UTF-8
    ident: int = 0  # their `id`
    sorted_id: int = 0  # their `sorted_id`
    kind: int  # number of `contract.FEATURE_KINDS`; `UNSET` for one that says where they are unset
    null: Null = "absent"

    def field(self) -> pa.Field:
        """Return the Arrow field that describes the column."""
        metadata = {
            NAME: self.name,
            KIND: FEATURE_KINDS[self.kind].encode(),
            IDENT: str(self.ident).encode(),
            SORTED_ID: str(self.sorted_id).encode(),
            NULL: self.null.encode(),
        }
        return pa.field(self.label, TYPES[self.kind], True, metadata)


def free_name(candidates: Iterable[str], used_names: set[str]) -> str:
    """Return the first name that is free, or the last one with a number; it is taken then."""
    candidate = ""
    for candidate in candidates:
        if candidate not in used_names:
            break
    number, base = 2, candidate
    while candidate in used_names:
        candidate = f"{base}:{number}"
        number += 1
    used_names.add(candidate)
    return candidate


PART_BYTES: Final = 32 << 20  # bytes of what the rows of a part say, or of one row


def split_rows(rows: Rows, max_rows: int = 1 << 62) -> Iterator[Rows]:
    """Yield consecutive rows with at most `PART_BYTES` of content, at least one row at a time."""
    spans = [getattr(rows, name) for name in ("start", "stop", "extra_start", "extra_stop")]
    start, stop, extra_start, extra_stop = (int(span.sum()) for span in spans)
    of_features = stop - start + extra_stop - extra_start
    # Bytes that each row says beside features; as columns a varint may be eight.
    line, rest = rows.line_stop - rows.line_start, rows.rest_stop - rows.rest_start
    of_rows: Places = line + rest + np.diff(rows.label_first) * 4
    of_rows += rows.sort_stop - rows.sort_start
    if len(rows) <= max_rows and of_features + of_rows.sum() <= PART_BYTES:
        yield from [rows] if len(rows) else []
        return
    features = prefix_sums((rows.stop - rows.start) + (rows.extra_stop - rows.extra_start))
    sizes = np.cumsum(np.diff(features[rows.first]) + of_rows)
    first, before = 0, 0
    while first < len(rows):
        fitting = int(np.searchsorted(sizes, before + PART_BYTES, "right"))
        last = min(max(first + 1, fitting), first + max_rows)
        yield rows.part(first, last)
        first, before = last, int(sizes[last - 1])


_LAST: Final = 1 << 30  # the place of what goes into the rest, behind all columns


class SeenRows(NamedTuple):
    """What is found out of rows to tell their columns, and to fill these."""

    features: Features
    # bool[E], which features no column can hold: they go into the rest, serialized
    strange: NDArray[np.bool_]
    numbers: NDArray[np.int32]  # int32[E], the number of each feature's key; -1 for strange ones
    lines: LineIds


def see_rows(rows: Rows, keys: FeatureKeys) -> SeenRows:
    """Walk over features and LineIds."""
    features = read_features(rows)
    strange = features.strange | (rows.start < 0)
    numbers = keys.number_features(rows, features, strange)
    return SeenRows(features, strange, numbers, decode_line_ids(rows))


@dataclass(frozen=True, kw_only=True)
class TableSchema:
    """What columns a table of rows has."""

    columns: tuple[Column, ...]
    keys: FeatureKeys
    column_of: NDArray[np.int32]  # int32[keys], the column of each key
    line_fields: tuple[str, ...]
    special: frozenset[str]  # names of the other columns that are there, of `columns.SPECIAL`
    arrow: pa.Schema

    def equals(self, other: "TableSchema") -> bool:
        """Return whether tables of both schemas are the same."""
        same_keys = np.array_equal(self.column_of, other.column_of)
        return same_keys and self.columns == other.columns and self.arrow.equals(other.arrow)


class TableScan:
    """Finds the columns that rows need.

    `reordered` counts the rows whose features stand in another order than the columns do: those
    that come back from the table have the columns' order.
    """

    def __init__(self) -> None:
        self.rows = 0
        self.reordered = 0
        self.keys = FeatureKeys()
        self._groups: dict[tuple[int, int], list[int]] = {}  # keys by name and occurrence
        self._group_of: list[int] = []
        self._counts = np.zeros(MAX_KEYS, np.int64)
        self._special: set[str] = set()
        self._line_fields: set[str] = set()

    def add(self, rows: Rows) -> None:
        """Take note of rows."""
        for part in split_rows(rows):
            self.see(part)

    def see(self, rows: Rows) -> SeenRows:
        """Take note of rows of a part."""
        seen = see_rows(rows, self.keys)
        numbers = seen.numbers
        self._group()
        self._counts += np.bincount(numbers[numbers >= 0], minlength=MAX_KEYS)
        groups = np.array([*self._group_of, _LAST], np.int64)  # -1: the last
        self.reordered += count_reordered(frozen(rows.first), frozen(rows.raw), numbers, groups)
        self.rows += len(rows)
        if seen.strange.any() or (rows.rest_stop > rows.rest_start).any():
            self._special.add(REST)
        for name, values in (
            (LABEL, rows.label),
            (INSTANCE_WEIGHT, rows.weighted),
            (SOURCE, rows.source),
            (SORT_ID, rows.sort_stop > rows.sort_start),
        ):
            if len(values) if name == LABEL else values.any():
                self._special.add(name)
        self._line_fields.update(
            name for name, is_given in seen.lines.given.items() if is_given.any()
        )
        self._line_fields.update(name for name, counts in seen.lines.counts.items() if counts.any())
        if has_line_rest(seen.lines).any():
            self._special.add(LINE_REST)
        return seen

    def to_document(self) -> dict[str, Any]:
        """Return what `join` takes, as JSON; keys are in the order in which they were seen."""
        return {
            "rows": self.rows,
            "keys": self.keys.to_document(),
            "counts": self._counts[: self.keys.count].tolist(),
            "special": sorted(self._special),
            "line_fields": sorted(self._line_fields),
        }

    def join(self, document: dict[str, Any]) -> None:
        """Take note of rows that another scan saw, as if they came now; not of their order."""
        numbers = self.keys.join(document["keys"])
        self._group()
        self._counts[numbers] += np.array(document["counts"], np.int64)
        self.rows += document["rows"]
        self._special.update(document["special"])
        self._line_fields.update(document["line_fields"])

    def _group(self) -> None:
        """Put keys that are new with those of the same name and occurrence."""
        for number in range(len(self._group_of), self.keys.count):
            name, nth, *_ = self.keys.key(number)
            group = self._groups.setdefault((name, nth), [])
            group.append(number)
            first = group[0]
            of_first = len(self._groups) - 1 if first == number else self._group_of[first]
            self._group_of.append(of_first)

    def schema(self) -> TableSchema:
        """Return the columns of the rows that were added."""
        columns, column_of = self._columns()
        if len(columns) > MAX_COLUMNS:
            raise too_many_columns(MAX_COLUMNS)
        line_fields = tuple(field for field in FIELDS if field in self._line_fields)
        # A table without columns has no rows, so rows that say nothing have a column of no labels.
        special = self._special or (set() if columns or line_fields else {LABEL})
        # Labels and what else is no feature stand first, the rest last.
        types = {
            LINE_REST: pa.binary(),
            LABEL: pa.list_(pa.float32()),
            INSTANCE_WEIGHT: pa.float32(),
            SOURCE: pa.uint32(),
            SORT_ID: pa.binary(),
        }
        fields = [pa.field(LINE_COLUMNS[field], line_type(field)) for field in line_fields]
        fields += [pa.field(name, kind) for name, kind in types.items() if name in special]
        fields += [column.field() for column in columns]
        fields += [pa.field(REST, pa.binary())] if REST in special else []
        return TableSchema(
            columns=columns,
            keys=self.keys,
            column_of=column_of,
            line_fields=line_fields,
            special=frozenset(special),
            arrow=pa.schema(fields, {TABLE: VERSION}),
        )

    def _columns(self) -> tuple[tuple[Column, ...], NDArray[np.int32]]:
        columns: list[Column] = []
        column_of = np.zeros(self.keys.count, np.int32)
        names = list(self.keys.names)
        used_names = set(SPECIAL)
        for (name, nth), keys in self._groups.items():
            for column, of_keys in self._columns_of(names[name], nth, keys, used_names):
                column_of[of_keys] = len(columns)
                columns.append(column)
        return tuple(columns), column_of

    def _columns_of(
        self, name: bytes, nth: int, keys: list[int], used_names: set[str]
    ) -> list[tuple[Column, list[int]]]:
        """The columns of features of one name and occurrence, and the keys of each."""
        text = name.decode()
        base = text if nth == 0 else f"{text}:{nth + 1}"
        everywhere = int(self._counts[keys].sum()) == self.rows
        values = [key for key in keys if self.keys.key(key)[-1] != UNSET]
        unset = [key for key in keys if self.keys.key(key)[-1] == UNSET]
        if everywhere and len(values) == len(unset) == 1 and self._alike(values[0], unset[0]):
            label = free_name(_column_names(base, self.keys.key(values[0])), used_names)
            column = self._column(label, name, values[0])
            return [(replace(column, null="unset"), keys)]
        columns = []
        for key in [*values, *unset]:
            label = free_name(_column_names(base, self.keys.key(key)), used_names)
            columns.append((self._column(label, name, key), [key]))
        return columns

    def _alike(self, first: int, second: int) -> bool:
        return self.keys.key(first)[2:4] == self.keys.key(second)[2:4]

    def _column(self, label: str, name: bytes, key: int) -> Column:
        _, _, ident, sorted_id, kind = self.keys.key(key)
        return Column(label=label, name=name, ident=ident, sorted_id=sorted_id, kind=kind)


def _column_names(base: str, key: tuple[int, int, int, int, int]) -> list[str]:
    _, _, ident, sorted_id, kind = key
    with_kind = f"{base}:{FEATURE_KINDS[kind]}"
    rest = [with_kind, f"{with_kind}:{ident}", f"{with_kind}:{ident}:{sorted_id}"]
    return [base, *rest] if base and kind != UNSET else rest


def has_line_rest(lines: LineIds) -> NDArray[np.bool_]:
    """Return bool[R]: which LineIds hold something without a column, or nothing at all."""
    lists = (counts > 0 for counts in lines.counts.values())
    has_field: NDArray[np.bool_] = np.any([*lines.given.values(), *lists], axis=0)
    has_rest: NDArray[np.bool_] = lines.rest_sizes > 0
    return has_rest | (lines.present & ~has_field)
