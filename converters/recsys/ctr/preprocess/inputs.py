"""The raw files that a build reads, and what decides the bytes of the build."""

import hashlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import accumulate, groupby
from pathlib import Path
from typing import BinaryIO, Final

import numpy as np
import pyarrow as pa

from ingot import __version__
from ingot.converters.errors import FeaturemapError, IngotError, Problem, SourceError
from ingot.converters.output.difference import describe_difference
from ingot.converters.output.files import InputEntry, InputStamp
from ingot.converters.output.identity import RunIdentity
from ingot.converters.progress import ProgressTally
from ingot.converters.recsys.ctr.contract import Profile
from ingot.converters.recsys.ctr.featuremap import FeatureMap, load, to_document
from ingot.converters.recsys.ctr.preprocess import aliccp
from ingot.converters.recsys.ctr.preprocess.row_collector import Collector, Rows, encode_block
from ingot.converters.recsys.ctr.preprocess.vocabulary import Known
from ingot.converters.recsys.ctr.table.table_files import TableFile
from ingot.converters.recsys.ctr.table.table_rows import open_table_files, read_table
from ingot.converters.sources.facts import hash_input, input_entry, input_stamp
from ingot.converters.sources.storage.archives import open_window
from ingot.converters.sources.storage.compression import (
    detect_compression,
    open_decompressed,
    peek_first_bytes,
)
from ingot.converters.sources.storage.listing import Entry, list_location

_MOST_ROWS: Final = 1 << 40  # of a piece


@dataclass(frozen=True, kw_only=True)
class InputPiece:
    """A part of the input that can be read alone: lines of a file, or files of a table."""

    role: str
    entries: tuple[Entry, ...]
    start: int = 0  # the lines that begin at these places of the file
    stop: int | None = None  # None: the whole file
    files: tuple[TableFile, ...] = ()
    first: int = 0  # number of the first row: rows of a table without an id differ by it

    @property
    def is_start(self) -> bool:
        """Whether the input of this role begins with it."""
        return not (self.start or self.first)

    @property
    def size(self) -> int:
        """Bytes, as stored."""
        if self.stop is not None:
            return self.stop - self.start
        return sum(entry.bytes or 0 for entry in self.entries)


@dataclass(frozen=True, kw_only=True)
class Aliccp:
    """The raw files of Ali-CCP."""

    skeleton: str
    common: str
    block_bytes: int = aliccp.BLOCK  # about what is read at a time; the result does not change

    def places(self) -> dict[str, str]:
        """Where each role's file is."""
        return {"skeleton": self.skeleton, "common": self.common}

    def check(self, featuremap: FeatureMap) -> None:
        """See that a featuremap names fields of both files."""
        if featuremap.table is not None:
            expected = "no table, as `skeleton` and `common` are read"
            raise _contradiction_error("/table", expected, "a table: is it meant for `table`?")

    def pieces(self, _: FeatureMap, size: int) -> Iterator[InputPiece]:
        """Yield whole lines of about `size` bytes of the files; one that is compressed whole."""
        for role in ("common", "skeleton"):
            entries = list_location(place := self.places()[role]).entries
            if len(entries) != 1:
                problem = f"{len(entries)} files are there, one is read"
                raise SourceError(place, problem, "name the file itself")
            entry = entries[0]
            with entry.place.open() as raw:
                plain = raw.seekable() and detect_compression(peek_first_bytes(raw)) is None
            if not plain or not entry.bytes:
                yield InputPiece(role=role, entries=(entry,))
                continue
            for start in range(0, entry.bytes, size):
                stop = min(start + size, entry.bytes)
                yield InputPiece(role=role, entries=(entry,), start=start, stop=stop)

    def feed(
        self, collector: Collector, featuremap: FeatureMap, piece: InputPiece
    ) -> Iterator[Rows]:
        """Read a piece into a collector; gives the rows after each block."""
        if piece.role == "common":
            for rows in self._rows(piece, aliccp.COMMON, _fields(featuremap, 1), collector):
                collector.add_common(rows)
                yield rows
        else:
            for rows in self._rows(piece, aliccp.SKELETON, _fields(featuremap, 0), collector):
                collector.add_rows(rows)
                yield rows

    def _rows(
        self, piece: InputPiece, layout: aliccp.Layout, fields: aliccp.Fields, collector: Collector
    ) -> Iterator[Rows]:
        (entry,), where = piece.entries, self.places()[piece.role]
        found, size = collector.found, self.block_bytes
        codes = found.tokens, found.entities.names
        with entry.place.open() as raw:
            if piece.stop is None:
                opened = open_decompressed(raw, where)
            else:
                start, stop = (_line_start(raw, at) for at in (piece.start, piece.stop))
                opened = open_window(raw, start, stop - start, where)
            with opened as stream:
                yield from aliccp.read_rows(stream, entry.name, layout, fields, *codes, size)


def _line_start(raw: BinaryIO, place: int) -> int:
    """The start of the first line that begins at a place or behind it."""
    if place:
        raw.seek(place - 1)
        raw.readline()
        return raw.tell()
    return 0


