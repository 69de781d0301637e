"""The job: accounting, equal bytes, resume, limits, destinations, errors that leave nothing."""

import dataclasses
import gzip
import hashlib
import json
import math
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from ingot.converters.convert import plan, shard
from ingot.converters.convert.job import (
    ConvertOptions,
    Result,
    convert,
    stage_conversion,
    stage_irrelevant,
)
from ingot.converters.convert.record_tokens import tokens_name
from ingot.converters.errors import ConversionError, OutputError, SourceError
from ingot.converters.json_yaml import validator
from ingot.converters.mapping.bind import bind
from ingot.converters.mapping.language import Mapping
from ingot.converters.progress import Progress
from ingot.converters.records import writers
from ingot.converters.records.readers import read_records
from ingot.converters.rows import BadRow, Batch
from ingot.converters.sources import Source, open_source
from ingot.converters.sources.facts import SourceSpec
from tests.conftest import first_more

PT = {"version": 2, "text": "text", "meta": {"original_id": "id", "token_count": "count"}}
SFT = {
    "version": 2,
    "messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}],
}
CHATS = {
    "version": 2,
    "group": {"by": ["c"], "sort": "n"},
    "messages": [{"each": "[*]", "role": ["user", "assistant"], "content": "t"}],
}


def write_rows(path: Path, rows: list[Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [row if isinstance(row, str) else json.dumps(row, ensure_ascii=False) for row in rows]
    path.write_text("\n".join([*lines, ""]), encoding="utf-8")
    return path


def pt_rows(count: int, start: int = 0) -> list[dict]:
    return [{"id": f"r{i}", "text": f"文本 number {i}"} for i in range(start, start + count)]


def run(location: Path, out: Path, document: dict = PT, **options: Any) -> Result:
    mapping: Mapping = bind(document, ())
    make_files = options.pop("make_files", lambda *_: {})
    more = {k: options.pop(k) for k in ("progress", "runner") if k in options}
    settings = ConvertOptions(**{"workers": 1, **options})
    with stage_conversion(open_source(str(location)), mapping, out, settings, **more) as staged:
        if staged.done is None:
            staged.commit(make_files(staged.manifest, staged.first_rejects), {})
    return staged.result


def tree(folder: Path, *, run_json: bool = False) -> dict[str, bytes]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    kept = [path for path in files if run_json or path.name != "run.json"]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in kept}


@pytest.fixture
def many(tmp_path: Path) -> Path:
    """Seven files of forty rows, one broken and one empty in each."""
    for number in range(7):
        rows = [*pt_rows(40, start=100 * number), "{broken", {"id": "none", "text": ""}]
        write_rows(tmp_path / "raw" / f"{number}.jsonl", rows)
    return tmp_path / "raw"


@pytest.fixture
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "SHARD_BYTES", 5_000)


def test_a_result_holds_what_its_manifest_says(many: Path, tmp_path: Path) -> None:
    result = run(
        many,
        tmp_path / "out",
        make_files=lambda manifest, rejects: {
            "report.md": f"{manifest['rows']['read']} rows, first: {rejects[0]}\n".encode()
        },
    )
    manifest = json.loads((tmp_path / "out/manifest.json").read_text())
    assert manifest == result.manifest
    assert list(validator("manifest").iter_errors(manifest)) == []
    assert manifest["decision"] == "pt"
    assert manifest["rows"] == {"read": 294, "converted": 280, "rejected": 14, "filtered": 0}
    assert manifest["rejects"] == {"bad_row": 7, "empty_text": 7}
    assert manifest["records"] == {
        "written": 280,
        "rejected": 14,
        "filtered": 0,
        "duplicates": 0,
        "ragged": 0,
    }
    assert manifest["warnings"]["paths"]["count"] == {"looked_up": 280, "missing": 280, "null": 0}
    files = tree(tmp_path / "out", run_json=True)
    assert set(files) == {
        "manifest.json",
        "mapping.json",
        "records/part-00000.parquet",
        "rejected/part-00000.jsonl",
        "report.md",
        "run.json",
    }
    for entry in manifest["files"]:
        content = files[entry["path"]]
        assert entry["sha256"] == hashlib.sha256(content).hexdigest()
        assert entry["bytes"] == len(content)
    assert [e["path"] for e in manifest["files"]] == sorted(
        files.keys() - {"manifest.json", "run.json"}
    )
    for entry in manifest["inputs"]:
        content = (many / entry["name"]).read_bytes()
        assert (entry["bytes"], entry["sha256"]) == (
            len(content),
            hashlib.sha256(content).hexdigest(),
        )
    assert files["report.md"].startswith(b"294 rows, first: 0.jsonl row 40: bad_row")
    records = list(read_records(tmp_path / "out/records"))
    assert [r["meta"]["original_id"] for r in records] == [
        f"r{100 * n + i}" for n in range(7) for i in range(40)
    ]
    assert records[0]["meta"]["source"] == "raw"
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []


