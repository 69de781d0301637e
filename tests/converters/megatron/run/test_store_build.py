"""Token data sets in object stores: shards that are the local data set, whole or no manifest."""

import json
import os
import pickle
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingot.converters.errors import (
    ConversionError,
    NoTokensError,
    OutputError,
    PartDone,
    SourceError,
)
from ingot.converters.megatron import BuildOptions, WorkOptions, build, scan
from ingot.converters.megatron.engines.engine import EngineWrongError
from ingot.converters.megatron.inspect.merge import merge_data_sets
from ingot.converters.megatron.run import data_set, recipe, store_build
from ingot.converters.output import object_store
from ingot.converters.output.sharding import JobShard
from ingot.converters.records.writers import RecordWriter
from tests.s3_server import Asked, Fault, Storage, drawn

OPTIONS = BuildOptions(append_eod=True)
SHARD_BYTES = 9_000
# A process of its own that can be killed: its words are the input, the tokenizer, the URL.
RUN = f"""
import sys
from pathlib import Path
from ingot.converters.megatron import BuildOptions, WorkOptions, build, scan
from ingot.converters.megatron.run import store_build
store_build.SHARD_BYTES = {SHARD_BYTES}
source, tokenizer, url, processes = sys.argv[1:]
build(scan(Path(source)), tokenizer, url, BuildOptions(append_eod=True),
      WorkOptions(processes=int(processes)))
"""


@pytest.fixture
def url(s3: Storage, tmp_path: Path) -> str:
    return f"s3://bucket/{tmp_path.name}/out"


