"""Columns of every kind to Examples, byte for byte what protobuf's objects give."""

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from ingot.converters.recsys.monolith.tables.column_plan import plan_columns
from ingot.converters.recsys.monolith.tables.schema import (
    KIND_NUMBERS,
    LINE_COLUMNS,
    TYPES,
    line_type,
)
from ingot.schemas.monolith.example_pb2 import Example
from tests.converters.recsys.monolith.made import (
    FLOAT,
    INT32,
    INT64,
    KINDS,
    LIST_FIELDS,
    TEXT_FIELDS,
    UINT64,
    encode_records,
    values_of,
)


def _cells(kind: str) -> st.SearchStrategy[Any]:
    values = values_of(kind)
    if kind.endswith("_value"):
        return st.none() | values
    lists = st.lists(values, max_size=4)
    return st.none() | (st.lists(lists, max_size=4) if kind.endswith("_lists") else lists)


@st.composite
def _columns(draw: st.DrawFn) -> tuple[int, list[tuple[str, bool, list[Any]]]]:
    rows = draw(st.integers(0, 4))
    kinds = draw(st.lists(st.sampled_from(KINDS), max_size=4))
    size = {"min_size": rows, "max_size": rows}
    return rows, [
        (kind, draw(st.booleans()), draw(st.lists(_cells(kind), **size))) for kind in kinds
    ]


def _add(example: Example, name: str, kind: str, unset: bool, cell: Any) -> None:
    if cell is None and not unset:
        return
    feature = example.named_feature.add(name=name, id=3).feature
    feature.SetInParent()
    if cell is None:
        return
    if kind.endswith("_value"):
        setattr(feature, kind, cell)
        return
    part = getattr(feature, kind)
    part.SetInParent()
    for one in cell:
        if kind.endswith("_lists"):
            part.list.add(value=one)
        else:
            part.value.append(one)


@given(_columns())
def test_features(made: tuple[int, list[tuple[str, bool, list[Any]]]]) -> None:
    rows, columns = made
    expected = [Example() for _ in range(rows)]
    arrays, fields = (
        [pa.array([[]] * rows, pa.list_(pa.float32()))],
        [pa.field("__LABEL__", pa.list_(pa.float32()))],
    )
    for at, (kind, unset, cells) in enumerate(columns):
        null = "unset" if unset else "absent"
        metadata = {"monolith.kind": kind, "monolith.id": "3", "monolith.null": null}
        arrow = TYPES[KIND_NUMBERS[kind]]
        fields.append(pa.field(f"f{at}", arrow, metadata=metadata))
        arrays.append(pa.array(cells, arrow))
        for example, cell in zip(expected, cells, strict=True):
            _add(example, f"f{at}", kind, unset, cell)
    batch = pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))
    records, bad = encode_records(batch, plan_columns(batch.schema, None), 0)
    assert not bad
    found = [records.message(at) for at in range(len(records))]
    assert found == [one.SerializeToString() for one in expected]


LINE_VALUES = {
    **dict.fromkeys(("uid", "item_id"), UINT64),
    **dict.fromkeys(("req_time", "chnid", "generate_time"), INT64),
    **dict.fromkeys(("emit_type", "rank"), INT32),
    **dict.fromkeys(TEXT_FIELDS, st.text(max_size=9)),
    **dict.fromkeys(LIST_FIELDS, st.lists(INT32, max_size=3)),
    "sample_rate": FLOAT,
    "is_draw": st.booleans(),
}
LINES = st.fixed_dictionaries({}, optional=LINE_VALUES)


@given(st.lists(LINES, max_size=4), st.data())
def test_line_ids(lines: list[dict[str, Any]], data: st.DataObject) -> None:
    names = sorted({name for line in lines for name in line})
    arrays = [pa.array([line.get(name) for line in lines], line_type(name)) for name in names]
    labels = data.draw(st.lists(st.lists(FLOAT, max_size=2), min_size=len(lines)))[: len(lines)]
    arrays.append(pa.array(labels, pa.list_(pa.float32())))
    columns = [*(LINE_COLUMNS[name] for name in names), "__LABEL__"]
    batch = pa.RecordBatch.from_arrays(arrays, names=columns)
    records, bad = encode_records(batch, plan_columns(batch.schema, None), 0)
    assert not bad
    for at, (line, label) in enumerate(zip(lines, labels, strict=True)):
        example = Example(label=label)
        for name, value in line.items():
            if name in LIST_FIELDS:
                getattr(example.line_id, name).extend(value)
            else:
                setattr(example.line_id, name, value)
        if not example.line_id.ByteSize():
            example.ClearField("line_id")
        assert records.message(at) == example.SerializeToString()
