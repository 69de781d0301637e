"""How fast `ingot convert` is, and how far from what any converter has to do.

    python benchmarks/convert_speed.py [--mb 440] [--rounds 3] [--shape NAME] [--keep DIR]

Makes a JSONL file of the wanted size for each shape, then in turn, in one sitting:

* `parse`: reads the file line by line and parses each line with orjson. Nothing that makes Python
  values of the rows is faster in one process.
* `parse+zstd`: the same, and the lines written again through zstd (level 1), as records are.
* `datasets`: `Dataset.map` row by row to the same records, which pyarrow then writes.
* `duckdb`: the same records in SQL on one thread, `COPY ... TO` Parquet; left out where the package
  `duckdb` is not installed.
* `orjson loop to JSONL`: parses each line, makes the same record and writes it as a line.
* `ingot convert`: the command, in a process of its own, from start to exit.
* `ingot convert, 2 processes`: the same on two cores; everything else is pinned to one.
* `ingot convert to JSONL`: the same records as lines.

The Parquet of all has zstd of level 1 and row groups of 10,000 records (DuckDB: 10,240). ingot also
hashes its input and its output. Prints the median of the rounds: seconds and CPU seconds, MB/s of
input (10^6 bytes), the peak memory of all the processes of a run together (Linux: proportional set
size, sampled five times a second) and its time as a share of ingot's on one core. The texts are
sentences of random words from the example `en_field_notes`, by a fixed seed.
"""

import argparse
import json
import random
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import orjson
import pyarrow.parquet as pq
import zstandard
from measuring import ONE_CORE, Measured, Row, add_options, keep_rows, timed
from rich.console import Console
from rich.table import Table

