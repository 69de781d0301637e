"""Rows of JSON files: a value per line, elements of a list or object, or the whole file."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import orjson

from ingot.converters import paths
from ingot.converters.errors import SourceError, truncated_error
from ingot.converters.rows import Json, RowError
from ingot.converters.sources.formats.row_chunks import (
    BATCH_ROWS,
    MAX_ROW_BYTES,
    BrokenRow,
    RowChunk,
    chunk_of_counted,
    parse_row,
    parse_rows,
    parse_sound_rows,
    row_excerpt,
)
from ingot.converters.sources.formats.text import TOO_LONG, read_line_blocks


class TrailingDataError(SourceError):
    """Other data follows the JSON value of a file. Fields: where, problem, hint."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RowRoot:
    """Where the rows lie."""

    text: str
    keys: tuple[tuple[str, bool], ...] = ()  # on the way to the container; whether each is quoted
    keyed: bool = False  # the container is an object, whose keys name the rows; else it is a list
    rest: str | None = None  # from an element of the container to the rows, None: elements are rows
    streams: bool = True  # else the whole file is in memory (`$`, an index on the way, a table)
    orient: str | None = None  # of the table that is found there, whose rows are meant

    @property
    def whole(self) -> bool:
        """Return whether the file itself is the one row."""
        return self.text == "$" and self.orient is None


def compile_root(text: str, where: str) -> RowRoot:
    """Compile a root. Raises SourceError for what is no path."""
    if text == "$":
        return RowRoot(text=text, streams=False)
    try:
        path = paths.compile_path(text)
    except paths.PathSyntaxError as error:
        hint = f"for example {error.nearest}" if error.nearest else "for example data[*] or *"
        raise SourceError(where, f"root {text!r}: {error.problem}", hint) from error
    place = path.first_wildcard
    keys = None if place is None else _key_steps(path.steps[:place])
    if place is None or keys is None:
        return RowRoot(text=text, streams=False)
    rest = path.steps[place + 1 :]
    return RowRoot(
        text=text,
        keys=keys,
        keyed=path.steps[place] != paths.Mark("[*]"),
        rest=paths.steps_text(rest) if rest else None,
    )


def _key_steps(steps: tuple[paths.Step, ...]) -> tuple[tuple[str, bool], ...] | None:
    """The keys of a way made of names only, else None."""
    keys: list[tuple[str, bool]] = []
    for step in steps:
        if isinstance(step, paths.Names):
            keys += [(name, False) for name in step.names]
        elif isinstance(step, paths.Key):
            keys.append((step.name, True))
        else:
            return None
    return tuple(keys)


_QUOTE, _OPEN, _CLOSE, _COMMA = 1, 2, 3, 4
_KINDS = bytes(
    {34: _QUOTE, 91: _OPEN, 123: _OPEN, 93: _CLOSE, 125: _CLOSE, 44: _COMMA}.get(byte, 0)
    for byte in range(256)
)
_KEY = re.compile(rb'\s*("(?:[^"\\]|\\.)*+")\s*:', re.DOTALL)
# Read backwards: a quote belongs to the key where an odd number of backslashes stands before it.
_KEY_BEFORE = re.compile(rb'\s*+:\s*+("(?:[^"]|"(?=(?:\\\\)*+\\(?!\\)))*+")')
_KEY_BYTES = 4096  # how far before a bracket its key may begin
_SPACE = b" \t\r\n"

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Element:
    """The bytes of one element, its key in an object; `fault` where it is not even that."""

    data: bytes
    key: str | None = None
    fault: BrokenRow | None = None


@dataclass(frozen=True, slots=True)
class _Marks:
    """Brackets and commas of a block that lie outside strings, with the depth behind each."""

    places: Ints
    kinds: Ints
    depths: Ints


