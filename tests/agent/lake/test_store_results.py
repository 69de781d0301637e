"""A lake whose results lie in an object store: the bytes of a local one, after kills as well."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from ingot.cli.app import app
from ingot.converters.output import object_store
from tests.agent.lake.test_run import lay, talks
from tests.conftest import SURE
from tests.s3_server import Asked, Fault, Storage

RESULTS = "s3://bucket/lake"
SPLIT = ("--dedup", "exact", "--split", "train=0.7,valid=0.3")
# Small shards make many requests.
PROGRAM = (
    "from ingot.converters.convert import plan; plan.SHARD_BYTES = 3_000; "
    "from ingot.__main__ import main; main()"
)


@pytest.fixture(autouse=True)
def _empty_bucket(s3: Storage) -> None:
    object_store.delete("s3://bucket", object_store.list_names("s3://bucket"))


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    """Two data sets of several shards that share records, one without records, one that waits."""
    root = tmp_path / "lake"
    for number in range(3):
        lay(root, f"talks/part-{number}.jsonl", talks(40, 40 * number))
    lay(
        root, "other/rows.jsonl", [*talks(50, 30), {"instruction": "only a question", "output": ""}]
    )
    lay(root, "void/a.jsonl", [{"a": n, "b": n % 3} for n in range(20)])
    lay(root, "odd/a.jsonl", talks(20, 300))
    (root / "odd/b.pdf").write_bytes(b"%PDF-1.4\n" + bytes(9000))
    return root


def ran(raw: Path | str, out: Path, *more: str) -> dict[str, Any]:
    words = ["lake", "run", str(raw), "--out", str(out), "--mapper", "rules", *SURE, "--json"]
    told = CliRunner().invoke(app, [*words, "--jobs", "1", *more])
    assert told.exit_code == 0, told.output
    return json.loads(told.stdout)


def in_store(s3: Storage) -> dict[str, bytes]:
    """Every file below the URL but run.json, past what ingot reads it with."""
    names = (name for name in s3.names("bucket", "lake/") if not name.endswith("run.json"))
    return {name.removeprefix("lake/"): s3.get(f"/bucket/{name}") for name in names}


def in_folder(out: Path, *below: str) -> dict[str, bytes]:
    """Every file of the results and of the corpus of a local lake but run.json."""
    files = (one for name in below for one in sorted((out / name).rglob("*")) if one.is_file())
    return {
        one.relative_to(out).as_posix(): one.read_bytes()
        for one in files
        if one.name != "run.json" and ".proposal" not in one.as_posix()
    }


def catalog(out: Path) -> list[dict[str, Any]]:
    """The rows of a catalog without the places of the results."""
    rows = pq.read_table(out / "catalog.parquet").to_pylist()
    return [{**row, "result": None} for row in rows]


@pytest.mark.more
@pytest.mark.parametrize(
    "more",
    [SPLIT, ("--records", "jsonl", "--jobs", "2"), pytest.param((), marks=pytest.mark.long)],
)
def test_a_store_has_the_bytes_of_a_local_lake(
    s3: Storage, raw: Path, tmp_path: Path, more: tuple[str, ...]
) -> None:
    here = ran(raw, tmp_path / "here", *more)
    there = ran(raw, tmp_path / "there", "--results", f"{RESULTS}/", *more)
    assert (
        there["statuses"]
        == here["statuses"]
        == {"converted": 2, "no_training_text": 1, "waiting": 1}
    )
    whole = in_folder(tmp_path / "here", "sets", "corpus")
    assert in_store(s3) == whole
    assert ("corpus/train/talks/manifest.json" in whole) is (more is SPLIT)
    assert catalog(tmp_path / "there") == catalog(tmp_path / "here")
    (row,) = (one for one in there["sets"] if one["name"] == "talks")
    assert row["result"] == f"{RESULTS}/sets/talks"
    assert in_folder(tmp_path / "there", "sets", "corpus") == {}
    assert (tmp_path / "there/sets/odd.proposal/report.md").is_file()
    page = (tmp_path / "there/index.html").read_text()
    assert row["result"] in page

    tally = s3.proxy.begin()
    again = ran(raw, tmp_path / "there", "--results", RESULTS, *more)
    assert (again["worked"], again["statuses"]) == ([], there["statuses"])
    assert not tally.requests["PUT"] + tally.requests["POST"] + tally.requests["DELETE"]
    assert in_store(s3) == whole


@pytest.mark.more
def test_changes_are_followed(s3: Storage, raw: Path, tmp_path: Path) -> None:
    out, more = tmp_path / "there", ("--results", RESULTS, *SPLIT)
    ran(raw, out, *more)
    lay(raw, "talks/part-3.jsonl", talks(9, 500))
    object_store.delete(RESULTS, ["sets/other/records/part-00000.parquet"])
    assert sorted(ran(raw, out, *more)["worked"]) == ["other", "talks"]
    ran(raw, tmp_path / "here", "--mappings", str(out / "mappings"), *SPLIT)
    found, wanted = in_store(s3), in_folder(tmp_path / "here", "sets", "corpus")
    assert found.keys() == wanted.keys()
    differ = {name for name in wanted if found[name] != wanted[name]}
    # Reports say who made a mapping, which is given here; manifests have the hashes of reports.
    assert {name.rpartition("/")[2] for name in differ} <= {"report.md", "manifest.json"}
    assert not [name for name in differ if name.startswith("corpus/")]

    shutil.rmtree(raw / "other")
    gone = ran(raw, out, *more)
    assert gone["statuses"]["removed"] == 1
    assert "sets/other/manifest.json" in in_store(s3)
    assert not [name for name in in_store(s3) if name.startswith("corpus/train/other/")]
    ran(raw, out, "--results", RESULTS)
    assert {name.partition("/")[0] for name in in_store(s3)} == {"sets"}
    object_store.delete(RESULTS, ["sets/other/manifest.json"])
    assert "removed" not in ran(raw, out, "--results", RESULTS)["statuses"]


@pytest.mark.more
def test_a_proposal_is_reviewed_and_then_converted_into_the_store(
    s3: Storage, raw: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "there"
    words = ["lake", "run", str(raw), "--out", str(out), "--results", RESULTS]
    words += ["--mapper", "rules", "--jobs", "1", "--json"]
    told = json.loads(CliRunner().invoke(app, words).stdout)
    assert told["statuses"] == {"waiting": 3, "no_training_text": 1}
    assert {name.split("/")[1] for name in in_store(s3)} == {"void"}
    monkeypatch.chdir(tmp_path)  # nothing depends on where the commands run
    done = CliRunner().invoke(app, ["lake", "review", str(out), "--approve", "talks", "--json"])
    assert done.exit_code == 0, done.output
    told = json.loads(CliRunner().invoke(app, words).stdout)
    assert told["statuses"] == {"converted": 1, "waiting": 2, "no_training_text": 1}
    assert "sets/talks/manifest.json" in in_store(s3)
    assert not (out / "sets/talks.proposal").exists()


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        (("--tokenizer", "tokenizer.json"), "tokens are not written to an object store"),
        (("--records", "delta"), "Delta tables are not written to an object store"),
        (
            ("--results", "there"),
            r"names no bucket, or has empty parts, `.` or `..` (s3://BUCKET/FOLDER)",
        ),
        (("--results", "s3://k:s@bucket/x"), "keys are not taken from a URL"),
        (("--results", "s3://nowhere/x"), "no such bucket"),
    ],
)
def test_what_a_store_cannot_have_is_refused_before_anything_is_done(
    s3: Storage, raw: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: Any, problem: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("tokenizer.json").write_text("{}")
    words = ["lake", "run", str(raw), "--out", "o", "--mapper", "rules", "--results", RESULTS]
    told = CliRunner().invoke(app, [*words, *more], env={"COLUMNS": "500"})
    assert told.exit_code != 0
    assert problem in told.output
    assert not Path("o/catalog.parquet").exists()
    assert in_store(s3) == {}


@pytest.mark.more
def test_one_lake_has_one_place_of_results(s3: Storage, raw: Path, tmp_path: Path) -> None:
    out = tmp_path / "there"
    ran(raw, out, "--results", RESULTS)
    words = ["lake", "run", str(raw), "--out", str(out), "--mapper", "rules"]
    for more in ((), ("--results", "s3://bucket/else")):
        told = CliRunner().invoke(app, [*words, *more], env={"COLUMNS": "500"})
        assert told.exit_code == 1
        assert f"is the folder of another lake: {raw}, with --results {RESULTS}" in told.output
    assert not (out / "sets/talks").exists()


@pytest.mark.more
def test_results_beside_their_own_source_are_no_data_sets(s3: Storage, tmp_path: Path) -> None:
    for name in ("a", "b"):
        lines = "".join(json.dumps(row) + "\n" for row in talks(30)).encode()
        object_store.put_bytes(lines, f"s3://bucket/{name}/rows.jsonl")
    more = ("--results", "s3://bucket/results", *SPLIT)
    first = ran("s3://bucket", tmp_path / "there", *more)
    assert first["statuses"] == {"converted": 2}
    again = ran("s3://bucket", tmp_path / "there", *more)
    assert (again["worked"], again["sets"]) == ([], first["sets"])


def kill_once(s3: Storage, words: list[str], rng: random.Random, after: int) -> bool:
    """Kill a run with all its processes at one of its requests; False where it ended before."""
    left = [after]
    process = subprocess.Popen(words, stderr=subprocess.DEVNULL, start_new_session=True)

    def strike(asked: Asked) -> Fault | None:
        left[0] -= 1
        if left[0] == 0:
            os.killpg(process.pid, signal.SIGKILL)
            return rng.choice([None, Fault(cut=-1)])  # the request arrives or does not
        return None

    s3.proxy.begin(strike)
    code = process.wait()
    s3.proxy.begin()
    assert code in (0, -signal.SIGKILL)
    return code != 0


@pytest.mark.long
@pytest.mark.parametrize("jobs", [1, 2])
def test_killed_runs_go_on(s3: Storage, raw: Path, tmp_path: Path, jobs: int) -> None:
    start = [sys.executable, "-c", PROGRAM, "lake", "run", str(raw), "--mapper", "rules", *SURE]
    start += [*SPLIT, "--jobs", str(jobs)]
    subprocess.run([*start, "--out", str(tmp_path / "here")], check=True, capture_output=True)
    whole = in_folder(tmp_path / "here", "sets", "corpus")
    words = [*start, "--out", str(tmp_path / "there"), "--results", RESULTS]
    rng = random.Random(jobs)
    subprocess.run([*words, "--dry-run"], check=True, capture_output=True)
    assert in_store(s3) == {}
    kills = sum(kill_once(s3, words, rng, rng.randrange(20, 90)) for _ in range(8))
    assert kills >= 4  # each of them came further than the one before
    subprocess.run(words, check=True, capture_output=True)
    assert in_store(s3) == whole
    assert catalog(tmp_path / "there") == catalog(tmp_path / "here")
    done = subprocess.run([*words, "--json"], check=True, capture_output=True)
    assert json.loads(done.stdout)["worked"] == []
