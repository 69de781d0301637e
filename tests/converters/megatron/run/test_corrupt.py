"""Broken and odd inputs: one of them never takes the others with it, and says what is wrong."""

import json
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingot.converters.errors import ConversionError, SourceError
from ingot.converters.megatron import (
    BuildOptions,
    IndexedReader,
    TokenStats,
    WorkOptions,
    build,
    scan,
    stamp_files,
)
from ingot.converters.megatron.read.row_batches import RowBatch, read_rows
from ingot.converters.records.writers import RecordWriter

GOOD = ["first", "second one", "third"]
META = dict.fromkeys(
    ["source", "language", "timestamp", "token_count", "quality_score", "original_id"]
)


def parquet(path: Path, columns: Any, **options: Any) -> bytes:
    pq.write_table(pa.table(columns), path, **options)
    return path.read_bytes()


def broken_page(path: Path) -> None:
    """Its footer is right; a page in the middle of its row group is not."""
    texts = [f"text {i} {i * 7919 % 1013}" for i in range(30_000)]
    content = bytearray(
        parquet(
            path, {"text": texts}, compression="zstd", use_dictionary=False, data_page_size=4096
        )
    )
    middle = len(content) // 2
    content[middle : middle + 2_000] = b"\xa5" * 2_000
    path.write_bytes(content)


def cut(path: Path) -> None:
    path.write_bytes(parquet(path, {"text": GOOD})[:-20])


def bad_name(path: Path) -> None:
    content = parquet(path, {"text": GOOD, "ZZZZ": GOOD})
    path.write_bytes(content.replace(b"ZZZZ", b"\xff\xfeZZ"))


def records(path: Path) -> None:
    with RecordWriter(path.parent, kind="pt") as writer:
        writer.write([{"text": "a record", "meta": META}])
    writer.path.rename(path)


