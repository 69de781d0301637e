"""The writer gives megatron-core's bytes; megatron-core and the own reader read them back."""

import hashlib
import json
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingot.converters.errors import ConversionError, OutputError
from ingot.converters.megatron.indexed import (
    EmptyDocs,
    IndexCounts,
    IndexedReader,
    IndexedWriter,
    TokenDtype,
    token_dtype,
)

Documents = list[np.ndarray[Any, Any]]
EOD = 50256
WAYS: dict[str, tuple[TokenDtype, int | None, EmptyDocs]] = {
    "gpt2_uint16_noeod": ("uint16", None, "index"),
    "gpt2_uint16_eod": ("uint16", EOD, "index"),
    "gpt2_uint16_eod_all": ("uint16", EOD, "eod"),
    "gpt2_uint16_eod_noempty": ("uint16", EOD, "drop"),
    "gpt2_int32_noeod": ("int32", None, "index"),
    "gpt2_int32_eod": ("int32", EOD, "index"),
}


def write(
    prefix: Path,
    documents: Documents,
    dtype: TokenDtype = "uint16",
    eod: int | None = None,
    empty_docs: EmptyDocs = "index",
    batch: int = 64,
) -> IndexCounts:
    with IndexedWriter(prefix, dtype, eod=eod, empty_docs=empty_docs) as writer:
        for start in range(0, len(documents), batch):
            some = documents[start : start + batch]
            writer.add_documents(np.concatenate(some), [len(d) for d in some])
        return writer.commit()


def md5(prefix: Path, ending: str) -> str:
    return hashlib.md5(prefix.with_name(prefix.name + ending).read_bytes()).hexdigest()


@pytest.mark.parametrize("name", WAYS)
@pytest.mark.parametrize("batch", [1, 7, 200])
def test_golden_bytes(
    tmp_path: Path,
    golden_documents: Documents,
    golden_manifest: dict[str, Any],
    name: str,
    batch: int,
) -> None:
    counts = write(tmp_path / name, golden_documents, *WAYS[name], batch=batch)
    expected = golden_manifest[name]
    assert md5(tmp_path / name, ".bin") == expected["bin_md5"]
    assert md5(tmp_path / name, ".idx") == expected["idx_md5"]
    assert counts == IndexCounts(**{k: expected[k] for k in ("documents", "sequences", "tokens")})


@pytest.mark.parametrize("name", ["gpt2_uint16_eod", "gpt2_int32_eod", "gpt2_uint16_noeod"])
def test_golden_bytes_document_by_document(
    tmp_path: Path, golden_documents: Documents, golden_manifest: dict[str, Any], name: str
) -> None:
    dtype, eod, empty_docs = WAYS[name]
    with IndexedWriter(tmp_path / name, dtype, eod=eod, empty_docs=empty_docs) as writer:
        for document in golden_documents:
            writer.add_document(document)
        writer.commit()
    assert md5(tmp_path / name, ".bin") == golden_manifest[name]["bin_md5"]
    assert md5(tmp_path / name, ".idx") == golden_manifest[name]["idx_md5"]


@pytest.mark.parametrize("name", WAYS)
def test_megatron_loads_every_document(
    tmp_path: Path, golden_documents: Documents, megatron: ModuleType, name: str
) -> None:
    dtype, eod, empty_docs = WAYS[name]
    write(tmp_path / name, golden_documents, dtype, eod, empty_docs)
    loaded = megatron.IndexedDataset(str(tmp_path / name))
    ends = loaded.document_indices
    found = [
        [token for sequence in range(start, end) for token in loaded[sequence].tolist()]
        for start, end in pairwise(ends)
    ]
    expected = [d.tolist() for d in golden_documents if empty_docs != "drop" or len(d)]
    if eod is not None:
        expected = [[*d, eod] if d or empty_docs == "eod" else d for d in expected]
    assert found == expected
    assert loaded.index.dtype == np.dtype(dtype)


def test_the_same_bytes_as_megatron_for_documents_of_several_sequences(
    tmp_path: Path, megatron: ModuleType
) -> None:
    lengths = [[3, 1, 4], [], [1], [5, 9]]
    tokens = [np.arange(sum(sizes), dtype=np.int64) * 7 for sizes in lengths]
    builder = megatron.IndexedDatasetBuilder(str(tmp_path / "theirs.bin"), dtype=np.int32)
    with IndexedWriter(tmp_path / "ours", "int32") as writer:
        for ids, sizes in zip(tokens, lengths, strict=True):
            builder.add_document(ids.tolist(), sizes)
            writer.add_document(ids, sizes)
        writer.commit()
    builder.finalize(str(tmp_path / "theirs.idx"))
    for ending in (".bin", ".idx"):
        assert md5(tmp_path / "ours", ending) == md5(tmp_path / "theirs", ending)


@pytest.mark.parametrize("vocabulary", [1, 65_499, 65_500, 65_537, 300_000])
def test_dtype_is_chosen_as_megatron_chooses(megatron: ModuleType, vocabulary: int) -> None:
    theirs = np.dtype(megatron.DType.optimal_dtype(vocabulary))
    assert np.dtype(token_dtype(vocabulary)) == theirs


def test_a_vocabulary_with_holes_gets_the_type_that_holds_its_largest_id() -> None:
    assert token_dtype(1_000, 65_535) == "uint16"
    assert token_dtype(1_000, 65_536) == "int32"


