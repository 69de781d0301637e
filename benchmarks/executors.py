"""How fast the two executors are on Parquet, beside what no converter can do without.

    python benchmarks/executors.py [--mb 50] [--rounds 3] [--shape NAME]

Makes a Parquet file of the wanted size of text for each shape, then in turn, in one process, on one
core, each in the best of the rounds:

* `read`: the file is read in batches of Arrow columns and their texts are checked. Neither
  executor can do less.
* `rows`: read, converted by the row executor, records written to a Parquet part.
* `arrow`: the same by the Arrow executor. Both parts are the same to the byte, or this stops.

Prints MB/s of text (10^6 bytes as Arrow holds it) and how many times as fast as `rows` each is.
"""

import argparse
import filecmp
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from ingot.converters.mapping.bind import bind
from ingot.converters.mapping.columns.executor import (
    MappingExecutor,
    UnifiedTable,
    why_not_columnar,
)
from ingot.converters.records.writers import RecordWriter
from ingot.converters.sources import open_source

NOTES = Path(__file__).resolve().parent.parent / "examples" / "en_field_notes" / "field_notes.json"
ROLES = {"system": "system", "human": "user", "gpt": "assistant"}
META = {"language": {"literal": "en"}}
MAPPINGS: dict[str, dict[str, Any]] = {
    "articles": {
        "version": 2,
        "text": ["title", "body"],
        "where": [{"path": "body", "min_chars": 20}],
        "meta": {"original_id": "id", "quality_score": "score", **META},
    },
    "alpaca": {
        "version": 2,
        "messages": [
            {"role": "user", "content": ["instruction", "input"]},
            {"role": "assistant", "content": "output"},
        ],
        "meta": META,
    },
    "sharegpt": {
        "version": 2,
        "messages": [
            {
                "each": "conversations[*]",
                "role": {"path": "from", "map": ROLES},
                "content": "value",
            }
        ],
        "meta": {"original_id": "id", **META},
    },
}


@cache
def words() -> list[str]:
    """The words of the field notes, as often as they occur there."""
    records = orjson.loads(NOTES.read_bytes())["records"]
    texts = [p["text"] or "" for record in records for p in record["body"]["paragraphs"]]
    return " ".join(texts).replace(".", "").lower().split()


def sentences(source: random.Random, count: int) -> str:
    """Running text of `count` sentences."""
    drawn = (source.choices(words(), k=source.randint(6, 22)) for _ in range(count))
    return ". ".join(" ".join(some).capitalize() for some in drawn) + "."


def articles(source: random.Random) -> Iterator[dict[str, Any]]:
    """Rows for ever; one in fifty has no body."""
    number = 0
    while True:
        body = sentences(source, source.randint(5, 40)) if source.random() < 0.98 else None
        score = round(source.random(), 3)
        title = sentences(source, 1)
        yield {"id": number, "title": title, "body": body, "score": score}
        number += 1


def alpaca(source: random.Random) -> Iterator[dict[str, Any]]:
    """Rows for ever; three in five have no input."""
    while True:
        given = sentences(source, 3) if source.random() < 0.4 else ""
        output = sentences(source, source.randint(1, 12))
        yield {"instruction": sentences(source, 1), "input": given, "output": output}


def sharegpt(source: random.Random) -> Iterator[dict[str, Any]]:
    """Rows for ever; one to eight turns, one in five with a system message."""
    number = 0
    while True:
        turns = [{"from": "system", "value": sentences(source, 1)}] * (source.random() < 0.2)
        for _ in range(source.randint(1, 8)):
            turns.append({"from": "human", "value": sentences(source, source.randint(1, 3))})
            turns.append({"from": "gpt", "value": sentences(source, source.randint(2, 15))})
        yield {"id": f"chat-{number:08d}", "conversations": turns}
        number += 1


SHAPES: dict[str, Callable[[random.Random], Iterator[dict[str, Any]]]] = {
    "articles": articles,
    "alpaca": alpaca,
    "sharegpt": sharegpt,
}


def generate(shape: str, size: int, target: Path) -> int:
    """Write rows until they hold `size` bytes; returns the bytes."""
    made = SHAPES[shape](random.Random(shape))
    held, writer = 0, None
    while held < size:
        table = pa.Table.from_pylist(list(islice(made, 2_000)))
        writer = writer or pq.ParquetWriter(target, table.schema, compression="zstd")
        writer.write_table(table)
        held += table.nbytes
    if writer:
        writer.close()
    return held


def read(shape: str, file: Path, _: Path) -> None:
    """Columns only."""
    mapping = bind(MAPPINGS[shape])
    for batch in open_source(str(file)).batches():
        if batch.table is None or (reason := why_not_columnar(mapping, batch.table.schema)):
            sys.exit(f"{shape}: the Arrow executor does not carry this: {reason}")


def convert(shape: str, file: Path, out: Path, columns: bool) -> None:
    """Read, convert, write one part."""
    mapping = bind(MAPPINGS[shape])
    unifier = MappingExecutor(mapping, source_name="benchmark", columns=columns)
    with RecordWriter(out, kind="pt" if mapping.kind == "pt" else "sft") as writer:
        for batch in open_source(str(file)).batches():
            for unified in unifier.parts(batch):
                if isinstance(unified, UnifiedTable):
                    writer.write_batch(unified.table)
                else:
                    writer.write(unified.records)


def rows(shape: str, file: Path, out: Path) -> None:
    """The row executor."""
    convert(shape, file, out, columns=False)


def arrow(shape: str, file: Path, out: Path) -> None:
    """The Arrow executor."""
    convert(shape, file, out, columns=True)


WAYS: tuple[Callable[[str, Path, Path], None], ...] = (read, rows, arrow)


def measure(shape: str, size: int, rounds: int, work: Path) -> None:
    """Run every way in turn and print its line."""
    file = work / f"{shape}.parquet"
    megabytes = generate(shape, size, file) / 1e6
    best: dict[str, float] = {}
    for _ in range(rounds):
        for way in WAYS:
            out = work / f"{shape}.{way.__name__}"
            out.mkdir(exist_ok=True)
            started = time.perf_counter()
            way(shape, file, out)
            spent = time.perf_counter() - started
            best[way.__name__] = min(spent, best.get(way.__name__, spent))
    parts = [work / f"{shape}.{name}" / "part-00000.parquet" for name in ("rows", "arrow")]
    if not filecmp.cmp(*parts, shallow=False):
        sys.exit(f"{shape}: the two executors wrote different parts")
    for name, spent in best.items():
        ratio = best["rows"] / spent
        print(f"{shape:10} {name:6} {megabytes / spent:8.0f} MB/s {ratio:8.2f} x rows")


def main() -> None:
    """Measure every shape."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--mb", type=int, default=50, help="text in each file in MB")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--shape", choices=list(SHAPES), action="append", help="default: all")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="executors-") as scratch:
        for shape in args.shape or SHAPES:
            measure(shape, args.mb * 1_000_000, args.rounds, Path(scratch))


if __name__ == "__main__":
    main()
