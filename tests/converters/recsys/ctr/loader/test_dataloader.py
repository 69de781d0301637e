"""The loader: equal to collate_fn, every row once, the same batches, positions that go on."""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("torch", reason="torch is not installed: make test-more brings it")
import torch
from torch.utils.data import DataLoader

from ingot.converters.errors import SourceError
from ingot.converters.recsys.ctr import (
    ProcessedIterDataset,
    ProcessedLoader,
    build_dataloader,
    collate_fn,
)
from ingot.converters.recsys.ctr.contract import processed_schema
from ingot.converters.recsys.ctr.featuremap import FeatureMap, load
from tests.conftest import first_more
from tests.converters.recsys.ctr.stored import (
    FEATUREMAPS,
    FEATURES,
    assert_same,
    plain_batch,
    row_ids,
    rows_of,
    write_split,
)

# torch warns of more workers than processors; here they are meant.
pytestmark = [
    pytest.mark.more,
    pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning"),
]

ROWS = rows_of(97)
IDS = [row["row_id"] for row in ROWS]
BY_ID = dict(zip(IDS, ROWS, strict=True))


@pytest.fixture(scope="module")
def train(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_split(tmp_path_factory.mktemp("set") / "train", ROWS, files=4, group=9)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


def ids(loader: Any) -> list[int]:
    return list(chain.from_iterable(row_ids(loader)))


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    batch_size=st.integers(1, 120),
    shuffle=st.booleans(),
    shuffle_buffer=st.integers(1, 120),
    cached=st.booleans(),
    own=st.booleans(),
)
def test_every_batch_is_that_of_its_rows(
    train: Path, cache: Path, cached: bool, own: bool, **options: Any
) -> None:
    loader = build_dataloader(
        train, **options, cache=cache if cached else None, collate_fn=collate_fn if own else None
    )
    batches = list(loader)
    assert len(batches) == len(loader)
    for batch in batches:
        rows = [BY_ID[one] for one in batch["labels"]["row_id"].tolist()]
        assert_same(batch, plain_batch(rows))
    if not options["shuffle"]:
        assert ids(batches) == IDS
    assert sorted(ids(batches)) == IDS


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    features=FEATUREMAPS,
    count=st.integers(1, 30),
    group=st.integers(1, 12),
    batch_size=st.integers(1, 12),
    shuffle=st.booleans(),
)
def test_any_featuremap(
    tmp_path_factory: pytest.TempPathFactory,
    features: FeatureMap,
    count: int,
    group: int,
    batch_size: int,
    shuffle: bool,
) -> None:
    rows = rows_of(count, features=features)
    folder = tmp_path_factory.mktemp("set")
    data = write_split(folder / "train", rows, features=features, files=2, group=group)
    whole = {row["row_id"]: row for row in rows}
    for cache in (None, folder):
        left = dict(whole)
        for batch in build_dataloader(data, batch_size, shuffle, cache=cache):
            chosen = [left.pop(one) for one in batch["labels"]["row_id"].tolist()]
            assert_same(batch, plain_batch(chosen, features))
        assert not left


def test_the_order_of_the_files_is_kept(train: Path) -> None:
    loader = build_dataloader(train, batch_size=10)
    assert len(loader) == 10
    assert row_ids(loader) == [IDS[start : start + 10] for start in range(0, 97, 10)]
    assert row_ids(build_dataloader(train.parent, batch_size=10, split="train")) == row_ids(loader)


@pytest.mark.parametrize("cached", [False, True])
@pytest.mark.parametrize("shuffle", [False, True])
def test_batches_and_their_order_do_not_depend_on_workers(
    train: Path, cache: Path, shuffle: bool, cached: bool
) -> None:
    def batches(workers: int) -> list[Any]:
        options = {"shuffle_buffer": 20, "seed": 3, "epoch": 2, "rank": 1, "world_size": 2}
        folder = cache if cached else None
        return list(build_dataloader(train, 5, shuffle, workers, cache=folder, **options))

    alone = batches(0)
    assert len(alone) == 10
    for workers in (1, 2, 3, 4):
        for one, other in zip(batches(workers), alone, strict=True):
            assert_same(one, other)


@pytest.mark.parametrize(("shuffle", "first"), [(False, {0, 1}), (True, {0, 1, 2, 3})])
def test_a_worker_makes_the_batches_of_a_row_group_or_window(
    train: Path, shuffle: bool, first: set[int]
) -> None:
    loader = build_dataloader(train, 5, shuffle, num_workers=2, shuffle_buffer=20)
    stretches = [loader._maker.stretch(0, number) for number in range(len(loader))]
    assert {number for number, one in enumerate(stretches) if one == stretches[0]} == first


