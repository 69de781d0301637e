"""Which files of a folder are read, and in which order."""

import gzip
import hashlib
from pathlib import Path

import pytest

from ingot.converters.errors import ConversionError, SourceError
from ingot.converters.recsys.criteo.preprocess.inputs import (
    Inputs,
    OpenedPart,
    find_inputs,
    parse_days,
)
from ingot.converters.sources.facts import input_entry


def folder(root: Path, *names: str) -> Path:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(name.encode())
    return root


def parts(found: Inputs) -> list[tuple[str, str, bool]]:
    return [(part.name, part.entry.name, part.labelled) for part in found.parts]


def test_days_by_number_not_by_name(tmp_path: Path) -> None:
    names = ("day_10", "day_9.gz", "day_0.tsv", "day_23.txt.zst", "day_2.tsv.gz", "day_100.bz2")
    found = find_inputs(str(folder(tmp_path, *names)))
    assert [part.name for part in found.parts] == [
        *("day_0", "day_2", "day_9", "day_10", "day_23", "day_100")
    ]
    assert found.days
    assert found.shuffled == 5


def test_what_is_left_alone(tmp_path: Path) -> None:
    names = ("day_0", "day_01", "day_1x", "xday_1", "day_1_dense.npy", "day_.gz", "DAY_2", "day_-1")
    found = find_inputs(str(folder(tmp_path, *names, "more/day_3", "README.md", "day_1.parquet")))
    assert parts(found) == [("day_0", "day_0", True)]


def test_one_file(tmp_path: Path) -> None:
    found = find_inputs(str(folder(tmp_path, "day_0", "day_1") / "day_1"))
    assert parts(found) == [("day_1", "day_1", True)]
    assert found.shuffled == 0


def test_kaggle(tmp_path: Path) -> None:
    found = find_inputs(str(folder(tmp_path, "test.txt", "train.txt.gz", "readme.txt")))
    assert parts(found) == [("train", "train.txt.gz", True), ("test", "test.txt", False)]
    assert (found.days, found.shuffled) == (False, 0)


def test_chosen_days(tmp_path: Path) -> None:
    root = str(folder(tmp_path, "day_0", "day_1", "day_2", "train.txt"))
    assert [part.name for part in find_inputs(root, (2, 0, 2)).parts] == ["day_0", "day_2"]
    with pytest.raises(SourceError, match="holds no day_7"):
        find_inputs(root, (0, 7))
    with pytest.raises(ConversionError, match="no day is chosen"):
        find_inputs(root, ())
    with pytest.raises(SourceError, match=r"holds days and also train\.txt"):
        find_inputs(root)


@pytest.mark.parametrize("names", [("day_1", "day_1.gz"), ("train.txt", "train.tsv")])
def test_twice(tmp_path: Path, names: tuple[str, str]) -> None:
    with pytest.raises(SourceError, match="keep one of them"):
        find_inputs(str(folder(tmp_path, *names)))


def test_nothing(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="holds no Criteo files"):
        find_inputs(str(folder(tmp_path, "notes.txt")))


def test_the_same_again(tmp_path: Path) -> None:
    root = folder(tmp_path, "day_0", "day_1", "day_2")
    found = find_inputs(str(root), (0, 2))
    assert found.again().stamps() == found.stamps()
    (root / "day_1").unlink()
    (root / "day_3").write_bytes(b"")
    assert found.again().stamps() == found.stamps()
    (root / "day_2").write_bytes(b"more")
    assert found.again().stamps() != found.stamps()
    (root / "day_2").unlink()
    with pytest.raises(SourceError, match="holds no day_2"):
        found.again()


def test_the_same_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder(tmp_path, "raw/day_0")
    monkeypatch.chdir(tmp_path)
    assert find_inputs("raw").place == find_inputs(str(tmp_path / "raw")).place
    (part,) = find_inputs("raw").parts
    assert Inputs(where="s3://b/raw", parts=(part,), days=True).place == "s3://b/raw"


@pytest.mark.parametrize("packed", [False, True])
def test_hashed_while_it_is_read(tmp_path: Path, packed: bool) -> None:
    """As stored, all of it, also what was not asked for."""
    content = b"some lines\n" * 1000
    stored = gzip.compress(content) + bytes(20) if packed else content
    (tmp_path / "day_0").write_bytes(stored)
    found = find_inputs(str(tmp_path))
    entry = found.parts[0].entry
    with entry.place.open() as raw:
        source = OpenedPart(raw, entry.name)
        assert source.stream.read(11) == b"some lines\n"
        digest = source.sha256()
    assert digest == hashlib.sha256(stored).hexdigest()
    assert found.listed_entries() == [input_entry(found.parts[0].entry, digest, part="day_0")]


@pytest.mark.parametrize(
    ("text", "days"),
    [
        *(("0-23", range(24)), ("0", [0]), ("3,1,2", [1, 2, 3]), (" 1 - 3 , 7", [1, 2, 3, 7])),
        *(("5-5", [5]), ("0-2,1-4", range(5)), ("0007", [7])),
    ],
)
def test_days_in_words(text: str, days: list[int]) -> None:
    assert parse_days(text) == tuple(days)


@pytest.mark.parametrize(
    "text", ["", " ", ",", "1,", "-", "-3", "3-", "5-3", "a", "1.5", "1 2", "١", "10000", "0--2"]
)
def test_words_that_are_no_days(text: str) -> None:
    with pytest.raises(ConversionError, match="0-23"):
        parse_days(text)
