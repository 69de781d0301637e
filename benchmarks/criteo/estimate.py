"""What the full terabyte set would take, reckoned from measured runs: memory, disk, time.

    python benchmarks/criteo/estimate.py POINTS [--costs FILE] [--disk 500 1000 3000]

POINTS is what `preprocess.py --points` wrote for several sizes, FILE what `costs.py --out` wrote.
Nothing here was run at that size. The arithmetic:

* rows, training rows and the different values of each column are the published ones;
* memory. A map has slots of 8 bytes, a power of two of which at most 70 % are taken, and 4 bytes a
  value for its count; while it is doubled the old ones are there too; the largest ones are there
  together, as many as there are threads (columns: one). Vocabularies are written in pieces. The
  shuffle has 4 bytes and a bit a training row, and a bucket for each thread, as records and in
  order. To the larger of the two comes what the smallest run had beyond it;
* disk. 160 bytes a row as read, 4 a row for each column that gets its ids; 164 a training row in
  the buckets and 4 for its place, each part's 160 being dropped when it has been put there; 160 a
  row in the end, and the vocabularies;
* time. A straight line through the measured seconds of each phase, over rows (of vocabularies: over
  values), its slope times the full size; a single run is taken as a line through nothing. With
  `--costs`: what maps of the full size cost more than those of the largest measured run did, for
  each column by its number of values, shared by the threads; the permutation and the writes to
  4,001 files likewise. Beyond what `costs.py` went up to, each doubling costs as much more as the
  last ones measured did on average;
* the disk's time comes to that where it does not keep up: bytes read and written over its speed.
  What a small run reads was in memory already, so the sum is the pessimistic figure.
"""

import argparse
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

Point = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Size:
    """Of a set.

    Attributes:
        rows: of all days.
        training: of those that are shuffled.
        days: how many.
        distinct: values of each column.
    """

    rows: int
    training: int
    days: int
    distinct: tuple[int, ...]

    @classmethod
    def of(cls, point: Point) -> "Size":
        """Of a measured run."""
        known = {name: point[name] for name in ("rows", "training", "days")}
        return cls(**known, distinct=tuple(point["distinct"]))


FULL: Final = Size(
    rows=4_373_472_329,
    training=4_195_197_692,
    days=24,
    distinct=(
        *(227_605_432, 39_060, 17_295, 7_424, 20_265, 3, 7_122, 1_543, 63, 130_229_467),
        *(3_067_956, 405_282, 10, 2_209, 11_938, 155, 4, 976, 14, 292_775_614),
        *(40_790_948, 187_188_510, 590_152, 12_973, 108, 36),
    ),
)
SLOT, COUNT, LOAD, LEAST_SLOTS = 8, 4, 0.7, 1 << 10
READ_ROW, RECORD, PLACE, IDS, KEPT = 160, 164, 4, 104, 8  # bytes; the last is about
SPARSE: Final = 26  # columns
BUCKET: Final = 1 << 20
PERMUTATION: Final = 4 + 1 / 8
GB: Final = 1e9


def slots(values: int) -> int:
    """Of a map that holds so many values."""
    return max(LEAST_SLOTS, 1 << max(0, math.ceil(math.log2(values / LOAD))) if values else 0)


def map_bytes(values: int) -> int:
    """A map as it stays."""
    return SLOT * slots(values) + COUNT * values


def doubling_bytes(values: int) -> float:
    """What is there beside the new slots while a map is doubled for the last time."""
    half = slots(values) // 2
    return (SLOT + COUNT * LOAD) * half if half >= LEAST_SLOTS else 0.0


@dataclass(frozen=True, kw_only=True)
class Memory:
    """Bytes at the height of each step."""

    read: float
    shuffle: float
    beside: float

    @property
    def peak(self) -> float:
        """The larger of the two with what is there always."""
        return max(self.read, self.shuffle) + self.beside


def memory(mode: str, threads: int, size: Size, beside: float = 0.0) -> Memory:
    """Of a run over a set of this size."""
    maps = sorted((map_bytes(one) + doubling_bytes(one) for one in size.distinct), reverse=True)
    read = sum(maps[: columns_at_a_time(mode, threads)])
    buckets = threads * min(BUCKET, size.training) * (RECORD + READ_ROW)
    shuffle = PERMUTATION * size.training + buckets
    return Memory(read=read, shuffle=shuffle, beside=beside)


def beside(points: Sequence[Point]) -> float:
    """What the smallest run had beyond its maps or its shuffle, whichever is more."""
    least = min(points, key=lambda point: point["rows"])
    known = memory(least["mode"], least["threads"], Size.of(least))
    return max(0.0, float(least["own_memory"]) * 1e6 - known.peak)


def line(xs: Sequence[float], ys: Sequence[float]) -> float:
    """The slope of the straight line through points; through nothing if there is one."""
    mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
    spread = sum((x - mean_x) ** 2 for x in xs)
    if not spread:
        return mean_y / mean_x
    slope = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True)) / spread
    return max(slope, 0.0)


def phases(points: Sequence[Point], size: Size) -> dict[str, float]:
    """Seconds of each phase at a size, on lines through the points."""
    names = dict.fromkeys(name for point in points for name in point["phases"])
    made = {}
    for name in names:
        ys = [point["phases"].get(name, 0.0) for point in points]
        made[name] = line([point["rows"] for point in points], ys) * size.rows
    return made


