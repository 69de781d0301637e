"""Recommendation data into an object store: made on a disk, put at the end, whole or not at all."""

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from tests.s3_server import Asked, Fault, Storage
from tests.scale.jobs import RECSYS_JOBS, RESULT, Job, ingot, program, tree

OTHER = {
    "criteo": ("--frequency-threshold", "4"),
    "monolith": ("--drop-unset",),
    "ctr": ("--train-fraction", "0.5"),
}
KILLS = int(os.environ.get("STORE_KILLS", "3"))


@pytest.fixture(
    params=[
        pytest.param(
            job, id=name, marks=pytest.mark.more if name == "monolith" else pytest.mark.long
        )
        for name, job in RECSYS_JOBS.items()
    ]
)
def job(request: pytest.FixtureRequest) -> Job:
    return request.param


@pytest.fixture
def whole(job: Job, tmp_path: Path) -> dict[str, bytes]:
    """What the job makes in a folder; the input is beside it."""
    job.prepare(tmp_path)
    done = ingot(tmp_path, *job.words)
    assert done.returncode == 0, done.stderr
    return tree(tmp_path / RESULT)


def words_to(job: Job, url: str) -> tuple[str, ...]:
    return tuple(url if word in (RESULT, f"{RESULT}/") else word for word in job.words)


def stored(s3: Storage, prefix: str) -> dict[str, bytes]:
    names = (name.removeprefix(f"{prefix}/") for name in s3.names("bucket", f"{prefix}/"))
    return {name: s3.get(f"/bucket/{prefix}/{name}") for name in names if name != "run.json"}


