"""Records as a Delta table: read back by deltalake, by ingot, and by a token build."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("deltalake", reason="deltalake is not installed: make test-more brings it")
from deltalake import DeltaTable

from ingot.converters.convert import plan
from ingot.converters.convert.job import ConvertOptions, convert
from ingot.converters.json_yaml import load_json, validator
from ingot.converters.lake.corpus import CorpusOptions, write_corpus
from ingot.converters.lake.record_hashes import parse_splits
from ingot.converters.mapping.bind import bind
from ingot.converters.megatron import BuildOptions, build, stamp_files
from ingot.converters.records.readers import read_records
from ingot.converters.sources import open_source

pytestmark = pytest.mark.more

TOKENIZER = Path(__file__).parents[3] / "examples/tokenizer/tokenizer.json"
PT = {"version": 2, "text": "text", "meta": {"original_id": "id"}}
SFT = {
    "version": 2,
    "messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}],
}


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    folder = tmp_path / "raw"
    folder.mkdir()
    for part in range(3):
        rows = [
            {"id": f"{part}-{n}", "text": f"text {n}", "q": f"q {n}", "a": "é" * n or "a"}
            for n in range(40)
        ]
        lines = "".join(f"{json.dumps(row)}\n" for row in rows)
        (folder / f"{part}.jsonl").write_text(lines)
    return folder


def tree(folder: Path) -> dict[str, bytes]:
    files = (one for one in folder.rglob("*") if one.is_file() and one.name != "run.json")
    return {one.relative_to(folder).as_posix(): one.read_bytes() for one in files}


def converted(raw: Path, out: Path, document: dict[str, Any] = PT, **how: Any) -> Any:
    options = ConvertOptions(records="delta", workers=1, overwrite=True, **how)
    return convert(open_source(str(raw)), bind(document, ()), out, options)


@pytest.mark.parametrize("document", [PT, SFT])
def test_the_records_are_read_back_through_the_log(
    raw: Path, tmp_path: Path, document: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "SHARD_BYTES", 1)  # every file is a shard, and a part
    out = tmp_path / "out"
    converted(raw, out, document)
    records = list(read_records(out / "records"))
    table = DeltaTable(out / "records")
    assert (table.version(), len(table.file_uris()), len(records)) == (0, 3, 120)
    read = pa.concat_tables(pq.read_table(one) for one in sorted(table.file_uris()))
    assert read.schema.names == pa.schema(table.schema().to_arrow()).names
    added = pa.table(table.get_add_actions(flatten=True))
    assert sum(added["num_records"].to_pylist()) == 120
    key = "text" if document is PT else "messages"
    assert [row[key] for row in read.to_pylist()] == [record[key] for record in records]
    source = open_source(str(out / "records"))
    again = [value for batch in source.batches() for value in batch.values]
    assert [row[key] for row in again] == [record[key] for record in records]
    assert source.left_out == ()  # its log is the table


def test_equal_runs_give_equal_bytes_and_a_manifest_that_lists_the_log(
    raw: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "SHARD_BYTES", 1)
    for name in ("a", "b"):
        converted(raw, tmp_path / name)
    assert tree(tmp_path / "a") == tree(tmp_path / "b")
    manifest = load_json(tmp_path / "a/manifest.json")
    validator("manifest").validate(manifest)
    log = f"records/_delta_log/{0:020}.json"
    assert [one["path"] for one in manifest["files"] if "delta" in one["path"]] == [log]
    (raw / "1.jsonl").write_text('{"id": "x", "text": "new"}\n')
    later = converted(raw, tmp_path / "a")
    assert (later.run["shards"], later.run["shards_taken_over"]) == (3, 2)
    converted(raw, tmp_path / "c")
    assert tree(tmp_path / "a") == tree(tmp_path / "c")
    assert (
        DeltaTable(tmp_path / "a/records").metadata().id
        != json.loads((tmp_path / "b" / log).read_text().split("\n")[1])["metaData"]["id"]
    )


def test_token_builds_and_corpora_read_it(raw: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    converted(raw, out, tokenizer=str(TOKENIZER))
    parts = stamp_files(sorted((out / "records").glob("*.parquet")))
    build(parts, str(TOKENIZER), tmp_path / "t", BuildOptions(append_eod=True))
    made = np.fromfile(tmp_path / "t.bin", np.uint8)
    assert np.array_equal(made, np.fromfile(next((out / "tokens").glob("*.bin")), np.uint8))
    options = CorpusOptions(splits=parse_splits("train=0.5,valid=0.5"))
    write_corpus(out, tmp_path / "corpus", "out", options)
    counts = [
        sum(pa.table(DeltaTable(one).get_add_actions(flatten=True))["num_records"].to_pylist())
        for one in (tmp_path / "corpus").glob("*/out/records")
    ]
    assert (len(counts), sum(counts)) == (2, 120)