def test_a_large_row_group_is_shared_out(tmp_path: Path) -> None:
    folder = write_split(tmp_path, ROWS, group=97)
    loader = build_dataloader(folder, 5, num_workers=2, shuffle_buffer=20)
    assert len({loader._maker.stretch(0, number) for number in range(len(loader))}) == 5


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("world_size", [2, 3, 5])
def test_ranks_share_the_rows(train: Path, workers: int, shuffle: bool, world_size: int) -> None:
    loaders = [
        build_dataloader(train, 8, shuffle, workers, rank=rank, world_size=world_size)
        for rank in range(world_size)
    ]
    got = [row_ids(loader) for loader in loaders]
    assert {len(batches) for batches in got} == {len(loaders[0])}
    assert all(batches and min(map(len, batches)) > 0 for batches in got)
    assert sorted(one for batches in got for batch in batches for one in batch) == IDS


def test_drop_last_says_what_it_drops(train: Path) -> None:
    loaders = [
        build_dataloader(train, 10, drop_last=True, rank=rank, world_size=2) for rank in (0, 1)
    ]
    got = [ids(loader) for loader in loaders]
    assert [len(one) for one in got] == [40, 40]
    assert [loader.dropped_rows for loader in loaders] == [17, 17]
    assert not set(got[0]) & set(got[1])
    assert build_dataloader(train, 10).dropped_rows == 0


def test_epochs_go_on_by_themselves(train: Path) -> None:
    loader = build_dataloader(train, 10, True, seed=5)
    passes = [ids(loader) for _ in range(3)]
    assert loader.epoch == 3
    assert len({tuple(one) for one in passes}) == 3
    assert all(sorted(one) == IDS for one in passes)
    loader.set_epoch(1)
    assert ids(loader) == passes[1]
    assert ids(build_dataloader(train, 10, True, seed=5, epoch=2)) == passes[2]
    assert ids(build_dataloader(train, 10, True, seed=6)) != passes[0]


def test_a_pass_that_was_left_begins_anew(train: Path) -> None:
    loader = build_dataloader(train, 10, True)
    left = row_ids(islice(loader, 4))
    assert row_ids(islice(loader, 4)) == left
    assert loader.epoch == 0


def test_persistent_workers_follow_the_epoch(train: Path) -> None:
    loader = build_dataloader(train, 10, True, 2, persistent_workers=True, shuffle_buffer=30)
    plain = build_dataloader(train, 10, True, 2, shuffle_buffer=30)
    for _ in range(2):
        assert row_ids(loader) == row_ids(plain)
    left = row_ids(islice(loader, 3))
    assert row_ids(loader)[:3] == left
    assert loader.epoch == 3


def test_rows_are_mixed_within_windows(train: Path) -> None:
    loader = build_dataloader(train, 10, True, shuffle_buffer=97)
    got = row_ids(loader)
    assert list(chain.from_iterable(got)) != IDS
    assert max(max(batch) - min(batch) for batch in got) > 60
    first = next(iter(build_dataloader(train, 97, True)))
    assert sorted(first["labels"]["row_id"].tolist()) == IDS


def test_many_workers_take_few_descriptors(train: Path) -> None:
    batches = list(build_dataloader(train, 2, num_workers=2))
    kept = {
        tensor.untyped_storage().data_ptr()
        for batch in batches
        for feature in batch["features"].values()
        for tensor in feature.values()
        if isinstance(tensor, torch.Tensor)
    }
    assert len(kept) <= 2 * len(batches)


@pytest.mark.parametrize(("context", "cached"), [("spawn", True), ("fork", False)])
def test_workers_started_in_any_way(train: Path, cache: Path, context: str, cached: bool) -> None:
    folder = cache if cached else None
    loader = build_dataloader(
        train, 20, num_workers=2, multiprocessing_context=context, cache=folder
    )
    for batch in loader:
        rows = [BY_ID[one] for one in batch["labels"]["row_id"].tolist()]
        assert_same(batch, plain_batch(rows))


def test_pinning_without_a_device_is_nothing(train: Path) -> None:
    assert ids(build_dataloader(train, 20, pin_memory=not torch.cuda.is_available())) == IDS


