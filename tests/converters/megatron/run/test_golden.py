"""Whole builds of the golden documents: megatron-core's bytes, whatever way the work is done."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingot.converters.megatron import (
    BuildOptions,
    IndexedReader,
    TokenStats,
    WorkOptions,
    build,
    scan,
)
from ingot.converters.megatron.read import input_files

GOLDEN = Path(__file__).parents[3] / "golden" / "tokenize"
NOT_STRIPPED = BuildOptions(strip=False)
WAYS = {
    "gpt2_uint16_noeod": {},
    "gpt2_uint16_eod": {"append_eod": True},
    "gpt2_uint16_eod_all": {"append_eod": True, "empty_docs": "eod"},
    "gpt2_uint16_eod_noempty": {"append_eod": True, "empty_docs": "drop"},
    "gpt2_int32_noeod": {"dtype": "u32"},
    "gpt2_int32_eod": {"dtype": "u32", "append_eod": True},
}
WORK = {
    "two_processes": WorkOptions(tok_engine="hf", processes=2),
    "batches_of_1": WorkOptions(tok_engine="hf", batch_size=1),
    "batches_of_7": WorkOptions(tok_engine="hf", batch_size=7, batch_shards=3, queue_cap=1),
    "one_large_batch": WorkOptions(tok_engine="hf", batch_size=100_000, workers=3),
    "row_groups": WorkOptions(tok_engine="hf", rowgroup_parallel=3),
    "internal": WorkOptions(tok_engine="hf", tok_parallel="internal"),
    "external": WorkOptions(tok_engine="hf", tok_parallel="external", workers=2),
    "both": WorkOptions(tok_engine="hf", tok_parallel="both", workers=2),
}


def made(folder: Path, prefix: Path, options: BuildOptions, work: WorkOptions) -> TokenStats:
    return build(scan(folder, "docs*.parquet"), GOLDEN / "gpt2.json", prefix, options, work)


def same_bytes(prefix: Path, name: str) -> bool:
    return all(
        prefix.with_name(prefix.name + end).read_bytes() == (GOLDEN / f"{name}{end}").read_bytes()
        for end in (".bin", ".idx")
    )


@pytest.mark.parametrize("name", WAYS)
def test_the_bytes_are_those_of_megatron(
    tmp_path: Path, name: str, golden_manifest: dict[str, Any]
) -> None:
    options: Any = WAYS[name]
    work = WorkOptions(tok_engine="hf")
    stats = made(GOLDEN, tmp_path / "out", BuildOptions(strip=False, **options), work)
    assert same_bytes(tmp_path / "out", name)
    expected = golden_manifest[name]
    found = (stats.documents, stats.sequences, stats.tokens)
    assert found == tuple(expected[k] for k in ("documents", "sequences", "tokens"))


@pytest.mark.long
@pytest.mark.parametrize("name", WAYS)
def test_the_bytes_are_those_of_megatron_by_two_processes_and_any_engine(
    tmp_path: Path, name: str
) -> None:
    options: Any = WAYS[name]
    made(GOLDEN, tmp_path / "out", BuildOptions(strip=False, **options), WorkOptions(processes=2))
    assert same_bytes(tmp_path / "out", name)


@pytest.mark.more
@pytest.mark.parametrize("way", WORK)
def test_the_way_of_working_does_not_matter(tmp_path: Path, way: str) -> None:
    options = BuildOptions(strip=False, append_eod=True)
    made(GOLDEN, tmp_path / "out", options, WORK[way])
    assert same_bytes(tmp_path / "out", "gpt2_uint16_eod")


@pytest.mark.more
@pytest.mark.parametrize("unit_bytes", [1, 20_000])
def test_row_groups_that_are_units_of_their_own_do_not_matter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unit_bytes: int
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    pq.write_table(
        pq.read_table(GOLDEN / "docs.parquet"), folder / "docs.parquet", row_group_size=9
    )
    monkeypatch.setattr(input_files, "UNIT_BYTES", unit_bytes)
    assert len(input_files.plan_units(scan(folder), whole_files=False)) >= 3
    options = BuildOptions(strip=False, append_eod=True)
    work = WorkOptions(tok_engine="hf", rowgroup_parallel=2)
    made(folder, tmp_path / "out", options, work)
    assert same_bytes(tmp_path / "out", "gpt2_uint16_eod")


def test_files_instead_of_one_do_not_matter(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    (folder / "docs").mkdir(parents=True)
    table = pq.read_table(GOLDEN / "docs.parquet")
    for place, (start, end) in enumerate([(0, 1), (1, 1), (1, 120), (120, 200)]):
        pq.write_table(table.slice(start, end - start), folder / "docs" / f"docs-{place}.parquet")
    options = BuildOptions(strip=False, append_eod=True)
    stats = made(folder, tmp_path / "out", options, WorkOptions(tok_engine="hf"))
    assert same_bytes(tmp_path / "out", "gpt2_uint16_eod")
    meta = json.loads((tmp_path / "out.meta.json").read_text())
    assert [file["rows"] for file in meta["files"]] == [1, 0, 119, 80]
    assert sum(file["tokens"] for file in meta["files"]) == stats.tokens


@pytest.mark.parametrize("name", ["sp_bpe", "sp_uni"])
def test_ids_are_those_of_sentencepiece(tmp_path: Path, name: str) -> None:
    lines = (GOLDEN / f"{name}_ids.jsonl").read_text("utf-8").splitlines()
    expected = [json.loads(line) for line in lines]
    table = pa.table({"text": [one["text"] for one in expected]})
    pq.write_table(table, tmp_path / "docs.parquet")
    build(scan(tmp_path), GOLDEN / f"{name}.model", tmp_path / "out", NOT_STRIPPED)
    reader = IndexedReader(tmp_path / "out")
    found = [reader.document(i).tolist() for i in range(reader.documents)]
    assert found == [one["ids"] for one in expected]
