"""Widen every id of preprocessed Criteo data to several: `day_0_sparse_multi_hot.npz`, ..."""

import os
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ingot import __version__
from ingot.converters import json_yaml
from ingot.converters.errors import OutputError, ParametersError, Problem, SourceError
from ingot.converters.json_yaml import violations
from ingot.converters.output.commit import StagedResult, find_finished
from ingot.converters.output.files import check_unchanged, file_entry, output_errors, sync_path
from ingot.converters.output.identity import ALREADY_DONE, RunIdentity
from ingot.converters.progress import Clock, Progress, Watch, peak_rss, usable_cores
from ingot.converters.recsys.criteo.multihot.conversion import Frequencies
from ingot.converters.recsys.criteo.multihot.id_tables import (
    FEATURE,
    UNIFORM,
    Parameters,
    Tables,
    check_room,
    open_tables,
)
from ingot.converters.recsys.criteo.multihot.npz import NpzWriter
from ingot.converters.recsys.criteo.stored_arrays import (
    KINDS,
    Selection,
    StoredArray,
    locate_arrays,
    take_modulo,
)
from ingot.converters.rows import Json

_LARGEST: Final = 1 << 20  # bytes of such a file


@dataclass(frozen=True, kw_only=True)
class Config:
    """What a file says."""

    parameters: Parameters
    collect: bool


def load_config(path: Path) -> Config:
    """Read a file of parameters; `schemas/multihot.schema.json` is its shape."""
    document = _read_document(path)
    problems = list(_check_shape(document))
    if problems:
        raise ParametersError(str(path), tuple(problems))
    try:
        return _build_config(document)
    except ValueError as error:
        name, _, said = str(error).partition(": ")
        pointer = "/" + name.replace("[", "/").removesuffix("]")
        raise ParametersError(
            str(path), (Problem(pointer, "contradiction", "what docs/criteo.md says", said),)
        ) from error


def _read_document(path: Path) -> Any:  # noqa: ANN401 - whatever the file holds
    try:
        if path.stat().st_size > _LARGEST:
            raise ValueError(f"larger than {_LARGEST >> 20} MiB: no file of parameters")
        return json_yaml.read_yaml(path.read_text("utf-8"))  # JSON is YAML
    except UnicodeDecodeError as error:
        raise _unreadable_error(path, "not UTF-8") from error
    except (OSError, ValueError) as error:
        said = getattr(error, "strerror", None) or " ".join(str(error).split())[:300]
        raise _unreadable_error(path, said) from error


def _unreadable_error(path: Path, said: str) -> ParametersError:
    problem = Problem("", "unreadable", "parameters", f"cannot be read: {said}")
    return ParametersError(str(path), (problem,))


def _check_shape(document: object) -> Iterator[Problem]:
    if not isinstance(document, dict):
        yield Problem("", "schema", "names and values", type(document).__name__)
        return
    for pointer, message in violations("multihot", document):
        yield Problem(pointer, "schema", "what docs/criteo.md says", message[:300])


def _build_config(document: dict[str, Any]) -> Config:
    parameters = Parameters.of(
        document["num_embeddings"],
        document.get("multi_hot_size"),
        document.get("multi_hot_min_table_size"),
        document.get("multi_hot_sizes"),
        document.get("multi_hot_distribution_type", UNIFORM),
        document.get("seeding", FEATURE),
    )
    return Config(
        parameters=parameters, collect=document.get("collect_multi_hot_freqs_stats", False)
    )


FORMAT: Final = 1


def array_stamps(selection: Selection) -> list[dict[str, Json]]:
    """Return what tells each array from a changed one without reading it."""
    return [
        {"name": array.path.name, "bytes": array.size, "mtime_ns": array.changed}
        for array in selection.arrays
    ]


def known_files(selection: Selection) -> list[dict[str, Json]]:
    """Return path, bytes and sha256 of those arrays that a manifest beside them knows."""
    there = find_finished(Path(selection.where))
    names = {array.path.name for array in selection.arrays}
    files = there.manifest["files"] if there else []
    return [entry for entry in files if entry["path"] in names]


