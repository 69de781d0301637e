"""Count rows into figures; memory holds counters only."""

from collections import Counter
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ingot.converters.recsys.monolith.contract import FEATURE_KINDS
from ingot.converters.recsys.monolith.features import read_features
from ingot.converters.recsys.monolith.inspect import figures as f
from ingot.converters.recsys.monolith.inspect import kernels as k
from ingot.converters.recsys.monolith.line_ids import (
    FIELDS,
    MANDATORY,
    TEXTS,
    decode_line_ids,
    find_incomplete,
)
from ingot.converters.recsys.monolith.record_index import Bad, Places, Rows, describe_bad

MOST_FEATURES: Final = 10_000  # that are told apart; counters of one take some 10 KiB
_FIRST_BAD: Final = 5
_SLOTS: Final = 8  # of a feature that are told
_FID_KINDS: Final = tuple(name for name in FEATURE_KINDS.values() if name.startswith("fid"))


class RowCounter:
    """Counts rows and what is none: `rows` and `records` so far, `figures` in the end."""

    def __init__(self) -> None:
        self.rows = self.records = 0
        self._streams: dict[str, str] = {}
        self._features = _FeatureCounter()
        self._lines = _LineIdCounter()
        self._batches, self._labels = f.LengthTally(), f.LengthTally()
        self._sort_ids = f.LengthTally()
        self._open: tuple[int, int] | None = None  # a record that may go on, and its rows so far
        self._signs = np.zeros((k.POSITIONS, 4), np.int64)
        self._sums = f.empty_sums()
        self._weight, self._source = f.SpreadTally(), f.SpreadTally()
        self._record, self._beside = f.FieldTally(), f.FieldTally()
        self._bad: Counter[str] = Counter()
        self._bad_bytes = 0
        self._first_bad: list[str] = []

    def begin(self, where: str, reading: str) -> None:
        """Begin another stream; the second value says how it is read."""
        self._end_record()
        self._streams[where] = reading

    def bad(self, where: str, bad: Bad) -> None:
        """Count what is none."""
        self._bad[bad.reason] += 1
        self._bad_bytes += bad.bytes
        if len(self._first_bad) < _FIRST_BAD:
            self._first_bad.append(f"{where}: {describe_bad(bad)}")

    def add(self, rows: Rows) -> None:
        """Count rows."""
        if not len(rows):
            return
        number = np.arange(self.rows, self.rows + len(rows), dtype=np.int64)
        self._add_records(rows)
        self._features.add(rows, self.rows)
        self._lines.add(rows, number)
        self._labels.add(np.diff(rows.label_first))
        k.count_labels(rows.label_first, rows.label, self._signs, self._sums)
        self._weight.add(rows.weight[rows.weighted])
        self._source.add(rows.source[rows.source > 0])
        self._record.add(rows.data, rows.rest_start, rows.rest_stop, number)
        self._beside.add(rows.data, rows.extra_start, rows.extra_stop, number[rows.entry_row])
        self.rows += len(rows)

    def _add_records(self, rows: Rows) -> None:
        """Count the rows of records; the last record may go on in the next rows."""
        stops = np.append(np.flatnonzero(rows.record[1:] != rows.record[:-1]) + 1, len(rows))
        counts = np.diff(stops, prepend=0)
        first = stops - counts
        if self._open is not None and self._open[0] == rows.record[0]:
            counts[0] += self._open[1]
            first = first[1:]  # its sort_id has been counted
        else:
            self._end_record()
        lengths = rows.sort_stop[first] - rows.sort_start[first]
        self._sort_ids.add(lengths[lengths > 0])
        self._batches.add(counts[:-1])
        self.records += len(counts) - 1
        self._open = int(rows.record[-1]), int(counts[-1])

    def _end_record(self) -> None:
        if self._open is not None:
            self._batches.add(np.array([self._open[1]], np.int64))
            self.records += 1
            self._open = None

    def figures(self) -> f.Figures:
        """Return the counts so far; no rows can be added after it."""
        self._end_record()
        used = np.flatnonzero(self._signs.sum(axis=1))
        tallies = self._lines.rest, self._record, self._beside
        line_id = self._lines.rest.figures()
        texts = {name: line_id.pop(number) for name, number in TEXTS.items() if number in line_id}
        return f.Figures(
            streams=self._streams,
            rows=self.rows,
            records=self.records,
            batches=self._batches.figures(),
            features=self._features.figures(self.rows),
            names_left_out=self._features.left_out,
            slots=self._features.slots(),
            labels=self._labels.figures(),
            label=tuple(
                f.number_figures(self._signs[position], self._sums[position]) for position in used
            ),
            instance_weight=self._weight.figures(),
            data_source_key=self._source.figures(),
            line_ids=self._lines.figures(self.rows),
            sort_ids=self._sort_ids.figures(),
            unknown=f.Unknown(
                line_id=line_id,
                line_id_text=texts,
                record=self._record.figures(),
                beside=self._beside.figures(),
                features=self._features.strange,
                unnoted=sum(tally.unnoted for tally in tallies),
            ),
            bad=f.BadFigures(
                reasons=dict(self._bad.most_common()),
                bytes=self._bad_bytes,
                first=tuple(self._first_bad),
            ),
        )


