"""MDS shards, as MosaicML's streaming writes them: a table of offsets, the columns, the samples.

A shard says itself what its columns are. `index.json` beside it says which shards there are and
what their hashes should be.
"""

import hashlib
import math
import re
import struct
from array import array
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from itertools import islice, pairwise, starmap
from typing import Any, BinaryIO, Final

import xxhash

from ingot.converters.errors import SourceError, translate_read_errors, truncated_error
from ingot.converters.rows import Json
from ingot.converters.sources.facts import FileFacts, SourceFile, SourceSpec
from ingot.converters.sources.formats.arrow import exact_number
from ingot.converters.sources.formats.detection import FilePeek, columnar_facts
from ingot.converters.sources.formats.row_chunks import (
    MAX_ROW_BYTES,
    BrokenRow,
    JsonTextError,
    RowChunk,
    chunk_of_counted,
    chunk_sized_rows,
    parse_counted,
    parse_json,
    row_excerpt,
)
from ingot.converters.sources.storage.compression import read_bytes
from ingot.converters.sources.storage.listing import Entry, Listing
from ingot.converters.sources.storage.places import UnreadableName

_HASH_MARK: Final = "mds"  # begins the mark of content of a shard whose hash is known
_MOST_CONFIG: Final = 1 << 20
_MOST_OFFSETS: Final = 256 << 20
_RUN_ROWS: Final = 64  # that are read at a place of a sample
_HINT: Final = "fetch or copy it again"
_MOST_DIGITS: Final = 1000  # before or behind the point
_SCALARS: Final = {
    **{"int": "<q", "int64": "<q", "int32": "<i", "int16": "<h", "int8": "<b"},
    **{"uint64": "<Q", "uint32": "<I", "uint16": "<H", "uint8": "<B"},
    **{"float64": "<d", "float32": "<f", "float16": "<e"},
}
_UNREAD = re.compile(r"ndarray|pil|png|jpeg|jpeg_?array|list\[(pil|jpeg|png)\]|pkl")

Decode = Callable[[bytes], tuple[Json, int]]  # a value, and how many numbers were read as null


def _new_hash(algorithm: str) -> Any:  # noqa: ANN401 - of hashlib or of xxhash
    """A hash by the name that streaming gives it, None of one that is not known."""
    if algorithm in xxhash.algorithms_available:
        return getattr(xxhash, algorithm)()
    fixed = algorithm in hashlib.algorithms_guaranteed and not algorithm.startswith("shake")
    return hashlib.new(algorithm, usedforsecurity=False) if fixed else None


def mds_file_facts(entry: Entry, seen: FilePeek, spec: SourceSpec) -> FileFacts | None:
    """Return the facts of an MDS shard. Raises SourceError."""
    if spec.format not in (None, "mds") or len(seen.head) < 12:
        return None
    count, first, second = struct.unpack("<III", seen.head[:12])
    width = first - 8 - 4 * count  # of the columns, behind all offsets
    if not (2 <= width <= _MOST_CONFIG and (second >= first or not count)):
        return None
    config = seen.head[8 + 4 * count :][: min(width, 1)]
    if config != b"{" and not (config == b"" and ".mds" in entry.name):  # it may lie further on
        return None
    return columnar_facts("mds", entry, seen, _shard_facts)


def _shard_facts(stream: BinaryIO, where: str) -> tuple[tuple[str, ...], int]:
    shard = _Shard(stream, where)
    return tuple(shard.names), shard.count


def mds_places(stream: BinaryIO, where: str) -> list[tuple[int, int]]:
    """Return the numbers of rows that a shard is entered at. Raises SourceError."""
    return [(row, row) for row in range(0, _Shard(stream, where).count, _RUN_ROWS)]


def read_mds(
    file: SourceFile, _: SourceSpec, stream: BinaryIO, at: int | None = None
) -> Iterator[RowChunk]:
    """Return the rows of a shard, or some from one on.

    Raises SourceError, after those before damage.
    """
    if at is not None:
        some = islice(_Shard(stream, str(file.place)).rows("", at), _RUN_ROWS)
        return chunk_sized_rows(some, chunk_of_counted)
    mark, _colon, rest = (file.etag or "").partition(":")
    algorithm, _colon, digest = rest.partition(":") if mark == _HASH_MARK else ("", "", "")
    shard = _Shard(stream, str(file.place), _new_hash(algorithm))
    return chunk_sized_rows(shard.rows(digest), chunk_of_counted)


