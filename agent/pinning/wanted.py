"""Which rows of a sample are pinned: as many as fit, in runs of neighbours."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

from ingot.agent.pinning.units import Unit, read
from ingot.converters.readers.facts import FileFacts
from ingot.converters.readers.spec import SourceSpec
from ingot.converters.readers.stretch import Broken, parse_fields
from ingot.converters.rows import Json
from ingot.converters.sample import UNKNOWN_ROW, Sample

MOST_ROW, MOST_BYTES = 256 << 10, 2 << 20
_RUN = 10  # neighbours that are kept or dropped together, as a sample takes them
_REASONS = ("too_large", "over_limit", "not_redactable", "not_found")


@dataclass(frozen=True, kw_only=True, slots=True)
class Wanted:
    """A sampled row of one file: its place in the sample, its number (-1 unknown), what it is.

    `value` is the row after `json_fields`, `Broken` for one that cannot be read.
    """

    place: int
    row: int
    key: str | None
    value: Json


@dataclass(kw_only=True)
class Counts:
    """How many sampled rows are not pinned, by reason."""

    by_reason: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_REASONS, 0))

    def add(self, reason: str, count: int = 1) -> None:
        """Count rows."""
        self.by_reason[reason] += count


def wanted(sample: Sample, file: str) -> list[Wanted]:
    """The sampled rows of a file, in its order as far as that is known."""
    rows = [(one.row, one.key, one.value) for one in sample.rows if one.file == file]
    bad = [
        (one.bad.row, None, Broken(one.bad.detail, one.bad.found, one.bad.reason, one.bad.path))
        for one in sample.bad
        if one.file == file
    ]
    both = [*rows, *bad]
    if all(row != UNKNOWN_ROW for row, _, _ in both):
        both.sort(key=lambda one: one[0])
    return [
        Wanted(place=place, row=row, key=key, value=value)
        for place, (row, key, value) in enumerate(both)
    ]


def found_in(
    units: Iterator[Unit],
    want: Sequence[Wanted],
    spec: SourceSpec,
    facts: FileFacts,
    most_bytes: int,
) -> dict[int, Unit]:
    """The spelt rows of the wanted ones, by place in the sample.

    Args:
        units: the rows of the file from its beginning.
        want: what is looked for: by number, or by value where that is unknown.
        spec: for `json_fields`.
        facts: how they are read.
        most_bytes: how far the file is read.
    """
    by_row = {one.row: one.place for one in want if one.row != UNKNOWN_ROW}
    by_mark: dict[bytes, list[int]] = {}
    for one in want:
        if one.row == UNKNOWN_ROW:
            by_mark.setdefault(_mark(one.value), []).append(one.place)
    out: dict[int, Unit] = {}
    for number, unit in enumerate(units):
        if number in by_row:
            out[by_row[number]] = read(unit, facts)
        elif by_mark:
            unit = read(unit, facts)
            if places := by_mark.get(_mark(_parsed(unit.value, spec))):
                out[places.pop(0)] = unit
        most_bytes -= len(unit.spelled)
        if len(out) == len(want) or most_bytes <= 0:
            break
    return out


def _parsed(value: Json, spec: SourceSpec) -> Json:
    return value if type(value) is Broken else parse_fields(value, spec.json_fields or ())


def _mark(value: Json) -> bytes:
    """Equal for equal rows; of one that cannot be read what is shown of it."""
    shown = ["broken", value.found] if type(value) is Broken else ["row", value]
    return blake2b(json.dumps(shown, sort_keys=True).encode(), digest_size=16).digest()


def marks(rows: Iterator[Json], want: Sequence[Wanted], spec: SourceSpec) -> Iterator[int]:
    """The numbers of the rows that are equal to wanted ones whose number is not known."""
    looked_for = [_mark(one.value) for one in want]
    for number, row in enumerate(rows):
        mark = _mark(_parsed(row, spec))
        if mark in looked_for:
            looked_for.remove(mark)
            yield number


def unparsed(value: Json, spec: SourceSpec) -> Json:
    """A row as it was before `json_fields` were parsed; blank fields became null and stay null."""
    for name in spec.json_fields or ():
        value = _unparsed(value, name)
    return value


def _unparsed(value: Json, way: str) -> Json:
    if not isinstance(value, dict):
        return value
    if way in value:
        inner = value[way]
        text = "" if inner is None else json.dumps(inner, ensure_ascii=False)
        return {**value, way: inner if isinstance(inner, str) else text}
    cut = way.find(".")
    while cut >= 0:
        if (head := way[:cut]) in value:
            return {**value, head: _unparsed(value[head], way[cut + 1 :])}
        cut = way.find(".", cut + 1)
    return value


def fitting(sizes: Sequence[Sequence[int]], rows: int, most_bytes: int) -> list[set[int]]:
    """Which rows of each file are kept: no more than `rows` and `most_bytes`, spread evenly.

    Args:
        sizes: bytes of every row, per file in order.
        rows: how many rows may be kept.
        most_bytes: how many bytes they may have together.
    """
    kept: list[set[int]] = [set() for _ in sizes]
    runs = [
        (file, range(start, min(start + _RUN, len(of_file))))
        for file, of_file in enumerate(sizes)
        for start in range(0, len(of_file), _RUN)
    ]
    for place in _evenly(len(runs)):
        file, run = runs[place]
        for number in run:
            if rows > 0 and sizes[file][number] <= most_bytes:
                kept[file].add(number)
                rows, most_bytes = rows - 1, most_bytes - sizes[file][number]
    return kept


def _evenly(count: int) -> list[int]:
    """All numbers below `count`, so ordered that every beginning of the list is spread evenly."""
    width = max(1, count - 1).bit_length()
    turned = (int(f"{number:0{width}b}"[::-1], 2) for number in range(1 << width))
    return [number for number in turned if number < count]