def test_some_features_stand_in_the_order_of_the_files(train: Path) -> None:
    loader = build_dataloader(train, 20, features=["f0_210", "f0_508"])
    assert list(next(iter(loader))["features"]) == ["f0_508", "f0_210"]
    assert list(loader.feature_meta) == ["f0_508", "f0_210"]


@pytest.mark.parametrize("workers", [0, 2])
def test_jagged_features(train: Path, workers: int) -> None:
    padded = build_dataloader(train, 20, num_workers=workers)
    for batch, other in zip(
        build_dataloader(train, 20, num_workers=workers, jagged=True), padded, strict=True
    ):
        one, two = (each["features"]["f1_110_14"] for each in (batch, other))
        assert (one["type"], two["type"]) == ("jagged", "multi")
        real = torch.arange(two["idx"].shape[1]) < two["len"][:, None]
        assert one["idx"].tolist() == two["idx"][real].tolist()
        assert one["val"].tolist() == two["val"][real].tolist()
        assert one["offsets"].diff().tolist() == two["len"].tolist()


PEAK = """
import sys
import pyarrow as pa
from ingot.converters.recsys.ctr import build_dataloader
for folder in sys.argv[1:]:
    for shuffle in (False, True):
        for _ in build_dataloader(folder, 2048, shuffle, shuffle_buffer=4096):
            pass
    print(pa.default_memory_pool().max_memory())
"""


def write_large(folder: Path, count: int) -> None:
    """One row group of so many rows, a list of 20 ids and values in each."""
    feature = replace(FEATURES.features[2], max_len=20)
    schema = processed_schema(FeatureMap(features=(feature,)))
    rng = np.random.default_rng(0)
    ids, values = rng.integers(2, 50, 20 * count), rng.random(20 * count, np.float32)
    offsets = pa.array(np.arange(0, 20 * count + 1, 20, dtype=np.int32))
    columns = [pa.array(np.zeros(count, np.float32))] * 4
    columns += [pa.array(np.arange(count)), pa.array(["entity"] * count)]
    for flat, field in zip((ids, values), list(schema)[6:], strict=True):
        columns.append(pa.ListArray.from_arrays(offsets, pa.array(flat), type=field.type))
    folder.mkdir()
    table = pa.Table.from_arrays(columns, schema=schema)
    pq.write_table(table, folder / "part-00000.parquet", row_group_size=count)


def test_memory_does_not_grow_with_a_row_group(tmp_path: Path) -> None:
    write_large(tmp_path / "small", 60_000)
    write_large(tmp_path / "large", 240_000)
    argv = [sys.executable, "-c", PEAK, tmp_path / "small", tmp_path / "large"]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    small, large = map(int, done.stdout.split())
    assert large < 1.25 * small


# going on


def left_at(loader: ProcessedLoader, cut: int) -> tuple[list[list[int]], dict[str, Any]]:
    """What a loader delivers until it is left, and its state there, as a checkpoint holds it."""
    batches: Iterator[Any] = iter(loader)
    got = row_ids(islice(batches, cut))
    return got, json.loads(json.dumps(loader.state_dict()))


@pytest.mark.parametrize("workers", first_more([0, 2, 1, 3], 2))
@pytest.mark.parametrize("shuffle", [False, True])
def test_an_epoch_goes_on_as_if_nothing_had_happened(
    train: Path, workers: int, shuffle: bool
) -> None:
    def made() -> ProcessedLoader:
        return build_dataloader(train, 9, shuffle, workers, shuffle_buffer=20, epoch=4)

    whole = row_ids(made())
    cuts = range(len(whole) + 1) if workers == 0 else (1, 7, len(whole))
    for cut in cuts:
        before, state = left_at(made(), cut)
        loader = made()
        loader.load_state_dict(state)
        middle, again = left_at(loader, min(2, len(whole) - cut))
        last = made()
        last.load_state_dict(again)
        assert before + middle + row_ids(last) == whole
        assert last.epoch == 5


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize(("before", "after"), first_more([(0, 2), (3, 0), (2, 3), (3, 2)], 2))
def test_another_number_of_workers_delivers_the_rest_in_order(
    train: Path, shuffle: bool, before: int, after: int
) -> None:
    def made(workers: int) -> ProcessedLoader:
        return build_dataloader(train, 9, shuffle, workers, shuffle_buffer=20, seed=2)

    whole = row_ids(made(before))
    for cut in (3, 10):
        got, state = left_at(made(before), cut)
        loader = made(after)
        loader.load_state_dict(state)
        more, state = left_at(loader, min(2, len(whole) - cut))
        last = made(before)
        last.load_state_dict(state)
        assert got + more + row_ids(last) == whole


