"""Preprocessed Criteo data with every id widened already: `day_0_sparse_multi_hot.npz`, ...

A part is read once, some rows at a time; the 26 matrices of its archive grow side by side. In
memory are some rows of them. The tables are mapped from files that lie beside the result while it
is made, or in a folder of the user's.
"""

import shutil
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ingot.converters.commit import Staged, stage, sync, writing
from ingot.converters.criteo.loading.locating import KINDS, Selection, StoredArray, locate
from ingot.converters.criteo.modulo import take_modulo
from ingot.converters.criteo.widening.config import Config
from ingot.converters.criteo.widening.frequencies import Frequencies
from ingot.converters.criteo.widening.identity import Identity
from ingot.converters.criteo.widening.linking import link
from ingot.converters.criteo.widening.npz import NpzWriter
from ingot.converters.criteo.widening.room import check_room
from ingot.converters.criteo.widening.tables import Tables, kept
from ingot.converters.errors import OutputError, SourceError
from ingot.converters.job import Progress, Watch
from ingot.converters.manifest import check_unchanged, host_facts, list_files
from ingot.converters.measuring import Clock, usable_cores
from ingot.converters.rows import Json
from ingot.converters.shard import file_entry, peak_rss

_VALUES: Final = 1 << 23
"""About how many ids are made at a time: 32 MiB."""
_SPARSE: Final = KINDS.index("sparse")


@dataclass(frozen=True, kw_only=True)
class Materialized:
    """A finished result: its folder and manifest.

    `already_done`: the folder held this very result before, nothing was done.
    """

    out: Path
    manifest: dict[str, Json]
    already_done: bool = False
    notes: tuple[str, ...] = ()


def multi_hot_name(part: str) -> str:
    """The archive of a part's ids: "0" to "25", each int32 (rows, ids of a cell)."""
    return f"{part}_sparse_multi_hot.npz"


def materialize(
    folder: Path,
    config: Config,
    out: Path,
    *,
    tables: Path | None = None,
    threads: int = 0,
    block: int = _VALUES,
    overwrite: bool = False,
    progress: Watch | None = None,
) -> Materialized:
    """Write a folder of widened data, as the benchmark's sets are shipped.

    Ids are taken modulo num_embeddings first. Dense values and labels are linked, or copied where
    the file system has no links. A part that was finished before a run was killed is kept, unless
    ids are counted.

    Args:
        folder: preprocessed data.
        config: how to widen.
        out: the destination, see `commit.stage`.
        tables: a folder to keep the tables in, for the next run too; None: beside `out`, until the
            result is finished.
        threads: features that are worked on at the same time; 0 for one on each core.
        block: about how many ids are made at a time; the result does not depend on it.
        overwrite: replace another result.
        progress: called after every block.

    Raises:
        SourceError: the data cannot be read, or changed while they were.
        OutputError: the destination is taken or cannot be written.
    """
    _check_apart(folder, out, tables)
    identity = Identity(selection=locate(folder, "all"), config=config)
    with stage(
        out, key=identity.key(), difference=identity.difference, overwrite=overwrite
    ) as staged:
        if staged.done:
            notes = (*staged.notes, "this result was there already: nothing to do")
            manifest = staged.done.manifest
            return Materialized(out=staged.out, manifest=manifest, already_done=True, notes=notes)
        with writing(staged.work):
            workers = threads or usable_cores()
            return _Run(identity, staged, tables or staged.work, workers, block, progress).run()


def _check_apart(folder: Path, out: Path, tables: Path | None) -> None:
    """See that the result replaces neither the data nor the tables.

    Raises:
        OutputError: it would.
    """
    for what, place in (("the data", folder), ("the tables", tables)):
        if place is not None and place.resolve().is_relative_to(out.resolve()):
            said = f"is where {what} are, or a folder around it"
            raise OutputError(str(out), said, "choose another folder")


