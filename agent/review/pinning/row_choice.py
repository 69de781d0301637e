"""Choose the rows of a sample to pin: as many as fit, in runs of neighbours."""

import codecs
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import BinaryIO

from ingot.agent.review.pinning.row_texts import Unit, parse_unit
from ingot.agent.review.pinning.sample_redaction import SampleRedactor
from ingot.converters.rows import Json
from ingot.converters.sources.facts import FileFacts, SourceFile, SourceSpec
from ingot.converters.sources.formats.row_chunks import BrokenRow, parse_fields
from ingot.converters.sources.formats.text import is_utf8, read_utf8_blocks
from ingot.converters.sources.sample import UNKNOWN_ROW, Sample
from ingot.converters.sources.storage.compression import open_decompressed

MOST_ROW, MOST_BYTES = 256 << 10, 2 << 20
_RUN = 10  # neighbours that are kept or dropped together, as a sample takes them
_REASONS = ("too_large", "over_limit", "not_redactable", "not_found")


@dataclass(frozen=True, kw_only=True, slots=True)
class WantedRow:
    """A sampled row of one file: its place in the sample, its number (-1 unknown), its value.

    `value` is the row after `json_fields`, `BrokenRow` for one that cannot be read.
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


def select_wanted(sample: Sample, file: str) -> list[WantedRow]:
    """Return the sampled rows of a file, in its order as far as that is known."""
    rows = [(one.row, one.key, one.value) for one in sample.rows if one.file == file]
    bad = [
        (one.bad.row, None, BrokenRow(one.bad.detail, one.bad.found, one.bad.reason, one.bad.path))
        for one in sample.bad
        if one.file == file
    ]
    both = [*rows, *bad]
    if all(row != UNKNOWN_ROW for row, _, _ in both):
        both.sort(key=lambda one: one[0])
    return [
        WantedRow(place=place, row=row, key=key, value=value)
        for place, (row, key, value) in enumerate(both)
    ]


def find_wanted(
    units: Iterator[Unit],
    want: Sequence[WantedRow],
    spec: SourceSpec,
    facts: FileFacts,
    most_bytes: int,
) -> dict[int, Unit]:
    """Find the spelled rows of the wanted ones, by place in the sample."""
    by_row = {one.row: one.place for one in want if one.row != UNKNOWN_ROW}
    by_mark: dict[bytes, list[int]] = {}
    for one in want:
        if one.row == UNKNOWN_ROW:
            by_mark.setdefault(_row_mark(one.value), []).append(one.place)
    out: dict[int, Unit] = {}
    for number, unit in enumerate(units):
        if number in by_row:
            out[by_row[number]] = parse_unit(unit, facts)
        elif by_mark:
            unit = parse_unit(unit, facts)
            if places := by_mark.get(_row_mark(_parse_row(unit.value, spec))):
                out[places.pop(0)] = unit
        most_bytes -= len(unit.spelled)
        if len(out) == len(want) or most_bytes <= 0:
            break
    return out


def _parse_row(value: Json, spec: SourceSpec) -> Json:
    return value if type(value) is BrokenRow else parse_fields(value, spec.json_fields or ())


def _row_mark(value: Json) -> bytes:
    """Return equal marks for equal rows; of one that cannot be read by its excerpt."""
    shown = ["broken", value.found] if type(value) is BrokenRow else ["row", value]
    return blake2b(json.dumps(shown, sort_keys=True).encode(), digest_size=16).digest()


def match_marks(rows: Iterator[Json], want: Sequence[WantedRow], spec: SourceSpec) -> Iterator[int]:
    """Yield the numbers of the rows that equal wanted ones whose number is not known."""
    looked_for = [_row_mark(one.value) for one in want]
    for number, row in enumerate(rows):
        mark = _row_mark(_parse_row(row, spec))
        if mark in looked_for:
            looked_for.remove(mark)
            yield number


def unparse_fields(value: Json, spec: SourceSpec) -> Json:
    """Return a row as it was before `json_fields` were parsed; blank fields stay null."""
    for name in spec.json_fields or ():
        value = _unparse_way(value, name)
    return value


def _unparse_way(value: Json, way: str) -> Json:
    if not isinstance(value, dict):
        return value
    if way in value:
        inner = value[way]
        text = "" if inner is None else json.dumps(inner, ensure_ascii=False)
        return {**value, way: inner if isinstance(inner, str) else text}
    cut = way.find(".")
    while cut >= 0:
        if (head := way[:cut]) in value:
            return {**value, head: _unparse_way(value[head], way[cut + 1 :])}
        cut = way.find(".", cut + 1)
    return value


def choose_fitting(sizes: Sequence[Sequence[int]], rows: int, most_bytes: int) -> list[set[int]]:
    """Choose rows of each file: no more than `rows` and `most_bytes`, spread evenly."""
    kept: list[set[int]] = [set() for _ in sizes]
    runs = [
        (file, range(start, min(start + _RUN, len(of_file))))
        for file, of_file in enumerate(sizes)
        for start in range(0, len(of_file), _RUN)
    ]
    for place in _spread_order(len(runs)):
        file, run = runs[place]
        for number in run:
            if rows > 0 and sizes[file][number] <= most_bytes:
                kept[file].add(number)
                rows, most_bytes = rows - 1, most_bytes - sizes[file][number]
    return kept


def _spread_order(count: int) -> list[int]:
    """Order all numbers below `count` so that every beginning of the list is spread evenly."""
    width = max(1, count - 1).bit_length()
    turned = (int(f"{number:0{width}b}"[::-1], 2) for number in range(1 << width))
    return [number for number in turned if number < count]


@dataclass(frozen=True, kw_only=True, slots=True)
class PinnedContent:
    """A pinned file before it is compressed, and the rows that it should give (None = unknown).

    A row is its value before `json_fields`, or `BrokenRow`.
    """

    data: bytes
    rows: Sequence[Json] | None


@dataclass(frozen=True, kw_only=True, slots=True)
class PinnableRows:
    """The rows of one file that may be pinned: their sizes, and whether they cannot be read.

    `write` makes the file of the rows of these numbers (places in `sizes`, ascending); `main` is
    False for a file that the source leaves out; `notes` are for readers of the sample.
    """

    file: SourceFile
    main: bool
    sizes: Sequence[int]
    broken: Sequence[bool]
    write: Callable[[Sequence[int]], PinnedContent]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class PinTask:
    """One file, how it is read, and what is wanted of it."""

    file: SourceFile
    spec: SourceSpec
    want: Sequence[WantedRow]
    hiding: SampleRedactor
    counts: Counts
    main: bool = True


@contextmanager
def open_file(file: SourceFile) -> Iterator[BinaryIO]:
    """Open the decompressed bytes of a file. Raises SourceError."""
    with file.open_raw() as raw:
        yield open_decompressed(raw, str(file.place))


def utf8_parts(file: SourceFile, stream: BinaryIO) -> Iterator[bytes]:
    """Yield a text file in UTF-8. Raises SourceError."""
    return read_utf8_blocks(stream, str(file.place), file.facts.encoding, file.facts.newline)


def has_bom(file: SourceFile) -> bool:
    """Check whether a file in UTF-8 begins with a byte order mark. Raises SourceError."""
    if not is_utf8(file.facts.encoding.removesuffix("-sig")):
        return False
    with open_file(file) as stream:
        return stream.read(len(codecs.BOM_UTF8)) == codecs.BOM_UTF8


def _restore_damaged(error: UnicodeError) -> tuple[bytes, int]:
    """Restore bytes that mean nothing from what stood for them (error handler)."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return b"\xff", error.start + 1


codecs.register_error("ingot.damaged", _restore_damaged)


def encode_text(data: bytes, file: SourceFile, *, bom: bool) -> bytes:
    """Encode UTF-8 with LF like the file, with its line ends."""
    if file.facts.newline == "\r":
        data = data.replace(b"\n", b"\r")
    if is_utf8(file.facts.encoding.removesuffix("-sig")):
        return codecs.BOM_UTF8 + data if bom else data
    return data.decode("utf-8", "surrogatepass").encode(file.facts.encoding, "ingot.damaged")
