"""The corpus against plain Python: records, repeats, splits, tokens; folders resumed, replaced."""

import hashlib
import json
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from ingot.converters.convert.job import ConvertOptions, stage_irrelevant
from ingot.converters.errors import ConversionError, OutputError
from ingot.converters.export.job import export
from ingot.converters.json_yaml import validator
from ingot.converters.lake import catalog
from ingot.converters.lake.catalog import Split
from ingot.converters.lake.corpus import CorpusOptions, sweep_corpus, write_corpus
from ingot.converters.lake.duplicates import find_duplicates
from ingot.converters.lake.record_hashes import parse_splits
from ingot.converters.lake.statistics import measure_records
from ingot.converters.records import writers
from ingot.converters.records.readers import read_records
from ingot.converters.sources import open_source
from tests.converters.lake.lake_results import SFT, made, write_lines

TOKENIZER = Path(__file__).parents[3] / "examples/tokenizer/tokenizer.json"
SPLIT = parse_splits("train=0.7,valid=0.3")


def said(record: dict[str, Any]) -> bytes:
    def text(value: str | None) -> bytes:
        return (
            b"\xff" * 8
            if value is None
            else len(value.encode()).to_bytes(8, "little") + value.encode()
        )

    if "text" in record:
        return b"P" + text(record["text"])
    head = b"S" + text(record["system"]) + text(record.get("tools"))
    turns = [
        text(one["role"]) + text(one["content"]) + bytes([one["loss_mask"]])
        for one in record["messages"]
    ]
    return head + len(turns).to_bytes(8, "little") + b"".join(turns)


def split_of(record: dict[str, Any], *, train: float = 0.7) -> str:
    value = hashlib.blake2b(said(record), digest_size=16).digest()[:8]
    return "train" if int.from_bytes(value, "big") / 2**64 < train else "valid"


def tree(folder: Path) -> dict[str, bytes]:
    files = (one for one in folder.rglob("*") if one.is_file() and one.name != "run.json")
    return {one.relative_to(folder).as_posix(): one.read_bytes() for one in files}


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """Three sets of few different records; of one kind two."""
    rng = random.Random(11)
    for name in ("b", "a"):
        rows = [{"text": f"text number {rng.randrange(150)}\0"} for _ in range(200)]
        made(tmp_path / "sets" / name, rows, records="jsonl" if name == "b" else "parquet")
    chats = [{"turns": [f"q{rng.randrange(60)}", "a"], "system": "s"} for _ in range(100)]
    made(tmp_path / "sets" / "c", chats, SFT)
    return tmp_path


def drops_of(lake: Path) -> dict[str, Path]:
    sets = sorted((lake / "sets").glob("[abc]"))
    files = {one.name: lake / "hashes" / f"{one.name}.npy" for one in reversed(sets)}
    (lake / "hashes").mkdir(exist_ok=True)
    for name, file in files.items():
        measure_records(lake / "sets" / name, file)
    return find_duplicates(files, lake / "drops").drops


def expected(lake: Path, *, dedup: bool) -> dict[str, dict[str, tuple[list[Any], int]]]:
    """Per split and set the records and the number of repeats."""
    seen: set[str] = set()
    told: dict[str, dict[str, Any]] = {"train": {}, "valid": {}}
    for folder in sorted((lake / "sets").glob("[abc]")):
        for split in told:
            told[split][folder.name] = ([], 0)
        for record in read_records(folder / "records"):
            content = json.dumps({key: record[key] for key in record if key != "meta"})
            kept, repeats = told[split_of(record)][folder.name]
            if dedup and content in seen:
                told[split_of(record)][folder.name] = (kept, repeats + 1)
            else:
                kept.append(record)
            seen.add(content)
    return told


