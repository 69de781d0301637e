"""How fast Monolith's streams are converted, what that holds in memory, and whether it is right.

    python benchmarks/monolith/convert.py [--megabytes 60] [--slice 4] [--rounds 3]
        [--memory 10 1000] [--work DIR] [--quick] [--keep-rows FILE]

`generate.py` makes ExampleBatches of each size. First, on the slice, ingot and protobuf's own
objects (`peers.py`, upb) make Examples of them, batches of these, tables and Examples again; every
record of the two is compared by meaning, and the benchmark stops if one differs. Then each way in
turn, a process for each, in which the library is called; kernels are compiled before, and a small
stream is converted first, so that starting and loading do not count. upb is measured on the slice,
in the same sitting. `reframe` puts Examples into other frames; `read` reads the file and nothing
else.

Prints seconds and CPU seconds, rows/s, MB/s (10^6) of what was read and of what was written, upb's
rows per CPU second and how many times as many ingot has, and the peak of memory of the process
(Linux: its own high-water mark, libraries and all). Of the rounds the one of the fewest CPU
seconds, and the middle one of the seconds. With `--memory` the peaks of streams of those sizes, in
MB of what is read.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

HERE = Path(__file__).resolve().parent
sys.path.extend([str(HERE), str(HERE.parent)])

from generate import write  # noqa: E402 - beside this file
from measuring import ONE_CORE, Row, add_options, keep_rows  # noqa: E402 - beside the folder
from peers import WAYS, frames  # noqa: E402

ROWS: Final = 51
WARM: Final = 0.2  # MB
CHAIN: Final = {  # of each way: what it reads, and what it makes of it
    "batch-example": ("batches", "examples"),
    "example-batch": ("examples", "regrouped"),
    "batch-batch": ("batches", "regrouped2"),
    "reframe": ("examples", "reframed"),
    "example-parquet": ("examples", "table.parquet"),
    "parquet-example": ("table.parquet", "back"),
    "batch-parquet": ("batches", "table2.parquet"),
}
_KINDS: Final = {"batch": "examplebatch", "example": "example", "parquet": "parquet"}


@dataclass(frozen=True, kw_only=True)
class Took:
    """One conversion: seconds, those of the CPU, peak of memory in MB, MB read and written."""

    seconds: float
    cpu: float
    peak: float
    read: float
    written: float


def settings_of(way: str) -> Any:  # noqa: ANN401 - ingot's own
    """How ingot converts."""
    from ingot.converters.recsys.monolith.convert.settings import Settings
    from ingot.converters.recsys.monolith.frames.framing import Framing

    if way == "reframe":
        frames = Framing.parse("sort_id,kafka_dump")
        return Settings(source="example", target="example", out_framing=frames)
    source, target = (_KINDS[one] for one in way.split("-"))
    return Settings(source=source, target=target, skip_bad=False)  # type: ignore[arg-type]


def peak() -> float:
    """The most memory that this process had, in MB; 0 where nothing tells it."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next((int(line.split()[1]) / 1e3 for line in lines if line.startswith("VmHWM")), 0.0)


def one(way: str, by: str, source: Path, out: Path) -> None:
    """Convert a file in this process, after a small one, and print what it took."""
    if by == "ingot":
        nothing = out.with_name("warm-out")
        _convert(way, by, source.with_name(f"warm-{source.name}"), nothing)
        nothing.unlink()
    started, before = time.perf_counter(), time.process_time()
    _convert(way, by, source, out)
    cpu, seconds = time.process_time() - before, time.perf_counter() - started
    print(json.dumps([cpu, seconds, peak()]))


def _convert(way: str, by: str, source: Path, out: Path) -> None:
    if by == "upb":
        with source.open("rb") as reading, out.open("wb") as writing:
            WAYS[way](reading, writing)
        return
    from ingot.converters.recsys.monolith.convert.job import convert

    convert(str(source), str(out), settings_of(way), overwrite=True)


