"""The figures of streams as values, and counters for them whose memory does not grow with rows."""

import math
from collections import Counter
from dataclasses import asdict, dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ingot.converters.json_yaml import map_leaves
from ingot.converters.recsys.monolith.inspect import kernels as k
from ingot.converters.recsys.monolith.record_index import Bytes, Places, frozen


@dataclass(frozen=True, kw_only=True)
class Lengths:
    """How long lists are, or how many rows records have."""

    count: int
    least: int
    mean: float
    p50: int  # of half of them, none is longer; exact below 64, else at most 3 % too small
    p99: int  # the same of 99 in 100
    most: int


@dataclass(frozen=True, kw_only=True)
class Numbers:
    """How numbers are spread."""

    count: int
    positive: int  # above 0
    zero: int
    negative: int  # below 0
    no_number: int
    least: float | None  # the smallest; None without a number, as the two that follow
    mean: float | None
    most: float | None


@dataclass(frozen=True, kw_only=True)
class Spread:
    """Which values there are."""

    given: int
    values: tuple[tuple[float, int], ...]
    others: int
    numbers: Numbers


@dataclass(frozen=True, kw_only=True)
class FeatureFigures:
    """A feature; filled, empty, unset and absent rows are all rows."""

    name: str
    raw: bool
    kinds: dict[str, int]  # entries by kind, `unset` included
    filled: int  # rows where it has a value
    empty: int  # rows where it is a list without a value
    unset: int  # rows where it is there and has no kind
    absent: int
    repeated: int
    # values of lists, lists of lists of lists, 1 for a single value; None without any
    lengths: Lengths | None
    slots: int | None  # how many different slots its fids have; None without fids
    first_slots: tuple[int, ...]  # the smallest of them, of version 1 before those of version 2


@dataclass(frozen=True, kw_only=True)
class Slots:
    """Fids by slot; slots without any are left out."""

    v1: dict[int, int]  # of version 1
    v2: dict[int, int]  # of version 2
    beyond: int  # fids of version 2 whose top bit is set, which has no meaning


@dataclass(frozen=True, kw_only=True)
class Unknown:
    """Rows with unknown fields, by field number."""

    line_id: dict[int, int]
    line_id_text: dict[str, int]  # with text that is no UTF-8, by field name
    record: dict[int, int]
    beside: dict[int, int]
    features: int
    unnoted: int


@dataclass(frozen=True, kw_only=True)
class LineIds:
    """What LineIds give."""

    rows: int
    fields: dict[str, int]
    lacking: dict[str, int]  # rows that lack a field which the format asks for, by its name
    incomplete: int
    sample_rate: Spread  # of the rows that give one; the default is 1


@dataclass(frozen=True, kw_only=True)
class BadFigures:
    """Records that are no Examples or cannot be used, by reason."""

    reasons: dict[str, int]  # how often, by reason (`contract.REASONS`)
    bytes: int
    first: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Figures:
    """Streams in figures."""

    streams: dict[str, str]
    rows: int
    records: int
    batches: Lengths | None
    features: tuple[FeatureFigures, ...]
    names_left_out: int
    slots: Slots
    labels: Lengths | None
    # how labels are spread, by position; those of the last one and beyond together
    label: tuple[Numbers, ...]
    instance_weight: Spread
    data_source_key: Spread  # of the rows with another one than 0
    line_ids: LineIds
    sort_ids: Lengths | None  # lengths of those of records that have one; None without any
    unknown: Unknown
    bad: BadFigures

    def to_document(self) -> dict[str, object]:
        """Return the figures as JSON, in which infinite numbers are texts."""
        document: dict[str, object] = map_leaves(
            asdict(self), lambda one: json_number(one) if isinstance(one, float) else one
        )
        return document