def array_entries(selection: Selection) -> list[dict[str, Json]]:
    """Return name, bytes and sha256 of each array; those that no manifest knows are read."""
    folder = Path(selection.where)
    known = {entry["path"]: entry for entry in known_files(selection)}
    names = [array.path.name for array in selection.arrays]
    entries = [known.get(name) or file_entry(folder, Path(name)) for name in names]
    return [{("name" if key == "path" else key): entry[key] for key in entry} for entry in entries]


def widening_identity(selection: Selection, config: Config) -> RunIdentity:
    """Return what decides the bytes of widened data."""
    return RunIdentity(
        settled={
            "decision": "criteo_multihot",
            "versions": {"ingot": __version__, "criteo_multihot": FORMAT},
            "parameters": config.parameters.to_json(),
            "collect_multi_hot_freqs_stats": config.collect,
        },
        place=str(Path(selection.where).absolute()),
        stamps=array_stamps(selection),
        entries=cache(lambda: array_entries(selection)),
    )


def link_file(source: Path, target: Path) -> bool:
    """Give a file a second name, or copy it where the file system has no such thing.

    ingot never writes into a file that is finished, so that two results can share one. Who changes
    files in place changes both.
    """
    target.unlink(missing_ok=True)
    try:
        os.link(os.path.realpath(source), target)
    except OSError:
        shutil.copyfile(source, target)
        return False
    return True


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
    """
    _check_apart(folder, out, tables)
    selection = locate_arrays(folder, "all")
    identity = widening_identity(selection, config)
    with identity.stage(out, overwrite=overwrite) as staged:
        if staged.done:
            notes = (*staged.notes, ALREADY_DONE)
            manifest = staged.done.manifest
            return Materialized(out=staged.out, manifest=manifest, already_done=True, notes=notes)
        with output_errors(staged.work):
            workers = threads or usable_cores()
            run = _Run(selection, config, staged, workers, block, progress)
            return run.run(identity, tables or staged.work)


def _check_apart(folder: Path, out: Path, tables: Path | None) -> None:
    for what, place in (("the data", folder), ("the tables", tables)):
        if place is not None and place.resolve().is_relative_to(out.resolve()):
            said = f"is where {what} are, or a folder around it"
            raise OutputError(str(out), said, "choose another folder")


class _Run:
    """One run, from the tables to the committed folder."""

    def __init__(
        self,
        selection: Selection,
        config: Config,
        staged: StagedResult,
        threads: int,
        block: int,
        progress: Watch | None,
    ) -> None:
        self._selection, self._parameters = selection, config.parameters
        self._staged, self._watch = staged, progress
        self._threads, self._block = threads, block
        self._frequencies: Frequencies | None = None
        if config.collect:
            self._frequencies = Frequencies(self._parameters.num_embeddings)
            shutil.rmtree(staged.result)  # counts of finished parts are not kept
            staged.result.mkdir()
        self._clock = Clock()
        self._rows = 0

    def run(self, identity: RunIdentity, tables_folder: Path) -> Materialized:
        self._clock.start("tables")
        tables = open_tables(self._parameters, tables_folder)
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
            known = [*(entry.result() for entry in hashes), *known_files(self._selection)]
            return self._commit(identity, known)

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
        sync_path(unfinished)  # under its name it is taken for finished, also after a power cut
        unfinished.rename(path)

    def _columns(
        self, array: StoredArray, rows: NDArray[np.integer], count: int
    ) -> NDArray[np.integer]:
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
        for one in self._selection.stretches:
            for array in one.arrays[:_SPARSE]:
                link_file(array.path, self._staged.result / array.path.name)
        if self._frequencies is not None:
            self._frequencies.save(self._staged.result, self._parameters.distribution)

    def _commit(self, identity: RunIdentity, known: list[dict[str, Json]]) -> Materialized:
        staged, selection = self._staged, self._selection
        check_unchanged(identity.stamps, array_stamps(locate_arrays(selection.where, "all")))
        parts = [{"name": one.part, "rows": one.stop - one.start} for one in selection.stretches]
        manifest, _ = identity.commit(
            staged,
            {"inputs": identity.entries() if identity.entries else [], "parts": parts},
            {
                "threads": self._threads,
                "seconds": self._clock.seconds(),
                "peak_rss_bytes": peak_rss(),
            },
            known,
        )
        return Materialized(out=staged.out, manifest=manifest, notes=staged.notes)
