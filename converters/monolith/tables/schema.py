"""The columns that rows need: found by a first pass over them."""

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ingot.converters.errors import ConversionError
from ingot.converters.monolith.contract import FEATURE_KINDS, INSTANCE_WEIGHT, LABEL
from ingot.converters.monolith.features import Features, simple
from ingot.converters.monolith.line_ids import FIELDS, LineIds, decode
from ingot.converters.monolith.rows import Rows
from ingot.converters.monolith.tables.columns import (
    LINE_COLUMNS,
    LINE_REST,
    REST,
    SORT_ID,
    SOURCE,
    SPECIAL,
    TABLE,
    UNSET,
    VERSION,
    Column,
    free_name,
    line_type,
)
from ingot.converters.monolith.tables.kernels import PARTS, number_keys, occurrences
from ingot.converters.monolith.tables.parts import bounded

MAX_COLUMNS: Final = 10_000
"""Columns of features that a table may have."""
_KEYS: Final = 2 * MAX_COLUMNS  # most of them columns, or unset beside values
_LAST: Final = 1 << 30  # the place of what goes into the rest, behind all columns


def is_strange(rows: Rows, features: Features) -> NDArray[np.bool_]:
    """bool[E], which features no column can hold: they go into the rest, serialized."""
    return features.strange | (rows.start < 0)


class Keys:
    """Numbers of what features are told apart by, in the order in which it was first seen.

    That is their name, how often it came before in the row, `id`, `sorted_id` and kind.
    """

    def __init__(self) -> None:
        self.names: dict[bytes, int] = {}
        self.count = 0
        self._keys = np.zeros((_KEYS, PARTS), np.int64)
        self._table = np.full(1 << (2 * _KEYS).bit_length(), -1, np.int32)

    def numbered(
        self, rows: Rows, features: Features, strange: NDArray[np.bool_]
    ) -> NDArray[np.int32]:
        """int32[E], the number of each feature's key; -1 for strange ones.

        Raises:
            ConversionError: there are more than a table may have columns.
        """
        known = [self.names.setdefault(name, len(self.names)) for name in rows.names]
        nth = occurrences(rows.first, rows.name, strange, len(rows.names))
        names = np.array(known, np.int64)[rows.name] if known else np.zeros(0, np.int64)
        parts = np.stack([names, nth, rows.ident, rows.sorted_id, features.kind]).astype(np.int64)
        out = np.empty(len(rows.name), np.int32)
        self.count = number_keys(parts, strange, self._keys, self.count, self._table, out)
        if self.count > _KEYS:
            raise _too_many(_KEYS)
        return out

    def key(self, number: int) -> tuple[int, int, int, int, int]:
        """Number of the name, occurrence, `id`, `sorted_id`, kind."""
        name, nth, ident, sorted_id, kind = map(int, self._keys[number])
        return name, nth, ident, sorted_id, kind


def _too_many(most: int) -> ConversionError:
    problem = f"more than {most:,} columns: features of so many names, ids and kinds"
    return ConversionError("", problem, "convert fewer features, or to Example")


@dataclass(frozen=True, kw_only=True)
class TableSchema:
    """What columns a table of rows has.

    Attributes:
        columns: those of features, in order.
        keys: which tell features apart.
        column_of: int32[keys], the column of each key.
        line_fields: the fields of LineId that have a column.
        special: names of the other columns that are there, of `columns.SPECIAL`.
        arrow: all of them, as Arrow has it.
    """

    columns: tuple[Column, ...]
    keys: Keys
    column_of: NDArray[np.int32]
    line_fields: tuple[str, ...]
    special: frozenset[str]
    arrow: pa.Schema


