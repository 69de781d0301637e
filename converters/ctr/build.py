"""A raw CTR data set and a featuremap to a folder of the processed contract.

Two passes. The first reads every row once, gives every token a code, knows every row's split, and
keeps both on disk; then the train rows' tokens are ranked. The second selects and encodes: the
common features of an entity once, to be taken by each of its rows; a row's own features as it goes.
In memory are the distinct tokens, the entities, and a block of rows.
"""

import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ingot.converters.commit import Staged, encode, stage, writing
from ingot.converters.ctr.building.collecting import Collector
from ingot.converters.ctr.building.encoding import Encoded, Encoder
from ingot.converters.ctr.building.entity_store import EntityStore
from ingot.converters.ctr.building.identity import Identity
from ingot.converters.ctr.building.inputs import Inputs, hashing, stamps
from ingot.converters.ctr.building.interning import Interner
from ingot.converters.ctr.building.rows import Rows
from ingot.converters.ctr.building.splitting import TRAIN
from ingot.converters.ctr.building.spooling import Spool
from ingot.converters.ctr.building.statistics import TOKENS, LabelSums, vocabulary_entry
from ingot.converters.ctr.building.vocabulary import Vocabulary, as_table, fit, load, save
from ingot.converters.ctr.building.writing import GROUP_ROWS, SplitWriter
from ingot.converters.ctr.contract import LABELS, SPLITS, processed_schema
from ingot.converters.ctr.featuremap import Feature, FeatureMap, dump, to_document
from ingot.converters.errors import ConversionError, OutputError, SourceError
from ingot.converters.job import Progress, Watch
from ingot.converters.json_files import load_json
from ingot.converters.manifest import check_unchanged, host_facts, list_files
from ingot.converters.measuring import Clock
from ingot.converters.rows import Json
from ingot.converters.shard import peak_rss

FEATUREMAP: Final = "featuremap.yaml"
STATS: Final = "stats.json"
VOCAB: Final = "vocab"
_ENOUGH: Final = 1_000
"""Rejects without one good row after which a file is another than it should be."""
_CELLS: Final = 32 << 20
"""The most elements of lists that are made at a time,"""
_FEWEST: Final = 256
"""but for this number of rows."""


@dataclass(frozen=True, kw_only=True)
class Built:
    """A finished build: its folder, its manifest and what it counted.

    `already_done`: the folder held this very build before, nothing was done.
    """

    out: Path
    manifest: dict[str, Json]
    stats: dict[str, Json]
    already_done: bool = False
    notes: tuple[str, ...] = ()


def build(
    inputs: Inputs,
    featuremap: FeatureMap,
    out: Path,
    *,
    vocab: Path | None = None,
    overwrite: bool = False,
    progress: Watch | None = None,
) -> Built:
    """Write a folder of the processed contract.

    Args:
        inputs: the raw files.
        featuremap: what becomes of them.
        out: the destination, see `commit.stage`.
        vocab: a folder of saved vocabularies, or a build, in place of fitting on train rows.
        overwrite: replace another result.
        progress: called after every block.

    Raises:
        FeaturemapError: the featuremap is not for such files.
        SourceError: an input cannot be read, changed while it was read, or is no such file.
        ConversionError: there is no row to write, or no train row to fit vocabularies on.
        OutputError: the destination is taken or cannot be written.
    """
    inputs.check(featuremap)
    known = load(vocab, featuremap) if vocab is not None else None
    identity = Identity.of(inputs, featuremap, known)
    with stage(
        out, key=identity.key(), difference=identity.difference, overwrite=overwrite
    ) as staged:
        if staged.done:
            stats = read_stats(staged.done.folder)
            notes = (*staged.notes, "this build was there already: nothing to do")
            manifest = staged.done.manifest
            return Built(
                out=staged.out, manifest=manifest, stats=stats, already_done=True, notes=notes
            )
        _clear(staged)
        watch = progress or (lambda _: None)
        try:
            return _Build(inputs, featuremap, known, identity, staged, watch).run()
        except BaseException:
            # Nothing of it is gone on with, and it may be large; the error at hand is what counts.
            for folder in (staged.work, staged.result):
                shutil.rmtree(folder, ignore_errors=True)
            raise


def _clear(staged: Staged) -> None:
    """Begin anew: a killed build left nothing that could be gone on with."""
    with writing(staged.out):
        for folder in (staged.work, staged.result):
            shutil.rmtree(folder)
            folder.mkdir()


def read_stats(folder: Path) -> dict[str, Json]:
    """The stats.json of a build.

    Raises:
        SourceError: there is none, or it is no JSON object.
    """
    path = folder / STATS
    try:
        return load_json(path)
    except (OSError, ValueError) as error:
        hint = "is it a build's folder?"
        raise SourceError(str(path), f"cannot be read: {error}", hint) from error