class _Shard:
    """A shard that is read from its start to its end."""

    def __init__(self, stream: BinaryIO, where: str, hashed: Any = None) -> None:  # noqa: ANN401
        self._stream, self._where, self._hash = stream, where, hashed
        (self.count,) = struct.unpack("<I", self._read(4, "its header"))
        if 4 * self.count > _MOST_OFFSETS:
            raise self._damage(f"its offsets would have {4 * self.count:,} bytes")
        self._offsets = array("I", self._read(4 * self.count + 4, "its offsets"))
        width = self._offsets[0] - 8 - 4 * self.count
        if not 2 <= width <= _MOST_CONFIG:
            raise self._damage(f"its columns would have {width:,} bytes")
        self._read_config(self._read(width, "its columns"))

    def _read_config(self, data: bytes) -> None:
        try:
            config = parse_json(data)
            version = config["version"]
            self.names = [*map(str, config["column_names"])]
            encodings, sizes = config["column_encodings"], config["column_sizes"]
            self._columns = [
                (name, _decoder(encoding), size or None)
                for name, encoding, size in zip(self.names, encodings, sizes, strict=True)
            ]
            if any(type(size) is not int or size < 0 for size in sizes if size):
                raise ValueError("a column size is invalid")
            if len({*self.names}) < len(self.names):
                raise ValueError("two columns of one name")
        except (JsonTextError, KeyError, TypeError, ValueError, AttributeError) as error:
            raise self._damage(f"its index does not describe its columns: {error}"[:200]) from error
        if version != 2:
            raise SourceError(self._where, f"MDS of version {version!r}, which is not read"[:200])
        self._variable = sum(size is None for _, _, size in self._columns)

    def rows(self, digest: str, first: int = 0) -> Iterator[tuple[tuple[Json, int], int]]:
        """Yield each row with its count of numbers read as null, and its size in bytes."""
        if first:
            self._stream.seek(self._offsets[first])
        for number, (start, stop) in enumerate(pairwise(self._offsets[first:]), first):
            if not 0 <= stop - start <= MAX_ROW_BYTES:
                raise self._damage(f"row {number} would have {stop - start:,} bytes")
            data = self._read(stop - start, f"row {number}")
            yield self._decode(data), len(data)
        with translate_read_errors(self._where):
            if self._stream.read(1):
                raise self._damage(f"bytes behind its {self.count:,} rows")
        if self._hash is not None and self._hash.hexdigest() != digest:
            raise self._damage(f"its {self._hash.name} is not the one in index.json")

    def _decode(self, data: bytes) -> tuple[Json, int]:
        at = 4 * self._variable
        if len(data) < at:
            return BrokenRow("damaged: no sizes of its columns", ""), 0
        sizes = iter(struct.unpack(f"<{self._variable}I", data[:at]))
        row: dict[str, Json] = {}
        infinite = 0
        for name, decode, fixed in self._columns:
            size = fixed or next(sizes)
            try:
                row[name], count = decode(data[at : at + size])
            except (ValueError, struct.error, InvalidOperation) as error:
                why = str(error) if isinstance(error, JsonTextError) else "cannot be read"
                part = row_excerpt(data[at : at + min(size, 1000)])
                return BrokenRow(f"column {name}: {why}"[:200], part), 0
            at += size
            infinite += count
        if at != len(data):
            return BrokenRow(f"damaged: columns of {at:,} bytes in {len(data):,}", ""), 0
        return row, infinite

    def _read(self, size: int, what: str) -> bytes:
        with translate_read_errors(self._where):
            data = read_bytes(self._stream, size)
        if len(data) < size:
            raise truncated_error(self._where, f"the MDS shard ends inside {what}")
        if self._hash is not None:
            self._hash.update(data)
        return data

    def _damage(self, problem: str) -> SourceError:
        return SourceError(self._where, f"damaged: {problem}", _HINT)


def _decoder(encoding: str) -> Decode:
    """The function from the bytes of a column to its value. Raises ValueError."""
    kind = encoding.partition(":")[0]
    if _UNREAD.fullmatch(kind):
        return lambda data: ({"encoding": kind, "bytes": len(data)}, 0)
    if kind in _SCALARS:
        unpack = struct.Struct(_SCALARS[kind]).unpack
        return lambda data: _finite(unpack(data)[0])
    if kind not in _DECODERS:
        raise ValueError(f"the encoding {kind[:40]!r} is not known")
    return _DECODERS[kind]


def _finite(value: float) -> tuple[Json, int]:
    return (value, 0) if math.isfinite(value) else (None, 1)


def _decimal(data: bytes) -> tuple[Json, int]:
    value = Decimal(data.decode())
    if not value.is_finite():
        return None, 1
    if len(data) > _MOST_DIGITS or abs(value.adjusted()) > _MOST_DIGITS:
        raise ValueError("a number of too many digits")
    return exact_number(value), 0


