"""WebDataset shards: tar archives in which neighbours with one key are the parts of one row.

`000/a.jpg`, `000/a.txt` and `000/a.json` are the row of the key `000/a`. An archive is read once,
from its start to its end.
"""

import re
import tarfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from statistics import median
from tarfile import ReadError
from typing import BinaryIO, Final

from ingot.converters.errors import translate_read_errors
from ingot.converters.rows import Json
from ingot.converters.sources.facts import FileFacts, SourceFile, SourceSpec
from ingot.converters.sources.formats.detection import FilePeek
from ingot.converters.sources.formats.row_chunks import (
    MAX_ROW_BYTES,
    BrokenRow,
    JsonTextError,
    RowChunk,
    chunk_of_counted,
    chunk_sized_rows,
    parse_counted,
    row_excerpt,
)
from ingot.converters.sources.storage.archive_directories import open_tar, whole_headers
from ingot.converters.sources.storage.compression import open_decompressed
from ingot.converters.sources.storage.listing import Entry

KEY: Final = "__key__"
_PART = re.compile(r"((?:.*/)?[^./][^./]{0,254})\.([^/]{1,254})", re.DOTALL)
# By the last ending.
_JSON = re.compile("json|jsn")
_INTEGERS = re.compile("cls2?|class|count|id|index|inx")
_TEXTS = re.compile("txt|text|transcript|caption")
_BINARY = re.compile(
    "jpe?g|png|gif|webp|bmp|tiff?|p[pgbn]m|wav|mp3|flac|ogg|opus|m4a|aac|mp4|avi|mkv|webm|mov|np[yz]"
    "|pth?|pkl|pickle|pyd|ten|tb|bin|safetensors|pdf|mp|msg|msgpack|cbor"
)
_DATA_FILES = re.compile(
    "jsonl|ndjson|jsonlines|[ct]sv|tab|psv|parquet|arrow|feather|orc|avro|mds|sqlite|db|h5|hdf5|xlsx"
    "|zip|tar|tgz|gz|gzip|zstd?|bz2|xz|7z|rar"
)
_SPLITS = re.compile("train(ing)?|test|dev|valid(ation)?|val|eval")
_LOOKED_AT: Final = 100  # members
_LOOKED_BYTES: Final = 16 << 20
_SHARE: Final = 0.8  # of the members that stand beside another part of their row
_MOST_PART: Final = 1 << 20  # bytes of a part of text, in the middle of all
_MOST_PARTS: Final = 1000  # of a row


def webdataset_facts(entry: Entry, seen: FilePeek, spec: SourceSpec) -> FileFacts | None:
    """Return the facts of a WebDataset shard: a tar that looks like one, or is stated to be."""
    if seen.archive != "tar" or spec.format not in (None, "webdataset") or spec.files is not None:
        return None
    where = str(entry.place)
    members: list[tuple[str, int]] = []
    with entry.place.open() as raw, translate_read_errors(where):
        stream = open_decompressed(raw, where)
        with open_tar(stream, forwards=True) as tar, suppress(ReadError):  # which reading tells
            for info in whole_headers(tar):
                if info.isreg():
                    members.append((info.name, info.size))
                if len(members) >= _LOOKED_AT or info.offset_data + info.size > _LOOKED_BYTES:
                    break
    if spec.format is None and not _looks_like_webdataset(members):
        return None
    parts = [part for name, _ in members if (part := _split_name(name))]
    shape = frozenset((KEY, *(ending for _, ending in parts)))
    return FileFacts(format="webdataset", compression=seen.compression, shape=shape)


