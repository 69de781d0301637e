"""Short runs of rows from places spread over a file that can be entered in the middle."""

import codecs
import io
import random
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, islice, pairwise

import pyarrow as pa

from ingot.converters.errors import SourceError, translate_read_errors
from ingot.converters.rows import Json
from ingot.converters.sources.facts import SourceFile, SourceSpec
from ingot.converters.sources.formats import arrow
from ingot.converters.sources.formats.arrow import batch_rows
from ingot.converters.sources.formats.delimited import (
    Dialect,
    TableReader,
    column_names,
)
from ingot.converters.sources.formats.json_rows import (
    Element,
    RowRoot,
    flatten_elements,
    parse_elements,
    read_elements,
)
from ingot.converters.sources.formats.row_chunks import BrokenRow, RowChunk
from ingot.converters.sources.formats.text import (
    is_utf8,
    read_utf8_blocks,
)
from ingot.converters.sources.readers import file_root, read_text_blocks
from ingot.converters.sources.storage.listing import LocalFile, RemoteFile

_HEAD = 4 << 20
_TRIES = 60
_BEGINNING_ELEMENTS = 40  # elements of the beginning that the others are compared with
_JUDGED = 5
_LEAST_RECORDS = 3
_HEAD_LINES = 200  # that the first records of a place are judged by
_ELEMENT_BREAK = {
    "{": re.compile(rb"\}\s*,\s*(?=\{)"),
    "[": re.compile(rb"\]\s*,\s*(?=\[)"),
    '"': re.compile(rb'(?<!\\)"\s*,\s*(?=")'),
}
_KEYED_ELEMENT_BREAK = re.compile(rb'[\}\]"]\s*,\s*(?="(?:[^"\\]|\\.){1,200}"\s*:\s*[\{\["])')


@dataclass(frozen=True, slots=True)
class ByteRange:
    """Bytes of a file, `stop` not among them."""

    start: int
    stop: int


@dataclass(frozen=True, kw_only=True, slots=True)
class _FileBeginning:
    """What the elements at the beginning of a JSON file are: their first signs, their keys."""

    root: RowRoot
    opens: frozenset[str]
    keys: frozenset[str]


def element_readers(
    file: SourceFile, spec: SourceSpec, places: Sequence[ByteRange], size: int
) -> list[Callable[[], Iterator[RowChunk]]] | None:
    """Readers of some rows from each of the places, or None where the file cannot be entered."""
    root = file_root(file, spec)
    if not root.streams or not is_utf8(file.facts.encoding.removesuffix("-sig")):
        return None
    seen = _read_beginning(file, root)
    if seen is None:
        return None

    def make(place: ByteRange) -> Callable[[], Iterator[RowChunk]]:
        def stretches() -> Iterator[RowChunk]:
            data = _read_bytes_at(file, place.start, min(size, place.stop - place.start))
            last = place.stop >= file.bytes
            found = (
                _find_elements(data, seen, last=last)
                if place.start
                else _complete_elements(data, root)
            )
            yield from flatten_elements(found, root)

        return stretches

    return [make(place) for place in places]


def _read_bytes_at(file: SourceFile, start: int, size: int) -> bytes:
    with file.open_raw() as raw, translate_read_errors(str(file.place)):
        raw.seek(start)
        data = raw.read(size)
    parts = read_utf8_blocks(io.BytesIO(data), file.name, file.facts.encoding, file.facts.newline)
    return b"".join(parts)


def _complete_elements(data: bytes, root: RowRoot) -> list[Element]:
    """The elements that end in the data; what is wrong behind them is not looked at."""
    found: list[Element] = []
    try:
        for group in read_elements(iter([data]), replace(root, rest=None), ""):
            found += group
    except SourceError:
        pass
    return found


def _read_beginning(file: SourceFile, root: RowRoot) -> _FileBeginning | None:
    data = _read_bytes_at(file, 0, _HEAD)
    held = _complete_elements(data, root)[:_BEGINNING_ELEMENTS]
    values = [value for value in parse_elements(held) if type(value) is not BrokenRow]
    if not values:
        return None
    keys = frozenset(key for value in values if isinstance(value, dict) for key in value)
    opens = frozenset(_opening_sign(value) for value in values)
    return None if "" in opens else _FileBeginning(root=root, opens=opens, keys=keys)


def _opening_sign(value: Json) -> str:
    """The sign that a value begins with, "" for numbers and the like."""
    signs: dict[type, str] = {dict: "{", list: "[", str: '"'}
    return signs.get(type(value), "")


