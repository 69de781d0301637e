"""Pieces of a job, done in this process, in several, on a cluster, or by the parts of a job.

A piece writes into a folder that appears whole or not at all, with a document that says what came
of it. A piece that is there is not done again, whoever did it.
"""

import shutil
import socket
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias, TypeVar, cast
from uuid import uuid4

from ingot.converters.errors import OutputError, PartDone
from ingot.converters.json_yaml import load_json
from ingot.converters.output.files import encode_json, output_errors, sync_tree
from ingot.converters.output.sharding import (
    JobShard,
    Spread,
    check_complete,
    own_tasks,
    part_of_job,
)
from ingot.converters.output.worker_pool import Runner, Workers, results_in_order
from ingot.converters.progress import ProgressTally, raise_if_stopping, until_stopping, usable_cores

Task = TypeVar("Task")
Done = TypeVar("Done")
PIECE_FILE: Final = "piece.json"
SHARED_HINT: Final = "use storage that all machines share, or an object store"


def piece_name(number: int) -> str:
    """Return the name of a finished piece's folder."""
    return f"{number:06d}"


def find_piece(folder: Path) -> Any:  # noqa: ANN401 - what its maker returned
    """Return the document of a finished piece, None if it is not finished."""
    done = folder / PIECE_FILE
    return load_json(done, own=True) if done.exists() else None


def do_piece(folder: Path, make: Callable[[Path], Done]) -> Done:
    """Have a piece made in a draft that takes the name `folder`, or find it done.

    `make` writes files into the draft and returns a JSON document. Raises OutputError.
    """
    with output_errors(folder.parent):
        if (done := find_piece(folder)) is not None:
            return cast("Done", done)
        if not folder.parent.is_dir():  # making it would hide the piece from everybody else
            problem = f"is not there on {socket.gethostname()}"
            raise OutputError(str(folder.parent), problem, SHARED_HINT)
        draft = folder.with_name(f".{folder.name}-{uuid4().hex[:8]}")
        try:
            draft.mkdir()
            document = make(draft)
            (draft / PIECE_FILE).write_bytes(encode_json(document))
            sync_tree(draft)
            try:
                draft.rename(folder)
            except OSError:  # an equal one of an orphan that was there first is as good
                if find_piece(folder) is None:
                    raise
                shutil.rmtree(draft, ignore_errors=True)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            raise
        return document


# Gives the files of a piece by its document: their names in its folder, and in the result.
NameFiles: TypeAlias = Callable[[Done], Iterable[tuple[str, str]]]


class PiecePlace(Protocol):
    """Where the pieces of a job lie once they are finished."""

    def finished(self) -> set[str]:
        """Return the names of the pieces that are finished."""

    def do_piece(self, name: str, make: Callable[[Path], Done], files: NameFiles[Done]) -> Done:
        """Have a piece made in a folder, or find it done."""


@dataclass(frozen=True)
class PieceFolders:
    """Pieces in folders that all workers of a job share."""

    work: Path

    def finished(self) -> set[str]:
        """Return the names of the pieces that are finished."""
        return {done.parent.name for done in self.work.glob(f"*/{PIECE_FILE}")}

    def do_piece(self, name: str, make: Callable[[Path], Done], files: NameFiles[Done]) -> Done:
        """Have a piece made in a draft that takes its name, or find it done."""
        return do_piece(self.work / name, make)


def take_file(source: Path, target: Path) -> None:
    """Move a file of a piece into the result, or find it moved. Raises OutputError."""
    with output_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.exists():
            source.rename(target)
        elif not target.exists():
            raise OutputError(str(source), "was made elsewhere and is not there", SHARED_HINT)


def spread_tasks(
    settings: Spread,
    work: Callable[[Task], Done],
    tasks: Iterable[Task],
    count: int,
    *,
    work_here: Callable[[Task], Done] | None = None,
    runner: Runner | None = None,
    hear: Callable[[Any], None] | None = None,
) -> Iterator[Done]:
    """Yield the result of `work` for each of `count` tasks, in their order.

    No more of them are begun once the job is to end.
    `work_here` does a task in this process, where it differs from `work`; beside others only if
    somebody may `hear` what those tell.
    """
    workers = max(1, min(settings.workers or usable_cores(), count))
    tasks = until_stopping(tasks)
    if runner is not None:
        yield from results_in_order(runner, work, tasks, window=4 * workers)
    elif settings.runner == "ray":
        from ingot.converters.output.ray_workers import RayWorkers

        with RayWorkers(settings.ray_address) as cluster:
            yield from results_in_order(cluster, work, tasks, window=4 * cluster.jobs)
    elif settings.runner == "local" or workers == 1:
        yield from map(work_here or work, tasks)
    else:
        # This process works, too: it has all that a new one would have to load.
        worker_count = workers - 1
        own_work = work_here if work_here and hear else work
        with Workers(worker_count, hear=hear or (lambda _: None)) as pool:
            yield from results_in_order(
                pool, work, tasks, window=2 * worker_count, work_here=own_work
            )


