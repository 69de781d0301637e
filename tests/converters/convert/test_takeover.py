"""Shards of a former result: taken over where nothing changed, and never a byte that differs."""

import json
import math
import os
import random
import shutil
import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from ingot.converters.convert import plan
from ingot.converters.convert.job import ConvertOptions, Result, stage_conversion
from ingot.converters.mapping.bind import bind
from ingot.converters.sources import open_source
from ingot.converters.sources.facts import SourceFile

PT = {"version": 2, "text": "text", "meta": {"original_id": "id", "token_count": "n"}}
TOKENIZER = Path(__file__).parents[3] / "examples/tokenizer/tokenizer.json"


def rows_of(rng: random.Random) -> str:
    rows = []
    for number in range(rng.randrange(1, 12)):
        text = rng.choice(["", None, 5, f"text {rng.random()}", f"text {rng.random()}"])
        count = rng.choice([1, "x", math.nan])
        rows.append(json.dumps({"id": f"r{number}", "text": text, "n": count}))
    rows += rng.sample(["{broken", "[1, 2]", '{"id": "only"}'], rng.randrange(3))
    return "\n".join(rows)


def report(manifest: Any, rejects: Sequence[str]) -> dict[str, bytes]:
    """As the report tells it: in the order that counts give."""
    counts = [manifest["rejects"], manifest["warnings"]["meta"], manifest["warnings"]["paths"]]
    return {"report.md": json.dumps([list(map(list, map(dict.items, counts))), *rejects]).encode()}


def run(raw: Path, out: Path, document: dict = PT, **options: Any) -> Result:
    settings = ConvertOptions(**{"workers": 1, "overwrite": True, **options})
    mapping = bind(document, ())
    with stage_conversion(open_source(str(raw)), mapping, out, settings) as staged:
        if staged.done is None:
            staged.commit(report(staged.manifest, staged.first_rejects), {})
    return staged.result


def tree(folder: Path) -> dict[str, bytes]:
    files = (one for one in folder.rglob("*") if one.is_file() and one.name != "run.json")
    return {one.relative_to(folder).as_posix(): one.read_bytes() for one in files}


