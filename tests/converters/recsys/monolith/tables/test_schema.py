"""Which columns rows need, and what null says in them."""

import pyarrow as pa
import pytest

from ingot.converters.errors import ConversionError
from ingot.converters.recsys.monolith.record_index import Rows, records_of_messages
from ingot.converters.recsys.monolith.tables import schema as module
from ingot.converters.recsys.monolith.tables.schema import TableScan
from ingot.converters.recsys.monolith.wire.row_index import index_examples
from ingot.schemas.monolith.example_pb2 import Example, Feature, FidList, FloatList, NamedFeature
from ingot.schemas.monolith.line_id_pb2 import LineId
from tests.converters.recsys.monolith.made import decode_rows

FIDS = Feature(fid_v2_list=FidList(value=[7]))
FLOATS = Feature(float_list=FloatList(value=[0.5]))
UNSET = Feature()


def _row(*features: tuple[str, Feature], **more: object) -> Example:
    named = [NamedFeature(name=name, feature=feature) for name, feature in features]
    return Example(named_feature=named, **more)


def _rows(given: list[Example]) -> Rows:
    rows, bad = index_examples(records_of_messages([one.SerializeToString() for one in given]))
    assert not bad
    return rows


def _table(*given: Example) -> tuple[pa.RecordBatch, TableScan]:
    rows, scan = _rows(list(given)), TableScan()
    scan.add(rows)
    return decode_rows(rows, scan.schema()), scan


def _metadata(batch: pa.RecordBatch, name: str) -> dict[str, str]:
    metadata = batch.schema.field(name).metadata
    return {key.decode(): value.decode() for key, value in metadata.items()}


def test_absent_is_null() -> None:
    batch, _ = _table(_row(("a", FIDS)), _row())
    assert batch.to_pydict() == {"a": [[7], None]}
    assert _metadata(batch, "a") == {
        "monolith.name": "a",
        "monolith.kind": "fid_v2_list",
        "monolith.id": "0",
        "monolith.sorted_id": "0",
        "monolith.null": "absent",
    }
    assert batch.schema.metadata == {b"monolith.table": b"1"}


def test_unset_is_null_where_no_row_lacks_the_feature() -> None:
    batch, _ = _table(_row(("a", FIDS)), _row(("a", UNSET)))
    assert batch.to_pydict() == {"a": [[7], None]}
    assert _metadata(batch, "a")["monolith.null"] == "unset"


def test_unset_beside_absent_has_a_column() -> None:
    batch, _ = _table(_row(("a", FIDS)), _row(("a", UNSET)), _row())
    assert batch.to_pydict() == {"a": [[7], None, None], "a:unset": [False, True, False]}


def test_always_unset() -> None:
    batch, _ = _table(_row(("a", UNSET)), _row(("a", UNSET)))
    assert batch.to_pydict() == {"a:unset": [True, True]}
    batch, _ = _table(_row(("a", UNSET)), _row())
    assert batch.to_pydict() == {"a:unset": [True, False]}


def test_several_kinds_and_ids() -> None:
    other = Example(named_feature=[NamedFeature(name="a", id=5, feature=FLOATS)])
    batch, _ = _table(_row(("a", FIDS)), _row(("a", FLOATS)), other)
    assert batch.to_pydict() == {
        "a": [[7], None, None],
        "a:float_list": [None, [0.5], None],
        "a:float_list:5": [None, None, [0.5]],
    }


def test_names_that_are_taken() -> None:
    twice = _row(("a", FIDS), ("a:2", FLOATS), ("a", FIDS), ("__UID__", FIDS), ("", FIDS))
    batch, _ = _table(twice)
    names = ["a", "a:2", "a:2:fid_v2_list", "__UID__:fid_v2_list", ":fid_v2_list"]
    assert batch.schema.names == names
    assert [_metadata(batch, name)["monolith.name"] for name in names] == [
        "a",
        "a:2",
        "a",
        "__UID__",
        "",
    ]


def test_what_is_no_feature() -> None:
    line = LineId(uid=(1 << 64) - 1, req_time=3, actions=[1, 2], sample_rate=0.5, is_draw=True)
    first = _row(line_id=line, label=[1, 0], instance_weight=2, data_source_key=256)
    batch, _ = _table(first, _row(line_id=LineId(req_id="ä")), _row(line_id=LineId()))
    assert batch.to_pydict() == {
        "__UID__": [(1 << 64) - 1, None, None],
        "__REQ_TIME__": [3, None, None],
        "__REQ_ID__": [None, "ä", None],
        "__ACTIONS__": [[1, 2], None, None],
        "__SAMPLE_RATE__": [0.5, None, None],
        "__IS_DRAW__": [True, None, None],
        "__LINE_ID_REST__": [None, None, b""],
        "__LABEL__": [[1.0, 0.0], [], []],
        "instance_weight": [2.0, None, None],
        "__DATA_SOURCE_KEY__": [256, None, None],
    }


def test_rows_of_another_order_are_counted() -> None:
    ab, ba = _row(("a", FIDS), ("b", FIDS)), _row(("b", FIDS), ("a", FIDS))
    strange = NamedFeature(name="c", feature=FIDS)
    strange.MergeFromString(b"\x50\x01")
    moved = Example(named_feature=[strange, *ab.named_feature])
    last = Example(named_feature=[*ab.named_feature, strange])
    assert _table(ab, ba, ab, ba, moved, last)[1].reordered == 3


def test_too_many_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_COLUMNS", 2)
    with pytest.raises(ConversionError, match="more than 2 columns"):
        _table(_row(("a", FIDS), ("b", FIDS), ("c", FIDS)))


def test_too_many_columns_to_count() -> None:
    example = _row(*((f"f{at}", FIDS) for at in range(20_001)))
    with pytest.raises(ConversionError, match="more than 20,000 columns"):
        _table(example)


def test_rows_that_were_not_looked_over() -> None:
    scan = TableScan()
    scan.add(_rows([_row(("a", FIDS))]))
    with pytest.raises(ConversionError, match="was not there at first"):
        decode_rows(_rows([_row(("b", FIDS))]), scan.schema())


def test_rows_that_say_nothing_are_rows() -> None:
    assert _table(Example(), Example())[0].to_pydict() == {"__LABEL__": [[], []]}
    assert _table()[0].num_rows == 0