def test_run_json_holds_what_may_differ_and_the_saved_mapping_executes_alike(
    many: Path, tmp_path: Path
) -> None:
    result = run(many, tmp_path / "out")
    ran = json.loads((tmp_path / "out/run.json").read_text())
    assert ran == result.run
    assert ran["seconds"].keys() == {"convert", "merge", "tokens"}
    assert ran["peak_rss_bytes"] > 1 << 20
    assert {f["name"]: f["mtime_ns"] for f in ran["inputs"]["files"]} == {
        path.name: path.stat().st_mtime_ns for path in many.iterdir()
    }
    saved = json.loads((tmp_path / "out/mapping.json").read_text())
    run(many, tmp_path / "again", document=saved)
    assert tree(tmp_path / "again") == tree(tmp_path / "out")


def test_both_formats_hold_the_same_records(many: Path, tmp_path: Path) -> None:
    run(many, tmp_path / "p")
    run(many, tmp_path / "j", records="jsonl")
    assert list(read_records(tmp_path / "p/records")) == list(read_records(tmp_path / "j/records"))


@pytest.mark.more
@pytest.mark.usefixtures("small_shards")
@pytest.mark.parametrize("records", ["parquet", "jsonl"])
def test_bytes_do_not_depend_on_workers(many: Path, tmp_path: Path, records: str) -> None:
    seen: list[Progress] = []
    run(many, tmp_path / "one", records=records, progress=seen.append)
    run(many, tmp_path / "three", records=records, workers=3)
    assert tree(tmp_path / "one") == tree(tmp_path / "three")
    assert len(list((tmp_path / "one/records").iterdir())) == 4
    whole = Progress(stage="convert", shards_done=4, shards=4, rows=294, records=280, rejects=14)
    assert seen[-1] == whole
    assert [p.rows for p in seen] == sorted(p.rows for p in seen)


LINES = [
    b'{"id": "a", "text": "one"}',
    b"",
    b' {"id": "b", "text": "' + b"long " * 60 + b'"}',
    b"   \t",
    b"{broken",
    '{"id": "c", "text": "中文"}'.encode(),
    b'{"id": "d", "text": ""}\r',
    b"\x0b\x0c",
    b'["no object"]',
    b'{"id": "e", "text": "\xff"}',
    b'\xef\xbb\xbf{"id": "f", "text": "a mark within"}',
]
MARK = b"\xef\xbb\xbf"
# What a file begins and ends with: each once, then the other pairs.
ENDS = [(b"", b"\n"), (MARK, b""), (MARK + b"\n", b"\n\n \n"), (b"\n\n", b"\n")]
ENDS += [
    (first, last)
    for first in (b"", MARK, MARK + b"\n", b"\n\n")
    for last in (b"\n", b"", b"\n\n \n")
    if (first, last) not in ENDS
]


@pytest.mark.more
@pytest.mark.parametrize(("first", "last"), first_more(ENDS, 4))
@pytest.mark.parametrize("form", ["jsonl", "text"])
def test_a_large_file_of_lines_is_cut_and_gives_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: bytes, last: bytes, form: str
) -> None:
    source = tmp_path / f"lines.{'jsonl' if form == 'jsonl' else 'txt'}"
    source.write_bytes(first + b"\n".join(LINES * 7) + last)
    document = {**(PT if form == "jsonl" else {"version": 2, "text": "text"})}
    document["source"] = {"format": form, "encoding": "utf-8"}
    whole = run(source, tmp_path / "whole", document)
    monkeypatch.setattr(plan, "SHARD_BYTES", 300)
    monkeypatch.setattr(plan, "_BLOCK", 97)
    spec = SourceSpec.from_document(document["source"])
    assert len(plan.plan_shards(open_source(str(source), spec))) > 4
    cut = run(source, tmp_path / "cut", document)
    assert cut.manifest["rows"] == whole.manifest["rows"]
    assert cut.manifest["inputs"] == whole.manifest["inputs"]
    records = [list(read_records(tmp_path / name / "records")) for name in ("whole", "cut")]
    assert records[0] == records[1]
    rejects = [
        b"".join(file.read_bytes() for file in sorted((tmp_path / name / "rejected").iterdir()))
        for name in ("whole", "cut")
    ]
    assert rejects[0] == rejects[1]
    again = run(source, tmp_path / "two", document, workers=2)
    assert tree(again.out) == tree(cut.out)


