"""The steps of a run as pieces of a job, each done by any process of any machine.

    read-000000/     a part, with ids of its own: parts/NAME/ as in `work_folder`, vocab/
    join-000000/     a column: vocab/cat_0.parquet; by parts the ids of the part's own values
    join-000026/     the places of shuffled rows
    arrange-000000/  a part: its ids, or where it is shuffled its rows, by buckets
    gather-000000/   the arrays of a shuffled part

A piece that is there is whole.
"""

import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ingot.converters.output.files import file_entry
from ingot.converters.output.pieces import do_piece, find_piece, piece_name
from ingot.converters.recsys.criteo import contract
from ingot.converters.recsys.criteo.preprocess.inputs import Inputs
from ingot.converters.recsys.criteo.preprocess.part_reader import PartCounts, ReadPhase
from ingot.converters.recsys.criteo.preprocess.raw_lines import parse_block
from ingot.converters.recsys.criteo.preprocess.settings import Settings
from ingot.converters.recsys.criteo.preprocess.shuffle import (
    PartRows,
    Shuffle,
    count_buckets,
    inverse_permutation,
    put_in_order,
    sort_into_buckets,
    write_sparse,
)
from ingot.converters.recsys.criteo.preprocess.vocabulary import (
    Column,
    Ids,
    finish_column,
    load_vocabulary,
)
from ingot.converters.recsys.criteo.preprocess.work_folder import WorkFolder, map_values
from ingot.converters.sources.facts import unchanged_files
from ingot.converters.sources.recognizers.criteo import DENSE, SPARSE, array_name

_PLACES: Final = "places"  # the file of join-000026


_COMPILED_ROWS: Final = 2