def _find_elements(data: bytes, seen: _FileBeginning, *, last: bool) -> list[Element]:
    """Elements that begin somewhere in the data, [] where none looks like those of the beginning.

    `last`: the container may end in it.
    """
    top = RowRoot(text="*" if seen.root.keyed else "[*]", keyed=seen.root.keyed)
    opener = b"{" if seen.root.keyed else b"["
    for start in islice(_element_starts(data, seen), _TRIES):
        found = _complete_elements(opener + data[start:], top)
        goes_on = sum(len(one.data) for one in found) > (len(data) - start) // 2
        if found and (goes_on or last) and _resembles_beginning(found, seen):
            return found
    return []


def _element_starts(data: bytes, seen: _FileBeginning) -> Iterator[int]:
    if seen.root.keyed:
        yield from (match.end() for match in _KEYED_ELEMENT_BREAK.finditer(data))
        return
    for sign in sorted(seen.opens):
        yield from (match.end() for match in _ELEMENT_BREAK[sign].finditer(data))


def _resembles_beginning(found: Sequence[Element], seen: _FileBeginning) -> bool:
    values = parse_elements(found[:_JUDGED])
    if any(type(value) is BrokenRow or _opening_sign(value) not in seen.opens for value in values):
        return False
    return all(
        len(seen.keys & value.keys()) * 2 >= len(value)
        for value in values
        if isinstance(value, dict)
    )


def skip_to_record(file: SourceFile, data: bytes) -> bytes:
    """Lines of a table from the first one on that begins a record, b"" where none does.

    Lines inside a quoted cell give rows of a wrong width, there or soon after.
    """
    facts = file.facts
    text = b"".join(read_utf8_blocks(io.BytesIO(data), file.name, facts.encoding, facts.newline))
    lines = text.decode("utf-8", "replace").split("\n")
    dialect = Dialect(delimiter=facts.delimiter, quote=facts.quote)
    places = [0, *(match.end() for match in re.finditer(rb"\n", data))]
    for number, place in enumerate(places[: min(_TRIES, len(lines))]):
        table = TableReader(facts.columns, dialect, facts.fewest)
        rows = table.rows("\n".join(lines[number : number + _HEAD_LINES]))[:_JUDGED]
        broken = any(type(row) is BrokenRow for row in rows)
        if len(rows) >= _LEAST_RECORDS and not broken:
            return data[place:]
    return b""


_ROW_GROUPS_ENOUGH = 64  # rows of a run that are read at most
_LEAST_BYTES = 64 << 10
_MOST_BYTES = 4 << 20


@dataclass(frozen=True, kw_only=True, slots=True)
class RowRun:
    """A run of rows: number of the first one (None = not known), and how they are read."""

    first_row: int | None
    stretches: Callable[[], Iterator[RowChunk]]


