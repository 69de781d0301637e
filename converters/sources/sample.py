"""A sample of a source: rows spread over all of it, bounded in bytes, the same for the same seed.

Rows are taken in short runs of neighbours, so that rows that belong together (turns of one
conversation) are seen together. How a file is sampled depends on what it allows:

- a small source is read whole;
- plain JSONL, text, CSV and lists or objects in JSON: from places spread over the file, each run
  beginning at the next row (the number of such a row is not known and given as -1);
- Parquet, Lance, Arrow, Avro and MDS: from row groups, blocks and rows spread over the file;
- all else (compressed, members of archives, UTF-16): read from the beginning, runs at even
  distances kept, up to `SKIM_FACTOR` times its share of the bytes. What lies behind is not seen.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeAlias

import orjson

from ingot.converters.rows import BadRow, Batch, Json, NonFinite, count_non_finite
from ingot.converters.sources.facts import RAW_PAGE, SourceFile, stored_bytes
from ingot.converters.sources.formats.row_chunks import BrokenRow, to_bad_row, to_batches
from ingot.converters.sources.readers import read_file, with_partitions
from ingot.converters.sources.row_runs import RowRun, spread_row_runs
from ingot.converters.sources.source import Source
from ingot.converters.sources.storage.archives import keep_archive_open

UNKNOWN_ROW = -1
SKIM_FACTOR = 16  # times `max_bytes` of rows are read at most where a file is read in order
_RUN_ROWS = 10
_FILES = 40  # files that share the rows at first; more are opened while rows are missing
_MOST_FILES = 1000


@dataclass(frozen=True, kw_only=True, slots=True)
class SampledRow:
    """A row with its place; `row` is -1 where it is not known, `key` None if it has none.

    `non_finite` is the number of its numbers that are not finite and were read as null.
    """

    file: str
    row: int
    key: str | None
    value: Json
    non_finite: int = field(default=0, repr=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class SampledBad:
    """A row of the sample that cannot be read."""

    file: str
    bad: BadRow


_Item: TypeAlias = SampledRow | SampledBad


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """Rows of a source in its order, and unreadable ones met; `complete`: it holds every row."""

    rows: tuple[SampledRow, ...]
    bad: tuple[SampledBad, ...]
    complete: bool
    total_rows: int | None

    @property
    def non_finite(self) -> NonFinite | None:
        """Return the numbers that were read as null, None if there are none."""
        rows = (row for row in self.rows if row.non_finite)
        return count_non_finite((row.file, row.row, row.non_finite) for row in rows)


def draw_sample(
    source: Source, *, rows: int = 200, max_bytes: int = 8 << 20, seed: int = 0
) -> Sample:
    """Draw a sample.

    Args:
        source: what to sample.
        rows: how many rows are wanted; a source with no more is sampled whole.
        max_bytes: about how many bytes of rows may be held (at least one row of a file always is).
        seed: other seeds give other rows of a source that is not sampled whole.

    Raises:
        SourceError: a file that is looked into cannot be read.
    """
    if source.spec.html != RAW_PAGE and any(file.facts.format == "warc" for file in source.files):
        # Main texts take time: those of the rows that are chosen are found.
        pages = replace(source, spec=replace(source.spec, html=RAW_PAGE))
        drawn = draw_sample(pages, rows=rows, max_bytes=max_bytes, seed=seed)
        return _find_main_texts(source, drawn)
    whole = _read_whole(source, max_bytes)
    if whole is not None:
        complete = len(whole) <= rows
        chosen = whole if complete else _pick_runs(whole, rows, random.Random(seed))
        return _build_sample(chosen, complete=complete, total=len(whole))
    with keep_archive_open():
        return _Sampler(source, rows, max_bytes, seed).sample()


def _find_main_texts(source: Source, sample: Sample) -> Sample:
    from ingot.converters.sources.interchange.web_archives import find_main_texts

    texts = find_main_texts(source.location, (row.value for row in sample.rows))
    rows = [replace(sampled, value=row) for sampled, row in zip(sample.rows, texts, strict=True)]
    bad = [
        SampledBad(file=row.file, bad=to_bad_row(row.row, row.value))
        for row in rows
        if type(row.value) is BrokenRow
    ]
    readable = tuple(row for row in rows if type(row.value) is not BrokenRow)
    return replace(sample, rows=readable, bad=(*sample.bad, *bad))


def _read_whole(source: Source, max_bytes: int) -> list[_Item] | None:
    """Every row of a source that is no larger than `max_bytes`, else None."""
    if stored_bytes(source.files) > max_bytes:
        return None
    items: list[_Item] = []
    size = 0
    for batch in source.batches():
        items += _sampled_items(batch)
        size += _batch_bytes(batch)
        if size > 2 * max_bytes:  # compressed
            return None
    return items


def _sampled_items(batch: Batch) -> list[_Item]:
    """The rows of a batch in their order, bad ones among them."""
    keys: Sequence[str | None] = batch.keys or [None] * len(batch.values)
    counts = dict(batch.non_finite)
    good: list[_Item] = [
        SampledRow(file=batch.file, row=row, key=key, value=value, non_finite=counts.get(row, 0))
        for row, key, value in zip(batch.rows, keys, batch.values, strict=True)
    ]
    if not batch.bad:
        return good
    good += [SampledBad(file=batch.file, bad=bad) for bad in batch.bad]
    return sorted(good, key=_row_number)


def _row_number(item: _Item) -> int:
    return item.row if isinstance(item, SampledRow) else item.bad.row


def _batch_bytes(batch: Batch) -> int:
    try:
        return len(orjson.dumps(list(batch.values)))
    except TypeError:  # integers beyond 64 bits
        return len(repr(batch.values))


def _build_sample(items: Sequence[_Item], *, complete: bool, total: int | None) -> Sample:
    return Sample(
        rows=tuple(item for item in items if isinstance(item, SampledRow)),
        bad=tuple(item for item in items if isinstance(item, SampledBad)),
        complete=complete,
        total_rows=total,
    )


def _pick_runs(items: list[_Item], rows: int, chance: random.Random) -> list[_Item]:
    """`rows` of more items, in runs of neighbours at even distances, each shifted by chance."""
    count = max(1, rows // _RUN_ROWS)
    out: list[_Item] = []
    for number in range(count):
        start, stop = len(items) * number // count, len(items) * (number + 1) // count
        size = rows * (number + 1) // count - rows * number // count
        first = chance.randint(start, max(start, stop - size))
        out += items[first : first + size]
    return out


class _RunThinner:
    """Runs at even distances of rows whose number is not known before they end."""

    def __init__(self, rows: int, most_bytes: int, chance: random.Random) -> None:
        self._rows = rows
        self._most_bytes = most_bytes
        self._chance = chance
        self._runs: list[list[_Item]] = []
        self._sizes: list[int] = []
        self._open: list[_Item] = []
        self._step, self._first, self._number = 1, 0, 0

    @property
    def size(self) -> int:
        """Return about how many bytes are held."""
        return sum(self._sizes)

    def add(self, items: Sequence[_Item]) -> None:
        for item in items:
            self._open.append(item)
            if len(self._open) == _RUN_ROWS:
                self._close()

    def _close(self) -> None:
        if self._number % self._step == self._first:
            self._runs.append(self._open)
            self._sizes.append(sum(len(repr(item)) for item in self._open))
        self._open = []
        self._number += 1
        wanted = max(1, self._rows // _RUN_ROWS)
        while len(self._runs) > 1 and (
            len(self._runs) >= 4 * wanted or self.size > self._most_bytes
        ):
            odd = self._chance.randrange(2)
            self._runs, self._sizes = self._runs[odd::2], self._sizes[odd::2]
            self._first += odd * self._step
            self._step *= 2

    def chosen(self) -> list[_Item]:
        """Return at most the requested number of rows, in order, spread over all added ones."""
        if self._open:
            self._close()
        items = [item for run in self._runs for item in run]
        return items if len(items) <= self._rows else _pick_runs(items, self._rows, self._chance)


class _Sampler:
    """Draws from a source that is not read whole, file after file while rows are missing."""

    def __init__(self, source: Source, rows: int, max_bytes: int, seed: int) -> None:
        self._source = source
        self._rows = rows
        self._bytes = max_bytes
        self._chance = random.Random(seed)
        self._found: dict[int, list[_Item]] = {}

    def sample(self) -> Sample:
        files = self._source.files
        shift = self._chance.randrange(len(files)) if files else 0
        places = [(number + shift) % len(files) for number in spread_order(len(files))]
        places = places[:_MOST_FILES]
        sharing = min(len(places), _FILES)
        for number, place in enumerate(places):
            missing = self._rows - sum(map(len, self._found.values()))
            if missing <= 0 or (self._bytes <= 0 and self._found):
                break
            shares = max(1, sharing - number)
            self._take(place, -(-missing // shares), max(1, self._bytes // shares))
        items = [item for place in sorted(self._found) for item in self._found[place]]
        counts = [file.facts.rows for file in files]
        total = None if None in counts else sum(count or 0 for count in counts)
        return _build_sample(items, complete=False, total=total)

    def _take(self, place: int, rows: int, most_bytes: int) -> None:
        """Rows of one file, at most `rows`, from about `most_bytes` bytes."""
        file = self._source.files[place]
        spec = self._source.spec
        count = max(1, -(-rows // _RUN_ROWS))
        items: list[_Item] = []
        used = 0
        plan = spread_row_runs(file, spec, count, most_bytes, self._chance)
        if plan is not None:
            items, used = self._from_runs(file, plan, rows, most_bytes)
        if not items:  # it cannot be entered, or its rows are larger than what is read of each run
            whole = RowRun(first_row=0, stretches=partial(read_file, file, spec))
            items, used = self._from_runs(file, [whole], rows, most_bytes)
        self._bytes -= used
        self._found[place] = items

    def _from_runs(
        self, file: SourceFile, plan: Sequence[RowRun], rows: int, most_bytes: int
    ) -> tuple[list[_Item], int]:
        items: list[_Item] = []
        used, fields = 0, self._source.spec.json_fields or ()
        for number, run in enumerate(plan):
            left = len(plan) - number
            share = -(-(rows - len(items)) // left)
            thinned = _RunThinner(share, max(1, (most_bytes - used) // left), self._chance)
            unread = SKIM_FACTOR * most_bytes // len(plan)
            for batch in to_batches(file.name, with_partitions(file, run.stretches()), fields):
                thinned.add(_sampled_items(batch))
                unread -= _estimate_bytes(batch)
                if unread <= 0:
                    break
            items += [_renumber_item(item, run.first_row) for item in thinned.chosen()]
            used += thinned.size
            if used >= most_bytes:
                break
        return items, used


def _renumber_item(item: _Item, first_row: int | None) -> _Item:
    """An item of a run with its number in the file, -1 where the run's place is not known."""
    row = UNKNOWN_ROW if first_row is None else first_row + _row_number(item)
    if isinstance(item, SampledRow):
        return replace(item, row=row)
    return replace(item, bad=replace(item.bad, row=row))


def _estimate_bytes(batch: Batch) -> int:
    """About how many bytes the rows of a batch have, from a few of them."""
    rows = len(batch.values)
    few = [batch.values[number] for number in sorted({0, rows // 2, rows - 1})] if rows else []
    return sum(len(repr(value)) for value in few) * rows // max(1, len(few)) + len(batch.bad)


def spread_order(count: int) -> list[int]:
    """Return all numbers below `count` in an order of which every beginning is evenly spread."""
    width = max(1, count - 1).bit_length()
    reversed_bits = (int(f"{number:0{width}b}"[::-1], 2) for number in range(1 << width))
    return [number for number in reversed_bits if number < count]
