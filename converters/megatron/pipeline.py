"""Units through reader, tokenizers and writer: threads with bounded queues between them, in order.

One thread reads and prepares, some tokenize, and the caller's thread writes. A semaphore counts the
shards that are under way, so memory is bounded whatever the input; each shard is written in the
order in which it was read.
"""

import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Final, TypeAlias, TypeVar

import pyarrow as pa

from ingot.converters.errors import SourceError
from ingot.converters.megatron.chats.masks import Masker
from ingot.converters.megatron.engines.engine import Engine
from ingot.converters.megatron.gauges import Clock, Depths
from ingot.converters.megatron.journal import Stretch
from ingot.converters.megatron.layouts import Layout
from ingot.converters.megatron.monitor import Monitor, log
from ingot.converters.megatron.preparing import Preparer
from ingot.converters.megatron.reading import read_rows
from ingot.converters.megatron.shaping import Rules
from ingot.converters.megatron.shards import Shard
from ingot.converters.megatron.tokenizing import tokenize, untouched
from ingot.converters.megatron.units import InputFile, Unit
from ingot.converters.megatron.writing import Tokenized, UnitWriter
from ingot.converters.rows import Reject

_LOOK_SECONDS: Final = 0.2
_WARM: Final = pa.array(["Warm up: 1, 2, 3. 预热。"], pa.large_string())


@dataclass(frozen=True, kw_only=True, slots=True)
class Stages:
    """What a pipeline is made of.

    Attributes:
        files: all files, by number.
        layout: what is read.
        preparer: makes shards.
        rules: of documents.
        open_engine: makes an engine; called once in every tokenizing thread.
        masker: makes loss masks; None = there are none. Called once in every thread, too.
        threads: tokenizing threads.
        batch_size: rows per batch.
        queue_cap: shards between two stages, at most.
        rowgroup_parallel: row groups decoded at once.
        monitor: hears how it goes.
    """

    files: list[InputFile]
    layout: Layout
    preparer: Preparer
    rules: Rules
    open_engine: Callable[[], Engine]
    masker: Callable[[], Masker] | None
    threads: int
    batch_size: int
    queue_cap: int
    rowgroup_parallel: int
    monitor: Monitor


@dataclass(frozen=True, slots=True)
class _End:
    """A unit is through, or its file could not be read."""

    unit: Unit
    problem: SourceError | None = None


_Own = TypeVar("_Own")
_Item: TypeAlias = Future[Tokenized] | _End | None


def run_units(
    stages: Stages,
    units: Iterable[Unit],
    writer: UnitWriter,
    *,
    fail_fast: bool = False,
    no_more: Callable[[], None] | None = None,
) -> Iterator[tuple[Unit, Stretch]]:
    """Do the units in order; gives each when it is done.

    Args:
        stages: see there.
        units: taken one by one, a little ahead of what is done.
        writer: takes the documents.
        fail_fast: a file that cannot be read ends the work.
        no_more: called when no more units are wanted; ends `units` where they are waited for.

    Raises:
        SourceError: a file cannot be read, with `fail_fast`.
        EngineWrongError: an engine gave wrong ids; what it wrote has to be done again.
        ConversionError: see `UnitWriter`.
    """
    pipeline = _Pipeline(stages)
    try:
        yield from pipeline.run(units, writer, fail_fast)
    finally:
        if no_more is not None:
            no_more()
        pipeline.close()