def taken(result: Result) -> int:
    count: int = result.run["shards_taken_over"]
    return count


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every file is a shard."""
    monkeypatch.setattr(plan, "SHARD_BYTES", 1)


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    rng = random.Random(1)
    (tmp_path / "raw").mkdir()
    for number in range(8):
        (tmp_path / f"raw/{number}.jsonl").write_text(f'{{"text": "a"}}\n{rows_of(rng)}\n')
    return tmp_path / "raw"


def stamps(raw: Path) -> dict[str, tuple[int, int]]:
    return {one.name: (one.stat().st_size, one.stat().st_mtime_ns) for one in raw.iterdir()}


def changed(raw: Path, rng: random.Random) -> None:
    """Files are added, removed, written anew, touched; a few at a time."""
    for _ in range(rng.randrange(1, 4)):
        names = sorted(raw.iterdir())
        what = rng.choice(["add", "remove", "change", "touch", "bytes"])
        some = rng.choice(names)
        if what == "add":
            some = raw / f"{rng.randrange(100):02}.jsonl"
            some.write_text(rows_of(rng) + "\n")
        elif what == "remove" and len(names) > 3:
            some.unlink()
        elif what == "change":
            some.write_text(rows_of(rng) + "\n")
        elif what == "touch":
            os.utime(some, ns=(rng.randrange(10**18), rng.randrange(10**18)))
        elif what == "bytes":  # of the same size: the time alone tells
            some.write_bytes(some.read_bytes().replace(b"text", b"TEXT"))
            os.utime(some, ns=(10**18, rng.randrange(10**18)))


@pytest.mark.more
@pytest.mark.parametrize(
    ("seed", "records"), [(0, "parquet"), (1, "jsonl"), (2, "parquet"), (3, "parquet")]
)
def test_whatever_changes_the_bytes_are_those_of_a_fresh_run(
    raw: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, records: str
) -> None:
    rng = random.Random(seed)
    monkeypatch.setattr(plan, "SHARD_BYTES", rng.choice([1, 500, 900]))
    document = {**PT, "group": {"by": ["id"]}} if seed == 3 else PT
    if "group" in document:
        document = {**document, "text": "[0].text", "meta": {"original_id": "[0].id"}}
    run(raw, tmp_path / "out", document, records=records)
    sure = 0
    for step in range(6):
        before = stamps(raw)
        changed(raw, rng)
        same = sum(before.get(name) == stamp for name, stamp in stamps(raw).items())
        result = run(raw, tmp_path / "out", document, records=records)
        fresh = run(raw, tmp_path / f"fresh{step}", document, records=records)
        assert tree(tmp_path / "out") == tree(tmp_path / f"fresh{step}")
        assert result.manifest == fresh.manifest
        if result.already_done:
            continue
        assert result.first_rejects == fresh.first_rejects
        sure += taken(result)
        assert taken(fresh) == 0
        if plan.SHARD_BYTES == 1:
            assert taken(result) == same
    assert sure > 3


@pytest.mark.usefixtures("alone")
def test_what_is_kept_for_it_quotes_no_row(tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    for number in range(3):
        rows = '{"text": "a"}\n{"text": 5, "id": "x"}\n{broken-canary\n{"text": "\\ud800-canary"}\n'
        (tmp_path / f"raw/{number}.jsonl").write_text(rows)
    result = run(tmp_path / "raw", tmp_path / "out")
    assert "bad_row" in "".join(result.first_rejects)
    assert "canary" not in "".join(result.first_rejects)
    assert "canary" not in (tmp_path / "out/run.json").read_text()
    (tmp_path / "raw/9.jsonl").write_text('{"text": "new"}\n')
    again = run(tmp_path / "raw", tmp_path / "out")
    fresh = run(tmp_path / "raw", tmp_path / "fresh")
    assert taken(again) == 3
    assert again.first_rejects == fresh.first_rejects
    assert tree(tmp_path / "out") == tree(tmp_path / "fresh")


@pytest.mark.more
@pytest.mark.usefixtures("alone")
def test_processes_take_over_too(raw: Path, tmp_path: Path) -> None:
    run(raw, tmp_path / "out")
    (raw / "9.jsonl").write_text('{"text": "new"}\n')
    assert taken(run(raw, tmp_path / "out", workers=2)) == 8
    run(raw, tmp_path / "fresh")
    assert tree(tmp_path / "out") == tree(tmp_path / "fresh")


def edited(text: str) -> Callable[[Path, Path], None]:
    def edit(raw: Path, out: Path) -> None:
        pieces = json.loads((out / "run.json").read_text())
        exec(text, {"run": pieces})
        (out / "run.json").write_text(json.dumps(pieces))

    return edit


def without_mapping(raw: Path, out: Path) -> None:
    document = json.loads((out / "manifest.json").read_text())
    del document["mapping_sha256"]
    (out / "manifest.json").write_text(json.dumps(document))


def damaged(raw: Path, out: Path) -> None:
    part = out / "records/part-00003.parquet"
    content = bytearray(part.read_bytes())
    content[9] ^= 1
    part.write_bytes(content)


@pytest.mark.more
@pytest.mark.parametrize(
    ("change", "count"),
    [
        (lambda raw, out: None, 8),
        (damaged, 7),
        (lambda raw, out: (out / "run.json").unlink(), 0),
        (lambda raw, out: (out / "run.json").write_text("[]"), 0),
        (lambda raw, out: (out / "records/part-00003.parquet").unlink(), 0),
        (edited("del run['pieces']"), 0),
        (edited("run['pieces'] = 7"), 0),
        (edited("run['pieces'][0]['parts'] += 1"), 0),
        (edited("run['pieces'][0]['counts']['rows']['read'] += 1"), 0),
        (edited("run['pieces'][0]['counts'] = None"), 0),
        (edited("run['pieces'][1] = run['pieces'][0]"), 0),
        (edited("run['pieces'][0]['key'] = None"), 7),
        (edited("run['pieces'].pop()"), 0),
        (without_mapping, 0),
    ],
)
@pytest.mark.usefixtures("alone")
def test_what_does_not_fit_is_converted(
    raw: Path, tmp_path: Path, change: Callable[[Path, Path], None], count: int
) -> None:
    run(raw, tmp_path / "out")
    change(raw, tmp_path / "out")
    (raw / "9.jsonl").write_text('{"text": "new"}\n')
    assert taken(run(raw, tmp_path / "out")) == count
    run(raw, tmp_path / "fresh")
    assert tree(tmp_path / "out") == tree(tmp_path / "fresh")


@pytest.mark.more
@pytest.mark.parametrize(
    ("options", "document", "count"),
    [
        ({}, PT, 8),
        ({"tokenizer": str(TOKENIZER)}, PT, 8),
        ({"language": "en"}, PT, 0),
        ({"source_name": "other"}, PT, 0),
        ({"records": "jsonl"}, PT, 0),
        ({"limit": 1000}, PT, 0),
        ({}, {**PT, "text": "id"}, 0),
    ],
)
@pytest.mark.usefixtures("alone")
def test_other_mappings_and_options_take_nothing_over(
    raw: Path, tmp_path: Path, options: dict, document: dict, count: int
) -> None:
    run(raw, tmp_path / "out")
    (raw / "9.jsonl").write_text('{"text": "new"}\n')
    assert taken(run(raw, tmp_path / "out", document, **options)) == count
    run(raw, tmp_path / "fresh", document, **options)
    assert tree(tmp_path / "out") == tree(tmp_path / "fresh")


@pytest.mark.usefixtures("alone")
def test_what_a_limit_has_made_is_not_taken_over(raw: Path, tmp_path: Path) -> None:
    run(raw, tmp_path / "out", limit=4)
    assert taken(run(raw, tmp_path / "out")) == 0


@pytest.mark.more
@pytest.mark.usefixtures("alone")
def test_rejects_of_a_tokenizer_are_no_part_of_a_shard(tmp_path: Path) -> None:
    """They are listed behind the reject parts of the shards."""
    template = (
        "{% for m in messages %}{% if m.content == 'bad' %}{{ raise_exception('no') }}{% endif %}"
        "<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    )
    tokenizer = tmp_path / "tokenizer"
    tokenizer.mkdir()
    shutil.copy(TOKENIZER, tokenizer)
    (tokenizer / "tokenizer_config.json").write_text(json.dumps({"chat_template": template}))
    chat = {
        "version": 2,
        "messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}],
    }
    (tmp_path / "raw").mkdir()
    for number, question in enumerate(["bad", "good", ""]):
        rows = [{"q": question, "a": "yes"}, {"q": "and", "a": f"no {number}"}]
        lines = "".join(f"{json.dumps(row)}\n" for row in rows)
        (tmp_path / f"raw/{number}.jsonl").write_text(lines)
    result = run(tmp_path / "raw", tmp_path / "out", chat, tokenizer=str(tokenizer))
    assert result.manifest["tokens"]["rejected"] == 1
    (tmp_path / "raw/9.jsonl").write_text('{"q": "new", "a": "b"}\n')
    result = run(tmp_path / "raw", tmp_path / "out", chat, tokenizer=str(tokenizer))
    assert taken(result) == 3
    run(tmp_path / "raw", tmp_path / "fresh", chat, tokenizer=str(tokenizer))
    assert tree(tmp_path / "out") == tree(tmp_path / "fresh")


@pytest.mark.usefixtures("alone")
def test_members_of_a_tar_that_was_written_anew_are_read_anew(tmp_path: Path) -> None:
    """Names, sizes and times in the archive are as before."""

    def packed(word: str) -> None:
        for number in range(3):
            path = tmp_path / f"{number}.jsonl"
            path.write_text(json.dumps({"text": word if number == 1 else "same"}))
            os.utime(path, (0, 0))
        with tarfile.open(tmp_path / "raw.tar", "w") as tar:
            for number in range(3):
                tar.add(tmp_path / f"{number}.jsonl", f"{number}.jsonl")

    packed("first")
    os.utime(tmp_path / "raw.tar", (1, 1))
    run(tmp_path / "raw.tar", tmp_path / "out")
    assert run(tmp_path / "raw.tar", tmp_path / "out").already_done
    packed("other")
    result = run(tmp_path / "raw.tar", tmp_path / "out")
    assert not result.already_done
    run(tmp_path / "raw.tar", tmp_path / "fresh")
    assert tree(tmp_path / "out") == tree(tmp_path / "fresh")


@pytest.mark.more
@pytest.mark.usefixtures("alone")
def test_parts_are_linked_or_where_there_are_no_links_copied(
    raw: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def part() -> int:
        return (tmp_path / "out/records/part-00000.parquet").stat().st_ino

    run(raw, tmp_path / "out")
    first = part()
    (raw / "9.jsonl").write_text('{"text": "new"}\n')
    assert taken(run(raw, tmp_path / "out")) == 8
    assert part() == first

    def refused(*_: Any) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(os, "link", refused)
    (raw / "8.jsonl").write_text('{"text": "newer"}\n')
    assert taken(run(raw, tmp_path / "out")) == 9
    assert part() != first
    run(raw, tmp_path / "fresh")
    assert tree(tmp_path / "out") == tree(tmp_path / "fresh")


def test_a_file_without_stamp_gives_no_key(raw: Path) -> None:
    from dataclasses import replace

    from ingot.converters.convert.shard import shard_key

    source = open_source(str(raw))
    bare: list[SourceFile] = [replace(source.files[0], mtime_ns=None)]
    assert shard_key(source, source.files[:1])
    assert shard_key(source, bare) is None
    assert shard_key(source, [replace(bare[0], etag="x")])
