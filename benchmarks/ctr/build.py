"""How fast `ingot ctr build` is on data like Ali-CCP's, what it holds, whether it is right.

    python benchmarks/ctr/build.py [--scale 0.02] [--slice 0.0005] [--rounds 3] [--keep DIR]
        [--quick] [--keep-rows FILE]

`generate.py` makes a set of each scale (of the published train set: 1 is 42,300,135 rows). Then in
turn, each in a process of its own from start to exit:

* on the slice, `plain Python`: `reference.py`, the same result row by row; every cell of both is
  compared, and the benchmark stops if one differs;
* on the slice, `re.split and dict`: what public pipelines do, one token a field, nothing written;
* on both, `ingot ctr build` with the bundled featuremap;
* on the whole, `read`: both files read once and nothing done, the ceiling of any build.

Prints seconds and CPU seconds, rows/s, MB/s of raw text (10^6 bytes), rows/s over those of plain
Python by wall clock and by CPU (the latter says more on a busy machine); the peak memory of all
processes of a run together (Linux: proportional set size, looked at every 200 ms; `own` leaves out
mapped files), the disk space taken while it runs and afterwards, and the seconds of each phase. Of
the rounds the one with the fewest CPU seconds.
"""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))

from measuring import (  # noqa: E402 - beside the folder
    BLOCK,
    READER,
    Measured,
    Row,
    add_options,
    keep_rows,
    timed,
    used,
)

FILES = ("sample_skeleton_train.csv", "common_features_train.csv")
PLAIN, JOIN, READ, INGOT = "plain Python", "re.split and dict", "read", "ingot ctr build"


@dataclass(frozen=True, kw_only=True)
class Raw:
    """Generated files.

    Attributes:
        label: how the table calls them.
        folder: where they lie.
        rows: lines of the skeleton.
        megabytes: of both files.
    """

    label: str
    folder: Path
    rows: int
    megabytes: float

    @property
    def paths(self) -> list[str]:
        """Skeleton and common file."""
        return [str(self.folder / name) for name in FILES]


def generated(scale: float, seed: int, work: Path) -> Raw:
    """A set of this scale, made if it is not there."""
    folder = work / f"raw-{scale:g}-{seed}"
    if not folder.exists():
        draft = folder.with_suffix(".draft")
        argv = [str(HERE / "generate.py"), str(draft), "--scale", f"{scale}", "--seed", f"{seed}"]
        subprocess.run([sys.executable, *argv], check=True, stdout=sys.stderr)
        draft.rename(folder)
    with (folder / FILES[0]).open("rb") as file:
        rows = sum(block.count(b"\n") for block in iter(lambda: file.read(BLOCK), b""))
    size = sum((folder / name).stat().st_size for name in FILES)
    return Raw(label=f"{scale:g}", folder=folder, rows=rows, megabytes=size / 1e6)


def commands(raw: Raw, out: Path) -> dict[str, list[str]]:
    """What can be measured on a set, by name; results go into folders below `out`."""
    python, reference = sys.executable, str(HERE / "reference.py")
    given = ["--skeleton", raw.paths[0], "--common", raw.paths[1], "--featuremap", "aliccp"]
    build = ["-m", "ingot", "ctr", "build", *given, "--out", str(out / "ingot"), "--overwrite"]
    return {
        PLAIN: [python, reference, *raw.paths, "aliccp", str(out / "plain")],
        JOIN: [python, reference, *raw.paths, "--join"],
        READ: [python, "-c", READER, *raw.paths],
        INGOT: [python, *build],
    }


def measure(raw: Raw, names: tuple[str, ...], rounds: int, work: Path) -> dict[str, Measured]:
    """Run these in turn, `rounds` times; the best of each. The last result is left in `work`."""
    out = work / f"out-{raw.label}"
    runs: dict[str, list[Measured]] = {}
    for _ in range(rounds):
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir(parents=True)
        argvs = commands(raw, out)
        for name in names:
            print(f"scale {raw.label}: {name}", file=sys.stderr)
            runs.setdefault(name, []).append(timed(argvs[name], out))
    best = {name: min(many, key=lambda one: one.cpu_seconds) for name, many in runs.items()}
    # By the clock the middle one: other programs run meanwhile.
    seconds = {name: statistics.median(one.seconds for one in many) for name, many in runs.items()}
    return {name: replace(run, seconds=seconds[name]) for name, run in best.items()}