@pytest.mark.more
def test_a_file_that_changes_between_its_pieces_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In place, with its former size and time: each piece by itself sees one state."""
    source = write_rows(tmp_path / "lines.jsonl", pt_rows(90))
    monkeypatch.setattr(plan, "SHARD_BYTES", 300)
    monkeypatch.setattr(plan, "_BLOCK", 97)
    facts, done = source.stat(), []

    def rewrite(seen: Progress) -> None:
        done.append(seen.shards_done)
        if done.count(2) == 1 and seen.shards_done == 2:  # told before the third begins
            text = source.read_bytes().replace(b"number", b"letter")
            with source.open("r+b") as file:
                file.write(text)
            os.utime(source, ns=(facts.st_atime_ns, facts.st_mtime_ns))

    with pytest.raises(SourceError, match="changed while it was read"):
        run(source, tmp_path / "out", progress=rewrite)
    assert not (tmp_path / "out/records").exists()


def test_groups_keep_a_file_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"c": number % 3, "n": number, "t": f"turn {number}"} for number in range(60)]
    source = write_rows(tmp_path / "chats.jsonl", rows)
    run(source, tmp_path / "whole", CHATS)
    monkeypatch.setattr(plan, "SHARD_BYTES", 100)
    monkeypatch.setattr(plan, "_BLOCK", 50)
    run(source, tmp_path / "same", CHATS)
    assert tree(tmp_path / "whole") == tree(tmp_path / "same")


def test_parts_are_closed_at_their_bound(
    many: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(many, tmp_path / "whole")
    monkeypatch.setattr(writers, "PART_RECORDS", 100)
    run(many, tmp_path / "cut")
    cut = sorted((tmp_path / "cut/records").iterdir())
    further = [f"part-00000_{n:03d}.parquet" for n in range(1, len(cut))]
    assert [p.name for p in cut] == ["part-00000.parquet", *further]
    assert len(cut) > 1
    assert list(read_records(tmp_path / "cut/records")) == list(
        read_records(tmp_path / "whole/records")
    )


@pytest.mark.usefixtures("small_shards")
def test_a_part_is_named_after_its_shard(tmp_path: Path) -> None:
    for number, text in enumerate(["good", None, "good"]):
        write_rows(tmp_path / f"raw/{number}.jsonl", [{"text": text and text * 2000}] * 3)
    run(tmp_path / "raw", tmp_path / "out", {"version": 2, "text": "text"})
    names = sorted(p.relative_to(tmp_path / "out").as_posix() for p in tmp_path.glob("out/*/*"))
    assert names == [
        "records/part-00000.parquet",
        "records/part-00002.parquet",
        "rejected/part-00001.jsonl",
    ]


def shards_of(location: Path) -> list[list[str]]:
    return [[file.name for file in one] for one in plan.plan_shards(open_source(str(location)))]


@pytest.mark.usefixtures("small_shards")
def test_shards_pack_neighbours_and_leave_large_files_alone(tmp_path: Path) -> None:
    for name, size in {"a": 2000, "b": 2000, "c": 9000, "d": 100, "e": 4800, "f": 200}.items():
        write_rows(tmp_path / "raw" / f"{name}.jsonl", [{"text": "x" * (size - 13)}])
    expected = [["a.jsonl", "b.jsonl"], ["c.jsonl"], ["d.jsonl", "e.jsonl"], ["f.jsonl"]]
    assert shards_of(tmp_path / "raw") == expected


@pytest.mark.more
@pytest.mark.usefixtures("small_shards")
def test_a_compressed_tar_is_one_shard_and_a_plain_one_is_not(many: Path, tmp_path: Path) -> None:
    for mode in ("w", "w:gz"):
        with tarfile.open(tmp_path / f"set{mode[2:]}.tar", mode) as archive:
            archive.add(many, arcname="many")
    assert [len(one) for one in shards_of(tmp_path / "set.tar")] == [2, 2, 2, 1]
    assert [len(one) for one in shards_of(tmp_path / "setgz.tar")] == [7]
    packed = run(tmp_path / "setgz.tar", tmp_path / "out")
    assert packed.manifest["rows"] == run(many, tmp_path / "plain").manifest["rows"]
    assert [e["sha256"] for e in packed.manifest["inputs"]] == [
        hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(many.iterdir())
    ]


class TestDestination:
    def test_an_equal_result_is_known_by_time_or_by_content(
        self, many: Path, tmp_path: Path
    ) -> None:
        out = tmp_path / "out"
        assert not run(many, out).already_done
        before = tree(out, run_json=True)
        assert run(many, out).already_done
        os.utime(many / "3.jsonl", ns=(1, 1))
        again = run(many, out, overwrite=True)
        assert again.already_done
        assert any("already" in note for note in again.notes)
        (tmp_path / "moved").mkdir()
        moved = many.rename(tmp_path / "moved/raw")
        assert run(moved, out).already_done
        assert tree(out, run_json=True) == before

    @pytest.mark.parametrize(
        ("change", "problem"),
        [
            ("content", "other content of the files"),
            ("file", "other files"),
            ("mapping", "another mapping"),
            ("option", r"options.language is"),
        ],
    )
    def test_another_result_needs_overwrite(
        self, many: Path, tmp_path: Path, change: str, problem: str
    ) -> None:
        out = tmp_path / "out"
        run(many, out)
        before = tree(out, run_json=True)
        document, options = PT, {}
        if change == "content":
            text = (many / "3.jsonl").read_text().replace("number 301", "number 999")
            (many / "3.jsonl").write_text(text)
        elif change == "file":
            write_rows(many / "8.jsonl", pt_rows(1))
        elif change == "mapping":
            document = {**PT, "text": {"concat": ["id", "text"]}}
        else:
            options = {"language": "zh"}
        with pytest.raises(OutputError, match=f"holds another result: {problem} .*`overwrite`"):
            run(many, out, document, **options)
        assert tree(out, run_json=True) == before
        assert not run(many, out, document, overwrite=True, **options).already_done
        run(many, tmp_path / "fresh", document, **options)
        assert tree(out) == tree(tmp_path / "fresh")
        assert sorted(p.name for p in tmp_path.iterdir()) == ["fresh", "out", "raw"]

    def test_provenance_makes_no_other_result(self, many: Path, tmp_path: Path) -> None:
        run(many, tmp_path / "out")
        assert run(many, tmp_path / "out", {**PT, "provenance": {"mapper": "x"}}).already_done

    def test_a_source_inside_its_destination_is_refused(self, many: Path, tmp_path: Path) -> None:
        out = tmp_path / "out"
        run(many, out, records="jsonl")
        document = {"version": 2, "text": "text"}
        with pytest.raises(OutputError, match="holds a file of the source"):
            run(out / "records", out, document, overwrite=True)
        assert not run(out / "records", tmp_path / "next", document).already_done

    def test_a_link_into_the_destination_is_refused(self, many: Path, tmp_path: Path) -> None:
        out, raw = tmp_path / "out", tmp_path / "links"
        run(many, out, records="jsonl")
        raw.mkdir()
        (raw / "records.jsonl").symlink_to(next((out / "records").iterdir()))
        with pytest.raises(OutputError, match=r"a file of the source: records\.jsonl"):
            run(raw, out, {"version": 2, "text": "text"}, overwrite=True)


class Stops:
    """A runner in this process that is interrupted before its n-th shard."""

    def __init__(self, after: int) -> None:
        self.left = after

    def submit(self, work: Callable[..., Any], /, *arguments: Any) -> "Future[Any]":
        if not self.left:
            raise KeyboardInterrupt
        self.left -= 1
        future: Future[Any] = Future()
        future.set_result(work(*arguments))
        return future


@pytest.mark.more
@pytest.mark.usefixtures("small_shards")
def test_an_interrupted_run_goes_on_where_it_was(many: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        run(many, out, runner=Stops(after=2))
    assert not out.exists()
    (stage,) = (p for p in tmp_path.iterdir() if p.name.startswith("."))
    kept = [p.stat().st_ino for p in sorted(stage.rglob("part-*.parquet"))]
    assert len(kept) == 2
    (stage / "work" / ".000002-dead" / "records").mkdir(parents=True)
    result = run(many, out)
    assert result.run["resumed"] is True
    parts = sorted((out / "records").iterdir())
    assert [p.stat().st_ino for p in parts[:2]] == kept
    run(many, tmp_path / "fresh")
    assert tree(out) == tree(tmp_path / "fresh")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["fresh", "out", "raw"]


@pytest.mark.usefixtures("small_shards")
def test_an_interrupted_merge_goes_on_too(many: Path, tmp_path: Path) -> None:
    def interrupted(manifest: Any, rejects: Any) -> dict[str, bytes]:
        raise KeyboardInterrupt

    out = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        run(many, out, make_files=interrupted)
    run(many, out)
    run(many, tmp_path / "fresh")
    assert tree(out) == tree(tmp_path / "fresh")


@pytest.mark.usefixtures("small_shards")
@pytest.mark.parametrize("limit", [1, 41, 42, 45, 100, 294, 1000])
def test_a_limit_reads_the_first_rows_in_order(many: Path, tmp_path: Path, limit: int) -> None:
    manifest = run(many, tmp_path / "out", limit=limit, workers=3).manifest
    read = min(limit, 294)
    rejected = sum(42 * n + place < read for n in range(7) for place in (40, 41))
    assert manifest["rows"] == {
        "read": read,
        "converted": read - rejected,
        "rejected": rejected,
        "filtered": 0,
    }
    hashed = [entry["sha256"] is not None for entry in manifest["inputs"]]
    assert hashed == [42 * (n + 1) < limit for n in range(7)]
    assert run(many, tmp_path / "out", limit=limit).already_done


@pytest.mark.more
@pytest.mark.usefixtures("small_shards")
def test_numbers_that_are_not_finite_are_null_and_counted(tmp_path: Path) -> None:
    """Whatever the workers, with a limit and where rows are grouped."""
    for name in ("a", "b"):
        rows = [{**row, "c": 1, "n": n, "t": "x"} for n, row in enumerate(pt_rows(120))]
        rows[70] |= {"count": math.nan, "n": -math.inf}
        rows[90] |= {"count": math.inf}
        write_rows(tmp_path / f"raw/{name}.jsonl", rows)
    one = run(tmp_path / "raw", tmp_path / "one")
    found = {"numbers": 6, "rows": 4, "file": "a.jsonl", "row": 70}
    assert one.manifest["warnings"]["non_finite"] == found
    assert one.manifest["rows"]["converted"] == 240
    assert one.manifest["warnings"]["meta"] == {}
    validator("manifest").validate(one.manifest)
    run(tmp_path / "raw", tmp_path / "three", workers=3)
    assert tree(tmp_path / "one") == tree(tmp_path / "three")
    cut = run(tmp_path / "raw", tmp_path / "cut", limit=90).manifest
    assert cut["warnings"]["non_finite"] == {**found, "numbers": 2, "rows": 1}
    few = run(tmp_path / "raw", tmp_path / "few", limit=70).manifest
    assert "non_finite" not in few["warnings"]
    grouped = run(tmp_path / "raw", tmp_path / "chats", CHATS).manifest
    assert grouped["warnings"]["non_finite"] == found


def test_first_rows_counts_bad_rows_by_their_place() -> None:
    bad = [BadRow(row=n, detail="", found="") for n in (1, 4)]
    batch = Batch(file="f", rows=[0, 2, 3], values="abc", keys="xyz", bad=bad)
    cut = shard.first_rows(batch, 3)
    assert (list(cut.rows), list(cut.values), list(cut.keys or ())) == (
        [0, 2],
        ["a", "b"],
        ["x", "y"],
    )
    assert [b.row for b in cut.bad] == [1]
    assert shard.first_rows(batch, 5) is batch


def test_a_file_name_that_is_no_text_is_kept(many: Path, tmp_path: Path) -> None:
    odd = os.fsdecode(b"8\xff.jsonl")
    write_rows(many / odd, [*pt_rows(1), "{"])
    manifest = run(many, tmp_path / "out").manifest
    assert manifest["inputs"][-1]["name"] == odd
    assert json.loads((tmp_path / "out/manifest.json").read_bytes()) == manifest
    assert run(many, tmp_path / "out").already_done


def test_groups_account_for_every_row(tmp_path: Path) -> None:
    rows = [{"c": i % 3, "n": 9 - i, "t": f"turn {i}"} for i in range(9)]
    write_rows(tmp_path / "raw.jsonl", [*rows, {"c": 7, "n": 1, "t": "alone"}, "{"])
    manifest = run(tmp_path / "raw.jsonl", tmp_path / "out", CHATS).manifest
    assert manifest["rows"] == {"read": 11, "converted": 9, "rejected": 2, "filtered": 0}
    assert manifest["records"]["written"] == 3
    assert manifest["rejects"] == {"bad_row": 1, "no_assistant": 1}
    first = next(read_records(tmp_path / "out/records"))
    assert [m["content"] for m in first["messages"]] == ["turn 6", "turn 3", "turn 0"]


def test_where_everything_is_filtered_the_result_is_empty_and_no_error(tmp_path: Path) -> None:
    write_rows(tmp_path / "raw.jsonl", pt_rows(5))
    document = {**PT, "where": [{"path": "id", "in": ["nobody"]}]}
    manifest = run(tmp_path / "raw.jsonl", tmp_path / "out", document).manifest
    assert manifest["rows"] == {"read": 5, "converted": 0, "rejected": 0, "filtered": 5}
    assert manifest["records"]["filtered"] == 5
    assert manifest["rejects"] == {}
    assert list((tmp_path / "out/records").iterdir()) == []


@pytest.mark.usefixtures("small_shards")
def test_a_shard_may_have_no_row(tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    raw.mkdir()
    (raw / "a.csv").write_text("id,text,n\n1,a,2\n")
    (raw / "b.csv").write_text("id,text,n\n")
    manifest = run(raw, tmp_path / "out").manifest
    assert (manifest["rows"]["read"], manifest["records"]["written"]) == (1, 1)


def test_where_every_row_is_rejected_nothing_is_committed(tmp_path: Path) -> None:
    write_rows(tmp_path / "raw.jsonl", [*pt_rows(3), "{"])
    with pytest.raises(ConversionError) as caught:
        run(tmp_path / "raw.jsonl", tmp_path / "out", {**PT, "text": "txet"})
    message = str(caught.value)
    assert "every row was rejected (4 read): empty_text 3, bad_row 1" in message
    assert "raw.jsonl row 0: empty_text at txet" in message
    assert [p.name for p in tmp_path.iterdir()] == ["raw.jsonl"]


@pytest.mark.more
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.usefixtures("small_shards")
def test_a_file_that_ends_too_early_commits_nothing(
    many: Path, tmp_path: Path, workers: int
) -> None:
    whole = gzip.compress(("\n".join(json.dumps(r) for r in pt_rows(20_000))).encode())
    (many / "9.jsonl.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(SourceError, match=r"9\.jsonl\.gz"):
        run(many, tmp_path / "out", workers=workers)
    assert [p.name for p in tmp_path.iterdir()] == ["raw"]


def test_a_file_that_grows_while_it_is_read_is_noticed(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "raw.jsonl", pt_rows(5))
    source = open_source(str(path))
    write_rows(path, pt_rows(6))
    with pytest.raises(SourceError, match="changed while it was read"):
        convert(source, bind(PT, ()), tmp_path / "out", ConvertOptions(workers=1))
    assert [p.name for p in tmp_path.iterdir()] == ["raw.jsonl"]


def test_an_irrelevant_source_is_committed_as_such(many: Path, tmp_path: Path) -> None:
    source = open_source(str(many))
    out = tmp_path / "out"
    with stage_irrelevant(source, out, "no running text", ConvertOptions()) as staged:
        staged.commit({}, {})
    result = staged.result
    assert list(validator("manifest").iter_errors(result.manifest)) == []
    assert result.manifest["decision"] == "irrelevant"
    assert result.manifest["reason"] == "no running text"
    assert set(result.manifest["rows"].values()) == {0}
    assert len(result.manifest["inputs"]) == 7
    assert list((out / "records").iterdir()) == []
    with stage_irrelevant(source, out, "no running text", ConvertOptions()) as again:
        assert again.result.already_done
    with pytest.raises(OutputError, match="`overwrite`"):
        run(many, out)
    assert run(many, tmp_path / "by mapping", {"version": 2, "text": None}).manifest[
        "decision"
    ] == ("irrelevant")


@pytest.fixture(scope="session")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trained.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    trained.train_from_iterator(["a text number"], trainer)
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    trained.save(str(path))
    return path


def test_tokens_are_made_of_the_records_in_order(
    many: Path, tmp_path: Path, tokenizer: Path
) -> None:
    from tokenizers import Tokenizer

    from ingot.converters.megatron import IndexedReader

    manifest = run(many, tmp_path / "out", tokenizer=tokenizer).manifest
    assert list(validator("manifest").iter_errors(manifest)) == []
    assert manifest["tokens"]["documents"] == 280
    assert {e["path"] for e in manifest["files"]} >= {
        f"tokens/raw.{end}" for end in ("bin", "idx", "meta.json")
    }
    data = IndexedReader(tmp_path / "out/tokens/raw")
    loaded = Tokenizer.from_file(str(tokenizer))
    records = list(read_records(tmp_path / "out/records"))
    for number in (0, 279):
        ids = data[number].tolist()
        assert ids[-1] == loaded.token_to_id("<|endoftext|>")
        assert loaded.decode(ids[:-1]) == records[number]["text"]
    run(many, tmp_path / "again", tokenizer=tokenizer)
    assert tree(tmp_path / "again") == tree(tmp_path / "out")


def test_an_unfit_tokenizer_is_found_before_anything_is_read(many: Path, tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text("{}")
    with pytest.raises(ConversionError, match=r"t\.json"):
        run(many, tmp_path / "out", tokenizer=tmp_path / "t.json")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["raw", "t.json"]


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("train", "train"),
        ("../../etc/passwd", "etc_passwd"),
        ("数据 集", "数据_集"),
        ("...", "tokens"),
        ("é" * 300, "é" * 50),
    ],
)
def test_token_files_have_safe_names(source: str, name: str) -> None:
    assert tokens_name(source) == name


FULL = """
import resource, signal, sys
from pathlib import Path
from ingot.converters.errors import OutputError
from ingot.converters.convert.job import ConvertOptions, convert
from ingot.converters.mapping.bind import bind
from ingot.converters.sources import Source, open_source
from ingot.converters.sources.facts import SourceSpec
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
source = open_source(sys.argv[1])
mapping = bind({"version": 2, "text": "text"}, ())
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
options = ConvertOptions(records=sys.argv[3], workers=1, overwrite=True)
try:
    convert(source, mapping, Path(sys.argv[2]), options)