def run_phase(
    settings: Spread,
    work: Callable[[Task], Done],
    tasks: Sequence[Task],
    folders: Sequence[Path],
    sizes: Sequence[int],
    report: Callable[[int, Done], object] = lambda *_: None,
    runner: Runner | None = None,
) -> list[Done] | None:
    """Do all pieces of a phase; None where another part of the job has not done its own yet.

    Args:
        settings: who does them.
        work: does a task, by `do_piece`.
        tasks: one for each piece.
        folders: where each piece appears.
        sizes: bytes of each, so that parts get equal shares.
        report: is called with the number and the document of each piece of this run, once done.
        runner: does the tasks in place of this process.

    Raises:
        OutputError: a merge finds that pieces are missing.
    """
    shard = settings.shard
    if shard is not None and shard.merges:
        missing = [number for number, folder in enumerate(folders) if find_piece(folder) is None]
        check_complete(folders[0].parent if folders else "", missing, len(folders))
    own_numbers = own_tasks(shard, sizes)
    done = spread_tasks(
        settings, work, (tasks[number] for number in own_numbers), len(own_numbers), runner=runner
    )
    results: dict[int, Done] = {}
    for number, piece in zip(own_numbers, done, strict=False):
        results[number] = piece
        report(number, piece)
    if len(results) < len(own_numbers):  # the job is to end
        raise_if_stopping()
    if len(results) < len(tasks):
        results |= {
            number: other
            for number, folder in enumerate(folders)
            if number not in results and (other := find_piece(folder)) is not None
        }
    return [results[number] for number in range(len(tasks))] if len(results) == len(tasks) else None


def part_done(
    out: Path | str, shard: JobShard | None, sizes: Sequence[int], phase: str | None = None
) -> PartDone:
    """Return the document that says that a part of a job is done; `sizes` are its pieces' bytes."""
    shard = shard or JobShard(0, 1)
    return PartDone(str(out), str(shard), len(shard.own(sizes)), len(sizes), phase)


class PieceTask(Protocol):
    """A task, by `do_piece`."""

    @property
    def folder(self) -> Path:
        """Return where its piece appears."""


APiece = TypeVar("APiece", bound=PieceTask)


class Phases:
    """The phases of a job, `count` of them; each begins when all pieces of the last one are there.

    `tally` counts the pieces of this run; their rows too, where others than this process do them.
    """

    def __init__(self, spread: Spread, out: Path | str, count: int, tally: ProgressTally) -> None:
        self._spread, self._out, self._count, self._tally = spread, out, count, tally
        self._number = 0

    def run(
        self,
        name: str,
        work: Callable[[APiece], Done],
        tasks: Sequence[APiece],
        sizes: list[int],
        count_rows: Callable[[APiece, Done], int] = lambda *_: 0,
        runner: Runner | None = None,
    ) -> list[Done]:
        """Do the next phase, and return what came of its pieces. Raises PartDone as `run_phase`.

        `count_rows` gives the rows of a piece. In this process `work` adds them to the tally as it
        goes; other processes cannot.
        """
        self._number += 1
        shard = self._spread.shard
        self._tally.begin(name, len(own_tasks(shard, sizes)))

        def report(number: int, piece: Done) -> None:
            is_elsewhere = self._spread.runner != "local"
            self._tally.add(count_rows(tasks[number], piece) if is_elsewhere else 0, done=1)

        folders = [task.folder for task in tasks]
        done = run_phase(self._spread, work, tasks, folders, sizes, report, runner)
        last = self._number == self._count
        if done is None or (part_of_job(shard) and last):
            phase = None if last else f"{self._number}/{self._count}"
            raise part_done(self._out, shard, sizes, phase)
        return done
