"""`verify` accepts what was built, and finds every number that is changed in it or its source."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingot.converters.errors import ConversionError, SourceError
from ingot.converters.megatron.indexed_dataset import index_paths, mask_prefix
from ingot.converters.megatron.inspect.verification import Verification, verify_data_set
from ingot.converters.megatron.options import BuildOptions, WorkOptions
from ingot.converters.megatron.read import preparation
from ingot.converters.megatron.read.input_files import scan
from ingot.converters.megatron.run.build import build
from ingot.converters.records.writers import RecordWriter

Written = Callable[..., Path]
WORDS = ["fox", " dog", "床前", "明月光", "\n", "<|endoftext|>", "a", " é", "😀 ", "def add(", "  "]
META = dict.fromkeys(
    ("source", "language", "timestamp", "token_count", "quality_score", "original_id")
)


def texts(count: int, seed: int) -> list[str | None]:
    rng = np.random.default_rng(seed)
    made: list[str | None] = ["".join(rng.choice(WORDS, rng.integers(0, 30))) for _ in range(count)]
    made[3] = None
    return made


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Raw Parquet in two files, the second in a folder, in row groups of 16."""
    folder = tmp_path / "raw"
    (folder / "sub").mkdir(parents=True)
    for number, name in enumerate(("b.parquet", "sub/a.parquet")):
        table = pa.table({"title": texts(50, number), "content": texts(50, number + 9)})
        pq.write_table(table, folder / name, row_group_size=16)
    return folder


@pytest.fixture
def chats(tmp_path: Path) -> Path:
    """SFT records."""
    folder = tmp_path / "chats"
    folder.mkdir()
    records = []
    for number, text in enumerate(texts(40, 5)):
        said = [("user", text or "?"), ("assistant", f"{number} {text}")]
        messages = [
            {"role": role, "content": content, "loss_mask": role == "assistant"}
            for role, content in said
        ]
        records.append({"messages": messages, "system": None, "tools": None, "meta": META})
    with RecordWriter(folder, kind="sft") as writer:
        writer.write(records)
    return folder


def built(source: Path, tokenizer: Path, **options: Any) -> Path:
    prefix = source.parent / "out"
    build(scan(source), tokenizer, prefix, BuildOptions(**options), WorkOptions(tok_engine="hf"))
    return prefix


def change(path: Path, at: int, value: int, dtype: str) -> None:
    numbers = np.memmap(path, dtype, "r+")
    numbers[at] = value
    numbers.flush()


WAYS: list[dict[str, Any]] = [
    {},
    {"text_cols": ("title", "content"), "append_eod": True, "strip": False},
    {"empty_docs": "drop", "special_in_text": "plain", "dtype": "u32"},
    {"min_tokens": 20, "max_tokens": 60, "add_special_tokens": True, "bos_id": 1, "eos_id": 2},
    {"min_chars": 10, "max_chars": 50, "long_docs": "split"},
    {"doc_boundary": "file", "concat_sep": " | "},
    {"pack": 128, "append_eod": True},
    {"pack": 64, "long_docs": "split"},
]


@pytest.mark.parametrize("options", WAYS)
def test_what_was_built_is_right(
    source: Path, tokenizer_file: Path, options: dict[str, Any]
) -> None:
    prefix = built(source, tokenizer_file, **options)
    found = verify_data_set(prefix, source, str(tokenizer_file), samples=None)
    assert (found.differing, found.differences, found.files) == (0, (), 2)
    assert found.compared == found.documents


@pytest.mark.more
@pytest.mark.parametrize("options", [{}, {"min_tokens": 3}, {"pack": 128}])
def test_files_that_failed_are_counted_and_the_others_verified(
    source: Path, tokenizer_file: Path, options: dict[str, Any]
) -> None:
    pq.write_table(pa.table({"content": [1, 2]}), source / "c.parquet")
    (source / "a.parquet").write_bytes(b"PAR1 cut")
    prefix = built(source, tokenizer_file, text_cols=("content",), **options)
    found = verify_data_set(prefix, source, str(tokenizer_file), samples=None)
    assert (found.differing, found.files, found.failed_files) == (0, 2, 2)
    assert found.compared == found.documents
    (source / "c.parquet").unlink()
    assert verify_data_set(prefix, source, str(tokenizer_file)).failed_files == 2
    ids = np.fromfile(index_paths(prefix)[0], "<u2")
    change(index_paths(prefix)[0], len(ids) - 2, (int(ids[-2]) + 1) % 300, "<u2")
    (one,) = verify_data_set(prefix, source, str(tokenizer_file), samples=None).differences
    assert one.file == "sub/a.parquet"


@pytest.mark.parametrize("boundary", ["row", "file"])
def test_texts_that_were_too_long_are_no_difference(
    source: Path, tokenizer_file: Path, monkeypatch: pytest.MonkeyPatch, boundary: str
) -> None:
    pq.write_table(pa.table({"content": ["short", "text"]}), source / "c.parquet")
    monkeypatch.setattr(preparation, "LARGEST_TEXT", 60)
    prefix = built(source, tokenizer_file, text_cols=("content",), doc_boundary=boundary)
    rejected = json.loads(Path(f"{prefix}.meta.json").read_text())["counts"]["rejected"]
    found = verify_data_set(prefix, source, str(tokenizer_file), samples=None)
    assert found.differing == 0
    assert found.documents + rejected == {"row": 102, "file": 3}[boundary]
    assert rejected == 2 or boundary == "row"
    assert rejected > 0


