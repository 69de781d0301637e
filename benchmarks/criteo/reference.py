"""Criteo files to arrays in plain Python, written from the rules: slow, and easy to read.

    python benchmarks/criteo/reference.py IN OUT [--dense ln3|min2] [--frequency-threshold N]
        [--shuffle-seed N] [--no-shuffle] [--compat exact|torchrec_f32]

What `ingot criteo preprocess` is compared with: the same arrays, and `known` and `rejects` of a run
for its vocabularies and its rejects. Everything is in memory, the shuffle moves the whole matrix as
torchrec does. The same with torchrec's own code: `torchrec_peer.py`.
"""

import argparse
import gzip
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
NUMBER: Final = re.compile(rb"-?[0-9]+")
HEX: Final = re.compile(rb"[0-9a-fA-F]+")
FIRST_ID, RARE_ID = 2, 1


class WrongLineError(Exception):
    """A line that is no row; its argument is the reason."""


@dataclass(kw_only=True)
class Part:
    """One file.

    Attributes:
        name: `day_0`.
        lines: of the file.
        rejects: number of a line from 1, and its reason.
        labels: int32[rows, 1].
        dense: float32[rows, 13].
        sparse: raw values, then ids: int64[rows, 26].
    """

    name: str
    lines: int
    rejects: list[tuple[int, str]]
    labels: Array
    dense: Array
    sparse: Array


@dataclass(frozen=True, kw_only=True)
class Run:
    """What comes of a run.

    Attributes:
        parts: in order.
        known: of each column, a value's id and count, in first-seen order.
    """

    parts: list[Part]
    known: list[dict[int, tuple[int, int]]]

    def arrays(self) -> Iterator[tuple[str, Array]]:
        """Every array under the name of its file."""
        for part in self.parts:
            yield f"{part.name}_dense.npy", part.dense
            yield f"{part.name}_labels.npy", part.labels
            yield f"{part.name}_sparse.npy", part.sparse.astype(np.int32)


def number(text: bytes, reason: str) -> int:
    """A decimal integer of 32 bits; nothing is 0."""
    if not text:
        return 0
    if not NUMBER.fullmatch(text) or not -(2**31) <= int(text) < 2**31:
        raise WrongLineError(reason)
    return int(text)


def value(text: bytes) -> int:
    """A hexadecimal number of 32 bits; nothing is 0."""
    if not text:
        return 0
    if not HEX.fullmatch(text) or int(text, 16) >= 2**32:
        raise WrongLineError("sparse")
    return int(text, 16)


def row(line: bytes, labelled: bool) -> tuple[int, list[int], list[int]]:
    """Label, integers and values of a line without its end."""
    fields = line.split(b"\t")
    if len(fields) != 39 + labelled:
        raise WrongLineError("columns")
    label = number(fields.pop(0), "label") if labelled else -1
    return label, [number(f, "dense") for f in fields[:13]], [value(f) for f in fields[13:]]


def lines(path: Path) -> Iterator[bytes]:
    """Without their ends, which are LF or CR LF; the last one may lack it."""
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    pieces = data.split(b"\n")
    if not pieces[-1]:
        pieces.pop()
    for piece in pieces:
        yield piece.removesuffix(b"\r")


def logarithms(integers: Array, dense: str) -> Array:
    """Of int32[rows, 13], as numpy gives them: float32."""
    with np.errstate(all="ignore"):
        if dense == "ln3":
            shifted = integers + np.int32(3)
        else:
            lowest = integers.min() if len(integers) else np.int32(0)
            shifted = integers - (lowest - np.int32(2))
        logs: Array = np.log(shifted, dtype=np.float32)
        return logs


def part_name(path: Path) -> str:
    """`day_0` of `day_0.gz`, `train` of `train.txt`."""
    return path.name.removesuffix(".gz").removesuffix(".txt")


def read(path: Path, dense: str) -> Part:
    """One file; its values are still the raw ones."""
    name = part_name(path)
    rows, rejects, count = [], [], 0
    for count, line in enumerate(lines(path), 1):
        try:
            rows.append(row(line, labelled=name != "test"))
        except WrongLineError as wrong:
            rejects.append((count, str(wrong)))
    integers = np.array([one[1] for one in rows], np.int32).reshape(-1, 13)
    return Part(
        name=name,
        lines=count,
        rejects=rejects,
        labels=np.array([one[0] for one in rows], np.int32).reshape(-1, 1),
        dense=logarithms(integers, dense),
        sparse=np.array([one[2] for one in rows], np.int64).reshape(-1, 26),
    )


