"""Files that are no split of the contract, and what is said of them."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingot.converters.errors import SourceError
from ingot.converters.recsys.ctr.contract import METADATA_KEY, processed_schema
from ingot.converters.recsys.ctr.loader.split_files import locate_split
from tests.converters.recsys.ctr.stored import FEATURES, rows_of, write_split


def changed(**types: pa.DataType | None) -> pa.Schema:
    """The schema with columns of other types, without (None) or with more of them."""
    schema = processed_schema(FEATURES)
    for name, kind in types.items():
        place = schema.get_field_index(name)
        if kind is None:
            schema = schema.remove(place)
        elif place < 0:
            schema = schema.append(pa.field(name, kind))
        else:
            schema = schema.set(place, pa.field(name, kind))
    return schema


def test_a_split_of_files(tmp_path: Path) -> None:
    write_split(tmp_path / "train", rows_of(40), files=3, group=5)
    split = locate_split(tmp_path, "train")
    assert split.rows == 40
    assert [path.name for path in split.files] == [f"part-0000{n}.parquet" for n in range(3)]
    assert [group.first for group in split.groups][:4] == [0, 5, 10, 13]
    assert [(one.name, one.is_multi_hot, one.use_value) for one in split.features] == [
        ("f0_508", False, True),
        ("f1_121", False, False),
        ("f1_110_14", True, True),
        ("f0_210", True, False),
    ]
    assert locate_split(tmp_path / "train") == split


def test_one_file_is_a_split(tmp_path: Path) -> None:
    folder = write_split(tmp_path, rows_of(4))
    assert locate_split(folder / "part-00000.parquet").rows == 4


def test_the_fingerprint_is_of_the_data_not_of_the_place(tmp_path: Path) -> None:
    one = locate_split(write_split(tmp_path / "a", rows_of(20)))
    assert locate_split(write_split(tmp_path / "b", rows_of(20))).fingerprint == one.fingerprint
    assert (
        locate_split(write_split(tmp_path / "c", rows_of(20, seed=1))).fingerprint
        != one.fingerprint
    )


def test_hidden_files_and_files_without_rows_are_no_part(tmp_path: Path) -> None:
    write_split(tmp_path, rows_of(6), files=2, group=2)
    empty = pa.Table.from_pylist([], schema=processed_schema(FEATURES))
    pq.write_table(empty, tmp_path / "part-00002.parquet")
    (tmp_path / "._part.parquet").write_text("not read")
    (tmp_path / "_SUCCESS").touch()
    assert locate_split(tmp_path).rows == 6


@pytest.mark.parametrize(
    ("types", "said"),
    [
        ({"y_cvr": None}, "no column y_cvr"),
        ({"y_ctr": pa.int8()}, "y_ctr is int8, not float32"),
        ({"row_id": pa.int32()}, "row_id is int32, not int64"),
        ({"entity_id": pa.binary()}, "entity_id is binary, not string"),
        ({"f1_121_idx": pa.int32()}, "f1_121_idx is int32, not int64 or a list of it"),
        ({"f0_210_idx": pa.list_(pa.int32())}, "f0_210_idx is list<.*int32.*not int64"),
        ({"f0_508_val": pa.float64()}, "f0_508_val is float64, not float32"),
        ({"f1_110_14_val": pa.list_(pa.float64())}, "f1_110_14_val is list.*float64.*not float32"),
        ({"f1_121_idx": None, "f1_121_val": pa.float32()}, "f1_121_val is not a column of"),
        ({"f0_210_off": pa.int64()}, "f0_210_off is not a column of the contract"),
        (
            dict.fromkeys(
                ("f0_508_idx", "f0_508_val", "f1_121_idx", "f1_110_14_idx", "f1_110_14_val")
            )
            | {"f0_210_idx": None},
            "no feature column",
        ),
    ],
)
def test_columns_that_are_not_the_contracts(
    tmp_path: Path, types: dict[str, Any], said: str
) -> None:
    schema = changed(**types)
    pq.write_table(
        pa.table({field.name: pa.nulls(1, field.type) for field in schema}), tmp_path / "x.parquet"
    )
    with pytest.raises(SourceError, match=said) as raised:
        locate_split(tmp_path)
    assert raised.value.where == str(tmp_path / "x.parquet")
    assert "validate the folder" in raised.value.hint


def test_a_value_column_of_another_shape(tmp_path: Path) -> None:
    schema = changed(f0_508_val=pa.list_(pa.float32()))
    table = pa.table({field.name: pa.nulls(1, field.type) for field in schema})
    pq.write_table(table, tmp_path / "x.parquet")
    with pytest.raises(SourceError, match="both must be lists, or neither"):
        locate_split(tmp_path)


def test_many_problems_are_told_shortly(tmp_path: Path) -> None:
    pq.write_table(pa.table({f"a{n}": [1] for n in range(9)}), tmp_path / "x.parquet")
    with pytest.raises(SourceError, match=r"no column y_ctr; .* and 10 more"):
        locate_split(tmp_path)


def test_files_that_differ(tmp_path: Path) -> None:
    write_split(tmp_path, rows_of(4), files=2)
    schema = changed(f0_210_idx=None)
    table = pa.Table.from_pylist(rows_of(4), schema=schema)
    pq.write_table(table, tmp_path / "part-00001.parquet")
    with pytest.raises(SourceError, match="columns of f0_210 are not those of part-00000"):
        locate_split(tmp_path)


def test_files_of_several_builds(tmp_path: Path) -> None:
    write_split(tmp_path, rows_of(4), files=2)
    schema = processed_schema(FEATURES).with_metadata({METADATA_KEY: b"{}"})
    table = pa.Table.from_pylist(rows_of(4), schema=schema)
    pq.write_table(table, tmp_path / "part-00001.parquet")
    with pytest.raises(SourceError, match=r"another ingot\.ctr in its metadata"):
        locate_split(tmp_path)


def test_places_that_hold_no_split(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="this folder does not exist"):
        locate_split(tmp_path / "x")
    with pytest.raises(SourceError, match=r"no \*.parquet files.*a build writes"):
        locate_split(tmp_path)
    write_split(tmp_path / "train", rows_of(2))
    with pytest.raises(SourceError, match="say which split: split='train'"):
        locate_split(tmp_path)
    with pytest.raises(SourceError, match=r"folder does not exist.*split='train'"):
        locate_split(tmp_path, "valid")
    (tmp_path / "x.parquet").write_text("PAR1 no")
    with pytest.raises(SourceError, match="is not a Parquet file"):
        locate_split(tmp_path)
    write_split(tmp_path / "none", [])
    with pytest.raises(SourceError, match="holds no rows"):
        locate_split(tmp_path / "none")
