"""Long documents written piece by piece are what `shape` makes of the whole."""

import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingot.converters.errors import ConversionError
from ingot.converters.megatron.text.documents import (
    GOES_ON,
    NEW_DOCUMENT,
    NEW_SEQUENCE,
    DocumentRules,
    ShapedDocuments,
    TokenizedTexts,
    shape_documents,
)
from ingot.converters.megatron.write import unit_writer
from ingot.converters.megatron.write.lanes import Lane, file_blocks, lane_file
from ingot.converters.megatron.write.unit_writer import GatheredDocument, StreamedDocument

Pieces = list[tuple[int, list[int]]]
RULES = DocumentRules(dtype="uint16")


def numbers(base: Path, kind: str, dtype: str) -> list[int]:
    path = lane_file(base, 0, kind)
    content = b"".join(file_blocks(path, 0, path.stat().st_size))
    found: list[int] = np.frombuffer(content, dtype).tolist()
    return found


def written(
    base: Path, pieces: Pieces, rules: DocumentRules, *, drop: int | None = None
) -> tuple[list[int], list[int], list[int], dict[str, int]]:
    """Tokens, lengths and sizes that a document leaves in a lane behind another, and its counts."""
    with Lane(base=base) as lane:
        lane.append(
            shape_documents(TokenizedTexts(ids=np.array([7]), lengths=np.array([1])), RULES)
        )
        document = StreamedDocument(lane, rules)
        for number, (kind, ids) in enumerate(pieces):
            document.add(np.array(ids, np.uint32), np.array([kind], np.uint8))
            if number == drop:
                document.drop()
        done = document.close()
        if isinstance(done, ShapedDocuments):
            lane.append(done)
            done = counts_of(done)
        lane.finish(0, "hf", {})
    tokens = numbers(base, "bin", "<u2")
    lengths, sizes = (numbers(base, kind, "<i4") for kind in ("lengths", "documents"))
    assert (tokens.pop(0), lengths.pop(0), sizes.pop(0)) == (7, 1, 1)
    return tokens, lengths, sizes, {name: count for name, count in done.items() if count}


def counts_of(done: ShapedDocuments) -> Counter[str]:
    return Counter(
        done.tally
        | {"documents": len(done.sizes), "sequences": len(done.lengths), "tokens": len(done.tokens)}
    )


def whole(pieces: Pieces) -> TokenizedTexts:
    return TokenizedTexts(
        ids=np.array([i for _, ids in pieces for i in ids], np.uint32),
        lengths=np.array([len(ids) for _, ids in pieces], np.int64),
        kinds=np.array([kind for kind, _ in pieces], np.uint8),
    )


@st.composite
def documents(draw: st.DrawFn) -> Pieces:
    rest = st.tuples(st.sampled_from([NEW_SEQUENCE, GOES_ON]), ids)
    return [(NEW_DOCUMENT, draw(ids)), *draw(st.lists(rest, max_size=5))]


@st.composite
def rules(draw: st.DrawFn) -> DocumentRules:
    least, most = draw(st.none() | st.integers(0, 9)), draw(st.none() | st.integers(1, 9))
    if least is not None and most is not None:
        least = min(least, most)
    eod: int | None = draw(st.sampled_from([None, 99]))
    return DocumentRules(
        dtype="uint16",
        bos=draw(st.sampled_from([(), (1,), (1, 2)])),
        eos=draw(st.sampled_from([(), (3,), (3, 4)])),
        eod=eod,
        empty_docs=draw(st.sampled_from(["index", "drop", "eod"] if eod else ["index", "drop"])),
        min_tokens=least,
        max_tokens=most,
        long_docs=draw(st.sampled_from(["filter", "split", "truncate"])),
    )


ids = st.lists(st.integers(10, 20), max_size=6)


@given(pieces=documents(), rules=rules())
def test_a_streamed_document_is_what_shape_makes_of_it(
    pieces: Pieces, rules: DocumentRules
) -> None:
    expected = shape_documents(whole(pieces), rules)
    with tempfile.TemporaryDirectory() as folder:
        tokens, lengths, sizes, counts = written(Path(folder, "a"), pieces, rules)
    assert tokens == expected.tokens.tolist()
    assert lengths == expected.lengths.tolist()
    assert sizes == expected.sizes.tolist()
    assert counts == {name: count for name, count in counts_of(expected).items() if count}


@given(pieces=documents(), rules=rules(), data=st.data())
def test_a_dropped_document_leaves_nothing(pieces: Pieces, rules: DocumentRules, data: Any) -> None:
    drop = data.draw(st.integers(0, len(pieces) - 1))
    with tempfile.TemporaryDirectory() as folder:
        assert written(Path(folder, "a"), pieces, rules, drop=drop)[:3] == ([], [], [])


@given(pieces=documents(), rules=rules())
def test_a_gathered_document_is_what_shape_makes_of_it(
    pieces: Pieces, rules: DocumentRules
) -> None:
    expected = shape_documents(whole(pieces), rules)
    document = GatheredDocument(rules)
    for kind, some in pieces:
        document.add(np.array(some, np.uint32), np.array([kind], np.uint8))
    done = document.close()
    assert isinstance(done, ShapedDocuments)
    for name in ("tokens", "lengths", "sizes"):
        assert getattr(done, name).tolist() == getattr(expected, name).tolist()
    assert done.tally == expected.tally
    document.drop()
    document.add(np.array([1]), None)
    assert document.close() == Counter()


def test_a_document_without_a_piece_is_an_empty_one(tmp_path: Path) -> None:
    assert written(tmp_path / "a", [], RULES) == ([], [], [0], {"documents": 1, "empty": 1})
    dropped = replace(RULES, empty_docs="drop")
    assert written(tmp_path / "b", [], dropped) == ([], [], [], {"empty": 1})
    gathered = GatheredDocument(RULES).close()
    assert isinstance(gathered, ShapedDocuments)
    assert gathered.sizes.tolist() == [0]


def test_what_megatron_cannot_index_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unit_writer, "MAX_SEQUENCE", 10)
    with pytest.raises(ConversionError, match="2\\^31 tokens or more"):
        written(tmp_path / "a", [(NEW_DOCUMENT, [1] * 6), (GOES_ON, [1] * 4)], RULES)
    split = replace(RULES, max_tokens=8, long_docs="split")
    pieces: Pieces = [(NEW_DOCUMENT, [1] * 6), (GOES_ON, [1] * 4)]
    assert written(tmp_path / "b", pieces, split)[1] == [8, 2]
    with pytest.raises(ConversionError, match="does not fit uint16"):
        written(tmp_path / "c", [(NEW_DOCUMENT, [70_000])], RULES)