NOTES = Path(__file__).resolve().parent.parent / "examples" / "en_field_notes" / "field_notes.json"
META = {"language": {"literal": "en"}}
ROLES = {"system": "system", "human": "user", "gpt": "assistant"}
MAPPINGS = {
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


INGOT, SPREAD = "ingot convert", "ingot convert, 2 processes"
LINES, LOOP = "ingot convert to JSONL", "orjson loop to JSONL"


@cache
def words() -> list[str]:
    """The words of the field notes, as often as they occur there."""
    records = orjson.loads(NOTES.read_bytes())["records"]
    texts = [p["text"] or "" for record in records for p in record["body"]["paragraphs"]]
    return " ".join(texts).replace(".", "").lower().split()


def sentences(source: random.Random, count: int) -> str:
    """Running text of `count` sentences, with line breaks and quotes now and then."""
    made = []
    for _ in range(count):
        drawn = source.choices(words(), k=source.randint(6, 22))
        made.append(" ".join(drawn).capitalize() + source.choice([". ", ". ", '." ', ".\n"]))
    return "".join(made)


def alpaca_rows(source: random.Random) -> Iterator[dict[str, object]]:
    """Rows for ever; three in five have no input, as in the public set."""
    while True:
        given = sentences(source, 3) if source.random() < 0.4 else ""
        yield {
            "instruction": sentences(source, 1),
            "input": given,
            "output": sentences(source, source.randint(1, 12)),
        }


def sharegpt_rows(source: random.Random) -> Iterator[dict[str, object]]:
    """Rows for ever; one to eight turns, one in five with a system message."""
    number = 0
    while True:
        turns = [{"from": "system", "value": sentences(source, 1)}] * (source.random() < 0.2)
        for _ in range(source.randint(1, 8)):
            turns.append({"from": "human", "value": sentences(source, source.randint(1, 3))})
            turns.append({"from": "gpt", "value": sentences(source, source.randint(2, 15))})
        yield {"id": f"chat-{number:08d}", "conversations": turns}
        number += 1


SHAPES: dict[str, Callable[[random.Random], Iterator[dict[str, object]]]] = {
    "alpaca": alpaca_rows,
    "sharegpt": sharegpt_rows,
}


def generate(shape: str, size: int, target: Path) -> int:
    """Write rows until `target` has `size` bytes; returns the number of rows."""
    rows = 0
    made = SHAPES[shape](random.Random(shape))
    with target.open("wb") as out:
        while out.tell() < size:
            out.write(orjson.dumps(next(made)) + b"\n")
            rows += 1
    return rows


def parse_only(source: Path, _: Path) -> None:
    """The first ceiling: every line parsed, nothing kept."""
    with source.open("rb") as lines:
        for line in lines:
            orjson.loads(line)


def parse_and_compress(source: Path, target: Path) -> None:
    """The second ceiling: parsed, and the same lines written through zstd."""
    packer = zstandard.ZstdCompressor(level=1)
    with source.open("rb") as lines, zstandard.open(target, "wb", cctx=packer) as out:
        for line in lines:
            orjson.loads(line)
            out.write(line)


NO_META = dict.fromkeys(("timestamp", "token_count", "quality_score", "original_id"))


def unify_alpaca(row: dict[str, str]) -> dict[str, object]:
    """A record of an instruction, as the mapping makes it."""
    asked = "\n".join(part for part in (row["instruction"], row["input"]) if part)
    said = (("user", asked), ("assistant", row["output"]))
    return {"messages": [_message(*one) for one in said], **_around()}


def unify_sharegpt(row: dict[str, Any]) -> dict[str, object]:
    """A record of a conversation, as the mapping makes it."""
    said = ((ROLES[turn["from"]], turn["value"]) for turn in row["conversations"])
    return {"messages": [_message(*one) for one in said], **_around()}


def _message(role: str, content: str) -> dict[str, object]:
    return {"role": role, "content": content, "loss_mask": role == "assistant"}


def _around() -> dict[str, object]:
    meta = {"source": "bench", "language": "en", **NO_META}
    return {"system": None, "tools": None, "meta": meta}


UNIFY = {"alpaca": unify_alpaca, "sharegpt": unify_sharegpt}


def map_by_datasets(source: Path, target: Path) -> None:
    """`Dataset.map` row by row; nothing that an earlier round kept is used again."""
    import datasets

    with tempfile.TemporaryDirectory(prefix="datasets-", dir=target.parent) as cache:
        rows = datasets.load_dataset("json", data_files=str(source), split="train", cache_dir=cache)
        unify = UNIFY[source.stem]
        records = rows.map(unify, remove_columns=rows.column_names, load_from_cache_file=False)
        # `to_parquet` has a codec of its own.
        how = {"compression": "zstd", "compression_level": 1, "row_group_size": 10_000}
        pq.write_table(records.data.table, target, **how)


def write_lines(source: Path, target: Path) -> None:
    """The same records as JSON lines."""
    unify = UNIFY[source.stem]
    with source.open("rb") as lines, target.open("wb") as out:
        for line in lines:
            out.write(orjson.dumps(unify(orjson.loads(line)), option=orjson.OPT_APPEND_NEWLINE))


META_SQL = (
    "{'source': 'bench', 'language': 'en', 'timestamp': NULL::VARCHAR, 'token_count': NULL::BIGINT,"
    " 'quality_score': NULL::DOUBLE, 'original_id': NULL::VARCHAR}"
)
MESSAGES_SQL = {
    "alpaca": "[{'role': 'user', 'content': CASE WHEN input = '' THEN instruction"
    " ELSE instruction || chr(10) || input END, 'loss_mask': false},"
    " {'role': 'assistant', 'content': output, 'loss_mask': true}]",
    "sharegpt": "list_transform(conversations, lambda x: {'role': CASE x.\"from\""
    " WHEN 'human' THEN 'user' WHEN 'gpt' THEN 'assistant' WHEN 'system' THEN 'system' END,"
    " 'content': x.value, 'loss_mask': x.\"from\" = 'gpt'})",
}
COLUMNS_SQL = {
    "alpaca": "{instruction: 'VARCHAR', input: 'VARCHAR', output: 'VARCHAR'}",
    "sharegpt": "{id: 'VARCHAR', conversations: 'STRUCT(\"from\" VARCHAR, value VARCHAR)[]'}",
}


def copy_by_duckdb(source: Path, target: Path) -> None:
    """The same records in SQL, on one thread and in the order of the rows."""
    import duckdb

    shape = source.stem
    rows = f"read_json('{source}', format = 'newline_delimited', columns = {COLUMNS_SQL[shape]})"
    query = (
        f"SELECT {MESSAGES_SQL[shape]} AS messages, NULL::VARCHAR AS system,"
        f" NULL::VARCHAR AS tools, {META_SQL} AS meta FROM {rows}"
    )
    how = "FORMAT PARQUET, COMPRESSION ZSTD, COMPRESSION_LEVEL 1, ROW_GROUP_SIZE 10240"
    duckdb.connect(config={"threads": 1}).execute(f"COPY ({query}) TO '{target}' ({how})")


CEILINGS: dict[str, Callable[[Path, Path], None]] = {
    "parse": parse_only,
    "parse+zstd": parse_and_compress,
    "datasets": map_by_datasets,
    LOOP: write_lines,
}
if find_spec("duckdb"):
    CEILINGS["duckdb"] = copy_by_duckdb


def commands(shape: str, source: Path, work: Path, number: int) -> dict[str, list[str]]:
    """What is measured, by name: each a process of its own, into a folder of this round."""
    mapping = work / f"{shape}.mapping.json"
    mapping.write_text(json.dumps(MAPPINGS[shape]), encoding="utf-8")
    out = str(work / f"{shape}.{number}")
    convert = ["-m", "ingot", "convert", str(mapping), str(source), "--out", out]
    made = {
        name: [sys.executable, __file__, "--ceiling", name, str(source), str(work / "ceiling.out")]
        for name in CEILINGS
    }
    made[INGOT] = [sys.executable, *convert, "--workers", "1"]
    made[SPREAD] = [sys.executable, *convert, "--workers", "2"]
    made[LINES] = [sys.executable, *convert, "--workers", "1", "--records", "jsonl"]
    return made


def measure(shape: str, size: int, rounds: int, work: Path) -> tuple[float, dict[str, Measured]]:
    """Run everything in turn, `rounds` times; the file's size in MB and the median run of each."""
    source = work / f"{shape}.jsonl"
    rows = generate(shape, size, source)
    print(f"{shape}: {source.stat().st_size / 1e6:,.0f} MB, {rows:,} rows", file=sys.stderr)
    runs: dict[str, list[Measured]] = {}
    for number in range(rounds):
        for name, argv in commands(shape, source, work, number).items():
            runs.setdefault(name, []).append(
                timed(argv, cores=None if name == SPREAD else ONE_CORE)
            )
            shutil.rmtree(work / f"{shape}.{number}", ignore_errors=True)
    middle = {name: sorted(many, key=_seconds)[len(many) // 2] for name, many in runs.items()}
    return source.stat().st_size / 1e6, middle


def _seconds(run: Measured) -> float:
    return run.seconds


def add_rows(table: Table, shape: str, megabytes: float, best: dict[str, Measured]) -> None:
    """One line per process; the last column is ingot's time against it."""
    ingot = best[INGOT].seconds
    for name, run in best.items():
        share = "" if name == INGOT else f"{run.seconds / ingot:.0%}"
        rate = f"{megabytes / run.seconds:,.0f}"
        times = f"{run.seconds:.2f}", f"{run.cpu_seconds:.2f}"
        table.add_row(shape, name, *times, rate, f"{run.memory:,.0f}", share)


def rows_of(shape: str, megabytes: float, best: dict[str, Measured]) -> list[Row]:
    """What docs/performance.md shows: one core beside the peers, two processes beside one."""
    rates = {name: megabytes / run.seconds for name, run in best.items()}
    job, data = "raw JSONL -> Parquet", f"{shape}, {megabytes:,.0f} MB"
    ours, spread = rates.pop(INGOT), rates.pop(SPREAD)
    lines, loop = rates.pop(LINES), rates.pop(LOOP)
    wanted = "0.9 of DuckDB, " + ("4" if shape == "alpaca" else "2.5") + " times datasets"
    shared = {"data": data, "unit": "MB/s"}
    return [
        Row(job=job, ours=ours, peers=rates, wanted=wanted, peak_mb=best[INGOT].memory, **shared),
        Row(
            job=f"{job}, two processes",
            ours=spread,
            peers={"one process": ours},
            wanted="1.7 of one",
            peak_mb=best[SPREAD].memory,
            **shared,
        ),
        Row(
            job="raw JSONL -> JSONL",
            ours=lines,
            peers={"orjson loop": loop},
            wanted="0.8 of the loop",
            peak_mb=best[LINES].memory,
            **shared,
        ),
    ]


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    add_options(parser)
    parser.add_argument("--mb", type=int, help="size of each file in MB: 440, or 44 with --quick")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--shape", choices=list(SHAPES), action="append", help="default: all")
    parser.add_argument("--keep", type=Path, help="work in this folder and leave it")
    parser.add_argument("--ceiling", nargs=3, help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    """Measure every shape and print one table."""
    args = options()
    if args.ceiling:
        name, source, target = args.ceiling
        CEILINGS[name](Path(source), Path(target))
        return
    table = Table(title="ingot convert beside its ceilings and peers", title_justify="left")
    for heading in ("shape", "process"):
        table.add_column(heading)
    for heading in ("s", "CPU s", "MB/s", "peak MB", "of ingot's time"):
        table.add_column(heading, justify="right")
    with tempfile.TemporaryDirectory(prefix="convert-speed-") as scratch:
        work = args.keep or Path(scratch)
        work.mkdir(parents=True, exist_ok=True)
        size = args.mb or (44 if args.quick else 440)
        for shape in args.shape or SHAPES:
            megabytes, best = measure(shape, size * 1_000_000, args.rounds, work)
            add_rows(table, shape, megabytes, best)
            keep_rows(rows_of(shape, megabytes, best), args.keep_rows)
    Console().print(table)


if __name__ == "__main__":
    main()
