"""Results that are made on a disk, and put into a store when they are finished."""

import os
import tempfile
from pathlib import Path

import pytest

from ingot.converters.errors import OutputError
from ingot.converters.output import object_store as store
from ingot.converters.output import store_commit
from ingot.converters.output.identity import RunIdentity
from ingot.converters.output.sharding import Spread

IDENTITY = RunIdentity(settled={"decision": "test", "versions": {"ingot": "1"}})


@pytest.fixture(autouse=True)
def _own_tmp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))


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

    def run(identity: RunIdentity, name: str, **how: bool) -> None:
        with identity.stage(url, **how) as staged:
            (staged.result / name).write_bytes(b"a")
            identity.commit(staged, {}, {})

    with monkeypatch.context() as patch:
        patch.setattr(store_commit, "put_file", fail)
        with pytest.raises(OutputError, match="the request failed"):
            run(IDENTITY, "a.bin")
    assert store.read_json(f"{url}/manifest.json") is None
    other = RunIdentity(settled={**IDENTITY.settled, "option": 1})
    with pytest.raises(OutputError, match="another run is writing there since"):
        other.stage(url).__enter__()
    with IDENTITY.stage(url) as staged:
        assert staged.done is not None
        assert staged.place == url
    assert list(store.list_names(url)) == ["a.bin", "manifest.json", "run.json"]
    assert not list((tmp_path / "tmp").glob("*/*"))
    run(other, "b.bin", overwrite=True)
    assert list(store.list_names(url)) == ["b.bin", "manifest.json", "run.json"]
