"""Pieces of a job: each part does its own, and who finds all of them done goes on."""

from pathlib import Path

import pytest

from ingot.converters.errors import OutputError
from ingot.converters.output.pieces import do_piece, piece_name, run_phase
from ingot.converters.output.sharding import Spread, parse_shard

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