except OutputError as error:
    sys.exit(str(error))
"""


@pytest.mark.more
@pytest.mark.parametrize("records", ["parquet", "jsonl"])
def test_a_destination_without_room_is_an_output_error(tmp_path: Path, records: str) -> None:
    rows = [{"text": os.urandom(300).hex()} for _ in range(500)]
    raw = write_rows(tmp_path / "raw.jsonl", rows)
    out = tmp_path / "out"
    run(write_rows(tmp_path / "small.jsonl", pt_rows(3)), out)
    before = tree(out, run_json=True)
    command = [sys.executable, "-c", FULL, str(raw), str(out), records]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    assert done.stderr.startswith(f"{out}: cannot be written")
    assert "Traceback" not in done.stderr
    assert tree(out, run_json=True) == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out", "raw.jsonl", "small.jsonl"]


def test_options_and_results_are_values() -> None:
    assert dataclasses.replace(ConvertOptions(), limit=3) == ConvertOptions(limit=3)


@pytest.mark.parametrize("time", ["new", "old"])
def test_a_file_that_is_rewritten_in_place_while_it_is_read_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, time: str
) -> None:
    path = write_rows(tmp_path / "raw.jsonl", pt_rows(5))
    content, before = path.read_bytes(), path.stat()
    read = Source.batches

    def read_and_rewrite(source: Source, *files: object) -> Iterator[Batch]:
        yield from read(source)
        path.write_bytes(content.replace(b"a", b"b"))
        if time == "old":
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    monkeypatch.setattr(Source, "batches", read_and_rewrite)
    with pytest.raises(SourceError, match=r"raw\.jsonl: changed while it was read"):
        convert(open_source(str(path)), bind(PT, ()), tmp_path / "out", ConvertOptions(workers=1))
    assert [p.name for p in tmp_path.iterdir()] == ["raw.jsonl"]
