"""The data set: every row once, the same batches whoever reads, positions that go on."""

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("torch", reason="torch is not installed: make test-more brings it")
import torch
from torch.utils.data import DataLoader

from ingot.converters.errors import SourceError
from ingot.converters.recsys.criteo import CriteoBatch, CriteoDataset, MultiHot
from ingot.converters.recsys.criteo.contract import KEYS
from ingot.converters.sources.recognizers.criteo import SPARSE
from tests.conftest import first_more
from tests.converters.recsys.criteo.arrays import made_up, row_ids, write, write_days

# torch warns of more workers than processors; here they are meant.
pytestmark = [
    pytest.mark.more,
    pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning"),
]

SIZES = (41, 1, 30, 25)
PARTS = [made_up(rows, day) for day, rows in enumerate(SIZES)]
TRAIN = {kind: np.concatenate([part[kind] for part in PARTS[:-1]]) for kind in PARTS[0]}
IDS = TRAIN["sparse"][:, 0].tolist()
PLACES = {number: place for place, number in enumerate(IDS)}


@pytest.fixture(scope="module")
def days(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_days(tmp_path_factory.mktemp("days"), *SIZES)


def ids(batches: Any) -> list[int]:
    return list(chain.from_iterable(row_ids(batches)))


def assert_rows(batch: CriteoBatch, sizes: list[int] | None = None) -> None:
    """Hold a batch to the rows that it says it has, cell by cell."""
    places = [PLACES[one] for one in batch.sparse_features["cat_0"].values().tolist()]
    sparse = TRAIN["sparse"][places]
    if sizes is not None:
        sparse = sparse % np.array(sizes)
    assert np.array_equal(batch.dense_features.numpy(), TRAIN["dense"][places])
    assert np.array_equal(batch.labels.numpy(), TRAIN["labels"][places, 0])
    for key, column in zip(KEYS, sparse.T, strict=True):
        assert batch.sparse_features[key].values().tolist() == column.tolist()
    kinds = [batch.dense_features, batch.sparse_features.values(), batch.labels]
    assert [one.dtype for one in kinds] == [torch.float32, torch.int32, torch.int32]


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    batch_size=st.integers(1, 80),
    shuffle_batches=st.booleans(),
    shuffle_rows=st.booleans(),
    world_size=st.integers(1, 4),
    sized=st.booleans(),
)
def test_every_row_comes_once(
    days: Path, batch_size: int, world_size: int, sized: bool, **options: Any
) -> None:
    sizes = [10**8, *range(2, 27)] if sized else None
    seen = []
    for rank in range(world_size):
        place = {"rank": rank, "world_size": world_size, "num_embeddings": sizes}
        batches = list(CriteoDataset(days, batch_size, **place, **options))
        for batch in batches:
            assert_rows(batch, sizes)
        seen += ids(batches)
    assert sorted(seen) == IDS


def test_batches_go_on_over_parts(days: Path) -> None:
    got = row_ids(CriteoDataset(days, 20))
    assert got == [IDS[start : start + 20] for start in range(0, 72, 20)]
    assert row_ids(CriteoDataset(days, 20, split="all", parts=[2, 0]))[1][:10] == list(
        range(2 * 10**6 + 20, 2 * 10**6 + 30)
    )


def test_what_a_data_set_tells(days: Path) -> None:
    data = CriteoDataset(days, 20, drop_last=True, rank=1, world_size=2, num_embeddings=9)
    assert (data.batch_size, data.drop_last, data.rank, data.world_size) == (20, True, 1, 2)
    assert (data.rows, data.dropped_rows, len(data), data.epoch) == (72, 32, 1, 0)
    assert data.parts == ("day_0", "day_1", "day_2")
    assert data.num_embeddings == (9,) * SPARSE
    assert CriteoDataset(days, 20).dropped_rows == 0
    assert CriteoDataset(days, 20).num_embeddings is None


@pytest.mark.parametrize("options", [{}, {"shuffle_batches": True}, {"shuffle_rows": True}])
def test_batches_come_as_without_workers(days: Path, options: dict[str, Any]) -> None:
    alone = row_ids(CriteoDataset(days, 7, seed=3, **options))
    for workers in (1, 2, 3):
        assert row_ids(CriteoDataset(days, 7, seed=3, num_workers=workers, **options)) == alone


