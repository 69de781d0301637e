"""The shuffle out of core: that of `np.random.shuffle`, whatever the buckets."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from ingot.converters.errors import ConversionError, OutputError
from ingot.converters.recsys.criteo.contract import HEADER, KEYS
from ingot.converters.recsys.criteo.preprocess.shuffle import PartRows, Shuffle, inverse_permutation
from ingot.converters.recsys.criteo.preprocess.work_folder import WorkFolder
from tests.converters.recsys.criteo.preprocessed import GOLDEN, same_bits

Arrays = dict[str, NDArray[Any]]


def made(rows: int, seed: int) -> Arrays:
    rng = np.random.default_rng(seed)
    return {
        "dense": rng.random((rows, 13), np.float32),
        "labels": rng.integers(-5, 5, (rows, 1), dtype=np.int32),
        "sparse": rng.integers(1, 2**31 - 200, (rows, 26), dtype=np.int32),
    }


def stored(work: WorkFolder, name: str, arrays: Arrays) -> None:
    """A part as it lies in the work folder."""
    folder = work.fresh_part(name)
    for kind in ("dense", "labels"):
        (folder / f"{kind}.npy").write_bytes(bytes(HEADER) + arrays[kind].tobytes())
    for at, key in enumerate(KEYS):
        arrays["sparse"][:, at].tofile(work.column(name, key, "ids"))


def shuffled(
    folder: Path, parts: Sequence[Arrays], *, seed: int, bucket: int, rounded: bool = False
) -> list[Arrays]:
    """Shuffle parts through files."""
    work, result = WorkFolder(folder / "work"), folder / "result"
    work.root.mkdir(parents=True)
    result.mkdir()
    names = [f"day_{number}" for number in range(len(parts))]
    sources = []
    for name, arrays in zip(names, parts, strict=True):
        stored(work, name, arrays)
        rows = len(arrays["labels"])
        part = PartRows(work=work, name=name, rows=rows, remapped=frozenset(), rounded=rounded)
        sources.append(part)
    shuffle = Shuffle([(one.name, one.rows) for one in sources], work, result, seed, 2, bucket)
    for source in sources:
        shuffle.scatter(source, lambda _: None)
    shuffle.gather(lambda _: None)
    assert not list((work.root / "buckets").iterdir())
    return [
        {kind: np.load(result / f"{name}_{kind}.npy") for kind in ("dense", "labels", "sparse")}
        for name in names
    ]


@pytest.mark.more
@given(
    st.lists(st.integers(0, 40), min_size=1, max_size=5),
    st.sampled_from((1, 2, 7, 39, 40, 41, 1000)),
    st.sampled_from((0, 1, 2**32 - 1)),
)
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_rows_and_buckets(
    tmp_path_factory: pytest.TempPathFactory, rows: list[int], bucket: int, seed: int
) -> None:
    parts = [made(count, number) for number, count in enumerate(rows)]
    folder = tmp_path_factory.mktemp("shuffle")
    found = shuffled(folder, parts, seed=seed, bucket=bucket)
    np.random.seed(seed)
    whole = np.arange(sum(rows))
    np.random.shuffle(whole)
    for kind in ("dense", "labels", "sparse"):
        expected = np.concatenate([part[kind] for part in parts])[whole]
        for part, own in zip(found, np.split(expected, np.cumsum(rows)[:-1]), strict=True):
            assert same_bits(part[kind], own)


@pytest.mark.parametrize("rounded", [False, True])
@pytest.mark.parametrize("bucket", [16, 1 << 20])
def test_big_ids(tmp_path: Path, bucket: int, rounded: bool) -> None:
    """Rounded as the reference wrote them; else with all their bits."""
    with np.load(GOLDEN / "shuffle_big_ids.npz") as file:
        big = dict(file)
    kinds = ("dense", "labels", "sparse")
    parts = [{kind: big[f"in_day_{day}_{kind}"] for kind in kinds} for day in (0, 1)]
    found = shuffled(tmp_path, parts, seed=0, bucket=bucket, rounded=rounded)
    for day in (0, 1):
        expected = {kind: big[f"out_day_{day}_{kind}"] for kind in kinds}
        assert same_bits(found[day]["dense"], expected["dense"])
        assert same_bits(found[day]["labels"], expected["labels"])
        assert same_bits(found[day]["sparse"], expected["sparse"]) == rounded
        rough = found[day]["sparse"].astype(np.float32)
        assert same_bits(rough, expected["sparse"].astype(np.float32))
    values = np.sort(np.concatenate([one["sparse"].ravel() for one in parts]))
    kept = np.sort(np.concatenate([one["sparse"].ravel() for one in found]))
    assert np.array_equal(values, kept) == (not rounded)


def test_a_bucket_that_lost_rows_is_told(tmp_path: Path) -> None:
    work, result = WorkFolder(tmp_path / "work"), tmp_path / "result"
    work.root.mkdir()
    result.mkdir()
    stored(work, "day_0", made(9, 1))
    part = PartRows(work=work, name="day_0", rows=9, remapped=frozenset(), rounded=False)
    shuffle = Shuffle([("day_0", 9)], work, result, 0, 1, 4)
    shuffle.scatter(part, lambda _: None)
    os.truncate(work.bucket(1), 3 * 41 * 4)
    with pytest.raises(OutputError, match="holds 3 of 4 rows"):
        shuffle.gather(lambda _: None)


def test_the_last_day_of_big_ids_keeps_its_bits(tmp_path: Path) -> None:
    with np.load(GOLDEN / "shuffle_big_ids.npz") as file:
        day = {kind: file[f"in_day_2_{kind}"] for kind in ("dense", "labels", "sparse")}
        expected = file["out_day_2_sparse"]
    work = WorkFolder(tmp_path)
    stored(work, "day_2", day)
    part = PartRows(work=work, name="day_2", rows=40, remapped=frozenset(), rounded=False)
    assert np.array_equal(part.sparse(0, 40).T, expected)
    labels, dense, _ = part.read(3, 9)
    assert np.array_equal(labels, day["labels"][3:9, 0].view(np.uint32))
    assert np.array_equal(dense, day["dense"][3:9].view(np.uint32))


def test_the_largest_number_becomes_the_least_through_float32(tmp_path: Path) -> None:
    arrays = made(2, 1)
    arrays["labels"][:] = [[2**31 - 1], [2**24 + 1]]
    arrays["sparse"][:, 0] = [2**31 - 1, 2**31 - 200]
    stored(WorkFolder(tmp_path), "day_0", arrays)
    part = PartRows(
        work=WorkFolder(tmp_path), name="day_0", rows=2, remapped=frozenset(), rounded=True
    )
    labels, _, sparse = part.read(0, 2)
    assert labels.view(np.int32).tolist() == [-(2**31), 2**24]
    assert sparse.view(np.int32)[0].tolist() == [-(2**31), 2**31 - 256]


@pytest.mark.parametrize("rows", [0, 1, 2, 7, 8, 9, 1000])
def test_where_rows_go(rows: int) -> None:
    np.random.seed(5)
    order = np.arange(rows)
    np.random.shuffle(order)
    places = inverse_permutation(rows, 5)
    assert places.dtype == np.uint32
    assert np.array_equal(places[order], np.arange(rows))
    assert np.array_equal(order, np.argsort(places))


def test_more_rows_than_can_be_shuffled() -> None:
    with pytest.raises(ConversionError, match="no `shuffle_seed`"):
        inverse_permutation(1 << 32, 0)


@pytest.mark.more
@pytest.mark.parametrize("done", [0, 1, 2, 3])
def test_gone_on_with(tmp_path: Path, done: int) -> None:
    """Parts whose records lie in the buckets are passed over; buckets that are gone are written."""
    parts = [made(rows, rows) for rows in (30, 0, 25)]
    expected = shuffled(tmp_path / "whole", parts, seed=1, bucket=9)
    work, result = WorkFolder(tmp_path / "work"), tmp_path / "result"
    work.root.mkdir()
    result.mkdir()
    sources = []
    for number, arrays in enumerate(parts):
        stored(work, f"day_{number}", arrays)
        rows = len(arrays["labels"])
        sources.append(
            PartRows(
                work=work, name=f"day_{number}", rows=rows, remapped=frozenset(), rounded=False
            )
        )
    sizes = [(one.name, one.rows) for one in sources]
    first = Shuffle(sizes, work, result, 1, 1, 9)
    for source in sources[:done]:
        first.scatter(source, lambda _: None)
    if done < 3:  # half a step, which is done over
        first.scatter(sources[done], lambda _: None)
    second = Shuffle(sizes, work, result, 1, 3, 9)
    for source in sources[:done]:
        second.pass_over(source.rows)
    for source in sources[done:]:
        second.scatter(source, lambda _: None)
    second.gather(lambda _: None)
    Shuffle(sizes, work, result, 1, 1, 9).gather(lambda _: None)  # nothing is left: nothing changes
    for number, arrays in enumerate(expected):
        for kind, array in arrays.items():
            assert same_bits(np.load(result / f"day_{number}_{kind}.npy"), array)