class _MarkFinder:
    """Finds the marks of one block after the other; knows depth and whether a string is open."""

    def __init__(self) -> None:
        self.depth = 0
        self._in_string = 0
        self._held = b""

    def blocks(self, parts: Iterator[bytes]) -> Iterator[tuple[bytes, _Marks]]:
        for part in parts:
            data = self._held + part
            odd = (len(data) - len(data.rstrip(b"\\"))) & 1
            data, self._held = (data[:-1], b"\\") if odd else (data, b"")
            if data:
                yield data, self._marks(data)
        if self._held:
            yield self._held, self._marks(self._held)

    @property
    def balanced(self) -> bool:
        return self.depth == 0 and not self._in_string

    def _marks(self, data: bytes) -> _Marks:
        if b"\\" in data:
            data = data.replace(b"\\\\", b"__").replace(b'\\"', b"__")
        all_kinds = np.frombuffer(data.translate(_KINDS), dtype=np.uint8)
        places = np.flatnonzero(all_kinds != 0)  # of booleans it is quicker
        kinds = all_kinds[places].astype(np.int64)
        quotes = kinds == _QUOTE
        inside = (np.cumsum(quotes) + self._in_string) & 1
        outside = ~quotes & (inside == 0)
        if inside.size:
            self._in_string = int(inside[-1])
        places, kinds = places[outside], kinds[outside]
        steps = (kinds == _OPEN).astype(np.int64) - (kinds == _CLOSE)
        depths = self.depth + np.cumsum(steps)
        if depths.size:
            self.depth = int(depths[-1])
        return _Marks(places, kinds, depths)


class _ContainerFinder:
    """Looks for the list or object that the root names, bracket by bracket on the way to it."""

    def __init__(self, root: RowRoot) -> None:
        self._root = root
        self._used = 0  # names of the root that are found
        self._level = 0  # depth of the object that is searched
        self._before = b""
        self.missing = False  # the object that is searched ended, or holds something else

    def find(self, data: bytes, marks: _Marks) -> int | None:
        """Return the number of the mark that opens the container, None if not in this block."""
        text = self._before + data
        shift = len(self._before)
        self._before = text[-_KEY_BYTES:]
        start = 0
        while not self.missing:
            hits, ended = self._candidates(marks, start)
            hit = next((h for h in hits if self._takes(text, shift + int(marks.places[h]))), None)
            if hit is None:
                self.missing = ended
                return None
            self._level += 1
            start = hit + 1
            if self._used == len(self._root.keys):
                self.missing = (data[int(marks.places[hit])] == ord("{")) != self._root.keyed
                return None if self.missing else hit
        return None

    def _candidates(self, marks: _Marks, start: int) -> tuple[list[int], bool]:
        """Brackets that open a value of the searched object, and whether that object ends here."""
        depths = marks.depths[start:]
        ends = np.flatnonzero(depths < self._level)
        stop = int(ends[0]) if ends.size else len(depths)
        here = (marks.kinds[start : start + stop] == _OPEN) & (depths[:stop] == self._level + 1)
        hits: list[int] = (np.flatnonzero(here) + start).tolist()
        return hits, bool(ends.size)

    def _takes(self, text: bytes, place: int) -> bool:
        """Whether the bracket at `place` opens the next value on the way; takes its names."""
        if self._level == 0:
            return True
        key, keys = _key_before(text, place), self._root.keys
        for stop in range(len(keys), self._used, -1):
            run = keys[self._used : stop]
            quoted = len(run) > 1 and any(exact for _, exact in run)
            if not quoted and key == ".".join(name for name, _ in run):
                self._used = stop
                return True
        return False


def top_level_containers(data: bytes) -> list[tuple[str, bool]]:
    """Return the keys of lists and objects in the outer object, and which are objects."""
    found_here: list[tuple[str, bool]] = []
    for block, marks in _MarkFinder().blocks(iter([data])):
        opening = (marks.kinds == _OPEN) & (marks.depths == 2)
        for place in marks.places[opening].tolist():
            if (key := _key_before(block, place)) is not None:
                found_here.append((key, block[place] == ord("{")))
    return found_here


def _key_before(text: bytes, place: int) -> str | None:
    before = _KEY_BEFORE.match(text[max(0, place - _KEY_BYTES) : place][::-1])
    return _decode_key(before[1][::-1]) if before else None


