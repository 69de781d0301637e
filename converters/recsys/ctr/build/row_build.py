"""Read rows, fit vocabularies on them, and encode and write them."""

from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ingot.converters.errors import ConversionError, OutputError
from ingot.converters.output import files
from ingot.converters.progress import Clock, Progress, Watch
from ingot.converters.recsys.ctr.build import encoder
from ingot.converters.recsys.ctr.build.encoder import EntityStore
from ingot.converters.recsys.ctr.build.inputs import InputPiece, Inputs
from ingot.converters.recsys.ctr.build.row_collector import Codes, Collector, Rows
from ingot.converters.recsys.ctr.build.vocabulary import (
    Interner,
    Known,
    Vocabulary,
    fit_vocabularies,
    save_vocabulary,
    vocabulary_table,
)
from ingot.converters.recsys.ctr.contract import (
    LABELS,
    SPLITS,
    TRAIN,
    VALID,
    ids_of,
    processed_schema,
)
from ingot.converters.recsys.ctr.featuremap import Feature, FeatureMap
from ingot.converters.recsys.unseen_tokens import refuse_misfits
from ingot.converters.rows import Json

GROUP_ROWS: Final = 16_384
GROUPS_PER_FILE: Final = 64


class SplitWriter(files.FinishedBlock):
    """Writes `part-00000.parquet`, ... of a split, however its rows come."""

    def __init__(self, folder: Path, schema: pa.Schema) -> None:
        self.rows = 0
        # A row group is written while the next is encoded; one at a time, so memory is bounded.
        self._pool = ThreadPoolExecutor(1, "write")
        self._writing: Future[None] | None = None
        self._folder, self._schema = folder, schema
        self._held: list[pa.RecordBatch] = []
        self._held_rows = 0
        self._groups = 0
        self._writer: pq.ParquetWriter | None = None
        with files.output_errors(folder):
            folder.mkdir()

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows of the split's schema."""
        self.rows += batch.num_rows
        self._held.append(batch)
        self._held_rows += batch.num_rows
        while self._held_rows >= GROUP_ROWS:
            self._write_group(GROUP_ROWS)

    def close(self) -> None:
        """Write the last rows."""
        if self._held_rows or not self.rows:  # an empty split is an empty file, not an empty folder
            self._write_group(self._held_rows)
        self._wait()

    def abandon(self) -> None:
        """Close the file, once nothing writes to it."""
        self._pool.shutdown()
        if self._writer is not None:
            with files.output_errors(self._folder):
                self._writer.close()

    def _write_group(self, rows: int) -> None:
        held = pa.Table.from_batches(self._held, schema=self._schema)
        rest = held.slice(rows)
        self._held, self._held_rows = rest.to_batches(), rest.num_rows
        self._wait()
        self._writing = self._pool.submit(self._write_table, held.slice(0, rows), self._groups)
        self._groups += 1

    def _wait(self) -> None:
        if self._writing is not None:
            self._writing.result()

    def _write_table(self, table: pa.Table, group: int) -> None:
        with files.output_errors(self._folder):
            if self._writer is None or group % GROUPS_PER_FILE == 0:
                if self._writer is not None:
                    self._writer.close()
                path = self._folder / f"part-{group // GROUPS_PER_FILE:05d}.parquet"
                self._writer = pq.ParquetWriter(path, self._schema, compression="snappy")
            # In one chunk: where pages end depends on chunks, and these on how the rows came.
            self._writer.write_table(table.combine_chunks(), row_group_size=GROUP_ROWS)


VOCAB_FOLDER: Final = "vocab"
STORE: Final = "entities"
_ENOUGH: Final = 1_000
"""Rejects without one good row after which a file is another than it should be."""
_CELLS: Final = 32 << 20
"""The most elements of lists that are made at a time,"""
_FEWEST: Final = 256
"""but for this number of rows."""


@dataclass(frozen=True)
class Order:
    """What is built. `watch` hears of rows where these are read and written in this process."""

    inputs: Inputs
    featuremap: FeatureMap
    clock: Clock
    watch: Watch | None = None

    def tell(self, progress: Progress) -> None:
        """Show how far this process is."""
        if self.watch is not None:
            self.watch(progress)


