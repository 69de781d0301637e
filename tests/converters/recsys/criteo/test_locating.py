"""Folders of arrays: what is found in them, and what is wrong with them."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ingot.converters.errors import SourceError
from ingot.converters.recsys.criteo.contract import locate_arrays
from tests.converters.recsys.criteo.arrays import made_up, write, write_days


@pytest.mark.more
def test_days_by_number_and_others_by_name(tmp_path: Path) -> None:
    names = ["day_0", "day_2", "day_10", "extra", "train", "test"]
    write(tmp_path, {name: made_up(2) for name in sorted(names)})
    (tmp_path / "manifest.json").touch()
    (tmp_path / ".day_3_dense.npy").touch()
    (tmp_path / "full.npy").touch()
    assert list(locate_arrays(tmp_path, "all").parts) == names
    assert list(locate_arrays(tmp_path, "train").parts) == names[:-1]
    assert list(locate_arrays(tmp_path, "val").parts) == ["test"]


def test_chosen_parts_keep_their_order(tmp_path: Path) -> None:
    write_days(tmp_path, 3, 4, 5, 7)
    assert locate_arrays(tmp_path, "all", [2, "day_0"]).parts == ("day_2", "day_0")
    assert locate_arrays(tmp_path, "train", [3, 2, 0]).parts == ("day_3", "day_2")
    assert locate_arrays(tmp_path, "all", "day_1").rows == 4
    for split, rows in (("val", 4), ("test", 3), ("last", 7), ("train", 12), ("all", 19)):
        assert locate_arrays(tmp_path, split).rows == rows


def test_parts_without_rows_are_passed_over(tmp_path: Path) -> None:
    write_days(tmp_path, 0, 3, 0, 2)
    assert locate_arrays(tmp_path, "train").parts == ("day_1",)
    with pytest.raises(SourceError, match="the split val holds no rows"):
        locate_arrays(tmp_path, "val", [1, 0])


def test_what_there_is_not(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="nowhere: cannot be listed: No such file"):
        locate_arrays(tmp_path / "nowhere", "all")
    with pytest.raises(SourceError, match="holds no arrays such as day_0_dense"):
        locate_arrays(tmp_path, "all")
    write_days(tmp_path, 3)
    with pytest.raises(SourceError, match=r"day_0 is the only part.*split='all'"):
        locate_arrays(tmp_path, "train")
    with pytest.raises(ValueError, match="split: 'dev' is not one of train, val, test, last, all"):
        locate_arrays(tmp_path, "dev")
    for parts in ([1], ["day_1"]):
        with pytest.raises(ValueError, match=r"has no 'day_1'; it has day_0$"):
            locate_arrays(tmp_path, "all", parts)
    for none in ([], [0, 0]):
        with pytest.raises(ValueError, match="give one or more, each once"):
            locate_arrays(tmp_path, "all", none)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-30])


def lengthen(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\0" * 8)


def headed(header: bytes) -> Callable[[Path], None]:
    length = len(header).to_bytes(2, "little")
    return lambda path: path.write_bytes(b"\x93NUMPY\x01\x00" + length + header)


def replaced(array: object, **options: bool) -> Callable[[Path], None]:
    return lambda path: np.save(path, np.array(array), **options)


@pytest.mark.parametrize(
    ("kind", "damage", "said"),
    [
        ("labels", Path.unlink, "day_0_labels.npy: is missing .*three arrays"),
        ("dense", Path.unlink, "day_0_dense.npy: is missing"),
        ("sparse", cut, "day_0_sparse.npy: ends early: it holds 4 of the 5 rows"),
        ("labels", lengthen, "is 8 bytes longer than the rows"),
        ("dense", lambda path: path.write_bytes(b"PK\3\4" * 9), "is not a .npy array: "),
        ("dense", lambda path: path.write_bytes(b""), "is not a .npy array: "),
        ("dense", lambda path: path.write_bytes(b"\x93NUMPY\x09\x00ab"), "is not a .npy array: "),
        ("dense", headed(b"{'descr': (((("), "is not a .npy array: "),
        ("dense", headed(b"  x\n y"), "is not a .npy array: "),
        ("dense", headed(b"-" * 9000 + b"1"), "is not a .npy array: "),
        ("dense", replaced(np.zeros((5, 13))), "holds float64, not float32"),
        ("sparse", replaced(np.zeros((5, 26), np.uint32)), "holds uint32, not int32 or int64"),
        ("sparse", replaced(np.zeros((5, 26), ">i4")), "holds >i4, not int32"),
        ("sparse", replaced(np.full((5, 26), None), allow_pickle=True), "holds object, not int32"),
        ("sparse", replaced(np.zeros((26, 5), np.int32).T), r"holds columns, not rows"),
        ("labels", replaced(np.zeros(5, np.int32)), r"has the shape \(5,\), not \(rows, 1\)"),
        ("dense", replaced(np.zeros((5, 12), np.float32)), r"\(5, 12\), not \(rows, 13\)"),
        (
            "dense",
            replaced(np.zeros((6, 13), np.float32)),
            "day_0_dense.npy 6, day_0_labels.npy 5, day_0_sparse.npy 5",
        ),
        ("labels", lambda path: (path.unlink(), path.mkdir()), "cannot be read: Is a directory"),
    ],
)
def test_damaged_arrays(
    tmp_path: Path, kind: str, damage: Callable[[Path], object], said: str
) -> None:
    write_days(tmp_path, 5, 3)
    damage(tmp_path / f"day_0_{kind}.npy")
    with pytest.raises(SourceError, match=said):
        locate_arrays(tmp_path, "train")


def test_the_fingerprint_is_that_of_the_arrays(tmp_path: Path) -> None:
    first = locate_arrays(write_days(tmp_path / "a", 50, 3), "all").fingerprint
    assert locate_arrays(write_days(tmp_path / "b", 50, 3), "all").fingerprint == first
    assert locate_arrays(tmp_path / "a", "train").fingerprint != first
    other = {"day_0": made_up(50, 7), "day_1": made_up(3, 1)}
    assert locate_arrays(write(tmp_path / "c", other), "all").fingerprint != first
