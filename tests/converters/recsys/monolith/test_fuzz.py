"""Streams of every framing and kind, damaged: read, indexed, written and read again.

No stream may end in anything but records, rows and what is told of the rest; a reader of frames and
protobuf's objects, both of a few lines, say what is right. Seeds count from 0: a failure names its
own, and `_check(seed)` repeats it.
"""

import io
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

import numpy as np
import pyarrow.parquet as pq
import pytest

from ingot.converters.errors import SourceError
from ingot.converters.recsys.monolith.contract import DEADBEEF
from ingot.converters.recsys.monolith.convert.job import convert
from ingot.converters.recsys.monolith.convert.settings import Counts, Settings, Target
from ingot.converters.recsys.monolith.frames.compression import (
    new_compressor,
    open_decompressed,
)
from ingot.converters.recsys.monolith.frames.framing import (
    COMPRESSIONS,
    FRAMINGS,
    MAX_SORT_ID,
    Framing,
)
from ingot.converters.recsys.monolith.frames.record_io import RecordReader, RecordWriter
from ingot.converters.recsys.monolith.record_index import Bad, Records, Rows
from ingot.converters.recsys.monolith.streams import read_rows
from ingot.converters.recsys.monolith.wire.message_writer import example_records
from ingot.converters.recsys.monolith.wire.row_index import find_unfit_for_batches, index_batches
from ingot.converters.sources.recognizers.monolith import MAX_RECORD, Kind
from ingot.schemas.monolith.example_pb2 import Example, ExampleBatch
from tests.converters.recsys.monolith.reference import canonical, row_of
from tests.converters.recsys.monolith.strategies import (
    batch,
    blob,
    damaged,
    encoded,
    example,
    instance,
    seldom,
)
from tests.converters.recsys.monolith.wire.comparing import (
    JUDGES,
    Judged,
    agree,
    batch_records,
    found,
)

QUICK = 800
WARM: Final = 100
SLOW: Final = 30.0  # seconds of a stream of a few hundred bytes
MAKERS = {"example": example, "examplebatch": batch, "instance": instance}
TARGETS: Final[tuple[Target, ...]] = ("example", "examplebatch", "parquet")
KINDS: Final[tuple[Kind, ...]] = ("example", "examplebatch", "instance")


class Frame(NamedTuple):
    """A record as it lies in a stream, or (without a message) a stretch that is none."""

    offset: int
    size: int
    reason: str
    message: bytes
    sort_id: bytes
    source: int


@dataclass
class Cursor:
    """Numbers out of a stream."""

    data: bytes
    at: int

    def number(self) -> int:
        """The next one. Raises EOFError at the end."""
        return int.from_bytes(self.take(8), "little")

    def take(self, size: int) -> bytes:
        """The next bytes. Raises EOFError at the end."""
        if size > len(self.data) - self.at:
            raise EOFError
        self.at += size
        return self.data[self.at - size : self.at]


class _NoMore(Exception):  # noqa: N818 - a judgement
    """The rest of a stream is no record."""


def frames(data: bytes, framing: Framing, kind: Kind) -> Iterator[Frame]:
    """What lies in a stream."""
    at = 0
    while at < len(data):
        cursor = Cursor(data, at)
        try:
            frame = _frame(cursor, framing, kind)
        except EOFError:
            frame = Frame(at, len(data) - at, "truncated", b"", b"", 0)
        except _NoMore as why:
            frame = Frame(at, len(data) - at, str(why), b"", b"", 0)
        yield frame
        at += frame.size


def _frame(cursor: Cursor, framing: Framing, kind: Kind) -> Frame:
    at, source, sort_id = cursor.at, 0, b""
    if framing.lagrangex_header:
        source = cursor.number() & 0xFFFFFF00
    else:
        sort_id = _sort_id(cursor, framing)
    if framing.kafka_dump:
        cursor.number()
    size = cursor.number()
    if size == DEADBEEF:
        raise _NoMore("deadbeef")
    if size == 0 or size > MAX_RECORD[kind]:
        whole = min(cursor.at + size, len(cursor.data)) - at
        return Frame(at, whole, "size" if size else "empty", b"", b"", 0)
    message = cursor.take(size)
    return Frame(at, cursor.at - at, "", message, sort_id, source)


def _sort_id(cursor: Cursor, framing: Framing) -> bytes:
    size = 0
    if framing.kafka_dump_prefix:
        size = cursor.number() or cursor.number() * 0
    if not framing.sort_id:
        return b""
    size = size or cursor.number()
    if size > MAX_SORT_ID:
        raise _NoMore("sort_id")
    return cursor.take(size)


def stream(random: Random, framing: Framing, kind: Kind) -> bytes:
    """Some records in their frames, sound or damaged: messages, sizes, anything."""
    parts = []
    for _ in range(random.randrange(1, 4)):
        message = MAKERS[kind](random)
        data = encoded(random, message) if seldom(random, 2) else message.SerializeToString()
        data = damaged(random, data, 2) if seldom(random, 4) else data
        parts.append(_framed(random, framing, data))
    data = b"".join(parts)
    return damaged(random, data) if seldom(random, 3) else data