def test_a_training_loop_goes_on(train: Path) -> None:
    def trained(loader: ProcessedLoader, steps: int, seen: list[list[int]]) -> None:
        for epoch in range(loader.epoch, 3):
            loader.set_epoch(epoch)
            for batch in loader:
                seen.append(batch["labels"]["row_id"].tolist())
                if len(seen) == steps:
                    return

    whole: list[list[int]] = []
    trained(build_dataloader(train, 20, True), 99, whole)
    assert len(whole) == 15
    for stop in (3, 5, 6, 15):
        seen: list[list[int]] = []
        loader = build_dataloader(train, 20, True)
        trained(loader, stop, seen)
        next_one = build_dataloader(train, 20, True)
        next_one.load_state_dict(loader.state_dict())
        trained(next_one, 99, seen)
        assert seen == whole


def test_a_state_counts_batches_that_were_handed_over(train: Path) -> None:
    loader = build_dataloader(train, 10, num_workers=2, prefetch_factor=4)
    assert loader.state_dict() == loader.state_dict()
    batches = iter(loader)
    next(batches)
    remains = loader.state_dict()["remaining"]
    assert sum(stop - start for share in remains for start, stop in share) == len(loader) - 1
    list(batches)
    state = loader.state_dict()
    assert (state["epoch"], state["remaining"]) == (1, [[[0, 10]]])


def test_a_state_may_be_saved_by_torch(train: Path, tmp_path: Path) -> None:
    loader = build_dataloader(train, 10)
    next(iter(loader))
    torch.save(loader.state_dict(), tmp_path / "state.pt")
    assert torch.load(tmp_path / "state.pt", weights_only=True) == loader.state_dict()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"batch_size": 11}, "batch_size was 10, is 11"),
        ({"seed": 1}, "seed was 0, is 1"),
        ({"shuffle": False}, "shuffle was True, is False"),
        ({"shuffle_buffer": 31}, "batches of a shuffle_buffer was 3, is 4"),
        ({"drop_last": True}, "drop_last was False, is True"),
        ({"rank": 1, "world_size": 2}, "rank was 0, is 1; world_size was 1, is 2"),
    ],
)
def test_a_state_of_other_settings_is_refused(
    train: Path, options: dict[str, Any], said: str
) -> None:
    usual = {"batch_size": 10, "shuffle": True, "shuffle_buffer": 30}
    state = build_dataloader(train, **usual).state_dict()
    with pytest.raises(ValueError, match=f"^state: .*{said}"):
        build_dataloader(train, **{**usual, **options}).load_state_dict(state)


def test_a_state_of_other_data_is_refused(train: Path, tmp_path: Path) -> None:
    state = build_dataloader(train).state_dict()
    copied = write_split(tmp_path / "copy", ROWS, files=4, group=9)
    build_dataloader(copied).load_state_dict(state)
    other = build_dataloader(write_split(tmp_path / "other", ROWS[:90]))
    with pytest.raises(
        ValueError, match="the data were 97 rows in 4 files, are 90 rows in 1 files"
    ):
        other.load_state_dict(state)


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"epoch": -1},
        {"epoch": "x"},
        {"remaining": [[[0, 99]]]},
        {"remaining": [[[0, 2], [1, 3]]]},
        {"remaining": [[[3, 3]]]},
        {"remaining": []},
        {"remaining": 5},
        {"settings": None},
    ],
)
def test_what_is_no_state_is_refused(train: Path, change: dict[str, Any]) -> None:
    loader = build_dataloader(train, 10, num_workers=2)
    with pytest.raises(ValueError, match=r"^state: "):
        loader.load_state_dict({**loader.state_dict(), **change})
    with pytest.raises(ValueError, match=r"^state: it was not written by this loader"):
        loader.load_state_dict({})


