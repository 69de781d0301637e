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
from ingot.converters.recsys.criteo.preprocess.shuffle import (
    PartRows,
    Records,
    Shuffle,
    inverse_permutation,
)
from tests.converters.recsys.criteo.preprocessed import GOLDEN, same_bits

Arrays = dict[str, NDArray[Any]]


def made(rows: int, seed: int) -> Arrays:
    rng = np.random.default_rng(seed)
    return {
        "dense": rng.random((rows, 13), np.float32),
        "labels": rng.integers(-5, 5, (rows, 1), dtype=np.int32),
        "sparse": rng.integers(1, 2**31 - 200, (rows, 26), dtype=np.int32),
    }


def stored(folder: Path, arrays: Arrays, *, rounded: bool = False) -> PartRows:
    """A part as it was read and numbered."""
    folder.mkdir(parents=True, exist_ok=True)
    for kind in ("dense", "labels"):
        (folder / f"{kind}.npy").write_bytes(bytes(HEADER) + arrays[kind].tobytes())
    ids = [folder / key for key in KEYS]
    for at, path in enumerate(ids):
        arrays["sparse"][:, at].tofile(path)
    return PartRows(folder=folder, rows=len(arrays["labels"]), ids=ids, remaps={}, rounded=rounded)


def scattered(
    folder: Path, parts: Sequence[Arrays], *, seed: int, bucket: int, rounded: bool = False
) -> tuple[Shuffle, list[Records]]:
    """Put the rows of parts into buckets."""
    rows = [len(part["labels"]) for part in parts]
    shuffle, places = Shuffle(rows, 2, bucket), inverse_permutation(sum(rows), seed)
    records = []
    for number, part in enumerate(parts):
        source = stored(folder / str(number), part, rounded=rounded)
        own, places = places[: rows[number]], places[rows[number] :]
        records.append(shuffle.scatter(source, own, folder / f"records{number}", print))
    return shuffle, records


def gathered(
    folder: Path, shuffle: Shuffle, records: Sequence[Records], number: int
) -> dict[str, NDArray[Any]]:
    """Write the arrays of a part."""
    arrays = {kind: folder / f"{number}_{kind}.npy" for kind in ("dense", "labels", "sparse")}
    shuffle.gather(number, records, arrays, print)
    return {kind: np.load(path) for kind, path in arrays.items()}


def shuffled(
    folder: Path, parts: Sequence[Arrays], *, seed: int, bucket: int, rounded: bool = False
) -> list[Arrays]:
    """Shuffle parts through files, the last part first, deleting what is written."""
    shuffle, records = scattered(folder, parts, seed=seed, bucket=bucket, rounded=rounded)
    found = []
    for number in reversed(range(len(parts))):
        found.append(gathered(folder, shuffle, records, number))
        shuffle.truncate(number, records)
    assert not any(one.path.stat().st_size for one in records)
    return found[::-1]


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
    shuffle, records = scattered(tmp_path, [made(9, 1)], seed=0, bucket=4)
    os.truncate(records[0].path, 7 * 41 * 4)
    with pytest.raises(OutputError, match="holds 3 of 4 rows"):
        gathered(tmp_path, shuffle, records, 0)


def test_the_last_day_of_big_ids_keeps_its_bits(tmp_path: Path) -> None:
    with np.load(GOLDEN / "shuffle_big_ids.npz") as file:
        day = {kind: file[f"in_day_2_{kind}"] for kind in ("dense", "labels", "sparse")}
        expected = file["out_day_2_sparse"]
    part = stored(tmp_path, day)
    assert np.array_equal(part.sparse(0, 40).T, expected)
    labels, dense, _ = part.read(3, 9)
    assert np.array_equal(labels, day["labels"][3:9, 0].view(np.uint32))
    assert np.array_equal(dense, day["dense"][3:9].view(np.uint32))


def test_the_largest_number_becomes_the_least_through_float32(tmp_path: Path) -> None:
    arrays = made(2, 1)
    arrays["labels"][:] = [[2**31 - 1], [2**24 + 1]]
    arrays["sparse"][:, 0] = [2**31 - 1, 2**31 - 200]
    part = stored(tmp_path, arrays, rounded=True)
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


def test_gone_on_with(tmp_path: Path) -> None:
    """Records are deleted again where a run was broken off, and earlier parts can be written."""
    parts = [made(rows, rows) for rows in (30, 0, 25)]
    expected = shuffled(tmp_path / "whole", parts, seed=1, bucket=9)
    shuffle, records = scattered(tmp_path, parts, seed=1, bucket=9)
    for number in (2, 1, 0):
        found = gathered(tmp_path, shuffle, records, number)
        for kind, array in expected[number].items():
            assert same_bits(found[kind], array)
        for _ in range(2):
            shuffle.truncate(number, records)
