"""The figures of preprocessed Criteo data as values; what is not known is None."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from ingot.converters.rows import Json


@dataclass(frozen=True, kw_only=True)
class PartFigures:
    """One part, as day_0. Of a shuffled one what stats.json counts is its file, before the shuffle.

    Attributes:
        name: as its files are named.
        file: what it was made of.
        lines: of that file.
        rows: written.
        rejects: lines that are no rows, by reason.
        zeros: rows with label 0.
        ones: rows with label 1.
        other: rows with another label, as -1 where the file has none.
        nonfinite: written dense values that are infinite or NaN.
        dense_min: the least raw dense value of all columns.
        shuffled: whether its rows were shuffled.
    """

    name: str
    file: str | None = None
    lines: int | None = None
    rows: int
    rejects: dict[str, int] | None = None
    zeros: int
    ones: int
    other: int
    nonfinite: int
    dense_min: int | None = None
    shuffled: bool | None = None

    @property
    def label_rate(self) -> float | None:
        """Ones of the rows with 0 or 1; None without any."""
        return rate(self.ones, self.zeros)


@dataclass(frozen=True, kw_only=True)
class DenseFigures:
    """A dense column: of the raw integers (missing ones are 0), or of the written numbers.

    Attributes:
        name: int_0 to int_12.
        missing: empty fields.
        nonfinite: written values that are infinite or NaN.
        least: the smallest; of written numbers the smallest finite one.
        most: the largest.
        mean: over all rows; of written numbers over the finite ones.
        histogram: from the smallest bucket: its lower bound, and how many values it has.
    """

    name: str
    missing: int | None = None
    nonfinite: int
    least: float | None
    most: float | None
    mean: float | None
    histogram: tuple[tuple[str, int], ...]


@dataclass(frozen=True, kw_only=True)
class Frequent:
    """An id that is among the most frequent.

    Attributes:
        id: of the column.
        value: the raw number; None where it is not known, or where several share the id.
        count: rows.
        share: of all rows that were counted.
    """

    id: int
    value: int | None
    count: int
    share: float

    @property
    def raw(self) -> str | None:
        """The raw value as the files spell it, 8 hex digits."""
        return None if self.value is None else f"{self.value:08x}"


@dataclass(frozen=True, kw_only=True)
class SparseFigures:
    """A sparse column.

    Attributes:
        name: cat_0 to cat_25.
        missing: empty fields.
        distinct: values seen in this run; of counted arrays: ids.
        vocabulary: values that the vocabulary has.
        rare: values with id 1.
        rare_rows: rows with id 1.
        max_id: the largest id of the rows.
        largest: that the rows or the vocabulary may have: the vocabulary knows earlier runs, and
            ids that went through float32 may be rounded up.
        counted: rows by which the shares are; more than rows where earlier runs count too.
        coverage: number of most frequent ids, and their share of the rows.
        top: the most frequent ids.
    """

    name: str
    missing: int | None = None
    distinct: int | None
    vocabulary: int | None = None
    rare: int | None = None
    rare_rows: int | None = None
    max_id: int | None
    largest: int | None
    counted: int
    coverage: tuple[tuple[int, float], ...]
    top: tuple[Frequent, ...]

    @property
    def num_embeddings(self) -> int | None:
        """Rows that a table needs: one more than the largest id."""
        return None if self.largest is None else self.largest + 1

    def covered(self, ids: int) -> float | None:
        """The share of rows of so many most frequent ids; None if not known."""
        shares = [share for number, share in self.coverage if number <= ids]
        return shares[-1] if shares else None


@dataclass(frozen=True, kw_only=True)
class Figures:
    """Everything that is known of a folder.

    Attributes:
        folder: as it was named.
        source: where the figures are from; dense ones of arrays are of the written numbers.
        parts: in order.
        dense: 13 columns.
        sparse: 26 columns.
        notes: what is not known, and why.
    """

    folder: str
    source: Literal["stats.json", "arrays"]
    parts: tuple[PartFigures, ...]
    dense: tuple[DenseFigures, ...]
    sparse: tuple[SparseFigures, ...]
    notes: tuple[str, ...]

    @property
    def rows(self) -> int:
        """Of all parts."""
        return sum(one.rows for one in self.parts)

    @property
    def label_rate(self) -> float | None:
        """Ones of the rows with 0 or 1, of all parts; None without any."""
        return rate(sum(one.ones for one in self.parts), sum(one.zeros for one in self.parts))

    @property
    def rejects(self) -> dict[str, int] | None:
        """Lines that are no rows, by reason, of all parts; None where not known."""
        counts: dict[str, int] = {}
        for one in self.parts:
            if one.rejects is None:
                return None
            for reason, count in one.rejects.items():
                counts[reason] = counts.get(reason, 0) + count
        return dict(sorted(counts.items()))

    @property
    def num_embeddings(self) -> list[int | None]:
        """Of the sparse columns, in order."""
        return [one.num_embeddings for one in self.sparse]

    def to_document(self) -> dict[str, Json]:
        """The figures as JSON."""
        return {
            "folder": self.folder,
            "source": self.source,
            "rows": self.rows,
            "label_rate": self.label_rate,
            "rejects": self.rejects,
            "num_embeddings": self.num_embeddings,
            "parts": [{**asdict(one), "label_rate": one.label_rate} for one in self.parts],
            "dense": [_dense(one) for one in self.dense],
            "sparse": [_sparse(one) for one in self.sparse],
            "notes": list(self.notes),
        }


def rate(ones: int, zeros: int) -> float | None:
    """Ones of both; None without any."""
    return ones / (ones + zeros) if ones + zeros else None


def _dense(one: DenseFigures) -> dict[str, Json]:
    return {**asdict(one), "histogram": dict(one.histogram)}


def _sparse(one: SparseFigures) -> dict[str, Json]:
    return {
        **asdict(one),
        "num_embeddings": one.num_embeddings,
        "coverage": _pairs(one.coverage),
        "top": [{**asdict(entry), "raw": entry.raw} for entry in one.top],
    }


def _pairs(coverage: Sequence[tuple[int, float]]) -> list[dict[str, Json]]:
    return [{"ids": ids, "share": share} for ids, share in coverage]