def test_shuffled_batches_are_whole_and_over_all_ranks(days: Path) -> None:
    plain = row_ids(CriteoDataset(days, 7))
    shuffled = row_ids(CriteoDataset(days, 7, shuffle_batches=True))
    assert sorted(shuffled) == sorted(plain)
    assert shuffled != plain
    assert shuffled[-1] == plain[-1]
    dealt = [
        row_ids(CriteoDataset(days, 7, shuffle_batches=True, rank=rank, world_size=2))
        for rank in (0, 1)
    ]
    assert [one for pair in zip(*dealt, strict=True) for one in pair][:10] == shuffled[:10]


def test_epochs_go_on_by_themselves(days: Path) -> None:
    for options in ({"shuffle_batches": True}, {"shuffle_rows": True}):
        data = CriteoDataset(days, 7, seed=5, **options)
        passes = [ids(data) for _ in range(3)]
        assert data.epoch == 3
        assert len({tuple(one) for one in passes}) == 3
        assert all(sorted(one) == IDS for one in passes)
        data.set_epoch(1)
        assert ids(data) == passes[1]
        assert ids(CriteoDataset(days, 7, seed=5, epoch=2, **options)) == passes[2]
        assert ids(CriteoDataset(days, 7, seed=6, **options)) != passes[0]


def test_a_pass_that_was_left_begins_anew(days: Path) -> None:
    data = CriteoDataset(days, 7, shuffle_batches=True, num_workers=1)
    left = row_ids(islice(data, 4))
    assert row_ids(islice(data, 4)) == left
    assert data.epoch == 0


def test_persistent_workers_follow_the_epoch(days: Path) -> None:
    options: dict[str, Any] = {"shuffle_rows": True, "num_workers": 2}
    data = CriteoDataset(days, 7, persistent_workers=True, **options)
    plain = CriteoDataset(days, 7, **options)
    for _ in range(2):
        assert row_ids(data) == row_ids(plain)


@pytest.mark.more
def test_workers_that_are_started_anew(days: Path) -> None:
    data = CriteoDataset(days, 30, num_workers=1, multiprocessing_context="spawn")
    batches = list(data)
    assert ids(batches) == IDS
    assert_rows(batches[0])


def test_pinning_without_a_device_is_nothing(days: Path) -> None:
    pin = not torch.cuda.is_available()
    assert ids(CriteoDataset(days, 30, pin_memory=pin, num_workers=1)) == IDS


def test_a_batch_may_be_written_into(days: Path) -> None:
    data = CriteoDataset(days, 30)
    for batch in data:
        batch.dense_features.fill_(0)
        batch.sparse_features.values().fill_(0)
        batch.labels.fill_(2)
    assert_rows(next(iter(data)))


def test_a_batch_moves(days: Path) -> None:
    batch = next(iter(CriteoDataset(days, 30)))
    dense, sparse, labels = batch.to("meta")
    assert {dense.device.type, sparse.device().type, labels.device.type} == {"meta"}
    assert_rows(batch.to("cpu", non_blocking=True))


# torch's own DataLoader


@pytest.mark.parametrize("workers", [0, 2, 3])
@pytest.mark.parametrize("options", [{}, {"shuffle_batches": True}, {"shuffle_rows": True}])
def test_a_plain_loader(days: Path, workers: int, options: dict[str, Any]) -> None:
    data = CriteoDataset(days, 7, epoch=1, **options)
    loader: Any = DataLoader(data, batch_size=None, num_workers=workers)  # type: ignore[arg-type]
    batches = list(loader)
    assert all(type(batch) is CriteoBatch for batch in batches)
    assert len(loader) == len(batches) == len(data)
    assert row_ids(batches) == row_ids(CriteoDataset(days, 7, epoch=1, **options))
    for batch in batches:
        assert_rows(batch)
    assert data.state_dict() == CriteoDataset(days, 7, epoch=1, **options).state_dict()


def test_batches_by_number(days: Path) -> None:
    data = CriteoDataset(days, 20, rank=1, world_size=2)
    assert row_ids([data[1], data[0]]) == [IDS[56:], IDS[20:40]]
    for number in (-1, 2):
        with pytest.raises(IndexError, match=f"batch {number} of 2"):
            data[number]


