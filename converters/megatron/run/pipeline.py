"""Run units through reader, tokenizers and writer: threads with bounded queues, in order."""

import gc
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ingot.converters.errors import SourceError
from ingot.converters.megatron.chat.loss_masks import LossMasker
from ingot.converters.megatron.documents import (
    NEW_DOCUMENT,
    DocumentRules,
    Shard,
    TokenizedTexts,
    reject_row,
    shape_documents,
)
from ingot.converters.megatron.engines.engine import (
    FIRST_BYTE,
    LARGE_TEXT,
    Encoded,
    Engine,
    EngineChoice,
    texts_buffer,
)
from ingot.converters.megatron.engines.guard import open_engine, trim_memory
from ingot.converters.megatron.messages import Monitor, log_event, queue_fields
from ingot.converters.megatron.options import WorkOptions
from ingot.converters.megatron.read.input_files import InputFile, Unit
from ingot.converters.megatron.read.row_batches import read_rows
from ingot.converters.megatron.run.recipe import Recipe
from ingot.converters.megatron.write.lanes import Lane, LaneStretch
from ingot.converters.megatron.write.staging import Staging
from ingot.converters.megatron.write.unit_writer import TokenizedShard, UnitWriter
from ingot.converters.output.files import output_errors
from ingot.converters.progress import until_stopping
from ingot.converters.rows import Reject

_Item = TypeVar("_Item")


def timed_items(items: Iterator[_Item], report: Callable[[float], None]) -> Iterator[_Item]:
    """The same items; `report` hears the seconds that each took, and the end."""
    while True:
        started = time.monotonic()
        item = next(items, None)
        report(time.monotonic() - started)
        if item is None:
            return
        yield item


