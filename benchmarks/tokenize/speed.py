"""How fast `ingot tokens build` is beside what uses the same engines, and the engines alone.

    python benchmarks/tokenize/speed.py [--texts PARQUET...] [--tokenizers DIR] [--mb 540]

Without options: sources of Python's own library, and the tokenizer gpt2 of the tests. With the
variables `BENCH_TEXTS` and `BENCH_TOKENIZERS` (folders), `make bench` takes those.

The text is distinct. The first pass over the documents is as they are; every further one has their
sentences in another order, and of a sentence with letters beyond ASCII (which engines often keep
as one word) the first half stands before the second half of another. Documents have as many
sentences as before. Repeated documents would be answered out of the engines' caches.

In turn, each a process of its own from start to exit, `--rounds` times:

* `ingot tokens build` with EOD, the verdicts on the engines known (it has run once before);
* `megatron`: what Megatron's `tools/preprocess_data_fast.py` does with its engine: gigatoken reads
  JSONL itself (`encode_files(JsonlFileSource(...), parallel=True)`), the rows are flattened, EODs
  inserted, everything written at once. Without the imports of torch and transformers (some 3 s),
  and making the JSONL does not count;
* `fastokens`, `gigatoken`: pyarrow reads file by file, the engine encodes all texts of it at once
  with all cores (fastokens: `encode_batch_flat`, gigatoken: `encode_batch`, by default parallel),
  ids and EODs are written;
* `tokenizers`: the same with `encode_batch_fast` in batches of 1,000 rows, on one file only;
* `in memory`: the engine alone, the faster of two, a thread per core, texts as Arrow buffers or
  strings in memory, nothing written; the clock begins when text and engine are loaded.

All that write must write what ingot does. Then half of the text as conversations. Prints medians.
"""

import argparse
import json
import os
import random
import re
import sys
import sysconfig
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))

from measuring import Measured, Row, add_options, keep_rows, timed  # noqa: E402 - beside the folder

TESTED = HERE.parents[1] / "tests" / "golden" / "tokenize" / "gpt2.json"
SENTENCE = re.compile(r"(?<=[.!?。！？，\n])")
FILES, ROWS, RUN = 4, 4_000, 1 << 20
SEED = 7
CORES = os.cpu_count() or 1
INGOT, CHATS = "ingot", "ingot, chats"


def documents(sources: list[Path]) -> list[str]:
    """The documents that everything is made of."""
    if sources:
        tables = [pq.read_table(path, columns=["text"]) for path in sources]
        return pa.concat_tables(tables)["text"].to_pylist()
    library = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("[a-z]*/*.py"))
    return [path.read_text(encoding="utf-8", errors="replace") for path in library]