@pytest.mark.parametrize("dedup", [True, False])
def test_every_record_is_in_its_split_once(lake: Path, dedup: bool) -> None:
    drops = drops_of(lake) if dedup else {}
    wanted = expected(lake, dedup=dedup)
    for name in ("c", "a", "b"):
        result = lake / "sets" / name
        splits = write_corpus(
            result,
            lake / "corpus",
            name,
            CorpusOptions(splits=SPLIT),
            drops=drops.get(name),
            hashed=lake / f"hashes/{name}.npy" if dedup else None,
        )
        for split in splits:
            folder = lake / "corpus" / split.name / name
            records, repeats = wanted[split.name][name]
            assert list(read_records(folder / "records")) == records
            assert split == Split(name=split.name, records=len(records), duplicates=repeats)
            manifest = json.loads((folder / "manifest.json").read_bytes())
            assert list(validator("manifest").iter_errors(manifest)) == []
            assert manifest["options"]["corpus"]["split"] == split.name
            for one in manifest["inputs"]:
                content = (result / one["name"]).read_bytes()
                assert one["sha256"] == hashlib.sha256(content).hexdigest()
            for one in manifest["files"]:
                content = (folder / one["path"]).read_bytes()
                assert one["sha256"] == hashlib.sha256(content).hexdigest()
        assert sum(one.records + one.duplicates for one in splits) == (100 if name == "c" else 200)


@pytest.mark.more
def test_done_is_done_and_other_options_replace(lake: Path) -> None:
    options = CorpusOptions(splits=SPLIT)

    def written(settled: CorpusOptions, drops: Path | None = None) -> tuple[Split, ...]:
        return write_corpus(lake / "sets/a", lake / "corpus", "a", settled, drops=drops)

    first = written(options)
    stamps = {one: one.stat().st_mtime_ns for one in (lake / "corpus").rglob("*.*")}
    assert written(options) == first
    assert {one: one.stat().st_mtime_ns for one in (lake / "corpus").rglob("*.*")} == stamps
    before = tree(lake / "corpus")
    other = written(CorpusOptions(splits=parse_splits("train=0.5,valid=0.5")))
    assert other != first
    deduped = written(options, drops_of(lake)["a"])
    assert sum(one.duplicates for one in deduped) > 0
    assert written(options) == first
    assert tree(lake / "corpus") == before


def test_parts_are_closed_at_their_bound(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writers, "PART_RECORDS", 50)
    monkeypatch.setattr("ingot.converters.records.readers.READ_ROWS", 40)
    monkeypatch.setattr(catalog, "read_batches", lambda at: read_batches_of(at, 40))
    write_corpus(lake / "sets/a", lake / "corpus", "a")
    names = sorted(one.name for one in (lake / "corpus/all/a/records").iterdir())
    assert names == [f"part-0000{number}.parquet" for number in range(3)]
    one, other = lake / "corpus/all/a/records", lake / "sets/a/records"
    assert list(read_records(one)) == list(read_records(other))


def read_batches_of(location: Path, rows: int) -> Any:
    from ingot.converters.records.readers import read_batches

    return read_batches(location, rows=rows)


@pytest.mark.more
def test_tokens_are_those_of_the_records_of_the_split(lake: Path) -> None:
    from tokenizers import Tokenizer

    from ingot.converters.megatron import IndexedReader

    options = CorpusOptions(splits=SPLIT, tokenizer=str(TOKENIZER))
    splits = write_corpus(lake / "sets/a", lake / "corpus", "a", options)
    loaded = Tokenizer.from_file(str(TOKENIZER))
    for split in splits:
        folder = lake / "corpus" / split.name / "a"
        data = IndexedReader(folder / "tokens/a")
        texts = [loaded.decode(data[at].tolist()[:-1]) for at in range(len(data))]
        assert texts == [one["text"] for one in read_records(folder / "records")]
        assert split.tokens == sum(len(data[at]) for at in range(len(data)))
        manifest = json.loads((folder / "manifest.json").read_bytes())
        assert list(validator("manifest").iter_errors(manifest)) == []
        assert not (folder / "rejected").exists()
    assert write_corpus(lake / "sets/a", lake / "corpus", "a", options) == splits