def own_tmp(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A temporary folder of the commands of this test."""
    (folder / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(folder / "tmp"))  # of processes
    monkeypatch.setattr(tempfile, "tempdir", str(folder / "tmp"))  # of this one
    return folder / "tmp"


def test_a_store_has_the_bytes_of_a_folder(
    job: Job,
    whole: dict[str, bytes],
    s3: Storage,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    unfinished = own_tmp(tmp_path, monkeypatch)
    prefix = tmp_path.name
    words = words_to(job, f"s3://bucket/{prefix}")
    done = ingot(tmp_path, *words)
    assert done.returncode == 0, done.stderr
    assert f"s3://bucket/{prefix}" in done.stdout
    assert str(tmp_path) not in done.stdout
    assert stored(s3, prefix) == whole
    assert not [path for path in unfinished.rglob("*") if path.is_file()]
    tally = s3.proxy.begin()
    done = ingot(tmp_path, *words)
    assert "nothing to do" in done.stdout
    assert not {name for name in tally.requests if name.startswith(("PUT", "POST", "DELETE"))}
    s3.put("bucket", {f"{prefix}/notes.txt": b"of a person"})
    refused = ingot(tmp_path, *words, "--overwrite")
    assert "nothing to do" in refused.stdout
    (tmp_path / "src" / "more").write_bytes(b"")  # no input: nothing of it changes
    name = next(name for name in whole if name not in ("manifest.json", "stats.json"))
    s3.put("bucket", {f"{prefix}/{name}": b"cut"})
    refused = ingot(tmp_path, *words)
    assert "holds a damaged result" in refused.stderr
    refused = ingot(tmp_path, *words, "--overwrite")
    assert "such as notes.txt" in refused.stderr


def kill_request(
    s3: Storage,
    folder: Path,
    words: tuple[str, ...],
    *,
    at: int,
    lost: bool,
    methods: tuple[str, ...] = ("PUT", "POST"),
) -> bool:
    """Kill a run at a request that puts, `lost`: after it; returns whether the run ended before."""
    process = subprocess.Popen(
        [sys.executable, "-c", program(words), *words],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    left = [at]

    def strike(asked: Asked) -> Fault | None:
        left[0] -= asked.method in methods
        if left[0] == 0 and process.poll() is None:
            process.send_signal(signal.SIGKILL)
            process.wait()
            return None if lost else Fault(cut=-1)
        return None

    s3.proxy.begin(strike)
    process.wait()
    s3.proxy.begin()
    assert process.returncode in (0, -signal.SIGKILL)
    return process.returncode == 0


def test_killed_puts_go_on(
    job: Job,
    whole: dict[str, bytes],
    s3: Storage,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    record_property: Any,
) -> None:
    own_tmp(tmp_path, monkeypatch)
    dice, killed = random.Random(job.name), 0
    for number in range(KILLS):
        prefix = f"{tmp_path.name}/{number}"
        words = words_to(job, f"s3://bucket/{prefix}")
        at, lost = dice.randint(1, len(whole) + 2), dice.random() < 0.5
        ended = kill_request(s3, tmp_path, words, at=at, lost=lost)
        killed += not ended
        there = stored(s3, prefix)
        if "manifest.json" in there:  # then everything else is there, too
            assert there.items() >= whole.items()
        done = ingot(tmp_path, *words)
        assert done.returncode == 0, done.stderr
        assert stored(s3, prefix) == whole
    record_property("killed while putting", f"{killed} of {KILLS}")
    assert killed


def test_parts_share_a_folder_and_a_merge_puts(
    job: Job,
    whole: dict[str, bytes],
    s3: Storage,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    unfinished = own_tmp(tmp_path, monkeypatch)
    prefix = tmp_path.name
    url = f"s3://bucket/{prefix}"
    words = words_to(job, url)
    refused = ingot(tmp_path, *words, "--shard", "0/2")
    assert "--tmp-dir" in refused.stderr
    words = (*words, "--tmp-dir", str(unfinished))
    told: list[str] = []
    while not all(f"ingot merge {url}" in one for one in told[-2:] or [""]):
        for number in (1, 0):
            done = ingot(tmp_path, *words, "--shard", f"{number}/2")
            assert done.returncode == 5, done.stderr
            told.append(done.stderr)
        assert len(told) <= 8
    assert "manifest.json" not in stored(s3, prefix)
    assert not kill_request(s3, tmp_path, ("merge", url), at=4, lost=True)
    assert "manifest.json" not in stored(s3, prefix)
    done = ingot(tmp_path, "merge", url)
    assert done.returncode == 0, done.stderr
    assert stored(s3, prefix) == whole
    assert not [path for path in unfinished.rglob("*") if path.suffix != ".ingot-lock"]
    assert ingot(tmp_path, "merge", url).returncode == 0


def test_a_replacement_that_is_killed_goes_on(
    job: Job,
    whole: dict[str, bytes],
    s3: Storage,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    unfinished = own_tmp(tmp_path, monkeypatch)
    words = words_to(job, f"s3://bucket/{tmp_path.name}")
    assert ingot(tmp_path, *words, *OTHER[job.name]).returncode == 0
    refused = ingot(tmp_path, *words)
    assert f"s3://bucket/{tmp_path.name}: holds another result" in refused.stderr
    words = (*words, "--overwrite")
    for at in (1, 3):  # the manifest is the first to go
        assert not kill_request(s3, tmp_path, words, at=at, lost=False, methods=("DELETE",))
        assert ("manifest.json" in stored(s3, tmp_path.name)) is (at == 1)
    assert not kill_request(s3, tmp_path, words, at=4, lost=True)
    (run,) = unfinished.rglob("run.json")
    made = run.read_bytes()
    done = ingot(tmp_path, *words[:-1])
    assert done.returncode == 0, done.stderr
    assert stored(s3, tmp_path.name) == whole
    assert s3.get(f"/bucket/{tmp_path.name}/run.json") == made  # it was put and not made again
    assert not [path for path in unfinished.rglob("*") if path.is_file()]


@pytest.mark.more
def test_multi_hot_data_are_put(
    s3: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_tmp(tmp_path, monkeypatch)
    parameters = {"num_embeddings": [100] * 26, "multi_hot_sizes": [2] * 26}
    (tmp_path / "m.json").write_text(json.dumps(parameters))
    criteo = RECSYS_JOBS["criteo"]
    criteo.prepare(tmp_path)
    assert ingot(tmp_path, *criteo.words).returncode == 0
    for out in ("wide", f"s3://bucket/{tmp_path.name}"):
        done = ingot(tmp_path, "criteo", "multihot", RESULT, "--config", "m.json", "--out", out)
        assert done.returncode == 0, done.stderr
    assert stored(s3, tmp_path.name) == tree(tmp_path / "wide")
