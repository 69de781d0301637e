"""Recommendation data in object stores: made on a disk, and put when they are finished."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest

from ingot.converters.errors import OutputError, SourceError
from ingot.converters.output import object_store as store
from ingot.converters.output import store_commit
from ingot.converters.output.identity import RunIdentity
from ingot.converters.output.sharding import Spread
from tests.s3_server import Asked, Fault, Storage
from tests.scale.jobs import _CTR_PROGRAM, RECSYS_JOBS, RESULT, Job, ingot, tree

PHASES = {"criteo": 3, "monolith": 2, "ctr": 2}
OTHER = {
    "criteo": ("--frequency-threshold", "4"),
    "monolith": ("--drop-unset",),
    "ctr": ("--train-fraction", "0.5"),
}


@pytest.fixture(scope="module", params=RECSYS_JOBS)
def job(request: pytest.FixtureRequest) -> Job:
    return RECSYS_JOBS[request.param]


@pytest.fixture(scope="module")
def folder(job: Job, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which commands run, with the input and what a run into a local folder made."""
    folder = tmp_path_factory.mktemp(job.name)
    job.prepare(folder)
    done = ingot(folder, *job.words)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def whole(folder: Path) -> dict[str, bytes]:
    """The files that the store is to hold."""
    return tree(folder / RESULT)


@pytest.fixture(autouse=True)
def _own_tmp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr(tempfile, "tempdir", None)


@pytest.fixture
def url(s3: Storage, tmp_path: Path) -> str:
    return f"s3://bucket/{tmp_path.name}"


def words_to(job: Job, url: str, *more: str) -> tuple[str, ...]:
    """The command with a URL in place of its folder."""
    return (*(url if word.rstrip("/") == RESULT else word for word in job.words), *more)


def stored(s3: Storage, url: str) -> dict[str, bytes]:
    """The files in the store but run.json, by name."""
    root = url.removeprefix("s3://bucket/")
    names = (name.removeprefix(f"{root}/") for name in s3.names("bucket", f"{root}/"))
    return {name: s3.get(f"/bucket/{root}/{name}") for name in names if name != "run.json"}


def left_behind(tmp_path: Path) -> list[str]:
    """What lies in the folder for unfinished results."""
    return [path.name for path in (tmp_path / "tmp").glob("*/*")]


def test_a_store_holds_the_bytes_of_a_local_run(
    job: Job, folder: Path, whole: dict[str, bytes], s3: Storage, url: str, tmp_path: Path
) -> None:
    done = ingot(folder, *words_to(job, url))
    assert done.returncode == 0, done.stderr
    assert url in done.stdout + done.stderr
    assert str(tmp_path / "tmp") not in done.stdout + done.stderr
    assert stored(s3, url) == whole
    assert left_behind(tmp_path) == []

    tally = s3.proxy.begin()
    done = ingot(folder, *words_to(job, url))
    assert done.returncode == 0, done.stderr
    assert "nothing to do" in done.stdout + done.stderr
    assert url in done.stdout + done.stderr
    assert tally.requests["PUT"] == 0
    assert tally.sent < sum(map(len, whole.values()))  # nothing was downloaded but small files

    done = ingot(folder, *words_to(job, url, *OTHER[job.name]))
    assert done.returncode == 1
    assert f"{url}: holds another result" in done.stderr
    assert stored(s3, url) == whole


def test_a_result_is_replaced_and_files_of_others_are_not(
    job: Job, folder: Path, whole: dict[str, bytes], s3: Storage, url: str, tmp_path: Path
) -> None:
    other = words_to(job, url, *OTHER[job.name])
    assert ingot(folder, *other).returncode == 0
    assert stored(s3, url) != whole
    store.put_bytes(b"mine", f"{url}/mine.txt")
    refused = ingot(folder, *words_to(job, url, "--overwrite"))
    assert refused.returncode == 1
    assert "not part of the result, such as mine.txt" in refused.stderr
    store.delete(url, ["mine.txt"])
    done = ingot(folder, *words_to(job, url, "--overwrite"))
    assert done.returncode == 0, done.stderr
    assert stored(s3, url) == whole


def run_killed(s3: Storage, folder: Path, words: tuple[str, ...], at: int, method: str) -> bool:
    """Run a command that is killed at a request for a file of the result; whether it was."""
    program = [sys.executable, "-c", _CTR_PROGRAM, *words]
    quiet = subprocess.DEVNULL
    asked_for: list[str] = []

    def plan(asked: Asked) -> Fault | None:
        if asked.method != method or ".ingot-work" in asked.path:
            return None
        asked_for.append(asked.path)
        if len(asked_for) < at:
            return None
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)
        return Fault(half=True) if at % 2 else Fault(lost=True)

    s3.proxy.begin(plan)
    process = subprocess.Popen(program, cwd=folder, stdout=quiet, stderr=quiet)
    killed = process.wait() == -signal.SIGKILL
    s3.proxy.begin()
    return killed


