"""Which Arrow types become which kinds of features and other parts of rows."""

import pyarrow as pa

from ingot.converters.monolith.contract import FEATURE_KINDS, INSTANCE_WEIGHT
from ingot.converters.monolith.features import BYTES, DEPTH, LISTS, SCALAR, VALUES
from ingot.converters.monolith.fid import Version
from ingot.converters.monolith.line_ids import LISTS as LINE_LISTS
from ingot.converters.monolith.line_ids import TEXTS as LINE_TEXTS
from ingot.converters.monolith.tables import columns as c
from ingot.converters.monolith.tables.cells import is_list, plain_type
from ingot.converters.monolith.tables.table_file import FeatureRule


def _is_text(kind: pa.DataType) -> bool:
    texts = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    return any(test(kind) for test in texts)


def _is_bytes(kind: pa.DataType) -> bool:
    tests = (
        pa.types.is_binary,
        pa.types.is_large_binary,
        pa.types.is_binary_view,
        pa.types.is_fixed_size_binary,
    )
    return _is_text(kind) or any(test(kind) for test in tests)


def _is_whole(kind: pa.DataType) -> bool:
    decimal = pa.types.is_decimal(kind) and kind.scale == 0
    return bool(decimal or pa.types.is_integer(kind) or pa.types.is_boolean(kind))


def is_number(kind: pa.DataType) -> bool:
    """Whether a plain type is one of numbers."""
    return bool(_is_whole(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def hint(kind: pa.DataType) -> str:
    """What to do about a type."""
    while is_list(kind):
        kind = plain_type(kind.value_type)
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
    """The kind of features that a column of a type becomes if nothing else is said of it."""
    depth, values = _depth_and_values(kind)
    ending = {0: "_list", 1: "_list", 2: "_lists"}.get(depth)
    is_fid = pa.types.is_uint64(values) or (pa.types.is_decimal(values) and _is_whole(values))
    if ending is None:
        return None
    if is_fid:
        name = f"fid_{fid}"
    elif _is_whole(values):
        name = "int64"
    elif pa.types.is_floating(values):
        name = "double" if pa.types.is_float64(values) else "float"
    elif _is_bytes(values):
        name = "bytes"
    else:
        return None
    return c.KIND_NUMBERS[name + ending]


def kind_of_rule(rule: FeatureRule, kind: pa.DataType, version: Version) -> int | None:
    """The kind of features that a column of a type becomes by what a file says; None: of none."""
    if rule.kind is not None:
        return c.KIND_NUMBERS[rule.kind]
    if rule.slot is None and rule.version is None:
        return inferred_kind(kind, version)
    depth, _ = _depth_and_values(kind)
    return c.KIND_NUMBERS[f"fid_{version}_list" + "s" * (depth == LISTS)]


def misfit(kind: int, given: pa.DataType, rule: FeatureRule) -> str:
    """What a column of this kind would have to be, if it is not."""
    depth, values = _depth_and_values(given)
    if pa.types.is_null(values):
        return ""
    if kind == c.UNSET:
        return "" if pa.types.is_boolean(given) else "bool, where the feature is unset"
    if depth != DEPTH[kind] and (depth, DEPTH[kind]) != (SCALAR, 1):
        shapes = ("plain values", "lists, or plain values", "lists of lists")
        return f"{shapes[DEPTH[kind]]} for {FEATURE_KINDS[kind]}"
    return _values_misfit(kind, values, rule)


def _values_misfit(kind: int, values: pa.DataType, rule: FeatureRule) -> str:
    name = FEATURE_KINDS[kind]
    if c.is_fid(kind):
        if rule.hash != "none":
            return "" if _is_whole(values) or _is_bytes(values) else "whole numbers or texts"
        hint = ", or hash: xxh64" if rule.slot is not None else ", or a slot and hash: xxh64"
        return "" if _is_whole(values) else f"whole numbers for {name}{hint}"
    if VALUES[kind] == BYTES:
        return "" if _is_bytes(values) else f"texts or byte strings for {name}"
    if "int64" in name:
        return "" if _is_whole(values) else f"whole numbers for {name}"
    return "" if is_number(values) else f"numbers for {name}"


def line_misfit(name: str, given: pa.DataType) -> str:
    """What the column of a LineId field would have to be, if it is not."""
    if name in LINE_LISTS:
        depth, values = _depth_and_values(given)
        good = depth <= 1 and (_is_whole(values) or pa.types.is_null(values))
        return "" if good else "whole numbers, or lists of them"
    if pa.types.is_null(given):
        return ""
    if name in LINE_TEXTS:
        return "" if _is_text(given) else "text"
    if name == "sample_rate":
        return "" if is_number(given) else "numbers"
    return "" if _is_whole(given) else "whole numbers"


def special_misfit(name: str, given: pa.DataType) -> str:
    """What a column that is no feature would have to be, if it is not."""
    if pa.types.is_null(given):
        return ""
    if name == INSTANCE_WEIGHT:
        return "" if is_number(given) else "numbers"
    if name == c.SOURCE:
        return "" if _is_whole(given) else "whole numbers"
    return "" if _is_bytes(given) else "byte strings"