def test_a_data_set_may_be_pickled(days: Path) -> None:
    data = CriteoDataset(days, 7, shuffle_batches=True)
    left_at(data, 3)
    copy = pickle.loads(pickle.dumps(data))
    assert copy.state_dict() == data.state_dict()
    copy.load_state_dict(data.state_dict())
    assert ids(copy) == ids(CriteoDataset(days, 7, shuffle_batches=True))[21:]


# going on


def left_at(data: CriteoDataset, cut: int) -> tuple[list[list[int]], dict[str, Any]]:
    """What a data set delivers until it is left, and its state there, as a checkpoint holds it."""
    batches: Iterator[Any] = iter(data)
    got = row_ids(islice(batches, cut))
    return got, json.loads(json.dumps(data.state_dict()))


@pytest.mark.more
@pytest.mark.parametrize(
    ("before", "after"), first_more([(0, 0), (2, 2), (3, 0), (0, 2), (1, 1), (3, 3)], 3)
)
@pytest.mark.parametrize("options", [{}, {"shuffle_batches": True}, {"shuffle_rows": True}])
def test_an_epoch_goes_on_as_if_nothing_had_happened(
    days: Path, before: int, after: int, options: dict[str, Any]
) -> None:
    def made(workers: int) -> CriteoDataset:
        return CriteoDataset(days, 7, epoch=4, num_workers=workers, **options)

    whole = row_ids(made(0))
    cuts = range(len(whole) + 1) if before == after == 0 else (1, 6, len(whole))
    for cut in cuts:
        got, state = left_at(made(before), cut)
        data = made(after)
        data.load_state_dict(state)
        middle, again = left_at(data, min(2, len(whole) - cut))
        last = made(before)
        last.load_state_dict(again)
        assert got + middle + row_ids(last) == whole
        assert last.epoch == 5


def test_a_training_loop_goes_on(days: Path) -> None:
    def trained(data: CriteoDataset, steps: int, seen: list[list[int]]) -> None:
        for epoch in range(data.epoch, 3):
            data.set_epoch(epoch)
            for batch in data:
                seen += row_ids([batch])
                if len(seen) == steps:
                    return

    whole: list[list[int]] = []
    trained(CriteoDataset(days, 15, shuffle_rows=True), 99, whole)
    assert len(whole) == 15
    for stop in (3, 5, 6, 15):
        seen: list[list[int]] = []
        data = CriteoDataset(days, 15, shuffle_rows=True, num_workers=1)
        trained(data, stop, seen)
        next_one = CriteoDataset(days, 15, shuffle_rows=True)
        next_one.load_state_dict(data.state_dict())
        trained(next_one, 99, seen)
        assert seen == whole


def test_a_state_counts_batches_that_were_handed_over(days: Path, tmp_path: Path) -> None:
    data = CriteoDataset(days, 7, num_workers=2, prefetch_factor=4)
    batches = iter(data)
    next(batches)
    assert data.state_dict()["remaining"] == [[[1, 11]]]
    torch.save(data.state_dict(), tmp_path / "state.pt")
    assert torch.load(tmp_path / "state.pt", weights_only=True) == data.state_dict()
    list(batches)
    assert (data.state_dict()["epoch"], data.state_dict()["remaining"]) == (1, [[[0, 11]]])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"batch_size": 8}, "batch_size was 7, is 8"),
        ({"seed": 1}, "seed was 0, is 1"),
        ({"shuffle_batches": False}, "shuffle_batches was True, is False; seed was 0, is None"),
        ({"shuffle_rows": True}, "shuffle_rows was False, is True"),
        ({"drop_last": True}, "drop_last was False, is True"),
        ({"rank": 1, "world_size": 2}, "rank was 0, is 1; world_size was 1, is 2"),
        ({"num_embeddings": 5}, r"num_embeddings was None, is \[5, 5"),
        ({"split": "all"}, "data were 72 rows in 9 files, are 97 rows in 12 files"),
        ({"parts": [1, 0, 2, 3]}, "data were 72 rows in 9 files, are 72 rows in 9 files"),
    ],
)
def test_a_state_of_other_settings_is_refused(
    days: Path, options: dict[str, Any], said: str
) -> None:
    usual: dict[str, Any] = {"batch_size": 7, "shuffle_batches": True}
    state = CriteoDataset(days, **usual).state_dict()
    with pytest.raises(ValueError, match=f"^state: .*{said}"):
        CriteoDataset(days, **{**usual, **options}).load_state_dict(state)