BROKEN: dict[str, tuple[Callable[[Path], object], str]] = {
    "cut": (cut, "the Parquet file has no footer"),
    "page": (broken_page, "cannot read it: "),
    "magic": (lambda path: path.write_bytes(b"PAR1"), "the Parquet file has no footer"),
    "magics": (lambda path: path.write_bytes(b"PAR1" * 3), "its Parquet footer would have"),
    "nothing": (lambda path: path.write_bytes(b""), "the Parquet file has no footer"),
    "other": (lambda path: path.write_text("id,text\n1,a\n" * 9), "the Parquet file has no footer"),
    "name": (bad_name, "cannot read its Parquet footer: 'utf-8' codec"),
    "numbers": (
        lambda path: parquet(path, {"text": [1, 2]}),
        "column 'text' is int64, not text",
    ),
    "lists": (lambda path: parquet(path, {"text": [["a"]]}), "column 'text' is list<.*>, not text"),
    "missing": (lambda path: parquet(path, {"Text": ["a"]}), "no column 'text' .it has 'Text'"),
    "twice": (
        lambda path: pq.write_table(
            pa.table([pa.array(["a"]), pa.array(["b"])], names=["text", "text"]), path
        ),
        "has 2 columns 'text'",
    ),
    "records": (records, "holds PT records, the first file no ingot records"),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A good file before and behind all the others."""
    folder = tmp_path / "in"
    folder.mkdir()
    for name in ("0.parquet", "z.parquet"):
        parquet(folder / name, {"text": GOOD})
    return folder


def built(
    folder: Path, tokenizer: Path, options: BuildOptions | None = None, **work: Any
) -> tuple[TokenStats, dict[str, Any], list[dict[str, Any]]]:
    """Builds `out` beside a folder; gives the stats, `.meta.json` and the log."""
    prefix = folder.parent / "out"
    said: list[dict[str, Any]] = []
    options = options or BuildOptions(text_cols=("text",))
    stats = build(
        scan(folder),
        tokenizer,
        prefix,
        options,
        WorkOptions(tok_engine="hf", **work),
        monitor=lambda message: said.append(message),
    )
    meta = json.loads(prefix.with_name("out.meta.json").read_text("utf-8"))
    return stats, meta, [one for one in said if one["kind"] == "log"]


@pytest.mark.more
@pytest.mark.parametrize("processes", [1, 2])
def test_files_that_cannot_be_read_are_left_out_and_named(
    tmp_path: Path, folder: Path, tokenizer_file: Path, processes: int
) -> None:
    for name, (write, _) in BROKEN.items():
        write(folder / f"{name}.parquet")
    stats, meta, said = built(folder, tokenizer_file, processes=processes)
    assert (stats.documents, stats.failed_files) == (6, len(BROKEN))
    assert meta["counts"]["failed_files"] == len(BROKEN)
    failed = {one["path"]: one["error"] for one in meta["files"] if one["status"] == "failed"}
    for name, (_, problem) in BROKEN.items():
        error = failed.pop(f"{name}.parquet")
        assert str(folder) not in error  # "path" stands beside it
        assert matches(problem, error), (name, error)
    assert not failed
    told = {one["file_path"] for one in said if one["event"] == "batch_decode_failed"}
    assert told == {f"{name}.parquet" for name in BROKEN}
    tokens = IndexedReader(tmp_path / "out")
    assert [tokens.document(i).tolist() for i in range(3)] == [
        tokens.document(i).tolist() for i in range(3, 6)
    ]


def matches(pattern: str, text: str) -> bool:
    import re

    return re.search(pattern, text) is not None


@pytest.mark.parametrize("name", BROKEN)
def test_with_fail_fast_the_first_such_file_ends_the_build(
    tmp_path: Path, folder: Path, tokenizer_file: Path, name: str
) -> None:
    write, problem = BROKEN[name]
    write(folder / "bad.parquet")
    with pytest.raises(SourceError, match=problem) as raised:
        built(folder, tokenizer_file, fail_fast=True)
    assert raised.value.where == str(folder / "bad.parquet")
    assert not (tmp_path / "out.idx").exists()


def test_where_no_file_can_be_read_the_first_says_why(tmp_path: Path, tokenizer_file: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.parquet").write_bytes(b"")
    (folder / "b.parquet").write_bytes(b"PAR1")
    with pytest.raises(SourceError, match=r"a\.parquet: cut off: the Parquet file has no footer"):
        built(folder, tokenizer_file)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["in"]


@pytest.mark.parametrize("first", ["nothing", "missing", "records", "numbers"])
def test_the_first_file_does_not_have_to_be_a_good_one(
    tmp_path: Path, folder: Path, tokenizer_file: Path, first: str
) -> None:
    if first == "records":  # what the first file that serves holds is what is read
        pytest.skip("a file of records serves")
    BROKEN[first][0](folder / "0-.parquet")
    (folder / "0.parquet").unlink()
    stats, _, _ = built(folder, tokenizer_file, BuildOptions())
    expected = 1 if first == "missing" else 3  # of a column `Text` that is taken for the text
    assert stats.documents == expected


@pytest.mark.more
@pytest.mark.parametrize("kind", [pa.string(), pa.binary(), pa.large_string()])
@pytest.mark.parametrize("processes", [1, 2])
def test_rows_that_are_no_utf8_are_counted_rejects(
    tmp_path: Path, tokenizer_file: Path, kind: pa.DataType, processes: int
) -> None:
    if processes == 2 and kind != pa.string():
        pytest.skip("one type is enough with several processes")
    folder = tmp_path / "in"
    folder.mkdir()
    values = [b"good", b"\xff\xfe", None, b"a \xed\xa0\x80 surrogate", b"", b"good too"]
    column = pa.array(values, pa.binary()).cast(kind, safe=False)
    parquet(folder / "a.parquet", {"text": column})
    with pytest.raises(ConversionError, match=r"a\.parquet, row 1: bad_utf8: byte 0"):
        built(folder, tokenizer_file, fail_fast=True, processes=processes)
    stats, meta, _ = built(folder, tokenizer_file, processes=processes)
    assert (stats.documents, stats.rejected) == (4, 2)
    counts = meta["counts"]
    assert (counts["rows"], counts["null"], counts["empty"]) == (6, 1, 2)
    lines = (tmp_path / "out.rejects.jsonl").read_text("utf-8").splitlines()
    found = [json.loads(line) for line in lines]
    assert [(one["file"], one["row"], one["reason"]) for one in found] == [
        ("a.parquet", 1, "bad_utf8"),
        ("a.parquet", 3, "bad_utf8"),
    ]


def test_a_file_without_rows_is_no_problem_but_nothing_at_all_is(
    tmp_path: Path, tokenizer_file: Path
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    empty = pa.array([], pa.string())
    for name in ("a.parquet", "b.parquet"):
        parquet(folder / name, {"text": empty})
    with pytest.raises(ConversionError, match=r"not a single token \(0 rows, "):
        built(folder, tokenizer_file)
    parquet(folder / "c.parquet", {"text": pa.nulls(3)})
    with pytest.raises(ConversionError, match=r"not a single token \(3 rows, 3 empty, "):
        built(folder, tokenizer_file)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["in"]
    parquet(folder / "d.parquet", {"text": ["at last"]})
    stats, meta, _ = built(folder, tokenizer_file)
    assert (stats.documents, stats.sequences, stats.failed_files) == (4, 1, 0)
    assert [one["rows"] for one in meta["files"]] == [0, 0, 3, 1]


def test_a_file_that_vanishes_or_changes_behind_the_listing_fails(
    tmp_path: Path, folder: Path, tokenizer_file: Path
) -> None:
    for name in ("gone.parquet", "grown.parquet", "touched.parquet"):
        parquet(folder / name, {"text": GOOD})
    files = scan(folder)
    (folder / "gone.parquet").unlink()
    parquet(folder / "grown.parquet", {"text": GOOD * 50})
    os.utime(folder / "touched.parquet", ns=(1, 1))
    stats = build(files, tokenizer_file, tmp_path / "out", None, WorkOptions(tok_engine="hf"))
    assert (stats.documents, stats.failed_files) == (6, 3)
    meta = json.loads((tmp_path / "out.meta.json").read_text())
    errors = {one["path"]: one.get("error", "") for one in meta["files"]}
    assert "cannot be read: No such file or directory" in errors["gone.parquet"]
    for name in ("grown.parquet", "touched.parquet"):
        assert "changed while it was to be read" in errors[name]


def test_a_file_that_is_replaced_while_it_is_read_fails(
    tmp_path: Path, folder: Path, tokenizer_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = scan(folder)
    reads = read_rows

    def replaced_on_the_way(file: Any, *rest: Any, **options: Any) -> Iterator[RowBatch]:
        for rows in reads(file, *rest, **options):
            if file.name == "0.parquet":
                parquet(file.path, {"text": ["other"] * 40})
            yield rows

    monkeypatch.setattr("ingot.converters.megatron.run.pipeline.read_rows", replaced_on_the_way)
    stats = build(files, tokenizer_file, tmp_path / "out", None, WorkOptions(tok_engine="hf"))
    assert (stats.documents, stats.failed_files) == (3, 1)


def test_what_is_no_regular_file_is_not_waited_for(
    tmp_path: Path, folder: Path, tokenizer_file: Path
) -> None:
    os.mkfifo(folder / "0-pipe.parquet")
    (folder / "link.parquet").symlink_to(tmp_path / "nowhere")
    stats, meta, _ = built(folder, tokenizer_file)
    assert (stats.documents, stats.failed_files) == (6, 2)
    errors = [one["error"] for one in meta["files"] if one["status"] == "failed"]
    assert ["it is not a regular file" in errors[0], "No such file" in errors[1]] == [True, True]


@pytest.mark.skipif(os.geteuid() == 0, reason="permissions do not bind this user")
def test_what_may_not_be_read_is_told(tmp_path: Path, folder: Path, tokenizer_file: Path) -> None:
    parquet(folder / "locked.parquet", {"text": GOOD})
    (folder / "locked.parquet").chmod(0)
    stats, meta, _ = built(folder, tokenizer_file)
    assert stats.failed_files == 1
    assert "Permission denied" in str(meta["files"])
    (folder / "inner").mkdir(mode=0)
    with pytest.raises(SourceError, match="inner: cannot be listed: Permission denied"):
        scan(folder)
    (folder / "inner").chmod(stat.S_IRWXU)


def test_names_of_every_kind_are_kept(tmp_path: Path, tokenizer_file: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    names = ["床 前.parquet", "a,b'\".parquet", "\x1b[31m\n.parquet", "\udcff.parquet"]
    for name in names:
        parquet(folder / "x", {"text": ["good", None]})
        (folder / "x").rename(folder / name)
    stats, meta, _ = built(folder, tokenizer_file)
    assert stats.documents == 8
    assert len({one["path"] for one in meta["files"]}) == 4
    again = build(scan(folder), tokenizer_file, tmp_path / "out", BuildOptions(text_cols=("text",)))
    assert again.already_done


@pytest.mark.more
def test_many_tiny_files(tmp_path: Path, tokenizer_file: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    content = parquet(folder / "x", {"text": GOOD})
    (folder / "x").unlink()
    for number in range(300):
        (folder / f"{number:04}.parquet").write_bytes(content)
    stats, meta, _ = built(folder, tokenizer_file)
    assert (stats.documents, len(meta["files"])) == (900, 300)


def test_one_file_in_place_of_a_folder(tmp_path: Path, folder: Path, tokenizer_file: Path) -> None:
    (folder / "z.parquet").rename(folder / "z.bin")
    stats = build(
        scan(folder / "z.bin"), tokenizer_file, tmp_path / "out", None, WorkOptions(tok_engine="hf")
    )
    assert stats.documents == 3
    with pytest.raises(ConversionError, match="no file to tokenize"):
        build(stamp_files([]), tokenizer_file, tmp_path / "out2")