_DECODERS: Final[dict[str, Decode]] = {
    "str": lambda data: (data.decode(), 0),
    "bytes": lambda data: (data.decode(), 0),
    "json": parse_counted,
    "str_int": lambda data: (int(data), 0),
    "str_float": lambda data: _finite(float(data)),
    "str_decimal": _decimal,
}


_INDEX: Final = "index.json"
_MOST_INDEX: Final = 256 << 20
_FORMS: Final = ("raw_data", "zip_data")
_CODECS: Final = ("zstd", "gz", "bz2")  # by which a compressed shard is known from its content


def read_mds_indexes(listing: Listing) -> Listing:
    """Return the listing with the shards that the indexes of its folders name.

    Other files are `unreadable`. A folder without an index is `closed`; if it is the listed folder
    itself, SourceError is raised.
    """
    if listing.direct:
        return listing
    by_name = {entry.name: entry for entry in listing.entries}
    for entry in listing.entries:
        folder, _, base = entry.name.rpartition("/")
        shards = _read_index(entry) if base == _INDEX else None
        if shards is None:
            continue
        try:
            shard_files, unread = _named_files(folder, shards, by_name)
        except ValueError as error:
            if not folder:
                raise SourceError(str(entry.place), str(error), "copy the folder again") from error
            closed = {**listing.closed, folder: ("part of an MDS data set", f": {error}", "mds")}
            listing = replace(listing, closed=closed)
            continue
        by_name |= shard_files
        for name in unread:
            by_name.pop(name, None)
        listing = replace(
            listing,
            unreadable=(*listing.unreadable, *starmap(UnreadableName, unread.items())),
        )
    entries = tuple(by_name[entry.name] for entry in listing.entries if entry.name in by_name)
    return replace(listing, entries=entries)


def _read_index(entry: Entry) -> list[dict[str, Json]] | None:
    """The shards of an index of MDS; None of any other file."""
    if entry.bytes > _MOST_INDEX:
        return None
    with entry.place.open() as raw, translate_read_errors(str(entry.place)):
        data = raw.read()
    try:
        index = parse_json(data)
    except JsonTextError:
        return None
    shards = index.get("shards") if isinstance(index, dict) else None
    if not isinstance(shards, list) or not shards:
        return None
    mds_shards = [
        shard for shard in shards if isinstance(shard, dict) and shard.get("format") == "mds"
    ]
    return mds_shards if len(mds_shards) == len(shards) else None


def _named_files(
    folder: str, shards: list[dict[str, Json]], by_name: Mapping[str, Entry]
) -> tuple[dict[str, Entry], dict[str, str]]:
    """The shards to read, and why other files are left out. Raises ValueError."""
    inner = f"{folder}/" if folder else ""
    entries: dict[str, Entry] = {}
    unread = {inner + _INDEX: "auxiliary file (index of MDS shards)"}
    for shard in shards:
        forms = {key: form if isinstance(form := shard.get(key), dict) else {} for key in _FORMS}
        names = {key: f"{inner}{form.get('basename')}" for key, form in forms.items()}
        present = [(key, by_name[name]) for key, name in names.items() if name in by_name]
        if not present:
            problem = f"shard {forms['raw_data'].get('basename')!r} is gone"
            raise ValueError(problem[:200])
        (key, entry), *copies = present
        codec = str(shard.get("compression")).partition(":")[0]
        if key == "zip_data" and codec not in _CODECS:
            raise ValueError(f"shards compressed by {codec[:40]}")
        size = forms[key].get("bytes")
        if size not in (None, entry.bytes):
            problem = f"shard {entry.name} has {entry.bytes:,} bytes and not {size}"
            raise ValueError(problem[:200])
        mark = _content_mark(forms["raw_data"].get("hashes"))
        entries[entry.name] = replace(entry, etag=mark or entry.etag)
        unread |= {copy.name: f"a copy of {entry.name}" for _, copy in copies}
    for name in by_name:
        if name.rpartition("/")[0] == folder and ".mds" in name and name not in entries:
            unread.setdefault(name, "an MDS shard that index.json does not name")
    return entries, unread


def _content_mark(hashes: Json) -> str | None:
    """The mark of a shard's content: a hash that can be checked, None if there is none."""
    for algorithm, digest in hashes.items() if isinstance(hashes, dict) else ():
        if isinstance(digest, str) and _new_hash(algorithm) is not None:
            return f"{_HASH_MARK}:{algorithm}:{digest}"
    return None
