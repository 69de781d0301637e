"""The figures of a folder that a run wrote: its stats.json and its vocabularies."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ingot.converters.errors import SourceError
from ingot.converters.json_yaml import load_json
from ingot.converters.output.files import MANIFEST
from ingot.converters.recsys.criteo.inspect.figures import (
    DenseFigures,
    Figures,
    Frequencies,
    PartFigures,
    SparseFigures,
)
from ingot.converters.recsys.criteo.stored_arrays import (
    DENSE_NAMES,
    KEYS,
    RARE_ID,
    STATS,
    locate_arrays,
    vocabulary_path,
)
from ingot.converters.rows import Json
from ingot.converters.sources.recognizers.criteo import array_name

_ROWS: Final = 1 << 18
_COLUMNS: Final = {"value": pa.uint32(), "id": pa.int32(), "count": pa.int64()}
_VOCABULARY_HINT: Final = "take vocab/ away to have the ids counted"
_Piece = dict[str, NDArray[np.int64]]


def read_frequencies(folder: Path, key: str, top: int) -> Frequencies:
    """How often the ids of a column occur; all values with id 1 are one id."""
    path, found, rare = vocabulary_path(folder, key), Frequencies(top), 0
    try:
        for piece in _read_pieces(path):
            own = piece["id"] != RARE_ID
            found.add(piece["id"][own], piece["count"][own], piece["value"][own])
            rare += int(piece["count"][~own].sum())
    except FileNotFoundError as error:
        raise SourceError(str(path), "this vocabulary does not exist", _VOCABULARY_HINT) from error
    except (OSError, pa.ArrowException, ValueError) as error:
        raise SourceError(
            str(path), f"is not a vocabulary of ingot: {error}", _VOCABULARY_HINT
        ) from error
    if rare:
        found.add(np.array([RARE_ID]), np.array([rare]))
    return found


def _read_pieces(path: Path) -> Iterator[_Piece]:
    with pq.ParquetFile(path) as file:
        for name, kind in _COLUMNS.items():
            at = file.schema_arrow.get_field_index(name)
            if at < 0 or file.schema_arrow.field(at).type != kind:
                raise ValueError(f"the column {name} is not {kind}")
        for batch in file.iter_batches(_ROWS, columns=list(_COLUMNS)):
            yield {name: _column_cells(batch.column(name), name) for name in _COLUMNS}


def _column_cells(column: pa.Array, name: str) -> NDArray[np.int64]:
    if column.null_count:
        raise ValueError(f"the column {name} has nulls")
    cells: NDArray[np.int64] = column.to_numpy().astype(np.int64)
    if len(cells) and cells.min() < 0:
        raise ValueError(f"the column {name} has a negative number")
    return cells


_ROUNDED: Final = "torchrec_f32"
_STATS_HINT: Final = "take it away to have the arrays counted"
_EARLIER: Final = (
    "the vocabularies count rows of earlier runs too: the shares of ids are of all these rows"
)
_UNSEEN: Final = "values that the vocabularies do not have, id 1, are in no share of ids"


def is_stored(root: Path) -> bool:
    """Whether a folder has what a run counted."""
    return (root / STATS).is_file() and vocabulary_path(root, KEYS[0]).is_file()


def read_stored_figures(root: Path, top: int) -> Figures:
    """The figures of stats.json and of the vocabularies."""
    stats, how = _read_document(root / STATS), _read_settings(root)
    found = [read_frequencies(root, key, top) for key in KEYS]
    try:
        parts = tuple(_part_figures(told) for told in stats["parts"])
        rows = sum(one.rows for one in parts)
        dense = tuple(
            _dense_figures(told, rows) for told in _check_names(stats["dense"], DENSE_NAMES)
        )
        sparse = tuple(
            _sparse_figures(told, one, rounded=how.get("compat") == _ROUNDED)
            for told, one in zip(_check_names(stats["sparse"], KEYS), found, strict=True)
        )
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        problem = f"is not as a run writes it: {error!r}"
        raise SourceError(str(root / STATS), problem, _STATS_HINT) from error
    return Figures(
        folder=str(root),
        source="stats.json",
        parts=parts,
        dense=dense,
        sparse=sparse,
        notes=tuple(_folder_notes(root, how, parts)),
    )


def _read_document(path: Path) -> dict[str, Json]:
    try:
        return load_json(path)
    except (OSError, ValueError) as error:
        raise SourceError(str(path), f"cannot be read: {error}", _STATS_HINT) from error


def _read_settings(root: Path) -> dict[str, Json]:
    path = root / MANIFEST
    return _read_document(path) if path.is_file() else {}


def _check_names(entries: Json, names: Sequence[str]) -> Sequence[dict[str, Json]]:
    if [one["name"] for one in entries] != list(names):
        raise ValueError(f"the columns are not {names[0]} to {names[-1]}")
    columns: Sequence[dict[str, Json]] = entries
    return columns


def _as_whole(told: Json) -> int:
    if isinstance(told, bool) or not isinstance(told, int):
        raise TypeError(f"{told!r} is not an integer")
    return told


def _as_count(told: Json) -> int:
    if _as_whole(told) < 0:
        raise ValueError(f"{told!r} is not a count")
    return _as_whole(told)


def _as_text(told: Json) -> str:
    if not isinstance(told, str):
        raise TypeError(f"{told!r} is not a text")
    return told


def _part_figures(told: dict[str, Json]) -> PartFigures:
    labels = told["labels"]
    least = told["dense_min"]
    return PartFigures(
        name=_as_text(told["name"]),
        file=_as_text(told["file"]),
        lines=_as_count(told["lines"]),
        rows=_as_count(told["rows"]),
        rejects={reason: _as_count(count) for reason, count in told["rejects"].items()},
        zeros=_as_count(labels["0"]),
        ones=_as_count(labels["1"]),
        other=_as_count(labels["other"]),
        nonfinite=_as_count(told["nonfinite"]),
        dense_min=None if least is None else _as_whole(least),
        shuffled=bool(told["shuffled"]),
    )


def _dense_figures(told: dict[str, Json], rows: int) -> DenseFigures:
    histogram = {bucket: _as_count(count) for bucket, count in told["histogram"].items()}
    least, most = told["min"], told["max"]
    return DenseFigures(
        name=told["name"],
        missing=_as_count(told["missing"]),
        nonfinite=_as_count(told["nonfinite"]),
        least=None if least is None else _as_whole(least),
        most=None if most is None else _as_whole(most),
        mean=_as_whole(told["sum"]) / rows if rows else None,
        histogram=tuple(sorted(histogram.items(), key=lambda one: _lower_bound(one[0]))),
    )


def _lower_bound(bucket: str) -> int:
    return -1 if bucket == "negative" else int(bucket)


def _sparse_figures(told: dict[str, Json], found: Frequencies, *, rounded: bool) -> SparseFigures:
    largest = max(_as_count(told["max_id"]), found.largest)
    through = int(np.float32(largest)) if rounded else 0
    return SparseFigures(
        name=told["name"],
        missing=_as_count(told["missing"]),
        distinct=_as_count(told["distinct"]),
        vocabulary=_as_count(told["vocabulary"]),
        rare=_as_count(told["rare"]),
        rare_rows=_as_count(told["rare_rows"]),
        max_id=_as_count(told["max_id"]),
        largest=max(largest, through),
        counted=found.rows,
        coverage=found.coverage(),
        top=found.top(),
    )


def _folder_notes(root: Path, how: dict[str, Json], parts: Sequence[PartFigures]) -> list[str]:
    notes = [_EARLIER] if how.get("vocab_sha256") else []
    notes += [_UNSEEN] if how.get("unseen") == "1" else []
    return notes + [note for part in parts if (note := _part_difference(root, part))]


def _part_difference(root: Path, part: PartFigures) -> str | None:
    """How the arrays of a part are other than stats.json has it."""
    if not part.rows:
        return None
    try:
        written = locate_arrays(root, "all", [part.name]).rows
    except (SourceError, ValueError) as error:
        return f"the arrays are not those of stats.json: {error}"
    told = f"{array_name(part.name, 'sparse')} has {written:,} rows"
    return None if written == part.rows else f"{told}, stats.json counts {part.rows:,}"
