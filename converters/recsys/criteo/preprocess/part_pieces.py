"""The steps of a run as pieces of a job, each done by any process of any machine.

    read-000000/       a part as `part_files` writes it; arrays that are final have their names
    columns-000000/    a column: vocab/cat_0.parquet; by parts the ids of the rows, int32
    columns-000026/    the places of shuffled rows, uint32
    shuffle-000000/    the ids of a part, or where it is shuffled its rows, by buckets
    write-000000/      the arrays of a shuffled part

A piece that is there is whole. A run that is alone deletes what no later step needs.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, cast

import numpy as np

from ingot.converters.errors import OutputError
from ingot.converters.output.files import file_entry
from ingot.converters.output.pieces import do_piece, find_piece, piece_name
from ingot.converters.recsys.criteo import contract
from ingot.converters.recsys.criteo.preprocess.inputs import Inputs
from ingot.converters.recsys.criteo.preprocess.part_files import append_values, raw_values
from ingot.converters.recsys.criteo.preprocess.part_reader import PartCounts, PartReader
from ingot.converters.recsys.criteo.preprocess.raw_lines import parse_block
from ingot.converters.recsys.criteo.preprocess.settings import Settings
from ingot.converters.recsys.criteo.preprocess.shuffle import (
    PartRows,
    Records,
    Shuffle,
    count_buckets,
    inverse_permutation,
    put_in_order,
    sort_into_buckets,
    write_sparse,
)
from ingot.converters.recsys.criteo.preprocess.vocabulary import Column, Ids, finish_column
from ingot.converters.sources.facts import unchanged_files
from ingot.converters.sources.recognizers.criteo import DENSE, SPARSE, array_name

_PLACES: Final = "places"  # the file of columns-000026
_REMAP: Final = "remap"  # of a column, where its ids are replaced: the ids by number
_ROWS: Final = 1 << 16  # few, so that the arrays stay in the cache


_COMPILED_ROWS: Final = 2


@cache
def compile_kernels() -> None:
    """Compile in this thread what pools of threads will call."""
    # numba fails at times where several threads compile for the first time.
    block = parse_block(np.frombuffer(b"\t" * 39 + b"\n", np.uint8), labelled=True)
    PartCounts().add_dense(block.dense)
    for grows in (True, False):
        Ids("", grows=grows).ids(block.sparse[0])
    positions = np.arange(_COMPILED_ROWS, dtype=np.uint32)
    sparse = np.zeros((SPARSE, _COMPILED_ROWS), np.uint32)
    dense, labels = (
        np.zeros((_COMPILED_ROWS, DENSE), np.uint32),
        np.zeros((_COMPILED_ROWS, 1), np.uint32),
    )
    records = np.zeros((_COMPILED_ROWS, 2 + DENSE + SPARSE), np.uint32)
    count_buckets(positions, _COMPILED_ROWS, np.zeros(1, np.int64))
    sort_into_buckets(
        positions, _COMPILED_ROWS, labels[:, 0].copy(), dense, sparse, np.zeros(1, int), records
    )
    put_in_order(records, 0, labels, dense, np.zeros((_COMPILED_ROWS, SPARSE), np.uint32))


@dataclass(frozen=True, kw_only=True)
class StepTask:
    """A step of a run, for one part or column of it."""

    step: str
    number: int
    inputs: Inputs
    settings: Settings
    work: Path
    shuffled: int  # parts that are
    alone: bool  # whether one process does all pieces

    @property
    def folder(self) -> Path:
        """Return where its piece appears."""
        return self.other(self.step, self.number)

    def other(self, step: str, number: int) -> Path:
        """Return where the piece of another step appears."""
        return self.work / f"{step}-{piece_name(number)}"

    def read_folders(self) -> list[Path]:
        """Return where the pieces of all parts appear."""
        return [self.other("read", number) for number in range(len(self.inputs.parts))]

    @property
    def rows(self) -> list[int]:
        """Return how many rows each part has, once all are read."""
        return [find_piece(folder)["facts"]["rows"] for folder in self.read_folders()]


ReportRows = Callable[[int], object]
"""Called with how many rows a step has done since the last call."""


def do_step(task: StepTask, report: ReportRows = lambda _: None) -> Any:  # noqa: ANN401 - by step
    """Do a step, and return what it says."""
    make_step, release = _STEPS[task.step]

    def make_piece(draft: Path) -> object:
        compile_kernels()
        return make_step(task, draft, report)

    do_piece(task.folder, make_piece)
    if task.alone:
        release(task)
    return find_piece(task.folder)  # as others find it: its names in their order


def _list_files(task: StepTask, draft: Path, *names: str) -> list[dict[str, Any]]:
    """Name files of a piece; those that are made beside others are hashed at once."""
    if task.alone:
        return [{"path": name} for name in names]
    return [cast("dict[str, Any]", file_entry(draft, Path(name))) for name in names]


def _read(task: StepTask, draft: Path, report: ReportRows) -> dict[str, object]:
    """Read a part."""
    part, stamp = task.inputs.parts[task.number], task.inputs.stamps()[task.number]
    with unchanged_files([part.entry]):
        facts = PartReader(part, draft, task.settings, report).read()
    facts["stamp"] = stamp
    names = []
    if task.number >= task.shuffled:  # these arrays are final
        for kind in ("dense", "labels"):
            names.append(array_name(part.name, kind))
            (draft / f"{kind}.npy").rename(draft / names[-1])
    return {"facts": facts, "files": _list_files(task, draft, *names)}


def _columns(task: StepTask, draft: Path, report: ReportRows) -> dict[str, object]:
    """Give the values of a column their ids, in the order of the parts."""
    if task.number == len(contract.KEYS):
        positions = inverse_permutation(sum(task.rows[: task.shuffled]), _seed(task.settings))
        positions.tofile(draft / _PLACES)
        return {}
    log = draft / "log"
    column = Column(log, task.number, task.settings)
    try:
        read = zip(task.inputs.parts, task.read_folders(), task.rows, strict=True)
        for part, folder, rows in read:
            path = raw_values(folder, column.key)
            if (stored_rows := path.stat().st_size // 4) != rows:
                problem = f"holds {stored_rows:,} of {rows:,} values: something else changed it"
                raise OutputError(str(path), problem, "start again without `resume`")
            with (draft / part.name).open("wb", buffering=0) as file:
                for start in range(0, rows, _ROWS):
                    values = np.fromfile(path, np.uint32, _ROWS, offset=4 * start)
                    append_values(cast("Any", file), column.encode(values))
                    report(len(values))
    finally:
        column.close()
    facts = finish_column(column, draft / _REMAP, task.settings, draft)
    log.unlink()
    path = contract.vocabulary_path(draft, column.key).relative_to(draft)
    return {"facts": facts, "files": _list_files(task, draft, str(path))}


def _seed(settings: Settings) -> int:
    return settings.shuffle_seed or 0


def _release_raw(task: StepTask) -> None:
    """Delete the raw values of a column that has its ids."""
    if task.number < len(contract.KEYS):
        for folder in task.read_folders():
            raw_values(folder, contract.KEYS[task.number]).unlink(missing_ok=True)


def _shuffle(task: StepTask, draft: Path, report: ReportRows) -> dict[str, object]:
    """Write the rows of a part by buckets, or its ids where it is not shuffled."""
    part, read = task.inputs.parts[task.number], task.other("read", task.number)
    columns = [task.other("columns", column) for column in range(len(contract.KEYS))]
    rows, shuffled = task.rows, task.number < task.shuffled
    source = PartRows(
        folder=read,
        rows=rows[task.number],
        ids=[folder / part.name for folder in columns],
        remaps={
            column: folder / _REMAP
            for column, folder in enumerate(columns)
            if find_piece(folder)["facts"]["remapped"]
        },
        rounded=shuffled and task.settings.compat == "torchrec_f32",
    )
    if shuffled:
        path, before = task.other("columns", len(contract.KEYS)), sum(rows[: task.number])
        positions = np.fromfile(path / _PLACES, np.uint32, source.rows, offset=4 * before)
        return {"counts": _order(task).scatter(source, positions, draft / "records", report).counts}
    name = array_name(part.name, "sparse")
    write_sparse(source, draft / name, task.settings.workers, report)
    return {"files": _list_files(task, draft, name)}


def _release_part(task: StepTask) -> None:
    """Delete what was read of a part whose rows stand elsewhere."""
    part = task.inputs.parts[task.number]
    for kind in ("dense", "labels"):
        (task.other("read", task.number) / f"{kind}.npy").unlink(missing_ok=True)
    for column in range(len(contract.KEYS)):
        (task.other("columns", column) / part.name).unlink(missing_ok=True)


def _order(task: StepTask) -> Shuffle:
    settings = task.settings
    return Shuffle(task.rows[: task.shuffled], settings.workers, settings.bucket_rows)


def _scattered(task: StepTask) -> list[Records]:
    folders = [task.other("shuffle", number) for number in range(task.shuffled)]
    return [Records(path=one / "records", counts=find_piece(one)["counts"]) for one in folders]


def _write(task: StepTask, draft: Path, report: ReportRows) -> dict[str, object]:
    """Write the arrays of a shuffled part."""
    name = task.inputs.parts[task.number].name
    names = {kind: array_name(name, kind) for kind in contract.KINDS}
    arrays = {kind: draft / file for kind, file in names.items()}
    _order(task).gather(task.number, _scattered(task), arrays, report)
    return {"files": _list_files(task, draft, *names.values())}


def _release_records(task: StepTask) -> None:
    """Delete the records that no part before this one has rows of."""
    _order(task).truncate(task.number, _scattered(task))


_STEPS: Final[
    dict[
        str,
        tuple[Callable[[StepTask, Path, ReportRows], object], Callable[[StepTask], object]],
    ]
] = {
    "read": (_read, lambda _: None),
    "columns": (_columns, _release_raw),
    "shuffle": (_shuffle, _release_part),
    "write": (_write, _release_records),
}