class _Run:
    """One run, from the tables to the committed folder."""

    def __init__(
        self,
        identity: Identity,
        staged: Staged,
        tables: Path,
        threads: int,
        block: int,
        progress: Watch | None,
    ) -> None:
        self._identity, self._staged, self._watch = identity, staged, progress
        self._tables_folder, self._threads, self._block = tables, threads, block
        self._selection: Selection = identity.selection
        self._parameters = identity.config.parameters
        self._frequencies: Frequencies | None = None
        if identity.config.collect:
            self._frequencies = Frequencies(self._parameters.num_embeddings)
            shutil.rmtree(staged.result)  # counts of finished parts are not kept
            staged.result.mkdir()
        self._clock = Clock()
        self._rows = 0

    def run(self) -> Materialized:
        self._clock.start("tables")
        tables = kept(self._parameters, self._tables_folder)
        self._clock.start("write")
        self._check_room()
        with ThreadPoolExecutor(1, "hash") as hashing, ThreadPoolExecutor(self._threads) as pool:
            hashes = []
            for number, one in enumerate(self._selection.stretches):
                self._tell(number)
                path = self._staged.result / multi_hot_name(one.part)
                if not path.exists():
                    self._write(path, one.arrays[_SPARSE], tables, pool, number)
                hashes.append(hashing.submit(file_entry, self._staged.result, Path(path.name)))
            self._link()
            self._clock.start("hash")
            return self._commit(hashes)

    def _check_room(self) -> None:
        rows = sum(
            one.stop - one.start
            for one in self._selection.stretches
            if not (self._staged.result / multi_hot_name(one.part)).exists()
        )
        check_room(self._staged.work, 4 * rows * sum(self._parameters.sizes), "ids")

    def _tell(self, done: int) -> None:
        if self._watch is not None:
            self._watch(
                Progress(
                    stage="write",
                    shards_done=done,
                    shards=len(self._selection.stretches),
                    rows=self._rows,
                    records=self._rows,
                )
            )

    def _write(
        self,
        path: Path,
        array: StoredArray,
        tables: Tables,
        pool: ThreadPoolExecutor,
        number: int,
    ) -> None:
        sizes = self._parameters.sizes
        step = max(1, self._block // sum(sizes))
        unfinished = self._staged.work / "unfinished.npz"
        order = sorted(range(len(sizes)), key=lambda place: -sizes[place])  # long ones first
        with array.path.open("rb") as file, NpzWriter(unfinished, array.shape[0], sizes) as npz:
            file.seek(array.offset)

            def widen(place: int) -> None:
                self._widen(place, columns[place], tables[place], npz)

            for start in range(0, array.shape[0], step):
                count = min(step, array.shape[0] - start)
                rows = np.fromfile(file, array.dtype, count * array.shape[1])
                columns = self._columns(array, rows, count)
                for _ in pool.map(widen, order):
                    pass
                self._rows += count
                self._tell(number)
        sync(unfinished)  # under its name it is taken for finished, also after a power cut
        unfinished.rename(path)

    def _columns(
        self, array: StoredArray, rows: NDArray[np.integer], count: int
    ) -> NDArray[np.integer]:
        """Ids [26, count] below their num_embeddings."""
        if len(rows) < count * array.shape[1]:
            hint = "run again when nothing writes to it"
            raise SourceError(str(array.path), "got shorter while it was read", hint)
        columns = np.array(rows.reshape(count, -1).T, order="C")
        take_modulo(columns, self._parameters.num_embeddings)
        return columns

    def _widen(
        self,
        place: int,
        ids: NDArray[np.integer],
        table: NDArray[np.int32] | None,
        npz: NpzWriter,
    ) -> None:
        cells = ids.astype(np.int32, copy=False) if table is None else table.take(ids, axis=0)
        npz.write(place, cells)
        if self._frequencies is not None:
            self._frequencies.add(place, ids, cells.reshape(-1))

    def _link(self) -> None:
        """Labels and dense values of the same rows, and counts."""
        for one in self._selection.stretches:
            for array in one.arrays[:_SPARSE]:
                link(array.path, self._staged.result / array.path.name)
        if self._frequencies is not None:
            self._frequencies.save(self._staged.result, self._parameters.distribution)

    def _commit(self, hashes: list[Future[dict[str, Json]]]) -> Materialized:
        staged, identity = self._staged, self._identity
        before = identity.stamps()
        after = Identity(selection=locate(identity.folder, "all"), config=identity.config)
        check_unchanged(before, after.stamps())
        known = [*(one.result() for one in hashes), *identity.known_files()]
        manifest: dict[str, Json] = {
            **identity.settled(),
            "inputs": identity.inputs(),
            "parts": [
                {"name": one.part, "rows": one.stop - one.start}
                for one in self._selection.stretches
            ],
            "files": list_files(staged.result, known),
        }
        run: dict[str, Json] = {
            "finished": datetime.now(UTC).isoformat(timespec="seconds"),
            "host": host_facts(),
            "threads": self._threads,
            "seconds": self._clock.seconds(),
            "peak_rss_bytes": peak_rss(),
            "inputs": before,
            "notes": list(staged.notes),
        }
        staged.commit(manifest, run)
        return Materialized(out=staged.out, manifest=manifest, notes=staged.notes)
