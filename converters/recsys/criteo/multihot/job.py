"""Widen every id of preprocessed Criteo data to several: `day_0_sparse_multi_hot.npz`, ..."""

import os
import shutil
import struct
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from ingot import __version__
from ingot.converters import json_yaml
from ingot.converters.errors import (
    ArgumentError,
    OutputError,
    ParametersError,
    Problem,
    SourceError,
)
from ingot.converters.output.commit import StagedResult, find_finished
from ingot.converters.output.files import (
    FileEntry,
    FinishedBlock,
    InputEntry,
    InputStamp,
    check_unchanged,
    file_entry,
    output_errors,
    sync_path,
)
from ingot.converters.output.identity import CommittedResult, RunIdentity, existing_result
from ingot.converters.progress import (
    Clock,
    ProgressTally,
    Watch,
    peak_rss,
    raise_if_stopping,
    usable_cores,
)
from ingot.converters.recsys.criteo.contract import (
    KINDS,
    Selection,
    StoredArray,
    locate_arrays,
    npy_header,
    take_modulo,
    write_all,
)
from ingot.converters.recsys.criteo.multihot.conversion import Frequencies
from ingot.converters.recsys.criteo.multihot.id_tables import (
    Parameters,
    Tables,
    check_room,
    open_tables,
)

_LARGEST: Final = 1 << 20  # bytes of such a file
_DOCUMENT: Final = "what docs/criteo.md says"


@dataclass(frozen=True, kw_only=True)
class Config:
    """What a file says."""

    parameters: Parameters
    collect: bool


def load_config(path: Path) -> Config:
    """Read a file of parameters; `schemas/multihot.schema.json` is its shape."""
    try:
        if path.stat().st_size > _LARGEST:
            raise ValueError(f"larger than {_LARGEST >> 20} MiB: no file of parameters")
        document = json_yaml.read_yaml(path.read_text("utf-8"))  # JSON is YAML
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or " ".join(str(error).split())[:300]
        reason = "not UTF-8" if isinstance(error, UnicodeDecodeError) else reason
        problem = Problem("", "unreadable", "parameters", f"cannot be read: {reason}")
        raise ParametersError(str(path), (problem,)) from error
    problems = [Problem("", "schema", "names and values", type(document).__name__)]
    if isinstance(document, dict):
        violations = json_yaml.violations("multihot", document)
        problems = [
            Problem(location, "schema", _DOCUMENT, message[:300])
            for location, message in violations
        ]
    if problems:
        raise ParametersError(str(path), tuple(problems))
    collect = document.pop("collect_multi_hot_freqs_stats", False)
    try:
        return Config(parameters=Parameters.of(**document), collect=collect)
    except ArgumentError as error:
        pointer = "/" + error.argument.replace("[", "/").removesuffix("]")
        problem = Problem(pointer, "contradiction", _DOCUMENT, error.problem)
        raise ParametersError(str(path), (problem,)) from error


FORMAT: Final = 1


def array_stamps(selection: Selection) -> list[InputStamp]:
    """Return what tells each array from a changed one without reading it."""
    return [
        {"name": array.path.name, "bytes": array.size, "mtime_ns": array.changed}
        for array in selection.arrays
    ]


def known_files(selection: Selection) -> list[FileEntry]:
    """Return path, bytes and sha256 of those arrays that a manifest beside them knows."""
    finished = find_finished(Path(selection.where))
    names = {array.path.name for array in selection.arrays}
    files = finished.manifest["files"] if finished else []
    return [entry for entry in files if entry["path"] in names]


def array_entries(selection: Selection) -> list[InputEntry]:
    """Return name, bytes and sha256 of each array; those that no manifest knows are read."""
    folder = Path(selection.where)
    known = {entry["path"]: entry for entry in known_files(selection)}
    names = [array.path.name for array in selection.arrays]
    entries = [known.get(name) or file_entry(folder, Path(name)) for name in names]
    return [
        {"name": one["path"], "bytes": one["bytes"], "sha256": one["sha256"]} for one in entries
    ]


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
    """Give a finished file a second name, or copy it where the file system has no such thing."""
    target.unlink(missing_ok=True)
    try:
        os.link(os.path.realpath(source), target)
    except OSError:
        shutil.copyfile(source, target)
        return False
    return True


_VALUES: Final = 1 << 23  # about how many ids are made at a time: 32 MiB
_SPARSE: Final = KINDS.index("sparse")


def multi_hot_name(part: str) -> str:
    """Return the archive of a part's ids: "0" to "25", each int32 (rows, ids of a cell)."""
    return f"{part}_sparse_multi_hot.npz"


