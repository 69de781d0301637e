"""What reads recommendation data reads it from an object store, too."""

from pathlib import Path

import pytest

from ingot.converters.errors import SourceError
from ingot.converters.output import object_store as store
from tests.s3_server import Storage
from tests.scale.jobs import RECSYS_JOBS, RESULT, ingot, tree


def make_and_put(name: str, folder: Path) -> tuple[Path, str]:
    """Do a job on this machine, and put its result into the store; gives both places."""
    job, url = RECSYS_JOBS[name], f"s3://bucket/{folder.name}"
    job.prepare(folder)
    done = ingot(folder, *job.words)
    assert done.returncode == 0, done.stderr
    made = folder / RESULT
    for name in (*tree(made), "run.json"):
        store.put_file(made / name, f"{url}/{name}")
    return made, url


@pytest.mark.more
def test_criteo_batches_are_those_of_the_folder(s3: Storage, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from ingot.converters.recsys.criteo import CriteoDataset

    made, url = make_and_put("criteo", tmp_path)
    pairs = zip(
        CriteoDataset(made, 500, shuffle_batches=True),
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


@pytest.mark.more
def test_ctr_batches_are_those_of_the_folder(s3: Storage, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from ingot.converters.recsys.ctr import build_dataloader
    from tests.converters.recsys.ctr.stored import assert_same

    made, url = make_and_put("ctr", tmp_path)
    here = list(build_dataloader(made, 256, split="train"))
    assert here
    for loader in (
        build_dataloader(url, 256, split="train"),
        build_dataloader(f"{url}/train", 256),
    ):
        for ours, theirs in zip(here, loader, strict=True):
            assert_same(ours, theirs)
    with pytest.raises(SourceError, match="no finished result"):
        build_dataloader(f"{url}/elsewhere", 256)


@pytest.mark.more
def test_monolith_reads_results_in_a_store(s3: Storage, tmp_path: Path) -> None:
    from ingot.converters.recsys.monolith import read_arrow

    made, url = make_and_put("monolith", tmp_path)
    words = ("monolith", "convert", "--from", "parquet", "--to", "example")
    for place, out in ((str(made), "here"), (url, "there")):
        done = ingot(tmp_path, *words, place, f"{tmp_path / out}/")
        assert done.returncode == 0, done.stderr
    here, there = (tree(tmp_path / out) for out in ("here", "there"))
    assert len(here) > 12
    assert here == there
    words = (*words[:3], "example", *words[4:], "here", f"{url}/examples")
    done = ingot(tmp_path, *words)
    assert done.returncode == 0, done.stderr
    table = read_arrow(tmp_path / "here").read_all()
    assert table.num_rows > 1000
    assert read_arrow(f"{url}/examples").read_all().equals(table)
