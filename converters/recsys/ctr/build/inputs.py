"""The files that a build reads.

What decides the bytes of a build.
"""

import hashlib
import json
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from threading import Event
from typing import Final, Protocol

import numpy as np
import pyarrow as pa

from ingot import __version__
from ingot.converters.errors import FeaturemapError, IngotError, Problem, SourceError
from ingot.converters.output.commit import FinishedResult
from ingot.converters.recsys.ctr.build.aliccp import (
    BLOCK,
    COMMON,
    SKELETON,
    Fields,
    Layout,
    read_rows,
)
from ingot.converters.recsys.ctr.build.row_collector import Collector, Rows, encode_block
from ingot.converters.recsys.ctr.contract import Profile
from ingot.converters.recsys.ctr.featuremap import FeatureMap, load, to_document
from ingot.converters.recsys.ctr.table.table_rows import read_table
from ingot.converters.rows import Json
from ingot.converters.sources.storage.compression import open_decompressed
from ingot.converters.sources.storage.listing import Entry, list_location

_HASHED: Final = 8 << 20


class Inputs(Protocol):
    """Raw files of a kind."""

    def places(self) -> dict[str, str]:
        """Where each role's file is."""
        ...

    def check(self, featuremap: FeatureMap) -> None:
        """See that a featuremap is for such files."""
        ...

    def feed(self, collector: Collector, featuremap: FeatureMap) -> Iterator[tuple[str, Rows]]:
        """Read everything into a collector; gives a stage and the rows after each block."""
        ...


@dataclass(frozen=True, kw_only=True)
class Aliccp:
    """The raw files of Ali-CCP.

    Attributes:
        skeleton: path or URL of `sample_skeleton_*.csv`, compressed or not.
        common: path or URL of `common_features_*.csv`.
        block_bytes: about how much is read at a time; the result does not depend on it.
    """

    skeleton: str
    common: str
    block_bytes: int = BLOCK

    def places(self) -> dict[str, str]:
        """Where each role's file is."""
        return {"skeleton": self.skeleton, "common": self.common}

    def check(self, featuremap: FeatureMap) -> None:
        """See that a featuremap names fields of both files."""
        if featuremap.table is not None:
            expected = "no table, as --skeleton and --common are read"
            raise _contradiction_error("/table", expected, "a table: is it meant for --table?")

    def feed(self, collector: Collector, featuremap: FeatureMap) -> Iterator[tuple[str, Rows]]:
        """Read everything into a collector; gives a stage and the rows after each block."""
        shared = _fields(featuremap, 1)
        for rows in self._rows(self.common, COMMON, shared, collector):
            collector.add_common(rows)
            yield "common features", rows
        own = _fields(featuremap, 0)
        for rows in self._rows(self.skeleton, SKELETON, own, collector):
            collector.add_rows(rows)
            yield "rows", rows

    def _rows(
        self, place: str, layout: Layout, fields: Fields, collector: Collector
    ) -> Iterator[Rows]:
        entry = find_single_file(place)
        tokens, entities = collector.tokens, collector.entities.names
        with entry.place.open() as raw, open_decompressed(raw, place) as stream:
            yield from read_rows(
                stream, entry.name, layout, fields, tokens, entities, self.block_bytes
            )


@dataclass(frozen=True, kw_only=True)
class PlainTable:
    """A plain table.

    Attributes:
        table: path or URL of a CSV or Parquet file, see `read_table`.
    """

    table: str

    def places(self) -> dict[str, str]:
        """Where each role's file is."""
        return {"table": self.table}

    def check(self, featuremap: FeatureMap) -> None:
        """See that a featuremap names the table's columns."""
        if featuremap.table is None:
            expected = "entity_id, y_ctr and y_cvr, the table's columns"
            raise _contradiction_error(
                "/table", expected, "nothing (`ingot ctr draft` proposes one)"
            )

    def feed(self, collector: Collector, featuremap: FeatureMap) -> Iterator[tuple[str, Rows]]:
        """Read everything into a collector; gives a stage and the rows after each block."""
        for block in read_table(self.table, featuremap):
            rows = encode_block(block, collector.tokens, collector.entities.names)
            collector.add_rows(rows)
            yield "rows", rows


def _contradiction_error(pointer: str, expected: str, got: str) -> FeaturemapError:
    return FeaturemapError("featuremap", (Problem(pointer, "contradiction", expected, got),))


def _fields(featuremap: FeatureMap, src: int) -> Fields:
    places = [at for at, (of, _) in enumerate(featuremap.sources) if of == src]
    names = tuple(featuremap.sources[at][1] for at in places)
    return Fields(names=names, numbers=np.array(places, np.int16))


