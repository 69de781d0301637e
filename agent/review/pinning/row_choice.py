"""Choose the rows of a sample to pin: as many as fit, in runs of neighbours."""

import codecs
import json
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import BinaryIO

from ingot.agent.review.pinning.sample_redaction import (
    NotRedactableError,
    SafeBytes,
    SafeUnit,
    SampleRedactor,
    Unit,
    parse_unit,
    read_json,
)
from ingot.converters.paths import Node, compile_path
from ingot.converters.rows import Json, RowError
from ingot.converters.sources.facts import FileFacts, SourceFile, SourceSpec
from ingot.converters.sources.formats.json_rows import RowRoot
from ingot.converters.sources.formats.row_chunks import BrokenRow, change_at, parse_fields
from ingot.converters.sources.formats.text import is_utf8, read_utf8_blocks, skip_lines
from ingot.converters.sources.readers import file_root
from ingot.converters.sources.sample import UNKNOWN_ROW, Sample, spread_order
from ingot.converters.sources.storage.compression import open_decompressed
from ingot.converters.sources.tables.partitions import drop_partitions

MOST_ROW, MOST_BYTES = 256 << 10, 2 << 20
_RUN = 10  # neighbours that are kept or dropped together, as a sample takes them
REASONS = ("too_large", "over_limit", "not_redactable", "not_found")
Counts = dict[str, int]  # how many sampled rows are not pinned, by reason


@dataclass(frozen=True, kw_only=True, slots=True)
class WantedRow:
    """A sampled row of one file: its place in the sample, its number (-1 unknown), its value.

    `value` is the row after `json_fields`, `BrokenRow` for one that cannot be read.
    """

    place: int
    row: int
    key: str | None
    value: Json


def select_wanted(sample: Sample, file: SourceFile) -> list[WantedRow]:
    """Return the sampled rows of a file, in its order as far as that is known."""
    rows = [
        (one.row, one.key, drop_partitions(one.value, file))
        for one in sample.rows
        if one.file == file.name
    ]
    bad = [
        (one.bad.row, None, BrokenRow(one.bad.detail, one.bad.found, one.bad.reason, one.bad.path))
        for one in sample.bad
        if one.file == file.name
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
    for name in reversed(spec.json_fields or ()):
        value = change_at(value, compile_path(name).steps, _spell_field)
    return value


def _spell_field(value: Json) -> Json:
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value, ensure_ascii=False)


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


@dataclass(frozen=True, kw_only=True, slots=True)
class PinnedContent:
    """A pinned file before it is compressed, and the rows that it should give (None = unknown).

    A row is its value before `json_fields`, or `BrokenRow`. `as_lines`: the file is of a format
    that is not written here, and its rows are JSON Lines.
    """

    data: SafeBytes
    rows: Sequence[Json] | None
    as_lines: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class PinnableRows:
    """The rows of one file that may be pinned: their sizes, and whether they cannot be read.

    `write` makes the file of the rows of these numbers (places in `sizes`, ascending); `notes` are
    for readers of the sample.
    """

    file: SourceFile
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


@contextmanager
def open_file(file: SourceFile) -> Iterator[BinaryIO]:
    """Open the decompressed bytes of a file. Raises SourceError."""
    with file.open_raw() as raw:
        yield open_decompressed(raw, str(file.place))


def utf8_parts(file: SourceFile, stream: BinaryIO) -> Iterator[bytes]:
    """Yield a text file in UTF-8. Raises SourceError."""
    facts = file.facts
    parts = read_utf8_blocks(stream, str(file.place), facts.encoding, facts.newline)
    return skip_lines(parts, facts.preamble)


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


def encode_text(data: SafeBytes, file: SourceFile, *, bom: bool) -> SafeBytes:
    """Encode UTF-8 with LF like the file, with its line ends."""
    if file.facts.newline == "\r":
        data = SafeBytes(data.replace(b"\n", b"\r"))
    if is_utf8(file.facts.encoding.removesuffix("-sig")):
        return SafeBytes(codecs.BOM_UTF8 + data) if bom else data
    text = data.decode("utf-8", "surrogatepass")
    return SafeBytes(text.encode(file.facts.encoding, "ingot.damaged"))