def _framed(random: Random, framing: Framing, message: bytes) -> bytes:
    sort_id = blob(random) if framing.sort_id and seldom(random, 3) else b""
    out = b""
    if framing.lagrangex_header:
        out += _bytes(random.choice((0, 256, 0xFFFFFF00, (7 << 40) | 513)))
    short = framing.kafka_dump_prefix and bool(sort_id) and seldom(random, 2)
    if framing.kafka_dump_prefix:
        out += _bytes(len(sort_id)) if short else _bytes(0) + _bytes(0)
    if framing.sort_id:
        out += b"" if short else _bytes(len(sort_id))
    return out + sort_id + _bytes(0) * framing.kafka_dump + _bytes(len(message)) + message


def _bytes(number: int) -> bytes:
    return number.to_bytes(8, "little")


def _read(data: bytes, framing: Framing, kind: Kind, block: int) -> list[Records | Bad] | None:
    """What a stream holds; None where its first record is told to be of another kind."""
    try:
        return list(RecordReader(io.BytesIO(data), "stream", framing, kind, block))
    except SourceError as error:
        if "its records are of kind" not in str(error):
            raise
        return None


def _hold_frames(parts: list[Records | Bad], right: list[Frame], size: int) -> int | None:
    """Hold what was read against what is there; the number of the record at which reading was
    given up, as its sort_id is a message."""
    at = number = 0
    for part in parts:
        if isinstance(part, Bad):
            assert (part.record, part.offset) == (number, at)
            if part.reason == "sort_id" and "itself" in part.detail:
                assert at + part.bytes == size
                return number
            assert (part.reason, part.bytes) == (right[number].reason, right[number].size)
            at, number = at + part.bytes, number + 1
            continue
        for one in range(len(part)):
            frame = right[number]
            assert not frame.reason
            assert (part.record[one], part.offset[one]) == (number, at)
            assert (part.message(one), part.sort_id(one)) == (frame.message, frame.sort_id)
            assert part.source[one] == frame.source
            at, number = at + frame.size, number + 1
    assert (at, number) == (size, len(right))
    return None


def _judged(right: list[Frame], kind: Kind) -> Judged:
    """What is to be made of all records."""
    out: Judged = {}
    for number, frame in enumerate(right):
        if frame.reason:
            out[number, None] = {frame.reason}
            continue
        for (_, row), said in JUDGES[kind]([frame.message], frame.source).items():
            out[number, row] = said
    return out


def _check(seed: int) -> str:
    """One stream, from its bytes to those of others; what became of it."""
    random = Random(seed)
    framing, kind = random.choice(FRAMINGS), random.choice(KINDS)
    data = stream(random, framing, kind)
    block = random.choice((1, 7, 100, 1 << 20))
    parts = _read(data, framing, kind, block)
    if parts is None:
        return "other kind"
    right = list(frames(data, framing, kind))
    end = _hold_frames(parts, right, len(data))
    if end is not None:
        right = right[:end]
    rows = _hold_rows(parts, right, kind, end)
    _write(random, rows)
    return "given up" if end is not None else ("rows" if rows else "no rows")


def _hold_rows(
    parts: list[Records | Bad], right: list[Frame], kind: Kind, end: int | None
) -> list[Rows]:
    """Hold the rows against protobuf's; gives them."""
    made = list(read_rows(parts, kind))
    rows = [one for one in made if not isinstance(one, Bad)]
    wrong = [one for one in made if isinstance(one, Bad) and one.record != end]
    nothing: list[Bad] = []
    pairs = [(one, nothing) for one in rows]
    if rows:
        pairs[0] = (rows[0], wrong)
    said = found(pairs, kind == "examplebatch")
    if not rows:
        said = {(bad.record, bad.row): {bad.reason} for bad in wrong}
        assert len(said) == len(wrong)
    agree(said, _judged(right, kind))
    return rows


def _write(random: Random, parts: list[Rows]) -> None:
    """Write rows as Examples and as batches, in any framing, and read them again."""
    framing = random.choice(FRAMINGS)
    rows = [one.chosen(_can_be_written(one, framing)) for one in parts]
    examples = [example_records(one) for one in rows]
    _hold_written(examples, framing, "example")
    fit = [one.chosen(_fits(one)) for one in rows]
    batches = batch_records(fit, random.randrange(1, 4), seldom(random, 2))
    _hold_written(batches, framing, "examplebatch")
    count = 0
    for one in batches:
        for again, wrong in index_batches(one):
            assert not wrong
            count += len(again)
    assert count == sum(map(len, fit))


def _can_be_written(rows: Rows, framing: Framing) -> np.ndarray:
    """Rows that have any bytes as Examples, and whose data_source_key goes into the frame."""
    records = example_records(rows)
    fits = (rows.source & np.uint32(255)) == 0 if framing.lagrangex_header else True
    return (records.stop > records.start) & fits