class _Pipeline:
    def __init__(self, stages: Stages) -> None:
        self._stages = stages
        self._room = threading.Semaphore(2 * stages.queue_cap + stages.threads)
        self._ordered: queue.Queue[_Item] = queue.Queue()
        self._stop = threading.Event()
        self._local = threading.local()
        self._reader = ThreadPoolExecutor(1, "reader")
        self._tokenizers = ThreadPoolExecutor(stages.threads, "tokenizer")
        self._depths = Depths()

    def run(
        self, units: Iterable[Unit], writer: UnitWriter, fail_fast: bool
    ) -> Iterator[tuple[Unit, Stretch]]:
        for _ in range(self._stages.threads):
            self._tokenizers.submit(self._warm_up)
        reading = self._reader.submit(self._read_all, units)
        while (item := self._ordered.get()) is not None:
            if isinstance(item, _End):
                yield item.unit, self._end(item, writer, fail_fast)
            else:
                self._write(item.result(), writer)
        reading.result()

    def close(self) -> None:
        self._stop.set()
        self._tokenizers.shutdown(cancel_futures=True)
        self._reader.shutdown(cancel_futures=True)

    # In the reader's thread

    def _read_all(self, units: Iterable[Unit]) -> None:
        try:
            for unit in units:
                self._read(unit)
                if self._stop.is_set():
                    return
        finally:
            self._ordered.put(None)

    def _read(self, unit: Unit) -> None:
        problem = None
        try:
            for shard in self._shards(unit):
                if not self._has_room():
                    return
                self._depths.read()
                self._ordered.put(self._tokenizers.submit(self._tokenize, unit, shard))
        except SourceError as error:
            problem = error
        self._ordered.put(_End(unit, problem))

    def _shards(self, unit: Unit) -> Iterator[Shard]:
        stages = self._stages
        file = stages.files[unit.file]
        clock = Clock(stages.monitor)
        rows = read_rows(
            file,
            unit,
            stages.layout,
            batch_size=stages.batch_size,
            ahead=stages.rowgroup_parallel,
        )
        yield from clock.outer(stages.preparer.prepare(file.name, clock.inner(rows)))

    def _has_room(self) -> bool:
        while not self._stop.is_set():
            if self._room.acquire(timeout=_LOOK_SECONDS):
                return True
        return False

    # In the tokenizers' threads

    def _tokenize(self, unit: Unit, shard: Shard) -> Tokenized:
        if not len(shard.texts):
            self._depths.tokenized()
            self._log_rejects(unit, shard.rejects)
            return untouched(shard)
        engine = self._own("engine", self._stages.open_engine)
        masker = self._own("masker", self._stages.masker) if self._stages.masker else None
        started = time.monotonic()
        name = self._stages.files[unit.file].name
        done = tokenize(shard, name, engine, masker, self._stages.rules)
        seconds = time.monotonic() - started
        self._depths.tokenized()
        self._log_rejects(unit, (*done.rejects, *done.failed))
        self._log_batch(name, done, seconds)
        return replace(done, seconds=seconds)

    def _log_rejects(self, unit: Unit, rejects: tuple[Reject, ...]) -> None:
        """One line for the rows that end here; `PREFIX.rejects.jsonl` lists each."""
        if rejects:
            log(
                self._stages.monitor,
                "warn",
                "tokenizer",
                "records_rejected",
                file_path=self._stages.files[unit.file].name,
                error=f"row {rejects[0].row}: {rejects[0].reason}",
                error_count=len(rejects),
            )

    def _log_batch(self, name: str, done: Tokenized, seconds: float) -> None:
        reader, tokenizer = self._depths.depths()
        log(
            self._stages.monitor,
            "trace",
            "tokenizer",
            "batch",
            file_path=name,
            batch_size=len(done.shard.texts),
            tokens=done.tokens,
            latency_ms=round(1000 * seconds, 3),
            queue_depth_reader=reader,
            queue_depth_tok=tokenizer,
        )

    def _warm_up(self) -> None:
        """Load the engine and let it make its tables while the first rows are read."""
        self._own("engine", self._stages.open_engine).encode(_WARM)

    def _own(self, name: str, make: Callable[[], _Own]) -> _Own:
        """What every thread has of its own, made when it is needed first."""
        if not hasattr(self._local, name):
            setattr(self._local, name, make())
        own: _Own = getattr(self._local, name)
        return own

    # In the caller's thread

    def _write(self, tokenized: Tokenized, writer: UnitWriter) -> None:
        started = time.monotonic()
        writer.write(tokenized)
        self._room.release()
        self._depths.written()
        self._tell(tokenized, time.monotonic() - started)

    def _tell(self, tokenized: Tokenized, seconds: float) -> None:
        monitor, shard, tally = self._stages.monitor, tokenized.shard, tokenized.tally
        if shard.read:
            row_group, size = shard.row_group, shard.read
            log(monitor, "trace", "reader", "rows_read", row_group=row_group, bytes_read=size)
        if tokenized.seconds:
            monitor({"kind": "stage", "stage": "write", "seconds": seconds})
            monitor({"kind": "stage", "stage": "tokenize", "seconds": tokenized.seconds})
            monitor({"kind": "batch", "ms": 1000 * tokenized.seconds})
            reader, tokenizer = self._depths.depths()
            monitor({"kind": "depth", "reader": reader, "tokenizer": tokenizer})
        documents = tokenized.documents
        monitor(
            {
                "kind": "count",
                "bytes_read": shard.read,
                "bytes_written": 0 if documents is None else documents.tokens.nbytes,
                "text_bytes": tally.get("text_bytes", 0),
                "records": tally.get("rows", 0),
                "tokens": tokenized.tokens,
                "documents": _whole(shard) if documents is None else len(documents.sizes),
                "failed_records": tally.get("rejected", 0),
                "filtered": tally.get("short", 0) + tally.get("long", 0),
            }
        )

    def _end(self, item: _End, writer: UnitWriter, fail_fast: bool) -> Stretch:
        unit, monitor = item.unit, self._stages.monitor
        file = self._stages.files[unit.file]
        monitor({"kind": "count", "units": 1})
        if item.problem is None:
            stretch = writer.finish(unit.number)
            log(
                monitor,
                "debug",
                "writer",
                "unit_done",
                file_path=file.name,
                records=stretch.facts["rows"],
                tokens=stretch.facts["tokens"],
            )
            return stretch
        if fail_fast:
            raise item.problem
        log(
            monitor,
            "error",
            "reader",
            "batch_decode_failed",
            file_path=file.name,
            error=str(item.problem),
        )
        monitor({"kind": "count", "error.read": 1})
        return writer.fail(unit.number, item.problem.problem)  # where it lies is not the data's


def _whole(shard: Shard) -> int:
    """Long documents that a shard completes."""
    return int(shard.closes and not shard.dropped)
