"""The figures of streams as values; what is not known is None."""

import math
from dataclasses import asdict, dataclass
from typing import cast

from ingot.converters.rows import Json


@dataclass(frozen=True, kw_only=True)
class Lengths:
    """How long lists are, or how many rows records have.

    Attributes:
        count: of what was measured.
        least: the smallest.
        mean: over all.
        p50: of half of them, none is longer; exact below 64, else at most 3 % too small.
        p99: the same of 99 in 100.
        most: the largest.
    """

    count: int
    least: int
    mean: float
    p50: int
    p99: int
    most: int


@dataclass(frozen=True, kw_only=True)
class Numbers:
    """How numbers are spread.

    Attributes:
        count: of them, those that are no numbers included.
        positive: above 0.
        zero: of them.
        negative: below 0.
        no_number: NaN.
        least: the smallest; None without a number. So the two that follow.
        mean: over those that are numbers.
        most: the largest.
    """

    count: int
    positive: int
    zero: int
    negative: int
    no_number: int
    least: float | None
    mean: float | None
    most: float | None


@dataclass(frozen=True, kw_only=True)
class Spread:
    """Which values there are.

    Attributes:
        given: rows that give one; others have the default.
        values: rows by value, the most frequent first.
        others: rows with values beyond so many different ones.
        numbers: how those given are spread.
    """

    given: int
    values: tuple[tuple[float, int], ...]
    others: int
    numbers: Numbers


@dataclass(frozen=True, kw_only=True)
class FeatureFigures:
    """A feature; filled, empty, unset and absent rows are all rows.

    Attributes:
        name: of it.
        raw: whether it is a raw feature.
        kinds: entries by kind, `unset` included.
        filled: rows where it has a value.
        empty: rows where it is a list without a value.
        unset: rows where it is there and has no kind.
        absent: rows without it.
        repeated: entries beyond one a row.
        lengths: values of lists, lists of lists of lists, 1 for a single value; None without any.
        slots: how many different slots its fids have; None without fids.
        first_slots: the smallest of them, of version 1 before those of version 2.
    """

    name: str
    raw: bool
    kinds: dict[str, int]
    filled: int
    empty: int
    unset: int
    absent: int
    repeated: int
    lengths: Lengths | None
    slots: int | None
    first_slots: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Slots:
    """Fids by slot; slots without any are left out.

    Attributes:
        v1: of version 1.
        v2: of version 2.
        beyond: fids of version 2 whose top bit is set, which has no meaning.
    """

    v1: dict[int, int]
    v2: dict[int, int]
    beyond: int


@dataclass(frozen=True, kw_only=True)
class Unknown:
    """Rows with unknown fields, by field number.

    Attributes:
        line_id: in the LineId.
        line_id_text: with text that is no UTF-8, by field name.
        record: in the Example, ExampleBatch or Instance.
        beside: in a named feature, beside the feature.
        features: with a feature that has unknown fields inside, or beside it.
        unnoted: fields with large numbers that there was no room to note.
    """

    line_id: dict[int, int]
    line_id_text: dict[str, int]
    record: dict[int, int]
    beside: dict[int, int]
    features: int
    unnoted: int


@dataclass(frozen=True, kw_only=True)
class LineIds:
    """What LineIds give.

    Attributes:
        rows: with a LineId.
        fields: rows that give a field, by its name.
        lacking: rows that lack a field which the format asks for, by its name.
        incomplete: rows that lack any of these.
        sample_rate: of the rows that give one; the default is 1.
    """

    rows: int
    fields: dict[str, int]
    lacking: dict[str, int]
    incomplete: int
    sample_rate: Spread


@dataclass(frozen=True, kw_only=True)
class BadFigures:
    """What is none, or cannot be used.

    Attributes:
        reasons: how often, by reason (`contract.REASONS`).
        bytes: of the streams that were passed over.
        first: the first ones, with file and place.
    """

    reasons: dict[str, int]
    bytes: int
    first: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Figures:
    """Streams in figures.

    Attributes:
        streams: as what each file was read.
        rows: that can be used.
        records: that have them.
        batches: rows of each record.
        features: in the order in which they came.
        names_left_out: features beyond those that are told apart, entries of them.
        slots: of all fids.
        labels: how many labels rows have.
        label: how labels are spread, by position; those of the last one and beyond together.
        instance_weight: of the rows that give one.
        data_source_key: of the rows with another one than 0.
        line_ids: what they give.
        sort_ids: lengths of those of records that have one; None without any.
        unknown: fields.
        bad: what cannot be used.
    """

    streams: dict[str, str]
    rows: int
    records: int
    batches: Lengths | None
    features: tuple[FeatureFigures, ...]
    names_left_out: int
    slots: Slots
    labels: Lengths | None
    label: tuple[Numbers, ...]
    instance_weight: Spread
    data_source_key: Spread
    line_ids: LineIds
    sort_ids: Lengths | None
    unknown: Unknown
    bad: BadFigures

    def to_document(self) -> dict[str, Json]:
        """The same as JSON, which has no infinite numbers: these are texts."""
        document = _finite(asdict(self))
        return cast(dict[str, Json], document)


def _finite(value: Json) -> Json:
    if isinstance(value, dict):
        return {str(key): _finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return list(map(_finite, value))
    return json_number(value) if isinstance(value, float) else value


def json_number(value: float) -> Json:
    """A number, or the name that protobuf's JSON gives it where JSON has none."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