MOST_DOCUMENT = 32 << 20  # larger ones are streamed
_AROUND = 64 << 10  # bytes of what stands around the rows
_FEW = (20, 5, 2, 0)  # elements kept of what holds no row
_FEWER = (200, 100, 50, 20, 10, 5, 3, 1)  # elements kept of every list of a document that is a row
_FEW_KEYS = 50

Way = tuple[str | int, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class _JsonDocument:
    """A whole JSON file: its value, and the way to every row in it, in order."""

    value: Json
    ways: tuple[Way, ...]
    text: str

    def row(self, number: int) -> Json:
        """Return the row of a number."""
        value = self.value
        for step in self.ways[number]:
            value = value[step]
        return value


def _parse_document(value: Json, text: str, root: RowRoot) -> _JsonDocument | None:
    """Find the rows of a parsed file; None if they are not values in it (keys, `^`)."""
    if root.whole:
        return _JsonDocument(value=value, ways=((),), text=text)
    top = Node(value)
    try:
        nodes = compile_path(root.text).nodes(top)
    except RowError:
        return None
    ways: list[Way] = []
    for node in nodes:
        steps: list[str | int] = []
        at: Node | None = node
        while at is not None and at is not top and at.key is not None:
            steps.append(at.key)
            at = at.parent
        if at is not top:
            return None
        ways.append(tuple(reversed(steps)))
    if len(set(ways)) < len(ways):
        return None
    return _JsonDocument(value=value, ways=tuple(ways), text=text)


def _cut_down(doc: _JsonDocument, numbers: Collection[int]) -> Json:
    """Keep these rows of a document, and a little of what is around them."""
    kept = [doc.ways[number] for number in sorted(numbers)]
    value: Json = None
    for few in _FEW:
        value = _cut_value(doc.value, kept, doc.ways, few)
        rows = sum(_json_size(doc.row(number)) for number in numbers)
        if _json_size(value) - rows <= _AROUND:
            break
    return value


def _cut_value(value: Json, kept: Sequence[Way], ways: Sequence[Way], few: int) -> Json:
    """Keep all of a row, and of what leads to rows only those that are kept."""
    if () in kept:
        return value
    if not ways:
        return _shorten_value(value, few)
    inner, inside = _group_by_head(kept), _group_by_head(ways)
    if isinstance(value, dict):
        left = {k: v for k, v in value.items() if k in inner or k not in inside}
        few_others = [key for key in left if key not in inner][: few or 1]
        return {
            k: _cut_value(v, inner.get(k, ()), inside.get(k, ()), few)
            for k, v in left.items()
            if k in inner or k in few_others
        }
    others = [n for n in range(len(value)) if n not in inside][:few]
    return [
        _cut_value(v, inner.get(n, ()), inside.get(n, ()), few)
        for n, v in enumerate(value)
        if n in inner or n in others
    ]


def _group_by_head(ways: Sequence[Way]) -> dict[str | int, list[Way]]:
    out: dict[str | int, list[Way]] = {}
    for way in ways:
        out.setdefault(way[0], []).append(way[1:])
    return out


def _shorten_value(value: Json, few: int) -> Json:
    """Keep at most `few` elements of every list, and few keys of objects with many."""
    if isinstance(value, list):
        return [_shorten_value(inner, few) for inner in value[:few]]
    if isinstance(value, dict):
        keys = list(value) if len(value) <= _FEW_KEYS else list(value)[:few]
        return {key: _shorten_value(value[key], few) for key in keys}
    return value


def _shrink_to_fit(value: Json, most_bytes: int) -> Json:
    """Shorten the lists of a document that is one row until it fits; None if it never does."""
    for few in _FEWER:
        small = _shorten_value(value, few)
        if _json_size(small) <= most_bytes:
            return small
    return None


def _json_size(value: Json) -> int:
    return len(json.dumps(value, ensure_ascii=False).encode())


def stream_document(rows: Sequence[SafeUnit], root: RowRoot) -> SafeBytes:
    """Return a document of nothing but these rows, at the place that the root names."""
    begin = "".join(f"{{{json.dumps(name)}: " for name, _ in root.keys).encode()
    end = b"}" * len(root.keys)
    if not root.keyed:
        inner = b"[\n" + b",\n".join(unit.spelled for unit in rows) + b"\n]"
    else:
        pairs = [json.dumps(unit.key).encode() + b": " + unit.spelled for unit in rows]
        inner = b"{\n" + b",\n".join(pairs) + b"\n}"
    return SafeBytes(begin + inner + end + b"\n")


def load_document(task: PinTask) -> tuple[_JsonDocument, RowRoot] | None:
    """Load the file with its rows; None if it is too large, damaged, or several values."""
    file = task.file
    if file.facts.layout == "values" and task.spec.root in (None, "[*]"):
        return None
    root = file_root(file, task.spec)
    data = bytearray()
    with open_file(file) as stream:
        for part in utf8_parts(file, stream):
            data += part
            if len(data) > MOST_DOCUMENT:
                return None
    value = read_json(bytes(data))
    if type(value) is BrokenRow:
        return None
    doc = _parse_document(value, data.decode(), root)
    return None if doc is None else (doc, root)


def extract_from_document(task: PinTask, doc: _JsonDocument, root: RowRoot) -> PinnableRows:
    """Take the rows of a document that may be pinned. Raises SourceError."""
    notes: tuple[str, ...] = ()
    if root.whole and _json_size(doc.value) > MOST_ROW:
        small = _shrink_to_fit(doc.value, MOST_ROW)
        if small is not None:
            doc = replace(doc, value=small)
            notes = (f"{task.file.name}: one row, whose lists are cut short",)
    rows = ((number, doc.row(number)) for number in _wanted_numbers(task, doc))
    numbers = [number for number, row in rows if may_be_pinned(task, row, _json_size(row))]
    sizes = [_json_size(doc.row(number)) for number in numbers]
    if sizes and not root.whole:
        sizes[0] += _json_size(_cut_down(doc, ()))

    def write(kept: Sequence[int]) -> PinnedContent:
        value = doc.value if root.whole else _cut_down(doc, [numbers[place] for place in kept])
        hid = task.hiding.value(value)
        text = doc.text
        if notes or hid != doc.value or task.hiding.finds(text):
            indent = 2 if "\n" in text[:2000].strip() else None
            text = json.dumps(hid, ensure_ascii=text.isascii(), indent=indent) + "\n"
        again = _parse_document(hid, text, root)
        rows = [] if again is None else [again.row(number) for number in range(len(again.ways))]
        return PinnedContent(
            data=encode_text(SafeBytes(text.encode()), task.file, bom=has_bom(task.file)), rows=rows
        )

    return PinnableRows(
        file=task.file, sizes=sizes, broken=[False] * len(numbers), write=write, notes=notes
    )


def _wanted_numbers(task: PinTask, doc: _JsonDocument) -> list[int]:
    known = {one.row for one in task.want if one.row != UNKNOWN_ROW}
    unknown = [one for one in task.want if one.row == UNKNOWN_ROW]
    if unknown:
        rows = (doc.row(number) for number in range(len(doc.ways)))
        known.update(match_marks(rows, unknown, task.spec))
    found = sorted(number for number in known if number < len(doc.ways))
    task.counts["not_found"] += max(0, len(task.want) - len(found))
    return found


def may_be_pinned(task: PinTask, row: Json, size: int) -> bool:
    """Check that a row is not too large and keeps its structure when redacted; else count why."""
    if size > MOST_ROW:
        task.counts["too_large"] += 1
        return False
    try:
        task.hiding.value(row)
    except NotRedactableError:
        task.counts["not_redactable"] += 1
        return False
    return True
