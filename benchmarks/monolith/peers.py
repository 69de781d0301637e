"""The same conversions with protobuf's own objects, as `convert.py` measures them beside ingot.

    python benchmarks/monolith/peers.py WAY IN OUT

WAY is one of `WAYS`. Streams are in Monolith's default frames. Nothing of ingot is used but the
generated code.
"""

import struct
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final

from ingot.schemas.monolith.example_pb2 import SHARED, Example, ExampleBatch
from ingot.schemas.monolith.line_id_pb2 import LineId

BATCH: Final = 512


def frames(file: BinaryIO) -> Iterator[bytes]:
    """The messages of a stream."""
    while head := file.read(16):
        yield file.read(struct.unpack("<QQ", head)[1])


def put(file: BinaryIO, message: bytes) -> None:
    """Append a message."""
    file.write(struct.pack("<QQ", 0, len(message)) + message)


def rows(batch: ExampleBatch) -> Iterator[Example]:
    """The rows of a batch, as Monolith makes them."""
    for row in range(batch.batch_size):
        example = Example(data_source_key=batch.data_source_key)
        for each in batch.named_feature_list:
            feature = each.feature[0 if each.type == SHARED else row]
            if each.name == "__LINE_ID__":
                example.line_id.ParseFromString(feature.bytes_list.value[0])
            elif each.name == "__LABEL__":
                example.label.extend(feature.float_list.value)
            else:
                named = example.named_feature.add(name=each.name, id=each.id)
                named.feature.MergeFrom(feature)
        yield example


def batch_to_example(source: BinaryIO, out: BinaryIO) -> int:
    """ExampleBatches as Examples."""
    count = 0
    for message in frames(source):
        for example in rows(ExampleBatch.FromString(message)):
            put(out, example.SerializeToString())
            count += 1
    return count


def example_to_batch(source: BinaryIO, out: BinaryIO) -> int:
    """Examples as ExampleBatches, whose rows all have the same features, each once."""
    count, waiting = 0, []
    for message in frames(source):
        waiting.append(Example.FromString(message))
        count += 1
        if len(waiting) == BATCH:
            put(out, grouped(waiting).SerializeToString())
            waiting = []
    if waiting:
        put(out, grouped(waiting).SerializeToString())
    return count


def grouped(examples: list[Example]) -> ExampleBatch:
    """The batch of some rows."""
    batch = ExampleBatch(batch_size=len(examples), data_source_key=examples[0].data_source_key)
    for at, named in enumerate(examples[0].named_feature):
        each = batch.named_feature_list.add(name=named.name, id=named.id)
        features = [example.named_feature[at].feature for example in examples]
        contents = {feature.SerializeToString() for feature in features}
        if len(contents) == 1 and len(examples) > 1:
            each.type, features = SHARED, features[:1]
        each.feature.extend(features)
    lines = batch.named_feature_list.add(name="__LINE_ID__")
    labels = batch.named_feature_list.add(name="__LABEL__")
    for example in examples:
        lines.feature.add().bytes_list.value.append(example.line_id.SerializeToString())
        labels.feature.add().float_list.value.extend(example.label)
    return batch


def example_to_parquet(source: BinaryIO, out: BinaryIO) -> int:
    """Examples as a table of their fids, labels and LineIds (serialized)."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns: dict[str, list[Any]] = {}
    count = 0
    for message in frames(source):
        example = Example.FromString(message)
        for named in example.named_feature:
            kind = named.feature.WhichOneof("type")
            values = list(named.feature.fid_v1_list.value) if kind == "fid_v1_list" else None
            columns.setdefault(named.name, []).append(values)
        columns.setdefault("__LABEL__", []).append(list(example.label))
        columns.setdefault("__LINE_ID__", []).append(example.line_id.SerializeToString())
        count += 1
    fids = pa.list_(pa.uint64())
    kinds = {"__LABEL__": pa.list_(pa.float32()), "__LINE_ID__": pa.binary()}
    arrays = {name: pa.array(each, kinds.get(name, fids)) for name, each in columns.items()}
    pq.write_table(pa.table(arrays), out, compression="zstd")
    return count


def parquet_to_example(source: BinaryIO, out: BinaryIO) -> int:
    """The table that `example_to_parquet` writes as Examples."""
    import pyarrow.parquet as pq

    count = 0
    for part in pq.ParquetFile(source).iter_batches(1024):
        for row in part.to_pylist():
            put(out, _example(row).SerializeToString())
            count += 1
    return count


def _example(row: dict[str, Any]) -> Example:
    example = Example(label=row.pop("__LABEL__"), line_id=LineId.FromString(row.pop("__LINE_ID__")))
    for name, values in row.items():
        feature = example.named_feature.add(name=name).feature
        if values is None:
            feature.SetInParent()
        else:
            feature.fid_v1_list.value.extend(values)
    return example


WAYS: Final[dict[str, Callable[[BinaryIO, BinaryIO], int]]] = {
    "batch-example": batch_to_example,
    "example-batch": example_to_batch,
    "example-parquet": example_to_parquet,
    "parquet-example": parquet_to_example,
}


def main() -> None:
    """Convert one file."""
    way, source, out = sys.argv[1:]
    with Path(source).open("rb") as reading, Path(out).open("wb") as writing:
        WAYS[way](reading, writing)


if __name__ == "__main__":
    main()
