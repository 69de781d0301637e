"""Documents on which a tokenizing engine differs from the reference, and MB/s in the same sitting.

    python benchmarks/tokenize/exactness.py --tokenizers DIR --texts PARQUET... [--cases FILE.py]

Every engine is opened the way a build opens it: examined by the gate, with its routing and its
samples. Each encodes the same documents, in batches of about 1 MB, after the reference: Hugging
Face for `*.json`, sentencepiece itself for `*.model`. The column `text` is read; `--every N` takes
every Nth document, `--cases` adds those of a module's `cases(n)`, `--adversarial N` sets n.
Expected in the column `differ`: 0 everywhere. An engine that the gate refuses is listed with its
reason.
"""

import argparse
import importlib.util
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import pyarrow as pa
import pyarrow.parquet as pq

from ingot.converters.errors import ConversionError
from ingot.converters.megatron.engines.choice import WantedEngine, choose_engine
from ingot.converters.megatron.engines.engine import (
    Encoded,
    Engine,
    EngineWrongError,
    differing_texts,
    open_reference,
    text_runs,
)
from ingot.converters.megatron.engines.fast_engines import FAST_ENGINES
from ingot.converters.megatron.engines.guard import open_engine
from ingot.converters.megatron.messages import ignore_message
from ingot.converters.megatron.tokenizer import TokenizerFile, load_tokenizer

RUN = 1 << 20
ENGINE_MEMORY = 256 << 20


@dataclass(frozen=True, kw_only=True, slots=True)
class Corpus:
    """Documents in batches, and their size."""

    name: str
    batches: list[pa.LargeStringArray]

    @property
    def documents(self) -> int:
        """Number of documents."""
        return sum(map(len, self.batches))

    @property
    def megabytes(self) -> float:
        """Text in MB of 10^6 bytes, offsets included."""
        return sum(batch.nbytes for batch in self.batches) / 1e6


def texts(paths: Sequence[Path], every: int) -> Corpus:
    column = pa.concat_tables([pq.read_table(path, columns=["text"]) for path in paths])["text"]
    rows = column.combine_chunks().cast(pa.large_string())
    return Corpus(
        name="text", batches=text_runs(rows.take(pa.array(range(0, len(rows), every))), RUN)
    )


def cases(path: Path, count: int) -> Corpus:
    spec = importlib.util.spec_from_file_location("cases", path)
    if spec is None or spec.loader is None:
        raise SystemExit(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    made = pa.array(module.cases(count), pa.large_string())
    return Corpus(name="adversarial", batches=text_runs(made, RUN))


def encoded(engine: Engine, corpus: Corpus) -> tuple[list[Encoded], float]:
    started = time.perf_counter()
    results = [engine.encode(batch) for batch in corpus.batches]
    return results, corpus.megabytes / (time.perf_counter() - started)


def compare(loaded: TokenizerFile, corpora: Sequence[Corpus], *, plain: bool, threads: int) -> None:
    exact = open_reference(loaded, plain=plain, threads=threads)
    expected = {}
    for corpus in corpora:
        expected[corpus.name], rate = encoded(exact, corpus)
        row(loaded, exact.name, corpus, "0", f"{rate:.1f}", "the reference")
    for name in (one for one in get_args(WantedEngine) if one in FAST_ENGINES):
        try:
            choice = choose_engine(
                loaded,
                name,
                corpora[0].batches[0],
                plain=plain,
                total_bytes=0,
                threads=threads,
                monitor=ignore_message,
            )
        except ConversionError as error:
            print(f"| {loaded.path.stem} | {name} | | | | | {error} |", flush=True)
            continue
        for corpus in corpora:
            engine = open_engine(
                loaded, choice, threads=threads, memory_limit=ENGINE_MEMORY, monitor=ignore_message
            )
            try:
                results, rate = encoded(engine, corpus)
            except EngineWrongError as error:  # a build would do everything again without it
                row(loaded, name, corpus, "0", "", f"switched off at {error.text!a}")
                continue
            pairs = zip(expected[corpus.name], results, strict=True)
            wrong = sum(len(differing_texts(one, other)) for one, other in pairs)
            row(loaded, name, corpus, str(wrong), f"{rate:.1f}", "")


def row(
    loaded: TokenizerFile, engine: str, corpus: Corpus, wrong: str, rate: str, note: str
) -> None:
    cells = (loaded.path.stem, engine, corpus.name, str(corpus.documents), wrong, rate, note)
    print("| " + " | ".join(cells) + " |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tokenizers", type=Path, required=True, help="folder of files")
    parser.add_argument("--texts", type=Path, nargs="+", required=True)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--cases", type=Path)
    parser.add_argument("--adversarial", type=int, default=40000)
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    corpora = [texts(given.texts, given.every)]
    if given.cases is not None:
        corpora.append(cases(given.cases, given.adversarial))
    files = sorted(
        path for path in given.tokenizers.iterdir() if path.suffix in (".json", ".model")
    )
    if not files:
        sys.exit(f"{given.tokenizers} holds no *.json and no *.model")
    print("| tokenizer | engine | texts | documents | differ | MB/s | |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for path in files:
        compare(load_tokenizer(path), corpora, plain=given.plain, threads=given.threads)


if __name__ == "__main__":
    main()
