"""Collect rows that are read once: their tokens as codes, spooled to disk by split, and counted."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ingot.converters.errors import OutputError
from ingot.converters.output.files import FinishedBlock, output_errors
from ingot.converters.recsys.ctr.contract import SPLITS, entity_hashes, splits_of
from ingot.converters.recsys.ctr.featuremap import FeatureMap
from ingot.converters.recsys.ctr.preprocess.token_kernels import count_codes
from ingot.converters.recsys.ctr.preprocess.vocabulary import Interner, grow_array
from ingot.converters.recsys.ctr.table.table_cells import RawBlock, Reject
from ingot.converters.rows import Json


@dataclass(frozen=True, kw_only=True)
class Tokens:
    """The tokens of one field over n rows."""

    offsets: NDArray[np.int32]  # int32[n + 1]; row i has tokens offsets[i]:offsets[i + 1]
    codes: NDArray[np.int32]  # int32[m], of the build's interner
    values: NDArray[np.float32]  # float32[m], finite


@dataclass(frozen=True, kw_only=True)
class Rows:
    """Rows of a skeleton or a table, or lines of the common features."""

    rows: NDArray[np.int64]  # int64[n], their numbers in the file from 0
    clicks: NDArray[np.uint8]  # uint8[n], 0 or 1; all 0 for common features
    purchases: NDArray[np.uint8]  # uint8[n], 0 or 1; all 0 for common features
    entities: NDArray[np.int32]  # int32[n], codes of the build's entities
    # uint64[n], hashes of the samples' ids; None where there are none
    samples: NDArray[np.uint64] | None
    tokens: tuple[Tokens, ...]
    counts: Counter[str] = field(default_factory=Counter)
    rejects: Sequence[Reject] = ()

    @property
    def read(self) -> int:
        """Rows read, the rejected ones included."""
        return len(self.rows) + len(self.rejects)


def encode_block(block: RawBlock, interner: Interner, entities: Interner) -> Rows:
    """A table's rows with codes in place of texts."""
    tokens = tuple(
        Tokens(offsets=one.offsets, codes=interner.add_array(one.tokens, at), values=one.values)
        for at, one in enumerate(block.tokens)
    )
    counts = block.counts
    dropped = counts.total() - counts["not_finite"]
    counts["read"] = sum(len(one.codes) for one in tokens) + dropped
    return Rows(
        rows=block.rows,
        clicks=block.clicks,
        purchases=block.purchases,
        entities=entities.add_array(block.entities),
        samples=block.samples,
        tokens=tokens,
        counts=counts,
        rejects=block.rejects,
    )


@dataclass(frozen=True, kw_only=True)
class Codes:
    """What the codes of rows stand for."""

    places: NDArray[np.uint32]  # of each token: its place in the sorted texts of its field
    lines: NDArray[np.int64]  # of each entity: its line in the store
    names: pa.LargeBinaryArray  # of each entity


_CODES, _VALUES = pa.list_(pa.int32()), pa.list_(pa.float32())
_COLUMNS: Final = pa.schema(
    {"row_id": pa.int64(), "click": pa.uint8(), "purchase": pa.uint8(), "entity": pa.int32()}
)


class Spool:
    """Writes rows of a split, or common features; `read_spool` reads them in the same order."""

    def __init__(self, path: Path, fields: int) -> None:
        self._path, self._fields = path, fields
        lists = [pair for at in range(fields) for pair in ((f"c{at}", _CODES), (f"v{at}", _VALUES))]
        self._schema = pa.schema([*_COLUMNS, *lists])
        with output_errors(path):
            self._sink = pa.OSFile(str(path), "wb")
            self._writer = pa.ipc.new_file(self._sink, self._schema)

    def write(self, rows: Rows, kept: NDArray[np.bool_] | None = None) -> Rows:
        """Append rows, or those of them that are `kept`; gives what was appended."""
        columns = [rows.rows, rows.clicks, rows.purchases, rows.entities]
        arrays = [pa.array(column) for column in columns]
        for one in rows.tokens:
            offsets = pa.array(one.offsets)
            arrays.append(pa.ListArray.from_arrays(offsets, pa.array(one.codes)))
            arrays.append(pa.ListArray.from_arrays(offsets, pa.array(one.values)))
        batch = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        if kept is not None and not kept.all():
            batch = batch.take(pa.array(np.flatnonzero(kept)))
        if batch.num_rows:
            with output_errors(self._path):
                self._writer.write_batch(batch)
        return _to_rows(batch, self._fields)

    def close(self) -> None:
        """Finish the file; again is no harm."""
        if self._sink.closed:
            return
        with output_errors(self._path), self._sink:
            self._writer.close()


