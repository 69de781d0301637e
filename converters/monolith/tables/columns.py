"""The columns of tables: their names, Arrow types and what their metadata says."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import numpy as np
import pyarrow as pa

from ingot.converters.monolith.contract import FEATURE_KINDS, INSTANCE_WEIGHT, LABEL
from ingot.converters.monolith.features import DEPTH, VALUES
from ingot.converters.monolith.line_ids import FIELDS, LISTS, NUMBERS, TEXTS

Null = Literal["absent", "unset"]
ArrowType: TypeAlias = pa.DataType

KIND: Final = b"monolith.kind"
NAME: Final = b"monolith.name"
IDENT: Final = b"monolith.id"
SORTED_ID: Final = b"monolith.sorted_id"
NULL: Final = b"monolith.null"
"""Keys of a field's metadata: the feature of a column, and whether null is an absent or an unset
one."""
TABLE: Final = b"monolith.table"
"""Key of a schema's metadata, with the version of these rules."""
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


def _type_of(kind: int) -> ArrowType:
    values = pa.uint64() if kind in _FIDS else _BY_VALUES[VALUES[kind]]
    for _ in range(DEPTH[kind]):
        values = pa.list_(values)
    return values


TYPES: Final[Mapping[int, ArrowType]] = {
    kind: pa.bool_() if kind == UNSET else _type_of(kind) for kind in FEATURE_KINDS
}
"""The Arrow type of a feature's column by its kind; a column that says where one is unset is bool.
It is never Arrow's null type: Spark before 4.2 cannot read a file with such a column."""


def is_fid(kind: int) -> bool:
    """Whether values of a kind are fids."""
    return kind in _FIDS


def line_type(field: str) -> ArrowType:
    """The Arrow type of a LineId field's column."""
    if field in LISTS:
        return pa.list_(pa.int32())
    return pa.string() if field in TEXTS else pa.from_numpy_dtype(np.dtype(NUMBERS[field].dtype))


@dataclass(frozen=True, kw_only=True)
class Column:
    """A column of features.

    Attributes:
        label: its name in the table.
        name: the features' name, in UTF-8.
        ident: their `id`.
        sorted_id: their `sorted_id`.
        kind: number of `contract.FEATURE_KINDS`; `UNSET` for one that says where they are unset.
        null: what null says.
    """

    label: str
    name: bytes
    ident: int
    sorted_id: int
    kind: int
    null: Null = "absent"

    def field(self) -> pa.Field:
        """The Arrow field that says all of this."""
        metadata = {
            NAME: self.name,
            KIND: FEATURE_KINDS[self.kind].encode(),
            IDENT: str(self.ident).encode(),
            SORTED_ID: str(self.sorted_id).encode(),
            NULL: self.null.encode(),
        }
        return pa.field(self.label, TYPES[self.kind], True, metadata)


def free_name(wanted: Iterable[str], taken: set[str]) -> str:
    """The first name that is free, or the last with a number behind it; it is taken then."""
    candidate = ""
    for candidate in wanted:
        if candidate not in taken:
            break
    number, base = 2, candidate
    while candidate in taken:
        candidate = f"{base}:{number}"
        number += 1
    taken.add(candidate)
    return candidate