def spread_row_runs(
    file: SourceFile, spec: SourceSpec, count: int, most_bytes: int, chance: random.Random
) -> list[RowRun] | None:
    """Return about `count` runs spread over a file; None where it is read from its start only."""
    facts = file.facts
    if facts.compression is not None or not isinstance(file.place, LocalFile | RemoteFile):
        return None
    if facts.format == "parquet":
        return _parquet_runs(file, count, chance)
    if facts.format == "arrow" and isinstance(file.place, LocalFile):
        return _arrow_runs(file, count, chance)
    size = min(_MOST_BYTES, max(_LEAST_BYTES, most_bytes // count))
    # The file in `count` ranges of bytes, each but the first begun at a place of chance.
    bounds = [file.bytes * number // count for number in range(count + 1)]
    places = [
        ByteRange(start and start + chance.randrange(max(1, (stop - start) // 2)), stop)
        for start, stop in pairwise(bounds)
    ]
    by_line = facts.format in ("jsonl", "csv", "text") and spec.root != "$"
    if by_line and _splits_at_lines(facts.encoding) and facts.newline == "\n":
        return [_line_run(file, spec, place, size) for place in places]
    if facts.format == "json" and facts.layout != "values":
        entries = element_readers(file, spec, places, size)
        if entries is None:
            return None
        return [
            RowRun(first_row=0 if place.start == 0 else None, stretches=entry)
            for place, entry in zip(places, entries, strict=True)
        ]
    return None


def _splits_at_lines(encoding: str) -> bool:
    """Whether the byte 10 is always a line end: true of all but UTF-16 and UTF-32."""
    return not codecs.lookup(encoding).name.startswith(("utf-16", "utf-32", "utf-7"))


def _parquet_runs(file: SourceFile, count: int, chance: random.Random) -> list[RowRun]:
    """Runs that begin with a row group; of a file of few groups they go through whole groups."""
    where = str(file.place)
    with file.place.open() as stream, arrow.open_parquet(stream, where) as opened:
        sizes = [
            opened.metadata.row_group(n).num_rows for n in range(opened.metadata.num_row_groups)
        ]
    firsts = [sum(sizes[:number]) for number in range(len(sizes))] if len(sizes) < 10_000 else None
    few = len(sizes) < count

    def make(group: int) -> RowRun:
        def stretches() -> Iterator[RowChunk]:
            with file.place.open() as stream:
                rows = arrow.parquet_rows(stream, where, [group])
                yield from rows if few else _first_rows(rows, _ROW_GROUPS_ENOUGH)

        return RowRun(first_row=None if firsts is None else firsts[group], stretches=stretches)

    return [make(group) for group in _pick_evenly(len(sizes), count, chance)]


def _first_rows(stretches: Iterator[RowChunk], rows: int) -> Iterator[RowChunk]:
    for stretch in stretches:
        yield RowChunk(values=stretch.values[:rows], keys=stretch.keys)
        rows -= len(stretch.values)
        if rows <= 0:
            return


def _arrow_runs(file: SourceFile, count: int, chance: random.Random) -> list[RowRun]:
    """Runs of a mapped Arrow file: going over its batches reads their headers only."""
    where = str(file.place)
    with translate_read_errors(where):
        mapped = pa.memory_map(where)
        is_file = mapped.read(len(arrow.ARROW_FILE)) == arrow.ARROW_FILE
        mapped.seek(0)
        reader = pa.ipc.open_file(mapped) if is_file else pa.ipc.open_stream(mapped)
        numbers = range(reader.num_record_batches) if is_file else None
        batches = [reader.get_batch(n) for n in numbers] if numbers is not None else list(reader)
    names = column_names(reader.schema.names)
    starts = [0, *accumulate(batch.num_rows for batch in batches)]

    def make(row: int) -> RowRun:
        number = bisect_right(starts, row) - 1

        def stretches() -> Iterator[RowChunk]:
            with translate_read_errors(where):
                piece = batches[number].slice(row - starts[number], _ROW_GROUPS_ENOUGH)
                yield RowChunk(values=batch_rows(piece, names)[0])

        return RowRun(first_row=row, stretches=stretches)

    return [make(row) for row in _pick_evenly(starts[-1], count, chance)]


def _pick_evenly(total: int, count: int, chance: random.Random) -> list[int]:
    """`count` of `total` numbers at even distances, each shifted by chance; at most all."""
    if total <= count:
        return list(range(total))
    bounds = [total * number // count for number in range(count + 1)]
    return [chance.randrange(start, stop) for start, stop in pairwise(bounds)]


def _line_run(file: SourceFile, spec: SourceSpec, place: ByteRange, size: int) -> RowRun:
    def stretches() -> Iterator[RowChunk]:
        data = _read_lines_at(file, place.start, place.stop, size)
        if place.start and file.facts.multiline:
            data = skip_to_record(file, data)
        yield from _piece_rows(file, spec, data, at_start=place.start == 0)

    return RowRun(first_row=0 if place.start == 0 else None, stretches=stretches)


def _read_lines_at(file: SourceFile, start: int, stop: int, size: int) -> bytes:
    """Whole lines from `start` on: those that begin before `stop`, from about `size` bytes."""
    with file.open_raw() as raw, translate_read_errors(str(file.place)):
        raw.seek(max(0, start - 1))
        skipped = b"" if start == 0 else raw.readline(_MOST_BYTES)
        begin = max(0, start - 1) + len(skipped)
        if begin >= stop or (start and not skipped.endswith(b"\n")):
            return b""
        data = raw.read(min(size, stop - begin))
        return data + raw.readline(_MOST_BYTES)


def _piece_rows(
    file: SourceFile, spec: SourceSpec, data: bytes, *, at_start: bool
) -> Iterator[RowChunk]:
    """The rows of a piece of a file.

    A piece of the middle of a table may begin inside a quoted field: rows that do not fit are
    passed over there, as they say nothing about the data.
    """
    if not at_start:
        file = replace(file, facts=replace(file.facts, header=False))
    parts = read_utf8_blocks(io.BytesIO(data), file.name, file.facts.encoding, file.facts.newline)
    for stretch in read_text_blocks(file, spec, parts):
        if at_start or file.facts.format != "csv":
            yield stretch
        else:
            yield RowChunk(values=[row for row in stretch.values if type(row) is not BrokenRow])