class QueueDepths:
    """Shards that wait for a tokenizer, and for the writer."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._now = 0, 0

    def move(self, tokenizer: int = 0, writer: int = 0) -> None:
        """So many more wait for a tokenizer, and for the writer."""
        with self._lock:
            self._now = self._now[0] + tokenizer, self._now[1] + writer

    def depths(self) -> tuple[int, int]:
        """How many wait for a tokenizer, and for the writer."""
        return self._now


NOT_TOKENIZED_REASON: Final = "not_tokenized"


def tokenize_shard(
    shard: Shard, file: str, engine: Engine, masker: LossMasker | None, rules: DocumentRules
) -> TokenizedShard:
    """Tokenize a shard."""
    encoded = engine.encode(shard.texts)
    mask = None
    if masker is not None and shard.spans is not None:
        mask = masker.mask(shard.texts, shard.spans, encoded, engine=engine.name)
    tally = {**shard.tally, **_text_sizes(shard, encoded)}
    failed = tuple(
        reject_row(file, int(shard.rows[position]), NOT_TOKENIZED_REASON, problem)
        for position, problem in encoded.failed
    )
    texts = TokenizedTexts(
        ids=encoded.ids,
        lengths=encoded.lengths,
        kinds=shard.kinds,
        mask=mask,
        ends=None if mask is None else _trained_ends(shard),
        failed=_failed_texts(encoded) if encoded.failed else None,
    )
    documents = shape_documents(texts, rules)
    once = tuple({reject.row: reject for reject in reversed(failed)}.values())[::-1]
    return TokenizedShard(
        shard=shard,
        documents=documents,
        rejects=tuple(sorted((*shard.rejects, *once), key=lambda reject: reject.row)),
        tally=tally | {"rejected": tally.get("rejected", 0) + len(once)},
        tokens=len(documents.tokens),
        engine=engine.name,
    )


def _text_sizes(shard: Shard, encoded: Encoded) -> dict[str, int]:
    good = shard.texts
    if encoded.failed:
        good = good.filter(pa.array(~_failed_texts(encoded)))
    data = texts_buffer(good)
    characters = np.count_nonzero(data.view(np.int8) >= FIRST_BYTE)
    return {"characters": int(characters), "text_bytes": data.size}


def _failed_texts(encoded: Encoded) -> npt.NDArray[np.bool_]:
    failed = np.zeros(len(encoded.lengths), np.bool_)
    failed[[position for position, _ in encoded.failed]] = True
    return failed


def _trained_ends(shard: Shard) -> npt.NDArray[np.bool_]:
    """Per conversation, whether nothing but white space follows what is trained on."""
    assert shard.spans is not None
    text_ends = shard.spans.closing
    return (
        text_ends
        if shard.kinds is None
        else text_ends[np.append(shard.kinds[1:] == NEW_DOCUMENT, True)]
    )


_LOOK_SECONDS: Final = 0.2
_WARM_UP_TEXTS: Final = pa.array(["Warm up: 1, 2, 3. 预热。"], pa.large_string())


class FileTally:
    """Tells of every file that is through."""

    def __init__(self, pending: Sequence[Unit], monitor: Monitor) -> None:
        self._left = Counter(unit.file for unit in pending)
        self._failed: set[int] = set()
        self._monitor = monitor

    def done(self, unit: Unit, *, failed: bool) -> None:
        """Note that a unit of a file is done, or cannot be."""
        self._left[unit.file] -= 1
        if failed and unit.file not in self._failed:
            self._failed.add(unit.file)
            self._monitor({"kind": "count", "failed_files": 1})
        elif not self._left[unit.file] and unit.file not in self._failed:
            self._monitor({"kind": "count", "files": 1})


def _is_large(shard: Shard) -> bool:
    """Whether the shard is large: the next one like it waits until this one is written."""
    return texts_buffer(shard.texts).size > LARGE_TEXT


@dataclass(frozen=True, slots=True)
class _UnitEnd:
    """A unit is through, or its file could not be read."""

    unit: Unit
    problem: SourceError | None = None


_Ordered: TypeAlias = Future[TokenizedShard] | _UnitEnd | None


class Pipeline:
    """The threads of a process, with engines that are opened once; `close` ends them."""

    def __init__(
        self, recipe: Recipe, work: WorkOptions, choice: EngineChoice, monitor: Monitor
    ) -> None:
        self._recipe, self._work, self._monitor = recipe, work, monitor
        self._files: Mapping[int, InputFile] = {}
        self._threads, inside = work.threads()
        self._preparer = recipe.preparer(work.batch_shards or self._threads)
        # An engine and what makes loss masks belong to one thread each.
        self._open_engine = partial(
            open_engine,
            recipe.loaded,
            choice,
            threads=inside,
            memory_limit=work.engine_memory,
            monitor=monitor,
        )
        self._open_masker = partial(LossMasker, recipe.loaded, plain=recipe.options.plain)
        self._room = threading.Semaphore(2 * work.queue_cap + self._threads)
        self._alone = threading.Semaphore(1)
        self._ordered: queue.Queue[_Ordered] = queue.Queue()
        self._stop = threading.Event()
        self._local = threading.local()
        self._reader = ThreadPoolExecutor(1, "reader")
        self._tokenizers = ThreadPoolExecutor(self._threads, "tokenizer")
        self._depths = QueueDepths()

    def run(
        self,
        staging: Staging,
        number: int,
        files: Mapping[int, InputFile],
        units: Iterable[Unit],
        on_begin: Callable[[], None] = lambda: None,
    ) -> Iterator[tuple[Unit, LaneStretch]]:
        """Do units of these files in order in a lane; yield each when it is done.

        `on_begin` is called when the lane is open.
        """
        with output_errors(staging.prefix), Lane(base=staging.base, number=number) as lane:
            pack, fail_fast = self._recipe.options.pack, self._work.fail_fast
            writer = UnitWriter(lane, self._recipe.rules, pack=pack, fail_fast=fail_fast)
            on_begin()
            gc.freeze()  # what is loaded stays: it need not be looked through again and again
            self._files = files
            yield from self._run(units, writer)

    def _run(self, units: Iterable[Unit], writer: UnitWriter) -> Iterator[tuple[Unit, LaneStretch]]:
        for _ in range(self._threads):
            self._tokenizers.submit(self._warm_up)
        reading = self._reader.submit(self._read_all, units)
        while (item := self._ordered.get()) is not None:
            if isinstance(item, _UnitEnd):
                yield item.unit, self._end(item, writer)
            else:
                self._write(item.result(), writer)
        reading.result()

    def close(self) -> None:
        """End the threads."""
        self._stop.set()
        self._tokenizers.shutdown(cancel_futures=True)
        self._reader.shutdown(cancel_futures=True)

    # In the reader's thread

    def _read_all(self, units: Iterable[Unit]) -> None:
        try:
            for unit in until_stopping(units):
                self._read(unit)
                if self._stop.is_set():
                    return
        finally:
            self._ordered.put(None)

    def _read(self, unit: Unit) -> None:
        problem = None
        try:
            for shard in self._shards(unit):
                if not self._has_room(shard):
                    return
                self._depths.move(tokenizer=1)
                self._ordered.put(self._tokenizers.submit(self._tokenize, unit, shard))
        except SourceError as error:
            problem = error
        self._ordered.put(_UnitEnd(unit, problem))

    def _shards(self, unit: Unit) -> Iterator[Shard]:
        file, layout, work = self._files[unit.file], self._recipe.layout, self._work
        size, parallel = work.batch_size, work.rowgroup_parallel
        reading: list[float] = []  # seconds of the rows of a shard

        def report(spent: float) -> None:
            read = sum(reading)
            reading.clear()
            took = {"reader_seconds": read, "preprocess_seconds": spent - read}
            self._monitor({"kind": "count", **took})

        with closing(read_rows(file, unit, layout, batch_size=size, parallel=parallel)) as rows:
            shards = self._preparer.prepare(file.name, timed_items(rows, reading.append))
            yield from timed_items(shards, report)

    def _has_room(self, shard: Shard) -> bool:
        return self._acquire(self._room) and (not _is_large(shard) or self._acquire(self._alone))

    def _acquire(self, semaphore: threading.Semaphore) -> bool:
        while not self._stop.is_set():
            if semaphore.acquire(timeout=_LOOK_SECONDS):
                return True
        return False

    # In the tokenizers' threads

    def _tokenize(self, unit: Unit, shard: Shard) -> TokenizedShard:
        if not len(shard.texts):
            self._depths.move(tokenizer=-1, writer=1)
            self._log_rejects(unit, shard.rejects)
            return TokenizedShard(shard=shard, rejects=shard.rejects, tally=shard.tally)
        engine = self._own("engine", self._open_engine)
        masker = self._own("masker", self._open_masker) if self._recipe.masks else None
        started = time.monotonic()
        name = self._files[unit.file].name
        done = tokenize_shard(shard, name, engine, masker, self._recipe.rules)
        if _is_large(shard):
            trim_memory()
        seconds = time.monotonic() - started
        self._depths.move(tokenizer=-1, writer=1)
        self._log_rejects(unit, done.rejects)
        facts = {"file_path": name, "batch_size": len(done.shard.texts), "tokens": done.tokens}
        facts |= {"latency_ms": round(1000 * seconds, 3), **queue_fields(self._depths.depths())}
        log_event(self._monitor, "trace", "tokenizer", "batch", **facts)
        return replace(done, seconds=seconds)

    def _log_rejects(self, unit: Unit, rejects: tuple[Reject, ...]) -> None:
        """One line for the rows that end here; `PREFIX.rejects.jsonl` lists each."""
        if rejects:
            name, error = self._files[unit.file].name, f"row {rejects[0].row}: {rejects[0].reason}"
            facts = {"file_path": name, "error": error, "error_count": len(rejects)}
            log_event(self._monitor, "warn", "tokenizer", "records_rejected", **facts)

    def _warm_up(self) -> None:
        """Load the engine and let it make its tables while the first rows are read."""
        self._own("engine", self._open_engine).encode(_WARM_UP_TEXTS)

    def _own(self, name: str, make: Callable[[], _Item]) -> _Item:
        if not hasattr(self._local, name):
            setattr(self._local, name, make())
        value: _Item = getattr(self._local, name)
        return value

    # In the caller's thread

    def _write(self, tokenized: TokenizedShard, writer: UnitWriter) -> None:
        started = time.monotonic()
        writer.write(tokenized)
        self._room.release()
        if _is_large(tokenized.shard):
            self._alone.release()
        self._depths.move(writer=-1)
        self._tell(tokenized, time.monotonic() - started)

    def _tell(self, tokenized: TokenizedShard, seconds: float) -> None:
        monitor, shard, tally = self._monitor, tokenized.shard, tokenized.tally
        if shard.read:
            row_group, size = shard.row_group, shard.read
            log_event(monitor, "trace", "reader", "rows_read", row_group=row_group, bytes_read=size)
        took = {}
        if tokenized.seconds:
            took = {"write_seconds": seconds, "tokenize_seconds": tokenized.seconds}
            depths = queue_fields(self._depths.depths())
            monitor({"kind": "batch", "ms": 1000 * tokenized.seconds, **depths})
        documents = tokenized.documents
        monitor(
            {
                "kind": "count",
                "bytes_read": shard.read,
                "bytes_written": 0 if documents is None else documents.tokens.nbytes,
                "text_bytes": tally.get("text_bytes", 0),
                "records": tally.get("rows", 0),
                "tokens": tokenized.tokens,
                "documents": 0 if documents is None else len(documents.sizes),
                "failed_records": tally.get("rejected", 0),
                "filtered": tally.get("short", 0) + tally.get("long", 0),
                **took,
            }
        )

    def _end(self, item: _UnitEnd, writer: UnitWriter) -> LaneStretch:
        unit, problem, monitor = item.unit, item.problem, self._monitor
        name = self._files[unit.file].name
        monitor({"kind": "count", "units": 1})
        if problem is None:
            stretch = writer.finish(unit.number)
            rows, tokens = stretch.facts["rows"], stretch.facts["tokens"]
            log_event(
                monitor, "debug", "writer", "unit_done", file_path=name, records=rows, tokens=tokens
            )
            return stretch
        if self._work.fail_fast:
            raise problem
        error = str(problem)
        log_event(monitor, "error", "reader", "batch_decode_failed", file_path=name, error=error)
        monitor({"kind": "count", "read_errors": 1})
        return writer.fail(unit.number, problem.problem)  # where it lies is not the data's