def _decode_key(quoted: bytes) -> str | None:
    try:
        key: str = orjson.loads(quoted)
    except orjson.JSONDecodeError:
        return None
    return key


def read_elements(parts: Iterator[bytes], root: RowRoot, where: str) -> Iterator[list[Element]]:
    """Yield the elements of the container that `root` names, in lists of at most BATCH_ROWS."""
    cutter = _ElementCutter(root, where)
    structure = _MarkFinder()
    for data, marks in structure.blocks(parts):
        yield from _group_elements(cutter.cut(data, marks))
    cutter.finish(structure.balanced)


def read_concatenated_values(parts: Iterator[bytes], where: str) -> Iterator[list[Element]]:
    """Yield the lists and objects at the top of a file, whatever separates them."""
    structure = _MarkFinder()
    unfinished: list[bytes] = []
    for data, marks in structure.blocks(parts):
        ends = marks.places[(marks.kinds == _CLOSE) & (marks.depths == 0)] + 1
        pieces, rest = _cut_pieces(data, 0, ends.tolist(), unfinished)
        yield from _group_elements([Element(piece.strip(_SPACE + b",")) for piece in pieces])
        unfinished = _append_unfinished(unfinished if not pieces else [], rest, where)
    if b"".join(unfinished).strip(_SPACE + b","):
        raise truncated_error(where, "the last JSON value is not complete")


def _group_elements(found_elements: list[Element]) -> Iterator[list[Element]]:
    for start in range(0, len(found_elements), BATCH_ROWS):
        yield found_elements[start : start + BATCH_ROWS]


def _cut_pieces(
    data: bytes, start: int, ends: list[int], unfinished: list[bytes], gap: int = 0
) -> tuple[list[bytes], bytes]:
    """Cut a block at `ends`, what was held before the first piece; gives pieces and the rest."""
    pieces = []
    for end in ends:
        pieces.append(data[start:end])
        start = end + gap
    if pieces and unfinished:
        pieces[0] = b"".join([*unfinished, pieces[0]])
    return pieces, data[start:]


def _append_unfinished(unfinished: list[bytes], rest: bytes, where: str) -> list[bytes]:
    unfinished.append(rest)
    if sum(map(len, unfinished)) > MAX_ROW_BYTES:
        problem = f"an element of more than {MAX_ROW_BYTES >> 20} MiB"
        raise SourceError(where, problem, "check it for a missing quote or bracket")
    return unfinished


class _ElementCutter:
    """Cuts the elements of one container out of the blocks of a file."""

    def __init__(self, root: RowRoot, where: str) -> None:
        self._root = root
        self._where = where
        self._finder = _ContainerFinder(root)
        self._depth: int | None = None  # inside the container, once it is found
        self._done = False
        self._closed = False
        self._held: list[bytes] = []
        self._count = 0

    def cut(self, data: bytes, marks: _Marks) -> list[Element]:
        if self._done:
            self._after(data, marks, 0)
            return []
        first, start = 0, 0
        if self._depth is None:
            hit = self._finder.find(data, marks)
            if hit is None:
                return []
            self._depth = int(marks.depths[hit])
            first, start = hit + 1, int(marks.places[hit]) + 1
        return self._inside(data, marks, first, start)

    def _inside(self, data: bytes, marks: _Marks, first: int, start: int) -> list[Element]:
        places, kinds, depths = marks.places[first:], marks.kinds[first:], marks.depths[first:]
        ends = np.flatnonzero((kinds == _CLOSE) & (depths < (self._depth or 0)))
        stop = int(ends[0]) if ends.size else len(kinds)
        self._done = bool(ends.size)
        commas = (kinds[:stop] == _COMMA) & (depths[:stop] == self._depth)
        cuts = places[:stop][commas]
        last = int(places[stop]) if self._done else len(data)
        bounds = np.append(cuts, last) if self._done else cuts
        pieces, rest = _cut_pieces(data, start, bounds.tolist(), self._held, gap=1)
        self._held = [] if pieces else self._held
        if self._done:
            if not pieces[-1].strip(_SPACE):
                pieces.pop()
            self._after(data, marks, first + stop)
        else:
            self._held = _append_unfinished(self._held, rest, self._where)
        self._count += len(pieces)
        return list(map(self._element if self._root.keyed else Element, pieces))

    def _element(self, piece: bytes) -> Element:
        match = _KEY.match(piece)
        key = _decode_key(match[1]) if match else None
        if match is None or key is None:
            return Element(b"", fault=BrokenRow("no key before the value", row_excerpt(piece)))
        return Element(piece[match.end() :], key)

    def _after(self, data: bytes, marks: _Marks, first: int) -> None:
        """Behind the outermost closing bracket only white space may follow."""
        place = 0
        if not self._closed:
            ends = np.flatnonzero(marks.depths[first:] <= 0)
            if not ends.size:
                return
            self._closed = True
            place = int(marks.places[first + int(ends[0])]) + 1
        if rest := data[place:].strip(_SPACE):
            raise TrailingDataError(
                self._where,
                f"after the JSON value comes {row_excerpt(rest)[:40]!r}",
                "check whether several files were joined into it",
            )

    def finish(self, balanced: bool) -> None:
        """Raise what is only known at the end of the file."""
        if self._depth is None and (balanced or self._finder.missing):
            problem = f"no {'object' if self._root.keyed else 'list'} at root {self._root.text}"
            raise SourceError(self._where, problem, "check its spelling against the file")
        if not self._done or not balanced:
            raise truncated_error(self._where, f"the JSON ends inside element {self._count}")


