"""Counts and rejects of long documents: every row ends in one way."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ingot.converters.errors import ConversionError
from ingot.converters.megatron.engines.engine import Encoded
from ingot.converters.megatron.run.pipeline import NOT_TOKENIZED_REASON
from ingot.converters.megatron.text.documents import GOES_ON, NEW_DOCUMENT, DocumentRules, Shard
from ingot.converters.megatron.write.lanes import Lane, LaneStretch, lane_file
from ingot.converters.megatron.write.unit_writer import UNIT_COUNTS, TokenizedShard, UnitWriter
from ingot.converters.rows import Reject

RULES = DocumentRules(dtype="uint16", eod=0)


def reject(reason: str) -> Reject:
    return Reject(file="f", row=3, element=None, reason=reason, path=None, found="x")


def piece(ids: list[int], *, opens: bool = False, failed: bool = False) -> TokenizedShard:
    kind = NEW_DOCUMENT if opens else GOES_ON
    shard = Shard(
        texts=pa.array(["x"], pa.large_string()),
        rows=np.array([3]),
        kinds=np.array([kind], np.uint8),
        long=True,
        opens=opens,
    )
    encoded = Encoded(ids=np.array(ids, np.uint32), lengths=np.array([len(ids)]))
    own = (reject(NOT_TOKENIZED_REASON),) if failed else ()
    return TokenizedShard(shard=shard, encoded=encoded, failed=own)


def closing(**more: Any) -> TokenizedShard:
    shard = Shard(long=True, closes=True, **more)
    return TokenizedShard(shard=shard, rejects=shard.rejects, tally=shard.tally)


def written(
    folder: Path, *parts: TokenizedShard, rules: DocumentRules = RULES, **more: Any
) -> tuple[LaneStretch, list[int], int]:
    """The unit, its tokens, the number of its rejects."""
    with Lane(base=folder / "a") as lane:
        writer = UnitWriter(lane, rules, **{"pack": None, "fail_fast": False, **more})
        for part in parts:
            writer.write(part)
        stretch = writer.finish(0)
    tokens: list[int] = np.fromfile(lane_file(folder / "a", 0, "bin"), "<u2").tolist()
    return stretch, tokens, lane_file(folder / "a", 0, "rejects").read_bytes().count(b"\n")


def counted(stretch: LaneStretch) -> dict[str, int]:
    assert tuple(stretch.facts) == UNIT_COUNTS
    return {name: count for name, count in stretch.facts.items() if count}


@pytest.mark.parametrize("pack", [None, 8])
def test_pieces_are_one_document(tmp_path: Path, pack: int | None) -> None:
    parts = (piece([1, 2], opens=True), piece([3]), closing(tally={"rows": 1}))
    stretch, tokens, rejects = written(tmp_path, *parts, pack=pack)
    assert (tokens, rejects) == ([1, 2, 3, 0], 0)
    assert counted(stretch) == {"rows": 1, "documents": 1, "sequences": 1, "tokens": 4}


@pytest.mark.parametrize("pack", [None, 8])
def test_a_piece_that_fails_takes_its_document_with_it_once(
    tmp_path: Path, pack: int | None
) -> None:
    parts = (
        *(piece([1], opens=True), piece([], failed=True), piece([], failed=True), closing()),
        *(piece([5], opens=True), closing()),
    )
    stretch, tokens, rejects = written(tmp_path, *parts, pack=pack)
    assert (tokens, rejects) == ([5, 0], 1)
    assert counted(stretch) == {"documents": 1, "sequences": 1, "tokens": 2, "rejected": 1}


@pytest.mark.parametrize("way", ["long", "short", "rejected"])
def test_what_the_preparation_leaves_out_is_counted_there_alone(tmp_path: Path, way: str) -> None:
    own = (reject("too_long"),) if way == "rejected" else ()
    end = closing(dropped=True, tally={way: 1}, rejects=own)
    parts = (piece([1, 2, 3], opens=True), piece([], failed=True), end)
    rules = DocumentRules(dtype="uint16", max_tokens=2, min_tokens=1)
    stretch, tokens, rejects = written(tmp_path, *parts, rules=rules)
    assert (tokens, rejects, counted(stretch)) == ([], len(own), {way: 1})


def test_one_that_fails_is_not_long_too(tmp_path: Path) -> None:
    parts = (piece([1, 2, 3], opens=True), piece([], failed=True), closing())
    rules = DocumentRules(dtype="uint16", max_tokens=2)
    stretch, tokens, rejects = written(tmp_path, *parts, rules=rules)
    assert (tokens, rejects, counted(stretch)) == ([], 1, {"rejected": 1})


def test_a_reject_ends_a_build_that_is_to_fail_fast(tmp_path: Path) -> None:
    parts = (piece([1], opens=True), piece([], failed=True), closing())
    with pytest.raises(ConversionError, match="f, row 3: not_tokenized: x"):
        written(tmp_path, *parts, fail_fast=True)


def test_a_unit_that_fails_leaves_nothing(tmp_path: Path) -> None:
    with Lane(base=tmp_path / "a") as lane:
        writer = UnitWriter(lane, RULES, pack=None, fail_fast=False)
        writer.write(piece([1], opens=True))
        assert set(writer.fail(0, "broken").facts.values()) == {0}
        writer.write(piece([2], opens=True))
        writer.write(closing())
        writer.finish(1)
    assert np.fromfile(lane_file(tmp_path / "a", 0, "bin"), "<u2").tolist() == [2, 0]
