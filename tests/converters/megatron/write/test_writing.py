"""What a unit writer counts and lists: every row ends in one way."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ingot.converters.errors import ConversionError
from ingot.converters.megatron.documents import (
    NEW_DOCUMENT,
    NEW_SEQUENCE,
    DocumentRules,
    Shard,
)
from ingot.converters.megatron.engines.engine import Encoded
from ingot.converters.megatron.run.pipeline import NOT_TOKENIZED_REASON, tokenize_shard
from ingot.converters.megatron.write.lanes import Lane, LaneStretch, lane_file
from ingot.converters.megatron.write.unit_writer import UNIT_COUNTS, TokenizedShard, UnitWriter

RULES = DocumentRules(dtype="uint16", eod=0)


class Letters:
    """An engine that gives the code points of a text, and fails on capital letters."""

    name = "letters"

    def encode(self, texts: pa.LargeStringArray) -> Encoded:
        found = [[ord(letter) - 96 for letter in text] for text in texts.to_pylist()]
        failed = [at for at, text in enumerate(texts.to_pylist()) if text.isupper()]
        found = [[] if at in failed else ids for at, ids in enumerate(found)]
        return Encoded(
            ids=np.array([number for ids in found for number in ids], np.uint32),
            lengths=np.array(list(map(len, found)), np.int64),
            failed=tuple((at, "a capital") for at in failed),
        )


def tokenized(*documents: list[str], rules: DocumentRules = RULES) -> TokenizedShard:
    """Documents of some sequences each, in rows from 3 on."""
    kinds = [NEW_SEQUENCE if at else NEW_DOCUMENT for own in documents for at in range(len(own))]
    rows = [row for row, own in enumerate(documents, 3) for _ in own]
    shard = Shard(
        texts=pa.array([text for own in documents for text in own], pa.large_string()),
        rows=np.array(rows),
        kinds=np.array(kinds, np.uint8),
        tally={"rows": len(documents)},
    )
    return tokenize_shard(shard, "f", Letters(), None, rules)


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
    sizes = ("characters", "text_bytes")
    return {name: n for name, n in stretch.facts.items() if n and name not in sizes}


def test_sequences_are_one_document(tmp_path: Path) -> None:
    stretch, tokens, rejects = written(tmp_path, tokenized(["ab", "c"]))
    assert (tokens, rejects, stretch.engine) == ([1, 2, 3, 0], 0, "letters")
    assert counted(stretch) == {"rows": 1, "documents": 1, "sequences": 2, "tokens": 4}


@pytest.mark.parametrize("pack", [None, 8])
def test_a_text_that_fails_takes_its_document_with_it_once(
    tmp_path: Path, pack: int | None
) -> None:
    stretch, tokens, rejects = written(tmp_path, tokenized(["a", "B", "C"], ["e"]), pack=pack)
    assert (tokens, rejects) == ([5, 0], 1)
    assert counted(stretch) == {
        "rows": 2,
        "documents": 1,
        "sequences": 1,
        "tokens": 2,
        "rejected": 1,
    }


def test_one_that_fails_is_not_long_too(tmp_path: Path) -> None:
    rules = DocumentRules(dtype="uint16", max_tokens=2)
    stretch, tokens, rejects = written(tmp_path, tokenized(["abc", "B"], rules=rules), rules=rules)
    assert (tokens, rejects, counted(stretch)) == ([], 1, {"rows": 1, "rejected": 1})


def test_a_reject_ends_a_build_that_is_to_fail_fast(tmp_path: Path) -> None:
    with pytest.raises(ConversionError, match=f"f, row 3: {NOT_TOKENIZED_REASON}: a capital"):
        written(tmp_path, tokenized(["B"]), fail_fast=True)


def test_a_unit_that_fails_leaves_nothing(tmp_path: Path) -> None:
    with Lane(base=tmp_path / "a") as lane:
        writer = UnitWriter(lane, RULES, pack=None, fail_fast=False)
        writer.write(tokenized(["a"]))
        assert set(writer.fail(0, "broken").facts.values()) == {0}
        writer.write(tokenized(["b"]))
        writer.finish(1)
    assert np.fromfile(lane_file(tmp_path / "a", 0, "bin"), "<u2").tolist() == [2, 0]