def compare(out: Path) -> int:
    """The number of cells, if `ingot` and `plain` are equal in every one."""
    cells = 0
    for split in ("train", "valid"):
        built = pq.read_table(out / "ingot" / split)
        plain = pq.read_table(out / "plain" / f"{split}.parquet")
        if built.column_names != plain.column_names:
            sys.exit(f"{split}: other columns")
        for name in plain.column_names:
            if not built[name].equals(plain[name]):
                sys.exit(f"{split}, {name}: ingot and plain Python differ; see {out}")
        cells += plain.num_rows * plain.num_columns
    return cells


def add_rows(table: Table, raw: Raw, best: dict[str, Measured], base: Measured, rows: int) -> None:
    """One line per process; `base` is plain Python on so many rows."""
    for name, run in best.items():
        rate, cpu_rate = raw.rows / run.seconds, raw.rows / run.cpu_seconds
        ratios = rate / (rows / base.seconds), cpu_rate / (rows / base.cpu_seconds)
        speed = f"{rate:,.0f}", f"{raw.megabytes / run.seconds:,.1f}"
        times = f"{run.seconds:.1f}", f"{run.cpu_seconds:.1f}"
        peaks = (f"{one:,.0f}" for one in (run.memory, run.own_memory, run.disk))
        table.add_row(raw.label, name, *times, *speed, *(f"{one:.1f}" for one in ratios), *peaks)


def row_of(whole: Raw, best: dict[str, Measured], plain: float) -> Row:
    """What docs/performance.md shows."""
    return Row(
        job="Ali-CCP's raw files -> processed rows",
        data=f"{whole.rows:,} rows, {whole.megabytes:,.0f} MB",
        unit="rows/s",
        ours=whole.rows / best[INGOT].seconds,
        peers={"plain Python, on fewer rows": plain},
        wanted="40,000 rows/s",
        peak_mb=best[INGOT].memory,
        ceiling=f"reading alone takes {best[READ].seconds:.1f} s",
    )


def told(out: Path) -> Iterator[str]:
    """What the build itself says of its phases, and what it left on the disk."""
    facts = json.loads((out / "ingot" / "run.json").read_bytes())
    seconds = sorted(facts["seconds"].items(), key=lambda one: -one[1])
    yield "phases, s: " + ", ".join(f"{name} {value:.1f}" for name, value in seconds)
    for name, value in facts.items():
        if name.startswith("peak"):
            yield f"{name}: {value}"
    known = json.loads((out / "ingot" / "stats.json").read_bytes())["vocab"].values()
    yield f"different tokens in train rows: {sum(one['distinct'] for one in known):,}"
    parts = sorted(path for path in (out / "ingot").iterdir() if path.is_dir())
    yield "left, MB: " + ", ".join(f"{path.name} {used(path):,.1f}" for path in parts)


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add_options(parser)
    parser.add_argument("--scale", type=float, help="0.02, or 0.002 with --quick")
    parser.add_argument("--slice", type=float, default=0.0005, help="scale for plain Python")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--keep", type=Path, help="work in this folder and leave it")
    args = parser.parse_args()
    args.scale = args.scale or (0.002 if args.quick else 0.02)
    return args


def run(args: argparse.Namespace, work: Path) -> None:
    """Measure and print."""
    console, table = Console(width=150), Table(title="ingot ctr build", title_justify="left")
    for heading in ("scale", "process"):
        table.add_column(heading)
    ratios, peaks = ("x plain", "x plain, CPU"), ("peak MB", "own", "disk MB")
    for heading in ("s", "CPU s", "rows/s", "MB/s", *ratios, *peaks):
        table.add_column(heading, justify="right")
    small = generated(args.slice, args.seed, work)
    best = measure(small, (PLAIN, JOIN, INGOT), args.rounds, work)
    cells, base = compare(work / f"out-{small.label}"), best[PLAIN]
    add_rows(table, small, best, base, small.rows)
    whole = generated(args.scale, args.seed, work)
    best = measure(whole, (READ, INGOT), args.rounds, work)
    add_rows(table, whole, best, base, small.rows)
    keep_rows([row_of(whole, best, small.rows / base.seconds)], args.keep_rows)
    console.print(table)
    print(f"slice: {small.rows:,} rows, {cells:,} cells equal to those of plain Python")
    print(f"whole: {whole.rows:,} rows, {whole.megabytes:,.0f} MB")
    for line in told(work / f"out-{whole.label}"):
        print(line)


def main() -> None:
    """Measure in a temporary folder, or in the one to keep."""
    args = options()
    if args.keep is not None:
        args.keep.mkdir(parents=True, exist_ok=True)
        run(args, args.keep)
        return
    with tempfile.TemporaryDirectory(prefix="ctr-build-") as scratch:
        run(args, Path(scratch))


if __name__ == "__main__":
    main()