def _looks_like_webdataset(members: Sequence[tuple[str, int]]) -> bool:
    """Whether most members are small parts of rows, and none is a data file of its own."""
    parts = [part for name, _ in members if (part := _split_name(name))]
    rows = [[ending for _, ending in row] for _, row in groupby(parts, key=lambda part: part[0])]
    shared = sum(len(row) for row in rows if len(set(row)) > 1)
    kinds = {_last_ending(ending) for _, ending in parts}
    sizes = [size for name, size in members if not _BINARY.fullmatch(_last_ending(name))]
    read = [
        kind for kind in kinds for pattern in (_JSON, _INTEGERS, _TEXTS) if pattern.fullmatch(kind)
    ]
    return (
        len(rows) > 1
        and shared >= _SHARE * len(members)
        and bool(read)
        and not any(map(_DATA_FILES.fullmatch, kinds))
        and not any(_SPLITS.fullmatch(key.rpartition("/")[2].lower()) for key, _ in parts)
        and median(sizes) <= _MOST_PART
    )


def _split_name(name: str) -> tuple[str, str] | None:
    """The key of a member and the ending behind it; None of a member that is no part."""
    match = _PART.fullmatch(name.removeprefix("./"))
    return (match[1], match[2].lower()) if match else None


def _last_ending(name: str) -> str:
    return name.rpartition(".")[2].lower()


def read_webdataset(file: SourceFile, _: SourceSpec, stream: BinaryIO) -> Iterator[RowChunk]:
    """Return the rows of a shard. Raises SourceError, after the rows before the damage."""
    return chunk_sized_rows(_read_rows(stream, str(file.place)), chunk_of_counted)


def _read_rows(stream: BinaryIO, where: str) -> Iterator[tuple[tuple[Json, int], int]]:
    """Each row with how many of its numbers were read as null, and the bytes that it has."""
    with (
        translate_read_errors(where),
        open_tar(stream, forwards=True) as tar,
    ):
        for key, parts in groupby(_named_parts(tar), key=itemgetter(0)):
            row = _Row(key)
            for _, ending, info in parts:
                row.add(ending, info, tar)
            yield (row.value(), row.non_finite), row.size


def _named_parts(tar: tarfile.TarFile) -> Iterator[tuple[str, str, tarfile.TarInfo]]:
    """The keys, endings and headers of parts."""
    for info in whole_headers(tar):
        if not info.isdir() and (named := _split_name(info.name)):
            yield *named, info


@dataclass(slots=True)
class _Row:
    """A row while its parts come."""

    key: str
    size: int = 0
    non_finite: int = 0
    broken: BrokenRow | None = None
    _parts: dict[str, Json] = field(default_factory=dict)

    def value(self) -> Json:
        return self.broken or {KEY: self.key, **self._parts}

    def add(self, ending: str, info: tarfile.TarInfo, tar: tarfile.TarFile) -> None:
        if not info.isreg():
            self._break(f"part {ending} is not a regular file")
        elif ending in self._parts:
            self._break(f"two parts {ending}")
        elif len(self._parts) >= _MOST_PARTS:
            self._break(f"more than {_MOST_PARTS} parts")
        elif _BINARY.fullmatch(_last_ending(ending)):
            self._parts[ending] = {"bytes": info.size}
        elif self.size + info.size > MAX_ROW_BYTES:
            self._break(f"more than {MAX_ROW_BYTES >> 20} MiB")
        elif self.broken is None and (opened := tar.extractfile(info)) is not None:
            self.size += info.size
            self._parts[ending] = self._decode(ending, opened.read())

    def _decode(self, ending: str, data: bytes) -> Json:
        kind = _last_ending(ending)
        try:
            if _JSON.fullmatch(kind):
                value, count = parse_counted(data)
                self.non_finite += count
                return value
            if _INTEGERS.fullmatch(kind):
                return int(data)
            text = data.decode()
        except ValueError as error:
            if isinstance(error, UnicodeDecodeError) and not _TEXTS.fullmatch(kind):
                return {"bytes": len(data)}
            why = str(error) if isinstance(error, JsonTextError) else "cannot be read"
            return self._break(f"part {ending}: {why}", data)
        return {"bytes": len(data)} if "\0" in text and not _TEXTS.fullmatch(kind) else text

    def _break(self, detail: str, data: bytes = b"") -> Json:
        self.broken = self.broken or BrokenRow(detail, row_excerpt(data or self.key))
        return None
