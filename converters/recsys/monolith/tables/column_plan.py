"""Plan what each column of a table becomes: by its metadata, a reviewed file, name and type."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Final

import pyarrow as pa

from ingot.converters.columnar.batch_checks import is_utf8
from ingot.converters.errors import ParametersError, Problem
from ingot.converters.json_yaml import pointer_to
from ingot.converters.recsys.monolith.contract import FEATURE_KINDS, INSTANCE_WEIGHT, LABEL
from ingot.converters.recsys.monolith.features import BYTES, DEPTH, LISTS, SCALAR, VALUES
from ingot.converters.recsys.monolith.fid import Version
from ingot.converters.recsys.monolith.line_ids import FIELDS
from ingot.converters.recsys.monolith.line_ids import LISTS as LINE_LISTS
from ingot.converters.recsys.monolith.line_ids import TEXTS as LINE_TEXTS
from ingot.converters.recsys.monolith.tables import schema as c
from ingot.converters.recsys.monolith.tables.cells import is_list, plain_type
from ingot.converters.recsys.monolith.tables.table_file import FeatureRule, TableFile


def _is_text_type(kind: pa.DataType) -> bool:
    texts = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    return any(test(kind) for test in texts)


def _is_bytes_type(kind: pa.DataType) -> bool:
    tests = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view)
    fixed = bool(pa.types.is_fixed_size_binary(kind))
    return fixed or _is_text_type(kind) or any(test(kind) for test in tests)


def _is_integer_type(kind: pa.DataType) -> bool:
    decimal = pa.types.is_decimal(kind) and kind.scale == 0
    return bool(decimal or pa.types.is_integer(kind) or pa.types.is_boolean(kind))


def is_number_type(kind: pa.DataType) -> bool:
    """Return whether a plain type is a number type."""
    return bool(_is_integer_type(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def type_hint(kind: pa.DataType) -> str:
    """Return how to convert a column of this type first, "" if there is no such hint."""
    _, kind = _depth_and_values(kind)
    if pa.types.is_temporal(kind):
        return " (cast it to int64 first, of the unit that the model expects)"
    if pa.types.is_struct(kind) or pa.types.is_map(kind):
        return " (make its fields columns of their own first)"
    return ""


def _depth_and_values(kind: pa.DataType) -> tuple[int, pa.DataType]:
    """How many lists there are around the values of a plain type, and their type."""
    depth = 0
    while is_list(kind):
        depth, kind = depth + 1, plain_type(kind.value_type)
    return depth, kind


def inferred_kind(kind: pa.DataType, fid: Version) -> int | None:
    """Return the kind of features of a column of a type by default, None for no features."""
    depth, values = _depth_and_values(kind)
    ending = {0: "_list", 1: "_list", 2: "_lists"}.get(depth)
    is_fid = pa.types.is_uint64(values) or (
        pa.types.is_decimal(values) and _is_integer_type(values)
    )
    if ending is None:
        return None
    if is_fid:
        name = f"fid_{fid}"
    elif _is_integer_type(values):
        name = "int64"
    elif pa.types.is_floating(values):
        name = "double" if pa.types.is_float64(values) else "float"
    elif _is_bytes_type(values):
        name = "bytes"
    else:
        return None
    return c.KIND_NUMBERS[name + ending]


def kind_of_rule(rule: FeatureRule, kind: pa.DataType, version: Version) -> int | None:
    """Return the kind of features of a column by the rule of a file, None for no features."""
    if rule.kind is not None:
        return c.KIND_NUMBERS[rule.kind]
    if rule.slot is None and rule.version is None:
        return inferred_kind(kind, version)
    depth, _ = _depth_and_values(kind)
    return c.KIND_NUMBERS[f"fid_{version}_list" + "s" * (depth == LISTS)]


def misfit(kind: int, column_type: pa.DataType, rule: FeatureRule) -> str:
    """Return which type a column of this kind must have, "" if its type fits."""
    depth, values = _depth_and_values(column_type)
    if pa.types.is_null(values):
        return ""
    if kind == c.UNSET:
        return "" if pa.types.is_boolean(column_type) else "bool, where the feature is unset"
    if depth != DEPTH[kind] and (depth, DEPTH[kind]) != (SCALAR, 1):
        shapes = ("plain values", "lists, or plain values", "lists of lists")
        return f"{shapes[DEPTH[kind]]} for {FEATURE_KINDS[kind]}"
    name = FEATURE_KINDS[kind]
    if c.is_fid(kind):
        if rule.hash != "none":
            return (
                ""
                if _is_integer_type(values) or _is_bytes_type(values)
                else "whole numbers or texts"
            )
        hint = ", or hash: xxh64" if rule.slot is not None else ", or a slot and hash: xxh64"
        return "" if _is_integer_type(values) else f"whole numbers for {name}{hint}"
    if VALUES[kind] == BYTES:
        return "" if _is_bytes_type(values) else f"texts or byte strings for {name}"
    if "int64" in name:
        return "" if _is_integer_type(values) else f"whole numbers for {name}"
    return "" if is_number_type(values) else f"numbers for {name}"


def line_misfit(name: str, column_type: pa.DataType) -> str:
    """Return which type the column of a LineId field must have, "" if its type fits."""
    if name in LINE_LISTS:
        depth, values = _depth_and_values(column_type)
        good = depth <= 1 and (_is_integer_type(values) or pa.types.is_null(values))
        return "" if good else "whole numbers, or lists of them"
    if pa.types.is_null(column_type):
        return ""
    if name in LINE_TEXTS:
        return "" if _is_text_type(column_type) else "text"
    if name == "sample_rate":
        return "" if is_number_type(column_type) else "numbers"
    return "" if _is_integer_type(column_type) else "whole numbers"


def special_misfit(name: str, column_type: pa.DataType) -> str:
    """Return which type a column that is not a feature must have, "" if its type fits."""
    if pa.types.is_null(column_type):
        return ""
    if name == INSTANCE_WEIGHT:
        return "" if is_number_type(column_type) else "numbers"
    if name == c.SOURCE:
        return "" if _is_integer_type(column_type) else "whole numbers"
    return "" if _is_bytes_type(column_type) else "byte strings"


_SPECIAL_FIELDS: Final[Mapping[str, str]] = {
    INSTANCE_WEIGHT: "instance_weight",
    c.SOURCE: "data_source_key",
    c.SORT_ID: "sort_id",
}
_GUESSED: Final = 20
"""Problems up to which a near column is looked for, which takes its time in a wide table."""
_INT32: Final = range(-(1 << 31), 1 << 31)


@dataclass(frozen=True, kw_only=True)
class FeatureColumn(c.Column):
    """A column that becomes features."""

    at: int
    slot: int | None = None  # where values become fids, their slot
    version: Version = "v2"
    hashed: bool = False
    # whether ingot wrote the column: then fids are what they were, whatever their bits
    own: bool = False


@dataclass(frozen=True, kw_only=True)
class ColumnPlan:
    """What becomes of a table's columns."""

    # columns that become features, in the order in which rows have them
    features: tuple[FeatureColumn, ...] = ()
    # the column of each LineId field that is given, in the fields' order
    line: Mapping[str, int] = field(default_factory=dict)
    label: tuple[int, ...] = ()
    # places of the other columns, by their names in `columns.SPECIAL`
    special: Mapping[str, int] = field(default_factory=dict)
    dropped: tuple[str, ...] = ()


