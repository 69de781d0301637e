"""The index is megatron-core's, byte for byte; megatron-core and the own reader read it back."""

import hashlib
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingot.converters.errors import ConversionError
from ingot.converters.megatron.documents import DocumentRules, TokenizedTexts, shape_documents
from ingot.converters.megatron.indexed_dataset import (
    MASK_CODE,
    WRITTEN_CODES,
    IndexCounts,
    IndexedReader,
    NumberStretches,
    TokenDtype,
    index_paths,
    token_dtype,
    write_index,
)
from ingot.converters.megatron.options import EmptyDocs

Documents = list[list[list[int]]]  # of documents, of sequences, of ids
EOD = 50256
WAYS: dict[str, tuple[TokenDtype, int | None, EmptyDocs]] = {
    "gpt2_uint16_noeod": ("uint16", None, "index"),
    "gpt2_uint16_eod": ("uint16", EOD, "index"),
    "gpt2_uint16_eod_all": ("uint16", EOD, "eod"),
    "gpt2_uint16_eod_noempty": ("uint16", EOD, "drop"),
    "gpt2_int32_noeod": ("int32", None, "index"),
    "gpt2_int32_eod": ("int32", EOD, "index"),
}
# Empty documents at the start, in the middle and at the end; packs; splits.
SHAPES = [
    [[[1]]],
    [[], [[3, 1, 4]], [], [], [[1], [5, 9, 2], [6]], [[5, 3]], []],
    [[list(range(200))] * 3, [[7]] * 50, [], [[9] * 1_000]],
]


def stretches(numbers: list[int], size: int) -> NumberStretches:
    places = range(0, len(numbers), size)
    return lambda: (np.array(numbers[i : i + size], np.int64) for i in places)


def write(prefix: Path, documents: Documents, code: int = 8, size: int = 1_000) -> IndexCounts:
    sequences = [sequence for document in documents for sequence in document]
    kind = {1: "<u1", 4: "<i4", 8: "<u2"}[code]
    bin_path, idx_path, _ = index_paths(prefix)
    bin_path.write_bytes(np.array([i for one in sequences for i in one], kind).tobytes())
    return write_index(
        idx_path,
        code,
        stretches([len(sequence) for sequence in sequences], size),
        stretches([len(document) for document in documents], size),
    )


def md5(prefix: Path, ending: str) -> str:
    return hashlib.md5(prefix.with_name(prefix.name + ending).read_bytes()).hexdigest()


@pytest.mark.parametrize("name", WAYS)
@pytest.mark.parametrize("size", [1, 7, 1_000])
def test_golden_bytes(
    tmp_path: Path,
    golden_documents: list[np.ndarray[Any, Any]],
    golden_manifest: dict[str, Any],
    name: str,
    size: int,
) -> None:
    dtype, eod, empty_docs = WAYS[name]
    lengths = np.array([len(one) for one in golden_documents], np.int64)
    texts = TokenizedTexts(ids=np.concatenate(golden_documents).astype(np.uint32), lengths=lengths)
    shaped = shape_documents(texts, DocumentRules(dtype=dtype, eod=eod, empty_docs=empty_docs))
    bin_path, idx_path, _ = index_paths(tmp_path / name)
    bin_path.write_bytes(shaped.tokens.tobytes())
    numbers = [stretches(some.tolist(), size) for some in (shaped.lengths, shaped.sizes)]
    counts = write_index(idx_path, WRITTEN_CODES[dtype], *numbers)
    expected = golden_manifest[name]
    assert md5(tmp_path / name, ".bin") == expected["bin_md5"]
    assert md5(tmp_path / name, ".idx") == expected["idx_md5"]
    assert counts == IndexCounts(**{k: expected[k] for k in ("documents", "sequences", "tokens")})


