"""Exact repeats among the records of all data sets of a lake, found in bounded memory.

Records are known by their hashes (`record_hashes`), 16 bytes each, one file per data set. The order
that decides which of equal records is the first is that of the sets by name (code points), then
that of the records; so nothing depends on the order in which sets are given or were measured.

The hashes are dealt by their first bits into bins of about `BIN` entries, as files, and each bin is
sorted by itself. Where a block of one set holds some hash often, equal hashes are one entry with a
count, so a text that is there a hundred million times fills no bin. Memory of its own: about 130
bytes times `BIN` (270 MB), however many records there are. Disk while it runs: 32 bytes and a bit
per record, eight bytes per pair of sets; of these the bits and pairs are mapped.

The repeats of a lake, not looked for again where no hash has changed.
"""

import itertools
import math
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ingot import __version__
from ingot.converters.errors import ConversionError
from ingot.converters.json_yaml import decode, encode, load_json
from ingot.converters.lake.record_hashes import (
    HASHES_HEADER,
    WIDTH,
    Hashes,
    hash_heads,
    write_header,
)
from ingot.converters.output.files import encode_json, output_errors, whole_file, write_file

BLOCK: Final = 1 << 20  # records read at a time
BIN: Final = 1 << 21  # entries sorted at a time
TOP: Final = 10  # overlaps told per set
_WORK: Final = ".bins"
_MOST_BINS: Final = 1 << 12
_OFTEN: Final = 64  # entries of one hash that a block may add to a bin
_MANY: Final = 16  # sets that share a record: beyond, their pairs are added by table

Array = NDArray[Any]
Indices = NDArray[np.int64]
# begin, end: the hash; at: number of the first record of these in the lake; count: how many
ENTRY: Final = np.dtype([("begin", "<u8"), ("end", "<u8"), ("at", "<i8"), ("count", "<i8")])


@dataclass(frozen=True, kw_only=True, slots=True)
class Repeats:
    """One set's records that repeat an earlier one: within the set, or across sets by name."""

    records: int
    within: int
    across: int
    # Records that another set has too, by its name: the ten with most, most first, then by name.
    overlaps: dict[str, int]

    @property
    def repeated(self) -> int:
        """Return records that are left out where every content stays once."""
        return self.within + self.across


@dataclass(frozen=True, kw_only=True, slots=True)
class Duplicates:
    """Repeats by set; `drops` holds, per set with repeats or without, the file of its bitmap."""

    sets: dict[str, Repeats]
    drops: dict[str, Path]


def find_duplicates(
    files: Mapping[str, Path], drops: Path | None = None, *, work: Path | None = None
) -> Duplicates:
    """Find every record that says what an earlier one said."""
    names = sorted(files)
    work_folder = work or (drops / _WORK if drops else None)
    with output_errors(drops or work or tempfile.gettempdir()), _work_folder(work_folder) as folder:
        search = _Search(names, [open_hashes(files[name]) for name in names], folder)
        search.run()
        written = search.write_drops(drops) if drops else {}
        sets = {name: search.repeats(number) for number, name in enumerate(names)}
        return Duplicates(sets=sets, drops=written)


@contextmanager
def _work_folder(folder: Path | None) -> Iterator[Path]:
    """A folder for a while, without what a killed search left there."""
    if folder is None:
        with tempfile.TemporaryDirectory() as temporary:
            yield Path(temporary)
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def open_hashes(file: Path) -> Hashes:
    """Return the hashes of a file, mapped: array (n, 16) of bytes."""
    hint = "delete this file and run again: ingot writes it again"
    try:
        empty = file.stat().st_size <= HASHES_HEADER  # which cannot be mapped
        hashed: Hashes = np.load(file, mmap_mode=None if empty else "r")
    except (OSError, ValueError, EOFError) as error:
        raise ConversionError(str(file), f"cannot be read as hashes: {error}", hint) from error
    if hashed.dtype != np.uint8 or hashed.ndim != 2 or hashed.shape[1] != WIDTH:
        raise ConversionError(str(file), "holds no hashes of records", hint)
    return hashed


