"""A lake behind S3, with answers that fail: the results of the same files on local disk."""

import json
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ingot.cli.app import app
from tests.agent.lake.truth import generated, snapshot
from tests.conftest import SURE
from tests.s3_server import Fault, Storage, drawn, s3_storage

FAULTS = (
    Fault(status=500),
    Fault(status=503),
    Fault(cut=-1),
    Fault(cut=300),
    Fault(short=1),
    Fault(stall=0.3),
    Fault(rate=200_000),
)
# Archives, encodings, tables, what cannot be read; all of it takes some minutes.
FOLDERS = ("dumps/", "legacy/", "exam/", "inbox/broken/cut", "ads/", "odd/")


@pytest.fixture(scope="module")
def storage() -> Iterator[Storage]:
    with s3_storage() as storage:
        yield storage


def regular(root: Path) -> dict[str, bytes]:
    """The files of a folder that S3 can hold: no links, nothing that cannot be read."""
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if not path.is_symlink() and path.is_file() and path.stat().st_mode & stat.S_IROTH
    }


def ran(root: str, out: Path, *more: str) -> dict:
    words = ["lake", "run", root, "--out", str(out), "--mapper", "rules", *SURE, "--json"]
    told = CliRunner().invoke(app, [*words, "--jobs", "2", *more])
    assert told.exit_code == 0, told.output
    return json.loads(told.stdout)


@pytest.mark.more
def test_a_lake_on_s3_gives_the_results_of_local_files(storage, tmp_path, monkeypatch):
    made = regular(generated(tmp_path / "made").root)
    files = {name: data for name, data in made.items() if name.startswith(FOLDERS)}
    for name, data in files.items():
        path = tmp_path / "lake" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    storage.put("data", {f"lake/{name}": data for name, data in files.items()})
    for name, value in storage.environment().items():
        monkeypatch.setenv(name, value)

    here = ran(str(tmp_path / "lake"), tmp_path / "here")
    tally = storage.proxy.begin(drawn(3, 0.2, FAULTS))
    there = ran("s3://data/lake", tmp_path / "there")

    assert sum(tally.faults.values()) >= 10
    assert there["statuses"] == here["statuses"]
    assert there["rows"] == here["rows"]
    assert snapshot(tmp_path / "there" / "sets") == snapshot(tmp_path / "here" / "sets")

    reads = storage.proxy.begin()
    assert ran("s3://data/lake", tmp_path / "there")["worked"] == []
    assert reads.requests["GET"] <= 5  # what cannot be read is tried again


def test_a_storage_that_is_gone_ends_the_run_with_what_to_do(storage, tmp_path, monkeypatch):
    for name, value in storage.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("INGOT_STORAGE_RETRIES", "1")
    storage.proxy.begin(lambda asked: Fault(status=503))
    words = ["lake", "run", "s3://data/lake", "--out", str(tmp_path / "out"), "--mapper", "rules"]
    told = CliRunner().invoke(app, words)
    assert told.exit_code == 4
    assert "s3://data/lake" in told.stderr
