"""Rows per second of the loader beside row dicts and `collate_fn`, on one process.

Run: .venv/bin/python benchmarks/ctr/loader.py [--rows N] [--data DIR/train] [--workers N]
    [--quick] [--keep-rows FILE]

Without --data a split with the 23 features of Ali-CCP is made: lists as long as theirs (geometric,
with the public set's mean numbers of tokens, cut to `max_len`), ids of a heavy-tailed distribution.
The batches of all ways are compared first; then each runs in turn, one loader for all of its epochs
as in a training, and the medians are told. The ratio of processor seconds is the one to trust where
other programs run meanwhile.
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch.utils.data import DataLoader

from ingot.converters.recsys.ctr import ProcessedIterDataset, build_dataloader, collate_fn
from ingot.converters.recsys.ctr.contract import processed_schema
from ingot.converters.recsys.ctr.featuremap import Feature, FeatureMap, load

sys.path.append(str(Path(__file__).resolve().parent.parent))

from measuring import Row, add_options, keep_rows

MEANS: Final = {"110_14": 250.1, "127_14": 153.7, "150_14": 135.9, "109_14": 69.0, "210": 6.1}
Way = Callable[[], Iterator[Any]]
ROW_DICTS, DECODING, COPYING = "row dicts, collate_fn", "decoding alone", "copying alone"


def write_split(folder: Path, rows: int, group: int) -> None:
    featuremap = load("aliccp")
    rng = np.random.default_rng(0)
    schema = processed_schema(featuremap)
    with pq.ParquetWriter(folder / "part-00000.parquet", schema, compression="snappy") as writer:
        for start in range(0, rows, group):
            count = min(group, rows - start)
            columns = labels(start, count, rng) | features(featuremap, count, rng)
            batch = pa.RecordBatch.from_arrays(
                [columns[name] for name in schema.names], schema=schema
            )
            writer.write_batch(batch, row_group_size=group)


def labels(start: int, count: int, rng: np.random.Generator) -> dict[str, pa.Array]:
    click = (rng.random(count) < 0.04).astype(np.float32)
    bought = click * (rng.random(count) < 0.005).astype(np.float32)
    entities = rng.zipf(1.2, count) % 730_600
    return {
        **{
            "y_ctr": pa.array(click),
            "y_cvr": pa.array(bought),
            "y_ctcvr": pa.array(click * bought),
        },
        "click_mask": pa.array(click),
        "row_id": pa.array(np.arange(start, start + count)),
        "entity_id": pa.array([f"{one:016x}" for one in entities.tolist()]),
    }


def features(featuremap: FeatureMap, count: int, rng: np.random.Generator) -> dict[str, pa.Array]:
    columns: dict[str, pa.Array] = {}
    for one in featuremap.features:
        columns |= cells(one, count, rng)
    return columns


def cells(one: Feature, count: int, rng: np.random.Generator) -> dict[str, pa.Array]:
    sizes = np.ones(count, np.int64)
    if one.max_len is not None:
        sizes = np.minimum(rng.geometric(1 / MEANS.get(one.field, 1.4), count), one.max_len)
    total = int(sizes.sum())
    ids = pa.array(3 + rng.zipf(1.3, total) % (one.num_embeddings() - 3))
    values = pa.array(np.log1p(rng.integers(1, 50, total)).astype(np.float32))
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)

    def column(flat: pa.Array, kind: pa.DataType) -> pa.Array:
        made = pa.ListArray.from_arrays(pa.array(offsets), flat) if one.max_len else flat
        return made.cast(kind)

    element = pa.field("element", pa.int64(), nullable=False)
    floats = pa.field("element", pa.float32(), nullable=False)
    columns = {f"{one.name}_idx": column(ids, pa.list_(element) if one.max_len else pa.int64())}
    if one.use_value:
        kind = pa.list_(floats) if one.max_len else pa.float32()
        columns[f"{one.name}_val"] = column(values, kind)
    return columns


def ways(data: Path, cache: Path, size: int, workers: int) -> dict[str, Way]:
    dataset = ProcessedIterDataset(data)
    collate = partial(collate_fn, feature_meta=dataset.feature_meta)
    by_row = DataLoader(dataset, batch_size=size, collate_fn=collate, num_workers=workers)
    loaders: dict[str, Any] = {}

    def decoded() -> Iterator[Any]:
        for path in sorted(data.glob("*.parquet")):
            for batch in pq.ParquetFile(path).iter_batches(8192):
                yield {"labels": {"entity_id": batch.column("entity_id")}}

    def batches(**options: Any) -> Iterator[Any]:  # noqa: ANN401
        named = repr(options)
        if named not in loaders:
            loaders[named] = build_dataloader(data, size, num_workers=workers, **options)
        return iter(loaders[named])

    return {
        ROW_DICTS: lambda: iter(by_row),
        "build_dataloader": batches,
        "  shuffled": partial(batches, shuffle=True),
        "  jagged": partial(batches, jagged=True),
        "  cache": partial(batches, cache=cache),
        "  cache, shuffled": partial(batches, cache=cache, shuffle=True),
        "  cache, jagged": partial(batches, cache=cache, jagged=True),
        DECODING: decoded,
        COPYING: partial(copied, batches, cache),
    }


def copied(batches: Callable[..., Iterator[Any]], cache: Path) -> Iterator[Any]:
    """The bytes of the cache copied to memory as large as that of the batches, the rest filled."""
    (stored,) = cache.glob("*.arrow")
    if not SIZES:
        SIZES.extend(map(size_of, batches(cache=cache)))
        return
    mapped, rows = np.memmap(stored, np.uint8, "r"), sum(count for count, _ in SIZES)
    at = 0
    for count, padded in SIZES:
        own = mapped[at : at + len(mapped) * count // rows]
        block = np.empty(padded, np.uint8)
        block[: len(own)] = own
        block[len(own) :] = 0
        at += len(own)
        yield {"labels": {"entity_id": range(count)}}


SIZES: Final[list[tuple[int, int]]] = []
"""Rows and bytes of each batch."""


def size_of(batch: Any) -> tuple[int, int]:  # noqa: ANN401
    cells = [each[key] for each in batch["features"].values() for key in ("idx", "val")]
    size = sum(one.nbytes for one in cells if one is not None)
    return len(batch["labels"]["entity_id"]), size


def compare(made: dict[str, Way], batches: int) -> None:
    for name in ("build_dataloader", "  cache"):
        for number, (one, other) in enumerate(zip(made[ROW_DICTS](), made[name](), strict=False)):
            if number == batches:
                break
            if not same(one, other):
                raise SystemExit(f"batch {number} of {name.strip()} is not that of collate_fn")


def same(one: Any, other: Any) -> bool:  # noqa: ANN401
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    return bool(one == other)


_TICK = 1 / os.sysconf("SC_CLK_TCK")  # what processor time is counted in: a short pass has none


@dataclass(frozen=True, kw_only=True)
class Took:
    """A pass: its rows, its seconds, those of all processors together."""

    rows: int
    wall: float
    processors: float


def took(way: Way) -> Took:
    start, before = time.perf_counter(), spent()
    rows = sum(len(batch["labels"]["entity_id"]) for batch in way())
    return Took(
        rows=rows, wall=time.perf_counter() - start, processors=max(spent() - before, _TICK)
    )


def spent() -> float:
    """Processor seconds of this process and of the workers that have ended."""
    return sum(os.times()[:4])


def measure(made: dict[str, Way], runs: int) -> dict[str, float]:
    """Print what each way takes, and return its rows/s."""
    passes: dict[str, list[Took]] = {name: [] for name in made}
    for _ in range(runs):
        for name, way in made.items():
            passes[name].append(took(way))
    print(
        f"{'':24}{'rows/s':>10}{'ratio':>8}{'rows/CPU s':>13}{'ratio':>8}   rows/s of {runs} runs"
    )
    base: tuple[float, float] | None = None
    rates = {}
    for name, each in passes.items():
        wall = statistics.median(one.rows / one.wall for one in each)
        processors = statistics.median(one.rows / one.processors for one in each)
        base = base or (wall, processors)
        rates[name.strip()] = wall
        told = " ".join(f"{one.rows / one.wall:,.0f}" for one in each)
        print(
            f"{name:24}{wall:10,.0f}{wall / base[0]:8.1f}"
            f"{processors:13,.0f}{processors / base[1]:8.1f}   {told}"
        )
    return rates


def rows_of(rates: dict[str, float], asked: argparse.Namespace) -> list[Row]:
    """What docs/performance.md shows."""

    def row(job: str, name: str, beside: str, wanted: str, ceiling: str = "") -> Row:
        data = f"{asked.rows:,} rows, 23 features, batches of {asked.batch_size:,}"
        peers = {beside: rates[beside]}
        return Row(
            job=job,
            data=data,
            unit="rows/s",
            ours=rates[name],
            peers=peers,
            wanted=wanted,
            ceiling=ceiling,
        )

    rows, padded = (sum(some) for some in zip(*SIZES, strict=True))
    decoding = f"pyarrow decodes {rates[DECODING]:,.0f} rows/s of these files"
    copying = f"the cache copied to {padded / rows:,.0f} bytes a row, with nothing else: "
    copying += f"{rates[COPYING]:,.0f} rows/s"
    return [
        row("batches of Parquet", "build_dataloader", ROW_DICTS, "25 times", decoding),
        row("batches of the cache", "cache", ROW_DICTS, "100 times", copying),
        row("shuffled batches of Parquet", "shuffled", "build_dataloader", "0.5", decoding),
        row("shuffled batches of the cache", "cache, shuffled", "cache", "0.5", copying),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add_options(parser)
    parser.add_argument("--rows", type=int, help="131,072, or 16,384 with --quick")
    parser.add_argument("--group", type=int, default=16_384, help="rows of a row group")
    parser.add_argument("--batch-size", type=int, default=4096)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--data", type=Path)
    asked = parser.parse_args()
    asked.rows = asked.rows or (16_384 if asked.quick else 131_072)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        data = asked.data or Path(folder) / "train"
        if asked.data is None:
            data.mkdir()
            write_split(data, asked.rows, asked.group)
        made = ways(data, Path(folder) / "cache", asked.batch_size, asked.workers)
        compare(made, 3)
        list(made[COPYING]())  # finds out how much there is to copy
        keep_rows(rows_of(measure(made, asked.runs), asked), asked.keep_rows)


if __name__ == "__main__":
    main()