def took(
    way: str, by: str, folder: Path, rounds: int = 1, cores: frozenset[int] | None = None
) -> Took:
    """Convert a file in a process of its own: least CPU time, the middle one of the seconds."""
    source, out = (folder / f"{name}" for name in CHAIN[way])
    if by == "upb":  # its own table: it has other columns
        source = source.with_name(f"upb-{source.name}") if source.suffix else source
        out = out.with_name(f"upb-{out.name}")
    argv = [sys.executable, str(HERE / "convert.py"), "--one", way, by, str(source), str(out)]
    found = []
    for _ in range(rounds):
        pin = partial(os.sched_setaffinity, 0, cores) if cores else None
        done = subprocess.run(argv, check=True, capture_output=True, text=True, preexec_fn=pin)
        found.append(json.loads(done.stdout))
    cpu, _, high = min(found)
    seconds = statistics.median(each[1] for each in found)
    read, written = (path.stat().st_size / 1e6 for path in (source, out))
    return Took(seconds=seconds, cpu=cpu, peak=high, read=read, written=written)


def made(work: Path, megabytes: float) -> tuple[Path, int]:
    """A folder with a stream of batches of this size, and its rows."""
    folder = work / f"{megabytes:g}"
    folder.mkdir(parents=True, exist_ok=True)
    return folder, write(folder / "batches", megabytes, ROWS)


def warm(folder: Path) -> None:
    """Small files of what is read, beside the large ones."""
    write(folder / "warm-batches", WARM, ROWS)
    _convert("batch-example", "ingot", folder / "warm-batches", folder / "warm-examples")
    table = folder / "warm-table.parquet"
    _convert("example-parquet", "ingot", folder / "warm-examples", table)


def records(path: Path) -> Iterator[bytes]:
    """The messages of a stream in default frames."""
    with path.open("rb") as file:
        yield from frames(file)


def compare(folder: Path) -> int:
    """Stop where ingot and protobuf's objects made different things; gives the records compared."""
    from ingot.schemas.monolith.example_pb2 import Example, ExampleBatch

    kinds = {"examples": Example, "regrouped": ExampleBatch, "back": Example}
    count = 0
    for name, kind in kinds.items():
        pairs = zip(records(folder / name), records(folder / f"upb-{name}"), strict=True)
        for number, (mine, theirs) in enumerate(pairs):
            if _said(kind.FromString(mine)) != _said(kind.FromString(theirs)):
                sys.exit(f"record {number} of {name} differs")
            count += 1
    return count


def _said(message: Any) -> Any:  # noqa: ANN401 - an Example or a batch
    """A message with the LineIds in its bytes as objects, whose unknown fields have no order."""
    from ingot.schemas.monolith.line_id_pb2 import LineId

    for each in getattr(message, "named_feature_list", ()):
        if each.name == "__LINE_ID__":
            for feature in each.feature:
                line = LineId.FromString(feature.bytes_list.value[0])
                feature.bytes_list.value[0] = line.SerializeToString(deterministic=True)
    return message


