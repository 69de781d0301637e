"""Pieces of a job: each part does its own, and who finds all of them done goes on."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ingot.converters.errors import OutputError
from ingot.converters.output.pieces import Phases, do_piece, piece_name, run_phase
from ingot.converters.output.sharding import Spread, parse_shard
from ingot.converters.progress import Progress, ProgressTally

SIZES = [1, 1, 1, 1]


def run_part(folder: Path, shard: str) -> list[str] | None:
    """Do a part of a job of four pieces, each of which gives its name; returns those of all."""
    folders = [folder / piece_name(number) for number in range(len(SIZES))]
    settings = Spread(runner="local", shard=parse_shard(shard))

    def work(piece: Path) -> dict[str, str]:
        return do_piece(piece, lambda _: {"name": piece.name})

    done = run_phase(settings, work, folders, folders, SIZES)
    return done and [one["name"] for one in done]


def test_the_part_that_finds_all_pieces_done_goes_on(tmp_path: Path) -> None:
    names = [piece_name(number) for number in range(len(SIZES))]
    assert run_part(tmp_path, "1/2") is None  # the pieces of the other part are missing
    assert sorted(one.name for one in tmp_path.iterdir()) == names[2:]
    with pytest.raises(OutputError, match="2 of 4 pieces are not done, the first is 0"):
        run_part(tmp_path, "merge")
    assert run_part(tmp_path, "0/2") == names
    assert run_part(tmp_path, "merge") == names


@dataclass(frozen=True)
class RowTask:
    """A piece of so many rows."""

    folder: Path
    rows: int


def do_rows(task: RowTask) -> dict[str, Any]:
    return do_piece(task.folder, lambda _: {"rows": task.rows})


@pytest.mark.parametrize(("workers", "rows"), [(None, 0), (1, 10), (2, 10)])
def test_rows_of_pieces_that_other_processes_do_are_counted(
    tmp_path: Path, workers: int | None, rows: int
) -> None:
    """In this process `work` adds them as it goes, here it adds none."""
    seen: list[Progress] = []
    phases = Phases(Spread(workers=workers), tmp_path, 2, ProgressTally(seen.append))
    for stage in ("scan", "write"):
        tasks = [RowTask(tmp_path / f"{stage}-{at}", at + 1) for at in range(len(SIZES))]
        done = phases.run(stage, do_rows, tasks, SIZES, lambda _, piece: piece["rows"])
        assert [one["rows"] for one in done] == [1, 2, 3, 4]
        last = Progress(stage=stage, shards_done=4, shards=4, rows=rows, records=rows)
        assert seen[-1] == last
        assert next(one.shards_done for one in seen if one.stage == stage) == 0
