"""`MultiHot`: against reference outputs, the document's example, and a slow reference."""

import json
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torch", reason="torch is not installed: make test-more brings it")
import torch

from ingot.converters.errors import ConversionError
from ingot.converters.recsys.criteo import KeyedJaggedTensor, MultiHot

pytestmark = pytest.mark.more

DISTRIBUTIONS = ("uniform", "pareto")


@pytest.fixture(scope="module")
def config(golden):
    return json.loads((golden / "multihot_config.json").read_text())


@pytest.fixture(scope="module")
def sparse(golden):
    return np.load(golden / "torchrec_nov2022_shuffled.npz")["day_0_sparse"]


def asked(config, version: str, distribution: str, **more) -> MultiHot:
    """The conversion that a reference output is of."""
    more |= {"collect_multi_hot_freqs_stats": True, "multi_hot_distribution_type": distribution}
    sizes = config["num_embeddings"]
    if version == "head":
        wide = config["head_multi_hot_sizes"]
        return MultiHot(sizes, multi_hot_sizes=wide, seeding="global0", **more)
    least, size = config["multi_hot_min_table_size"], config["multi_hot_size"]
    return MultiHot(sizes, multi_hot_size=size, multi_hot_min_table_size=least, **more)


@pytest.mark.parametrize("in_files", [False, True])
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@pytest.mark.parametrize(("version", "batches"), [("4a9d018", 28), ("head", 29)])
def test_reference_outputs(
    golden, config, sparse, version, batches, distribution, in_files, tmp_path
):
    wanted = np.load(golden / f"multihot_{version}_{distribution}.npz")
    folder = tmp_path if in_files else None
    ours = asked(config, version, distribution, folder=folder)
    size, compared = config["batch_size"], set()
    for batch in range(batches):
        made = ours.convert(KeyedJaggedTensor.from_matrix(sparse[batch * size :][:size]))
        for name in ("values", "offsets", "length_per_key"):
            if (key := f"batch_{batch}_{name}") in wanted:
                got = np.asarray(getattr(made, name)())
                assert got.dtype == wanted[key].dtype
                np.testing.assert_array_equal(got, wanted[key])
                compared.add(key)
    for place, weight in enumerate(ours.weight):
        for when in ("pre", "post"):
            if (key := f"freq_{when}_{place}") in wanted:
                counts = getattr(ours.frequencies, when)[place]
                np.testing.assert_array_equal(counts, wanted[key])
                compared.add(key)
        compared.add(f"table_{place}")
        if weight is not None:
            table = wanted[f"table_{place}"].copy()
            if version == "4a9d018":  # whose column 0 is replaced after the lookup
                assert not table[:, 0].any()
                table[:, 0] = np.arange(len(table))
            assert weight.dtype == torch.int32
            np.testing.assert_array_equal(weight.numpy(), table)
    assert compared == set(wanted.files)


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_the_documents_example(golden, distribution):
    wanted = np.load(golden / "worked_example.npz")
    ours = MultiHot(
        num_embeddings=wanted["num_embeddings"].tolist(),
        multi_hot_size=int(wanted["multi_hot_size"]),
        multi_hot_min_table_size=int(wanted["multi_hot_min_table_size"]),
        multi_hot_distribution_type=distribution,
        collect_multi_hot_freqs_stats=True,
    )
    before = KeyedJaggedTensor.from_matrix(wanted["sparse"])
    after = ours.convert(before)
    assert after.offset.tolist() == [0, 1, 2, 3, 4, 5, 6, 9, 12]
    for prefix, made in (("in", before), (f"{distribution}_out", after)):
        for name in ("values", "offsets", "lengths"):
            if (key := f"{prefix}_{name}") in wanted:
                got = getattr(made, name)().numpy()
                assert got.dtype == wanted[key].dtype
                np.testing.assert_array_equal(got, wanted[key])
    for prefix, made in (("in", before), (distribution, after)):
        for cat, one in made.to_dict().items():
            for name in ("values", "offsets", "lengths"):
                key = f"{prefix}_to_dict_{cat}_{name}"
                got = getattr(one, name)().numpy()
                assert got.dtype == wanted[key].dtype, key
                np.testing.assert_array_equal(got, wanted[key])
    for when in ("pre", "post"):
        counts = getattr(ours.frequencies, when)[3]
        np.testing.assert_array_equal(counts, wanted[f"{distribution}_freq_{when}_3"])


def slow(rows: list[list[int]], sizes: list[int], tables: list[list[list[int]]]):
    """Values and offsets, one number at a time."""
    values, offsets = [], [0]
    for place, size in enumerate(sizes):
        for row in rows:
            cell = [row[place]] if size == 1 else [row[place], *tables[place][row[place]]]
            values += cell
            offsets.append(offsets[-1] + len(cell))
    return values, offsets


