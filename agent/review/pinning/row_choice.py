"""Choose the rows of a sample to pin: as many as fit, in runs of neighbours."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from ingot.converters.paths import compile_path
from ingot.converters.rows import Json
from ingot.converters.sources.facts import SourceFile, SourceSpec
from ingot.converters.sources.formats.row_chunks import change_at
from ingot.converters.sources.sample import UNKNOWN_ROW, Sample, spread_order
from ingot.converters.sources.tables.partitions import drop_partitions

MOST_ROW, MOST_BYTES = 256 << 10, 2 << 20
_RUN = 10  # neighbours that are kept or dropped together, as a sample takes them
_FEWER = (200, 100, 50, 20, 10, 5, 3, 1)  # elements kept of every list of a row that is too large
_FEW_KEYS = 50


@dataclass(frozen=True, kw_only=True, slots=True)
class PinnableRow:
    """A row as it was before `json_fields`, and its key in an object of rows, if it has one."""

    key: str | None
    value: Json


def list_rows(sample: Sample, file: SourceFile, spec: SourceSpec) -> list[PinnableRow]:
    """Return the sampled rows of a file, in the order of the file if that is known."""
    rows = [one for one in sample.rows if one.file == file.name]
    if all(one.row != UNKNOWN_ROW for one in rows):
        rows.sort(key=lambda one: one.row)
    return [
        PinnableRow(key=one.key, value=unparse_fields(drop_partitions(one.value, file), spec))
        for one in rows
    ]


def unparse_fields(value: Json, spec: SourceSpec) -> Json:
    """Return a row as it was before `json_fields` were parsed; blank fields stay null."""
    for name in reversed(spec.json_fields or ()):
        value = change_at(value, compile_path(name).steps, _spell_field)
    return value


def _spell_field(value: Json) -> Json:
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value, ensure_ascii=False)


def measure_row(value: Json) -> int:
    """Return the bytes of a row as JSON."""
    return len(json.dumps(value, ensure_ascii=False).encode())


def shorten_lists(value: Json) -> Json:
    """Shorten the lists of a large row until it fits; return it as it is if it never does."""
    for few in _FEWER:
        small = _keep_first(value, few)
        if measure_row(small) <= MOST_ROW:
            return small
    return value


def _keep_first(value: Json, few: int) -> Json:
    """Keep at most `few` elements of every list, and few keys of objects with many."""
    if isinstance(value, list):
        return [_keep_first(inner, few) for inner in value[:few]]
    if isinstance(value, dict):
        keys = list(value) if len(value) <= _FEW_KEYS else list(value)[:few]
        return {key: _keep_first(value[key], few) for key in keys}
    return value


def choose_fitting(sizes: Sequence[Sequence[int]], rows: int, most_bytes: int) -> list[set[int]]:
    """Choose rows of each file: no more than `rows` and `most_bytes`, spread evenly."""
    kept: list[set[int]] = [set() for _ in sizes]
    runs = [
        (file, range(start, min(start + _RUN, len(of_file))))
        for file, of_file in enumerate(sizes)
        for start in range(0, len(of_file), _RUN)
    ]
    for place in spread_order(len(runs)):
        file, run = runs[place]
        for number in run:
            if rows > 0 and sizes[file][number] <= most_bytes:
                kept[file].add(number)
                rows, most_bytes = rows - 1, most_bytes - sizes[file][number]
    return kept
