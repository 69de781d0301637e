"""How fast tables of flat columns are: `ingot convert` of Parquet and CSV beside pyarrow alone.

    python benchmarks/flat_columns.py [--mb 220] [--rounds 3]

The same texts (id, text, language) as Parquet (zstd level 1, row groups of 10,000) and as CSV. The
peer reads them with pyarrow, batch by batch and on one thread, puts the columns into the shape of
records, and writes them with the same codec, level and row groups; it checks nothing, hashes
nothing, and reads the Parquet in its own process, where ingot does so in one that may crash.
"""

import argparse
import json
import random
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from convert_speed import sentences
from measuring import ONE_CORE, Row, add_options, keep_rows, timed

META = pa.struct(
    [
        ("source", pa.string()),
        ("language", pa.string()),
        ("timestamp", pa.string()),
        ("token_count", pa.int64()),
        ("quality_score", pa.float64()),
        ("original_id", pa.string()),
    ]
)
RECORDS = pa.schema([("text", pa.string()), ("meta", META)])
MAPPING = {
    "version": 2,
    "text": "text",
    "meta": {"original_id": "doc_id", "language": "lang"},
}
HOW = {"compression": "zstd", "compression_level": 1}
WANTED = {"parquet": "half of pyarrow", "csv": "1.5 of pyarrow's time"}


def generate(size: int, work: Path) -> None:
    """Write flat.parquet and flat.csv with the same rows."""
    source, texts, written = random.Random("flat"), [], 0
    while written < size:
        texts.append(sentences(source, source.randint(1, 8)))
        written += len(texts[-1])
    ids = [f"d{number:07d}" for number in range(len(texts))]
    table = pa.table({"doc_id": ids, "text": texts, "lang": ["en"] * len(texts)})
    pq.write_table(table, work / "flat.parquet", row_group_size=10_000, **HOW)
    pa_csv.write_csv(table, work / "flat.csv")


def batches(source: Path) -> Iterator[pa.RecordBatch]:
    """The rows of either file, on one thread."""
    if source.suffix == ".parquet":
        yield from pq.ParquetFile(source).iter_batches(10_000, use_threads=False)
        return
    kinds = dict.fromkeys(("doc_id", "text", "lang"), pa.string())
    yield from pa_csv.open_csv(
        source,
        read_options=pa_csv.ReadOptions(use_threads=False, block_size=8 << 20),
        parse_options=pa_csv.ParseOptions(newlines_in_values=True),
        convert_options=pa_csv.ConvertOptions(column_types=kinds),
    )


def copy_by_pyarrow(source: Path, target: Path) -> None:
    """The same records by hand."""
    pa.set_cpu_count(1)
    how = {"use_dictionary": ["meta.source", "meta.language"], "write_statistics": False, **HOW}
    with pq.ParquetWriter(target, RECORDS, **how) as writer:
        for batch in batches(source):
            rows = batch.num_rows
            nothing = [pa.nulls(rows, META.field(name).type) for name in META.names[2:5]]
            named = pa.repeat(pa.scalar("flat"), rows)
            columns = [named, batch.column("lang"), *nothing, batch.column("doc_id")]
            meta = pa.StructArray.from_arrays(columns, fields=list(META))
            records = pa.RecordBatch.from_arrays([batch.column("text"), meta], schema=RECORDS)
            writer.write_batch(records, row_group_size=10_000)


def measure(kind: str, rounds: int, work: Path) -> Row:
    """Both ways over one file in turn; the medians."""
    source, stated = work / f"flat.{kind}", work / "flat.mapping.json"
    stated.write_text(json.dumps(MAPPING), encoding="utf-8")
    ours, peers, peak = [], [], 0.0
    for number in range(rounds):
        out = str(work / f"{kind}.{number}")
        convert = ["-m", "ingot", "convert", str(stated), str(source), "--out", out]
        run = timed([sys.executable, *convert, "--workers", "1"], cores=ONE_CORE)
        ours.append(run.seconds)
        peak = max(peak, run.memory)
        peer = [sys.executable, __file__, "--copy", str(source), str(work / "peer.parquet")]
        peers.append(timed(peer, cores=ONE_CORE).seconds)
    texts = pq.read_table(work / "flat.parquet", columns=["text"]).nbytes / 1e6
    return Row(
        job=f"raw {kind} -> Parquet, flat columns",
        data=f"{texts:,.0f} MB of text, one core",
        unit="MB/s",
        ours=texts / sorted(ours)[rounds // 2],
        peers={"pyarrow": texts / sorted(peers)[rounds // 2]},
        wanted=WANTED[kind],
        peak_mb=peak,
    )


def main() -> None:
    """Measure both files."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    add_options(parser)
    parser.add_argument("--mb", type=int, help="size of the text: 220, or 22 with --quick")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--copy", type=Path, nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.copy:
        copy_by_pyarrow(*args.copy)
        return
    with tempfile.TemporaryDirectory(prefix="flat-columns-") as work:
        generate((args.mb or (22 if args.quick else 220)) * 1_000_000, Path(work))
        for kind in WANTED:
            row = measure(kind, args.rounds, Path(work))
            print(f"{kind}: {row.ours:.0f} MB/s, pyarrow {row.peers['pyarrow']:.0f}")
            keep_rows([row], args.keep_rows)


if __name__ == "__main__":
    main()