class _FeatureCounter:
    """What is counted of each feature; their arrays double where names do not fit."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[bytes, bool], int] = {}
        self._last: tuple[tuple[bytes, ...], NDArray[np.int32]] = ((), np.zeros(0, np.int32))
        self._figures = np.zeros((0, k.FIGURES), np.int64)
        self._lengths = np.zeros((0, k.BUCKETS), np.int64)
        self._bits = np.zeros((0, k.BITS), np.uint8)
        self._v1 = np.zeros(k.SLOTS_V1, np.int64)
        self._v2 = np.zeros(k.SLOTS_V2 + 1, np.int64)
        self.left_out = self.strange = 0

    def add(self, rows: Rows, row: int) -> None:
        """Count the features of rows, of which the first has this number."""
        measured = read_features(rows)
        numbers = self._feature_numbers(rows)
        count = np.where(rows.raw, rows.stop - rows.start, measured.counts)
        arguments = rows.first, numbers, measured.kind, rows.raw, count, row
        k.count_features(*arguments, self._figures, self._lengths)
        spans = measured.start, measured.stop
        k.count_fids(measured.data, numbers, measured.kind, *spans, self._v1, self._v2, self._bits)
        strange = measured.strange & ~rows.raw
        if strange.any():
            self.strange += len(np.unique(rows.entry_row[strange]))
        self.left_out += int(np.count_nonzero(numbers < 0))

    def _feature_numbers(self, rows: Rows) -> NDArray[np.int32]:
        """int32[E], the number of each entry's feature; -1 beyond those that are told apart."""
        if not rows.raw.any():
            if self._last[0] != rows.names:  # the batches of a stream mostly have the same lists
                self._last = rows.names, self._number_names([(name, False) for name in rows.names])
            return self._last[1][rows.name]
        key = 2 * rows.name + rows.raw
        used, first, which = np.unique(key, return_index=True, return_inverse=True)
        order = np.argsort(first)
        pairs = [(rows.names[one >> 1], bool(one & 1)) for one in used[order].tolist()]
        numbers = np.empty(len(used), np.int32)
        numbers[order] = self._number_names(pairs)
        return numbers[which]

    def _number_names(self, pairs: Sequence[tuple[bytes, bool]]) -> NDArray[np.int32]:
        """int32[N], the numbers of names, raw or not; new ones get the next."""
        for pair in pairs:
            if len(self._numbers) < MOST_FEATURES:
                self._numbers.setdefault(pair, len(self._numbers))
        self._grow(len(self._numbers))
        return np.array([self._numbers.get(pair, -1) for pair in pairs], np.int32)

    def _grow(self, size: int) -> None:
        size_before = len(self._figures)
        if size > size_before:
            added = max(size, 2 * size_before) - size_before
            fresh = np.zeros((added, k.FIGURES), np.int64)
            fresh[:, k.LAST_ROW] = -1
            self._figures = np.concatenate([self._figures, fresh])
            self._lengths = np.concatenate([self._lengths, np.zeros((added, k.BUCKETS), np.int64)])
            self._bits = np.concatenate([self._bits, np.zeros((added, k.BITS), np.uint8)])

    def slots(self) -> f.Slots:
        v1, v2 = (
            {int(slot): int(counts[slot]) for slot in np.flatnonzero(counts)}
            for counts in (self._v1, self._v2[:-1])
        )
        return f.Slots(v1=v1, v2=v2, beyond=int(self._v2[-1]))

    def figures(self, rows: int) -> tuple[f.FeatureFigures, ...]:
        """Return the figures of features with entries, in the order in which their names came."""
        all_figures = (
            self._figures_of(*key, number, rows) for key, number in self._numbers.items()
        )
        return tuple(one for one in all_figures if sum(one.kinds.values()))

    def _figures_of(self, name: bytes, raw: bool, number: int, rows: int) -> f.FeatureFigures:
        counts = self._figures[number].tolist()
        states = counts[k.FILLED], counts[k.EMPTY], counts[k.UNSET]
        exact = counts[k.SET], counts[k.VALUES], counts[k.LEAST], counts[k.MOST]
        kinds = {} if raw else dict(zip(FEATURE_KINDS.values(), counts[k.KINDS :], strict=True))
        fids = any(kinds.get(kind) for kind in _FID_KINDS)
        slots = np.flatnonzero(np.unpackbits(self._bits[number], bitorder="little"))
        return f.FeatureFigures(
            name=name.decode("utf-8", "backslashreplace"),
            raw=raw,
            kinds={"raw": counts[k.ENTRIES]} if raw else {n: c for n, c in kinds.items() if c},
            filled=states[0],
            empty=states[1],
            unset=states[2],
            absent=rows - sum(states),
            repeated=counts[k.ENTRIES] - sum(states),
            lengths=f.length_figures(self._lengths[number], *exact) if counts[k.SET] else None,
            slots=len(slots) if fids else None,
            first_slots=tuple(
                one - k.SLOTS_V1 if one >= k.SLOTS_V1 else one for one in slots[:_SLOTS].tolist()
            ),
        )


class _LineIdCounter:
    def __init__(self) -> None:
        self._there = self._incomplete = 0
        self._given: Counter[str] = Counter()
        self._rates = f.SpreadTally()
        self.rest = f.FieldTally()

    def add(self, rows: Rows, number: Places) -> None:
        lines = decode_line_ids(rows)
        self._there += int(np.count_nonzero(lines.present))
        self._incomplete += int(np.count_nonzero(find_incomplete(lines)))
        lists = {name: counts > 0 for name, counts in lines.counts.items()}
        for name, is_given in {**lines.given, **lists}.items():
            self._given[name] += int(np.count_nonzero(is_given))
        rate = lines.numbers["sample_rate"].astype(np.float32)
        self._rates.add(rate[lines.given["sample_rate"]])
        self.rest.add(lines.rest, lines.rest_first[:-1], lines.rest_first[1:], number)

    def figures(self, rows: int) -> f.LineIds:
        return f.LineIds(
            rows=self._there,
            fields={name: self._given[name] for name in FIELDS if self._given[name]},
            lacking={name: rows - self._given[name] for name in MANDATORY},
            incomplete=self._incomplete,
            sample_rate=self._rates.figures(),
        )
