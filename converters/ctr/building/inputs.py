"""The files that a build reads."""

import hashlib
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event
from typing import Final, Protocol

import numpy as np

from ingot.converters.ctr.building.aliccp import BLOCK, COMMON, SKELETON, Fields, Layout, read_rows
from ingot.converters.ctr.building.collecting import Collector
from ingot.converters.ctr.building.rows import Rows, coded
from ingot.converters.ctr.featuremap import FeatureMap
from ingot.converters.ctr.tables.table import read_table
from ingot.converters.errors import FeaturemapError, Problem, SourceError
from ingot.converters.readers.compression import decompressed
from ingot.converters.readers.storage import Entry, find
from ingot.converters.rows import Json

_HASHED: Final = 8 << 20


class Inputs(Protocol):
    """Raw files of a kind."""

    def places(self) -> dict[str, str]:
        """Where each role's file is."""
        ...

    def check(self, featuremap: FeatureMap) -> None:
        """See that a featuremap is for such files.

        Raises:
            FeaturemapError: it is not.
        """
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
        """See that a featuremap names fields of both files.

        Raises:
            FeaturemapError: it is one for a table.
        """
        if featuremap.table is not None:
            expected = "no table, as --skeleton and --common are read"
            raise _contradiction("/table", expected, "a table: is it meant for --table?")

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
        entry = one_file(place)
        tokens, entities = collector.tokens, collector.entities.names
        with entry.place.open() as raw, decompressed(raw, place) as stream:
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
        """See that a featuremap names the table's columns.

        Raises:
            FeaturemapError: it does not.
        """
        if featuremap.table is None:
            expected = "entity_id, y_ctr and y_cvr, the table's columns"
            raise _contradiction("/table", expected, "nothing (`ingot ctr draft` proposes one)")

    def feed(self, collector: Collector, featuremap: FeatureMap) -> Iterator[tuple[str, Rows]]:
        """Read everything into a collector; gives a stage and the rows after each block."""
        for block in read_table(self.table, featuremap):
            rows = coded(block, collector.tokens, collector.entities.names)
            collector.add_rows(rows)
            yield "rows", rows


def _contradiction(pointer: str, expected: str, got: str) -> FeaturemapError:
    return FeaturemapError("featuremap", (Problem(pointer, "contradiction", expected, got),))


def _fields(featuremap: FeatureMap, src: int) -> Fields:
    places = [at for at, (of, _) in enumerate(featuremap.sources) if of == src]
    names = tuple(featuremap.sources[at][1] for at in places)
    return Fields(names=names, numbers=np.array(places, np.int16))


def one_file(place: str) -> Entry:
    """The one file that a place names.

    Raises:
        SourceError: there is none, or more than one.
    """
    entries = find(place).entries
    if len(entries) != 1:
        problem = f"{len(entries)} files are there, one is read"
        raise SourceError(place, problem, "name the file itself")
    return entries[0]


def stamps(inputs: Inputs) -> list[dict[str, Json]]:
    """Role, name, size and time of change of every file."""
    return [
        {"role": role, "name": e.name, "bytes": e.bytes, "mtime_ns": e.mtime_ns, "etag": e.etag}
        for role, place in inputs.places().items()
        for e in find(place).entries
    ]


def sha256s(inputs: Inputs, stop: Event | None = None) -> list[dict[str, Json]]:
    """Role, name, size and SHA-256 of every file as stored, as the manifest lists them.

    Args:
        inputs: the files.
        stop: when set, nothing more is read, and the hashes are worth nothing.
    """
    stop = stop or Event()
    return [
        {"role": role, "name": entry.name, "bytes": entry.bytes, "sha256": _sha256(entry, stop)}
        for role, place in inputs.places().items()
        for entry in find(place).entries
    ]


def _sha256(entry: Entry, stop: Event) -> str:
    digest = hashlib.sha256()
    with entry.place.open() as stream:
        while not stop.is_set() and (block := stream.read(_HASHED)):
            digest.update(block)
    return digest.hexdigest()


@contextmanager
def hashing(inputs: Inputs) -> Iterator[Future[list[dict[str, Json]]]]:
    """Hash the files beside other work; stops where that ends first, as it failed."""
    stop = Event()
    with ThreadPoolExecutor(1, "hash") as pool:
        try:
            yield pool.submit(sha256s, inputs, stop)
        finally:
            stop.set()