def passes(whole: list[str]) -> Iterator[list[str]]:
    """The documents, then distinct ones of their sentences, without end."""
    yield [text.strip() for text in whole if text.strip()]
    split = [SENTENCE.split(text) for text in whole]
    flat = [sentence for parts in split for sentence in parts]
    wide = [at for at, text in enumerate(flat) if len(text) > 3 and not text.isascii()]
    source = random.Random(SEED)
    while True:
        pool, other = flat.copy(), wide.copy()
        source.shuffle(other)
        for at, mate in zip(wide, other, strict=True):
            first, second = flat[at], flat[mate]
            pool[at] = first[: len(first) // 2] + second[len(second) // 2 :]
        source.shuffle(pool)
        rest = iter(pool)
        made = ("".join(islice(rest, len(parts))).strip() for parts in split)
        yield [text for text in made if text]  # Megatron puts an EOD behind an empty one, too


def generate(sources: list[Path], size: int, folder: Path) -> None:
    """`texts/` and `texts.jsonl` with `size` bytes of text, `chats/` with half of it."""
    from ingot.converters.records.schema import SFT_SCHEMA

    for name in ("texts", "chats"):
        (folder / name).mkdir()
    made = number = 0
    with (folder / "texts.jsonl").open("w", encoding="utf-8") as lines:
        for some in passes(documents(sources)):
            per = -(-len(some) // FILES)
            for start in range(0, len(some), per):
                texts = []
                while made < size and len(texts) < len(some[start : start + per]):
                    texts.append(some[start + len(texts)])
                    made += len(texts[-1].encode())
                lines.writelines(json.dumps({"text": text}) + "\n" for text in texts)
                how: dict[str, Any] = {"compression": "zstd", "row_group_size": ROWS}
                name = f"part-{number:03}.parquet"
                table = pa.table({"text": pa.array(texts, pa.string())})
                pq.write_table(table, folder / "texts" / name, **how)
                if made <= size / 2:
                    chats = pa.Table.from_pylist([chat(text) for text in texts], SFT_SCHEMA)
                    pq.write_table(chats, folder / "chats" / name, **how)
                number += 1
                if made >= size:
                    return


def chat(text: str) -> dict[str, Any]:
    """A conversation of two to six turns, of equal parts of a text."""
    turns = 2 + 2 * (len(text) % 3)
    step = -(-len(text) // turns)
    messages = [
        {
            "role": ("user", "assistant")[turn % 2],
            "content": text[turn * step : (turn + 1) * step],
            "loss_mask": turn % 2 == 1,
        }
        for turn in range(turns)
    ]
    return {"messages": messages, "system": None, "tools": None, "meta": {"source": "made"}}


def write_data_set(parts: Iterator[tuple[Any, Any]], eod: int, kind: str, prefix: Path) -> None:
    """`.bin` and `.idx` of ids and lengths, an EOD behind each text, as Megatron lays them out."""
    dtype, code = {"uint16": (np.uint16, 8), "int32": (np.int32, 4)}[kind]
    lengths: list[int] = []
    with prefix.with_suffix(".bin").open("wb") as out:
        for ids, own in parts:
            full = np.insert(np.asarray(ids, dtype), np.cumsum(own), eod)
            out.write(full.astype(dtype, copy=False).tobytes())
            lengths.extend((np.asarray(own) + 1).tolist())
    sizes = np.array(lengths, np.int32)
    starts = np.concatenate([[0], np.cumsum(sizes[:-1], dtype=np.int64)]) * np.dtype(dtype).itemsize
    with prefix.with_suffix(".idx").open("wb") as out:
        out.write(b"MMIDIDX\0\0" + np.uint64(1).tobytes() + np.uint8(code).tobytes())
        out.write(np.array([len(sizes), len(sizes) + 1], np.uint64).tobytes())
        out.write(sizes.tobytes() + starts.astype(np.int64).tobytes())
        out.write(np.arange(len(sizes) + 1, dtype=np.int64).tobytes())


def columns(folder: Path) -> Iterator[pa.ChunkedArray]:
    """The texts, file by file."""
    for path in sorted(folder.glob("*.parquet")):
        yield pq.read_table(path, columns=["text"])["text"]


def by_megatron(tokenizer: Path, folder: Path) -> Iterator[tuple[Any, Any]]:
    """Use gigatoken on JSONL, everything in memory."""
    import awkward as ak
    from gigatoken import JsonlFileSource, Tokenizer

    engine = Tokenizer.from_json(tokenizer.read_bytes())
    source = JsonlFileSource([str(folder.with_suffix(".jsonl"))], field="text")
    rows = engine.encode_files(source, parallel=True)
    yield ak.flatten(rows), np.asarray(ak.num(rows, axis=1))


def by_gigatoken(tokenizer: Path, folder: Path) -> Iterator[tuple[Any, Any]]:
    """Use gigatoken on the strings of each file."""
    from gigatoken import Tokenizer

    engine = Tokenizer.from_json(tokenizer.read_bytes())
    for column in columns(folder):
        layout = engine.encode_batch(column.to_pylist()).layout
        bounds = np.asarray(layout.offsets.data)
        yield np.asarray(layout.content.data)[bounds[0] : bounds[-1]], np.diff(bounds)


def by_fastokens(tokenizer: Path, folder: Path) -> Iterator[tuple[Any, Any]]:
    """Use fastokens on the strings of each file."""
    from fastokens import Tokenizer

    engine = Tokenizer.from_json_str(tokenizer.read_text(encoding="utf-8"))
    engine.no_truncation()
    for column in columns(folder):
        ids, bounds = engine.encode_batch_flat(column.to_pylist())
        yield np.frombuffer(ids, np.uint32), np.diff(np.frombuffer(bounds, np.int64))


def by_tokenizers(tokenizer: Path, folder: Path) -> Iterator[tuple[Any, Any]]:
    """Use the reference on batches of the first file."""
    from tokenizers import Tokenizer

    engine = Tokenizer.from_file(str(tokenizer))
    engine.no_truncation()
    texts = next(columns(folder)).to_pylist()
    for start in range(0, len(texts), 1_000):
        rows = engine.encode_batch_fast(texts[start : start + 1_000], add_special_tokens=False)
        own = [np.array(row.ids, np.uint32) for row in rows]
        yield np.concatenate(own), np.array([*map(len, own)])


WRITERS: dict[str, Callable[[Path, Path], Iterator[tuple[Any, Any]]]] = {
    "megatron": by_megatron,
    "fastokens": by_fastokens,
    "gigatoken": by_gigatoken,
    "tokenizers": by_tokenizers,
}


def in_memory(name: str, tokenizer: Path, folder: Path) -> tuple[float, float]:
    """Seconds and CPU seconds of an engine, a thread for each core, without reading or writing."""
    from ingot.converters.megatron.engines.engine import text_runs
    from ingot.converters.megatron.engines.fast_engines import FAST_ENGINES, open_fast
    from ingot.converters.megatron.tokenizer import load_tokenizer

    texts = pa.concat_arrays(
        [chunk.cast(pa.large_string()) for column in columns(folder) for chunk in column.chunks]
    )
    loaded, runs = load_tokenizer(tokenizer), iter(text_runs(texts, RUN))
    engines = [open_fast(FAST_ENGINES[name], loaded, plain=False) for _ in range(CORES)]
    lock = threading.Lock()

    def work(number: int) -> None:
        while True:
            with lock:
                own = next(runs, None)
            if own is None:
                return
            engines[number].encode(own)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(CORES)]
    started, before = time.perf_counter(), time.process_time()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.perf_counter() - started, time.process_time() - before


def run_one(name: str, tokenizer: Path, folder: Path, out: Path) -> None:
    """Do what a peer does, in this process."""
    if name.startswith("in memory"):
        out.write_text(json.dumps(in_memory(name.split()[-1], tokenizer, folder)))
        return
    eod, kind = json.loads(out.with_suffix(".json").read_text())
    write_data_set(WRITERS[name](tokenizer, folder), eod, kind, out)


def build_argv(tokenizer: Path, folder: Path, out: Path) -> list[str]:
    """`ingot tokens build` of a folder."""
    how = ["--append-eod", "--no-progress", "--metrics-exporter", "none", "--log-file"]
    where = ["--input-dir", str(folder), "--tokenizer", str(tokenizer), "--output-prefix", str(out)]
    return [sys.executable, "-m", "ingot", "tokens", "build", *where, *how, os.devnull]


class Sitting:
    """Everything that is measured with one tokenizer."""

    def __init__(self, tokenizer: Path, work: Path) -> None:
        self.tokenizer, self.work = tokenizer, work
        self.out = work / "out"
        self.runs: dict[str, list[tuple[float, float, float]]] = {}

    def ingot(self, name: str = INGOT, folder: str = "texts") -> Measured:
        """Build, keep the times, leave the data set."""
        for old in self.work.glob("ours*"):
            old.unlink()
        run = timed(build_argv(self.tokenizer, self.work / folder, self.work / "ours"))
        self.runs.setdefault(name, []).append((run.seconds, run.cpu_seconds, run.memory))
        return run

    def peer(self, name: str) -> None:
        """Run a peer, keep its times, and compare what it wrote."""
        meta = json.loads((self.work / "ours.meta.json").read_text())
        self.out.with_suffix(".json").write_text(json.dumps([meta["eod_id"], meta["dtype"]]))
        argv = [sys.executable, __file__, "--one", name, str(self.tokenizer)]
        run = timed([*argv, str(self.work / "texts"), str(self.out)])
        seconds, cpu = run.seconds, run.cpu_seconds
        if name.startswith("in memory"):
            seconds, cpu = json.loads(self.out.read_text())
        else:
            self.compare(name, meta["counts"]["documents"])
        self.runs.setdefault(name, []).append((seconds, cpu, run.memory))

    def compare(self, name: str, count: int) -> None:
        """See that a peer wrote the ids that ingot did, up to where it went."""
        ours, theirs = (self.work / "ours.bin").read_bytes(), self.out.with_suffix(".bin")
        if ours[: theirs.stat().st_size] != theirs.read_bytes():
            sys.exit(f"{name} wrote other ids with {self.tokenizer.stem}")
        index = self.out.with_suffix(".idx").read_bytes()
        if name != "tokenizers" and index != (self.work / "ours.idx").read_bytes():
            sys.exit(f"{name} wrote another index of {count:,} documents")

    def median(self, name: str) -> tuple[float, float, float]:
        """Seconds, CPU seconds and memory of the middle run."""
        return sorted(self.runs[name])[len(self.runs[name]) // 2]

    def show(self, sizes: dict[str, float]) -> dict[str, float]:
        """Print every line; MB/s by name."""
        rates = {}
        for name in self.runs:
            seconds, cpu, memory = self.median(name)
            megabytes = sizes.get(name, sizes[INGOT])
            rates[name] = megabytes / seconds
            print(
                f"{self.tokenizer.stem:12} {name:22} {megabytes:6.0f} MB {seconds:7.2f} s"
                f" {cpu:7.2f} CPU s {rates[name]:7.1f} MB/s"
                f" {megabytes / cpu:6.1f} MB per CPU s {memory:6.0f} MB",
                flush=True,
            )
        return rates


def text_bytes(folder: Path, files: int | None = None) -> float:
    """MB of text in so many files, or in all."""
    sizes = (pc.sum(pc.binary_length(column)).as_py() for column in columns(folder))
    return float(sum(islice(sizes, files))) / 1e6


def measure(tokenizer: Path, work: Path, rounds: int, engines: list[str], main: bool) -> list[Row]:
    """The rows of one tokenizer."""
    sitting = Sitting(tokenizer, work)
    with tempfile.TemporaryDirectory(dir=work) as home:
        os.environ["INGOT_HOME"] = home
        first = sitting.ingot("ingot, first use").seconds
        names = [*(("megatron",) if main else ()), *engines, *(f"in memory {e}" for e in engines)]
        for number in range(rounds):
            sitting.ingot()
            for name in [*names, *(("tokenizers",) if main and not number else ())]:
                sitting.peer(name)
            sitting.ingot(CHATS, "chats")
    sizes = {INGOT: text_bytes(work / "texts"), "tokenizers": text_bytes(work / "texts", 1)}
    sizes[CHATS] = text_bytes(work / "texts", len(list((work / "chats").iterdir())))
    rates = sitting.show(sizes)
    alone = max((rates[f"in memory {engine}"], engine) for engine in engines)
    _, cpu, _ = sitting.median(f"in memory {alone[1]}")
    seconds, _, memory = sitting.median(INGOT)
    peers = {name: rates[name] for name in names if not name.startswith("in memory")}
    peers |= {"tokenizers": rates["tokenizers"]} if main else {}
    shared: dict[str, Any] = {"unit": "MB/s of text"}
    data = f"{tokenizer.stem}, {sizes[INGOT]:,.0f} MB of distinct text"
    most = sizes[INGOT] * CORES / cpu
    ceiling = f"{alone[1]} alone, {cpu:.1f} CPU s on {CORES} cores: {most:.0f}"
    wanted = "2 times Megatron, 25 times tokenizers, 0.9 of in memory"
    chats = sitting.median(CHATS)
    return [
        Row(
            job="Parquet -> .bin/.idx",
            data=f"{data}; first use of the tokenizer {first - seconds:+.1f} s",
            ours=rates[INGOT],
            peers={**peers, f"{alone[1]} in memory": alone[0]},
            wanted=wanted if main else "1 time each engine",
            peak_mb=memory,
            ceiling=ceiling,
            **shared,
        ),
        Row(
            job="SFT records with masks -> .bin/.idx",
            data=data,
            ours=rates[CHATS],
            peers={"the same as plain text": rates[INGOT]},
            wanted="0.6 of plain text",
            peak_mb=chats[2],
            **shared,
        ),
    ]


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    add_options(parser)
    parser.add_argument("--texts", type=Path, nargs="+", help="Parquet files, column `text`")
    parser.add_argument("--tokenizers", type=Path, help="folder of tokenizer.json files")
    parser.add_argument("--only", action="append", help="name of a tokenizer; default: all")
    parser.add_argument("--mb", type=int, help="MB of text: 540, or 54 with --quick")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--work", type=Path, help="folder to work in (some 3 times the text)")
    parser.add_argument("--one", nargs=4, help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    """Measure every tokenizer: gpt2 with all peers, the others with the engines."""
    args = options()
    if args.one:
        name, *places = args.one
        run_one(name, *map(Path, places))
        return
    texts, folder = os.environ.get("BENCH_TEXTS"), os.environ.get("BENCH_TOKENIZERS")
    sources = args.texts or (sorted(Path(texts).glob("*.parquet")) if texts else [])
    given = args.tokenizers or (Path(folder) if folder else None)
    tokenizers = sorted(given.glob("*.json")) if given else [TESTED]
    size = args.mb or (54 if args.quick else 540)
    with tempfile.TemporaryDirectory(prefix="tokens-speed-", dir=args.work) as scratch:
        work = Path(scratch)
        generate(sources, size * 1_000_000, work)
        for tokenizer in tokenizers:
            if args.only and tokenizer.stem not in args.only:
                continue
            main = tokenizer.stem == "gpt2"
            rows = measure(tokenizer, work, args.rounds, ["fastokens", "gigatoken"], main)
            keep_rows(rows, args.keep_rows)


if __name__ == "__main__":
    main()
