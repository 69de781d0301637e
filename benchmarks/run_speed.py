"""The time until a user has a mapping and a result, from the start of a process to its exit.

    python benchmarks/run_speed.py [--rounds 3]

* `ingot run --yes` with the rules on 10 MB of JSONL of each shape of `convert_speed.py`.
* `ingot map` on 500 nested rows of some 80 KB, each with 1,500 paths.
* the help of the command line and of its commands, beside a Python that does nothing.
* the kernels of CTR, Criteo and Monolith on the examples of this repository: compiled, then from
  the cache, beside a Python that imports numba and pyarrow.

Prints the median of the rounds; a kernel is compiled once. Byte code is warm.
"""

import argparse
import os
import random
import shutil
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

import orjson
from convert_speed import SHAPES, generate, sentences
from measuring import Measured, Row, add_options, keep_rows, timed

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
INGOT = [sys.executable, "-m", "ingot"]
HELPS = ("", "run", "convert", "lake run", "tokens build", "ctr build", "criteo preprocess")
KERNELS = {
    "ctr": f"ctr build --table {EXAMPLES}/ctr/impressions.csv"
    f" --featuremap {EXAMPLES}/ctr/impressions.yaml --out OUT",
    "criteo": f"criteo preprocess --input-dir {EXAMPLES}/criteo --out OUT",
    "monolith": f"monolith convert {EXAMPLES}/monolith/feed.pb OUT --from examplebatch"
    " --to example --skip-bad",
}
KEYS = 8  # of an object, beside its objects and its list


def value(source: random.Random, key: int) -> str | float:
    """A number, a code, a share, a mark or a label, by the key."""
    return (
        source.randrange(10**6),
        f"{source.choice('abcdef')}-{source.randrange(10**5)}",
        round(source.random(), 6),
        source.random() < 0.5,
        source.choice(["red", "green", "blue", "none"]),
    )[key % 5]


def wide_object(source: random.Random, depth: int) -> dict[str, Any]:
    """An object with four objects in it, down to three levels, and a list of objects in each."""
    found: dict[str, Any] = {f"field_{key}": value(source, key) for key in range(KEYS)}
    if depth == 1:
        found["note"] = sentences(source, 2)
    if depth < 3:
        found |= {f"part_{part}": wide_object(source, depth + 1) for part in range(4)}
    comment = {"comment": sentences(source, 1)} if depth == 0 else {}
    items = range(source.randrange(4, 9))
    found["items"] = [
        {f"item_{key}": value(source, key) for key in range(KEYS)} | comment for _ in items
    ]
    return found


def write_wide_rows(target: Path, count: int) -> None:
    """Write rows of many paths with a document each."""
    source = random.Random("wide")
    with target.open("wb") as file:
        for number in range(count):
            head = {"id": f"rec-{number:06d}", "title": sentences(source, 1)}
            row = {**head, "body": sentences(source, 30), **wide_object(source, 0)}
            file.write(orjson.dumps(row) + b"\n")


def middle(command: list[str], rounds: int, out: Path | None = None) -> Measured:
    """The middle one of some rounds of a command; `out` is removed before each."""
    found = []
    for _ in range(rounds):
        if out and out.exists():
            shutil.rmtree(out) if out.is_dir() else out.unlink()
        found.append(timed(command, out))
    return sorted(found, key=lambda one: one.seconds)[len(found) // 2]


def row_of(job: str, data: str, took: Measured, wanted: str, peer: Measured | None = None) -> Row:
    """The row of a job that is done so often a second, and what it says on the terminal."""
    print(f"{job}, {data}: {took.seconds:.2f} s, {took.cpu_seconds:.2f} s of CPU", flush=True)
    beside = {"Python with these imports alone": 1 / peer.seconds} if peer else {}
    peak = took.memory or None
    return Row(
        job=job,
        data=data,
        unit="times a second",
        ours=1 / took.seconds,
        peers=beside,
        wanted=wanted,
        peak_mb=peak,
    )


def measure(work: Path, rounds: int, share: float) -> list[Row]:
    """All rows."""
    rows, out = [], work / "out"
    for shape in SHAPES:
        file = work / f"{shape}.jsonl"
        generate(shape, int(10_000_000 * share), file)
        took = middle([*INGOT, "run", str(file), "--out", str(out), "--yes"], rounds, out)
        rows.append(row_of("run --yes", f"{shape}, {10 * share:g} MB", took, "under 2 s"))
    file = work / "wide.jsonl"
    write_wide_rows(file, int(500 * share))
    took = middle([*INGOT, "map", str(file), "-o", str(out)], rounds, out)
    size = file.stat().st_size / 1e6
    rows.append(row_of("map", f"wide rows, {size:.0f} MB", took, "under 3 s"))
    nothing = middle([sys.executable, "-c", "pass"], rounds)
    helps = [middle([*INGOT, *words.split(), "--help"], rounds) for words in HELPS]
    slow = max(helps, key=lambda one: one.seconds)
    usual = median(one.seconds for one in helps)
    rows.append(row_of("--help", f"slowest; median {usual:.2f} s", slow, "0.2 s", nothing))
    imports = middle([sys.executable, "-c", "import numba, pyarrow.parquet"], rounds)
    for name, words in KERNELS.items():
        os.environ |= {"NUMBA_CACHE_DIR": str(work / name), "XDG_CACHE_HOME": str(work / name)}
        command = [*INGOT, *words.replace("OUT", str(out)).split()]
        rows.append(row_of("kernels compiled", name, middle(command, 1, out), "under 8 s"))
        took = middle(command, rounds, out)
        rows.append(row_of("kernels cached", name, took, "under 0.5 s", imports))
    return rows


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    add_options(parser)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = measure(Path(folder), options.rounds, 0.1 if options.quick else 1.0)
    keep_rows(rows, options.keep_rows)


if __name__ == "__main__":
    main()