def curve(figures: Sequence[dict[str, float]], size: str, cost: str) -> Callable[[float], float]:
    """A cost by the logarithm of a size: straight between what was measured, and beyond it.

    The slope beyond is that of the last four figures, or of all.
    """
    xs, ys = [math.log2(one[size]) for one in figures], [one[cost] for one in figures]

    def at(value: float) -> float:
        x = math.log2(max(value, 1))
        if x >= xs[-1]:
            return ys[-1] + line(xs[-4:], ys[-4:]) * (x - xs[-1]) if len(xs) > 1 else ys[-1]
        if x <= xs[0]:
            return ys[0]
        above = next(k for k, known in enumerate(xs) if known > x)
        share = (x - xs[above - 1]) / (xs[above] - xs[above - 1])
        return ys[above - 1] + share * (ys[above] - ys[above - 1])

    return at


def larger(costs: Point, largest: Point) -> dict[str, float]:
    """Seconds that the full size costs beyond the lines, by what for."""
    cell = curve(costs["maps"], "values", "cell_ns")
    pairs = zip(FULL.distinct, largest["distinct"], strict=True)
    more = sum(max(0.0, cell(full) - cell(seen)) for full, seen in pairs)
    row = curve(costs["permutation"], "rows", "row_ns")
    permutation = max(0.0, row(FULL.training) - row(largest["training"]))
    few, many = costs["scatter"]
    files = max(0.0, many["row_ns"] - few["row_ns"]) * costs["threads"] / largest["threads"]
    return {
        "larger maps": more * FULL.rows / largest["threads"] * 1e-9,
        "a larger permutation": permutation * FULL.training * 1e-9,
        "more files": files * FULL.training * 1e-9,
        "waiting for them": many["sync_ms_per_file"] * many["files"] * (FULL.days - 1) * 1e-3,
    }


def moved(size: Size, raw: float) -> float:
    """Bytes read and written; `raw` is the size of the files."""
    rows = 2 * (READ_ROW + IDS) * size.rows  # written once and read once, as values and as ids
    values = KEPT * sum(size.distinct)
    buckets = 2 * (RECORD + PLACE) * size.training
    return raw + rows + values + buckets + 2 * READ_ROW * size.rows  # the last for hashes


def peak_disk(size: Size, columns: int) -> dict[str, float]:
    """Bytes at the height of each step, beside the raw files; so many columns at a time get ids."""
    rows, kept = READ_ROW * size.rows, KEPT * sum(size.distinct)
    more = (RECORD + PLACE - READ_ROW) * size.training + rows / size.days
    return {
        "columns getting their ids": rows + columns * IDS / SPARSE * size.rows,
        "the last part going to the buckets": rows + kept + more,
        "the result": rows + kept,
    }


def columns_at_a_time(mode: str, threads: int) -> int:
    """How many columns get their ids at a time."""
    return threads if mode == "stream" else 1


def hours(seconds: float) -> str:
    """As text."""
    return f"{seconds / 3600:6.2f} h"


def checked(points: Sequence[Point]) -> list[str]:
    """What the formulae say of the runs themselves, beside what was measured."""
    lines = [f"  {'rows':>12}{'own MB':>10}{'reckoned':>10}{'disk MB':>10}{'reckoned':>10}"]
    lines[0] += f"{'s':>9}{'line':>9}"
    for point in points:
        size = Size.of(point)
        held = memory(point["mode"], point["threads"], size, beside(points)).peak / 1e6
        columns = columns_at_a_time(point["mode"], point["threads"])
        left = max(peak_disk(size, columns).values()) / 1e6
        took = sum(point["phases"].values()), sum(phases(points, size).values())
        figures = (point["own_memory"], held, point["disk"], left)
        lines.append(f"  {size.rows:>12,}" + "".join(f"{one:>10,.0f}" for one in figures))
        lines[-1] += "".join(f"{one:>9.1f}" for one in took)
    return lines


def told(points: Sequence[Point], costs: Point | None, disks: Sequence[float]) -> list[str]:
    """The estimate of one mode, line by line."""
    largest = max(points, key=lambda point: point["rows"])
    mode, threads = largest["mode"], largest["threads"]
    lines = [f"{mode}, {threads} threads: what was measured", *checked(points)]
    lines += ["", f"the full set, {FULL.rows:,} rows: memory"]
    known = memory(mode, threads, FULL, beside(points))
    for name in ("read", "shuffle", "beside", "peak"):
        lines.append(f"  {name:<36}{getattr(known, name) / GB:9.2f} GB")
    lines += ["", "disk, beside the raw files"]
    peaks = peak_disk(FULL, columns_at_a_time(mode, threads))
    lines += [f"  {name:<36}{size / GB:9.1f} GB" for name, size in peaks.items()]
    lines += ["", "time on processors, if the disk keeps up"]
    seconds = phases(points, FULL) | (larger(costs, largest) if costs else {})
    lines += [f"  {name:<36}{hours(one)}" for name, one in seconds.items()]
    total = sum(seconds.values())
    lines.append(f"  {'together':<36}{hours(total)}  {FULL.rows / total:,.0f} rows/s")
    data = moved(FULL, largest["raw_bytes"] / largest["rows"] * FULL.rows)
    lines += ["", f"time of the disk, {data / 1e12:.2f} TB read and written"]
    for speed in disks:
        own = data / (speed * 1e6)
        lines.append(f"  at {speed:5,.0f} MB/s {hours(own)}, with the above {hours(total + own)}")
    return lines


def main(argv: list[str] | None = None) -> None:
    """Tell the estimate of each mode that was measured."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("points", type=Path)
    parser.add_argument("--costs", type=Path)
    parser.add_argument("--disk", type=float, nargs="+", default=[500, 1000, 3000], help="MB/s")
    args = parser.parse_args(argv)
    points = json.loads(args.points.read_bytes())
    costs = json.loads(args.costs.read_bytes()) if args.costs else None
    for mode in dict.fromkeys(point["mode"] for point in points):
        some = [point for point in points if point["mode"] == mode]
        print("\n".join(told(some, costs, args.disk)), end="\n\n")


if __name__ == "__main__":
    main()
