"""The figures of a folder that a run wrote: its stats.json and its vocabularies."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from ingot.converters.commit import MANIFEST
from ingot.converters.criteo.contract import (
    DENSE_NAMES,
    KEYS,
    STATS,
    array_name,
    vocabulary_path,
)
from ingot.converters.criteo.inspecting.figures import (
    DenseFigures,
    Figures,
    PartFigures,
    SparseFigures,
)
from ingot.converters.criteo.inspecting.frequencies import Frequencies
from ingot.converters.criteo.inspecting.vocabulary import frequencies
from ingot.converters.criteo.loading.locating import locate
from ingot.converters.errors import SourceError
from ingot.converters.json_files import load_json
from ingot.converters.rows import Json

_ROUNDED: Final = "torchrec_f32"
_HINT: Final = "take it away to have the arrays counted"
_EARLIER: Final = (
    "the vocabularies count rows of earlier runs too: the shares of ids are of all these rows"
)
_UNSEEN: Final = "values that the vocabularies do not have, id 1, are in no share of ids"


def is_stored(root: Path) -> bool:
    """Whether a folder has what a run counted."""
    return (root / STATS).is_file() and vocabulary_path(root, KEYS[0]).is_file()


def stored(root: Path, top: int) -> Figures:
    """The figures of stats.json and of the vocabularies.

    Raises:
        SourceError: one of them cannot be read, or is not as a run writes it.
    """
    stats, how = _document(root / STATS), _manifest(root)
    found = [frequencies(root, key, top) for key in KEYS]
    try:
        parts = tuple(_part(told) for told in stats["parts"])
        rows = sum(one.rows for one in parts)
        dense = tuple(_dense(told, rows) for told in _named(stats["dense"], DENSE_NAMES))
        sparse = tuple(
            _sparse(told, one, rounded=how.get("compat") == _ROUNDED)
            for told, one in zip(_named(stats["sparse"], KEYS), found, strict=True)
        )
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        problem = f"is not as a run writes it: {error!r}"
        raise SourceError(str(root / STATS), problem, _HINT) from error
    return Figures(
        folder=str(root),
        source="stats.json",
        parts=parts,
        dense=dense,
        sparse=sparse,
        notes=tuple(_notes(root, how, parts)),
    )


def _document(path: Path) -> dict[str, Json]:
    try:
        return load_json(path)
    except (OSError, ValueError) as error:
        raise SourceError(str(path), f"cannot be read: {error}", _HINT) from error


def _manifest(root: Path) -> dict[str, Json]:
    """How the run was told to work; nothing where that is not there."""
    path = root / MANIFEST
    return _document(path) if path.is_file() else {}


def _named(entries: Json, names: Sequence[str]) -> Sequence[dict[str, Json]]:
    """The entries of all columns; ValueError where they are others."""
    if [one["name"] for one in entries] != list(names):
        raise ValueError(f"the columns are not {names[0]} to {names[-1]}")
    columns: Sequence[dict[str, Json]] = entries
    return columns


def _whole(told: Json) -> int:
    """A whole number; TypeError where it is none."""
    if isinstance(told, bool) or not isinstance(told, int):
        raise TypeError(f"{told!r} is no whole number")
    return told


def _count(told: Json) -> int:
    """A count; ValueError where it is negative."""
    if _whole(told) < 0:
        raise ValueError(f"{told!r} is no count")
    return _whole(told)


def _text(told: Json) -> str:
    if not isinstance(told, str):
        raise TypeError(f"{told!r} is no text")
    return told


def _part(told: dict[str, Json]) -> PartFigures:
    labels = told["labels"]
    least = told["dense_min"]
    return PartFigures(
        name=_text(told["name"]),
        file=_text(told["file"]),
        lines=_count(told["lines"]),
        rows=_count(told["rows"]),
        rejects={reason: _count(count) for reason, count in told["rejects"].items()},
        zeros=_count(labels["0"]),
        ones=_count(labels["1"]),
        other=_count(labels["other"]),
        nonfinite=_count(told["nonfinite"]),
        dense_min=None if least is None else _whole(least),
        shuffled=bool(told["shuffled"]),
    )


def _dense(told: dict[str, Json], rows: int) -> DenseFigures:
    histogram = {bucket: _count(count) for bucket, count in told["histogram"].items()}
    least, most = told["min"], told["max"]
    return DenseFigures(
        name=told["name"],
        missing=_count(told["missing"]),
        nonfinite=_count(told["nonfinite"]),
        least=None if least is None else _whole(least),
        most=None if most is None else _whole(most),
        mean=_whole(told["sum"]) / rows if rows else None,
        histogram=tuple(sorted(histogram.items(), key=lambda one: _bound(one[0]))),
    )


def _bound(bucket: str) -> int:
    """The lower bound of a bucket; ValueError where it is none."""
    return -1 if bucket == "negative" else int(bucket)


def _sparse(told: dict[str, Json], found: Frequencies, *, rounded: bool) -> SparseFigures:
    largest = max(_count(told["max_id"]), found.largest)
    through = int(np.float32(largest)) if rounded else 0
    return SparseFigures(
        name=told["name"],
        missing=_count(told["missing"]),
        distinct=_count(told["distinct"]),
        vocabulary=_count(told["vocabulary"]),
        rare=_count(told["rare"]),
        rare_rows=_count(told["rare_rows"]),
        max_id=_count(told["max_id"]),
        largest=max(largest, through),
        counted=found.rows,
        coverage=found.coverage(),
        top=found.top(),
    )


def _notes(root: Path, how: dict[str, Json], parts: Sequence[PartFigures]) -> list[str]:
    notes = [_EARLIER] if how.get("vocab_sha256") else []
    notes += [_UNSEEN] if how.get("unseen") == "1" else []
    return notes + [note for part in parts if (note := _difference(root, part))]


def _difference(root: Path, part: PartFigures) -> str | None:
    """How the arrays of a part are other than stats.json has it."""
    if not part.rows:
        return None
    try:
        written = locate(root, "all", [part.name]).rows
    except (SourceError, ValueError) as error:
        return f"the arrays are not those of stats.json: {error}"
    told = f"{array_name(part.name, 'sparse')} has {written:,} rows"
    return None if written == part.rows else f"{told}, stats.json counts {part.rows:,}"
