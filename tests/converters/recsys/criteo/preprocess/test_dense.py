"""Logarithms with numpy's bits."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from ingot.converters.recsys.criteo.contract import HEADER
from ingot.converters.recsys.criteo.preprocess.raw_lines import count_nonfinite, ln3, min2_in_place
from tests.converters.recsys.criteo.preprocessed import same_bits

EDGES = [0, 1, -1, -2, -3, -4, 2**31 - 1, 2**31 - 3, 2**31 - 4, -(2**31), 5, 10**9, 77]


def raw(rows: int) -> NDArray[np.int32]:
    values = np.random.default_rng(2).integers(-3, 2**31 - 4, (rows, 13), dtype=np.int64) >> 7
    return np.concatenate([values.astype(np.int32), np.array([EDGES], np.int32)])


@np.errstate(divide="ignore", invalid="ignore", over="ignore")
def test_ln3_as_one_array_or_in_pieces() -> None:
    values = raw(10_000)
    expected = np.log(values + np.int32(3), dtype=np.float32)
    pieces = np.concatenate([ln3(piece) for piece in np.array_split(values.copy(), 13)])
    assert same_bits(pieces, expected)
    assert count_nonfinite(expected).tolist() == (~np.isfinite(expected)).sum(axis=0).tolist()


@np.errstate(divide="ignore", invalid="ignore", over="ignore")
@pytest.mark.parametrize("least", [0, -1, -4, -(2**31), -(2**31) + 1, 2**31 - 1])
def test_min2(tmp_path: Path, least: int) -> None:
    """With the wrapping of int32, as `values - (least - 2)` has it."""
    values, path = raw(100), tmp_path / "dense.npy"
    path.write_bytes(bytes(HEADER) + values.tobytes())
    bad = min2_in_place(path, len(values), HEADER, least)
    wide = (values.astype(np.int64) - least + 2) & 0xFFFFFFFF
    expected = np.log(wide.astype(np.uint32).view(np.int32), dtype=np.float32)
    written = np.fromfile(path, np.float32, offset=HEADER).reshape(-1, 13)
    assert same_bits(written, expected)
    assert bad.tolist() == count_nonfinite(expected).tolist()
    assert path.read_bytes()[:HEADER] == bytes(HEADER)