def slow_tables(counts: list[int], sizes: list[int], seeding: str, distribution: str):
    """Drawn ids of each feature, one at a time."""
    shared = np.random.RandomState(0)
    tables = []
    for place, (count, size) in enumerate(zip(counts, sizes, strict=True)):
        state = shared if seeding == "global0" else np.random.RandomState(place)
        table = []
        for _ in range(count if size > 1 else 0):
            row = []
            for _ in range(size - 1):
                if distribution == "uniform":
                    row.append(int(state.randint(0, count)))
                else:
                    drawn = state.pareto(0.25)
                    row.append((int(drawn) if drawn < 2**31 else -(2**31)) % count)
            table.append(row)
        tables.append(table)
    return tables


@st.composite
def conversions(draw):
    """num_embeddings, sizes and rows of ids."""
    counts = draw(st.lists(st.integers(1, 40), min_size=1, max_size=5))
    sizes = [draw(st.integers(1, 6)) for _ in counts]
    row = st.tuples(*(st.integers(0, count - 1) for count in counts))
    return counts, sizes, draw(st.lists(row, max_size=9))


@given(
    conversions(),
    st.sampled_from(["feature", "global0"]),
    st.sampled_from(DISTRIBUTIONS),
    st.sampled_from([np.int32, np.int64]),
)
def test_a_slow_reference_agrees(drawn, seeding, distribution, kind):
    counts, sizes, rows = drawn
    ours = MultiHot(
        counts,
        multi_hot_sizes=sizes,
        seeding=seeding,
        multi_hot_distribution_type=distribution,
        collect_multi_hot_freqs_stats=True,
    )
    ids = np.array(rows, kind).reshape(len(rows), len(counts))
    tables = slow_tables(counts, sizes, seeding, distribution)
    values, offsets = slow(rows, sizes, tables)
    for _ in range(2):
        made = ours(KeyedJaggedTensor.from_matrix(ids))
        assert made.values().tolist() == values
        assert made.offsets().tolist() == offsets
        assert made.offsets().dtype == torch.int64
        assert (made.stride(), made.keys()) == (len(rows), [f"cat_{n}" for n in range(len(counts))])
        joined = kind == np.int64 and seeding == "feature" and 1 in sizes
        assert made.values().dtype == (torch.int64 if joined else torch.int32)
    for place, count in enumerate(counts):
        before = np.bincount(ids[:, place], minlength=count)
        after = np.bincount(values[offsets[place * len(rows)] : offsets[(place + 1) * len(rows)]]
                            or np.zeros(0, int), minlength=count)  # fmt: skip
        np.testing.assert_array_equal(ours.frequencies.pre[place], 2 * before)
        np.testing.assert_array_equal(ours.frequencies.post[place], 2 * after)


def test_what_came_out_is_what_torchrec_makes_of_it(jagged_tensor):
    ours = MultiHot([9, 5], 3, 6).convert(
        KeyedJaggedTensor.from_matrix(np.array([[1, 2], [8, 4]], np.int32))
    )
    theirs = jagged_tensor.KeyedJaggedTensor(
        keys=["cat_0", "cat_1"], values=ours.values(), offsets=ours.offsets()
    )
    assert ours.length_per_key() == theirs.length_per_key() == [6, 2]
    assert torch.equal(ours.lengths(), theirs.lengths())
    assert torch.equal(ours.to_torchrec()["cat_0"].offsets(), theirs["cat_0"].offsets())
    again = pickle.loads(pickle.dumps(ours))
    assert torch.equal(again.offsets(), ours.offsets())
    assert again.offset_per_key() == [0, 6, 8]


def test_a_size_of_one_and_a_threshold_above_all_change_nothing():
    before = KeyedJaggedTensor.from_matrix(np.array([[1, 2], [3, 4]], np.int32))
    for ours in (MultiHot([5, 5], 1, 0), MultiHot([5, 5], 7, 6)):
        assert ours.weight == [None, None]
        assert torch.equal(ours.convert(before).values(), before.values())