def read_spool(
    path: Path, fields: int, most: int | None = None, start: int = 0, stop: int | None = None
) -> Iterator[Rows]:
    """Yield rows `start` to `stop` of a spool, at most `most` at a time."""
    with pa.memory_map(str(path)) as source:  # what lies before `start` is not read then
        reader = pa.ipc.open_file(source)
        done = 0
        for at in range(reader.num_record_batches):
            if stop is not None and done >= stop:
                return
            batch = reader.get_batch(at)
            end = batch.num_rows if stop is None else min(batch.num_rows, stop - done)
            for first in range(max(0, start - done), end, most or max(1, batch.num_rows)):
                yield _to_rows(batch.slice(first, min(most or end, end - first)), fields)
            done += batch.num_rows


def _to_rows(batch: pa.RecordBatch, fields: int) -> Rows:
    names = ("rows", "clicks", "purchases", "entities")
    columns = {
        name: batch.column(at).to_numpy(zero_copy_only=False) for at, name in enumerate(names)
    }
    tokens = tuple(
        Tokens(
            offsets=batch.column(at).offsets.to_numpy(),
            codes=batch.column(at).values.to_numpy(),
            values=batch.column(at + 1).values.to_numpy(),
        )
        for at in range(4, 4 + 2 * fields, 2)
    )
    return Rows(**columns, samples=None, tokens=tokens)


PART: Final = 1 << 22  # hashes that are sorted at a time: 32 MiB