def test_a_split_without_records_says_so(tmp_path: Path) -> None:
    made(tmp_path / "set", [{"text": "alone"}])
    (empty,) = [one for one in ("train", "valid") if one != split_of({"text": "alone"})]
    options = CorpusOptions(splits=SPLIT, tokenizer=str(TOKENIZER))
    told = {
        one.name: one for one in write_corpus(tmp_path / "set", tmp_path / "corpus", "x", options)
    }
    assert told[empty] == Split(name=empty, records=0, duplicates=0, tokens=0)
    folder = tmp_path / "corpus" / empty / "x"
    assert list((folder / "records").iterdir()) == []
    manifest = json.loads((folder / "manifest.json").read_bytes())
    assert list(validator("manifest").iter_errors(manifest)) == []
    assert (manifest["decision"], manifest["tokens"]) == ("pt", None)


def test_a_result_of_which_all_was_filtered(tmp_path: Path) -> None:
    nothing = {"version": 2, "where": [{"path": "lang", "in": ["zh"]}], "text": "text"}
    made(tmp_path / "set", [{"text": "a", "lang": "en"}], nothing)
    hashed = tmp_path / "h.npy"
    assert measure_records(tmp_path / "set", hashed).records == 0
    drops = find_duplicates({"x": hashed}, tmp_path / "drops").drops["x"]
    options = CorpusOptions(splits=SPLIT, tokenizer=str(TOKENIZER))
    told = write_corpus(
        tmp_path / "set", tmp_path / "corpus", "x", options, drops=drops, hashed=hashed
    )
    assert [(one.records, one.duplicates, one.tokens) for one in told] == [(0, 0, 0)] * 2


def test_a_part_of_the_corpus_can_be_exported(lake: Path, tmp_path: Path) -> None:
    write_corpus(lake / "sets/c", lake / "corpus", "c")
    done = export(lake / "corpus/all/c", "llamafactory", tmp_path / "export")
    assert (done.out / "manifest.json").exists()


