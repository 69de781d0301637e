"""The first pass of a build: every row read once, its tokens as codes, its split known."""

import json
from collections import Counter
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ingot.converters.commit import writing
from ingot.converters.ctr.blocks import Reject
from ingot.converters.ctr.building.interning import Interner, grown
from ingot.converters.ctr.building.kernels.grouping import count_codes, count_weighted
from ingot.converters.ctr.building.repeats import Repeats
from ingot.converters.ctr.building.rows import Rows
from ingot.converters.ctr.building.splitting import TRAIN, splits_of
from ingot.converters.ctr.building.spooling import Spool
from ingot.converters.ctr.contract import SPLITS
from ingot.converters.ctr.featuremap import FeatureMap
from ingot.converters.rows import Json

REJECTS: Final = "rejects.jsonl"
_FIRST_REJECTS = 3
_STEP = 1 << 16


class Entities:
    """The entities of a build.

    Attributes:
        names: their codes.
    """

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
            self._splits = grown(self._splits, room)
            self._lines = grown(self._lines, room)
            self._rows = grown(self._rows, room)
        new = self.names.texts().slice(known)
        steps = range(0, len(new), _STEP)
        texts = (text for at in steps for text in new.slice(at, _STEP).to_pylist())
        self._splits[known:count] = splits_of(texts, self._seed, self._fraction)
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


class Collector:
    """Reads common features and rows, and keeps what the second pass needs.

    Attributes:
        tokens: every distinct token; the field is the place in `FeatureMap.sources`.
        entities: every distinct entity.
        counts: what was dropped or odd, by the names of stats.json's `tokens`.
        rejects: rejected rows by reason.
        common_rejects: rejected lines of common features by reason.
        first_rejects: the first of them, for people.
        read: rows read.
        dropped: rows that the funnel policy drops.
        spools: the rows, one per split.
        common: the lines of common features; None for a table.
    """

    def __init__(self, work: Path, result: Path, featuremap: FeatureMap) -> None:
        self.tokens = Interner()
        self.entities = Entities(featuremap)
        self.counts: Counter[str] = Counter()
        self.rejects: Counter[str] = Counter()
        self.common_rejects: Counter[str] = Counter()
        self.first_rejects: list[Reject] = []
        self.read = 0
        self.dropped = 0
        self.repeats = Repeats(work / "samples")
        self._funnel = featuremap.funnel
        self._is_table = featuremap.table is not None
        self._rejects = result / REJECTS
        self._own = [at for at, (src, _) in enumerate(featuremap.sources) if src == 0]
        self._shared = [at for at, (src, _) in enumerate(featuremap.sources) if src == 1]
        self.spools = [Spool(work / f"{split}.arrow", len(self._own)) for split in SPLITS]
        self.common = Spool(work / "common.arrow", len(self._shared))
        self.token_counts = np.zeros(0, np.int64)

    def add_common(self, rows: Rows) -> None:
        """Keep lines of common features."""
        self._note(rows, self.common_rejects)
        self.entities.add_lines(rows.entities, self.common.rows)
        self.common.write(rows)

    def add_rows(self, rows: Rows) -> None:
        """Keep rows, each with its split, as the funnel policy wants them."""
        self.read += rows.read
        self._note(rows, self.rejects)
        self.entities.settle()
        if rows.samples is not None:
            self.repeats.add(rows.samples)
        kept = np.ones(len(rows.rows), np.bool_)
        if self._funnel == "drop":
            kept = rows.purchases <= rows.clicks
            self.dropped += int(np.count_nonzero(~kept))
        splits = self.entities.splits[rows.entities]
        for split, spool in enumerate(self.spools):
            written = spool.write(rows, kept & (splits == split))
            self.entities.add_rows(written.entities)
            if split == TRAIN:
                self._count(written)

    def close(self) -> None:
        """Close the files; again is no harm."""
        with ExitStack() as files:
            files.callback(self.repeats.close)
            for spool in (*self.spools, self.common):
                files.callback(spool.close)

    def finish(self) -> None:
        """Close what was written and count the tokens of common features."""
        self.close()
        self.entities.settle()
        self._grow()
        weights = self.weights()[TRAIN]
        first = 0
        for rows in self.common.read():
            part = weights[first : first + len(rows.rows)]
            first += len(rows.rows)
            for one in rows.tokens:
                count_weighted(one.offsets, one.codes, part, self.token_counts)

    def weights(self) -> NDArray[np.int64]:
        """int64[splits, lines]: how many rows of a split each line of common features serves."""
        entities = self.entities
        weights = np.zeros((len(SPLITS), self.common.rows), np.int64)
        known = np.flatnonzero(entities.lines >= 0)
        weights[entities.splits[known], entities.lines[known]] = entities.rows[known]
        return weights

    def _count(self, rows: Rows) -> None:
        self._grow()
        for one in rows.tokens:
            first, last = one.offsets[0], one.offsets[-1]
            count_codes(one.codes[first:last], self.token_counts)

    def _grow(self) -> None:
        if len(self.token_counts) < self.tokens.count:
            self.token_counts = grown(self.token_counts, 2 * self.tokens.count)

    def entity_counts(self) -> dict[str, Json]:
        """The entities' part of stats.json; what is about common features is null for a table."""
        entities, lines = self.entities, self.entities.lines
        used = entities.rows > 0
        unknown = used & (lines < 0)
        common = {
            "rows_of_common": self.common.rows,
            "repeated": self.common.rows - int(np.count_nonzero(lines >= 0)),
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

    def _note(self, rows: Rows, reasons: Counter[str]) -> None:
        self.counts.update(rows.counts)
        reasons.update(reject.reason for reject in rows.rejects)
        missing = _FIRST_REJECTS - len(self.first_rejects)
        self.first_rejects += rows.rejects[:missing] if missing > 0 else ()
        self._write(rows.rejects)

    def _write(self, rejects: Iterable[Reject]) -> None:
        lines = [json.dumps(asdict(one), ensure_ascii=False) + "\n" for one in rejects]
        if lines:
            with writing(self._rejects), self._rejects.open("a", encoding="utf-8") as file:
                file.writelines(lines)