def find_single_file(place: str) -> Entry:
    """The one file that a place names."""
    entries = list_location(place).entries
    if len(entries) != 1:
        problem = f"{len(entries)} files are there, one is read"
        raise SourceError(place, problem, "name the file itself")
    return entries[0]


def file_stamps(inputs: Inputs) -> list[dict[str, Json]]:
    """Role, name, size and time of change of every file."""
    return [
        {"role": role, "name": e.name, "bytes": e.bytes, "mtime_ns": e.mtime_ns, "etag": e.etag}
        for role, place in inputs.places().items()
        for e in list_location(place).entries
    ]


def file_hashes(inputs: Inputs, stop: Event | None = None) -> list[dict[str, Json]]:
    """Role, name, size and SHA-256 of every file as stored, as the manifest lists them."""
    stop = stop or Event()
    return [
        {"role": role, "name": entry.name, "bytes": entry.bytes, "sha256": _sha256(entry, stop)}
        for role, place in inputs.places().items()
        for entry in list_location(place).entries
    ]


def _sha256(entry: Entry, stop: Event) -> str:
    digest = hashlib.sha256()
    with entry.place.open() as stream:
        while not stop.is_set() and (block := stream.read(_HASHED)):
            digest.update(block)
    return digest.hexdigest()


@contextmanager
def hash_in_background(inputs: Inputs) -> Iterator[Future[list[dict[str, Json]]]]:
    """Hash the files beside other work; stops where that ends first, as it failed."""
    stop = Event()
    with ThreadPoolExecutor(1, "hash") as pool:
        try:
            yield pool.submit(file_hashes, inputs, stop)
        finally:
            stop.set()


FORMAT: Final = 1


@dataclass(frozen=True, kw_only=True)
class Identity:
    """Two builds with equal identities make the same folder.

    Attributes:
        inputs: the raw files.
        stamps: role, name, size and time of change of each of them.
        featuremap: what becomes of them.
        vocab_sha256: of the saved vocabularies that are used, or None.
    """

    inputs: Inputs
    stamps: list[dict[str, Json]]
    featuremap: FeatureMap
    vocab_sha256: str | None

    @classmethod
    def of(
        cls, inputs: Inputs, featuremap: FeatureMap, known: dict[str, pa.Table] | None
    ) -> "Identity":
        """The identity of a build."""
        return cls(
            inputs=inputs,
            stamps=file_stamps(inputs),
            featuremap=featuremap,
            vocab_sha256=_hash_tables(known) if known is not None else None,
        )

    def settled(self) -> dict[str, Json]:
        """What the manifest holds of it."""
        return {
            "decision": "ctr",
            "versions": {"ingot": __version__, "ctr": FORMAT},
            "profile": asdict(Profile.of(self.featuremap)),
            "featuremap_sha256": self.featuremap.sha256,
            "vocab_sha256": self.vocab_sha256,
        }

    def key(self) -> str:
        """The staging key: knows the inputs by place, name, size and time of change."""
        document = [self.settled(), self.inputs.places(), self.stamps]
        return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()

    def difference(self, there: FinishedResult) -> str | None:
        """What tells a finished folder from the one that this build would make, if anything."""
        for name, ours in self.settled().items():
            if there.manifest.get(name) != ours:
                return _DIFFERENCES[name] + self._changed_choices(name, there)
        if there.run.get("inputs") == self.stamps:
            return None
        try:
            same = there.manifest.get("inputs") == file_hashes(self.inputs)
        except IngotError:
            same = False  # the build will say what is wrong with the file
        return None if same else "other input files"

    def _changed_choices(self, name: str, there: FinishedResult) -> str:
        """What of the profile or the featuremap differs, as far as the folder shows it."""
        if name not in ("profile", "featuremap_sha256"):
            return ""
        try:
            theirs = to_document(load(there.folder / "featuremap.yaml"))
        except IngotError:
            return ""
        ours = to_document(self.featuremap)
        keys = [key for key in {**theirs, **ours} if theirs.get(key) != ours.get(key)]
        told = [
            key if key in ("features", "table") else f"{key} {ours[key]}, there {theirs[key]}"
            for key in keys
        ]
        return f" ({'; '.join(told)})" if told else ""


_DIFFERENCES = {
    "decision": "another decision",
    "versions": "another version of ingot",
    "profile": "another reading of the contract",
    "featuremap_sha256": "another featuremap",
    "vocab_sha256": "other vocabularies",
}


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