@pytest.fixture(autouse=True)
def _small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_build, "SHARD_BYTES", SHARD_BYTES)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Nine files in five shards or so; one file is no Parquet, one has nothing but empty texts."""
    folder = tmp_path / "in"
    (folder / "more").mkdir(parents=True)
    dice = random.Random(5)
    for number in range(8):
        words = ["".join(dice.choices("abcdefgh 狐狸\n", k=60 + 20 * number)) for _ in range(25)]
        texts = ["" if number == 3 or row == 7 else f"{row} {one}" for row, one in enumerate(words)]
        name = f"more/{number}.parquet" if number > 5 else f"{number}.parquet"
        pq.write_table(pa.table({"text": texts}), folder / name)
    (folder / "4b.parquet").write_bytes(b"no Parquet" * 100)
    return folder


def files_of(place: str) -> dict[str, bytes]:
    """Every file of a result but run.json, past what ingot reads it with."""
    known = {"endpoint_url": os.environ["AWS_ENDPOINT_URL"], "use_listings_cache": False}
    system, path = fsspec.core.url_to_fs(place, **known)
    found = {name.removeprefix(path).lstrip("/"): name for name in system.find(path)}
    return {n: system.cat_file(found[n]) for n in sorted(found) if n != "run.json"}


def local(folder: Path, prefix: str = "local") -> dict[str, bytes]:
    kinds = ("bin", "idx", "loss_mask.bin", "loss_mask.idx")
    paths = {kind: folder / f"{prefix}.{kind}" for kind in kinds}
    return {kind: path.read_bytes() for kind, path in paths.items() if path.exists()}


def check_equal(url: str, folder: Path) -> dict[str, bytes]:
    """See that the shards of a store, put together, are the local data set `local` of a folder."""
    there = files_of(url)
    manifest = json.loads(there["manifest.json"])
    copy = folder / "copy"
    copy.mkdir(exist_ok=True)
    for name, data in there.items():
        (copy / name).write_bytes(data)
    merge_data_sets([copy / name for name in manifest["shards"]], folder / "joined", overwrite=True)
    assert local(folder, "joined") == local(folder)
    assert manifest["data_set"] == json.loads((folder / "local.meta.json").read_bytes())
    rejects = b"".join(data for name, data in there.items() if name.endswith(".rejects.jsonl"))
    lines = folder / "local.rejects.jsonl"
    assert rejects == (lines.read_bytes() if lines.exists() else b"")
    blend = there["blend.txt"].decode().split()
    weighed = [(count, f"{url}/{name}") for name, count in manifest["shards"].items() if count]
    assert [*zip(map(int, blend[::2]), blend[1::2], strict=True)] == weighed
    assert not [name for name in there if name.startswith(".ingot-work")]
    assert {one["path"] for one in manifest["files"]} == there.keys() - {"manifest.json"}
    return there


@pytest.mark.more
@pytest.mark.parametrize("processes", [1, 2])
def test_shards_are_the_local_data_set(
    source: Path, tokenizer_file: Path, url: str, tmp_path: Path, processes: int
) -> None:
    files, work = scan(source), WorkOptions(processes=processes)
    stats = build(files, tokenizer_file, tmp_path / "local", OPTIONS)
    messages: list[Any] = []
    made = build(files, tokenizer_file, url, OPTIONS, work, monitor=messages.append)
    assert made.tokens == stats.tokens
    assert made.engines == stats.engines != ()
    assert made.failed_files == 1
    there = check_equal(url, tmp_path)
    assert len([name for name in there if name.endswith(".idx")]) > 3
    counts = [one for one in messages if one["kind"] == "count"]
    assert sum(one.get("tokens", 0) for one in counts) == stats.tokens
    assert sum(one.get("files", 0) for one in counts) == len(files) - 1
    assert [one["bytes"] for one in messages if one["kind"] == "plan"] == [
        sum(file.bytes for file in files)
    ]
    assert build(files, tokenizer_file, url, OPTIONS, work).already_done
    with pytest.raises(OutputError, match="append_eod"):
        build(files, tokenizer_file, url, BuildOptions())
    (source / "0.parquet").touch()
    with pytest.raises(OutputError, match="other input files"):
        build(scan(source), tokenizer_file, url, OPTIONS)
    other = replace_first(source)
    build(other, tokenizer_file, url, OPTIONS, WorkOptions(overwrite=True))
    build(other, tokenizer_file, tmp_path / "local", OPTIONS, WorkOptions(overwrite=True))
    check_equal(url, tmp_path)


def replace_first(source: Path) -> list[Any]:
    (source / "0.parquet").unlink()
    pq.write_table(pa.table({"text": ["another text"]}), source / "0.parquet")
    return scan(source)


@pytest.mark.more
@pytest.mark.parametrize("unit", ["document", "sequence", "stream"])
def test_items_are_those_of_the_local_data_set(
    source: Path, tokenizer_file: Path, url: str, tmp_path: Path, unit: Any
) -> None:
    pytest.importorskip("torch")
    from ingot.converters.megatron.dataset import TokenDataset

    with pytest.raises(SourceError, match="holds no finished result"):
        TokenDataset(url)
    for place in (tmp_path / "local", url):
        build(scan(source), tokenizer_file, place, OPTIONS)
    ours, theirs = (
        TokenDataset(place, seq_length=500, unit=unit, truncate=True)
        for place in (url, tmp_path / "local")
    )
    assert len(ours) == len(theirs) > 5
    for one, other in zip(ours, theirs, strict=True):
        assert all(one[name].equal(other[name]) for name in other)
    object_store.delete(url, list(object_store.list_names(url))[1:-1])
    copy = pickle.loads(pickle.dumps(ours))
    assert copy[0]["tokens"].equal(theirs[0]["tokens"])


def test_megatron_reads_the_blend(
    source: Path, tokenizer_file: Path, url: str, tmp_path: Path, megatron: ModuleType
) -> None:
    pytest.importorskip("boto3")
    from megatron.core.datasets.object_storage_utils import ObjectStorageConfig
    from megatron.core.datasets.utils import get_blend_from_list

    build(scan(source), tokenizer_file, tmp_path / "local", OPTIONS)
    build(scan(source), tokenizer_file, url, OPTIONS)
    prefixes, weights = get_blend_from_list(files_of(url)["blend.txt"].decode().split())
    config = ObjectStorageConfig(path_to_idx_cache=str(tmp_path / "cache"))
    sets = [
        megatron.IndexedDataset(prefix, mmap=False, object_storage_config=config)
        for prefix in prefixes
    ]
    assert weights == [int(one.sequence_lengths.sum()) for one in sets]
    ids = np.concatenate([one[number] for one in sets for number in range(len(one))])
    assert ids.tobytes() == local(tmp_path)["bin"]


@pytest.mark.more
@pytest.mark.parametrize("pack", [None, 40])
def test_conversations_keep_their_loss_masks(
    tokenizer_file: Path, url: str, tmp_path: Path, pack: int | None
) -> None:
    folder = tmp_path / "chats"
    folder.mkdir()
    meta = dict.fromkeys(
        ("source", "language", "timestamp", "token_count", "quality_score", "original_id")
    )
    for number in range(6):
        (folder / str(number)).mkdir()
        with RecordWriter(folder / str(number), kind="sft", format="parquet") as out:
            for row in range(40):
                said = [("user", "你好 " * (row % 9), False), ("assistant", f"fox {row}", True)]
                messages = [
                    {"role": role, "content": text, "loss_mask": mask} for role, text, mask in said
                ]
                out.write([{"messages": messages, "system": None, "tools": None, "meta": meta}])
    options = BuildOptions(append_eod=True, pack=pack, long_docs="truncate")
    build(scan(folder), tokenizer_file, tmp_path / "local", options)
    assert "loss_mask.bin" in local(tmp_path)
    build(scan(folder), tokenizer_file, url, options)
    assert "shard-00001.loss_mask.bin" in check_equal(url, tmp_path)


def finished_shards(url: str) -> int:
    names = object_store.list_names(url)
    return sum(Path(name).parent.parent.name == ".ingot-work" for name in names)


@pytest.mark.more
def test_killed_builds_go_on(source: Path, tokenizer_file: Path, url: str, tmp_path: Path) -> None:
    build(scan(source), tokenizer_file, tmp_path / "local", OPTIONS)
    words = [sys.executable, "-c", RUN, str(source), str(tokenizer_file), url, "2"]
    dice, kept, kills = random.Random(3), 0, 0
    while (run := subprocess.Popen(words)) and kills < 3:
        limit = time.monotonic() + 60
        while run.poll() is None and finished_shards(url) <= kept:
            assert time.monotonic() < limit
        time.sleep(dice.uniform(0, 0.05))
        run.kill()
        assert run.wait() == -signal.SIGKILL
        assert object_store.read_json(f"{url}/manifest.json") is None
        kept, kills = finished_shards(url), kills + 1
    assert run.wait(60) == 0
    told = object_store.read_json(f"{url}/run.json") or {}
    assert told["shards_found"] == kept > 0
    check_equal(url, tmp_path)


@pytest.mark.more
def test_parts_and_their_merge(
    source: Path, tokenizer_file: Path, url: str, tmp_path: Path
) -> None:
    files = scan(source)
    build(files, tokenizer_file, tmp_path / "local", OPTIONS)
    merge = WorkOptions(shard=JobShard())
    for number in (1, 0, 1):
        with pytest.raises(OutputError, match="pieces are not done"):
            build(files, tokenizer_file, url, OPTIONS, merge)
        work = WorkOptions(shard=JobShard(number, 2), processes=2)
        with pytest.raises(PartDone):
            build(files, tokenizer_file, url, OPTIONS, work)
        if number == 0:
            break
    build(files, tokenizer_file, url, OPTIONS, merge)
    check_equal(url, tmp_path)


@pytest.mark.more
@pytest.mark.parametrize(
    "faults",
    [
        (Fault(status=500), Fault(status=503), Fault(cut=-1)),
        (Fault(half=True), Fault(lost=True), Fault(cut=5)),
    ],
)
def test_faults_of_the_store_change_nothing(
    source: Path, tokenizer_file: Path, s3: Storage, url: str, tmp_path: Path, faults: Any
) -> None:
    s3.put("bucket", {f"{tmp_path.name}/in/{n}": p.read_bytes() for n, p in parquet(source)})
    build(scan(source), tokenizer_file, tmp_path / "local", OPTIONS)
    tally = s3.proxy.begin(drawn(1, 0.25, faults))
    build(stored(url), tokenizer_file, url, OPTIONS)
    assert sum(tally.faults.values()) > 5
    s3.proxy.begin()
    check_equal(url, tmp_path)


@pytest.mark.more
def test_a_store_that_fails_for_good_loses_no_file(
    source: Path, tokenizer_file: Path, s3: Storage, url: str, tmp_path: Path
) -> None:
    s3.put("bucket", {f"{tmp_path.name}/in/{n}": p.read_bytes() for n, p in parquet(source)})
    build(scan(source), tokenizer_file, tmp_path / "local", OPTIONS)
    files = stored(url)

    def plan(asked: Asked) -> Fault | None:
        return Fault(status=503) if asked.is_read and "/in/5.parquet" in asked.path else None

    s3.proxy.begin(plan)
    with pytest.raises(SourceError, match="cannot be reached"):
        build(files, tokenizer_file, url, OPTIONS)
    assert "manifest.json" not in files_of(url)
    s3.proxy.begin()
    build(files, tokenizer_file, url, OPTIONS)
    check_equal(url, tmp_path)


def parquet(source: Path) -> list[tuple[str, Path]]:
    return [(p.relative_to(source).as_posix(), p) for p in sorted(source.rglob("*.parquet"))]


def stored(url: str) -> Any:
    from ingot.cli.tokens.build import _list_stored

    return _list_stored(f"{url.removesuffix('/out')}/in", "*.parquet", recursive=True)


@pytest.mark.more
def test_input_of_a_store(
    source: Path, tokenizer_file: Path, s3: Storage, url: str, tmp_path: Path
) -> None:
    s3.put("bucket", {f"{tmp_path.name}/in/{n}": p.read_bytes() for n, p in parquet(source)})
    s3.put(
        "bucket", {f"{tmp_path.name}/in/.hidden/x.parquet": b"", f"{tmp_path.name}/in/a.txt": b""}
    )
    build(scan(source), tokenizer_file, tmp_path / "local", OPTIONS)
    files = stored(url)
    assert [file.name for file in files] == [file.name for file in scan(source)]
    build(files, tokenizer_file, url, OPTIONS, WorkOptions(processes=2))
    check_equal(url, tmp_path)
    assert build(stored(url), tokenizer_file, url, OPTIONS).already_done
    s3.put("bucket", {f"{tmp_path.name}/in/0.parquet": b"other"})
    with pytest.raises(OutputError, match="other input files"):
        build(stored(url), tokenizer_file, url, OPTIONS)
    s3.put("bucket", {f"{tmp_path.name}/in/_delta_log/0.json": b"{}"})
    with pytest.raises(SourceError, match="a table"):
        stored(url)


@pytest.mark.more
def test_a_file_that_is_gone_fails_alone(
    source: Path, tokenizer_file: Path, s3: Storage, url: str, tmp_path: Path
) -> None:
    s3.put("bucket", {f"{tmp_path.name}/in/{n}": p.read_bytes() for n, p in parquet(source)})
    files = stored(url)
    s3.put("bucket", {f"{tmp_path.name}/in/2.parquet": b"changed"})
    build(files, tokenizer_file, url, OPTIONS)
    meta = json.loads(files_of(url)["manifest.json"])["data_set"]
    failed = {one["path"]: one["error"] for one in meta["files"] if one["status"] == "failed"}
    assert set(failed) == {"2.parquet", "4b.parquet"}
    assert "chang" in failed["2.parquet"]
    with pytest.raises(SourceError, match=r"2\.parquet"):
        build(files, tokenizer_file, f"{url}2", OPTIONS, WorkOptions(fail_fast=True))


def test_nothing_to_build(tokenizer_file: Path, url: str, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    pq.write_table(pa.table({"text": ["", ""]}), folder / "a.parquet")
    with pytest.raises(NoTokensError, match="not a single token"):
        build(scan(folder), tokenizer_file, url)
    assert files_of(url) == {}
    with pytest.raises(OutputError, match="white space"):
        build(scan(folder), tokenizer_file, f"{url} of mine")
    with pytest.raises(ConversionError, match="no file"):
        build([], tokenizer_file, url)


@pytest.mark.more
def test_files_that_failed_are_tried_again(
    source: Path, tokenizer_file: Path, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = scan(source)
    build(files, tokenizer_file, tmp_path / "local", OPTIONS)
    hidden = source / "5.parquet"
    hidden.rename(tmp_path / "kept")
    with monkeypatch.context() as patch:
        patch.setattr(store_build._StoreBuild, "_commit", _stop)
        with pytest.raises(KeyboardInterrupt):
            build(files, tokenizer_file, url, OPTIONS)
    (tmp_path / "kept").rename(hidden)
    monkeypatch.setattr(
        "ingot.converters.megatron.read.input_files.check_same_file", lambda _: None
    )
    monkeypatch.setattr(
        "ingot.converters.megatron.read.row_batches.check_same_file", lambda _: None
    )
    build(files, tokenizer_file, url, OPTIONS)
    check_equal(url, tmp_path)


def _stop(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.more
def test_shards_of_a_wrong_engine_are_made_again(
    source: Path, tokenizer_file: Path, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`fastokens` is said to serve, and is found wrong at the fifth shard that it tokenizes."""
    from ingot.converters.megatron.engines.engine import EngineChoice

    build(scan(source), tokenizer_file, tmp_path / "local", OPTIONS)
    made: list[tuple[str, frozenset[str]]] = []
    run, put = data_set.run_in_process, store_build.ShardStore.put_shard

    def pick(build: Any, units: Any, exclude: frozenset[str], sampled: Any = None) -> EngineChoice:
        return EngineChoice(engine="hf" if exclude else "fastokens", version="1")

    def run_in_process(build: Any, place: Any, pending: Any, choice: EngineChoice) -> None:
        number = int(place.prefix.name[-1])
        if choice.engine == "fastokens" and number == 3:
            raise EngineWrongError("fastokens", "some text")
        run(build, place, pending, EngineChoice(engine="hf", version="1"))

    def put_shard(self: Any, name: str, parts: Any, document: Any) -> Any:
        first = not made or document["wrong"]
        engines = ["fastokens"] if first and not document["wrong"] else ["hf"]
        made.append((name, frozenset(document["wrong"])))
        document["engines"][:] = engines
        return put(self, name, parts, document)

    monkeypatch.setattr(recipe.Build, "pick_engine", pick)
    monkeypatch.setattr(data_set, "run_in_process", run_in_process)
    monkeypatch.setattr(store_build.ShardStore, "put_shard", put_shard)
    build(scan(source), tokenizer_file, url, OPTIONS)
    names = [name for name, _ in made]
    assert names.count("000000") == 2  # made again without it
    assert names.count("000003") == 1
    assert dict(made)["000003"] == {"fastokens"}
    check_equal(url, tmp_path)
