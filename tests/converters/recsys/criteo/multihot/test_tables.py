"""Tables: the same numbers however they are drawn, and files that are found again or made anew."""

import json
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingot.converters.errors import ConversionError, OutputError, SourceError
from ingot.converters.recsys.criteo.multihot.id_tables import (
    Parameters,
    draw_blocks,
    draw_tables,
    open_tables,
)


def parameters(rows=(50, 7, 300), sizes=(3, 1, 5), distribution="uniform", seeding="feature"):
    return Parameters.of(rows, None, None, sizes, distribution, seeding)


@given(
    st.integers(1, 3000),
    st.integers(2, 9),
    st.integers(1, 5000),
    st.sampled_from(["uniform", "pareto"]),
    st.integers(0, 5),
)
def test_blocks_are_the_table_drawn_at_once(rows, size, block, distribution, seed):
    state = np.random.RandomState(seed)
    if distribution == "uniform":
        wanted = state.randint(0, rows, size=(rows, size - 1))
    else:
        numbers = state.pareto(0.25, size=(rows, size - 1))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of numbers past int32
            whole = np.where(numbers < 2**31, numbers, -(2.0**31)).astype(np.int32)
        wanted = whole % rows
    made = np.concatenate(
        list(draw_blocks(np.random.RandomState(seed), rows, size, distribution, block))
    )
    assert made.dtype == np.int32
    np.testing.assert_array_equal(made[:, 0], np.arange(rows))
    np.testing.assert_array_equal(made[:, 1:], wanted)


@pytest.mark.parametrize("rows", [2**31 - 1, 2**31 - 2, 2**16, 1])
def test_the_largest_tables_draw_numbers_of_the_same_stream(rows):
    """The first rows of tables that are too large to be drawn here."""
    first = next(draw_blocks(np.random.RandomState(3), rows, 4, "uniform", 30))
    wanted = np.random.RandomState(3).randint(0, rows, size=(len(first), 3))
    np.testing.assert_array_equal(first[:, 1:], wanted)
    first = next(draw_blocks(np.random.RandomState(3), rows, 4, "pareto", 30))
    assert (first >= 0).all()
    assert (first < rows).all()


def test_large_pareto_draws_are_the_least_int32():
    """Some 0.5 % of the draws: they all become the same id."""
    (table,) = draw_blocks(np.random.RandomState(0), 100_003, 2, "pareto")
    numbers = np.random.RandomState(0).pareto(0.25, size=100_003)
    large = numbers >= 2**31
    assert 300 < large.sum() < 700
    assert set(table[large, 1]) == {-(2**31) % 100_003}


@pytest.mark.parametrize("distribution", ["uniform", "pareto"])
@pytest.mark.parametrize("seeding", ["feature", "global0"])
def test_files_hold_what_is_drawn_into_memory(tmp_path, distribution, seeding):
    asked = parameters(distribution=distribution, seeding=seeding)
    for one, other in zip(draw_tables(asked), open_tables(asked, tmp_path), strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            assert isinstance(other, np.memmap)
            np.testing.assert_array_equal(one, other)


def _times(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


def test_what_is_there_is_not_made_again(tmp_path):
    open_tables(parameters(), tmp_path)
    before = _times(tmp_path)
    open_tables(parameters(), tmp_path)
    assert _times(tmp_path) == before
    open_tables(parameters(seeding="global0"), tmp_path)
    assert len(list(tmp_path.glob("multihot-*"))) == 2


def test_what_a_killed_process_left_is_made_anew(tmp_path):
    open_tables(parameters(), tmp_path)
    (place,) = tmp_path.glob("multihot-*")
    left = place.rename(place.with_name(f".{place.name}.unfinished"))
    (left / "table_0.npy").write_bytes(b"half")
    (left / "more").mkdir()
    np.testing.assert_array_equal(
        open_tables(parameters(), tmp_path)[0], draw_tables(parameters())[0]
    )
    assert not left.exists()


MAKE = """
import sys
from pathlib import Path
from ingot.converters.recsys.criteo.multihot.id_tables import Parameters
from ingot.converters.recsys.criteo.multihot.id_tables import open_tables

asked = Parameters.of([50_000, 7, 300_000], None, None, [3, 1, 5], "uniform", "feature")
print(sum(int(table.sum()) for table in open_tables(asked, Path(sys.argv[1])) if table is not None))
"""


@pytest.mark.more
def test_processes_at_the_same_time_get_the_same(tmp_path):
    command = [sys.executable, "-c", MAKE, str(tmp_path)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(3)]
    said = [process.communicate(timeout=300)[0] for process in running]
    assert len(set(said)) == 1
    assert said[0].strip()
    assert len(list(tmp_path.glob("multihot-*"))) == 1


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(path.read_bytes()[:-4]),
        lambda path: path.write_bytes(b""),
        lambda path: path.unlink(),
        lambda path: np.save(path, np.zeros((50, 4), np.int32)),
        lambda path: np.save(path, np.zeros((50, 3), np.int64)),
        lambda path: np.save(path, np.array([{}], dtype=object), allow_pickle=True),
    ],
    ids=["cut", "empty", "gone", "shape", "type", "objects"],
)
def test_damaged_tables_are_told(tmp_path, damage):
    open_tables(parameters(), tmp_path)
    (path,) = tmp_path.glob("multihot-*/table_0.npy")
    damage(path)
    with pytest.raises(
        SourceError, match=r"table_0.npy: is not a table of these parameters: .*\(delete"
    ):
        open_tables(parameters(), tmp_path)


def test_too_large_for_the_memory():
    huge = parameters(rows=[2**31 - 1], sizes=[1 << 20])
    with pytest.raises(ConversionError, match=r"the tables take 9,007,199\.3 GB .*give a folder"):
        draw_tables(huge)


def test_too_large_for_the_disk(tmp_path):
    huge = parameters(rows=[2**31 - 1], sizes=[1 << 20])
    with pytest.raises(OutputError, match=r"the disk is too small: 9,007,199\.3 GB for tables"):
        open_tables(huge, tmp_path)
    assert not list(tmp_path.glob("*multihot-*[!k]"))


def test_a_folder_that_cannot_be(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="cannot be written"):
        open_tables(parameters(), tmp_path / "file" / "below")


def test_a_folder_of_tables_says_its_parameters(tmp_path):
    drawn = parameters(distribution="pareto", seeding="global0")
    open_tables(drawn, tmp_path)
    (place,) = tmp_path.glob("multihot-*")
    assert place.name == f"multihot-{drawn.digest()[:16]}"
    assert json.loads((place / "parameters.json").read_bytes()) == {
        "num_embeddings": [50, 7, 300],
        "sizes": [3, 1, 5],
        "distribution": "pareto",
        "seeding": "global0",
    }
    assert sorted(path.name for path in place.iterdir()) == [
        "parameters.json",
        "table_0.npy",
        "table_2.npy",
    ]


def test_the_name_of_tables_stays():
    """Tables that an earlier version drew are found again."""
    found = parameters(distribution="pareto", seeding="global0").digest()
    assert found == "51cc995b2b9ccf286af2ab6132ade0742e64cd7982fc815501555f022d5eed98"
