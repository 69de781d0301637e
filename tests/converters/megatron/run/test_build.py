"""Whole builds: records and chats to exact documents and masks, what is said, what is refused."""

import json
import threading
import time
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tokenizers import Tokenizer

from ingot.converters.errors import ConversionError, IngotError, NoTokensError, OutputError
from ingot.converters.megatron import (
    BuildOptions,
    IndexedReader,
    TokenStats,
    WorkOptions,
    build,
    render_chat,
    scan,
    stamp_files,
)
from ingot.converters.megatron import documents as shards
from ingot.converters.megatron.chat import template_process
from ingot.converters.megatron.documents import Shard
from ingot.converters.megatron.read import preparation
from ingot.converters.megatron.run import pipeline
from ingot.converters.megatron.write.unit_writer import TokenizedShard
from ingot.converters.records.writers import RecordFormat, RecordWriter

META = dict.fromkeys(
    ["source", "language", "timestamp", "token_count", "quality_score", "original_id"]
)
TEXTS = ["床前明月光，疑是地上霜。", " The quick brown fox\n", "", "a<|endoftext|>b\n" * 30, "😀"]
CHATS: list[dict[str, Any]] = [
    {
        "messages": [
            {"role": "user", "content": "1+1?", "loss_mask": False},
            {"role": "assistant", "content": "2", "loss_mask": True},
            {"role": "user", "content": "2+2?", "loss_mask": False},
            {"role": "assistant", "content": "四 4", "loss_mask": True},
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
    {
        "messages": [{"role": "assistant", "content": "not this", "loss_mask": False}],
        "system": None,
        "meta": META,
    },
]
FAST = WorkOptions(tok_engine="hf")
EOD = BuildOptions(append_eod=True)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """PT records in two parts of two forms."""
    folder = tmp_path / "records"
    folder.mkdir()
    forms: list[RecordFormat] = ["parquet", "jsonl"]
    for part, (form, texts) in enumerate(zip(forms, (TEXTS[:2], TEXTS[2:]), strict=True)):
        with RecordWriter(folder, kind="pt", format=form, part=part) as writer:
            writer.write([{"text": text, "meta": META} for text in texts])
    return folder


@pytest.fixture
def chats(tmp_path: Path) -> Path:
    """A file of SFT records."""
    with RecordWriter(tmp_path, kind="sft") as writer:
        writer.write(CHATS)
    return writer.path


def reference(tokenizer_file: Path, texts: list[str]) -> list[list[int]]:
    tokenizer = Tokenizer.from_file(str(tokenizer_file))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]


def documents(prefix: Path) -> list[list[int]]:
    reader = IndexedReader(prefix)
    return [reader.document(i).tolist() for i in range(reader.documents)]


@pytest.mark.more
def test_documents_in_order_as_megatron_loads_them(
    tmp_path: Path, folder: Path, tokenizer_file: Path, megatron: ModuleType
) -> None:
    files = stamp_files(sorted(folder.iterdir()))
    stats = build(files, tokenizer_file, tmp_path / "out", EOD, FAST)
    expected = reference(tokenizer_file, TEXTS)
    loaded = megatron.IndexedDataset(str(tmp_path / "out"))
    assert [loaded[i].tolist() for i in range(len(loaded))] == [
        [*ids, 0] for ids in expected if ids
    ]
    assert loaded.document_indices.tolist() == [0, 1, 2, 2, 3, 4]
    assert (stats.documents, stats.sequences, stats.rejected) == (5, 4, 0)
    assert (stats.engines, stats.engine) == (("hf",), "hf")
    assert replace(stats, engines=("fastokens", "hf")).engine == "fastokens, hf"
    assert stats.tokens == sum(map(len, expected)) + 4
    assert stats.characters == sum(map(len, TEXTS))
    assert (stats.dtype, stats.eod_id, stats.vocabulary) == ("uint16", 0, 320)


def test_raw_columns_are_stripped_and_joined_in_the_order_named(
    tmp_path: Path, tokenizer_file: Path
) -> None:
    columns = {"content": [" a ", None, "c"], "the title": ["x\n", " y", " "], "n": [1, 2, 3]}
    pq.write_table(pa.table(columns), tmp_path / "in.parquet")
    options = BuildOptions(text_cols=("the title", "content"), concat_sep=" | ")
    build(scan(tmp_path), tokenizer_file, tmp_path / "out", options, FAST)
    assert documents(tmp_path / "out") == reference(tokenizer_file, ["x | a", "y", "c"])
    options = BuildOptions(text_cols=("the title", "content"), doc_boundary="file", concat_sep="-")
    build(scan(tmp_path), tokenizer_file, tmp_path / "file", options, FAST)
    assert documents(tmp_path / "file") == reference(tokenizer_file, ["x-a-y-c"])


def test_long_texts_have_the_ids_of_the_whole(
    tmp_path: Path, tokenizer_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [
        "short",
        "The quick brown 床前明月光 fox.\n" * 40,
        "between",
        "over the lazy dog " * 60,
    ]
    pq.write_table(pa.table({"text": texts}), tmp_path / "in.parquet")
    expected = reference(tokenizer_file, [text.strip() for text in texts])
    monkeypatch.setattr(pipeline, "LARGE_TEXT", 50)
    monkeypatch.setattr(shards, "SHARD_BYTES", 100)
    for boundary in ("row", "file"):
        options = BuildOptions(doc_boundary=boundary, append_eod=True)
        build(scan(tmp_path), tokenizer_file, tmp_path / boundary, options, FAST)
    assert documents(tmp_path / "row") == [[*ids, 0] for ids in expected]
    joined = "\n".join(text.strip() for text in texts)
    assert documents(tmp_path / "file") == [[*reference(tokenizer_file, [joined])[0], 0]]


def decoded_runs(tokenizer_file: Path, prefix: Path) -> list[list[str]]:
    """Per document, the texts of the runs of tokens that are trained on."""
    tokenizer = Tokenizer.from_file(str(tokenizer_file))
    tokens, masks = IndexedReader(prefix), IndexedReader(Path(f"{prefix}.loss_mask"))
    assert tokens.lengths.tolist() == masks.lengths.tolist()
    assert tokens.document_indices.tolist() == masks.document_indices.tolist()
    found = []
    for number in range(tokens.documents):
        runs: list[list[int]] = [[]]
        for token, trained in zip(tokens.document(number), masks.document(number), strict=True):
            if trained:
                runs[-1].append(int(token))
            elif runs[-1]:
                runs.append([])
        found.append([tokenizer.decode(run, skip_special_tokens=False) for run in runs if run])
    return found


TRAINED = [["2<|im_end|>", "四 4<|im_end|>"], ["hello<|im_end|>"], []]


@pytest.mark.more
@pytest.mark.parametrize("template", [None, "chatml"])
@pytest.mark.parametrize("processes", [1, 2])
def test_chats_are_rendered_and_what_is_trained_on_is_marked(
    tmp_path: Path,
    chats: Path,
    tokenizer_file: Path,
    megatron: ModuleType,
    template: str | None,
    processes: int,
) -> None:
    if processes == 2 and template is not None:
        pytest.skip("one template is enough with several processes")
    options = BuildOptions(chat_template=template)
    work = WorkOptions(tok_engine="hf", processes=processes)
    stats = build(stamp_files([chats]), tokenizer_file, tmp_path / "out", options, work)
    rendered = [
        render_chat(c["messages"], system=c["system"], tools=c.get("tools")).text for c in CHATS
    ]
    assert documents(tmp_path / "out") == reference(tokenizer_file, rendered)
    assert stats.characters == sum(map(len, rendered))
    assert stats.eod_id is None
    assert decoded_runs(tokenizer_file, tmp_path / "out") == TRAINED
    masks = megatron.IndexedDataset(str(tmp_path / "out.loss_mask"))
    assert [set(masks[i].tolist()) for i in range(3)] == [{0, 1}, {0, 1}, {0}]


@pytest.mark.more
def test_an_endless_template_ends_the_build_and_leaves_nothing(
    tmp_path: Path, chats: Path, tokenizer_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(template_process, "MOST_SECONDS", 2)
    template = tmp_path / "endless.jinja"
    template.write_text(
        "{% if 'hello' in messages | map(attribute='content') %}{% for i in range(99999) %}"
        "{% for j in range(99999) %}{% endfor %}{% endfor %}{% endif %}{{ messages[0].content }}"
    )
    options = BuildOptions(chat_template=str(template), loss_mask=False)
    with pytest.raises(ConversionError, match="needs more than 2 s of processor time") as caught:
        build(stamp_files([chats]), tokenizer_file, tmp_path / "out", options, FAST)
    assert caught.value.where == f"{chats.name}, rows 0 to 2"
    assert not (tmp_path / "out.bin").exists()


def test_an_end_of_document_is_trained_on_with_the_turn_before_it(
    tmp_path: Path, chats: Path, tokenizer_file: Path
) -> None:
    build(stamp_files([chats]), tokenizer_file, tmp_path / "out", EOD, FAST)
    masks = IndexedReader(tmp_path / "out.loss_mask")
    assert [int(masks.document(i)[-1]) for i in range(3)] == [1, 1, 0]
    assert all(ids[-1] == 0 for ids in documents(tmp_path / "out"))


@pytest.mark.parametrize(
    "options",
    [
        BuildOptions(append_eod=True, max_tokens=9, long_docs="truncate"),
        BuildOptions(append_eod=True, max_tokens=9, long_docs="split"),
        BuildOptions(append_eod=True, max_chars=21, long_docs="truncate"),
        BuildOptions(append_eod=True, max_chars=21, long_docs="split"),
        BuildOptions(append_eod=True, pack=300),
        BuildOptions(append_eod=True, pack=40, long_docs="split"),
        BuildOptions(add_special_tokens=True, bos_id=1, eos_id=2),
    ],
    ids=["truncate", "split", "truncate chars", "split chars", "pack", "split pack", "frame"],
)
def test_masks_stay_beside_their_tokens(
    tmp_path: Path, chats: Path, tokenizer_file: Path, options: BuildOptions
) -> None:
    build(stamp_files([chats]), tokenizer_file, tmp_path / "out", options, FAST)
    decoded_runs(tokenizer_file, tmp_path / "out")
    masks = IndexedReader(tmp_path / "out.loss_mask").tokens
    trained = IndexedReader(tmp_path / "out").tokens[masks > 0].tolist()
    tokenizer = Tokenizer.from_file(str(tokenizer_file))
    text = tokenizer.decode(trained, skip_special_tokens=False)
    whole = "".join(run for one in TRAINED for run in one)
    left = text.replace("<|endoftext|>", "").replace("<|im_end|><|im_end|>", "<|im_end|>")
    if options.long_docs == "truncate":
        assert left in whole
    else:
        assert left == whole


def test_no_masks_where_none_are_wanted(tmp_path: Path, chats: Path, tokenizer_file: Path) -> None:
    options = BuildOptions(loss_mask=False)
    build(stamp_files([chats]), tokenizer_file, tmp_path / "out", options, FAST)
    assert not (tmp_path / "out.loss_mask.idx").exists()
    assert len(documents(tmp_path / "out")) == 3


@pytest.mark.parametrize(
    "template", ["chatml", "{% for m in messages %}{{ m.content }}{% endfor %}"]
)
def test_a_conversation_that_is_too_long_is_a_reject(
    tmp_path: Path, tokenizer_file: Path, monkeypatch: pytest.MonkeyPatch, template: str
) -> None:
    if template != "chatml":
        (tmp_path / "t.jinja").write_text(template)
        template = str(tmp_path / "t.jinja")
    monkeypatch.setattr(preparation, "LARGEST_TEXT", 500)
    turn = {"role": "user", "content": "word " * 200, "loss_mask": False}
    long = {**CHATS[0], "messages": [turn, *CHATS[0]["messages"]]}
    with RecordWriter(tmp_path, kind="sft") as writer:
        writer.write([CHATS[1], long, CHATS[1]])
    options = BuildOptions(chat_template=template)
    stats = build(stamp_files([writer.path]), tokenizer_file, tmp_path / "out", options, FAST)
    assert (stats.documents, stats.rejected) == (2, 1)
    (line,) = (tmp_path / "out.rejects.jsonl").read_text("utf-8").splitlines()
    assert (json.loads(line)["row"], json.loads(line)["reason"]) == (1, "too_long")


@pytest.mark.more
@pytest.mark.parametrize("workers", [1, 4])
def test_large_texts_are_tokenized_one_at_a_time(
    tmp_path: Path, tokenizer_file: Path, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    monkeypatch.setattr(pipeline, "LARGE_TEXT", 5_000)
    texts = [f"{number} the lazy dog " * (500 if number % 2 else 3) for number in range(40)]
    pq.write_table(pa.table({"text": texts}), tmp_path / "in.parquet")
    now: list[int] = []
    most = 0
    tokenize = pipeline.tokenize_shard

    def watch(shard: Shard, *more: Any) -> TokenizedShard:
        nonlocal most
        large = shard.texts.nbytes > 5_000
        if large:
            now.append(1)
            most = max(most, len(now))
            time.sleep(0.005)
        done = tokenize(shard, *more)
        if large:
            now.pop()
        return done

    monkeypatch.setattr(pipeline, "tokenize_shard", watch)
    work = WorkOptions(workers=workers, tok_engine="hf", batch_shards=40)
    build(scan(tmp_path), tokenizer_file, tmp_path / "out", BuildOptions(), work)
    assert documents(tmp_path / "out") == reference(tokenizer_file, [t.strip() for t in texts])
    assert most == 1


def test_a_conversation_that_cannot_be_rendered_is_a_reject(
    tmp_path: Path, tokenizer_file: Path
) -> None:
    empty = {**CHATS[0], "messages": []}
    with RecordWriter(tmp_path, kind="sft") as writer:
        writer.write([empty, CHATS[1], empty])
    stats = build(stamp_files([writer.path]), tokenizer_file, tmp_path / "out", None, FAST)
    assert (stats.documents, stats.rejected) == (1, 2)
    lines = (tmp_path / "out.rejects.jsonl").read_text("utf-8").splitlines()
    found = [json.loads(line) for line in lines]
    assert [(one["row"], one["reason"], one["found"]) for one in found] == [
        (0, "template", "no messages"),
        (2, "template", "no messages"),
    ]


def accounted(meta: dict[str, Any], stats: TokenStats) -> bool:
    counts = meta["counts"]
    gone = counts["short"] + counts["long"] + counts["rejected"]
    if meta["options"]["empty_docs"] == "drop":
        gone += counts["empty"]
    return bool(counts["rows"] == counts["documents"] + gone == stats.documents + gone)


@pytest.mark.parametrize("empty_docs", ["index", "drop", "eod"])
@pytest.mark.parametrize("long_docs", ["filter", "truncate", "split"])
@pytest.mark.parametrize("limits", [{}, {"min_chars": 3, "max_chars": 12}, {"max_tokens": 6}])
def test_every_row_is_accounted_for(
    tmp_path: Path, tokenizer_file: Path, empty_docs: Any, long_docs: Any, limits: dict[str, Any]
) -> None:
    values = [
        b"one",
        None,
        b"\xff",
        b"",
        b" ",
        "床前明月光，疑是地上霜。举头".encode(),
        b"a b c d e f",
    ]
    pq.write_table(pa.table({"text": pa.array(values, pa.binary())}), tmp_path / "in.parquet")
    options = BuildOptions(append_eod=True, empty_docs=empty_docs, long_docs=long_docs, **limits)
    stats = build(scan(tmp_path), tokenizer_file, tmp_path / "out", options, FAST)
    assert accounted(json.loads((tmp_path / "out.meta.json").read_text()), stats)


def test_a_record_that_cannot_be_tokenized_is_a_counted_reject(
    tmp_path: Path, word_tokenizer_file: Path
) -> None:
    texts = ["known", "odd", "known known", "odd"]
    with RecordWriter(tmp_path, kind="pt") as writer:
        writer.write([{"text": text, "meta": META} for text in texts])
    stats = build(stamp_files([writer.path]), word_tokenizer_file, tmp_path / "out", EOD, FAST)
    lines = (tmp_path / "out.rejects.jsonl").read_text("utf-8").splitlines()
    found = [json.loads(line) for line in lines]
    assert [(r["file"], r["row"], r["reason"]) for r in found] == [
        ("part-00000.parquet", 1, "not_tokenized"),
        ("part-00000.parquet", 3, "not_tokenized"),
    ]
    assert (stats.documents, stats.rejected, stats.characters) == (2, 2, 16)
    assert documents(tmp_path / "out") == [[0, 1], [0, 0, 1]]


def test_a_build_that_stops_at_a_row_leaves_no_thread(
    tmp_path: Path, word_tokenizer_file: Path
) -> None:
    with RecordWriter(tmp_path, kind="pt") as writer:
        writer.write([{"text": text, "meta": META} for text in ["odd", *["known"] * 200]])
    work = replace(FAST, batch_size=1, queue_cap=1, fail_fast=True)
    with pytest.raises(IngotError, match="row 0"):
        build(stamp_files([writer.path]), word_tokenizer_file, tmp_path / "out", EOD, work)
    names = [one.name for one in threading.enumerate()]
    assert [name for name in names if name.startswith(("reader", "tokenizer"))] == []


def test_meta_says_what_was_done_and_nothing_of_the_machine(
    tmp_path: Path, folder: Path, tokenizer_file: Path
) -> None:
    options = BuildOptions(append_eod=True, eos_id=2, empty_docs="drop")
    files = stamp_files(sorted(folder.iterdir()))
    stats = build(files, tokenizer_file, tmp_path / "out", options, FAST)
    text = (tmp_path / "out.meta.json").read_text("utf-8")
    meta = json.loads(text)
    assert str(tmp_path) not in text
    assert (meta["version"], meta["kind"], meta["dtype"]) == (3, "pt", "uint16")
    assert (meta["eod_id"], meta["bos"], meta["eos"]) == (2, [], [])
    assert meta["tokenizer"]["sha256"] == stats.tokenizer_sha256
    assert BuildOptions.from_document(meta["options"]) == options
    assert meta["counts"]["tokens"] == stats.tokens
    assert [one["path"] for one in meta["files"]] == ["part-00000.parquet", "part-00001.jsonl"]


def test_equal_inputs_are_done_already_and_others_are_refused(
    tmp_path: Path, folder: Path, tokenizer_file: Path
) -> None:
    files = stamp_files(sorted(folder.iterdir()))
    first = build(files, tokenizer_file, tmp_path / "out", EOD, FAST)
    before = {p.name: p.stat().st_mtime_ns for p in tmp_path.iterdir()}
    again = build(files, tokenizer_file, tmp_path / "out", EOD, FAST)
    assert again.already_done
    assert again.tokens == first.tokens
    assert {p.name: p.stat().st_mtime_ns for p in tmp_path.iterdir()} == before
    with pytest.raises(OutputError, match=r"out\.idx: exists, and differs: "):
        build(files, tokenizer_file, tmp_path / "out", None, FAST)
    work = WorkOptions(tok_engine="hf", overwrite=True)
    stats = build(files, tokenizer_file, tmp_path / "out", None, work)
    assert IndexedReader(tmp_path / "out").counts.tokens == stats.tokens == first.tokens - 4


def test_refusals_leave_nothing(tmp_path: Path, folder: Path, tokenizer_file: Path) -> None:
    out = tmp_path / "out"
    files = stamp_files(sorted(folder.iterdir()))
    for options, problem in (
        (BuildOptions(append_eod=True, eos_id=320), "has no id 320"),
        (BuildOptions(text_cols=("no",)), "leave out `text_cols`"),
        (BuildOptions(min_chars=1_000), r"not a single token \(5 rows, 0 empty, 5 short"),
    ):
        with pytest.raises(IngotError, match=problem) as raised:
            build(files, tokenizer_file, out / "x", options, FAST)
        assert str(raised.value)
    assert not out.exists() or list(out.iterdir()) == []


@pytest.mark.more
def test_texts_with_the_ids_that_are_put_around_them_are_counted(
    tmp_path: Path, tokenizer_file: Path
) -> None:
    texts = ["<|im_start|>one", "two", "three<|im_end|>", "", "<|im_start|>" + "long " * 60]
    pq.write_table(pa.table({"text": texts}), tmp_path / "in.parquet")
    marks: dict[str, Any] = {"add_special_tokens": True, "bos_id": 1, "eos_id": 2}
    cases: list[tuple[dict[str, Any], tuple[int, int]]] = [
        (marks, (2, 1)),
        (marks | {"append_eod": True}, (2, 4)),
        ({"append_eod": True, "eos_id": 2}, (0, 1)),
        (marks | {"special_in_text": "plain"}, (0, 0)),
        ({}, (0, 0)),
    ]
    for number, (options, expected) in enumerate(cases):
        said: list[Any] = []
        prefix = tmp_path / str(number)
        files = scan(tmp_path)
        done = build(
            files, tokenizer_file, prefix, BuildOptions(**options), FAST, monitor=said.append
        )
        counts = json.loads(prefix.with_name(f"{number}.meta.json").read_text())["counts"]
        assert (counts["two_bos"], counts["two_eos"]) == expected
        assert done.doubled == sum(expected)
        warned = {one.get("event") for one in said} & {"two_bos", "two_eos"}
        assert len(warned) == sum(count > 0 for count in expected)


def test_an_empty_column_is_named_beside_the_one_with_text(
    tmp_path: Path, tokenizer_file: Path
) -> None:
    columns = {"text": ["", None, " "], "body": ["one", "two", None], "n": [1, 2, 3]}
    pq.write_table(pa.table(columns), tmp_path / "in.parquet")
    with pytest.raises(NoTokensError, match="'text' is empty and 'body' holds text: name the col"):
        build(scan(tmp_path), tokenizer_file, tmp_path / "out", BuildOptions(), FAST)
