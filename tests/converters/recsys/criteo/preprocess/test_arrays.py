"""Files as np.save writes them, piece by piece."""

import io
from pathlib import Path

import numpy as np
import pytest

from ingot.converters.recsys.criteo.contract import (
    DTYPES,
    HEADER,
    create_array,
    npy_header,
    row_bytes,
)
from ingot.converters.sources.recognizers.criteo import WIDTHS


@pytest.mark.parametrize("kind", ["dense", "labels", "sparse"])
@pytest.mark.parametrize("rows", [0, 1, 9, 10**6])
def test_headers(kind: str, rows: int) -> None:
    saved = io.BytesIO()
    np.save(saved, np.empty((rows, WIDTHS[kind]), DTYPES[kind]))
    header = npy_header(DTYPES[kind].str, (rows, WIDTHS[kind]))
    assert saved.getvalue()[:HEADER] == header
    assert len(saved.getvalue()) == HEADER + rows * row_bytes(kind)


@pytest.mark.parametrize("rows", [4_195_197_692, 10**15])
def test_headers_of_many_rows_are_as_long(rows: int) -> None:
    assert len(npy_header("<i4", (rows, WIDTHS["sparse"]))) == HEADER


def test_what_is_there_stays(tmp_path: Path) -> None:
    path, values = tmp_path / "day_0_labels.npy", np.arange(5, dtype=np.int32).reshape(-1, 1)
    create_array(path, "labels", 5)
    assert not np.load(path).any()
    np.save(path, values)
    create_array(path, "labels", 5)
    assert np.array_equal(np.load(path), values)