@dataclass(frozen=True, kw_only=True)
class PlainTable:
    """A plain table."""

    table: str

    def places(self) -> dict[str, str]:
        """Where each role's file is."""
        return {"table": self.table}

    def check(self, featuremap: FeatureMap) -> None:
        """See that a featuremap names the table's columns."""
        if featuremap.table is None:
            expected = "entity_id, y_ctr and y_cvr, the table's columns"
            raise _contradiction_error("/table", expected, "nothing (a drafted featuremap has it)")

    def pieces(self, featuremap: FeatureMap, size: int) -> Iterator[InputPiece]:
        """Yield the files, neighbours of about `size` bytes together."""
        files = open_table_files(self.table, featuremap)
        ends = accumulate(one.file.bytes for one in files)
        groups = groupby(files, lambda _: next(ends) // size)
        for number, (_, group) in enumerate(groups):
            part = tuple(group)
            entries, first = tuple(one.file for one in part), number * _MOST_ROWS
            yield InputPiece(role="table", entries=entries, files=part, first=first)

    def feed(
        self, collector: Collector, featuremap: FeatureMap, piece: InputPiece
    ) -> Iterator[Rows]:
        """Read a piece into a collector; gives the rows after each block."""
        found = collector.found
        for block in read_table(self.table, featuremap, piece.files, piece.first):
            rows = encode_block(block, found.tokens, found.entities.names)
            found.kinds |= block.kinds
            collector.add_rows(rows)
            yield rows


Inputs = Aliccp | PlainTable


@dataclass(frozen=True)
class Order:
    """What is built; `tally` counts the rows that this process reads and writes."""

    inputs: Inputs
    featuremap: FeatureMap
    tally: ProgressTally | None = None  # None in other processes

    @property
    def where(self) -> str:
        """Where the raw files are."""
        return ", ".join(self.inputs.places().values())

    def add(self, rows: int, rejects: int = 0) -> None:
        """Count rows that this process has done."""
        if self.tally is not None:
            self.tally.add(rows, rejects=rejects)


def _contradiction_error(pointer: str, expected: str, got: str) -> FeaturemapError:
    return FeaturemapError("featuremap", (Problem(pointer, "contradiction", expected, got),))


def _fields(featuremap: FeatureMap, src: int) -> aliccp.Fields:
    places = [at for at, (of, _) in enumerate(featuremap.sources) if of == src]
    names = tuple(featuremap.sources[at][1] for at in places)
    return aliccp.Fields(names=names, numbers=np.array(places, np.int16))


def file_stamps(inputs: Inputs) -> list[InputStamp]:
    """Return role, name, size and time of change of every file."""
    return [input_stamp(entry, role=role) for role, entry in list_files(inputs)]


def file_entries(inputs: Inputs) -> list[InputEntry]:
    """Return role, name, size and SHA-256 of every file, as the manifest lists them."""
    return [input_entry(one, hash_input(one), role=role) for role, one in list_files(inputs)]


def list_files(inputs: Inputs) -> list[tuple[str, Entry]]:
    """Return role and entry of every file."""
    places = inputs.places().items()
    return [(role, entry) for role, place in places for entry in list_location(place).entries]


FORMAT: Final = 1


def build_identity(
    inputs: Inputs, featuremap: FeatureMap, known: Known | None, out: Path | str
) -> RunIdentity:
    """Return what decides the bytes of a build; `known`: saved vocabularies that are used."""
    return RunIdentity(
        settled={
            "decision": "ctr",
            "versions": {"ingot": __version__, "ctr": FORMAT},
            "profile": asdict(Profile.of(featuremap)),
            "featuremap_sha256": featuremap.sha256,
            "vocab_sha256": None if known is None else _hash_tables(known.tables),
        },
        place=inputs.places(),
        stamps=file_stamps(inputs),
        entries=lambda: file_entries(inputs),
        details={"featuremap": to_document(featuremap)},
        words={
            "profile": "another profile of the contract",
            "featuremap_sha256": f"another featuremap{_featuremap_changes(out, featuremap)}",
            "vocab_sha256": "other vocabularies",
        },
    )


def _featuremap_changes(out: Path | str, featuremap: FeatureMap) -> str:
    """What differs from the featuremap of a finished build, as far as its folder shows it."""
    try:
        theirs = to_document(load(Path(out) / "featuremap.yaml"))
    except IngotError:
        return ""
    words = {"features": "other features", "table": "other table columns"}
    changes = describe_difference(to_document(featuremap), theirs, words)
    return f" ({changes})" if changes else ""


def _hash_tables(tables: dict[str, pa.Table]) -> str:
    digest = hashlib.sha256()
    for name, table in sorted(tables.items()):
        digest.update(name.encode() + b"\0")
        for batch in table.combine_chunks().to_batches():
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, batch.schema) as writer:
                writer.write_batch(batch)
            digest.update(sink.getvalue())
    return digest.hexdigest()