def speeds(work: Path, megabytes: float, share: float, rounds: int, kept: Path | None) -> None:
    """Print how fast each way is."""
    folder, rows = made(work, megabytes)
    small, few = made(work, share)
    warm(folder)
    warm(small)
    theirs = {}
    for way in CHAIN:
        took(way, "ingot", small)
        if way in WAYS:
            theirs[way] = few / took(way, "upb", small, rounds).cpu  # it uses one core
    print(f"{compare(small):,} records of ingot and upb compared: equal in meaning")
    started = time.perf_counter()
    with (folder / "batches").open("rb", buffering=0) as file:
        while file.read(1 << 24):
            pass
    seconds = time.perf_counter() - started
    print(f"read: {(folder / 'batches').stat().st_size / 1e6 / seconds:,.0f} MB/s")
    print(f"{rows:,} rows ({few:,} with upb)\n")
    print("| way | s | CPU s | rows/s | MB/s read | MB/s written | upb rows/s | times | peak MB |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for way in CHAIN:
        each = took(way, "ingot", folder, rounds)
        _tell(way, each, rows, theirs.get(way))
        if way in theirs:
            alone = took(way, "ingot", folder, rounds, ONE_CORE)
            keep_rows([_row(way, each, alone, rows, theirs[way])], kept)


def _row(way: str, each: Took, alone: Took, rows: int, other: float) -> Row:
    """What docs/performance.md shows."""
    source, target = way.split("-")
    return Row(
        job=f"Monolith {source} -> {target}",
        data=f"{rows:,} rows, {each.read:,.0f} MB to {each.written:,.0f} MB",
        unit="rows/s",
        ours=rows / each.seconds,
        peers={"protobuf's objects, on fewer rows": other, "one core": rows / alone.seconds},
        wanted=("10" if "parquet" in way else "40") + " times protobuf's, 1.7 of one core",
        peak_mb=each.peak,
    )


def _tell(way: str, each: Took, rows: int, other: float | None) -> None:
    pace = f"{each.read / each.seconds:,.0f} | {each.written / each.seconds:,.0f}"
    peer = f"{other:,.0f} | {rows / each.cpu / other:,.1f}" if other else " | "
    took_ = f"{each.seconds:.2f} | {each.cpu:.2f} | {rows / each.seconds:,.0f}"
    print(f"| {way} | {took_} | {pace} | {peer} | {each.peak:,.0f} |")


def memory(work: Path, sizes: list[float]) -> None:
    """Print the peaks of memory of streams of some sizes, in each way."""
    print("\n| way | " + " | ".join(f"{size:g} MB read" for size in sizes) + " |")
    print("| --- |" + " --- |" * len(sizes))
    found: dict[str, list[str]] = {}
    for size in sizes:
        folder = work / f"memory-{size:g}"
        folder.mkdir(parents=True, exist_ok=True)
        warm(folder)
        write(folder / "fewer", size / _GROWTH, ROWS)
        write(folder / "batches", size, ROWS)
        _convert("batch-example", "ingot", folder / "fewer", folder / "examples")
        for way in IN_MEMORY:
            found.setdefault(way, []).append(f"{_peak_of(way, folder):,.0f}")
    for way, peaks in found.items():
        print(f"| {way} | {' | '.join(peaks)} |")


def _peak_of(way: str, folder: Path) -> float:
    """The peak; what was made is not kept, unless another way reads it."""
    if way == "batch-example":  # the Examples that others read are of another size
        (folder / "examples").rename(folder / "kept")
    high = took(way, "ingot", folder).peak
    if CHAIN[way][1] != "table.parquet":
        (folder / CHAIN[way][1]).unlink()
    if way == "batch-example":
        (folder / "kept").rename(folder / "examples")
    return high


IN_MEMORY: Final = (
    "batch-example",
    "example-batch",
    "batch-batch",
    "reframe",
    "example-parquet",
    "parquet-example",
)
_GROWTH: Final = 5.3  # MB of Examples for each MB of batches


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_options(parser)
    parser.add_argument("--megabytes", type=float, help="60, or 6 with --quick; 0: none")
    parser.add_argument("--slice", type=float, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--memory", type=float, nargs="*", default=[])
    parser.add_argument("--work", type=Path)
    parser.add_argument("--one", nargs=4, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.megabytes is None:
        args.megabytes = 6 if args.quick else 60
    if args.one:
        way, by, source, out = args.one
        one(way, by, Path(source), Path(out))
        return
    if args.work is not None:
        args.work.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=args.work) as work:
        if args.megabytes:
            speeds(Path(work), args.megabytes, args.slice, args.rounds, args.keep_rows)
        if args.memory:
            memory(Path(work), args.memory)


if __name__ == "__main__":
    main()
