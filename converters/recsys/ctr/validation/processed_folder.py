"""A processed folder on disk: its Parquet files, read in batches, their columns and counts."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ingot.converters.errors import SourceError, translate_read_errors
from ingot.converters.recsys.ctr import contract
from ingot.converters.recsys.ctr.featuremap import HYBRID, VOCAB, Feature, FeatureMap
from ingot.converters.recsys.ctr.validation.findings import Findings, Mask, Place

FEATUREMAP = "featuremap.yaml"
STATS = "stats.json"
VOCAB_FOLDER = "vocab"
REJECTS = "rejects.jsonl"
BATCH_ROWS = 8192
_UNREADABLE = "cannot be read"


@dataclass(frozen=True, kw_only=True)
class Part:
    """A Parquet file of a split."""

    split: str
    path: Path
    name: str


@dataclass(frozen=True, kw_only=True)
class Folder:
    """The files of a processed folder, by split, sorted by name."""

    root: Path
    parts: dict[str, tuple[Part, ...]] = field(default_factory=dict)

    @property
    def all_parts(self) -> tuple[Part, ...]:
        """Return the files of all splits, those of train first."""
        return tuple(part for split in contract.SPLITS for part in self.parts.get(split, ()))


def find_folder(root: Path) -> Folder:
    """Return the processed files under a folder."""
    if not root.is_dir():
        raise SourceError(str(root), "no such folder", "name the folder that a build wrote")
    splits = [split for split in contract.SPLITS if (root / split).is_dir()]
    if not splits:
        hint = "a processed folder has train/ and valid/"
        raise SourceError(str(root), "neither train/ nor valid/ is in it", hint)
    return Folder(
        root=root,
        parts={
            split: tuple(
                Part(split=split, path=path, name=f"{split}/{path.name}")
                for path in sorted((root / split).glob("*.parquet"))
                if path.name[0] != "."
            )
            for split in splits
        },
    )


def read_schema(part: Part) -> pa.Schema:
    """Return the Arrow schema of a file with its metadata. Raises SourceError if unreadable."""
    with translate_read_errors(part.name, _UNREADABLE):
        return pq.read_schema(part.path)


def read_row_count(part: Part) -> int:
    """Return the number of rows in a file's footer. Raises SourceError if it is unreadable."""
    with translate_read_errors(part.name, _UNREADABLE):
        return int(pq.read_metadata(part.path).num_rows)