def compile_kernels() -> None:
    """Compile in this thread what pools of threads will call; again costs nothing."""
    # numba fails at times where several threads compile for the first time.
    block = parse_block(np.frombuffer(b"\t" * 39 + b"\n", np.uint8), labelled=True)
    PartCounts().add_dense(block.dense)
    for grows in (True, False):
        Ids("", grows=grows).ids(block.sparse[0])
    places = np.arange(_COMPILED_ROWS, dtype=np.uint32)
    sparse = np.zeros((SPARSE, _COMPILED_ROWS), np.uint32)
    dense, labels = (
        np.zeros((_COMPILED_ROWS, DENSE), np.uint32),
        np.zeros((_COMPILED_ROWS, 1), np.uint32),
    )
    records = np.zeros((_COMPILED_ROWS, 2 + DENSE + SPARSE), np.uint32)
    count_buckets(places, _COMPILED_ROWS, np.zeros(1, np.int64))
    sort_into_buckets(
        places, _COMPILED_ROWS, labels[:, 0].copy(), dense, sparse, np.zeros(1, int), records
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

    @property
    def folder(self) -> Path:
        """Where its piece appears."""
        return self.other(self.step, self.number)

    def other(self, step: str, number: int) -> Path:
        """Where the piece of another step appears."""
        return self.work / f"{step}-{piece_name(number)}"


def do_step(task: StepTask) -> Any:  # noqa: ANN401 - what the step says
    """Do a step."""

    def make(draft: Path) -> object:
        compile_kernels()
        return _STEPS[task.step](task, draft)

    do_piece(task.folder, make)
    return find_piece(task.folder)  # as others find it: its names in their order


def _read(task: StepTask, draft: Path) -> dict[str, object]:
    """Read a part as if it were all there is; returns its facts and distinct values by column."""
    part = task.inputs.parts[task.number]
    settings = replace(task.settings, vocab=None, unseen="new", frequency_threshold=0)
    only = replace(task.inputs, parts=(part,))
    reading = ReadPhase(only, settings, WorkFolder(draft), draft, lambda *_: None)
    with unchanged_files([part.entry]):
        reading.run()
    shutil.rmtree(draft / "logs")
    files = []
    if task.number >= task.shuffled:  # these arrays are final
        for kind in ("dense", "labels"):
            name = array_name(part.name, kind)
            (WorkFolder(draft).part(part.name) / f"{kind}.npy").rename(draft / name)
            files.append(file_entry(draft, Path(name)))
    distinct = [column["vocabulary"] for column in reading.columns()]
    return {"facts": reading.facts()[0], "distinct": distinct, "files": files}


def _join(task: StepTask, draft: Path) -> dict[str, object]:
    """Give the values of a column their ids, in the order of the parts."""
    if task.number == len(contract.KEYS):
        rows = sum(_rows(task)[: task.shuffled])
        places = inverse_permutation(rows, task.settings.shuffle_seed or 0)
        places.tofile(draft / _PLACES)
        return {}
    work, key = WorkFolder(draft), contract.KEYS[task.number]
    column = Column(work, task.number, task.settings)
    column.open_log(0)
    try:
        for number, part in enumerate(task.inputs.parts):
            seen = load_vocabulary(task.other("read", number), key)
            column.encode(seen.values, seen.counts).tofile(draft / part.name)
        column.logged()
    finally:
        column.close()
    facts = finish_column(column, work, task.settings, draft)
    if facts["remapped"]:
        remap = map_values(work.remap(key), np.int32)
        for part in task.inputs.parts:
            ids = np.fromfile(draft / part.name, np.int32)
            own = ids >= contract.FIRST_ID
            ids[own] = remap[ids[own] - contract.FIRST_ID]
            ids.tofile(draft / part.name)
    for folder in ("logs", "remaps"):
        shutil.rmtree(draft / folder)
    path = contract.vocabulary_path(draft, key).relative_to(draft)
    return {"facts": facts, "files": [file_entry(draft, path)]}


class _PartFolder(WorkFolder):
    """What `read` made of a part; ids become those that `join` gave."""

    def remap(self, key: str) -> Path:
        (part,) = (self.root / "parts").iterdir()
        joined = f"join-{piece_name(contract.KEYS.index(key))}"
        return self.root.parent / joined / part.name


def _arrange(task: StepTask, draft: Path) -> dict[str, object]:
    """Write the ids of a part, or its rows by buckets."""
    part, read = task.inputs.parts[task.number], task.other("read", task.number)
    shuffled = task.number < task.shuffled
    rows = PartRows(
        work=_PartFolder(read),
        name=part.name,
        rows=_rows(task)[task.number],
        remapped=frozenset(contract.KEYS),
        rounded=shuffled and task.settings.compat == "torchrec_f32",
    )
    if shuffled:
        path, before = task.other("join", len(contract.KEYS)), sum(_rows(task)[: task.number])
        places = np.fromfile(path / _PLACES, np.uint32, rows.rows, offset=4 * before)
        return {"counts": _shuffle(task, draft, places).scatter_alone(rows)}
    path = write_sparse(rows, draft, task.settings.workers)
    return {"files": [file_entry(draft, path.relative_to(draft))]}


class _RecordsFolder(WorkFolder):
    """The rows of one part, those of all buckets in one file."""

    def bucket(self, number: int) -> Path:
        return self.root / "records"


def _shuffle(task: StepTask, draft: Path, places: NDArray[np.uint32]) -> Shuffle:
    names, settings = [part.name for part in task.inputs.parts], task.settings
    parts = list(zip(names, _rows(task), strict=True))[: task.shuffled]
    return Shuffle(
        parts,
        _RecordsFolder(draft),
        draft,
        seed=0,
        threads=settings.workers,
        bucket=settings.bucket_rows,
        places=places,
    )


def _rows(task: StepTask) -> list[int]:
    folders = (task.other("read", number) for number in range(len(task.inputs.parts)))
    return [find_piece(folder)["facts"]["rows"] for folder in folders]


def _gather(task: StepTask, draft: Path) -> dict[str, object]:
    """Write the arrays of a shuffled part."""
    folders = [task.other("arrange", number) for number in range(task.shuffled)]
    scattered = [(folder / "records", find_piece(folder)["counts"]) for folder in folders]
    _shuffle(task, draft, np.empty(0, np.uint32)).gather_alone(task.number, scattered)
    name = task.inputs.parts[task.number].name
    return {"files": [file_entry(draft, Path(array_name(name, k))) for k in contract.KINDS]}


_STEPS: Final[dict[str, Callable[[StepTask, Path], object]]] = {
    "read": _read,
    "join": _join,
    "arrange": _arrange,
    "gather": _gather,
}