@pytest.mark.parametrize("documents", SHAPES, ids=["one", "empty ones", "packs"])
@pytest.mark.parametrize("code", [WRITTEN_CODES["uint16"], WRITTEN_CODES["int32"], MASK_CODE])
@pytest.mark.parametrize("size", [1, 1_000])
def test_the_same_bytes_as_megatron(
    tmp_path: Path, megatron: ModuleType, documents: Documents, code: int, size: int
) -> None:
    dtype = {1: np.uint8, 4: np.int32, 8: np.uint16}[code]
    builder = megatron.IndexedDatasetBuilder(str(tmp_path / "theirs.bin"), dtype=dtype)
    for document in documents:
        ids = [i % 256 for sequence in document for i in sequence]
        builder.add_document(ids, [len(sequence) for sequence in document])
    builder.finalize(str(tmp_path / "theirs.idx"))
    ours = [[[i % 256 for i in sequence] for sequence in document] for document in documents]
    write(tmp_path / "ours", ours, code, size)
    for ending in (".bin", ".idx"):
        assert md5(tmp_path / "ours", ending) == md5(tmp_path / "theirs", ending)
    loaded = megatron.IndexedDataset(str(tmp_path / "ours"))
    assert loaded.index.dtype == dtype
    found = [
        [loaded[i].tolist() for i in range(start, end)]
        for start, end in pairwise(loaded.document_indices)
    ]
    assert found == ours


@pytest.mark.parametrize("vocabulary", [1, 65_499, 65_500, 65_537, 300_000])
def test_dtype_is_chosen_as_megatron_chooses(megatron: ModuleType, vocabulary: int) -> None:
    theirs = np.dtype(megatron.DType.optimal_dtype(vocabulary))
    assert np.dtype(token_dtype(vocabulary)) == theirs


def test_a_vocabulary_with_holes_gets_the_type_that_holds_its_largest_id() -> None:
    assert token_dtype(1_000, 65_535) == "uint16"
    assert token_dtype(1_000, 65_536) == "int32"


@settings(deadline=None)  # it writes files
@given(
    documents=st.lists(
        st.lists(st.lists(st.integers(0, 65_535), min_size=1, max_size=6), max_size=3), max_size=9
    ),
    size=st.integers(1, 5),
)
def test_what_is_written_is_read(
    tmp_path_factory: pytest.TempPathFactory, documents: Documents, size: int
) -> None:
    prefix = tmp_path_factory.mktemp("indexed") / "x.1"
    counts = write(prefix, documents, size=size)
    reader = IndexedReader(prefix)
    expected = [[i for sequence in document for i in sequence] for document in documents]
    assert [reader.document(i).tolist() for i in range(reader.documents)] == expected
    assert [reader[i].tolist() for i in range(len(reader))] == [
        sequence for document in documents for sequence in document
    ]
    assert reader.counts == counts


def test_sequences_that_belong_to_no_document_are_refused(tmp_path: Path) -> None:
    for lengths, sizes in (([3, 4], [1]), ([3], [1, 1]), ([], [1])):
        with pytest.raises(ConversionError, match="do not hold the sequences"):
            write_index(tmp_path / "x.idx", 8, stretches(lengths, 9), stretches(sizes, 9))
    assert list(tmp_path.iterdir()) == []


def broken(idx: bytes, bin_: bytes) -> dict[str, tuple[bytes | None, bytes | None]]:
    return {
        "cannot be read": (None, bin_),
        "not a Megatron index": (b"", bin_),
        "unknown dtype code": (idx[:17] + b"\x63" + idx[18:], bin_),
        "bytes, .* expected": (idx[:-1], bin_),
        r"x.bin has 4 bytes, 6 expected": (idx, bin_[:4]),
        "do not end with the last": (idx[:-8] + b"\x05" + idx[-7:], bin_),
    }


@pytest.mark.parametrize("problem", broken(b"", b""))
def test_a_broken_data_set_is_refused(tmp_path: Path, problem: str) -> None:
    write(tmp_path / "x", [[[1, 2, 3]]])
    idx, bin_ = (tmp_path / "x.idx"), (tmp_path / "x.bin")
    contents = broken(idx.read_bytes(), bin_.read_bytes())[problem]
    for path, content in zip((idx, bin_), contents, strict=True):
        path.unlink()
        if content is not None:
            path.write_bytes(content)
    with pytest.raises(ConversionError, match=problem):
        IndexedReader(tmp_path / "x")