def json_number(value: float) -> object:
    """Return a number, or protobuf's JSON name for it if JSON cannot hold it."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


_VALUES: Final = 1_000  # that are told apart
_NUMBERS: Final = 1 << 12  # large field numbers that are noted in one go


class LengthTally:
    """Lengths by bucket."""

    def __init__(self) -> None:
        self._buckets = np.zeros(k.BUCKETS, np.int64)
        self._count = self._sum = self._most = 0
        self._least = 1 << 62

    def add(self, lengths: Places) -> None:
        """Count int64[N] lengths."""
        if len(lengths):
            k.count_lengths(lengths, self._buckets)
            self._count += len(lengths)
            self._sum += int(lengths.sum())
            self._least = min(self._least, int(lengths.min()))
            self._most = max(self._most, int(lengths.max()))

    def figures(self) -> Lengths | None:
        """Return the figures of the counted lengths, None if there are none."""
        totals = self._count, self._sum, self._least, self._most
        return length_figures(self._buckets, *totals) if self._count else None


def length_figures(buckets: Places, count: int, total: int, minimum: int, maximum: int) -> Lengths:
    """Return figures of int64[BUCKETS] lengths, whose exact ends and sum are known."""
    return Lengths(
        count=count,
        least=minimum,
        mean=total / count,
        p50=max(_quantile_bucket(buckets, count, 50), minimum),
        p99=max(_quantile_bucket(buckets, count, 99), minimum),
        most=maximum,
    )


def _quantile_bucket(buckets: Places, count: int, share: int) -> int:
    """The lower end of the bucket in which so many in 100 lie at or below."""
    rank = -(-count * share // 100)
    bucket = int(np.searchsorted(np.cumsum(buckets), rank))
    if bucket < k.EXACT:
        return bucket
    octave, part = divmod(bucket - k.EXACT, 32)
    return (32 + part) << (octave + 1)


class SpreadTally:
    """Values by how often they come; the first different ones are told apart."""

    def __init__(self) -> None:
        self._values: Counter[float] = Counter()
        self._others = 0
        self._signs = np.zeros((k.POSITIONS, 4), np.int64)
        self._sums = empty_sums()

    def add(self, values: NDArray[np.generic]) -> None:
        """Count [N] values."""
        if not len(values):
            return
        floats = values.astype(np.float32)
        k.count_labels(np.arange(len(values) + 1), floats, self._signs, self._sums)
        distinct, counts = np.unique(values, return_counts=True)
        for value, count in zip(distinct.tolist(), counts.tolist(), strict=True):
            same = math.nan if math.isnan(value) else value  # NaN is found as an object alone
            if same in self._values or len(self._values) < _VALUES:
                self._values[same] += count
            else:
                self._others += count

    def figures(self) -> Spread:
        """Return the figures that were counted."""
        numbers = number_figures(self._signs[0], self._sums[0])
        values = tuple(
            sorted(self._values.items(), key=lambda pair: (-pair[1], math.isnan(pair[0]), pair[0]))
        )
        return Spread(given=numbers.count, values=values, others=self._others, numbers=numbers)


def empty_sums() -> NDArray[np.float64]:
    """Return float64[POSITIONS, 3]: sum, least and largest of no number."""
    return np.tile(np.array([0.0, math.inf, -math.inf]), (k.POSITIONS, 1))


def number_figures(sign_counts: Places, sums: NDArray[np.float64]) -> Numbers:
    """Return figures of what `count_labels` counted at one position."""
    positive, zero, negative, no_number = sign_counts.tolist()
    total, minimum, maximum = sums.tolist()
    numbers = positive + zero + negative
    return Numbers(
        count=numbers + no_number,
        positive=positive,
        zero=zero,
        negative=negative,
        no_number=no_number,
        least=minimum if numbers else None,
        mean=total / numbers if numbers else None,
        most=maximum if numbers else None,
    )


class FieldTally:
    """Rows with a field, by its number."""

    def __init__(self) -> None:
        self._counts = np.zeros(k.FIELDS, np.int64)
        self._seen = np.full(k.FIELDS, -1, np.int64)
        self._more: Counter[int] = Counter()
        self.unnoted = 0

    def add(self, data: Bytes, start: Places, stop: Places, row: Places) -> None:
        """Count the fields of int64[M] messages of ascending rows."""
        nonempty = np.flatnonzero(stop > start)
        if not len(nonempty):
            return
        other_fields = np.empty((_NUMBERS, 2), np.int64)
        spans = start[nonempty], stop[nonempty], row[nonempty]
        other_count = k.count_fields(frozen(data), *spans, self._counts, self._seen, other_fields)
        self.unnoted += max(0, other_count - len(other_fields))
        for _, number in np.unique(
            other_fields[: min(other_count, len(other_fields))], axis=0
        ).tolist():
            if number in self._more or len(self._more) < _VALUES:
                self._more[number] += 1
            else:
                self.unnoted += 1

    def figures(self) -> dict[int, int]:
        """Return the number of rows by field number."""
        rows_by_number = {
            int(number): int(self._counts[number]) for number in np.flatnonzero(self._counts)
        }
        return {**rows_by_number, **dict(sorted(self._more.items()))}