def test_a_copy_of_the_data_is_the_same_data(days: Path, tmp_path: Path) -> None:
    state = CriteoDataset(days, 7).state_dict()
    CriteoDataset(write_days(tmp_path, *SIZES), 7).load_state_dict(state)
    with pytest.raises(ValueError, match=r"^state: it was not written by this loader"):
        CriteoDataset(days, 7).load_state_dict({**state, "remaining": [[[0, 12]]]})


# arguments and errors


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"batch_size": 0}, r"batch_size: 0 is not between 1 and 2\*\*64 - 1"),
        ({"batch_size": 2.5}, "batch_size: 2.5 is not an integer"),
        ({"num_workers": -1}, "num_workers: -1 is not between 0"),
        ({"seed": 1 << 32}, r"seed: 4294967296 is not between 0 and 2\*\*32 - 1"),
        ({"epoch": True}, "epoch: True is not an integer"),
        ({"split": "dev"}, "split: 'dev' is not one of"),
        ({"rank": 1}, "give both"),
        ({"rank": 2, "world_size": 2}, "rank: 2 of 2"),
        ({"rank": 0, "world_size": 73}, "72 rows over 73 ranks leave one without a row"),
        ({"batch_size": 73, "drop_last": True}, "leave no full batch of 73"),
        ({"num_embeddings": [5] * 25}, "25 sizes, and 26 features"),
        ({"num_embeddings": 0}, "0 is not between 1 and"),
        ({"num_embeddings": 1 << 31}, r"2147483648 is not between 1 and 2\*\*31 - 1"),
        ({"num_embeddings": "many"}, "'many' is not an integer"),
        ({"persistent_workers": True}, "persistent_workers option needs num_workers > 0"),
    ],
)
def test_arguments_that_cannot_be(days: Path, options: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        CriteoDataset(days, **{"batch_size": 7, **options})


def test_ranks_are_not_guessed(days: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ValueError, match="init_process_group first, or give rank and world_size"):
        CriteoDataset(days, 7)
    assert CriteoDataset(days, 7, rank=1, world_size=2).rank == 1


def rewrite(path: Path) -> None:
    """Other rows of the same shape."""
    before = path.stat().st_mtime_ns
    np.save(path, np.load(path) + 1)
    os.utime(path, ns=(before, before + 1))  # also where clocks are coarse


def shorten(path: Path) -> None:
    with path.open("r+b") as stream:
        stream.truncate(200)


@pytest.mark.more
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize(
    ("kind", "damage", "said"),
    [
        ("sparse", Path.unlink, "was removed after the data set was opened"),
        ("labels", rewrite, "was changed after the data set was opened .leave the files"),
        ("dense", shorten, "was changed after"),
    ],
)
@pytest.mark.parametrize("shuffle_rows", [False, True])
def test_files_that_change_while_they_are_read(
    tmp_path: Path, workers: int, kind: str, damage: Any, said: str, shuffle_rows: bool
) -> None:
    data = CriteoDataset(
        write_days(tmp_path, 40, 40, 1), 20, num_workers=workers, shuffle_rows=shuffle_rows
    )
    batches = iter(data)
    if not shuffle_rows:
        next(batches)
    damage(tmp_path / f"day_1_{kind}.npy")
    del batches  # the error below would keep its workers
    with pytest.raises(SourceError, match=f"day_1_{kind}.npy: {said}"):
        list(data)


@pytest.mark.more
def test_ids_of_64_bits(tmp_path: Path) -> None:
    """torchrec's first step writes raw values, up to 2**32 - 1."""
    part = made_up(9)
    part["sparse"] = part["sparse"].astype(np.int64)
    part["sparse"][4, 3] = (1 << 32) - 1
    folder = write(tmp_path, {"day_0": part, "day_1": made_up(9, 1)})
    for options in ({}, {"shuffle_rows": True}):
        data = CriteoDataset(folder, 18, split="all", **options)
        with pytest.raises(SourceError, match=r"day_0_sparse.npy: .* to 4,294,967,295, beyond"):
            list(data)
        sized = CriteoDataset(folder, 18, split="all", num_embeddings=1000, **options)
        [batch] = sized
        assert batch.sparse_features.values().dtype == torch.int32
        assert ((1 << 32) - 1) % 1000 in batch.sparse_features["cat_3"].values().tolist()


# lists of ids


TABLES = [4, 60, *[9] * 24]


@pytest.mark.parametrize("workers", [0, 2])
def test_multi_hot(days: Path, workers: int) -> None:
    made = MultiHot(TABLES, multi_hot_size=3, multi_hot_min_table_size=10)
    data = CriteoDataset(days, 20, multi_hot=made, num_workers=workers)
    assert data.num_embeddings == tuple(TABLES)
    plain = CriteoDataset(days, 20, num_embeddings=TABLES)
    for one, two in zip(data, plain, strict=True):
        wanted = made.convert(two.sparse_features)
        assert torch.equal(one.sparse_features.values(), wanted.values())
        assert torch.equal(one.sparse_features.offsets(), wanted.offsets())
        assert torch.equal(one.dense_features, two.dense_features)
    assert one.sparse_features["cat_1"].values().shape == (12 * 3,)


def counting() -> MultiHot:
    return MultiHot(
        TABLES,
        multi_hot_size=3,
        multi_hot_min_table_size=10,
        collect_multi_hot_freqs_stats=True,
    )


@pytest.mark.parametrize("workers", [0, 2])
def test_frequencies_are_counted_here(days: Path, tmp_path: Path, workers: int) -> None:
    made, other = counting(), counting()
    batches = list(CriteoDataset(days, 20, multi_hot=made, num_workers=workers))
    assert batches[0].sparse_features["cat_1"].values().shape == (60,)
    for batch in CriteoDataset(days, 20, num_embeddings=TABLES):
        other.convert(batch.sparse_features)
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    for one, two in zip(
        made.save_freqs_stats(tmp_path / "one"),
        other.save_freqs_stats(tmp_path / "two"),
        strict=True,
    ):
        assert one.read_bytes() == two.read_bytes()


def test_frequencies_are_not_lost_in_workers(days: Path) -> None:
    data = CriteoDataset(days, 20, multi_hot=counting())
    loader: Any = DataLoader(data, batch_size=None, num_workers=1)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="a worker's counts are lost: iterate over the data set"):
        list(loader)