def _fits(rows: Rows) -> np.ndarray:
    return ~find_unfit_for_batches(rows)


def _hold_written(parts: list[Records], framing: Framing, kind: Kind) -> None:
    out = io.BytesIO()
    writer = RecordWriter(out, framing, kind)
    for part in parts:
        writer.write(part)
    writer.close()
    wanted = [part.message(at) for part in parts for at in range(len(part))]
    assert [one.message for one in frames(out.getvalue(), framing, kind)] == wanted


def _check_compressed(seed: int) -> str:
    """One compressed stream, damaged after that: it ends in records, or is told to be damaged."""
    random = Random(seed)
    framing, kind = random.choice(FRAMINGS), random.choice(KINDS)
    compression = random.choice(COMPRESSIONS)
    packing = new_compressor(compression)
    packed = packing.compress(stream(random, framing, kind) * random.randrange(1, 50))
    data = damaged(random, packed + packing.flush())
    try:
        raw = open_decompressed(io.BytesIO(data), "stream", compression)
        made = list(read_rows(RecordReader(raw, "stream", framing, kind), kind))
    except SourceError:
        return "damaged"
    return "rows" if any(not isinstance(one, Bad) for one in made) else "no rows"


def _check_converted(seed: int) -> str:
    """One stream, converted without what is bad: all of it is written, or told and counted."""
    random = Random(seed)
    source, target = random.choice(KINDS), random.choice(TARGETS)
    framing, to = random.choice(FRAMINGS), random.choice(FRAMINGS)
    data = stream(random, framing, source)
    settings = Settings(
        source=source,
        target=target,
        framing=framing,
        out_framing=to,
        batch_size=random.randrange(1, 5),
        skip_bad=True,
    )
    with TemporaryDirectory() as folder:
        (Path(folder) / "in").write_bytes(data)
        try:
            done = convert(f"{folder}/in", f"{folder}/out", settings)
        except SourceError as error:
            return _end_of(error)
        rejects = [] if done.rejects is None else done.rejects.read_text().splitlines()
        _hold_counts(done.counts, len(rejects))
        assert _rows_in(Path(folder) / "out", target, to) == done.counts.written
        if target == "example":
            _hold_examples((Path(folder) / "out").read_bytes(), data, settings, rejects)
    return "rows" if done.counts.written else "no rows"


def _hold_examples(out: bytes, data: bytes, settings: Settings, rejects: list[str]) -> None:
    """Hold the Examples that were written against the rows that protobuf makes of the stream."""
    kind, to = settings.source, settings.out_framing
    messages = [one.message for one in frames(out, to, "example")]
    made = [canonical(row_of(Example.FromString(one))) for one in messages]
    judged = _judged(list(frames(data, settings.framing, kind)), kind).values()
    right = [one for one in judged if isinstance(one, bytes) and one]
    if to.lagrangex_header:
        right = [one for one in right if not Example.FromString(one).data_source_key & 255]
    assert made == right[: len(made)]
    assert len(made) == len(right) or any('"sort_id"' in one for one in rejects)


def _end_of(error: SourceError) -> str:
    """Why a stream may end in an error although what is bad is left out."""
    for why in ("its records are of kind", "no record can be used"):
        if why in str(error):
            return why
    raise error


def _hold_counts(counts: Counts, rejects: int) -> None:
    """Hold the figures of a conversion against each other."""
    figures = Counter(counts.filtered)
    assert counts.rows == counts.written + figures.total() + counts.rejected_rows
    assert counts.rejected_records + counts.rejected_rows == rejects
    assert Counter(counts.rejects).total() == rejects


def _rows_in(out: Path, target: str, framing: Framing) -> int:
    """The rows of what was written, as protobuf or Arrow reads them."""
    if target == "parquet":
        return pq.read_metadata(out).num_rows
    messages = [one.message for one in frames(out.read_bytes(), framing, target)]
    if target == "example":
        return len([Example.FromString(one) for one in messages])
    return sum(ExampleBatch.FromString(one).batch_size for one in messages)


def _run(check, seeds: range) -> Counter[str]:
    """Check streams; the figures of what became of them."""
    ends: Counter[str] = Counter()
    for seed in seeds:
        started = time.process_time()
        try:
            ends[check(seed)] += 1
        except Exception as error:
            raise AssertionError(f"{check.__name__}({seed})") from error
        # The first ones wait for kernels to be compiled.
        assert time.process_time() - started < SLOW or seed < seeds[0] + WARM, seed
    return ends


@pytest.mark.more
def test_damaged_streams_are_read_to_the_last_byte():
    ends = _run(_check, range(QUICK))
    assert ends["rows"] > QUICK / 3


def test_damaged_compressed_streams_end_in_rows_or_in_an_error():
    _run(_check_compressed, range(QUICK // 5))


def test_damaged_streams_are_converted_or_told_to_the_last_row():
    _run(_check_converted, range(QUICK // 10))
