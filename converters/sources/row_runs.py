"""Short runs of rows from places spread over a file that can be entered in the middle."""

import codecs
import io
import random
import re
import sys
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, islice, pairwise
from typing import Any, BinaryIO, Final, TypeAlias

import pyarrow as pa

from ingot.converters.columnar.batch_checks import is_valid_batch
from ingot.converters.columnar.parquet import open_parquet
from ingot.converters.errors import SourceError, translate_read_errors
from ingot.converters.imports import LateFunction
from ingot.converters.rows import Json
from ingot.converters.sources.facts import SourceFile, SourceSpec
from ingot.converters.sources.formats import columnar_files
from ingot.converters.sources.formats.delimited import Dialect, TableReader, column_names
from ingot.converters.sources.formats.json_rows import (
    Element,
    RowRoot,
    flatten_elements,
    parse_elements,
    read_elements,
)
from ingot.converters.sources.formats.row_chunks import (
    BrokenRow,
    ChunkReader,
    RowChunk,
    slice_chunk,
)
from ingot.converters.sources.formats.text import is_utf8, read_utf8_blocks
from ingot.converters.sources.readers import file_root, read_text_blocks
from ingot.converters.sources.storage.listing import LocalFile, RemoteFile
from ingot.converters.sources.tables.table_folders import TableFile

_Chunks: TypeAlias = Iterator[RowChunk]

_HEAD = 4 << 20
_TRIES = 60
_BEGINNING_ELEMENTS = 40  # elements of the beginning that the others are compared with
_JUDGED = 5
_LEAST_RECORDS = 3
_HEAD_LINES = 200  # that the first records of a place are judged by
_MOST_RUN_ROWS = 64  # rows of a run that are read at most
_LEAST_BYTES = 64 << 10
_MOST_BYTES = 4 << 20
_ELEMENT_BREAK = {
    "{": re.compile(rb"\}\s*,\s*(?=\{)"),
    "[": re.compile(rb"\]\s*,\s*(?=\[)"),
    '"': re.compile(rb'(?<!\\)"\s*,\s*(?=")'),
}
_KEYED_ELEMENT_BREAK = re.compile(rb'[\}\]"]\s*,\s*(?="(?:[^"\\]|\\.){1,200}"\s*:\s*[\{\["])')


@dataclass(frozen=True, kw_only=True, slots=True)
class RowRun:
    """A run of rows: number of the first one (None = not known), and how they are read."""

    first_row: int | None
    stretches: ChunkReader


@dataclass(frozen=True, slots=True)
class _ByteRange:
    """Bytes of a file, `stop` not among them."""

    start: int
    stop: int

    def run(self, stretches: ChunkReader) -> RowRun:
        return RowRun(first_row=None if self.start else 0, stretches=stretches)


@dataclass(frozen=True, kw_only=True, slots=True)
class _FileBeginning:
    """What the elements at the beginning of a JSON file are: their first signs, their keys."""

    root: RowRoot
    opens: frozenset[str]
    keys: frozenset[str]