class _Build:
    """One build, from its inputs to the committed folder."""

    def __init__(
        self,
        inputs: Inputs,
        featuremap: FeatureMap,
        known: dict[str, pa.Table] | None,
        identity: Identity,
        staged: Staged,
        watch: Watch,
    ) -> None:
        self._inputs, self._featuremap, self._known = inputs, featuremap, known
        self._identity, self._staged, self._watch = identity, staged, watch
        self._schema = processed_schema(featuremap)
        self._collector = Collector(staged.work, staged.result, featuremap)
        self._labels = [LabelSums() for _ in SPLITS]
        self._clock = Clock()
        self._files = ExitStack()
        self._files.callback(self._collector.close)

    def run(self) -> Built:
        with hashing(self._inputs) as hashes, self._files_closed():
            self._read()
            self._check_rows()
            self._clock.start("rank")
            self._encode()
            stats = self._stats()
            self._clock.start("hash")
            return self._commit(stats, hashes.result())

    @contextmanager
    def _files_closed(self) -> Iterator[None]:
        """Close in the end what a build that failed left open."""
        try:
            yield
        finally:
            with suppress(OutputError):  # it failed before, and that is told
                self._files.close()

    def _read(self) -> None:
        rows: Counter[str] = Counter()
        good: Counter[str] = Counter()
        for stage_name, block in self._inputs.feed(self._collector, self._featuremap):
            self._clock.start(stage_name)
            rows[stage_name] += block.read
            good[stage_name] += len(block.rows)
            if not good[stage_name] and rows[stage_name] >= _ENOUGH:
                raise ConversionError(self._where(), *self._no_such_file(rows[stage_name]))
            self._tell(stage_name, rows[stage_name], 0)
        self._clock.start("count")
        self._collector.finish()

    def _where(self) -> str:
        return ", ".join(self._inputs.places().values())

    def _no_such_file(self, rows: int) -> tuple[str, str]:
        """What is wrong with a file that begins with rejects only, and what to do."""
        said = f"none of the first {rows:,} rows of a file can be read"
        return said + _first(self._collector), "is each file given under its own option?"

    def _tell(self, stage_name: str, rows: int, total: int) -> None:
        done = rows if total else 0
        self._watch(
            Progress(stage=stage_name, shards_done=done, shards=total, rows=rows, records=rows)
        )

    def _check_rows(self) -> None:
        collector = self._collector
        rows = [spool.rows for spool in collector.spools]
        where = self._where()
        if not sum(rows):
            raise ConversionError(where, *_nothing(collector))
        if self._known is None and not rows[TRAIN]:
            problem = (
                "no row is in the train split, so that there is nothing to fit vocabularies on"
            )
            raise ConversionError(where, problem, "raise --train-fraction or give --vocab DIR")

    def _encode(self) -> None:
        """Rank the tokens, encode the common features, then write the rows."""
        collector, featuremap = self._collector, self._featuremap
        known = None
        if self._known is not None:
            known = [self._known[name] for name in _first_features(featuremap)]
        counts = collector.token_counts[: collector.tokens.count]
        places, vocabularies = fit(collector.tokens, counts, len(featuremap.sources), known)
        by_source = dict(zip(featuremap.sources, vocabularies, strict=True))
        collector.tokens = Interner()  # its texts are in the vocabularies now
        self._encoders = {
            one.name: Encoder(one, featuremap, by_source[one.source]) for one in featuremap.features
        }
        self._save_vocabularies(by_source)
        self._clock.start("encode common features")
        self._store = self._filled_store(places)
        self._clock.start("write")
        for split, spool in enumerate(collector.spools):
            self._write_split(split, spool, places)

    def _save_vocabularies(self, by_source: dict[tuple[int, str], Vocabulary]) -> None:
        folder = self._staged.result / VOCAB
        with writing(folder):
            folder.mkdir()
        self._vocab_stats = {}
        for feature in self._featuremap.features:
            vocabulary = by_source[feature.source]
            path = folder / f"{feature.name}.parquet"
            if self._known is None:
                save(path, as_table(vocabulary, self._encoders[feature.name].ids))
            else:
                save(path, self._known[feature.name])
            self._vocab_stats[feature.name] = vocabulary_entry(feature, vocabulary)

    def _filled_store(self, places: NDArray[np.uint32]) -> EntityStore:
        features = self._featuremap.of_src(1)
        sources = [source for source in self._featuremap.sources if source[0] == 1]
        encoders = [self._encoders[feature.name] for feature in features]
        fields = [sources.index(feature.source) for feature in features]
        store = EntityStore(self._staged.work / "entities", encoders, fields)
        self._files.callback(store.close)
        store.fill(self._collector, places)
        return store

    def _write_split(self, split: int, spool: Spool, places: NDArray[np.uint32]) -> None:
        folder = self._staged.result / SPLITS[split]
        total = sum(one.rows for one in self._collector.spools)
        before = sum(one.rows for one in self._collector.spools[:split])
        with SplitWriter(folder, self._schema) as writer:
            for rows in spool.read(self._rows_at_a_time()):
                writer.write(self._batch(split, rows, places))
                self._tell("write", before + writer.rows, total)

    def _rows_at_a_time(self) -> int:
        """Few where lists may be long: a short row can name an entity with very many tokens."""
        longest = sum(one.max_len or 0 for one in self._featuremap.features)
        return min(GROUP_ROWS, max(_FEWEST, _CELLS // max(1, longest)))

    def _batch(self, split: int, rows: Rows, places: NDArray[np.uint32]) -> pa.RecordBatch:
        labels = self._label_columns(rows)
        self._labels[split].add(labels)
        entities = self._collector.entities.names.texts().take(pa.array(rows.entities))
        columns = [pa.array(labels[name]) for name in LABELS]
        columns += [pa.array(rows.rows), entities.cast(pa.string())]
        for feature in self._featuremap.features:
            columns += self._cells(feature, split, rows, places).columns(feature)
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _cells(
        self, feature: Feature, split: int, rows: Rows, places: NDArray[np.uint32]
    ) -> Encoded:
        if feature.src == 1:
            return self._store.take(feature, rows.entities)
        own = [source for source in self._featuremap.sources if source[0] == 0]
        count = len(rows.rows)
        splits, weights = np.full(count, split, np.uint8), np.ones(count, np.int64)
        tokens = rows.tokens[own.index(feature.source)]
        return self._encoders[feature.name].encode(tokens, places, splits, weights)

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

    def _stats(self) -> dict[str, Json]:
        collector, names = self._collector, [one.name for one in self._featuremap.features]
        rows = {split: one.rows for split, one in zip(SPLITS, self._labels, strict=True)}
        splits = {
            split: {
                **self._labels[at].to_json(),
                "features": {name: self._encoders[name].sums.to_json(at) for name in names},
            }
            for at, split in enumerate(SPLITS)
        }
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
            "tokens": {name: collector.counts[name] for name in TOKENS},
            "samples": {"repeated": collector.repeats.count()},
            "splits": splits,
            "vocab": self._vocab_stats,
        }

    def _commit(self, stats: dict[str, Json], inputs: list[dict[str, Json]]) -> Built:
        staged, result = self._staged, self._staged.result
        check_unchanged(self._identity.stamps, stamps(self._inputs))
        with writing(staged.out):
            (result / FEATUREMAP).write_text(dump(to_document(self._featuremap)), "utf-8")
            (result / STATS).write_bytes(encode(stats, sort_keys=False))
            manifest: dict[str, Json] = {
                **self._identity.settled(),
                "inputs": inputs,
                "rows": stats["rows"],
                "rejects": stats["rejects"],
                "files": list_files(result),
            }
        run: dict[str, Json] = {
            "finished": datetime.now(UTC).isoformat(timespec="seconds"),
            "host": host_facts(),
            "seconds": self._clock.seconds(),
            "peak_rss_bytes": peak_rss(),
            "inputs": self._identity.stamps,
            "notes": list(staged.notes),
        }
        staged.commit(manifest, run)
        return Built(out=staged.out, manifest=manifest, stats=stats, notes=staged.notes)


def _first_features(featuremap: FeatureMap) -> list[str]:
    """For every source the name of the first feature that reads it."""
    first: dict[tuple[int, str], str] = {}
    for feature in featuremap.features:
        first.setdefault(feature.source, feature.name)
    return [first[source] for source in featuremap.sources]


def _nothing(collector: Collector) -> tuple[str, str]:
    """Why there is no row to write, and what to do."""
    if not collector.read:
        return "there is no row", "is it the right file?"
    reasons = ", ".join(f"{reason} {count}" for reason, count in collector.rejects.most_common(3))
    said = f"no row is left of {collector.read} read: {reasons or 'the funnel policy dropped all'}"
    return said + _first(collector), ""


def _first(collector: Collector) -> str:
    """The first rejects, a line each."""
    return "".join(
        f"\n  {one.file}, row {one.row}: {one.reason} {one.found!r}"
        for one in collector.first_rejects
    )
