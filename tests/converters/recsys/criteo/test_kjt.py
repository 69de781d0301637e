"""`KeyedJaggedTensor`: against torchrec's class and reference outputs, and what it refuses."""

import pickle
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torch", reason="torch is not installed: make test-more brings it")
import torch

from ingot.converters.errors import ConversionError
from ingot.converters.recsys.criteo import KeyedJaggedTensor

pytestmark = pytest.mark.more

SPARSE = np.array([[2, 3, 9], [4, 5, 7]], np.int32)


def same(ours: torch.Tensor, theirs: torch.Tensor) -> bool:
    """Whether two tensors have the same type, shape and numbers."""
    return ours.dtype == theirs.dtype and torch.equal(ours, theirs)


def alike(ours: KeyedJaggedTensor, theirs) -> None:
    """Hold every field to torchrec's."""
    assert ours.keys() == theirs.keys()
    assert ours.stride() == theirs.stride()
    for name in ("values", "lengths", "offsets"):
        assert same(getattr(ours, name)(), getattr(theirs, name)()), name
    assert ours.length_per_key() == theirs.length_per_key()
    assert ours.offset_per_key() == theirs.offset_per_key()
    assert ours.index_per_key() == theirs.index_per_key()
    assert ours.device() == theirs.device()
    features, others = ours.to_dict(), theirs.to_dict()
    assert list(features) == list(others)
    for key, one in features.items():
        for name in ("_values", "_lengths", "_offsets"):
            assert same(getattr(one, name), getattr(others[key], name)), (key, name)
            alone, other = getattr(ours[key], name[1:])(), getattr(theirs[key], name[1:])()
            assert same(alone, other), (key, name)


def jagged(keys: int, stride: int) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(0, 4), min_size=keys * stride, max_size=keys * stride)


@given(st.data(), st.integers(1, 5), st.integers(0, 6), st.sampled_from([torch.int32, torch.int64]))
def test_any_lengths_are_as_torchrec_has_them(jagged_tensor, data, keys, stride, kind):
    lengths = torch.tensor(data.draw(jagged(keys, stride)), dtype=kind)
    values = torch.arange(int(lengths.sum()), dtype=torch.int32)
    names = [f"f{place}" for place in range(keys)]
    offsets = torch.zeros(len(lengths) + 1, dtype=kind)
    offsets[1:] = torch.cumsum(lengths, 0)
    theirs = jagged_tensor.KeyedJaggedTensor(keys=names, values=values, offsets=offsets)
    by_lengths = KeyedJaggedTensor(names, values, lengths=lengths)
    by_offsets = KeyedJaggedTensor(names, values, offsets=offsets, stride=stride)
    by_both = KeyedJaggedTensor(names, values, lengths=lengths, offsets=offsets)
    for ours in (by_lengths, by_offsets, by_both):
        alike(ours, pickle.loads(pickle.dumps(ours)))
        if stride:  # torchrec's to_dict fails on an empty batch
            alike(ours, theirs)
            alike(ours, ours.to_torchrec())


@given(st.integers(0, 40), st.integers(1, 30), st.sampled_from([np.int32, np.int64]))
def test_one_id_a_cell_is_as_torchrec_has_it(jagged_tensor, rows, columns, kind):
    sparse = np.arange(rows * columns, dtype=kind).reshape(rows, columns)
    ours = KeyedJaggedTensor.from_matrix(sparse)
    cells = rows * columns
    theirs = jagged_tensor.KeyedJaggedTensor(
        keys=[f"cat_{place}" for place in range(columns)],
        values=torch.from_numpy(sparse.T.reshape(-1).copy()),
        lengths=torch.ones(cells, dtype=torch.int32),
        offsets=torch.arange(cells + 1, dtype=torch.int32),
        stride=rows,
        length_per_key=[rows] * columns,
        offset_per_key=[rows * place for place in range(columns + 1)],
    )
    if rows:
        alike(ours, theirs)
        alike(ours, ours.to_torchrec())
    alike(ours, pickle.loads(pickle.dumps(ours)))
    alike(ours, KeyedJaggedTensor.from_matrix(torch.from_numpy(sparse)))


def test_batches_are_those_of_the_reference(golden):
    stored = np.load(golden / "kjt_day_0_batch64.npz")
    sparse = np.load(golden / "torchrec_now_shuffled.npz")["day_0_sparse"]
    for batch in (0, 1, 28):
        ours = KeyedJaggedTensor.from_matrix(sparse[64 * batch : 64 * batch + 64])
        for name in ("values", "offsets", "lengths"):
            wanted = stored[f"batch_{batch}_{name}"]
            got = getattr(ours, name)().numpy()
            assert got.dtype == wanted.dtype
            np.testing.assert_array_equal(got, wanted)
        assert ours.stride() == stored[f"batch_{batch}_stride"]
        assert ours.length_per_key() == stored[f"batch_{batch}_length_per_key"].tolist()
        assert ours.offset_per_key() == stored[f"batch_{batch}_offset_per_key"].tolist()