@pytest.mark.more
def test_a_split_of_which_the_tokenizer_refuses_all(tmp_path: Path) -> None:
    """The template takes no conversation with `bad` in it, and the split holds but this one."""
    template = (
        "{% for m in messages %}{% if m.content == 'bad' %}{{ raise_exception('no') }}{% endif %}"
        "<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    )
    tokenizer = tmp_path / "tokenizer"
    tokenizer.mkdir()
    shutil.copy(TOKENIZER, tokenizer)
    (tokenizer / "tokenizer_config.json").write_text(json.dumps({"chat_template": template}))
    turns = [["bad", "a"], *([f"q{number}", "a"] for number in range(30))]
    made(tmp_path / "set", [{"turns": one, "system": None} for one in turns], SFT)
    bad = next(read_records(tmp_path / "set/records"))
    value = int.from_bytes(hashlib.blake2b(said(bad), digest_size=16).digest()[:8], "big")
    low, high = value / 2**64 - 1e-9, value / 2**64 + 1e-9
    fractions = f"below={low:.18f},only={high - low:.18f},above={1 - high:.18f}"
    options = CorpusOptions(splits=parse_splits(fractions), tokenizer=str(tokenizer))
    told = {
        one.name: one for one in write_corpus(tmp_path / "set", tmp_path / "corpus", "x", options)
    }
    assert told["only"] == Split(name="only", records=1, duplicates=0, tokens=0)
    assert told["below"].tokens


def test_what_cannot_be_written_is_told(lake: Path) -> None:
    drops = drops_of(lake)
    with pytest.raises(ConversionError, match="no finished result with records"):
        write_corpus(lake, lake / "corpus", "x")
    raw = write_lines(lake / "raw.jsonl", [{"price": 1}])
    source = open_source(str(raw))
    with stage_irrelevant(source, lake / "sets/d", "it holds no text", ConvertOptions()) as staged:
        staged.commit({}, {})
    with pytest.raises(ConversionError, match="no finished result with records"):
        write_corpus(lake / "sets/d", lake / "corpus", "d")
    with pytest.raises(ConversionError, match="not a bitmap of 100 records"):
        write_corpus(lake / "sets/c", lake / "corpus", "c", drops=drops["a"])
    with pytest.raises(ConversionError, match="hashes belong to other records"):
        write_corpus(lake / "sets/a", lake / "corpus", "a", hashed=lake / "hashes/b.npy")
    with pytest.raises(ConversionError, match=r"raw\.jsonl"):
        write_corpus(lake / "sets/c", lake / "corpus", "c", CorpusOptions(tokenizer=str(raw)))
    (lake / "corpus/all/c").mkdir(parents=True)
    (lake / "corpus/all/c/mine.txt").write_text("mine")
    with pytest.raises(OutputError, match="files that ingot did not write"):
        write_corpus(lake / "sets/c", lake / "corpus", "c")


@pytest.mark.more
def test_what_is_no_longer_of_the_corpus_is_swept(lake: Path) -> None:
    out = lake / "corpus"
    write_corpus(lake / "sets/a", out, "a", CorpusOptions(splits=SPLIT))
    write_corpus(lake / "sets/b", out, "b", CorpusOptions(splits=SPLIT))
    write_corpus(lake / "sets/c", out, "c")
    write_corpus(lake / "sets/c", out, "foreign")
    (out / "all/foreign/mine.txt").write_text("mine")
    shutil.copytree(lake / "sets/a", out / "all/result")
    assert sweep_corpus(out, [("train", "a"), ("valid", "a")]) == ["all/c", "train/b", "valid/b"]
    left = sorted(one.relative_to(out).as_posix() for one in out.glob("*/*"))
    assert left == ["all/foreign", "all/result", "train/a", "valid/a"]
    assert sweep_corpus(lake / "nowhere", []) == []


DRIVER = """
import sys
from pathlib import Path
from ingot.converters.lake.corpus import CorpusOptions, write_corpus
from ingot.converters.lake.record_hashes import parse_splits
result, corpus, tokenizer, split = sys.argv[1:5]
options = CorpusOptions(splits=parse_splits(split), tokenizer=tokenizer)
print("ready", flush=True)
write_corpus(Path(result), Path(corpus), "set", options)
"""


@pytest.mark.long
def test_killed_at_any_moment_it_ends_as_undisturbed(tmp_path: Path) -> None:
    rng = random.Random(2)
    rows = [{"text": f"a longer text {rng.random()} " * 20} for _ in range(6_000)]
    made(tmp_path / "set", rows)
    (tmp_path / "driver.py").write_text(DRIVER)

    def started(out: str, split: str) -> subprocess.Popen[bytes]:
        arguments = [str(tmp_path / "set"), str(tmp_path / out), str(TOKENIZER), split]
        command = [sys.executable, str(tmp_path / "driver.py"), *arguments]
        process = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert process.stdout
        assert process.stdout.readline()
        return process

    trees, seconds = {}, 0.0
    for out, split in (("old", "train=0.5,valid=0.5"), ("new", "train=0.9,valid=0.1")):
        begun = time.monotonic()
        with started(out, split) as process:
            assert process.wait() == 0
        trees[out], seconds = tree(tmp_path / out), time.monotonic() - begun
    kills = 0
    for _ in range(4):
        shutil.rmtree(tmp_path / "out", ignore_errors=True)
        shutil.copytree(tmp_path / "old", tmp_path / "out")
        for _ in range(3):
            with started("out", "train=0.9,valid=0.1") as process:
                time.sleep(rng.uniform(0, seconds))
                process.send_signal(signal.SIGKILL)
                kills += process.wait() == -signal.SIGKILL
            for split in ("train", "valid"):
                now = tree(tmp_path / "out" / split / "set")
                assert now in (tree(tmp_path / kind / split / "set") for kind in ("old", "new"))
        with started("out", "train=0.9,valid=0.1") as process:
            assert process.wait() == 0
        assert tree(tmp_path / "out") == trees["new"]
    assert kills > 4