def encode(parts: Sequence[Part], column: int, threshold: int) -> dict[int, tuple[int, int]]:
    """Replace the values of a column by ids; what is known of it afterwards."""
    counts = Counter(one for part in parts for one in part.sparse[:, column].tolist())
    known: dict[int, int] = {}
    following = FIRST_ID
    for part in parts:
        for place, one in enumerate(part.sparse[:, column].tolist()):
            if one not in known and counts[one] < threshold:
                known[one] = RARE_ID
            elif one not in known:
                known[one] = following
                following += 1
            part.sparse[place, column] = known[one]
    return {one: (identity, counts[one]) for one, identity in known.items()}


def shuffle(parts: Sequence[Part], seed: int, compat: str) -> None:
    """Shuffle the rows of all parts but the last, together; the whole matrix is moved.

    Single precision is the reference's, and rounds ids and labels past 2^24; double precision holds
    every id, label and logarithm as it is.
    """
    training, start = parts[:-1], 0
    whole = [np.hstack([one.dense, one.sparse, one.labels]) for one in training]
    if not whole:
        return
    matrix = np.vstack(whole).astype(np.float32 if compat == "torchrec_f32" else np.float64)
    random = np.random.RandomState(seed)
    random.shuffle(matrix)
    for part in training:
        mine = matrix[start : start + len(part.labels)]
        part.dense = mine[:, :13].astype(np.float32)
        part.sparse = mine[:, 13:39].astype(np.int32).astype(np.int64)
        part.labels = mine[:, 39:].astype(np.int32)
        start += len(mine)


def preprocess(
    paths: Sequence[Path],
    *,
    dense: str = "ln3",
    frequency_threshold: int = 0,
    shuffle_seed: int | None = 0,
    compat: str = "exact",
) -> Run:
    """All parts. The last day is the test day; Kaggle's files are not shuffled.

    Args:
        paths: `day_0`, `day_1.gz`, `train.txt`, `test.txt`, ..., in the order of the days.
        dense: `ln3` or `min2`.
        frequency_threshold: values that occur less often get id 1.
        shuffle_seed: None leaves every row where it is.
        compat: `exact`, or `torchrec_f32` with the ids rounded as torchrec rounds them.
    """
    parts = [read(path, dense) for path in paths]
    known = [encode(parts, column, frequency_threshold) for column in range(26)]
    if shuffle_seed is not None and parts[0].name.startswith("day_"):
        shuffle(parts, shuffle_seed, compat)
    return Run(parts=parts, known=known)


def inputs(folder: Path) -> list[Path]:
    """The files of a folder, by the numbers of their days; train before test."""

    def place(path: Path) -> tuple[int, str]:
        name = part_name(path)
        day = name.removeprefix("day_")
        return (int(day), "") if day.isdigit() else (0, "a" if name == "train" else "b")

    names = re.compile(r"(?:day_[0-9]+|(?:train|test)\.txt)(?:\.gz)?")
    return sorted((one for one in folder.iterdir() if names.fullmatch(one.name)), key=place)


def main() -> None:
    """Preprocess a folder."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("raw", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--dense", choices=("ln3", "min2"), default="ln3")
    parser.add_argument("--frequency-threshold", type=int, default=0)
    parser.add_argument("--shuffle-seed", type=int, default=0)
    parser.add_argument("--no-shuffle", action="store_true")
    parser.add_argument("--compat", choices=("exact", "torchrec_f32"), default="exact")
    given = parser.parse_args()
    run = preprocess(
        inputs(given.raw),
        dense=given.dense,
        frequency_threshold=given.frequency_threshold,
        shuffle_seed=None if given.no_shuffle else given.shuffle_seed,
        compat=given.compat,
    )
    given.out.mkdir(parents=True, exist_ok=True)
    for name, array in run.arrays():
        np.save(given.out / name, array)


if __name__ == "__main__":
    main()