def open_drops(file: Path, records: int) -> NDArray[np.uint8]:
    """Return the bitmap of a set (`numpy.packbits`): which of its records are left out."""
    hint = "find the duplicates again"
    try:
        bits: NDArray[np.uint8] = np.load(file)
    except (OSError, ValueError, EOFError) as error:
        raise ConversionError(str(file), f"cannot be read as a bitmap: {error}", hint) from error
    if bits.dtype != np.uint8 or bits.shape != (_bitmap_bytes(records),):
        raise ConversionError(str(file), f"is not a bitmap of {records} records", hint)
    return bits


def drop_mask(bits: NDArray[np.uint8], start: int, count: int) -> NDArray[np.bool_]:
    """Return whether each of `count` records from the number `start` on is to be left out."""
    flags = np.unpackbits(bits[start // 8 : _bitmap_bytes(start + count)])
    return flags[start % 8 : start % 8 + count].view(np.bool_)


def _bitmap_bytes(records: int) -> int:
    return -(-records // 8)


class _Search:
    """One search over all sets."""

    def __init__(self, names: Sequence[str], hashed: Sequence[Hashes], work: Path) -> None:
        self._names = names
        self._hashed = hashed
        self._work = work
        sizes = [len(one) for one in hashed]
        # Every set begins at a whole byte of the bits, so that its bitmap is a stretch of them.
        self._starts = np.cumsum([0, *(8 * _bitmap_bytes(size) for size in sizes)])
        self._bits = _map_table(work / "bits", (int(self._starts[-1]) // 8,), np.uint8)
        self._pairs = _map_table(work / "pairs", (len(names), len(names)), np.int64)
        self._different = np.zeros(len(names), np.int64)
        self._across = np.zeros(len(names), np.int64)
        # Bins are the least power of two that is enough.
        enough = max(-(-sum(sizes) // BIN) - 1, 0).bit_length()
        self._level = min(_MOST_BINS.bit_length() - 1, enough)

    def run(self) -> None:
        for entries in self._bins():
            if len(entries):
                self._judge(_sort_entries(entries))

    def _bins(self) -> Iterator[Array]:
        """All entries, bin by bin; in each in the order of the lake."""
        blocks = itertools.chain.from_iterable(map(self._blocks, range(len(self._names))))
        if not self._level:
            yield np.concatenate([np.empty(0, ENTRY), *blocks])
            return
        for block in blocks:
            self._deal(block)
        for number in range(1 << self._level):
            file = self._work / f"bin-{number}"
            if file.exists():
                yield np.fromfile(file, ENTRY)
                file.unlink()

    def _blocks(self, number: int) -> Iterator[Array]:
        """The entries of one set."""
        hashed, first = self._hashed[number], int(self._starts[number])
        for start in range(0, len(hashed), BLOCK):
            block = _read_hashes(hashed, start, min(BLOCK, len(hashed) - start))
            entries = np.empty(len(block), ENTRY)
            entries["begin"], entries["end"] = hash_heads(block), hash_heads(block, 8)
            entries["at"] = np.arange(first + start, first + start + len(block))
            entries["count"] = 1
            yield self._once(entries)

    def _once(self, entries: Array) -> Array:
        """One entry per hash, with its count, in their order; all of them where none is often."""
        heads = np.sort(entries["begin"])
        if not (heads[_OFTEN:] == heads[:-_OFTEN]).any():
            return entries
        ordered = _sort_entries(entries)
        first = _first_mask(ordered)
        self._drop(ordered["at"][~first])
        unique = ordered[first]
        unique["count"] = np.diff(np.append(np.flatnonzero(first), len(ordered)))
        return unique[np.argsort(unique["at"])]

    def _deal(self, entries: Array) -> None:
        """Append entries to the files of their bins."""
        number = (entries["begin"] >> np.uint64(64 - self._level)).astype(np.int64)
        order = np.argsort(number, kind="stable")
        bin_ends = np.cumsum(np.bincount(number, minlength=1 << self._level)).tolist()
        dealt = entries[order]
        for bin_number, (start, end) in enumerate(itertools.pairwise([0, *bin_ends])):
            if start < end:
                with (self._work / f"bin-{bin_number}").open("ab") as stream:
                    stream.write(dealt[start:end].tobytes())

    def _judge(self, entries: Array) -> None:
        """Count the sorted entries of a bin; the first record of each hash stays."""
        first = _first_mask(entries)
        self._drop(entries["at"][~first])
        sets = np.searchsorted(self._starts, entries["at"], "right") - 1
        # Where a set begins within its hash: a set's entries of one hash are neighbours.
        set_starts = first | np.append(True, sets[1:] != sets[:-1])
        size = len(self._names)
        self._different += np.bincount(sets[set_starts], minlength=size)
        self._across += np.bincount(sets[set_starts & ~first], minlength=size)
        runs = np.flatnonzero(set_starts)
        # What sets share: per hash (`group`) the sets that hold it, and how often.
        counts = np.add.reduceat(entries["count"], runs)
        sets, group = sets[runs], np.cumsum(first[runs], dtype=np.int64)
        set_counts = np.bincount(group)[group]
        paired = (set_counts > 1) & (set_counts <= _MANY)
        self._add_pairs(sets[paired], counts[paired], group[paired])
        self._add_tables(
            sets[set_counts > _MANY], counts[set_counts > _MANY], group[set_counts > _MANY]
        )

    def _add_pairs(self, sets: Indices, counts: Indices, group: Indices) -> None:
        """Each with its next neighbours of the same hash, both ways."""
        for distance in range(1, _MANY):
            matches = np.flatnonzero(group[distance:] == group[:-distance])
            if not len(matches):
                return
            left, right = sets[matches], sets[matches + distance]
            self._add(left, right, counts[matches])
            self._add(right, left, counts[matches + distance])

    def _add(self, rows: Indices, columns: Indices, counts: Indices) -> None:
        code, inverse = np.unique(rows * len(self._names) + columns, return_inverse=True)
        added = np.zeros(len(code), np.int64)
        np.add.at(added, inverse, counts)
        self._pairs.reshape(-1)[code] += added

    def _add_tables(self, sets: Indices, counts: Indices, group: Indices) -> None:
        """Every pair of many sets at once; the same sets share much, mostly."""
        last = np.append(group[1:] != group[:-1], np.ones(min(len(group), 1), np.bool_))
        group_ends = (np.flatnonzero(last) + 1).tolist()
        shared: dict[bytes, Indices] = defaultdict(lambda: np.zeros(1, np.int64))
        for start, end in itertools.pairwise([0, *group_ends]):
            key = sets[start:end].tobytes()
            shared[key] = shared[key] + counts[start:end]
        for key, total in shared.items():
            members = np.frombuffer(key, np.int64)
            for member, count in zip(members, total, strict=True):
                self._pairs[member, members] += count

    def _drop(self, numbers: Indices) -> None:
        """Set the bits of records, as `numpy.packbits` does."""
        byte_numbers, bits = numbers >> 3, (128 >> (numbers & 7)).astype(np.uint8)
        np.bitwise_or.at(self._bits, byte_numbers, bits)

    def repeats(self, number: int) -> Repeats:
        """Return the figures of a set."""
        records = len(self._hashed[number])
        shared = np.array(self._pairs[number])
        shared[number] = 0  # nobody is another one to itself
        order = np.argsort(-shared, kind="stable")[:TOP].tolist()  # names are sorted
        return Repeats(
            records=records,
            within=records - int(self._different[number]),
            across=int(self._across[number]),
            overlaps={self._names[one]: int(shared[one]) for one in order if shared[one]},
        )

    def write_drops(self, folder: Path) -> dict[str, Path]:
        """Return one bitmap per set."""
        folder.mkdir(parents=True, exist_ok=True)
        written = {}
        for number, name in enumerate(self._names):
            written[name] = folder / f"{name}.npy"
            start, end = self._starts[number] // 8, self._starts[number + 1] // 8
            with whole_file(written[name]) as stream:
                write_header(stream, int(end - start))
                stream.write(self._bits[start:end].tobytes())  # NumPy would not say what is wrong
        return written


def _read_hashes(hashed: Hashes, start: int, count: int) -> Hashes:
    """Some hashes; read, since what is looked at through a mapping stays in memory for a while."""
    if not isinstance(hashed, np.memmap) or hashed.filename is None:
        return hashed[start : start + count]
    offset = hashed.offset + start * WIDTH
    data = np.fromfile(hashed.filename, np.uint8, count * WIDTH, offset=offset)
    return data.reshape(-1, WIDTH)


def _map_table(file: Path, shape: tuple[int, ...], kind: type[np.generic]) -> Array:
    """Zeros in a file, mapped; written, since with holes in it a full disk kills the process."""
    size = math.prod(shape) * np.dtype(kind).itemsize
    if not size:
        return np.zeros(shape, kind)
    with file.open("wb") as stream:
        for start in range(0, size, BLOCK):
            stream.write(bytes(min(BLOCK, size - start)))
    return np.memmap(file, kind, "r+", shape=shape)


def _sort_entries(entries: Array) -> Array:
    """Entries by hash, equal ones in the order they had."""
    order = np.argsort(entries["begin"], kind="stable")
    heads, tails = entries["begin"][order], entries["end"][order]
    same = heads[1:] == heads[:-1]
    if (tails[1:] != tails[:-1])[same].any():  # beginnings alike of different hashes, nearly never
        order = np.lexsort((entries["end"], entries["begin"]))
    ordered: Array = entries[order]
    return ordered


def _first_mask(ordered: Array) -> NDArray[np.bool_]:
    """Whether an entry is the first of its hash."""
    heads, tails = ordered["begin"], ordered["end"]
    changed = (heads[1:] != heads[:-1]) | (tails[1:] != tails[:-1])
    return np.append(np.ones(min(len(ordered), 1), np.bool_), changed)


_MEMORY_FORMAT: Final = 1


def find_or_recall(
    files: Mapping[str, Path], memory: Path, drops: Path | None = None
) -> Duplicates:
    """Find duplicates as `duplicates.find` does, and keep the result in the file `memory`."""
    request: object = {"format": _MEMORY_FORMAT, "version": __version__, "files": _stamps(files)}
    known = _load_recalled(memory, request, drops)
    if known is not None:
        return known
    duplicates = find_duplicates(files, drops, work=memory.with_name(f".{memory.name}.bins"))
    sets = [[name, encode(one)] for name, one in duplicates.sets.items()]
    written = {"asked": request, "drops": _stamps(duplicates.drops), "sets": sets}
    with output_errors(memory):
        write_file(memory, encode_json(written, sort_keys=False))
    return duplicates


def _stamps(files: Mapping[str, Path]) -> list[list[object]]:
    """Name, place, size and time of change of every file, by name; of one that is gone nothing."""
    stamps: list[list[object]] = []
    for name in sorted(files):
        stamps.append([name, str(files[name].absolute())])
        with suppress(OSError):
            facts = files[name].stat()
            stamps[-1] += [facts.st_size, facts.st_mtime_ns, facts.st_ino]
    return stamps


def _load_recalled(memory: Path, request: object, drops: Path | None) -> Duplicates | None:
    try:
        known = load_json(memory)
        sets = {name: decode(Repeats, facts) for name, facts in known["sets"]}
        written = {name: drops / f"{name}.npy" for name in sets} if drops else {}
        same = known["asked"] == request and (not drops or known["drops"] == _stamps(written))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return Duplicates(sets=sets, drops=written) if same else None