@pytest.mark.parametrize("options", [{}, {"pack": 256}, {"max_tokens": 40, "long_docs": "split"}])
def test_conversations_with_their_masks_are_right(
    chats: Path, tokenizer_file: Path, options: dict[str, Any]
) -> None:
    prefix = built(chats, tokenizer_file, append_eod=True, **options)
    found = verify_data_set(prefix, chats, str(tokenizer_file), samples=None)
    assert (found.masked, found.differing) == (True, 0)
    masks = np.fromfile(index_paths(mask_prefix(prefix))[0], np.uint8)
    place = int(np.flatnonzero(masks)[3])
    change(index_paths(mask_prefix(prefix))[0], place, 0, "u1")
    found = verify_data_set(prefix, chats, str(tokenizer_file), samples=None)
    assert found.differing == 1
    assert ("mask 0, 1 expected" in found.differences[0].problem) is ("pack" not in options)


@pytest.mark.parametrize(
    "options", [{"append_eod": True}, {"min_tokens": 3}, {"pack": 128}, {"doc_boundary": "file"}]
)
def test_one_other_id_is_found_and_located(
    source: Path, tokenizer_file: Path, options: dict[str, Any]
) -> None:
    prefix = built(source, tokenizer_file, **options)
    bin_path = index_paths(prefix)[0]
    ids = np.fromfile(bin_path, "<u2")
    change(bin_path, len(ids) - 2, (int(ids[-2]) + 1) % 300, "<u2")
    found = verify_data_set(prefix, source, str(tokenizer_file), samples=None)
    (one,) = found.differences
    assert (found.differing, one.file) == (1, "sub/a.parquet")
    if "pack" in options:
        assert one.problem.endswith("is not a text of the file")
    else:
        assert f"id {(int(ids[-2]) + 1) % 300}, {ids[-2]} expected" in one.problem


@pytest.mark.more
def test_a_sample_is_drawn_by_its_seed(source: Path, tokenizer_file: Path) -> None:
    prefix = built(source, tokenizer_file)
    change(index_paths(prefix)[0], 0, 319, "<u2")
    found: list[Verification] = [
        verify_data_set(prefix, source, str(tokenizer_file), samples=40, seed=seed)
        for seed in range(12)
    ]
    assert {one.compared for one in found} == {40}
    assert {one.differing for one in found} == {0, 1}
    assert found[0] == verify_data_set(prefix, source, str(tokenizer_file), samples=40, seed=0)


def test_other_data_is_told(source: Path, tokenizer_file: Path) -> None:
    prefix = built(source, tokenizer_file)
    (source / "b.parquet").rename(source / "c.parquet")
    with pytest.raises(SourceError, match=r"b\.parquet: cannot be read"):
        verify_data_set(prefix, source, str(tokenizer_file))
    (source / "sub" / "a.parquet").rename(source / "b.parquet")
    with pytest.raises(ConversionError, match="when the data set was built from it"):
        verify_data_set(prefix, source, str(tokenizer_file))


def edited(prefix: Path, **facts: Any) -> Path:
    path = index_paths(prefix)[2]
    told = json.loads(path.read_bytes()) | facts
    path.write_text(json.dumps({key: value for key, value in told.items() if value != "gone"}))
    return prefix


@pytest.mark.parametrize(
    ("facts", "problem"),
    [
        ({"files": "gone"}, "does not say which documents are from which file"),
        ({"files": [{"path": "b.parquet"}]}, "build it again"),
        ({"files": [{"path": "b.parquet", "documents": 1}]}, "tells of 1 documents"),
        ({"files": [{"path": "b.parquet", "status": "failed"}]}, "tells of 0 documents"),
        ({"files": ["b.parquet"]}, "build it again"),
        ({"files": [{"path": "/etc/x", "documents": 100}]}, "not a file of a source"),
        ({"files": [{"path": "../x", "documents": 100}]}, "not a file of a source"),
        ({"options": "gone"}, "does not say how the data set was built"),
        ({"options": {"min_chars": 9, "max_chars": 1}}, "`min_chars` is above `max_chars`"),
        ({"kind": "sft"}, "does not say how"),
        ({"dtype": "uint1v"}, "does not say how"),
        ({"bos": ["x"]}, "does not say how"),
        ({"tokenizer": {"sha256": "00"}}, "built with another tokenizer"),
    ],
)
def test_facts_that_do_not_tell_are_refused(
    source: Path, tokenizer_file: Path, facts: dict[str, Any], problem: str
) -> None:
    prefix = edited(built(source, tokenizer_file), **facts)
    with pytest.raises(ConversionError, match=problem):
        verify_data_set(prefix, source, str(tokenizer_file))


def test_an_id_beyond_the_vocabulary_is_found(source: Path, tokenizer_file: Path) -> None:
    prefix = built(source, tokenizer_file)
    change(index_paths(prefix)[0], 5, 40_000, "<u2")
    with pytest.raises(ConversionError, match=r"out\.bin: id 40000 at token 5, the largest is 319"):
        verify_data_set(prefix, source, str(tokenizer_file), samples=1)


def test_a_mask_is_0_or_1(chats: Path, tokenizer_file: Path) -> None:
    prefix = built(chats, tokenizer_file)
    change(index_paths(mask_prefix(prefix))[0], 8, 2, "u1")
    with pytest.raises(ConversionError, match=r"loss_mask\.bin: mask 2 at token 8"):
        verify_data_set(prefix, chats, str(tokenizer_file), samples=1)
