"""How fast `ingot criteo preprocess` is, what it holds, whether it is right.

    python benchmarks/criteo/preprocess.py [--slice 200000] [--rows 2000000 8000000]
        [--days 3] [--modes stream columns] [--threads N] [--gz] [--rounds 3]
        [--points FILE] [--keep DIR] [--quick] [--keep-rows FILE]

`generate.py` makes a set of each size, spread over the days. Then in turn, each in a process of its
own from start to exit, kernels compiled before:

* on the slice, `torchrec`: its own functions, `torchrec_peer.py`, and `ingot` with `--dense min2
  --compat torchrec_f32`; `plain Python`: `reference.py`, and `ingot` as it is by default. Every
  array of each pair is compared bit by bit, and the benchmark stops if one differs;
* on each of the sizes `read`: the files read once and nothing done, the ceiling; and `ingot` in
  each of the modes, whose results are compared;
* on the first of them also `ingot, not shuffled`, torchrec, and pyarrow, Polars and DuckDB where
  they are installed (`column_peers.py`), whose arrays are those of `ingot, not shuffled`.

Prints seconds and CPU seconds, rows/s, MB/s of raw bytes (10^6), rows/s over those of torchrec by
wall clock and by CPU; the peak memory of all processes of a run together (Linux: proportional set
size, looked at every 200 ms; `own` leaves out mapped files), the disk space taken while it runs,
and the seconds of each phase. Of the rounds the one with the fewest CPU seconds. `--points` keeps
the figures of the sizes as JSON for `estimate.py`.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))

from column_peers import WAYS  # noqa: E402 - beside this file
from measuring import (  # noqa: E402 - beside the folder
    READER,
    Measured,
    Row,
    add_options,
    keep_rows,
    timed,
    used,
)

TORCHREC, PLAIN, READ = "torchrec", "plain Python", "read"
AS_TORCHREC, BY_DEFAULT, IN_ORDER = "ingot, as torchrec", "ingot", "ingot, not shuffled"
LIKE_TORCHREC = ("--dense", "min2", "--compat", "torchrec_f32")
WARM_ROWS = 1_000


@dataclass(frozen=True, kw_only=True)
class Raw:
    """Generated files.

    Attributes:
        folder: where they lie.
        rows: of all days.
        megabytes: of all files.
    """

    folder: Path
    rows: int
    megabytes: float


def generated(rows: int, args: argparse.Namespace, work: Path) -> Raw:
    """A set of this size, made if it is not there."""
    folder = work / f"raw-{rows}-{args.days}{'-gz' * args.gz}"
    if not folder.exists():
        draft = folder.with_suffix(".draft")
        argv = [
            str(HERE / "generate.py"),
            str(draft),
            "--rows",
            f"{rows}",
            "--days",
            f"{args.days}",
        ]
        argv += ["--gz"] * args.gz
        subprocess.run([sys.executable, *argv], check=True, stdout=sys.stderr)
        draft.rename(folder)
    return Raw(folder=folder, rows=rows, megabytes=used(folder))


def preprocess(raw: Raw, out: Path, *options: str) -> list[str]:
    """The command line of `ingot`."""
    given = ["--input-dir", str(raw.folder), "--out", str(out), "--overwrite"]
    return [sys.executable, "-m", "ingot", "criteo", "preprocess", *given, *options]


def result(out: Path, name: str) -> Path:
    """Where a process writes; what it needs meanwhile lies beside it."""
    return out / name / "result"


def commands(raw: Raw, out: Path, args: argparse.Namespace) -> dict[str, list[str]]:
    """What can be measured on a set, by name; each has a folder of that name for itself."""
    python, files = sys.executable, [str(one) for one in sorted(raw.folder.iterdir())]
    threads = ["--threads", str(args.threads)]
    modes = {
        f"ingot, {mode}": preprocess(raw, result(out, f"ingot, {mode}"), "--encode", mode, *threads)
        for mode in args.modes
    }
    peer, plain = (str(HERE / f"{name}.py") for name in ("torchrec_peer", "reference"))
    others = str(HERE / "column_peers.py")
    columns = {
        name: [python, others, name, str(raw.folder), str(result(out, name))] for name in WAYS
    }
    return {
        **modes,
        **columns,
        IN_ORDER: preprocess(raw, result(out, IN_ORDER), "--no-shuffle", *threads),
        TORCHREC: [python, peer, str(raw.folder), str(result(out, TORCHREC))],
        PLAIN: [python, plain, str(raw.folder), str(result(out, PLAIN))],
        READ: [python, "-c", READER, *files],
        AS_TORCHREC: preprocess(raw, result(out, AS_TORCHREC), *LIKE_TORCHREC, *threads),
        BY_DEFAULT: preprocess(raw, result(out, BY_DEFAULT), *threads),
    }


def measure(
    raw: Raw, names: list[str], args: argparse.Namespace, work: Path
) -> dict[str, Measured]:
    """Run these in turn, `--rounds` times; the best of each. The last results are left."""
    out = work / f"out-{raw.rows}"
    runs: dict[str, list[Measured]] = {}
    for _ in range(args.rounds):
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir(parents=True)
        argvs = commands(raw, out, args)
        for name in names:
            print(f"{raw.rows:,} rows: {name}", file=sys.stderr)
            (out / name).mkdir()
            runs.setdefault(name, []).append(timed(argvs[name], out / name))
    best = {name: min(many, key=lambda one: one.cpu_seconds) for name, many in runs.items()}
    # By the clock the middle one: other programs run meanwhile.
    seconds = {name: statistics.median(one.seconds for one in many) for name, many in runs.items()}
    return {name: replace(run, seconds=seconds[name]) for name, run in best.items()}


def compare(out: Path, one: str, other: str) -> int:
    """The number of cells, if the arrays of both have the same bits."""
    cells = 0
    names = sorted(path.name for path in result(out, other).glob("*.npy"))
    for name in names:
        made, wanted = (np.load(result(out, way) / name, mmap_mode="r") for way in (one, other))
        if made.dtype != wanted.dtype:  # torchrec leaves the last day's ids in 64 bits
            wanted = wanted.astype(made.dtype)
        if made.shape != wanted.shape or (made.view(np.uint32) != wanted.view(np.uint32)).any():
            sys.exit(f"{name}: {one} and {other} differ; see {out}")
        cells += made.size
    return cells


def facts(out: Path) -> dict[str, Any]:
    """What a run says of itself: seconds of its phases, and its distinct values by column."""
    run, stats = (json.loads((out / f"{name}.json").read_bytes()) for name in ("run", "stats"))
    parts = stats["parts"]
    return {
        "phases": run["seconds"],
        "threads": run["threads"],
        "days": len(parts),
        "training": sum(part["rows"] for part in parts if part["shuffled"]),
        "distinct": [column["vocabulary"] for column in stats["sparse"]],
    }


def told(seconds: dict[str, float]) -> str:
    """The seconds of phases, the longest first."""
    ordered = sorted(seconds.items(), key=lambda one: -one[1])
    return ", ".join(f"{phase} {value:.1f}" for phase, value in ordered)


class Report:
    """The table, the figures below it, and the points for the estimate."""

    def __init__(self) -> None:
        self.table = Table(title="ingot criteo preprocess", title_justify="left")
        for heading in ("rows", "process"):
            self.table.add_column(heading)
        ratios, peaks = ("x torchrec", "by CPU"), ("peak MB", "own", "disk MB")
        for heading in ("s", "CPU s", "rows/s", "MB/s", *ratios, *peaks):
            self.table.add_column(heading, justify="right")
        self.notes: list[str] = []
        self.points: list[dict[str, Any]] = []
        self.base: tuple[float, float] | None = None  # rows/s of torchrec, by clock and by CPU

    def add(self, raw: Raw, best: dict[str, Measured], out: Path) -> None:
        """One line per process of a set."""
        for name, run in best.items():
            rates = raw.rows / run.seconds, raw.rows / run.cpu_seconds
            if name == TORCHREC:
                self.base = rates
            ratios = self._ratios(rates)
            speed = f"{rates[0]:,.0f}", f"{raw.megabytes / run.seconds:,.1f}"
            times = f"{run.seconds:.1f}", f"{run.cpu_seconds:.1f}"
            peaks = (f"{one:,.0f}" for one in (run.memory, run.own_memory, run.disk))
            self.table.add_row(f"{raw.rows:,}", name, *times, *speed, *ratios, *peaks)
            if name.startswith("ingot, ") and name not in (AS_TORCHREC, IN_ORDER):
                self._keep(raw, name, run, result(out, name))

    def _ratios(self, rates: tuple[float, float]) -> list[str]:
        if self.base is None:
            return ["", ""]
        return [f"{rate / base:.1f}" for rate, base in zip(rates, self.base, strict=True)]

    def _keep(self, raw: Raw, name: str, run: Measured, out: Path) -> None:
        known = facts(out)
        point = {"rows": raw.rows, "raw_bytes": raw.megabytes * 1e6, **asdict(run), **known}
        self.points.append({"mode": name.removeprefix("ingot, "), "left": used(out), **point})
        phases = told(known["phases"])
        left = f"{sum(known['distinct']):,} values, {used(out):,.0f} MB left"
        self.notes.append(f"{raw.rows:,} rows, {name}: {phases}; {left}")


def rows_of(
    kept: dict[int, dict[str, Measured]], name: str, functions: dict[str, float]
) -> list[Row]:
    """What docs/performance.md shows: whole commands, and the functions of torchrec alone."""
    first, last = min(kept), max(kept)
    best = kept[first]
    shuffled, data = best[name], f"Criteo, {first:,} rows, 3 days"
    two = sum(functions[each] for each in ("tsv_to_npys", "sparse_to_contiguous"))
    peers = {each: first / best[each].seconds for each in WAYS}
    rate, ceiling = first / shuffled.seconds, f"reading alone takes {best[READ].seconds:.1f} s"
    rows = [
        Row(
            job="raw days -> arrays and ids, not shuffled",
            data=data,
            unit="rows/s",
            ours=first / best[IN_ORDER].seconds,
            peers={"torchrec's two functions, without its start": first / two} | peers,
            wanted="25 times torchrec, 2.5 times the others",
            peak_mb=best[IN_ORDER].memory,
            ceiling=ceiling,
        ),
        Row(
            job="raw days -> arrays and ids, shuffled",
            data=data,
            unit="rows/s",
            ours=rate,
            peers={"torchrec's three functions": first / sum(functions.values())},
            wanted="25 times torchrec; under 600 MB",
            peak_mb=shuffled.memory,
            ceiling=ceiling,
        ),
    ]
    if last > first:
        more = Row(
            job="the same",
            data=f"Criteo, {last:,} rows, 3 days",
            unit="rows/s",
            ours=last / kept[last][name].seconds,
            peers={f"{first:,} rows": rate},
            wanted="as many a second",
            peak_mb=kept[last][name].memory,
        )
        rows.append(more)
    return rows


def run(args: argparse.Namespace, work: Path) -> None:
    """Measure and print."""
    report, kept = Report(), dict[int, dict[str, Measured]]()
    warm = generated(WARM_ROWS, args, work)
    for way in ((), LIKE_TORCHREC, ("--encode", "columns")):
        subprocess.run(preprocess(warm, work / "warm", *way), check=True, capture_output=True)
    if args.slice:
        packed, args.gz = args.gz, False  # torchrec reads no packed files
        small, out = generated(args.slice, args, work), work / f"out-{args.slice}"
        names = [TORCHREC, PLAIN, READ, AS_TORCHREC, BY_DEFAULT]
        report.add(small, measure(small, names, args, work), out)
        pairs = (AS_TORCHREC, TORCHREC), (BY_DEFAULT, PLAIN)
        seconds = json.loads((result(out, TORCHREC) / "seconds.json").read_bytes())
        report.notes.append(f"{small.rows:,} rows, torchrec: {told(seconds)}")
        cells = [compare(out, *pair) for pair in pairs]
        said = f"{cells[0]:,} cells equal to torchrec's, {cells[1]:,} to those of plain Python"
        report.notes.append(f"slice: {said}")
        args.gz = packed
    for rows in args.rows:
        raw, out = generated(rows, args, work), work / f"out-{rows}"
        names = [f"ingot, {mode}" for mode in args.modes]
        others = [] if kept or args.gz else [IN_ORDER, *WAYS, TORCHREC]
        kept[rows] = measure(raw, [READ, *names, *others], args, work)
        report.add(raw, kept[rows], out)
        for name in names[1:]:
            compare(out, names[0], name)
        for name in others[1:-1]:
            compare(out, IN_ORDER, name)
        if others:
            functions = json.loads((result(out, TORCHREC) / "seconds.json").read_bytes())
        if args.keep is None:
            shutil.rmtree(out)
            shutil.rmtree(raw.folder)
    if not args.gz:
        keep_rows(rows_of(kept, names[0], functions), args.keep_rows)
    Console(width=150).print(report.table)
    print("\n".join(report.notes))
    if args.points:
        args.points.write_text(json.dumps(report.points, indent=1))


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add_options(parser)
    parser.add_argument("--slice", type=int, default=200_000, help="rows beside torchrec, 0: none")
    parser.add_argument("--rows", type=int, nargs="+", help="sizes: 2 and 8 million")
    parser.add_argument("--days", type=int, default=3)
    parser.add_argument("--modes", nargs="*", default=["stream"], help="stream, columns")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--gz", action="store_true", help="packed files for the sizes")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--points", type=Path, metavar="FILE", help="figures for estimate.py")
    parser.add_argument("--keep", type=Path, help="work in this folder and leave it")
    args = parser.parse_args()
    args.rows = args.rows or ([200_000, 800_000] if args.quick else [2_000_000, 8_000_000])
    return args


def main() -> None:
    """Measure in a temporary folder, or in the one to keep."""
    args = options()
    if args.keep is not None:
        args.keep.mkdir(parents=True, exist_ok=True)
        run(args, args.keep)
        return
    with tempfile.TemporaryDirectory(prefix="criteo-preprocess-") as scratch:
        run(args, Path(scratch))


if __name__ == "__main__":
    main()