class TableScan:
    """Finds the columns that rows need.

    `reordered` counts the rows whose features stand in another order than the columns do: those
    that come back from the table have the columns' order.
    """

    def __init__(self) -> None:
        self.rows = 0
        self.reordered = 0
        self._keys = Keys()
        self._groups: dict[tuple[int, int], list[int]] = {}  # keys by name and occurrence
        self._group_of: list[int] = []
        self._counts = np.zeros(_KEYS, np.int64)
        self._special: set[str] = set()
        self._line_fields: set[str] = set()

    def add(self, rows: Rows) -> None:
        """Take note of rows.

        Raises:
            ConversionError: a table cannot have so many columns, or numba or protobuf is missing.
        """
        for part in bounded(rows):
            self._add(part)

    def _add(self, rows: Rows) -> None:
        features = simple(rows)
        strange = is_strange(rows, features)
        numbers = self._keys.numbered(rows, features, strange)
        self._group()
        self._counts += np.bincount(numbers[numbers >= 0], minlength=_KEYS)
        self.reordered += self._out_of_order(rows, numbers)
        self.rows += len(rows)
        if strange.any() or (rows.rest_stop > rows.rest_start).any():
            self._special.add(REST)
        self._note_rows(rows)
        self._note_lines(decode(rows))

    def _group(self) -> None:
        """Put keys that are new with those of the same name and occurrence."""
        for number in range(len(self._group_of), self._keys.count):
            name, nth, *_ = self._keys.key(number)
            group = self._groups.setdefault((name, nth), [])
            group.append(number)
            first = group[0]
            of_first = len(self._groups) - 1 if first == number else self._group_of[first]
            self._group_of.append(of_first)

    def _out_of_order(self, rows: Rows, numbers: NDArray[np.int32]) -> int:
        groups = np.array([*self._group_of, _LAST], np.int64)[numbers]  # -1: the last
        groups, row = groups[~rows.raw], rows.entry_row[~rows.raw]
        falls = (np.diff(groups) < 0) & (np.diff(row) == 0)
        return len(np.unique(row[1:][falls]))

    def _note_rows(self, rows: Rows) -> None:
        for name, values in (
            (LABEL, rows.label),
            (INSTANCE_WEIGHT, rows.weighted),
            (SOURCE, rows.source),
            (SORT_ID, rows.sort_stop > rows.sort_start),
        ):
            if len(values) if name == LABEL else values.any():
                self._special.add(name)

    def _note_lines(self, lines: LineIds) -> None:
        self._line_fields.update(name for name, given in lines.given.items() if given.any())
        self._line_fields.update(name for name, counts in lines.counts.items() if counts.any())
        if with_line_rest(lines).any():
            self._special.add(LINE_REST)

    def schema(self) -> TableSchema:
        """The columns of the rows that were added.

        Raises:
            ConversionError: a table cannot have so many columns.
        """
        columns, column_of = self._columns()
        if len(columns) > MAX_COLUMNS:
            raise _too_many(MAX_COLUMNS)
        line_fields = tuple(field for field in FIELDS if field in self._line_fields)
        # A table without columns has no rows, so rows that say nothing have a column of no labels.
        special = self._special or (set() if columns or line_fields else {LABEL})
        return TableSchema(
            columns=columns,
            keys=self._keys,
            column_of=column_of,
            line_fields=line_fields,
            special=frozenset(special),
            arrow=_arrow(columns, line_fields, special),
        )

    def _columns(self) -> tuple[tuple[Column, ...], NDArray[np.int32]]:
        columns: list[Column] = []
        column_of = np.zeros(self._keys.count, np.int32)
        names = list(self._keys.names)
        taken = set(SPECIAL)
        for (name, nth), keys in self._groups.items():
            for made, of_keys in self._columns_of(names[name], nth, keys, taken):
                column_of[of_keys] = len(columns)
                columns.append(made)
        return tuple(columns), column_of

    def _columns_of(
        self, name: bytes, nth: int, keys: list[int], taken: set[str]
    ) -> list[tuple[Column, list[int]]]:
        """The columns of features of one name and occurrence, and the keys of each."""
        text = name.decode()
        base = text if nth == 0 else f"{text}:{nth + 1}"
        everywhere = int(self._counts[keys].sum()) == self.rows
        values = [key for key in keys if self._keys.key(key)[-1] != UNSET]
        unset = [key for key in keys if self._keys.key(key)[-1] == UNSET]
        if everywhere and len(values) == len(unset) == 1 and self._alike(values[0], unset[0]):
            label = free_name(_labels(base, self._keys.key(values[0])), taken)
            made = self._column(label, name, values[0])
            return [(replace(made, null="unset"), keys)]
        found = []
        for key in [*values, *unset]:
            label = free_name(_labels(base, self._keys.key(key)), taken)
            found.append((self._column(label, name, key), [key]))
        return found

    def _alike(self, one: int, other: int) -> bool:
        """Whether two keys have the same `id` and `sorted_id`."""
        return self._keys.key(one)[2:4] == self._keys.key(other)[2:4]

    def _column(self, label: str, name: bytes, key: int) -> Column:
        _, _, ident, sorted_id, kind = self._keys.key(key)
        return Column(label=label, name=name, ident=ident, sorted_id=sorted_id, kind=kind)


def _labels(base: str, key: tuple[int, int, int, int, int]) -> list[str]:
    """Names for a column, the best first."""
    _, _, ident, sorted_id, kind = key
    with_kind = f"{base}:{FEATURE_KINDS[kind]}"
    rest = [with_kind, f"{with_kind}:{ident}", f"{with_kind}:{ident}:{sorted_id}"]
    return [base, *rest] if base and kind != UNSET else rest


def with_line_rest(lines: LineIds) -> NDArray[np.bool_]:
    """bool[R], which LineIds say what has no column, or nothing at all."""
    says = np.zeros(len(lines.present), np.bool_)
    for given in lines.given.values():
        says |= given
    for counts in lines.counts.values():
        says |= counts > 0
    more: NDArray[np.bool_] = lines.rest_sizes > 0
    return more | (lines.present & ~says)


def _arrow(
    columns: tuple[Column, ...], line_fields: tuple[str, ...], special: set[str]
) -> pa.Schema:
    """The schema: labels and what else is no feature first, the rest last."""
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
    return pa.schema(fields, {TABLE: VERSION})