def plan_columns(
    schema: pa.Schema, table_file: TableFile | None, fid: Version = "v2", where: str = "the table"
) -> ColumnPlan:
    """Return what becomes of each column of a table."""
    planning = _Planner(schema, table_file, fid)
    plan = planning.plan()
    if planning.problems:
        raise ParametersError(table_file.where if table_file else where, tuple(planning.problems))
    return plan


class _Planner:
    def __init__(self, schema: pa.Schema, table_file: TableFile | None, fid: Version) -> None:
        self._schema, self._file, self._fid = schema, table_file, fid
        self._names: list[str] = schema.names
        self._places = {name: number for number, name in enumerate(self._names)}
        self._used: set[str] = set()
        self.problems: list[Problem] = []

    def plan(self) -> ColumnPlan:
        twice = [name for name, count in Counter(self._names).items() if count > 1]
        for name in twice:
            self._wrong("", "repeated", "columns of different names", name)
        if twice:
            return ColumnPlan()
        features = list(self._plan_rules())
        line, label, special = self._line(), self._label(), self._special()
        other_features, dropped = self._others()
        return ColumnPlan(
            features=(*features, *other_features),
            line=line,
            label=label,
            special=special,
            dropped=dropped,
        )

    def _wrong(
        self, pointer: str, code: str, expected: str, actual: str, suggestion: str | None = None
    ) -> None:
        self.problems.append(Problem(pointer, code, expected, actual, suggestion))

    def _place(self, pointer: str, name: str) -> int | None:
        if name not in self._places:
            may_suggest = len(self.problems) < _GUESSED
            close = get_close_matches(name, self._names[:10_000], 1) if may_suggest else []
            self._wrong(
                pointer, "unresolved", "a column of the table", name, close[0] if close else None
            )
            return None
        self._used.add(name)
        return self._places[name]

    def _type(self, number: int) -> pa.DataType:
        return plain_type(self._schema.field(number).type)

    def _plan_rules(self) -> Iterator[FeatureColumn]:
        for name, rule in self._file.features.items() if self._file else ():
            pointer = pointer_to("/features", name)
            number = self._place(f"{pointer}/column", rule.column)
            if number is None:
                continue
            kind = kind_of_rule(rule, self._type(number), rule.version or self._fid)
            problem = "" if kind is None else misfit(kind, self._type(number), rule)
            if kind is None or problem:
                expected = problem or "a type that becomes a feature" + type_hint(
                    self._type(number)
                )
                self._wrong(
                    pointer, "type", expected, f"{rule.column}: {self._schema.field(number).type}"
                )
                continue
            yield FeatureColumn(
                at=number,
                label=rule.column,
                name=name.encode(),
                kind=kind,
                ident=rule.ident,
                sorted_id=rule.sorted_id,
                null=rule.null,
                slot=rule.slot,
                version="v1" if "fid_v1" in FEATURE_KINDS[kind] else "v2",
                hashed=rule.hash != "none",
            )

    def _line(self) -> dict[str, int]:
        columns = self._file.line_id if self._file else {}
        numbers = {}
        for name in FIELDS:
            column = columns.get(name, c.LINE_COLUMNS[name])
            if name not in columns and column not in self._places:
                continue
            number = self._place(f"/line_id/{name}", column)
            if number is not None and self._fits(
                f"/line_id/{name}", number, line_misfit(name, self._type(number))
            ):
                numbers[name] = number
        return numbers

    def _fits(self, pointer: str, number: int, expected: str) -> bool:
        if expected:
            actual = f"{self._names[number]}: {self._schema.field(number).type}"
            self._wrong(pointer, "type", expected + type_hint(self._type(number)), actual)
        return not expected

    def _label(self) -> tuple[int, ...]:
        columns = self._file.label if self._file else ()
        names = columns or tuple(name for name in (LABEL,) if name in self._places)
        numbers = [self._place(f"/label/{number}", name) for number, name in enumerate(names)]
        present = tuple(at for at in numbers if at is not None)
        for number, at in enumerate(present):
            kind = self._type(at)
            inner = plain_type(kind.value_type) if is_list(kind) and len(present) == 1 else kind
            good = is_number_type(inner) or pa.types.is_null(inner)
            expected = "numbers, or one column of lists of them"
            self._fits(f"/label/{number}", at, "" if good else expected)
        return present

    def _special(self) -> dict[str, int]:
        numbers = {}
        for name in (c.LINE_REST, INSTANCE_WEIGHT, c.SOURCE, c.SORT_ID, c.REST):
            key = _SPECIAL_FIELDS.get(name, "")
            column = getattr(self._file, key) if self._file and key else None
            if column is None and (name not in self._places or self._is_feature(name)):
                continue
            number = self._place(f"/{key}", column or name)
            if number is not None and self._fits(
                f"/{key}", number, special_misfit(name, self._type(number))
            ):
                numbers[name] = number
        return numbers

    def _is_feature(self, name: str) -> bool:
        return c.KIND in (self._schema.field(name).metadata or {})

    def _others(self) -> tuple[list[FeatureColumn], tuple[str, ...]]:
        features: list[FeatureColumn] = []
        dropped: list[str] = []
        unnamed: list[str] = []
        infer = self._file is None or self._file.others == "infer"
        for number, name in enumerate(self._names):
            if name in self._used:
                continue
            if self._is_feature(name):
                features += self._plan_from_metadata(number)
            elif not infer:
                (dropped if self._file and self._file.others else unnamed).append(name)
            elif pa.types.is_null(self._type(number)):
                dropped.append(name)
            else:
                features += self._infer_feature(number)
        if unnamed:
            expected = "every column named, or others: drop or infer"
            suffix = f" and {len(unnamed) - 20} more" if len(unnamed) > 20 else ""
            self._wrong("/others", "unnamed", expected, ", ".join(unnamed[:20]) + suffix)
        return features, tuple(dropped)

    def _infer_feature(self, number: int) -> Iterator[FeatureColumn]:
        label = self._names[number]
        if self._file and label in self._file.features:
            expected = "a column of another name than a feature that is made of another column"
            self._wrong("", "repeated", expected, label)
            return
        kind = inferred_kind(self._type(number), self._fid)
        if kind is not None:
            yield FeatureColumn(at=number, label=label, name=label.encode(), kind=kind)
        else:
            self._fits("", number, "a type that becomes a feature")

    def _plan_from_metadata(self, number: int) -> Iterator[FeatureColumn]:
        label, metadata = self._names[number], self._schema.field(number).metadata
        kind = c.KIND_NUMBERS.get(metadata[c.KIND].decode("utf-8", "replace"))
        idents = [_parse_int32(metadata.get(key, b"0")) for key in (c.IDENT, c.SORTED_ID)]
        name, null = metadata.get(c.NAME, label.encode()), metadata.get(c.NULL, b"absent")
        ident, sorted_id = idents
        known = null in (b"absent", b"unset") and is_utf8(name)
        if kind is None or ident is None or sorted_id is None or not known:
            expected = "metadata as ingot writes it"
            self._wrong("", "metadata", expected, f"{label}: {ascii(metadata)[:200]}")
        elif self._fits("", number, misfit(kind, self._type(number), FeatureRule(column=label))):
            yield FeatureColumn(
                at=number,
                label=label,
                name=name,
                kind=kind,
                ident=ident,
                sorted_id=sorted_id,
                null="unset" if null == b"unset" else "absent",
                own=True,
            )


def _parse_int32(text: bytes) -> int | None:
    digits = text.removeprefix(b"-")
    if not digits.isdigit() or len(digits) > 10 or int(text) not in _INT32:
        return None
    return int(text)
