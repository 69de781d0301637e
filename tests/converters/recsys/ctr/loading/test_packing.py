"""Batches packed for their way out of a worker are the same when they are unpacked."""

import pickle

import pytest
import torch

from ingot.converters.recsys.ctr.loader.collation import pack, unpack
from tests.converters.recsys.ctr.stored import assert_same, plain_batch, rows_of


@pytest.mark.parametrize("count", [0, 1, 5])
def test_a_batch_comes_out_as_it_went_in(count: int) -> None:
    batch = plain_batch(rows_of(count))
    packed = pickle.loads(pickle.dumps(pack(batch)))
    assert set(packed.blocks) == {torch.int64, torch.float32}
    assert_same(unpack(packed), batch)


def test_tensors_do_not_overlap() -> None:
    batch = unpack(pack(plain_batch(rows_of(4))))
    batch["features"]["f1_121"]["idx"].fill_(-1)
    batch["features"]["f1_121"] = plain_batch(rows_of(4))["features"]["f1_121"]
    assert_same(batch, plain_batch(rows_of(4)))
