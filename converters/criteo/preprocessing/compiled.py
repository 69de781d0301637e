"""Kernels, compiled before threads call them."""

import numpy as np

from ingot.converters.criteo.contract import DENSE, SPARSE
from ingot.converters.criteo.preprocessing.ids import Ids
from ingot.converters.criteo.preprocessing.kernels.shuffling import (
    count_buckets,
    put_in_order,
    sort_into_buckets,
)
from ingot.converters.criteo.preprocessing.lines import parse_block
from ingot.converters.criteo.preprocessing.statistics import DenseSums

_ROWS = 2


def compile_kernels() -> None:
    """Compile in this thread what pools of threads will call; nothing where that is done.

    numba fails at times where several threads compile for the first time.

    Raises:
        ConversionError: numba is not installed.
    """
    _compile_reading()
    _compile_shuffling()


def _compile_reading() -> None:
    block = parse_block(np.frombuffer(b"\t" * 39 + b"\n", np.uint8), labelled=True)
    DenseSums().add(block.dense)
    for grows in (True, False):
        Ids("", grows=grows).ids(block.sparse[0])


def _compile_shuffling() -> None:
    places = np.arange(_ROWS, dtype=np.uint32)
    sparse = np.zeros((SPARSE, _ROWS), np.uint32)
    dense, labels = np.zeros((_ROWS, DENSE), np.uint32), np.zeros((_ROWS, 1), np.uint32)
    records = np.zeros((_ROWS, 2 + DENSE + SPARSE), np.uint32)
    count_buckets(places, _ROWS, np.zeros(1, np.int64))
    sort_into_buckets(places, _ROWS, labels[:, 0].copy(), dense, sparse, np.zeros(1, int), records)
    put_in_order(records, 0, labels, dense, np.zeros((_ROWS, SPARSE), np.uint32))
