"""Arrow tables of streams and streams of Arrow tables, in Python."""

from pathlib import Path

import pyarrow as pa
import pytest

from ingot.converters.errors import ConversionError, ParametersError, SourceError
from ingot.converters.recsys.monolith import (
    ExampleBatchReader,
    fid,
    read_arrow,
    read_examples,
    write_arrow,
)
from ingot.converters.recsys.monolith.convert.stream import Filters
from ingot.converters.recsys.monolith.tables.table_file import parse_table_file

GOLDEN = Path(__file__).parents[3] / "golden" / "monolith"
SORT_ID = GOLDEN / "mono_example_sortid.pb"


def test_the_sample_as_a_table_and_back(tmp_path):
    reader = read_arrow(GOLDEN / "mono_examplebatch_sortid.pb", kind="examplebatch")
    table = reader.read_all()
    assert table.num_rows == 51
    slots, _ = fid.unpack_v1(table["f_user_id"].combine_chunks().flatten().to_numpy())
    assert set(slots.tolist()) == {1}
    out = tmp_path / "out.pb.zst"
    assert write_arrow(out, table) == 51
    assert list(read_examples(out)) == list(read_examples(SORT_ID))
    assert write_arrow(out, read_arrow(SORT_ID), kind="examplebatch", batch_size=20) == 51
    assert [batch.batch_size for batch in ExampleBatchReader(out)] == [20, 20, 11]


def test_a_table_of_ones_own(tmp_path):
    table = pa.table({"user": ["a", "b"], "seen": [[1, 2], []], "liked": [1.0, 0.0]})
    how = parse_table_file(
        "features: {user: {slot: 3, hash: xxh64}, seen: {slot: 4}}\nlabel: [liked]\n", "t"
    )
    out = tmp_path / "out.pb"
    assert write_arrow(out, table, table_file=how, framing="none") == 2
    back = read_arrow(out, framing="none").read_all()
    assert back["__LABEL__"].to_pylist() == [[1.0], [0.0]]
    assert back["user"].to_pylist()[0] == fid.from_values(3, ["a"], hash="xxh64").tolist()
    assert back["seen"].to_pylist() == [[4 << 48 | 1, 4 << 48 | 2], []]
    chosen = read_arrow(out, framing="none", filters=Filters(features=("seen",)))
    assert chosen.schema.names == ["__LABEL__", "seen"]


def test_what_does_not_fit(tmp_path):
    out = tmp_path / "out.pb"
    out.write_bytes(b"before")
    table = pa.table({"f": pa.array([[1], [1 << 63]], pa.list_(pa.uint64()))})
    with pytest.raises(SourceError, match="the table: row 1: a cell does not fit"):
        write_arrow(out, table)
    with pytest.raises(ParametersError):
        write_arrow(out, pa.table({"t": pa.array([1], pa.timestamp("s"))}))
    with pytest.raises(ConversionError, match="nope"):
        write_arrow(out, table, framing="nope")
    assert out.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [out]
    with pytest.raises(SourceError, match="of kind examplebatch"):
        read_arrow(GOLDEN / "mono_examplebatch_sortid.pb")


def test_a_column_beside_those_of_ingot_is_checked(tmp_path):
    """Fids of a table that ingot wrote keep their bits; those of others have to be fids."""
    large = pa.array([[(1 << 64) - 1]], pa.list_(pa.uint64()))
    metadata = {"monolith.name": "a", "monolith.kind": "fid_v2_list"}
    own, other = pa.field("a", large.type, metadata=metadata), pa.field("b", large.type)
    for names in ([own, other], [other, own]):
        table = pa.table([large, large], schema=pa.schema(names))
        with pytest.raises(SourceError, match="column b: "):
            write_arrow(tmp_path / "out.pb", table)
    assert write_arrow(tmp_path / "out.pb", pa.table([large], schema=pa.schema([own]))) == 1
