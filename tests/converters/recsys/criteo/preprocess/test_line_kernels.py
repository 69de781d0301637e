"""Statistics of dense values."""

import numpy as np
import pytest

from ingot.converters.recsys.criteo.preprocess.row_kernels import (
    BUCKETS,
    bit_length,
    measure_dense,
)


@pytest.mark.parametrize("rows", [0, 1, 4095, 4096, 4097, 9000])
def test_like_numpy(rows: int) -> None:
    raw = np.random.default_rng(rows).integers(-(2**31), 2**31, (rows, 13), dtype=np.int64)
    raw >>= np.arange(13) * 3
    dense = raw.astype(np.int32)
    least, most = np.full(13, 2**40), np.full(13, -(2**40))
    total, histogram = np.zeros(13, np.int64), np.zeros((13, BUCKETS), np.int64)
    for piece in np.array_split(dense, 3):
        measure_dense(piece, least, most, total, histogram)
    assert least.tolist() == raw.min(axis=0, initial=2**40).tolist()
    assert most.tolist() == raw.max(axis=0, initial=-(2**40)).tolist()
    assert total.tolist() == raw.sum(axis=0).tolist()
    bounds = [-(2**40), 0, *(1 << power for power in range(BUCKETS - 1))]
    for column in range(13):
        expected = np.histogram(raw[:, column], bounds)[0]
        assert histogram[column].tolist() == expected.tolist()


def test_bits() -> None:
    for value in [*range(1, 70), *(2**power + d for power in range(7, 62) for d in (-1, 0, 1))]:
        assert bit_length(np.int64(value)) == value.bit_length()