def test_counting_may_be_switched():
    ours = MultiHot([5], 3, 0, collect_multi_hot_freqs_stats=True)
    batch = KeyedJaggedTensor.from_matrix(np.array([[1], [3]], np.int32))
    ours.convert(batch)
    ours.collect_multi_hot_freqs_stats = False
    ours.convert(batch)
    assert ours.frequencies.pre[0].tolist() == [0, 1, 0, 1, 0]
    assert ours.frequencies.post[0].sum() == 6


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_saved_frequencies(tmp_path, distribution):
    # 1000 rows are more than four times the ids that come: counted another way than 3 rows.
    ours = MultiHot([3, 1000], 2, 5, distribution, collect_multi_hot_freqs_stats=True)
    ids = np.array([[0, 999], [2, 7], [2, 7]], np.int32)
    made = ours.convert(KeyedJaggedTensor.from_matrix(ids))
    pre, post = ours.save_freqs_stats(tmp_path)
    assert (pre.name, post.name) == (
        f"stats_pre_hash_{distribution}.npy",
        f"stats_post_hash_{distribution}.npy",
    )
    before, after = (np.load(path, allow_pickle=True).item() for path in (pre, post))
    assert list(before) == list(after) == ["0", "1"]
    assert before["0"].tolist() == after["0"].tolist() == [1, 0, 2]
    np.testing.assert_array_equal(before["1"], np.bincount(ids[:, 1], minlength=1000))
    wide = made["cat_1"].values().numpy()
    np.testing.assert_array_equal(after["1"], np.bincount(wide, minlength=1000))
    assert after["1"].dtype == np.int64


def test_nothing_counted_is_saved_as_zeros(tmp_path):
    pre, _ = MultiHot([2, 3], 2, 0).save_freqs_stats(tmp_path)
    saved = np.load(pre, allow_pickle=True).item()
    assert {name: counts.tolist() for name, counts in saved.items()} == {"0": [0] * 2, "1": [0] * 3}


@pytest.mark.parametrize("in_files", [False, True])
def test_it_travels_to_other_processes(tmp_path, in_files):
    ours = MultiHot([9, 400], 3, 10, folder=tmp_path if in_files else None)
    packed = pickle.dumps(ours)
    assert (len(packed) < 2000) is in_files  # the table has 4,800 bytes
    batch = KeyedJaggedTensor.from_matrix(np.array([[1, 399]], np.int64))
    assert torch.equal(pickle.loads(packed).convert(batch).values(), ours.convert(batch).values())


ROW = KeyedJaggedTensor.from_matrix(np.array([[4, 6], [0, 2]], np.int32))


@pytest.mark.parametrize(
    ("num_embeddings", "batch", "said"),
    [
        ([5, 6], ROW, "cat_1 has the id 6, and num_embeddings says 6.*takes ids modulo them"),
        ([4, 7], ROW, "cat_0 has the id 4"),
        ([5, 7], KeyedJaggedTensor.from_matrix(np.array([[0, -1]])), "cat_1 has the id -1"),
        ([5, 7, 8], ROW, "2 features, and num_embeddings has 3"),
        ([5, 7], ROW.to("meta"), "the batch is on meta, and the tables are on the CPU"),
        (
            [5, 7],
            KeyedJaggedTensor(
                ["a", "b"], torch.tensor([1, 2, 3, 4]), lengths=torch.tensor([2, 0, 1, 1])
            ),
            "does not hold one id",
        ),
    ],
)
def test_a_batch_that_is_none_of_these_features(num_embeddings, batch, said):
    with pytest.raises(ConversionError, match=said):
        MultiHot(num_embeddings, 2, 0).convert(batch)


def test_a_batch_is_converted_once():
    ours = MultiHot([5, 7], 2, 0)
    with pytest.raises(ConversionError, match="convert a batch once"):
        ours.convert(ours.convert(ROW))


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"num_embeddings": []}, "num_embeddings: give one size for each feature"),
        ({"num_embeddings": [3, 0]}, r"num_embeddings\[1\]: 0 is not between 1"),
        ({"num_embeddings": [3.5]}, r"num_embeddings\[0\]: 3.5 is not an integer"),
        ({"multi_hot_size": None}, "give multi_hot_size and multi_hot_min_table_size, or"),
        ({"multi_hot_min_table_size": None}, "or multi_hot_sizes"),
        ({"multi_hot_size": 0}, "multi_hot_size: 0 is not between 1"),
        ({"multi_hot_min_table_size": -1}, "multi_hot_min_table_size: -1 is not between 0"),
        ({"multi_hot_sizes": [1, 2]}, "multi_hot_sizes: they say which features get how many"),
        ({"multi_hot_distribution_type": "normal"}, "'normal' is not one of uniform, pareto"),
        ({"seeding": "global1"}, "seeding: 'global1' is not one of feature, global0"),
    ],
)
def test_parameters_that_cannot_be(how, said):
    fine = {"num_embeddings": [5, 7], "multi_hot_size": 2, "multi_hot_min_table_size": 6}
    with pytest.raises(ValueError, match=said):
        MultiHot(**{**fine, **how})


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        ([2], "multi_hot_sizes: 1 sizes, and num_embeddings has 2 features"),
        ([2, 0], r"multi_hot_sizes\[1\]: 0 is not between 1 and"),
    ],
)
def test_sizes_that_cannot_be(sizes, said):
    with pytest.raises(ValueError, match=said):
        MultiHot([5, 7], multi_hot_sizes=sizes)