def test_the_documents_names():
    ours = KeyedJaggedTensor.from_matrix(SPARSE)
    assert ours.value.tolist() == [2, 4, 3, 5, 9, 7]
    assert ours.offset.tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert ours.length.tolist() == [1] * 6
    assert ours.key == ["cat_0", "cat_1", "cat_2"]
    assert (ours.stride(), ours.length_per_key()) == (2, [2, 2, 2])
    assert ours.offset_per_key() == [0, 2, 4, 6]
    one = ours.to_dict()["cat_1"]
    assert (one._values.tolist(), one._length.tolist()) == ([3, 5], [1, 1])
    assert one._offset.tolist() == [0, 1, 2]
    assert one._length is one._lengths is one.lengths()
    assert one._offset is one._offsets is one.offsets()
    assert one._values is one.values()


@pytest.mark.parametrize("kind", [np.int32, np.int64])
@pytest.mark.parametrize("as_tensor", [False, True])
def test_ids_modulo_the_sizes(kind, as_tensor):
    top = np.iinfo(kind).max
    sparse = np.array([[top, 5, 0], [-1, 7, 2], [3, 6, np.iinfo(kind).min]], kind)
    before, sizes = sparse.copy(), [2**31 - 1, 6, 3]
    given_ids = torch.from_numpy(sparse) if as_tensor else sparse
    ours = KeyedJaggedTensor.from_matrix(given_ids, sizes)
    np.testing.assert_array_equal(ours.values().numpy().reshape(3, 3).T, before % sizes)
    assert ours.values().numpy().dtype == kind
    np.testing.assert_array_equal(sparse, before)


@pytest.mark.parametrize("shape", [(1, 3), (3, 1)])
def test_what_was_given_is_left_alone(shape):
    sparse = np.full(shape, 9, np.int32)
    KeyedJaggedTensor.from_matrix(sparse, [2] * shape[1]).values().zero_()
    given_ids = torch.from_numpy(sparse)
    KeyedJaggedTensor.from_matrix(given_ids, [2] * shape[1]).values().zero_()
    assert (sparse == 9).all()


def test_columns_are_taken_over():
    columns = torch.from_numpy(SPARSE.T.copy())
    ours = KeyedJaggedTensor.from_columns(columns, [3, 4, 5])
    alike(ours, KeyedJaggedTensor.from_matrix(SPARSE, [3, 4, 5]))
    assert ours.values().data_ptr() == columns.data_ptr()
    with pytest.raises(ValueError, match=r"sparse: shape \(4, 3, 2\)"):
        KeyedJaggedTensor.from_columns(torch.zeros(2, 3, 4, dtype=torch.int32))


def test_a_mapped_file_is_read_without_a_warning(tmp_path):
    np.save(tmp_path / "day_0_sparse.npy", SPARSE)
    mapped = np.load(tmp_path / "day_0_sparse.npy", mmap_mode="r")
    assert KeyedJaggedTensor.from_matrix(mapped[1:]).values().tolist() == [4, 5, 7]


def test_padded_and_dense_are_torchrecs(jagged_tensor):
    values, lengths = torch.arange(7), torch.tensor([2, 0, 1, 3, 0, 1])
    ours = KeyedJaggedTensor(["a", "b"], values, lengths=lengths)
    theirs = jagged_tensor.KeyedJaggedTensor(keys=["a", "b"], values=values, lengths=lengths)
    for key in "ab":
        dense = zip(ours[key].to_dense(), theirs[key].to_dense(), strict=True)
        assert all(same(one, other) for one, other in dense)
        for how in ({}, {"desired_length": 2}, {"desired_length": 5, "padding_value": -1}):
            assert same(ours[key].to_padded_dense(**how), theirs[key].to_padded_dense(**how))
    assert KeyedJaggedTensor.from_matrix(SPARSE[:0])["cat_0"].to_padded_dense().shape == (0, 0)


def test_through_the_workers_of_a_dataloader():
    batches = [SPARSE[:count] for count in (2, 1, 2, 0)]
    loader = torch.utils.data.DataLoader(
        batches, batch_size=None, num_workers=2, collate_fn=KeyedJaggedTensor.from_matrix
    )
    for batch, ours in zip(batches, loader, strict=True):
        alike(ours, KeyedJaggedTensor.from_matrix(batch))


def test_to_a_device():
    jagged = KeyedJaggedTensor(["a"], torch.arange(3), lengths=torch.tensor([1, 2]))
    for ours in (jagged, KeyedJaggedTensor.from_matrix(SPARSE)):
        assert ours.to("cpu") is ours
        moved = ours.to("meta")
        assert {moved.device().type, moved.offsets().device.type} == {"meta"}
        assert moved.lengths().device.type == "meta"
        assert moved.offset_per_key() == ours.offset_per_key()
        assert moved.offsets().dtype == ours.offsets().dtype


def test_made_under_inference_mode_it_serves_training():
    with torch.inference_mode():
        KeyedJaggedTensor.from_matrix(np.zeros((97, 3), np.int32))
    ours = KeyedJaggedTensor.from_matrix(np.zeros((97, 3), np.int32))
    weight = torch.ones(1, 2, requires_grad=True)
    one = ours["cat_0"]
    sums = torch.nn.functional.embedding_bag(one.values(), weight, one.offsets()[:-1], mode="sum")
    sums.sum().backward()
    assert weight.grad is not None


