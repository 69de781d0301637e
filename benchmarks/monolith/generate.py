"""Streams of ExampleBatches in the shape of the public sample, with other values.

    python benchmarks/monolith/generate.py OUT --megabytes 1000 [--rows 51] [--shapes 16] [--seed 7]

The sample (`tests/golden/monolith/example_batch.pb`) has 51 rows of 139 lists: 5,998 unset
features, 989 lists of fids of version 1, a LineId and a label for each row; 3.8 kB a row as
Examples. A shape is a batch of rows drawn from it. Each batch that is written is one of the shapes,
in turn, with fids, labels and user ids of its own: a fid keeps its slot, and its signature is a
mixed number of heavy tail, so that values repeat as ids do. Frames are Monolith's default, with a
sort_id of no bytes. The same options give the same bytes; memory is the shapes and a batch.
"""

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ingot.schemas.monolith.example_pb2 import ExampleBatch
from ingot.schemas.monolith.line_id_pb2 import LineId

SAMPLE: Final = Path(__file__).parents[2] / "tests/golden/monolith/example_batch.pb"
UID, LABEL = b"\xf1uidUID\xf1", b"\xf3lab"  # stand where values are put in
MIX: Final = np.uint64(0x9E3779B97F4A7C15)
SIGNATURE: Final = np.uint64((1 << 54) - 1)


@dataclass(frozen=True, kw_only=True)
class Shape:
    """A batch, framed, and where its values stand.

    Attributes:
        data: uint8[B].
        fids: int64[F], the places of fids.
        slots: uint64[F], what these keep.
        uids: int64[R], the places of user ids.
        labels: int64[R], the places of labels.
    """

    data: NDArray[np.uint8]
    fids: NDArray[np.int64]
    slots: NDArray[np.uint64]
    uids: NDArray[np.int64]
    labels: NDArray[np.int64]


def places(data: bytes, mark: bytes) -> NDArray[np.int64]:
    """Where bytes occur."""
    found, at = [], data.find(mark)
    while at >= 0:
        found.append(at)
        at = data.find(mark, at + len(mark))
    return np.array(found, np.int64)


def shape(sample: ExampleBatch, rows: NDArray[np.int64]) -> Shape:
    """The batch of some rows of the sample, with marks where values are put in."""
    batch = ExampleBatch(batch_size=len(rows))
    slots: list[int] = []
    for each in sample.named_feature_list:
        out = batch.named_feature_list.add(name=each.name, id=each.id)
        for row in rows:
            feature = out.feature.add()
            feature.CopyFrom(each.feature[row])
            _mark(each.name, feature, slots)
    message = batch.SerializeToString()
    data = bytes(8) + len(message).to_bytes(8, "little") + message
    fids = [places(data, fid_mark(number))[0] for number in range(len(slots))]
    return Shape(
        data=np.frombuffer(data, np.uint8),
        fids=np.array(fids, np.int64),
        slots=np.array(slots, np.uint64),
        uids=places(data, UID),
        labels=places(data, LABEL),
    )


def fid_mark(number: int) -> bytes:
    """Eight bytes that stand for a fid."""
    return b"\xf4fid" + number.to_bytes(4, "little")


def _mark(name: str, feature: Any, slots: list[int]) -> None:  # noqa: ANN401 - a Feature
    if name == "__LINE_ID__":
        line = LineId.FromString(feature.bytes_list.value[0])
        line.uid = int.from_bytes(UID, "little")
        feature.bytes_list.value[0] = line.SerializeToString()
    elif name == "__LABEL__":
        del feature.float_list.value[:]
        feature.float_list.MergeFromString(b"\x0a\x04" + LABEL)
    for at, fid in enumerate(feature.fid_v1_list.value):
        feature.fid_v1_list.value[at] = int.from_bytes(fid_mark(len(slots)), "little")
        slots.append(fid >> 54 << 54)


def filled(one: Shape, random: np.random.Generator) -> NDArray[np.uint8]:
    """uint8[B], a batch of a shape with values of its own."""
    data = one.data.copy()
    which = np.floor(random.pareto(0.9, len(one.fids))).astype(np.uint64)
    _put(data, one.fids, one.slots | ((which + one.slots) * MIX & SIGNATURE))
    users = np.floor(random.pareto(0.5, len(one.uids))).astype(np.uint64)
    _put(data, one.uids, users * MIX)
    _put(data, one.labels, (random.random(len(one.labels)) < 0.1).astype(np.float32))
    return data


def _put(data: NDArray[np.uint8], at: NDArray[np.int64], values: NDArray[Any]) -> None:
    """Write numbers at places."""
    each = values.dtype.itemsize
    data[at[:, None] + np.arange(each)] = values.view(np.uint8).reshape(-1, each)


def write(out: Path, megabytes: float, rows: int = 51, shapes: int = 16, seed: int = 7) -> int:
    """Write a stream of at least so many MB (10^6 bytes); gives its rows."""
    random = np.random.default_rng(seed)
    sample = ExampleBatch.FromString(SAMPLE.read_bytes())
    made = [shape(sample, random.integers(0, sample.batch_size, rows)) for _ in range(shapes)]
    written = count = 0
    with out.open("wb") as file:
        while written < megabytes * 1e6:
            data = filled(made[count % shapes], random)
            written += file.write(data.tobytes())
            count += 1
    return count * rows


def main() -> None:
    """Write one stream."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--megabytes", type=float, default=100)
    parser.add_argument("--rows", type=int, default=51)
    parser.add_argument("--shapes", type=int, default=16)
    parser.add_argument("--seed", type=int, default=7)
    args = parser.parse_args()
    rows = write(args.out, args.megabytes, args.rows, args.shapes, args.seed)
    print(f"{rows:,} rows, {args.out.stat().st_size / 1e6:,.1f} MB", file=sys.stderr)


if __name__ == "__main__":
    main()