def read_json_lines(parts: Iterator[bytes]) -> Iterator[RowChunk]:
    """Yield one value per line that is not blank."""
    for block in read_line_blocks(parts):
        lines = [] if block is None else block.split(b"\n")
        if block and all(lines) and (sound := parse_sound_rows(lines, block)):
            yield sound
            continue
        rows = [line for line in lines if line and not line.isspace()]
        for start in range(0, len(rows), BATCH_ROWS):
            yield parse_rows(rows[start : start + BATCH_ROWS])
        if block is None:
            yield parse_rows([TOO_LONG])


def read_json_elements(parts: Iterator[bytes], root: RowRoot, where: str) -> Iterator[RowChunk]:
    """Yield the elements of the list or object that `root` names, without holding the file."""
    for group in read_elements(parts, root, where):
        yield from flatten_elements(group, root)


def flatten_elements(group: Sequence[Element], root: RowRoot) -> Iterator[RowChunk]:
    """Yield the rows of elements of the container: these, or what `rest` finds in them."""
    parsed = parse_elements(group)
    if root.rest is None:
        keys = [element.key or "" for element in group] if root.keyed else None
        yield replace(parsed, keys=keys)
        return
    deeper: list[tuple[str | None, Json]] = []
    counts: Counter[int] = Counter()  # what an element holds counts for its first row
    for place, value in enumerate(parsed.values):
        rows = _rows_inside(value, root.rest)
        if rows and place in parsed.non_finite:
            counts[len(deeper)] += parsed.non_finite[place]
        deeper += rows
    if deeper:
        values = [value for _, value in deeper]
        yield RowChunk(values=values, keys=_row_keys(deeper), non_finite=counts)


def parse_elements(group: Sequence[Element]) -> RowChunk:
    """Return the values of elements, `BrokenRow` where one is no JSON."""
    if any(element.fault for element in group):
        return chunk_of_counted([(e.fault, 0) if e.fault else parse_row(e.data) for e in group])
    return parse_rows([element.data for element in group])


def _rows_inside(value: Json, rest: str) -> list[tuple[str | None, Json]]:
    if type(value) is BrokenRow:
        return [(None, value)]
    try:
        nodes = paths.compile_path(rest).nodes(paths.Node(value))
    except RowError as error:
        return [(None, BrokenRow(f"root: {error.reason} at {error.path}", error.found))]
    return [(node.key if isinstance(node.key, str) else None, node.value) for node in nodes]


def _row_keys(deeper: Sequence[tuple[str | None, Json]]) -> list[str] | None:
    keys = [key for key, _ in deeper if key is not None]
    return [key or "" for key, _ in deeper] if keys else None
