"""Unified records to tokens: exact documents, read back by megatron-core."""

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tokenizers import Tokenizer

from ingot.converters.errors import ConversionError, OutputError
from ingot.converters.megatron import IndexedReader, build_tokens, render_chat
from ingot.converters.megatron import build as build_module
from ingot.converters.records import RecordFormat, RecordWriter
from ingot.converters.rows import Reject

META = dict.fromkeys(
    ["source", "language", "timestamp", "token_count", "quality_score", "original_id"]
)
TEXTS = ["床前明月光，疑是地上霜。", "The quick brown fox", "", "a<|endoftext|>b\n" * 30, "😀"]
CHATS: list[dict[str, Any]] = [
    {
        "messages": [
            {"role": "user", "content": "1+1?", "loss_mask": False},
            {"role": "assistant", "content": "2", "loss_mask": True},
        ],
        "system": "Be brief.",
        "tools": "[]",
        "meta": META,
    },
    {
        "messages": [{"role": "assistant", "content": "hello", "loss_mask": True}],
        "system": None,
        "meta": META,
    },
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """PT records in two parts of two forms."""
    records = tmp_path / "records"
    records.mkdir()
    forms: list[RecordFormat] = ["parquet", "jsonl"]
    for part, (form, texts) in enumerate(zip(forms, (TEXTS[:2], TEXTS[2:]), strict=True)):
        with RecordWriter(records, kind="pt", format=form, part=part) as writer:
            writer.write([{"text": text, "meta": META} for text in texts])
    return records


def reference(tokenizer_file: Path, texts: list[str]) -> list[list[int]]:
    tokenizer = Tokenizer.from_file(str(tokenizer_file))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]


def test_documents_in_order_as_megatron_loads_them(
    tmp_path: Path, folder: Path, tokenizer_file: Path, megatron: ModuleType
) -> None:
    stats = build_tokens(folder, tokenizer_file, tmp_path / "out")
    expected = reference(tokenizer_file, TEXTS)
    loaded = megatron.IndexedDataset(str(tmp_path / "out"))
    assert [loaded[i].tolist() for i in range(len(loaded))] == [
        [*ids, 0] for ids in expected if ids
    ]
    assert loaded.document_indices.tolist() == [0, 1, 2, 2, 3, 4]
    assert (stats.documents, stats.sequences, stats.rejected) == (5, 4, 0)
    assert stats.tokens == sum(map(len, expected)) + 4
    assert stats.characters == sum(map(len, TEXTS))
    assert (stats.dtype, stats.eod_id, stats.vocabulary) == ("uint16", 0, 320)


def test_batches_do_not_matter_and_equal_runs_give_equal_bytes(
    tmp_path: Path, folder: Path, tokenizer_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build_tokens(folder, tokenizer_file, tmp_path / "a")
    monkeypatch.setattr(build_module, "BATCH_CHARS", 1)
    build_tokens(sorted(folder.iterdir()), tokenizer_file, tmp_path / "b")
    for ending in (".bin", ".idx", ".meta.json"):
        assert (tmp_path / f"a{ending}").read_bytes() == (tmp_path / f"b{ending}").read_bytes()


def test_chats_are_rendered(tmp_path: Path, tokenizer_file: Path) -> None:
    with RecordWriter(tmp_path, kind="sft") as writer:
        writer.write(CHATS)
    stats = build_tokens([writer.path], tokenizer_file, tmp_path / "out", append_eod=False)
    rendered = [
        render_chat(c["messages"], system=c["system"], tools=c.get("tools")).text for c in CHATS
    ]
    reader = IndexedReader(tmp_path / "out")
    assert [reader.document(i).tolist() for i in range(2)] == reference(tokenizer_file, rendered)
    assert reader.document(0)[0] == 1  # <|im_start|> is one token where the tokenizer has it
    assert stats.characters == sum(map(len, rendered))
    assert stats.eod_id is None


def test_meta_says_what_was_done_and_nothing_of_the_machine(
    tmp_path: Path, folder: Path, tokenizer_file: Path
) -> None:
    stats = build_tokens(folder, tokenizer_file, tmp_path / "out", eod_id=2, empty_docs="drop")
    meta = json.loads((tmp_path / "out.meta.json").read_text("utf-8"))
    assert meta == {
        "version": 1,
        "dtype": "uint16",
        "eod_id": 2,
        "tokenizer": {
            "file": "tokenizer.json",
            "sha256": stats.tokenizer_sha256,
            "vocab_size": 320,
        },
        "counts": {
            "documents": 4,
            "sequences": 4,
            "tokens": stats.tokens,
            "characters": stats.characters,
            "rejected": 0,
        },
        "options": {"append_eod": True, "empty_docs": "drop", "chat_rendering": "chatml"},
    }


def test_a_record_that_cannot_be_tokenized_is_a_counted_reject(
    tmp_path: Path, word_tokenizer_file: Path
) -> None:
    texts = ["known", "odd", "known known", "odd"]
    with RecordWriter(tmp_path, kind="pt") as writer:
        writer.write([{"text": text, "meta": META} for text in texts])
    rejects: list[Reject] = []
    stats = build_tokens(
        [writer.path], word_tokenizer_file, tmp_path / "out", on_reject=rejects.append
    )
    assert [(r.file, r.row, r.reason) for r in rejects] == [
        ("part-00000.parquet", 1, "not_tokenized"),
        ("part-00000.parquet", 3, "not_tokenized"),
    ]
    assert (stats.documents, stats.rejected, stats.characters) == (2, 2, 16)
    reader = IndexedReader(tmp_path / "out")
    assert [reader.document(i).tolist() for i in range(2)] == [[0, 1], [0, 0, 1]]


def test_refusals_leave_nothing(tmp_path: Path, folder: Path, tokenizer_file: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    prefix = out / "x"
    with pytest.raises(ConversionError, match="has no id 320"):
        build_tokens(folder, tokenizer_file, prefix, eod_id=320)
    with pytest.raises(ConversionError, match="no such file or folder"):
        build_tokens(tmp_path / "nowhere", tokenizer_file, prefix)
    nothings: list[Path | list[Path]] = [[], out]
    for nothing in nothings:
        with pytest.raises(ConversionError, match="no record parts"):
            build_tokens(nothing, tokenizer_file, prefix)
    (folder / "part-00002.jsonl").write_bytes(b"broken\n")
    with pytest.raises(ConversionError, match=r"part-00002\.jsonl:1"):
        build_tokens(folder, tokenizer_file, prefix)
    assert list(out.iterdir()) == []


def test_an_existing_data_set_stays_unless_it_is_to_be_replaced(
    tmp_path: Path, folder: Path, tokenizer_file: Path
) -> None:
    build_tokens(folder, tokenizer_file, tmp_path / "out")
    with pytest.raises(OutputError, match="exists"):
        build_tokens(folder, tokenizer_file, tmp_path / "out")
    stats = build_tokens(folder, tokenizer_file, tmp_path / "out", append_eod=False, overwrite=True)
    assert IndexedReader(tmp_path / "out").counts.tokens == stats.tokens