def test_multi_hot_that_does_not_fit(days: Path) -> None:
    four = MultiHot([6, 7, 5, 9], multi_hot_size=3, multi_hot_min_table_size=8)
    with pytest.raises(ValueError, match="multi_hot: tables of 4 features, and data of 26"):
        CriteoDataset(days, 7, multi_hot=four)
    with pytest.raises(ValueError, match="num_embeddings: not those of multi_hot"):
        CriteoDataset(days, 7, multi_hot=counting(), num_embeddings=9)


# memory and processes


PEAK = """
import sys
from ingot.converters.recsys.criteo import CriteoDataset
def anonymous():
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon"))
next(iter(CriteoDataset(sys.argv[1], 2048)))
before = most = anonymous()
for number, batch in enumerate(CriteoDataset(sys.argv[1], 2048, shuffle_batches=True)):
    if number % 20 == 0:
        most = max(most, anonymous())
print(most - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells")
def test_memory_is_that_of_a_batch(tmp_path: Path) -> None:
    """What is held besides pages of the files, which the system takes back as it likes: KiB."""
    folder = write_days(tmp_path, 200_000, 1)
    argv = [sys.executable, "-c", PEAK, folder]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert int(done.stdout) < 8 << 10  # the data are 32 MB, a batch is 0.3 MB


RANK = """
import sys
import torch
from ingot.converters.recsys.criteo import CriteoDataset
folder, store, rank = sys.argv[1], sys.argv[2], int(sys.argv[3])
torch.distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
for batch in CriteoDataset(folder, 10, shuffle_batches=True, num_workers=1):
    torch.distributed.all_reduce(torch.ones(1))  # hangs where one has fewer batches
    print(*batch.sparse_features["cat_0"].values().tolist())
torch.distributed.destroy_process_group()
"""


@pytest.mark.long
def test_processes_of_torch_distributed(days: Path, tmp_path: Path) -> None:
    argv = [sys.executable, "-c", RANK, days, tmp_path / "store"]
    ranks = [subprocess.Popen([*argv, str(rank)], stdout=-1, text=True) for rank in range(2)]
    told = [rank.communicate(timeout=120)[0] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0]
    assert sorted(int(one) for each in told for one in each.split()) == IDS
