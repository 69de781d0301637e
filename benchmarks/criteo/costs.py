"""What grows with the size of a run and cannot be seen on a few million rows.

    python benchmarks/criteo/costs.py [--values 25000000] [--shuffled 60000000] [--rows 2000000]
        [--buckets 4001] [--threads 2] [--out FILE]

Parts of `ingot criteo preprocess`, run by themselves at sizes of the full set, as far as memory
goes, with its own code:

* the map of the column with the most values (19): it is filled up to `--values` (all of them are
  292,775,614, which takes 9 GB while it is doubled last), and at every power of two rows of the
  generator's distribution are looked up in it: nanoseconds for a new value, and for a cell;
* the inverse permutation of up to `--shuffled` rows (all are 4,195,197,692: 17 GB), nanoseconds a
  row;
* rows scattered to as many buckets of the shuffle as the full set has (4,001 of 2^20 rows), and to
  two: nanoseconds a row, and milliseconds a bucket until they are on the disk, which is waited for
  once a part. As in a full run each write to one of many buckets is of some 130 rows.

Figures are kept as JSON for `estimate.py`.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from numpy.typing import NDArray

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE))

from criteo_lines import name_all  # noqa: E402 - beside this file
from generate import COLUMNS  # noqa: E402

from ingot.converters.output.files import sync_path  # noqa: E402
from ingot.converters.recsys.criteo.contract import HEADER, KEYS  # noqa: E402
from ingot.converters.recsys.criteo.preprocess.part_pieces import compile_kernels  # noqa: E402
from ingot.converters.recsys.criteo.preprocess.shuffle import (  # noqa: E402
    PartRows,
    Shuffle,
    inverse_permutation,
)
from ingot.converters.recsys.criteo.preprocess.vocabulary import Ids  # noqa: E402
from ingot.converters.sources.recognizers.criteo import DENSE  # noqa: E402

COLUMN = 19
BLOCK = 1 << 16  # values at a time, about as many as a block of 16 MiB has
LOOKED_UP = 1 << 22


def named(numbers: NDArray[np.int64]) -> NDArray[np.uint32]:
    """Values of the column."""
    values = np.empty(len(numbers), np.uint32)
    name_all(numbers, COLUMN, values)
    return values


def drawn(count: int, below: int) -> NDArray[np.int64]:
    """Numbers of values as rows have them, of those below a number."""
    _, exponent, shift = COLUMNS[COLUMN]
    power = 1.0 - exponent
    low, high = shift**power, (below + shift) ** power
    uniform = np.random.default_rng(below).random(count)
    places = (low + uniform * (high - low)) ** (1.0 / power) - shift
    return np.minimum(places.astype(np.int64), below - 1)


def nanoseconds(ids: Ids, values: NDArray[np.uint32]) -> float:
    """Of the encoding of one value."""
    started = time.perf_counter()
    for start in range(0, len(values), BLOCK):
        ids.ids(values[start : start + BLOCK])
    return (time.perf_counter() - started) / len(values) * 1e9


def maps(most: int) -> Iterator[dict[str, float]]:
    """New values in random order, so that none is known to the caches; then rows."""
    ids = Ids(KEYS[COLUMN])
    nanoseconds(ids, named(np.arange(BLOCK)))  # compiles
    size = BLOCK
    while size < most:
        larger = min(2 * size, most)
        fresh = named(np.random.default_rng(size).permutation(np.arange(size, larger)))
        new = nanoseconds(ids, fresh)
        cell = nanoseconds(ids, named(drawn(LOOKED_UP, larger)))
        size = larger
        yield {"values": size, "new_ns": new, "cell_ns": cell}


def permutations(most: int) -> Iterator[dict[str, float]]:
    """Of rows, each size twice the one before."""
    inverse_permutation(1000, 0)  # compiles
    rows = min(1 << 20, most)
    while True:
        started = time.perf_counter()
        inverse_permutation(rows, 0)
        yield {"rows": rows, "row_ns": (time.perf_counter() - started) / rows * 1e9}
        if rows == most:
            return
        rows = min(4 * rows, most)


def part(folder: Path, rows: int) -> PartRows:
    """A made-up part that was read; what its rows hold does not matter."""
    noise = np.random.default_rng(0).integers(0, 1 << 32, rows * DENSE, np.uint32)
    (folder / "dense.npy").write_bytes(bytes(HEADER) + noise.tobytes())
    (folder / "labels.npy").write_bytes(bytes(HEADER) + noise[:rows].tobytes())
    ids = [folder / key for key in KEYS]
    for path in ids:
        noise[:rows].tofile(path)
    return PartRows(folder=folder, rows=rows, ids=ids, remaps={}, rounded=False)


_BLOCK = 1 << 19  # rows at a time, as a run of the default bucket has them


def scatters(rows: int, buckets: int, threads: int) -> Iterator[dict[str, float]]:
    """Of the same rows, to two buckets and to many."""
    for count in (2, buckets):
        with tempfile.TemporaryDirectory(prefix="criteo-costs-") as scratch:
            source, path = part(Path(scratch), rows), Path(scratch) / "records"
            shuffle = Shuffle([rows], threads, -(-rows // count))
            shuffle.block = _BLOCK
            places = inverse_permutation(rows, 0)
            started = time.perf_counter()
            made = shuffle.scatter(source, places, path, lambda _: None)
            moved = time.perf_counter()
            sync_path(path)
            synced = time.perf_counter() - moved
        row, file = (moved - started) / rows * 1e9, synced / len(made.counts) * 1e3
        yield {"files": len(made.counts), "row_ns": row, "sync_ms_per_file": file}


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--values", type=int, default=25_000_000)
    parser.add_argument("--shuffled", type=int, default=60_000_000)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--buckets", type=int, default=4_001)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", type=Path, metavar="FILE")
    return parser.parse_args()


def main() -> None:
    """Measure all three, tell each figure when it is known."""
    args = options()
    compile_kernels()
    ways = SimpleNamespace(
        maps=maps(args.values),
        permutation=permutations(args.shuffled),
        scatter=scatters(args.rows, args.buckets, args.threads),
    )
    known: dict[str, list[dict[str, float]]] = {}
    for name, way in vars(ways).items():
        for figures in way:
            told = ", ".join(f"{key} {round(value, 1):,}" for key, value in figures.items())
            print(f"{name}: {told}", flush=True)
            known.setdefault(name, []).append(figures)
    if args.out:
        args.out.write_text(json.dumps(known | {"threads": args.threads}, indent=1))


if __name__ == "__main__":
    main()
