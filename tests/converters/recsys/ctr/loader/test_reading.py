"""Rows of Parquet files, read in any order; files of other writers; cells that cannot be taken."""

from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingot.converters.errors import SourceError
from ingot.converters.recsys.ctr.contract import processed_schema
from ingot.converters.recsys.ctr.loader import stored_rows
from ingot.converters.recsys.ctr.loader.split_files import Split, locate_split
from ingot.converters.recsys.ctr.loader.stored_rows import ParquetRows
from ingot.converters.recsys.training.batch_order import RowSequence
from tests.converters.recsys.ctr.stored import FEATURES, Row, rows_of, write_split
from tests.converters.recsys.ctr.stored import stored_rows as rows_at

ROWS = rows_of(50)


@pytest.fixture(scope="module")
def split(tmp_path_factory: pytest.TempPathFactory) -> Split:
    return locate_split(write_split(tmp_path_factory.mktemp("split"), ROWS, files=3, group=6))


def whole(split: Split) -> RowSequence:
    sizes = np.array([group.rows for group in split.groups])
    return RowSequence(sizes, np.arange(len(sizes)))


def rows_in(split: Split) -> list[Row]:
    source = ParquetRows(split, split.features)
    return rows_at(source, whole(split), 0, split.rows)


@settings(max_examples=30)
@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), max_size=5), st.integers(1, 9))
def test_any_stretch_in_any_order(
    split: Split, stretches: list[tuple[int, int]], piece: int
) -> None:
    source = ParquetRows(split, split.features)
    with patch.object(stored_rows, "PIECE", piece):
        for one, other in stretches:
            start, stop = min(one, other), max(one, other) + 1
            if stop <= split.rows:
                assert rows_at(source, whole(split), start, stop) == ROWS[start:stop]


def test_some_features(split: Split) -> None:
    source = ParquetRows(split, split.select(["f1_121"]))
    names = list(rows_at(source, whole(split), 3, 5)[0])
    assert names[6:] == ["f1_121_idx"]


def table(rows: list[Row], change: Callable[[pa.Field], pa.Field]) -> pa.Table:
    fields = [change(field) for field in processed_schema(FEATURES)]
    return pa.Table.from_pylist(rows, schema=pa.schema(fields))


WIDE = {
    pa.string(): pa.large_string(),
    pa.list_(pa.field("element", pa.int64(), nullable=False)): pa.large_list(pa.int64()),
    pa.list_(pa.field("element", pa.float32(), nullable=False)): pa.large_list(pa.float32()),
}


def other(field: pa.Field) -> pa.Field:
    kind = field.type
    if pa.types.is_list(kind):
        kind = pa.list_(kind.value_type)
    return pa.field(field.name, kind)


def test_files_of_other_writers(tmp_path: Path) -> None:
    write_split(tmp_path, ROWS[:20])
    nullable = table(ROWS[20:30], other)
    wide = table(ROWS[30:40], lambda one: pa.field(one.name, WIDE.get(one.type, one.type)))
    metadata = pq.read_schema(tmp_path / "part-00000.parquet").metadata
    for number, each in enumerate((nullable, wide)):
        names = each.column_names
        moved = each.select(names[::-1] if number else names).replace_schema_metadata(metadata)
        pq.write_table(moved, tmp_path / f"part-0001{number}.parquet")
    assert rows_in(locate_split(tmp_path)) == ROWS[:40]


@pytest.mark.parametrize(
    ("name", "cell"),
    [
        ("y_ctr", None),
        ("row_id", None),
        ("entity_id", None),
        ("f1_121_idx", None),
        ("f0_210_idx", None),
        ("f0_210_idx", [3, None]),
        ("f1_110_14_val", [None]),
    ],
)
def test_null_cells_are_refused(tmp_path: Path, name: str, cell: Any) -> None:
    rows = rows_of(3)
    rows[1][name] = cell
    pq.write_table(table(rows, other), tmp_path / "x.parquet")
    with pytest.raises(SourceError, match=f"{name} holds 1 null cells in the rows from row_id 10"):
        rows_in(locate_split(tmp_path))


def test_lists_of_ids_and_values_that_differ(tmp_path: Path) -> None:
    rows = rows_of(3)
    rows[1] |= {"f1_110_14_idx": [3, 4], "f1_110_14_val": [0.5]}
    said = "f1_110_14 has 2 ids and 1 values in the row with row_id 11"
    with pytest.raises(SourceError, match=said):
        rows_in(locate_split(write_split(tmp_path, rows)))


def test_an_error_does_not_move_the_rows_behind_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_rows, "PIECE", 3)
    rows = rows_of(9)
    rows[4] |= {"f1_110_14_idx": [3, 4], "f1_110_14_val": [0.5]}
    split = locate_split(write_split(tmp_path, rows, group=9))
    source = ParquetRows(split, split.features)
    for _ in range(2):
        with pytest.raises(SourceError, match="row_id 14"):
            rows_at(source, whole(split), 3, 9)
    assert rows_at(source, whole(split), 0, 3) == rows[:3]


def test_files_that_go_away_or_change(tmp_path: Path) -> None:
    split = locate_split(write_split(tmp_path, rows_of(9), files=2))
    split.files[1].unlink()
    with pytest.raises(SourceError, match=r"part-00001\.parquet: was removed after"):
        rows_in(split)
    write_split(tmp_path, rows_of(5))
    with pytest.raises(SourceError, match=r"part-00000\.parquet: .*was changed after"):
        rows_in(split)


def test_bytes_that_cannot_be_decoded(tmp_path: Path) -> None:
    split = locate_split(write_split(tmp_path, rows_of(30)))
    path = split.files[0]
    data = bytearray(path.read_bytes())
    data[4:200] = bytes(196)
    path.write_bytes(data)
    with pytest.raises(SourceError, match=r"part-00000\.parquet: cannot be read"):
        rows_in(split)


def test_an_entity_that_is_no_text(tmp_path: Path) -> None:
    made = table(rows_of(3), other)
    bad = pa.array([b"a", b"\xff", b"c"]).view(pa.string())
    pq.write_table(made.set_column(5, "entity_id", bad), tmp_path / "x.parquet")
    with pytest.raises(SourceError, match="entity_id holds bytes that are not UTF-8"):
        rows_in(locate_split(tmp_path))