@settings(deadline=None)  # it writes files
@given(
    documents=st.lists(st.lists(st.integers(0, 65_535), max_size=6), min_size=1, max_size=12),
    eod=st.one_of(st.none(), st.integers(0, 65_535)),
    empty_docs=st.sampled_from(["index", "drop"]),
    batch=st.integers(1, 5),
)
def test_what_is_written_is_read_and_batches_do_not_matter(
    tmp_path_factory: pytest.TempPathFactory,
    documents: list[list[int]],
    eod: int | None,
    empty_docs: EmptyDocs,
    batch: int,
) -> None:
    arrays = [np.array(d, np.uint16) for d in documents]
    folder = tmp_path_factory.mktemp("indexed")
    if not any(documents):
        with pytest.raises(ConversionError, match="no tokens"):
            write(folder / "x", arrays, "uint16", eod, empty_docs)
        return
    counts = write(folder / "x", arrays, "uint16", eod, empty_docs, batch)
    write(folder / "y", arrays, "uint16", eod, empty_docs, 1000)
    assert [md5(folder / "x", e) for e in (".bin", ".idx")] == [
        md5(folder / "y", e) for e in (".bin", ".idx")
    ]
    reader = IndexedReader(folder / "x")
    closing = [] if eod is None else [eod]
    expected = [d + closing if d else d for d in documents if d or empty_docs == "index"]
    assert [reader.document(i).tolist() for i in range(reader.documents)] == expected
    assert reader.counts == counts
    assert [reader[i].tolist() for i in range(len(reader))] == [d for d in expected if d]


def test_an_empty_data_set_is_an_error_and_nothing_is_written(tmp_path: Path) -> None:
    for documents in ([], [np.empty(0, np.uint16)] * 3):
        with pytest.raises(ConversionError, match="no tokens"):
            write(tmp_path / "x", documents)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("dtype", "ids", "problem"),
    [
        ("uint16", [1, 65_536], "from 1 to 65536"),
        ("int32", [2**31], "do not fit int32"),
        ("uint16", [-1, 5], "from -1 to 5"),
    ],
)
def test_an_id_that_does_not_fit_is_an_error_and_nothing_stays(
    tmp_path: Path, dtype: TokenDtype, ids: list[int], problem: str
) -> None:
    documents = [np.array([1, 2], np.int64), np.array(ids, np.int64)]
    with pytest.raises(ConversionError, match=problem):
        write(tmp_path / "x", documents, dtype, batch=1)
    assert list(tmp_path.iterdir()) == []


def test_wrong_use_is_refused(tmp_path: Path) -> None:
    with IndexedWriter(tmp_path / "x", "uint16") as writer:
        for tokens, lengths in ((np.arange(3), [1, 1]), (np.arange(1), [2, -1])):
            with pytest.raises(ConversionError, match="lengths add up"):
                writer.add_documents(tokens, lengths)
        with pytest.raises(ConversionError, match="2\\^31 tokens"):
            writer.add_documents(np.broadcast_to(np.uint16(1), 2**31), [2**31])
    with pytest.raises(ConversionError, match="do not fit uint16"):
        IndexedWriter(tmp_path / "x", "uint16", eod=70_000)
    with pytest.raises(ConversionError, match="give the EOD id"):
        IndexedWriter(tmp_path / "x", "uint16", empty_docs="eod")
    with pytest.raises(OutputError, match="no such folder"):
        IndexedWriter(tmp_path / "nowhere" / "x", "uint16")


def test_uncommitted_leaves_what_was_there(tmp_path: Path) -> None:
    write(tmp_path / "x", [np.array([1, 2, 3])])
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    with pytest.raises(OutputError, match="exists"):
        write(tmp_path / "x", [np.array([4])])
    with IndexedWriter(tmp_path / "x", "uint16", overwrite=True) as writer:
        writer.add_document(np.array([4]))
        assert (tmp_path / "x.bin.tmp").exists()
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before


def test_overwrite_replaces_all_three_files(tmp_path: Path) -> None:
    with IndexedWriter(tmp_path / "x.1", "uint16") as writer:
        writer.add_document(np.array([1, 2, 3]))
        writer.commit({"b": 1, "a": "é"})
    assert json.loads((tmp_path / "x.1.meta.json").read_text("utf-8")) == {"b": 1, "a": "é"}
    with IndexedWriter(tmp_path / "x.1", "int32", overwrite=True) as writer:
        writer.add_document(np.array([4]))
        writer.commit()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["x.1.bin", "x.1.idx"]
    assert IndexedReader(tmp_path / "x.1").document(0).tolist() == [4]


def test_a_commit_that_breaks_off_leaves_no_index(tmp_path: Path) -> None:
    (tmp_path / "x.meta.json").mkdir()  # the rename before the last one cannot succeed
    with IndexedWriter(tmp_path / "x", "uint16") as writer:
        writer.add_document(np.array([1]))
        with pytest.raises(OutputError, match="cannot be written"):
            writer.commit({})
    assert sorted(p.name for p in tmp_path.iterdir()) == ["x.bin", "x.meta.json"]


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
    write(tmp_path / "x", [np.array([1, 2, 3])])
    idx, bin_ = (tmp_path / "x.idx"), (tmp_path / "x.bin")
    contents = broken(idx.read_bytes(), bin_.read_bytes())[problem]
    for path, content in zip((idx, bin_), contents, strict=True):
        path.unlink()
        if content is not None:
            path.write_bytes(content)
    with pytest.raises(ConversionError, match=problem):
        IndexedReader(tmp_path / "x")