def materialize(
    folder: Path,
    config: Config,
    out: Path | str,
    *,
    tables: Path | None = None,
    threads: int = 0,
    overwrite: bool = False,
    progress: Watch | None = None,
) -> CommittedResult:
    """Write a folder of widened data, as the benchmark's sets are shipped.

    Ids are taken modulo num_embeddings first. Dense values and labels are linked, or copied where
    the file system has no links. A part that was finished before a run was killed is kept, unless
    ids are counted.
    """
    for content, path in (("the data", folder), ("the tables", tables)):
        if path is not None and path.resolve().is_relative_to(Path(out).resolve()):
            problem = f"is where {content} are, or a folder around it"
            raise OutputError(str(out), problem, "choose another folder")
    selection = locate_arrays(folder, "all")
    identity = widening_identity(selection, config)
    with identity.stage(out, overwrite=overwrite) as staged:
        if done := existing_result(staged):
            return done
        with output_errors(staged.work):
            workers = threads or usable_cores()
            run = _Run(selection, config, staged, workers, ProgressTally(progress))
            return run.run(identity, tables or staged.work)


class _Run:
    """One run, from the tables to the committed folder."""

    def __init__(
        self,
        selection: Selection,
        config: Config,
        staged: StagedResult,
        threads: int,
        tally: ProgressTally,
    ) -> None:
        self._selection, self._parameters = selection, config.parameters
        self._staged, self._tally, self._threads = staged, tally, threads
        self._frequencies: Frequencies | None = None
        if config.collect:
            self._frequencies = Frequencies(self._parameters.num_embeddings)
            shutil.rmtree(staged.result)  # counts of finished parts are not kept
            staged.result.mkdir()
        self._clock = Clock()

    def run(self, identity: RunIdentity, tables_folder: Path) -> CommittedResult:
        self._clock.start("tables")
        tables = open_tables(self._parameters, tables_folder)
        self._clock.start("write")
        stretches, result = self._selection.stretches, self._staged.result
        pending = [one for one in stretches if not (result / multi_hot_name(one.part)).exists()]
        rows = sum(one.stop - one.start for one in pending)
        check_room(self._staged.work, 4 * rows * sum(self._parameters.sizes), "ids")
        with ThreadPoolExecutor(1, "hash") as hashing, ThreadPoolExecutor(self._threads) as pool:
            hashes = []
            self._tally.begin("write", len(stretches))
            for one in stretches:
                path = result / multi_hot_name(one.part)
                if one in pending:
                    raise_if_stopping()
                    self._write(path, one.arrays[_SPARSE], tables, pool)
                hashes.append(hashing.submit(file_entry, result, Path(path.name)))
                self._tally.add(0, done=1)
            for array in (array for one in stretches for array in one.arrays[:_SPARSE]):
                link_file(array.path, result / array.path.name)
            if self._frequencies is not None:
                self._frequencies.save(result, self._parameters.distribution)
            self._clock.start("hash")
            known = [*(entry.result() for entry in hashes), *known_files(self._selection)]
            return self._commit(identity, known)

    def _write(
        self, path: Path, array: StoredArray, tables: Tables, pool: ThreadPoolExecutor
    ) -> None:
        sizes = self._parameters.sizes
        step = max(1, _VALUES // sum(sizes))
        unfinished = self._staged.work / "unfinished.npz"
        order = sorted(range(len(sizes)), key=lambda feature: -sizes[feature])  # long ones first
        with array.path.open("rb") as file, NpzWriter(unfinished, array.shape[0], sizes) as npz:
            file.seek(array.offset)

            def widen(feature: int) -> None:
                ids, table = columns[feature], tables[feature]
                cells = ids.astype(np.int32, copy=False) if table is None else table.take(ids, 0)
                npz.write(feature, cells)
                if self._frequencies is not None:
                    self._frequencies.add(feature, ids, cells.reshape(-1))

            for start in range(0, array.shape[0], step):
                count = min(step, array.shape[0] - start)
                rows = np.fromfile(file, array.dtype, count * array.shape[1])
                if len(rows) < count * array.shape[1]:
                    hint = "run again when nothing writes to it"
                    raise SourceError(str(array.path), "got shorter while it was read", hint)
                columns = np.array(rows.reshape(count, -1).T, order="C")
                take_modulo(columns, self._parameters.num_embeddings)
                for _ in pool.map(widen, order):
                    pass
                self._tally.add(count)
        sync_path(unfinished)  # under its name it is taken for finished, also after a power cut
        unfinished.rename(path)

    def _commit(self, identity: RunIdentity, known: list[FileEntry]) -> CommittedResult:
        staged, selection = self._staged, self._selection
        check_unchanged(identity.stamps or (), array_stamps(locate_arrays(selection.where, "all")))
        parts = [{"name": one.part, "rows": one.stop - one.start} for one in selection.stretches]
        inputs = identity.entries() if identity.entries else []
        facts = {"threads": self._threads, "seconds": self._clock.seconds()}
        manifest, _ = identity.commit(
            staged,
            {"inputs": inputs, "parts": parts},
            {**facts, "peak_rss_bytes": peak_rss()},
            known,
        )
        return CommittedResult(out=staged.place, manifest=manifest, notes=staged.notes)


# The archives have the bytes of `numpy.savez`, in the form that Python wrote before 3.11.4, which
# the published sets of the benchmark have. Members are stored as they are, one behind another.
_LIMIT: Final = (1 << 31) - 1
"""The largest size and offset that are written with 32 bits, as Python has it."""
_BEYOND: Final = 0xFFFFFFFF
_PLAIN, _ZIP64 = 20, 45  # versions of the format that a reader needs
_DATE: Final = 1 << 5 | 1  # 1980-01-01
_UNIX: Final = 3
_RIGHTS: Final = 0o600 << 16
_LOCAL: Final = struct.Struct("<4sBBHHHHLLLHH")
_CENTRAL: Final = struct.Struct("<4s4B4HL2L5H2L")
_END64: Final = struct.Struct("<4sQ2H2L4Q")
_LOCATOR: Final = struct.Struct("<4sLQL")
_END: Final = struct.Struct("<4s4H2LH")


@dataclass(frozen=True, kw_only=True)
class Member:
    """A matrix in an archive."""

    name: str
    offset: int
    size: int
    npy: bytes

    @property
    def data(self) -> int:
        """Return the offset of the .npy file."""
        return self.offset + len(self.local_header(0))

    def local_header(self, crc: int) -> bytes:
        """Return the bytes before the content."""
        is_large, name = self.size > _LIMIT, self.name.encode()
        size = _BEYOND if is_large else self.size
        extra = struct.pack("<HHQQ", 1, 16, self.size, self.size)
        fixed = (b"PK\3\4", _ZIP64 if is_large else _PLAIN, 0, 0, 0, 0, _DATE, crc, size, size)
        return _LOCAL.pack(*fixed, len(name), len(extra)) + name + extra

    def central_header(self, crc: int) -> bytes:
        """Return the entry in the directory."""
        name, size, offset, large_values = self.name.encode(), self.size, self.offset, []
        if size > _LIMIT:
            large_values += [size, size]
            size = _BEYOND
        if offset > _LIMIT:
            large_values.append(offset)
            offset = _BEYOND
        extra = (
            struct.pack(f"<HH{len(large_values)}Q", 1, 8 * len(large_values), *large_values)
            if large_values
            else b""
        )
        version = _ZIP64 if large_values else _PLAIN
        fixed = (b"PK\1\2", version, _UNIX, version, 0, 0, 0, 0, _DATE, crc, size, size)
        rest = (len(name), len(extra), 0, 0, 0, _RIGHTS, offset)
        return _CENTRAL.pack(*fixed, *rest) + name + extra


def place_members(rows: int, widths: Sequence[int]) -> list[Member]:
    """Return the members "0.npy", "1.npy", ... of int32 matrices [rows, width] with offsets."""
    placed: list[Member] = []
    offset = 0
    for number, width in enumerate(widths):
        npy = npy_header("<i4", (rows, width))
        size = len(npy) + 4 * rows * width
        placed.append(Member(name=f"{number}.npy", offset=offset, size=size, npy=npy))
        offset = placed[-1].data + size
    return placed


def archive_directory(placed: Sequence[Member], crcs: Sequence[int], start: int) -> bytes:
    """Return the directory of an archive, which begins at `start`."""
    central = b"".join(one.central_header(crc) for one, crc in zip(placed, crcs, strict=True))
    count, size, end = len(placed), len(central), b""
    if start > _LIMIT:
        sizes = (count, count, size, start)
        end = _END64.pack(b"PK\6\6", 44, _ZIP64, _ZIP64, 0, 0, *sizes)
        end += _LOCATOR.pack(b"PK\6\7", 0, start + size, 1)
    return central + end + _END.pack(b"PK\5\6", 0, 0, count, count, size, min(start, _BEYOND), 0)


class NpzWriter(FinishedBlock):
    """Writes matrices from their first rows to their last, also in different threads."""

    def __init__(self, path: Path, rows: int, widths: Sequence[int]) -> None:
        self._members = place_members(rows, widths)
        self._crcs = [crc32(one.npy) for one in self._members]
        self._at = [one.data + len(one.npy) for one in self._members]
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)

    def write(self, member: int, rows: NDArray[np.int32]) -> None:
        """Append rows [n, width] to a matrix."""
        block = np.ascontiguousarray(rows, "<i4")
        self._crcs[member] = crc32(block.data, self._crcs[member])
        write_all(self._file, block, self._at[member])
        self._at[member] += block.nbytes

    def abandon(self) -> None:
        """Close the file."""
        os.close(self._file)

    def close(self) -> None:
        """Write what stands around the matrices; they have to be whole."""
        for one, crc, position in zip(self._members, self._crcs, self._at, strict=True):
            if position != one.data + one.size:
                raise ValueError(
                    f"{one.name}: {position - one.data} of {one.size} bytes were written"
                )
            beginning = one.local_header(crc) + one.npy
            write_all(self._file, np.frombuffer(beginning, np.uint8), one.offset)
        last = self._members[-1]
        end = last.data + last.size
        tail = archive_directory(self._members, self._crcs, end)
        write_all(self._file, np.frombuffer(tail, np.uint8), end)