def tensor(*numbers: int, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    return torch.tensor(numbers, dtype=dtype)


THREE = tensor(1, 2, 3)


@pytest.mark.parametrize(
    ("keys", "values", "given_fields", "said"),
    [
        ([], THREE, {"lengths": THREE}, "keys: .*: names are needed"),
        ("ab", THREE, {"lengths": tensor(1, 2)}, "keys: 'ab': names are needed, each once"),
        (["a", "a"], THREE, {"lengths": tensor(1, 2)}, "each once"),
        (["a"], THREE[None], {"lengths": tensor(3)}, "values: a tensor of one dimension"),
        (["a"], [1, 2, 3], {"lengths": tensor(3)}, "values: a tensor of one dimension"),
        (["a"], THREE, {"lengths": tensor(3)[None]}, "lengths: a tensor of one dimension"),
        (["a"], THREE, {"offsets": [0, 3]}, "offsets: a tensor of one dimension"),
        (["a"], THREE, {}, "lengths: give these or offsets"),
        (["a"], THREE, {"lengths": tensor(3).float()}, "lengths: torch.float32: int32 or int64"),
        (["a"], THREE, {"lengths": tensor(1, 1)}, "they add up to 2, and there are 3 values"),
        (["a"], THREE, {"lengths": tensor(4, -1)}, "lengths: one is below 0"),
        (["a", "b"], THREE, {"lengths": tensor(1, 1, 1)}, "2 keys of 1 examples are not 3 cells"),
        (["a"], THREE, {"lengths": tensor(1, 2), "stride": 3}, "1 keys of 3 examples are not 2"),
        (["a"], THREE, {"lengths": tensor(1, 2), "stride": 2.0}, "2.0 is not an integer"),
        (["a"], THREE, {"offsets": tensor()}, "offsets: it is empty"),
        (["a"], THREE, {"offsets": tensor(1, 3)}, "they go from 1 to 3: 0 to 3"),
        (["a"], THREE, {"offsets": tensor(0, 2)}, "they go from 0 to 2: 0 to 3"),
        (["a"], THREE, {"offsets": tensor(0, 4, 3)}, "below the one before it"),
        (["a"], THREE, {"offsets": tensor(0, 3), "lengths": tensor(1, 2)}, "as many as lengths"),
        (["a"], THREE, {"offsets": tensor(0, 2, 3), "lengths": tensor(1, 2)}, "contradict lengths"),
    ],
)
def test_what_does_not_fit_is_refused(keys, values, given_fields, said):
    with pytest.raises(ValueError, match=said):
        KeyedJaggedTensor(keys, values, **given_fields)


@pytest.mark.parametrize(
    ("sparse", "how", "said"),
    [
        (SPARSE[0], {}, r"sparse: shape \(3,\): a row for each example"),
        (SPARSE[:, :0], {}, r"sparse: shape \(2, 0\)"),
        (SPARSE.astype(np.float32), {}, "sparse: float32: ids are int32 or int64"),
        (SPARSE.astype(">i4"), {}, "sparse: >i4: ids are int32 or int64"),
        (torch.zeros(2, 3), {}, "sparse: torch.float32"),
        (SPARSE, {"num_embeddings": [1, 2]}, "num_embeddings: 2 sizes, and 3 features"),
        (
            SPARSE,
            {"num_embeddings": [1, 0, 2]},
            r"\[1\]: 0 is not between 1 and 2\*\*31",
        ),
        (
            SPARSE,
            {"num_embeddings": [1, 2, 2**31]},
            r"\[2\]: 2147483648 is not between",
        ),
        (SPARSE, {"num_embeddings": [1, 2, True]}, "True is not an integer"),
        (SPARSE, {"keys": ["a", "b"]}, "keys: 2 names of 3 columns"),
    ],
)
def test_a_matrix_that_does_not_fit_is_refused(sparse, how, said):
    with pytest.raises(ValueError, match=said):
        KeyedJaggedTensor.from_matrix(sparse, **how)


def test_an_unknown_key_is_named():
    with pytest.raises(KeyError, match="'cat_7' is not a key of this batch: cat_0, cat_1, cat_2"):
        KeyedJaggedTensor.from_matrix(SPARSE)["cat_7"]


def test_without_torchrec_it_is_said_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "torchrec.sparse.jagged_tensor", None)
    with pytest.raises(
        ConversionError, match=r"torchrec cannot be loaded: .*install torchrec 1\.8\.0"
    ):
        KeyedJaggedTensor.from_matrix(SPARSE).to_torchrec()


def test_it_says_what_it_is():
    ours = KeyedJaggedTensor.from_matrix(SPARSE)
    assert repr(ours) == "KeyedJaggedTensor(3 keys, stride 2, 6 values of torch.int32 on cpu)"
    assert repr(ours["cat_0"]).startswith("JaggedTensor(values=tensor([2, 4]")