def read_batches(
    part: Part, columns: list[str] | None = None, rows: int = BATCH_ROWS
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the rows of a file in order, with the number of the first of each batch."""
    first = 0
    with translate_read_errors(part.name, _UNREADABLE):
        file = pq.ParquetFile(part.path, memory_map=False, pre_buffer=False, buffer_size=1 << 18)
    with file:
        following = iter(file.iter_batches(batch_size=rows, columns=columns))
        while True:
            with translate_read_errors(part.name, _UNREADABLE):
                batch = next(following, None)
            if batch is None:
                return
            yield first, batch
            first += batch.num_rows


@dataclass(frozen=True, kw_only=True)
class Scalars:
    """A scalar column of n rows."""

    values: NDArray[Any]  # [n]; where a cell is null, 0
    null: Mask | None  # bool[n], or None where no cell is null

    def present(self, mask: Mask) -> Mask:
        """Return the mask without cells that are null."""
        return mask if self.null is None else mask & ~self.null


@dataclass(frozen=True, kw_only=True)
class Lists:
    """A list column of n rows with m elements."""

    values: NDArray[Any]  # [m], the elements of all lists; where one is null, 0
    # int64[n + 1]; row i has the elements offsets[i]:offsets[i + 1], none where it is null
    offsets: NDArray[np.int64]
    null: Mask | None  # bool[n], rows that are null, or None
    holes: Mask | None  # bool[m], elements that are null, or None

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Return int64[n]: the lengths of the lists."""
        return np.diff(self.offsets)

    def row_of(self, element: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return the rows to which elements belong."""
        return np.searchsorted(self.offsets, element, side="right") - 1

    def present(self, mask: Mask) -> Mask:
        """Return the mask of elements without those that are null."""
        return mask if self.holes is None else mask & ~self.holes


def cell_arrays(column: pa.Array, kind: pa.DataType) -> "Scalars | Lists | None":
    """Return a column as arrays."""
    try:
        column = column.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    if not pa.types.is_list(kind):
        values, null = _number_array(column)
        return Scalars(values=values, null=null)
    flat, holes = _number_array(pc.list_flatten(column))
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    offsets = np.zeros(len(column) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return Lists(values=flat, offsets=offsets, null=_null_mask(column), holes=holes)


def _number_array(column: pa.Array) -> tuple[NDArray[Any], Mask | None]:
    null = _null_mask(column)
    if null is not None:
        column = pc.fill_null(column, pa.scalar(0, column.type))
    return column.to_numpy(zero_copy_only=False), null


def _null_mask(column: pa.Array) -> Mask | None:
    return column.is_null().to_numpy(zero_copy_only=False) if column.null_count else None


_LONGEST = 1 << 20  # of a list whose length is told apart; max_len is at most 1,000,000


@dataclass(kw_only=True)
class FeatureCounts:
    """What the ids of a feature say."""

    feature: Feature
    tail_ids: str  # disjoint or contract: then a hybrid's tail cannot be told from its head
    missing: int = 0
    tokens: int = 0
    oov: int = 0  # ids 2 of a vocabulary
    tail: int = 0  # ids of a hybrid's tail, where they are told apart
    # how many rows have lists of 0, 1, 2, ... tokens; empty for a single value.
    lengths: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))

    @property
    def has_tail(self) -> bool:
        """Return whether ids of a tail can be told from those of the head."""
        return self.feature.encoding == HYBRID and self.tail_ids == "disjoint"

    def add(self, ids: Scalars | Lists) -> None:
        """Count the `_idx` column of a batch."""
        missing = ids.present(ids.values == contract.MISSING)
        tokens = ids.present(~missing)
        self.missing += int(np.count_nonzero(missing))
        self.tokens += int(np.count_nonzero(tokens))
        if self.feature.encoding == VOCAB:
            self.oov += int(np.count_nonzero(ids.values == contract.OOV))
        if self.has_tail:
            start = contract.VOCAB_FIRST + (self.feature.vocab_num_tokens or 0)
            self.tail += int(np.count_nonzero(ids.values >= start))
        if isinstance(ids, Lists):
            before = np.zeros(len(tokens) + 1, np.int64)
            np.cumsum(tokens, out=before[1:])
            lengths = np.minimum(np.diff(before[ids.offsets]), _LONGEST)
            counted = np.bincount(lengths, minlength=len(self.lengths))
            counted[: len(self.lengths)] += self.lengths
            self.lengths = counted


@dataclass(kw_only=True)
class SplitCounts:
    """What the rows of a split say."""

    features: dict[str, FeatureCounts]
    rows: int = 0
    # sums of the four labels, of cells that are 1
    labels: dict[str, int] = field(default_factory=lambda: dict.fromkeys(contract.LABELS, 0))
    funnel_anomalies: int = 0  # rows with y_cvr 1 and y_ctr 0

    def add(self, rows: int, columns: dict[str, Scalars | Lists]) -> None:
        """Count a batch: its number of rows, and the columns that can be read."""
        self.rows += rows
        positives = {
            name: columns[name].present(columns[name].values == 1)
            for name in contract.LABELS
            if name in columns
        }
        for name, one in positives.items():
            self.labels[name] += int(np.count_nonzero(one))
        if {"y_ctr", "y_cvr"} <= set(positives):
            self.funnel_anomalies += int(np.count_nonzero(positives["y_cvr"] & ~positives["y_ctr"]))
        for counts in self.features.values():
            ids = columns.get(contract.index_column(counts.feature))
            if ids is not None:
                counts.add(ids)


_TEXTS = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
_LISTS = (
    *(pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list),
    *(pa.types.is_list_view, pa.types.is_large_list_view),
)


@dataclass(frozen=True, kw_only=True)
class DeclaredColumn:
    """A column as the contract declares it."""

    name: str
    kind: pa.DataType  # its type, as `parquet_type` gives it
    missing: str
    shape: str  # the rule that a list in place of a scalar breaks, or the other way round
    type: str  # the rule that another type of the scalars or elements breaks


def declared_columns(featuremap: FeatureMap | None) -> Iterator[DeclaredColumn]:
    """Yield every column of the contract; the six of section 1 alone without a featuremap."""
    for one in contract.processed_schema(featuremap or FeatureMap(features=())):
        missing, shape, of_type = "R2.1", "R2.4", "R2.5"
        if one.name in contract.REQUIRED:
            missing = "R1.1"
            shape = of_type = "R1.2" if one.name in contract.LABELS else "R1.3"
        elif one.name.endswith("_val"):
            missing = "R2.2"
        kind = parquet_type(one.type)
        yield DeclaredColumn(name=one.name, kind=kind, missing=missing, shape=shape, type=of_type)


def parquet_type(kind: pa.DataType) -> pa.DataType:
    """Return the type that Parquet stores: large, view and dictionary forms become plain."""
    if pa.types.is_dictionary(kind):
        return parquet_type(kind.value_type)
    if any(is_list(kind) for is_list in _LISTS):
        return pa.list_(parquet_type(kind.value_type))
    return pa.string() if any(is_text(kind) for is_text in _TEXTS) else kind


def check_columns(
    schema: pa.Schema, featuremap: FeatureMap | None, file: str, findings: Findings
) -> dict[str, pa.DataType]:
    """Check names and types of a file's columns."""
    declared = {one.name: one for one in declared_columns(featuremap)}
    times = Counter(schema.names)
    spare = {contract.value_column(one) for one in featuremap.features} if featuremap else set()
    for name, count in times.items():
        if count > 1:
            findings.add(
                "R0.3", Place(file=file, column=name, found=f"{count} columns of this name")
            )
        if name in declared or featuremap is None:
            continue
        rule, problem = "R0.3", "a column that is not declared"
        if name in spare:
            rule, problem = "R2.3", "a column; the featuremap says use_value: false"
        findings.add(rule, Place(file=file, column=name, found=problem))
    usable = {}
    for name, one in declared.items():
        if times[name] == 0:
            findings.add(one.missing, Place(file=file, column=name, found="no such column"))
        elif times[name] == 1 and _check_type(schema.field(name).type, one, file, findings):
            usable[name] = one.kind
    return usable


def _check_type(kind: pa.DataType, declared: DeclaredColumn, file: str, findings: Findings) -> bool:
    """Whether a column can be looked into; what is wrong with its type is noted."""
    kind = parquet_type(kind)
    if kind == declared.kind:
        return True
    place = Place(
        file=file,
        column=declared.name,
        found=f"{_type_name(kind)}, not {_type_name(declared.kind)}",
    )
    same_shape = pa.types.is_list(kind) == pa.types.is_list(declared.kind)
    findings.add(declared.type if same_shape else declared.shape, place)
    return (
        same_shape and _is_number(_element_type(kind)) and _is_number(_element_type(declared.kind))
    )


def _element_type(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_list(kind) else kind


def _type_name(kind: pa.DataType) -> str:
    name = str(_element_type(kind))
    name = {"float": "float32", "double": "float64", "halffloat": "float16"}.get(name, name)
    return f"list<{name}>" if pa.types.is_list(kind) else name


def _is_number(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    )