class RowEncoder:
    """Encodes rows, and sums up what stats.json says of them."""

    def __init__(
        self, featuremap: FeatureMap, encoders: dict[str, encoder.Encoder], store: EntityStore
    ) -> None:
        self.schema = processed_schema(featuremap)
        self.labels = [encoder.LabelSums() for _ in SPLITS]
        self.encoders = encoders
        self._featuremap, self._store = featuremap, store
        # Few at a time where lists may be long: a row can name an entity with very many tokens.
        longest = sum(one.max_len or 0 for one in featuremap.features)
        self.step = min(GROUP_ROWS, max(_FEWEST, _CELLS // max(1, longest)))

    def encode(self, split: int, rows: Rows, codes: Codes) -> pa.RecordBatch:
        """Return the contract's columns of rows of a split."""
        labels = self._label_columns(rows)
        self.labels[split].add(labels)
        entities = codes.names.take(pa.array(rows.entities))
        columns = [pa.array(labels[name]) for name in LABELS]
        columns += [pa.array(rows.rows), entities.cast(pa.string())]
        for feature in self._featuremap.features:
            columns += self._cells(feature, split, rows, codes).columns(feature)
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _cells(self, feature: Feature, split: int, rows: Rows, codes: Codes) -> encoder.Encoded:
        if feature.src == 1:
            return self._store.take(feature, codes.lines[rows.entities])
        own = [source for source in self._featuremap.sources if source[0] == 0]
        count = len(rows.rows)
        splits, weights = np.full(count, split, np.uint8), np.ones(count, np.int64)
        tokens = rows.tokens[own.index(feature.source)]
        return self.encoders[feature.name].encode(tokens, codes.places, splits, weights)

    def _label_columns(self, rows: Rows) -> dict[str, NDArray[np.float32]]:
        clicks, purchases = rows.clicks.astype(np.float32), rows.purchases.astype(np.float32)
        both = clicks * purchases
        exposed = self._featuremap.click_mask == "exposed"
        return {
            "y_ctr": clicks,
            "y_cvr": both if self._featuremap.funnel == "coerce" else purchases,
            "y_ctcvr": both,
            "click_mask": np.ones_like(clicks) if exposed else clicks,
        }


class Build:
    """Reads rows, or takes those that others read, and fits on them; all files go to a folder."""

    def __init__(self, order: Order, folder: Path, known: Known | None = None) -> None:
        self._order, self._folder, self._known = order, folder, known
        self._featuremap = order.featuremap
        self.collector = Collector(folder, order.featuremap)
        self._vocab_stats: dict[str, dict[str, int]] = {}
        self._files = ExitStack()
        self._files.callback(self.collector.close)

    def close(self) -> None:
        """Close the files where that has not been done."""
        with suppress(OutputError):  # it failed before, and that is told
            self._files.close()

    def read(self, piece: InputPiece) -> int:
        """Collect the rows of a piece of the input; gives how many were read."""
        read, good = 0, False
        for stage_name, block in self._order.inputs.feed(self.collector, self._featuremap, piece):
            self._order.clock.start(stage_name)
            read += block.read
            good = good or len(block.rows) > 0
            if piece.is_start and not good and read >= _ENOUGH:
                said = f"none of the first {read:,} rows of a file can be read"
                said += _first_rejects(self.collector)
                hint = "is each file given under its own option?"
                raise ConversionError(self._where(), said, hint)
            far = {"rows": read, "records": read, "rejects": self.collector.rejects.total()}
            self._order.tell(Progress(stage=stage_name, shards_done=0, shards=0, **far))
        return read

    def _where(self) -> str:
        return ", ".join(self._order.inputs.places().values())

    def _check_rows(self) -> None:
        collector = self.collector
        rows = [spool.rows for spool in collector.spools]
        where = self._where()
        if not sum(rows):
            if not collector.read:
                raise ConversionError(where, "the files hold no row", "are they the right files?")
            counts = collector.rejects.most_common(3)
            reasons = ", ".join(f"{reason} {count}" for reason, count in counts)
            said = f"no row is left of {collector.read} read: "
            said += reasons or "the funnel policy dropped all"
            raise ConversionError(where, said + _first_rejects(collector))
        if self._known is None and not rows[TRAIN]:
            problem = "no row is in the train split, and vocabularies are fitted on it"
            hint = "raise `train_fraction`, or give a `vocab` folder"
            raise ConversionError(where, problem, hint)

    def fit(self) -> tuple[dict[str, encoder.Encoder], Codes]:
        """Rank the tokens of all rows and encode the common features; gives encoders by feature."""
        collector, featuremap = self.collector, self._featuremap
        self._order.clock.start("count")
        collector.finish()
        self._check_rows()
        self._order.clock.start("rank")
        known = None
        if self._known is not None:
            by_feature = {one.source: one.name for one in reversed(featuremap.features)}
            known = [self._known.tables[by_feature[source]] for source in featuremap.sources]
        train, valid = map(collector.occurrences, (TRAIN, VALID))
        new = valid if known is None else train + valid
        places, vocabularies = fit_vocabularies(
            collector.tokens, train, len(featuremap.sources), known, new
        )
        by_source = dict(zip(featuremap.sources, vocabularies, strict=True))
        self._compare(by_source)
        collector.tokens = Interner()  # its texts are in the vocabularies now
        encoders = {}
        for one in featuremap.features:
            fitted = by_source[one.source]
            ids = ids_of(one, featuremap, fitted.texts, fitted.ranks)
            encoders[one.name] = encoder.Encoder(one, ids, fitted.ranks, fitted.priorities)
        self._save_vocabularies(by_source, encoders)
        self._order.clock.start("encode common features")
        shared, sources = featuremap.of_src(1), [one for one in featuremap.sources if one[0] == 1]
        store = EntityStore(self._folder / STORE, shared)
        self._files.callback(store.close)
        fields = [(encoders[one.name], sources.index(one.source)) for one in shared]
        lines = store.fill(fields, collector, places)
        codes = Codes(places=places, lines=lines, names=collector.entities.names.texts())
        return encoders, codes

    def _compare(self, by_source: dict[tuple[int, str], Vocabulary]) -> None:
        """See that the rows are like those of the vocabularies that another build made."""
        rows, kinds = sum(spool.rows for spool in self.collector.spools), self.collector.kinds
        problems = {}
        for one in self._featuremap.features:
            vocabulary, more = by_source[one.source], dict[str, int]()
            if self._known is not None:
                more, problems[one.name] = self._known.compare(one, vocabulary, rows, kinds)
            self._vocab_stats[one.name] = encoder.vocabulary_entry(one, vocabulary) | more
        if self._known is not None and not self._known.accept:
            refuse_misfits(self._where(), problems)

    def _save_vocabularies(
        self, by_source: dict[tuple[int, str], Vocabulary], encoders: dict[str, encoder.Encoder]
    ) -> None:
        folder = self._folder / VOCAB_FOLDER
        with files.output_errors(folder):
            folder.mkdir()
        for feature in self._featuremap.features:
            vocabulary = by_source[feature.source]
            path = folder / f"{feature.name}.parquet"
            if self._known is None:
                table = vocabulary_table(vocabulary, encoders[feature.name].arrays[0])
            else:
                table = self._known.tables[feature.name]
            save_vocabulary(path, table)

    def stats(self) -> dict[str, Json]:
        """What stats.json says of all but the encoded rows."""
        collector = self.collector
        rows = {split: one.rows for split, one in zip(SPLITS, collector.spools, strict=True)}
        return {
            "rows": {
                "read": collector.read,
                **rows,
                "rejected": collector.rejects.total(),
                "dropped": collector.dropped,
            },
            "rejects": dict(sorted(collector.rejects.items())),
            "common_rejects": dict(sorted(collector.common_rejects.items())),
            "entities": collector.entity_counts(),
            "tokens": {name: collector.counts[name] for name in encoder.TOKENS},
            "samples": {"repeated": collector.repeats.count()},
            "splits": {},
            "vocab": self._vocab_stats,
            "columns": dict(sorted(collector.kinds.items())),
        }


def split_stats(
    labels: list[encoder.LabelSums], sums: dict[str, encoder.FeatureSums]
) -> dict[str, Json]:
    """What stats.json says of the rows of each split."""
    return {
        split: {
            **labels[at].to_json(),
            "features": {name: one.to_json(at) for name, one in sums.items()},
        }
        for at, split in enumerate(SPLITS)
    }


def _first_rejects(collector: Collector) -> str:
    return "".join(
        f"\n  {one.file}, row {one.row}: {one.reason} {one.found!r}"
        for one in collector.first_rejects
    )