def spread_row_runs(
    file: SourceFile, spec: SourceSpec, count: int, most_bytes: int, chance: random.Random
) -> list[RowRun] | None:
    """Return about `count` runs spread over a file; None where it is read from its start only."""
    facts = file.facts
    if facts.compression is not None or not isinstance(
        file.place, LocalFile | RemoteFile | TableFile
    ):
        return None
    is_local = isinstance(file.place, LocalFile)
    if facts.format == "arrow" and is_local:
        return _arrow_runs(file, count, chance)
    if facts.format in _ENTERED and (is_local or facts.format in ("parquet", "lance")):
        return _entered_runs(file, spec, count, chance)
    size = min(_MOST_BYTES, max(_LEAST_BYTES, most_bytes // count))
    # The file in `count` ranges of bytes, each but the first begun at a place of chance.
    bounds = [file.bytes * number // count for number in range(count + 1)]
    places = [
        _ByteRange(start and start + chance.randrange(max(1, (stop - start) // 2)), stop)
        for start, stop in pairwise(bounds)
    ]
    by_line = facts.format in ("jsonl", "csv", "text") and spec.root != "$"
    if by_line and _splits_at_lines(facts.encoding) and facts.newline == "\n":
        return [place.run(partial(_line_rows, file, spec, place, size)) for place in places]
    if facts.format not in ("json", "chat_tree") or facts.layout == "values":
        return None
    root = file_root(file, spec)
    if not root.streams or not is_utf8(facts.encoding.removesuffix("-sig")):
        return None
    seen = _read_beginning(file, root)
    if seen is None:
        return None
    return [place.run(partial(_element_rows, file, seen, place, size)) for place in places]


def _splits_at_lines(encoding: str) -> bool:
    """Whether the byte 10 is always a line end: true of all but UTF-16 and UTF-32."""
    return not codecs.lookup(encoding).name.startswith(("utf-16", "utf-32", "utf-7"))


def _utf8_blocks(file: SourceFile, data: bytes) -> Iterator[bytes]:
    facts = file.facts
    return read_utf8_blocks(io.BytesIO(data), file.name, facts.encoding, facts.newline)


def _element_rows(
    file: SourceFile, seen: _FileBeginning, place: _ByteRange, size: int
) -> Iterator[RowChunk]:
    data = _read_bytes_at(file, place.start, min(size, place.stop - place.start))
    if place.start:
        elements = _find_elements(data, seen, last=place.stop >= file.bytes)
    else:
        elements = _complete_elements(data, seen.root)
    rows = flatten_elements(elements, seen.root)
    if file.facts.format == "chat_tree":
        from ingot.converters.sources.interchange.chat_trees import show_branches

        rows = show_branches(rows)
    yield from rows


def _read_bytes_at(file: SourceFile, start: int, size: int) -> bytes:
    with file.open_raw() as raw, translate_read_errors(str(file.place)):
        raw.seek(start)
        data = raw.read(size)
    return b"".join(_utf8_blocks(file, data))


def _complete_elements(data: bytes, root: RowRoot) -> list[Element]:
    """The elements that end in the data; what is wrong behind them is not looked at."""
    elements: list[Element] = []
    try:
        for group in read_elements(iter([data]), replace(root, rest=None), ""):
            elements += group
    except SourceError:
        pass
    return elements


def _read_beginning(file: SourceFile, root: RowRoot) -> _FileBeginning | None:
    data = _read_bytes_at(file, 0, _HEAD)
    elements = _complete_elements(data, root)[:_BEGINNING_ELEMENTS]
    values = [value for value in parse_elements(elements).values if type(value) is not BrokenRow]
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
    """Elements that begin somewhere in the data and look like those of the beginning."""
    top = RowRoot(text="*" if seen.root.keyed else "[*]", keyed=seen.root.keyed)
    opener = b"{" if seen.root.keyed else b"["
    for start in islice(_element_starts(data, seen), _TRIES):
        elements = _complete_elements(opener + data[start:], top)
        goes_on = sum(len(element.data) for element in elements) > (len(data) - start) // 2
        if elements and (goes_on or last) and _resembles_beginning(elements, seen):
            return elements
    return []


def _element_starts(data: bytes, seen: _FileBeginning) -> Iterator[int]:
    if seen.root.keyed:
        yield from (match.end() for match in _KEYED_ELEMENT_BREAK.finditer(data))
        return
    for sign in sorted(seen.opens):
        yield from (match.end() for match in _ELEMENT_BREAK[sign].finditer(data))


def _resembles_beginning(elements: Sequence[Element], seen: _FileBeginning) -> bool:
    values = parse_elements(elements[:_JUDGED]).values
    if any(type(value) is BrokenRow or _opening_sign(value) not in seen.opens for value in values):
        return False
    return all(
        len(seen.keys & value.keys()) * 2 >= len(value)
        for value in values
        if isinstance(value, dict)
    )


def _skip_to_record(file: SourceFile, data: bytes) -> bytes:
    """Lines of a table from the first one on that begins a record, b"" where none does."""
    facts = file.facts
    lines = b"".join(_utf8_blocks(file, data)).decode("utf-8", "replace").split("\n")
    dialect = Dialect(delimiter=facts.delimiter, quote=facts.quote)
    places = [0, *(match.end() for match in re.finditer(rb"\n", data))]
    for number, place in enumerate(places[: min(_TRIES, len(lines))]):
        table = TableReader(facts.columns, dialect, facts.fewest)
        rows = table.rows("\n".join(lines[number : number + _HEAD_LINES]))[:_JUDGED]
        broken = any(type(row) is BrokenRow for row in rows)
        if len(rows) >= _LEAST_RECORDS and not broken:
            return data[place:]
    return b""


def _arrow_runs(file: SourceFile, count: int, chance: random.Random) -> list[RowRun]:
    """Runs of a mapped Arrow file: going over its batches reads their headers only."""
    where = str(file.place)
    with (
        translate_read_errors(where),
        columnar_files.open_ipc(pa.memory_map(where), where) as reader,
    ):
        batches = list(columnar_files.ipc_batches(reader))
    names = column_names(reader.schema.names)
    starts = [0, *accumulate(batch.num_rows for batch in batches)]

    def rows(row: int) -> Iterator[RowChunk]:
        number = bisect_right(starts, row) - 1
        with translate_read_errors(where):
            piece = batches[number].slice(row - starts[number], _MOST_RUN_ROWS)
            valid = is_valid_batch(piece, number, where)
        yield from columnar_files.batch_chunks(iter([(piece, valid)]), names, where)

    picked = _pick_evenly(starts[-1], count, chance)
    return [RowRun(first_row=row, stretches=partial(rows, row)) for row in picked]


def _group_places(stream: BinaryIO, where: str) -> list[tuple[int, int]]:
    with open_parquet(stream, where) as opened:
        firsts = accumulate((rows for rows, _ in opened.groups), initial=0)
        return list(zip(firsts, range(len(opened.groups)), strict=False))


_GROUPS = (
    _group_places,
    lambda file, _, stream, group: columnar_files.parquet_rows(stream, str(file.place), [group]),
)


def _defer(place: str) -> LateFunction:
    return LateFunction(f"ingot.converters.sources.containers.{place}")


# How formats are entered: what finds the places of a file with their first rows, in order, and what
# reads the rows from one on.
_ENTERED: Final[Mapping[str, tuple[Callable[..., Sequence[Any]], Callable[..., _Chunks]]]] = {
    "avro": (_defer("avro:avro_places"), _defer("avro:read_avro")),
    "lance": _GROUPS,
    "mds": (_defer("mds:mds_places"), _defer("mds:read_mds")),
    "parquet": _GROUPS,
}


def _entered_runs(
    file: SourceFile, spec: SourceSpec, count: int, chance: random.Random
) -> list[RowRun]:
    """Runs that begin with such a place; of a file of few of them they go through all rows."""
    find, read = _ENTERED[file.facts.format]
    with file.place.open() as stream:
        places = find(stream, str(file.place))

    def rows(place: object) -> _Chunks:
        left = _MOST_RUN_ROWS if len(places) >= count else sys.maxsize
        with file.place.open() as stream:
            for chunk in read(file, spec, stream, place):
                yield slice_chunk(chunk, 0, left)
                left -= len(chunk.values)
                if left <= 0:
                    return

    picked = [places[number] for number in _pick_evenly(len(places), count, chance)]
    return [RowRun(first_row=row, stretches=partial(rows, place)) for row, place in picked]


def _pick_evenly(total: int, count: int, chance: random.Random) -> list[int]:
    """`count` of `total` numbers at even distances, each shifted by chance; at most all."""
    if total <= count:
        return list(range(total))
    bounds = [total * number // count for number in range(count + 1)]
    return [chance.randrange(start, stop) for start, stop in pairwise(bounds)]


def _line_rows(
    file: SourceFile, spec: SourceSpec, place: _ByteRange, size: int
) -> Iterator[RowChunk]:
    """The rows of lines of a file.

    Those of the middle of a table may begin inside a quoted field: rows that do not fit are passed
    over there, as they say nothing about the data.
    """
    data = _read_lines_at(file, place, size)
    if place.start and file.facts.multiline:
        data = _skip_to_record(file, data)
    if place.start:
        file = replace(file, facts=replace(file.facts, header=False, preamble=0))
    for chunk in read_text_blocks(file, spec, _utf8_blocks(file, data)):
        if place.start and file.facts.format == "csv":
            yield RowChunk(values=[row for row in chunk.values if type(row) is not BrokenRow])
        else:
            yield chunk


def _read_lines_at(file: SourceFile, place: _ByteRange, size: int) -> bytes:
    """Whole lines from `start` on: those that begin before `stop`, from about `size` bytes."""
    start, stop = place.start, place.stop
    with file.open_raw() as raw, translate_read_errors(str(file.place)):
        raw.seek(max(0, start - 1))
        skipped = b"" if start == 0 else raw.readline(_MOST_BYTES)
        begin = max(0, start - 1) + len(skipped)
        if begin >= stop or (start and not skipped.endswith(b"\n")):
            return b""
        data = raw.read(min(size, stop - begin))
        rest = raw.readline(_MOST_BYTES)
    if len(rest) == _MOST_BYTES and not rest.endswith(b"\n"):  # it is longer than what is read
        return data[: data.rfind(b"\n") + 1]
    return data + rest
