"""The elements of a JSON list or object in a stream, cut out without parsing what is around them.

Quotes, brackets and commas of a block are found with numpy; only those outside strings count. An
element is handed on as its bytes, so that one that is no JSON is one bad row and the next is read
as ever. What cannot be put right is a file whose brackets or quotes do not balance: that is an
error, after all elements before that point.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import orjson

from ingot.converters.errors import SourceError
from ingot.converters.readers.faults import cut_off
from ingot.converters.readers.root import Root
from ingot.converters.readers.stretch import BATCH_ROWS, MAX_ROW_BYTES, Broken, found

_QUOTE, _OPEN, _CLOSE, _COMMA = 1, 2, 3, 4
_KINDS = bytes(
    {34: _QUOTE, 91: _OPEN, 123: _OPEN, 93: _CLOSE, 125: _CLOSE, 44: _COMMA}.get(byte, 0)
    for byte in range(256)
)
_KEY = re.compile(rb'\s*("(?:[^"\\]|\\.)*")\s*:', re.DOTALL)
_KEY_BEFORE = re.compile(rb'("(?:[^"\\]|\\.)*")\s*:\s*$', re.DOTALL)
_KEY_BYTES = 4096  # how far before a bracket its key may begin
_SPACE = b" \t\r\n"

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Element:
    """The bytes of one element, its key in an object; `fault` where it is not even that."""

    data: bytes
    key: str | None = None
    fault: Broken | None = None


@dataclass(frozen=True, slots=True)
class _Marks:
    """Brackets and commas of a block that lie outside strings, with the depth behind each."""

    places: Ints
    kinds: Ints
    depths: Ints


class _Structure:
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
        places = np.flatnonzero(all_kinds)
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


class _Finder:
    """Looks for the list or object that the root names, bracket by bracket on the way to it."""

    def __init__(self, root: Root) -> None:
        self._root = root
        self._used = 0  # names of the root that are found
        self._level = 0  # depth of the object that is searched
        self._before = b""
        self.missing = False  # the object that is searched ended, or holds something else

    def find(self, data: bytes, marks: _Marks) -> int | None:
        """Number of the mark that opens the container, or None where it is not in this block."""
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
            if self._used == len(self._root.names):
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
        match = _KEY_BEFORE.search(text, max(0, place - _KEY_BYTES), place)
        key = _key_text(match.group(1)) if match else None
        names, exact = self._root.names, self._root.exact
        for stop in range(len(names), self._used, -1):
            joined = stop - self._used > 1
            if joined and any(exact[self._used : stop]):
                continue
            if key == ".".join(names[self._used : stop]):
                self._used = stop
                return True
        return False


def containers(data: bytes) -> list[tuple[str, bool]]:
    """The lists and objects that are values of a file's outer object, as far as `data` goes.

    Gives key and whether it is an object, in the file's order.
    """
    found_here: list[tuple[str, bool]] = []
    for block, marks in _Structure().blocks(iter([data])):
        opening = (marks.kinds == _OPEN) & (marks.depths == 2)
        for place in marks.places[opening].tolist():
            match = _KEY_BEFORE.search(block, max(0, place - _KEY_BYTES), place)
            key = _key_text(match.group(1)) if match else None
            if key is not None:
                found_here.append((key, block[place] == ord("{")))
    return found_here


def _key_text(quoted: bytes) -> str | None:
    try:
        key: str = orjson.loads(quoted)
    except orjson.JSONDecodeError:
        return None
    return key


def elements(parts: Iterator[bytes], root: Root, where: str) -> Iterator[list[Element]]:
    """The elements of the container that `root` names, in lists of at most BATCH_ROWS.

    Args:
        parts: the file in UTF-8.
        root: a root that streams; its `rest` is not applied.
        where: for messages.

    Raises:
        SourceError: the container is missing, the file is cut off, or something follows the value.
    """
    cutter = _Cutter(root, where)
    structure = _Structure()
    for data, marks in structure.blocks(parts):
        yield from _grouped(cutter.cut(data, marks))
    cutter.finish(structure.balanced)


def values_in_a_row(parts: Iterator[bytes], where: str) -> Iterator[list[Element]]:
    """The lists and objects that follow each other at the top of a file, separated by anything."""
    structure = _Structure()
    held: list[bytes] = []
    for data, marks in structure.blocks(parts):
        ends = marks.places[(marks.kinds == _CLOSE) & (marks.depths == 0)] + 1
        pieces, rest = _pieces(data, 0, ends, held)
        yield from _grouped([Element(piece.strip(_SPACE + b",")) for piece in pieces])
        held = _keep(held if not pieces else [], rest, where)
    if b"".join(held).strip(_SPACE + b","):
        raise cut_off(where, "the last JSON value is not complete")


def _grouped(found_elements: list[Element]) -> Iterator[list[Element]]:
    for start in range(0, len(found_elements), BATCH_ROWS):
        yield found_elements[start : start + BATCH_ROWS]


def _pieces(data: bytes, start: int, ends: Ints, held: list[bytes]) -> tuple[list[bytes], bytes]:
    """Cut a block at `ends`, what was held before the first piece; gives pieces and the rest."""
    pieces = []
    for end in ends.tolist():
        pieces.append(data[start:end])
        start = end
    if pieces and held:
        pieces[0] = b"".join([*held, pieces[0]])
    return pieces, data[start:]


def _keep(held: list[bytes], rest: bytes, where: str) -> list[bytes]:
    held.append(rest)
    if sum(map(len, held)) > MAX_ROW_BYTES:
        problem = f"an element of more than {MAX_ROW_BYTES >> 20} MiB"
        raise SourceError(where, problem, "is a quote or bracket missing in it?")
    return held


class _Cutter:
    """Cuts the elements of one container out of the blocks of a file."""

    def __init__(self, root: Root, where: str) -> None:
        self._root = root
        self._where = where
        self._finder = _Finder(root)
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
        pieces, rest = _cut_at_commas(data, start, bounds.tolist(), self._held)
        self._held = [] if pieces else self._held
        if self._done:
            if not pieces[-1].strip(_SPACE):
                pieces.pop()
            self._after(data, marks, first + stop)
        else:
            self._held = _keep(self._held, rest, self._where)
        self._count += len(pieces)
        return list(map(self._element if self._root.keyed else Element, pieces))

    def _element(self, piece: bytes) -> Element:
        match = _KEY.match(piece)
        key = _key_text(match.group(1)) if match else None
        if match is None or key is None:
            return Element(b"", fault=Broken("no key before the value", found(piece)))
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
            raise SourceError(
                self._where,
                f"after the JSON value comes {found(rest)[:40]!r}",
                "is it several files in one, or cut and pasted?",
            )

    def finish(self, balanced: bool) -> None:
        """Raise what is only known at the end of the file."""
        if self._depth is None and (balanced or self._finder.missing):
            problem = f"no {'object' if self._root.keyed else 'list'} at root {self._root.text}"
            raise SourceError(self._where, problem, "is it spelt as in the file?")
        if not self._done or not balanced:
            raise cut_off(self._where, f"the JSON ends inside element {self._count}")


def _cut_at_commas(
    data: bytes, start: int, bounds: list[int], held: list[bytes]
) -> tuple[list[bytes], bytes]:
    """The pieces between `start` and the bounds, without the bound's own byte, and what is left."""
    pieces = []
    for bound in bounds:
        pieces.append(data[start:bound])
        start = bound + 1
    if pieces and held:
        pieces[0] = b"".join([*held, pieces[0]])
    return pieces, data[start:]
