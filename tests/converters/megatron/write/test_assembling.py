"""A data set put together from lanes: the order of the units, holes, several lanes."""

import os
from pathlib import Path

import numpy as np
import pytest

from ingot.converters.megatron import IndexedReader
from ingot.converters.megatron.documents import ShapedDocuments
from ingot.converters.megatron.write.lanes import Lane, drop_engine
from ingot.converters.megatron.write.staging import (
    assemble,
    commit_data_set,
    copy_stretch,
    finished_units,
    open_staging,
    sum_counts,
)


def write(base: Path, lane: int, units: dict[int, list[int]], engine: str = "hf") -> None:
    """Units of one-token documents; the mask of a token is its last bit."""
    with Lane(base=base, number=lane) as out:
        for number, tokens in units.items():
            ids = np.array(tokens, np.uint16)
            ones = np.ones(len(ids), np.int64)
            mask = (ids & 1).astype(np.uint8)
            out.append(ShapedDocuments(tokens=ids, mask=mask, lengths=ones, sizes=ones))
            out.reject(b"%d\n" % number)
            out.finish(number, engine, {"tokens": len(ids)})


def put_together(prefix: Path, *, without: tuple[int, ...] = ()) -> list[int]:
    """Commit what is finished; gives the tokens of the data set."""
    with open_staging(prefix, None) as place:
        finished = finished_units(prefix)
        good = [finished[number] for number in sorted(finished) if number not in without]
        rejects = prefix.with_name("x.rejects.jsonl")
        renames = assemble(place, good, "uint16", masks=True, rejects=rejects)
        assert renames[-1][1] == prefix.with_name("x.idx")
        commit_data_set(place, renames, meta={}, run={}, run_file=prefix.with_name("x.run.json"))
    reader = IndexedReader(prefix)
    masks = IndexedReader(prefix.with_name("x.loss_mask"))
    assert masks.tokens.tolist() == [token & 1 for token in reader.tokens.tolist()]
    assert masks.lengths.tolist() == reader.lengths.tolist()
    assert masks.document_indices.tolist() == reader.document_indices.tolist()
    assert sum_counts(good)["tokens"] == reader.counts.tokens
    assert not [path.name for path in prefix.parent.iterdir() if path.name.endswith(".tmp")]
    tokens: list[int] = reader.tokens.tolist()
    return tokens


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    return tmp_path / "x"


def test_one_lane_in_order_is_the_data_set_itself(prefix: Path) -> None:
    write(prefix, 0, {0: [1, 2], 1: [], 2: [3]})
    number = (prefix.with_name("x.bin.tmp")).stat().st_ino
    assert put_together(prefix) == [1, 2, 3]
    assert prefix.with_name("x.bin").stat().st_ino == number  # not copied
    assert prefix.with_name("x.rejects.jsonl").read_bytes() == b"0\n1\n2\n"


def test_lanes_are_put_in_the_order_of_the_units(prefix: Path) -> None:
    write(prefix, 0, {1: [3], 4: [7, 8], 2: [4]})
    write(prefix, 1, {0: [1, 2], 3: [5, 6]})
    write(prefix, 12, {5: [9]})
    assert put_together(prefix) == [1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert prefix.with_name("x.rejects.jsonl").read_bytes() == b"0\n1\n2\n3\n4\n5\n"


@pytest.mark.parametrize("without", [(0,), (1,), (2,), (0, 2)])
def test_units_of_failed_files_are_left_out(prefix: Path, without: tuple[int, ...]) -> None:
    write(prefix, 0, {0: [1], 1: [2, 3], 2: [4]})
    expected = {0: [1], 1: [2, 3], 2: [4]}
    whole = [token for unit, some in expected.items() if unit not in without for token in some]
    assert put_together(prefix, without=without) == whole


def test_holes_are_skipped(prefix: Path) -> None:
    write(prefix, 0, {0: [1], 1: [2]}, engine="gigatoken")
    write(prefix, 0, {2: [6]})
    drop_engine(prefix, 0, "gigatoken")
    assert sorted(finished_units(prefix)) == [2]
    write(prefix, 0, {0: [4], 1: [5]})
    assert put_together(prefix) == [4, 5, 6]


def test_what_is_not_there_cannot_be_copied(tmp_path: Path) -> None:
    (tmp_path / "from").write_bytes(b"12345")
    with (tmp_path / "from").open("rb") as source, (tmp_path / "to").open("wb") as out:
        assert copy_stretch(source.fileno(), out.fileno(), 1, 3) == 0
        assert copy_stretch(source.fileno(), out.fileno(), 3, 3) == 1
    assert (tmp_path / "to").read_bytes() == b"23445"


def test_where_the_kernel_cannot_copy_it_is_read_and_written(tmp_path: Path) -> None:
    (tmp_path / "from").write_bytes(b"12345")
    reading, writing = os.pipe()  # no file: the kernel copies between files alone
    with (tmp_path / "from").open("rb") as source:
        copy_stretch(source.fileno(), writing, 1, 3)
    assert os.read(reading, 10) == b"234"
    os.close(reading)
    os.close(writing)