def test_a_run_that_is_killed_while_it_puts_goes_on(
    job: Job, folder: Path, whole: dict[str, bytes], s3: Storage, url: str, tmp_path: Path
) -> None:
    words = words_to(job, url)
    for at in (1, 2, 2, len(whole) // 2):
        assert run_killed(s3, folder, words, at, "PUT")
        assert "manifest.json" not in stored(s3, url)
    assert stored(s3, url).keys() & whole.keys()
    (run,) = (tmp_path / "tmp").glob("*/*/run.json")
    made = run.read_bytes()
    tally = s3.proxy.begin()
    done = ingot(folder, *words)
    assert done.returncode == 0, done.stderr
    assert tally.requests["PUT"] <= len(whole) + 3
    assert stored(s3, url) == whole
    assert s3.get(f"/bucket/{tmp_path.name}/run.json") == made  # it was not made anew
    assert left_behind(tmp_path) == []


def test_a_replacement_that_is_killed_goes_on(
    job: Job, folder: Path, whole: dict[str, bytes], s3: Storage, url: str, tmp_path: Path
) -> None:
    assert ingot(folder, *words_to(job, url, *OTHER[job.name])).returncode == 0
    words = words_to(job, url, "--overwrite")
    for at in (1, 2):  # the manifest is the first to go
        assert run_killed(s3, folder, words, at, "DELETE")
        assert ("manifest.json" in stored(s3, url)) is (at == 1)
    assert run_killed(s3, folder, words, 2, "PUT")
    done = ingot(folder, *words_to(job, url))
    assert done.returncode == 0, done.stderr
    assert stored(s3, url) == whole
    assert left_behind(tmp_path) == []


def test_parts_and_their_merge(
    job: Job, folder: Path, whole: dict[str, bytes], s3: Storage, url: str, tmp_path: Path
) -> None:
    refused = ingot(folder, *words_to(job, url, "--shard", "0/2"))
    assert refused.returncode == 1
    assert "several machines need a folder" in refused.stderr
    shared = ("--tmp-dir", str(tmp_path / "shared"))
    for phase in range(PHASES[job.name]):
        for number in (1, 0):
            if phase == number == 0:
                refused = ingot(folder, "merge", url)
                assert refused.returncode == 1
                assert "pieces are not done" in refused.stderr
            done = ingot(folder, *words_to(job, url, *shared, "--shard", f"{number}/2"))
            assert done.returncode == 0, done.stderr
    assert f"ingot merge {url}" in done.stderr
    assert run_killed(s3, folder, ("merge", url), 3, "PUT")
    assert "manifest.json" not in stored(s3, url)
    done = ingot(folder, "merge", url)
    assert done.returncode == 0, done.stderr
    assert stored(s3, url) == whole
    assert list((tmp_path / "shared").glob("[!.]*")) == []
    assert ingot(folder, "merge", url).returncode == 0
    done = ingot(folder, *words_to(job, url, "--workers", "2"))
    assert "nothing to do" in done.stdout + done.stderr


@pytest.mark.parametrize("job", ["criteo"], indirect=True)
def test_multi_hot_data_are_put(
    job: Job, folder: Path, s3: Storage, url: str, tmp_path: Path
) -> None:
    parameters = {"num_embeddings": [100] * 26, "multi_hot_sizes": [2] * 26}
    (tmp_path / "m.json").write_text(json.dumps(parameters))
    words = ("criteo", "multihot", RESULT, "--config", str(tmp_path / "m.json"), "--out")
    for place in (str(tmp_path / "wide"), url):
        done = ingot(folder, *words, place)
        assert done.returncode == 0, done.stderr
    assert stored(s3, url) == tree(tmp_path / "wide")


def put_folder(folder: Path, url: str) -> None:
    """Put a local result into the store."""
    for path in sorted((folder / RESULT).rglob("*")):
        if path.is_file():
            store.put_file(path, f"{url}/{path.relative_to(folder / RESULT).as_posix()}")


@pytest.mark.parametrize("job", ["criteo"], indirect=True)
def test_criteo_batches_are_those_of_the_folder(job: Job, folder: Path, url: str) -> None:
    pytest.importorskip("torch")
    from ingot.converters.recsys.criteo.criteo_dataset import CriteoDataset

    put_folder(folder, url)
    pairs = zip(
        CriteoDataset(folder / RESULT, 500, shuffle_batches=True),
        CriteoDataset(url, 500, shuffle_batches=True),
        strict=True,
    )
    count = 0
    for here, there in pairs:
        count += 1
        assert here.dense_features.equal(there.dense_features)
        assert here.labels.equal(there.labels)
        assert here.sparse_features.values().equal(there.sparse_features.values())
    assert count > 20


@pytest.mark.parametrize("job", ["ctr"], indirect=True)
def test_ctr_batches_are_those_of_the_folder(job: Job, folder: Path, url: str) -> None:
    testing = pytest.importorskip("torch.testing")
    from ingot.converters.recsys.ctr.loader.dataloader import build_dataloader

    put_folder(folder, url)
    here = list(build_dataloader(folder / RESULT, 256, split="train"))
    assert here
    for loader in (
        build_dataloader(url, 256, split="train"),
        build_dataloader(f"{url}/train", 256),
    ):
        for ours, theirs in zip(here, loader, strict=True):
            assert [*ours] == [*theirs]
            testing.assert_close(theirs, ours, rtol=0, atol=0)
    with pytest.raises(SourceError, match="no finished result"):
        build_dataloader(f"{url}/elsewhere", 256)


@pytest.mark.parametrize("job", ["monolith"], indirect=True)
def test_monolith_reads_results_in_a_store(
    job: Job, folder: Path, url: str, tmp_path: Path
) -> None:
    from ingot.converters.recsys.monolith.arrow_io import read_arrow

    put_folder(folder, url)
    words = ("monolith", "convert", "--from", "parquet", "--to", "example")
    for place, out in ((RESULT, "here"), (url, "there")):
        done = ingot(folder, *words, place, f"{tmp_path / out}/")
        assert done.returncode == 0, done.stderr
    here, there = (tree(tmp_path / out) for out in ("here", "there"))
    assert len(here) > 12
    assert here == there
    done = ingot(
        folder,
        "monolith",
        "convert",
        str(tmp_path / "here"),
        f"{url}/examples",
        "--from",
        "example",
        "--to",
        "example",
    )
    assert done.returncode == 0, done.stderr
    table = read_arrow(tmp_path / "here").read_all()
    assert table.num_rows > 1000
    assert read_arrow(f"{url}/examples").read_all().equals(table)


IDENTITY = RunIdentity(settled={"decision": "test", "versions": {"ingot": "1"}})


def test_two_runs_at_a_time_are_told_the_url(tmp_path: Path) -> None:
    url = f"memory://{tmp_path.name}"
    with IDENTITY.stage(url), pytest.raises(OutputError, match=f"{url}: another run is writing"):
        IDENTITY.stage(url).__enter__()


def test_several_machines_name_a_folder(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="name one that all of them share with `tmp_dir`"):
        IDENTITY.stage(f"memory://{tmp_path.name}", spread=Spread(runner="ray")).__enter__()
    with IDENTITY.stage(
        f"memory://{tmp_path.name}", spread=Spread(runner="ray", tmp_dir=tmp_path / "shared")
    ) as staged:
        assert staged.work.is_relative_to(tmp_path / "shared")


def test_a_temporary_folder_of_somebody_else_is_not_taken(tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    (tmp_path / f"tmp/ingot-{os.getuid()}").symlink_to(tmp_path / "theirs")
    with pytest.raises(OutputError, match="belongs to somebody else"):
        IDENTITY.stage(f"memory://{tmp_path.name}").__enter__()


def test_a_put_that_fails_is_gone_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"memory://{tmp_path.name}"

    def fail(local: Path, url: str) -> None:
        raise OutputError(url, "the request failed")

    with monkeypatch.context() as patch, IDENTITY.stage(url) as staged:
        patch.setattr(store_commit, "put_file", fail)
        (staged.result / "a.bin").write_bytes(b"a")
        with pytest.raises(OutputError, match="the request failed"):
            IDENTITY.commit(staged, {}, {})
    assert store.read_json(f"{url}/manifest.json") is None
    other = RunIdentity(settled={**IDENTITY.settled, "option": 1})
    with pytest.raises(OutputError, match="another run is writing there since"):
        other.stage(url).__enter__()
    with IDENTITY.stage(url) as staged:
        assert staged.done is not None
        assert staged.place == url
    assert list(store.list_names(url)) == ["a.bin", "manifest.json", "run.json"]
    assert left_behind(tmp_path) == []
    with other.stage(url, overwrite=True) as staged:
        (staged.result / "b.bin").write_bytes(b"b")
        other.commit(staged, {}, {})
    assert list(store.list_names(url)) == ["b.bin", "manifest.json", "run.json"]