# arguments and errors


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"batch_size": 0}, r"batch_size: 0 is not between 1 and 2\*\*64 - 1"),
        ({"batch_size": 2.5}, "batch_size: 2.5 is not an integer"),
        ({"num_workers": -1}, "num_workers: -1 is not between 0"),
        ({"shuffle_buffer": 0}, "shuffle_buffer: 0"),
        ({"seed": -1}, "seed: -1"),
        ({"epoch": True}, "epoch: True is not an integer"),
        ({"features": ["f1_110"]}, "has no feature 'f1_110'; it has f1_1"),
        ({"rank": 1}, "give both"),
        ({"rank": 2, "world_size": 2}, "rank: 2 of 2"),
        ({"rank": 0, "world_size": 98}, "97 rows over 98 ranks leave one without a row"),
        ({"jagged": True, "collate_fn": collate_fn}, "jagged: "),
    ],
)
def test_arguments_that_cannot_be(train: Path, options: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        build_dataloader(train, **options)


@pytest.mark.parametrize("workers", [0, 2])
def test_an_error_of_a_worker_keeps_its_class(tmp_path: Path, workers: int) -> None:
    folder = write_split(tmp_path, rows_of(40), files=2)
    loader = build_dataloader(folder, 10, num_workers=workers)
    (folder / "part-00001.parquet").unlink()
    with pytest.raises(SourceError, match=r"part-00001\.parquet: was removed"):
        list(loader)


def test_ranks_are_not_guessed(train: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ValueError, match="init_process_group first, or give rank and world_size"):
        build_dataloader(train)
    assert build_dataloader(train, rank=1, world_size=2).rank == 1


def test_ranks_of_torch_distributed(train: Path, tmp_path: Path) -> None:
    store = torch.distributed.FileStore(str(tmp_path / "store"), 1)
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        loader = build_dataloader(train)
        assert (loader.rank, loader.world_size) == (0, 1)
    finally:
        torch.distributed.destroy_process_group()


GOLDEN = Path(__file__).parents[4] / "golden" / "ctr"


def test_the_public_projects_files(tmp_path: Path) -> None:
    source = GOLDEN / "upstream_fullrank_valid.parquet"
    with pytest.raises(SourceError, match="y_ctr is int8, not float32; y_cvr is int8"):
        build_dataloader(source)
    table = pq.read_table(source)
    for place, name in enumerate(("y_ctr", "y_cvr", "y_ctcvr", "click_mask")):
        table = table.set_column(place, name, table[name].cast(pa.float32()))
    pq.write_table(table, tmp_path / "x.parquet", row_group_size=100)
    rows = {row["row_id"]: row for row in table.to_pylist()}
    features = load(GOLDEN / "featuremap_small.yaml")
    for batch in build_dataloader(tmp_path, 64, True):
        chosen = [rows.pop(one) for one in batch["labels"]["row_id"].tolist()]
        assert_same(batch, plain_batch(chosen, features))
    assert not rows


RANK = """
import sys
import torch
from ingot.converters.recsys.ctr import build_dataloader
folder, store, rank = sys.argv[1], sys.argv[2], int(sys.argv[3])
torch.distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
loader = build_dataloader(folder, 10, True, 1)
for batch in loader:
    torch.distributed.all_reduce(torch.ones(1))  # hangs where one has fewer batches
    print(*batch["labels"]["row_id"].tolist())
torch.distributed.destroy_process_group()
"""


@pytest.mark.long
def test_processes_of_torch_distributed(train: Path, tmp_path: Path) -> None:
    argv = [sys.executable, "-c", RANK, train, tmp_path / "store"]
    ranks = [subprocess.Popen([*argv, str(rank)], stdout=-1, text=True) for rank in range(2)]
    told = [rank.communicate(timeout=120)[0] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0]
    assert sorted(int(one) for each in told for one in each.split()) == IDS


# rows for torch's own DataLoader


@pytest.mark.parametrize("workers", [0, 2, 3])
def test_rows_come_once_over_workers_and_ranks(train: Path, workers: int) -> None:
    seen = []
    for rank in range(2):
        data = ProcessedIterDataset(train, rank=rank, world_size=2)
        loader = DataLoader(data, batch_size=7, num_workers=workers, collate_fn=collate_fn)
        for batch in loader:
            rows = [BY_ID[one] for one in batch["labels"]["row_id"].tolist()]
            assert_same(batch, plain_batch(rows))
            seen += batch["labels"]["row_id"].tolist()
    assert sorted(seen) == IDS


def test_rows_are_dicts_of_the_contracts_columns(train: Path) -> None:
    data = ProcessedIterDataset(train.parent, split="train")
    assert len(data) == 97
    assert list(data) == ROWS
    assert list(next(iter(data))) == list(ROWS[0])
    assert data.feature_meta["f1_110_14"] == {"is_multi_hot": True, "use_value": True}
    assert list(ProcessedIterDataset(train, features=["f1_121"]).feature_meta) == ["f1_121"]
    assert FEATURES.features[0].name in data.feature_meta
