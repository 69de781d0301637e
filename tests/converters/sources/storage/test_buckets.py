"""What pyarrow brings, seen through its file system of this machine: paths, depths, open files."""

from pathlib import Path

import pyarrow.fs as pafs
import pytest

from ingot.converters.errors import SourceError
from ingot.converters.sources.storage.buckets import BucketFileSystem
from ingot.converters.sources.storage.listing import list_location
from ingot.converters.sources.storage.remote import RemoteFile


@pytest.fixture
def tree(tmp_path: Path) -> tuple[BucketFileSystem, str]:
    for name in ("a.csv", "b/c.csv", "b/d/e.csv", "b/d/f.txt"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return BucketFileSystem(pafs.LocalFileSystem(), "hdfs://host:1"), str(tmp_path)


def test_a_tree_is_listed_as_deep_as_is_asked(tree: tuple[BucketFileSystem, str]) -> None:
    storage, top = tree

    def names(**options: object) -> list[str]:
        return sorted(name.removeprefix(f"{top}/") for name in storage.find(top, **options))

    assert names() == ["a.csv", "b/c.csv", "b/d/e.csv", "b/d/f.txt"]
    assert names(maxdepth=1) == ["a.csv"]
    assert names(maxdepth=2, withdirs=True) == ["a.csv", "b", "b/c.csv", "b/d"]
    assert storage.find(f"{top}/nothing") == []


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("*.csv", ["a.csv"]),
        ("*/*.csv", ["b/c.csv"]),
        ("**/*.csv", ["a.csv", "b/c.csv", "b/d/e.csv"]),
        ("b/?/f.txt", ["b/d/f.txt"]),
    ],
)
def test_globs(pattern: str, found: list[str], tree: tuple[BucketFileSystem, str]) -> None:
    storage, top = tree
    hits = storage.glob(f"{top}/{pattern}", detail=True)
    assert sorted(name.removeprefix(f"{top}/") for name in hits) == found


def test_a_url_holds_the_host(tree: tuple[BucketFileSystem, str]) -> None:
    storage, top = tree
    assert storage.unstrip_protocol(f"{top}/a.csv") == f"hdfs://host:1{top}/a.csv"
    file = storage.read_from(f"{top}/b/c.csv")
    assert (file.size, file.etag, file.mtime_ns) == (7, None, None)
    assert file.read(2, 5) == b"c.csv"
    file.close()


def test_without_hadoop_its_client_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HADOOP_HOME", "ARROW_LIBHDFS_DIR"):
        monkeypatch.delenv(name, raising=False)
    for ask in (lambda: list_location("hdfs://host/a"), lambda: RemoteFile("hdfs:///a").open()):
        with pytest.raises(SourceError, match=r"libhdfs is not found \(install Hadoop's"):
            ask()