def count_repeats(paths: Sequence[Path], part: int = PART) -> int | None:
    """Count the 64-bit hashes in files that stood there before; None where there are none."""
    count = sum(path.stat().st_size for path in paths) // np.dtype(np.uint64).itemsize
    parts, distinct = -(-count // part), 0
    for at in range(parts):
        held = []
        for path in paths:
            with path.open("rb") as file:
                while len(some := np.fromfile(file, np.uint64, part)):
                    held.append(some[some % np.uint64(parts) == at])
        hashes = np.concatenate(held)
        del held  # only one copy is in memory
        hashes.sort()
        distinct += int(np.count_nonzero(hashes[1:] != hashes[:-1])) + bool(len(hashes))
    return count - distinct if count else None


_STEP = 1 << 16


class Entities:
    """The entities of a build."""

    def __init__(self, featuremap: FeatureMap) -> None:
        self.names = Interner()
        self._seed, self._fraction = featuremap.split_seed, featuremap.train_ratio
        self._settled = 0
        self._splits = np.empty(0, np.uint8)
        self._lines = np.empty(0, np.int64)
        self._rows = np.empty(0, np.int64)

    @property
    def splits(self) -> NDArray[np.uint8]:
        """The split of each."""
        return self._splits[: self._settled]

    @property
    def lines(self) -> NDArray[np.int64]:
        """The line of common features of each, -1 for none; the last one counts."""
        return self._lines[: self._settled]

    @property
    def rows(self) -> NDArray[np.int64]:
        """How many rows each has."""
        return self._rows[: self._settled]

    def settle(self) -> None:
        """Give new entities their split."""
        known, count = self._settled, self.names.count
        if count > len(self._splits):
            room = 2 * count
            self._splits = grow_array(self._splits, room)
            self._lines = grow_array(self._lines, room)
            self._rows = grow_array(self._rows, room)
        new = self.names.texts().slice(known)
        steps = range(0, len(new), _STEP)
        texts = (text for at in steps for text in new.slice(at, _STEP).to_pylist())
        hashes = entity_hashes(texts, self._seed)
        self._splits[known:count] = splits_of(hashes, self._fraction)
        self._lines[known:count] = -1
        self._settled = count

    def add_lines(self, entities: NDArray[np.int32], first: int) -> None:
        """Note lines of common features, int32 entities of lines first, first + 1, ..."""
        self.settle()
        # Where an entity stands twice, numpy keeps the last of them.
        self._lines[entities] = np.arange(first, first + len(entities))

    def add_rows(self, entities: NDArray[np.int32]) -> None:
        """Count rows."""
        np.add.at(self._rows, entities, 1)

    def join(
        self,
        entities: NDArray[np.int32],
        lines: NDArray[np.int64],
        rows: NDArray[np.int64],
        first: int,
    ) -> None:
        """Add what a piece, whose lines begin at `first`, has of its entities, each once."""
        self.settle()
        known = lines >= 0
        self._lines[entities[known]] = lines[known] + first
        self._rows[entities] += rows


class RowCounts:
    """What is counted of rows, of a piece of the input or of all of it; codes are its own."""

    def __init__(self, featuremap: FeatureMap) -> None:
        self.tokens = Interner()
        self.entities = Entities(featuremap)
        self.counts: Counter[str] = Counter()
        self.read = 0
        self.dropped = 0
        self.rows = [0] * len(SPLITS)
        self.common = 0  # lines of common features
        self.kinds: dict[str, str] = {}  # columns of a table, and how they are spelled
        self._is_table = featuremap.table is not None
        self._occurrences = [np.zeros(0, np.int64) for _ in SPLITS]

    def occurrences(self, split: int) -> NDArray[np.int64]:
        """How often each token is in the rows of a split, int64; may be added to."""
        if len(self._occurrences[split]) < self.tokens.count:
            room = 2 * self.tokens.count
            self._occurrences[split] = grow_array(self._occurrences[split], room)
        return self._occurrences[split][: self.tokens.count]

    def save(self, path: Path) -> dict[str, Json]:
        """Save the codes and what is counted by them; gives the other counts, for `join`."""
        self.entities.settle()
        text, ends = self.tokens.arena()
        names, name_ends = self.entities.names.arena()
        np.savez(
            path,
            text=text,
            ends=ends,
            owners=self.tokens.owners(),
            names=names,
            name_ends=name_ends,
            counts=[self.occurrences(split) for split in range(len(SPLITS))],
            lines=np.asarray(self.entities.lines),
            rows=np.asarray(self.entities.rows),
        )
        plain = ("counts", "read", "dropped", "rows", "common", "kinds")
        return {name: getattr(self, name) for name in plain}

    def join(
        self, path: Path, document: dict[str, Json]
    ) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Add what was saved of other rows; gives the codes here of its tokens and entities."""
        with np.load(path) as saved:
            ends, name_ends, entities = saved["ends"], saved["name_ends"], self.entities
            lengths, name_lengths = (np.diff(one).astype(np.int32) for one in (ends, name_ends))
            tokens = self.tokens.add(saved["text"], ends[:-1], lengths, saved["owners"])
            names = entities.names.add(saved["names"], name_ends[:-1], name_lengths)
            entities.join(names, saved["lines"], saved["rows"], self.common)
            for split, counts in enumerate(saved["counts"]):
                self.occurrences(split)[tokens] += counts
                self.rows[split] += document["rows"][split]
        self.counts.update(document["counts"])
        self.read += document["read"]
        self.dropped += document["dropped"]
        self.common += document["common"]
        self.kinds |= document["kinds"]
        return tokens, names

    def weights(self) -> NDArray[np.int64]:
        """int64[splits, lines]: how many rows of a split each line of common features serves."""
        entities = self.entities
        weights = np.zeros((len(SPLITS), self.common), np.int64)
        known = np.flatnonzero(entities.lines >= 0)
        weights[entities.splits[known], entities.lines[known]] = entities.rows[known]
        return weights

    def entity_counts(self) -> dict[str, object]:
        """The entities' part of stats.json; what is about common features is null for a table."""
        entities, lines = self.entities, self.entities.lines
        used = entities.rows > 0
        unknown = used & (lines < 0)
        common = {
            "rows_of_common": self.common,
            "repeated": self.common - int(np.count_nonzero(lines >= 0)),
            "unknown": int(np.count_nonzero(unknown)),
            "rows_of_unknown": int(entities.rows[unknown].sum()),
        }
        return {
            **(dict.fromkeys(common) if self._is_table else common),
            "in_rows": int(np.count_nonzero(used)),
            **{
                name: int(np.count_nonzero(used & (entities.splits == split)))
                for split, name in enumerate(SPLITS)
            },
        }


REJECTS: Final = "rejects.jsonl"
_FIRST_REJECTS = 3


class RejectLog:
    """Counts rejects by reason, and appends them to a file in a folder."""

    def __init__(self, folder: Path) -> None:
        self.rows: Counter[str] = Counter()
        self.common: Counter[str] = Counter()
        self._first: list[Reject] = []
        self._path = folder / REJECTS

    def note(self, rejects: Sequence[Reject], *, common: bool) -> None:
        """Note rejects of rows, or of common features."""
        reasons = self.common if common else self.rows
        reasons.update(reject.reason for reject in rejects)
        missing = _FIRST_REJECTS - len(self._first)
        self._first += rejects[:missing] if missing > 0 else ()
        lines = [json.dumps(asdict(one), ensure_ascii=False) + "\n" for one in rejects]
        if lines:
            with output_errors(self._path), self._path.open("a", encoding="utf-8") as file:
                file.writelines(lines)

    def first_lines(self) -> str:
        """Name the first rejects, a line each, each behind a line break."""
        return "".join(
            f"\n  {one.file}, row {one.row}: {one.reason} {one.found!r}" for one in self._first
        )


COMMON_SPOOL: Final = "common.arrow"
SAMPLES: Final = "samples"  # hashes of the ids of samples


def split_spool(split: str) -> str:
    """The file with the rows of a split."""
    return f"{split}.arrow"


class Collector(FinishedBlock):
    """Collects common features and rows of a piece of the input, into files of a folder."""

    def __init__(self, folder: Path, featuremap: FeatureMap) -> None:
        self.found = RowCounts(featuremap)
        self.rejects = RejectLog(folder)
        self._funnel, self._folder = featuremap.funnel, folder
        sources = [src for src, _ in featuremap.sources]
        self._spools = [Spool(folder / split_spool(one), sources.count(0)) for one in SPLITS]
        self._common = Spool(folder / COMMON_SPOOL, sources.count(1))
        with output_errors(folder):
            self._samples = (folder / SAMPLES).open("wb")

    def add_common(self, rows: Rows) -> None:
        """Keep lines of common features."""
        found = self.found
        found.counts.update(rows.counts)
        self.rejects.note(rows.rejects, common=True)
        found.entities.add_lines(rows.entities, found.common)
        found.common += len(self._common.write(rows).rows)

    def add_rows(self, rows: Rows) -> None:
        """Keep rows, each with its split, as the funnel policy wants them."""
        found = self.found
        found.read += rows.read
        found.counts.update(rows.counts)
        self.rejects.note(rows.rejects, common=False)
        found.entities.settle()
        if rows.samples is not None:
            with output_errors(self._folder):
                rows.samples.tofile(self._samples)
        kept = np.ones(len(rows.rows), np.bool_)
        if self._funnel == "drop":
            kept = rows.purchases <= rows.clicks
            found.dropped += int(np.count_nonzero(~kept))
        splits = found.entities.splits[rows.entities]
        for split, spool in enumerate(self._spools):
            written = spool.write(rows, kept & (splits == split))
            found.rows[split] += len(written.rows)
            found.entities.add_rows(written.entities)
            counts = found.occurrences(split)
            for one in written.tokens:
                count_codes(one.codes[one.offsets[0] : one.offsets[-1]], counts)

    def close(self) -> None:
        """Close the files; again is no harm."""
        with output_errors(self._folder), ExitStack() as files:
            files.callback(self._samples.close)
            for spool in (*self._spools, self._common):
                files.callback(spool.close)

    def abandon(self) -> None:
        """Close the files where that has not been done."""
        with suppress(OutputError):  # it failed before, and that is told
            self.close()
