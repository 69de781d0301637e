"""The one way in which files of results get into an object store."""

import hashlib
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import fsspec
import pytest

from ingot.converters.errors import (
    ExitCode,
    OutputError,
    SourceError,
    StorageError,
    UnreachableStoreError,
)
from ingot.converters.output import object_store as store
from tests.s3_server import Asked, Fault, Plan, Storage

PART = 5 << 20  # the smallest that S3 takes


@pytest.fixture(params=["s3", "memory"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "s3":
        request.getfixturevalue("s3")
        return f"s3://bucket/{tmp_path.name}"
    return f"memory://{tmp_path.name}"


def write(folder: Path, data: bytes, name: str = "a.bin") -> Path:
    file = folder / name
    file.write_bytes(data)
    return file


def once(fault: Fault, method: str = "PUT", turns: int = 1) -> Plan:
    return lambda asked: fault if asked.method == method and asked.turn < turns else None


def test_files_are_put_listed_read_and_deleted(url: str, tmp_path: Path) -> None:
    names = ["records/part-00000.parquet", "manifest.json", "a [b]*?.json"]
    assert store.list_names(url) == {}
    assert store.read_json(f"{url}/manifest.json") is None
    for name in names:
        store.put_file(write(tmp_path, b'{"a": 1}'), f"{url}/{name}")
    store.put_file(write(tmp_path, b"{}"), f"{url}2/of another")
    assert {name: one.bytes for name, one in store.list_names(url).items()} == dict.fromkeys(
        sorted(names), 8
    )
    assert store.read_json(f"{url}/manifest.json") == {"a": 1}
    store.delete(url, ["manifest.json", "a [b]*?.json", "never there"])
    assert list(store.list_names(url)) == names[:1]
    with pytest.raises(OutputError, match="is a file"):
        store.list_names(f"{url}/{names[0]}")


def test_one_of_two_creates_a_name(url: str, tmp_path: Path) -> None:
    store.put_bytes(b"first", f"{url}/claim", if_absent=True)
    store.put_bytes(b"first", f"{url}/claim", if_absent=True)  # the same content is as good
    with pytest.raises(FileExistsError):
        store.put_bytes(b"other", f"{url}/claim", if_absent=True)
    same, other = write(tmp_path, b"first"), write(tmp_path, b"other", "b.bin")
    store.put_file(same, f"{url}/claim", if_absent=True)
    with pytest.raises(FileExistsError):
        store.put_file(other, f"{url}/claim", if_absent=True)
    assert store.holds_sha256(
        f"{url}/claim", "a7937b64b8caa58f03721bb6bacf5c78cb235febe0e70b1b84cd99541461a08e"
    )
    store.put_file(other, f"{url}/claim")
    with fsspec.open(f"{url}/claim", **options(url)) as stream:
        assert stream.read() == b"other"


def options(url: str) -> dict[str, Any]:
    import os

    return {"endpoint_url": os.environ["AWS_ENDPOINT_URL"]} if url.startswith("s3") else {}


@pytest.mark.more
@pytest.mark.parametrize(
    "fault",
    [
        Fault(status=500),
        Fault(status=503),
        Fault(cut=-1),
        Fault(half=True),
        Fault(lost=True),
        Fault(stall=3),
        Fault(rate=500_000),
    ],
    ids=str,
)
@pytest.mark.parametrize("size", [1000, 3 * PART + 7])
def test_a_fault_that_passes_does_not_show(
    s3: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: Fault, size: int
) -> None:
    monkeypatch.setattr(store, "CHUNK", PART)
    data = bytes(range(256)) * (size // 256) + b"end"
    tally = s3.proxy.begin(once(fault))
    url = f"s3://bucket/{tmp_path.name}/a"
    etag = store.put_file(write(tmp_path, data), url, if_absent=True)
    assert etag is not None
    assert ("-" in etag) is (size > 2 * PART)
    assert tally.faults.total() >= 1
    assert s3.get(f"/bucket/{tmp_path.name}/a") == data


@pytest.mark.more
@pytest.mark.parametrize("size", [1000, 3 * PART])
def test_a_fault_that_stays_is_a_clear_error_and_leaves_nothing(
    s3: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(store, "CHUNK", PART)
    monkeypatch.setenv("INGOT_STORAGE_RETRIES", "1")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hidden")
    s3.proxy.begin(once(Fault(status=503), turns=100))
    with pytest.raises(OutputError, match=r"the request failed: .*503.* run the same") as caught:
        store.put_file(write(tmp_path, bytes(size)), f"s3://bucket/{tmp_path.name}/a")
    assert "hidden" not in str(caught.value)
    assert s3.names("bucket", tmp_path.name) == []
    assert tmp_path.name.encode() not in s3.get("/bucket?uploads")  # kills of others leave some


@pytest.mark.more
def test_an_upload_that_stops_in_the_middle_is_aborted(
    s3: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "CHUNK", PART)
    monkeypatch.setenv("INGOT_STORAGE_RETRIES", "0")

    def second_part(asked: Asked) -> Fault | None:
        return Fault(status=500) if "partNumber=2" in asked.path else None

    s3.proxy.begin(second_part)
    with pytest.raises(OutputError, match="the request failed"):
        store.put_file(write(tmp_path, bytes(4 * PART)), f"s3://bucket/{tmp_path.name}/a")
    assert s3.names("bucket", tmp_path.name) == []
    assert tmp_path.name.encode() not in s3.get("/bucket?uploads")  # kills of others leave some


def test_a_file_that_is_not_what_was_put_is_found(
    s3: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, place = write(tmp_path, b"right"), f"{tmp_path.name}/a"

    def somebody_else(asked: Asked) -> None:
        if asked.method == "HEAD":
            s3.put("bucket", {place: b"wrong"})

    s3.proxy.begin(somebody_else)
    with pytest.raises(OutputError, match="is not the file"):
        store.put_file(file, f"s3://bucket/{place}")


def test_an_etag_that_is_no_md5_is_made_good_by_reading(
    s3: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "_make_etag", lambda local: "of a key of the bucket")
    tally = s3.proxy.begin()
    store.put_file(write(tmp_path, b"right"), f"s3://bucket/{tmp_path.name}/a")
    assert tally.requests["GET"] == 1


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("s3://key:hidden@bucket/a", r"s3://\*\*\*@bucket/a: keys are not taken from a URL"),
        ("s3://bucket/a?token=hidden", "keys are not taken from a URL"),
        ("s3://", "names no bucket"),
        ("s3://bucket/../a", "has empty parts"),
    ],
)
def test_an_unfit_url_is_refused(url: str, problem: str) -> None:
    with pytest.raises(OutputError, match=problem) as caught:
        store.check_url(url)
    assert "hidden" not in str(caught.value)


def test_a_missing_bucket_and_wrong_protocols_are_told(s3: Storage) -> None:
    with pytest.raises(OutputError, match="no such bucket"):
        store.put_bytes(b"", "s3://nowhere/a")
    with pytest.raises(OutputError, match="Protocol not known: odd"):
        store.put_bytes(b"", "odd://nowhere/a")
    assert json.dumps(store.check_url("s3a://bucket/a/")) == '"s3://bucket/a"'


@pytest.mark.parametrize(
    ("status", "code"),
    [(503, 4), (500, 4), (429, 4), (408, 4), (400, 1), (403, 1), (401, 1), (405, 1)],
)
def test_only_what_may_pass_is_worth_the_same_command_again(
    s3: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int, code: int
) -> None:
    """On writing and on reading; a store that does not answer is told from one that refuses."""
    monkeypatch.setenv("INGOT_STORAGE_RETRIES", "0")
    s3.proxy.begin(lambda asked: Fault(status=status))
    with pytest.raises(OutputError) as put:
        store.put_bytes(b"a", f"s3://bucket/{tmp_path.name}/a")
    with pytest.raises(SourceError) as got:
        store.fetch_file(f"s3://bucket/{tmp_path.name}/a", tmp_path / "a")
    assert (put.value.exit_code, got.value.exit_code) == (code, code)


def test_a_store_that_is_not_there_is_unreachable(
    s3: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INGOT_STORAGE_RETRIES", "0")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    with pytest.raises(UnreachableStoreError, match="the request failed") as caught:
        store.list_names("s3://bucket/a")
    assert caught.value.exit_code == ExitCode.UNREACHABLE


def put_result(url: str, files: dict[str, bytes]) -> None:
    """Put a result with its manifest."""
    entries = [
        {"path": name, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        for name, data in files.items()
    ]
    for name, data in files.items():
        store.put_bytes(data, f"{url}/{name}")
    store.put_bytes(json.dumps({"files": entries}).encode(), f"{url}/manifest.json")


def test_a_result_is_fetched_once_and_whole(
    s3: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INGOT_HOME", str(tmp_path / "home"))
    files = {"a/b.bin": b"abc" * 9, "stats.json": b"{}"}
    url = f"s3://bucket/{tmp_path.name}"
    with pytest.raises(SourceError, match="no finished result"):
        store.fetch_result(url)
    put_result(url, files)
    with ThreadPoolExecutor(3) as several:
        folders = set(several.map(lambda _: store.fetch_result(url), range(3)))
    (folder,) = folders
    assert {name: (folder / name).read_bytes() for name in files} == files
    tally = s3.proxy.begin()
    assert store.fetch_result(url + "/") == folder
    assert tally.requests.total() <= 2  # the manifest
    store.put_bytes(b"other", f"{url}/stats.json")
    assert store.fetch_result(url) == folder


def test_a_fetch_goes_on_after_a_fault(
    s3: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INGOT_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("INGOT_STORAGE_RETRIES", "0")
    url = f"s3://bucket/{tmp_path.name}"
    put_result(url, {"a.bin": b"a" * 99, "b.bin": b"b" * 99})
    cut = Fault(status=500)
    s3.proxy.begin(lambda asked: cut if "b.bin" in asked.path else None)
    with pytest.raises(StorageError, match="the request failed"):
        store.fetch_result(url)
    (there,) = (path for path in (tmp_path / "home/results").iterdir() if path.is_dir())
    assert [path.name for path in there.iterdir()] == ["a.bin"]
    s3.proxy.begin()
    assert (store.fetch_result(url) / "b.bin").read_bytes() == b"b" * 99


@pytest.mark.parametrize("name", ["../../out.bin", "a/../../out.bin", "/out.bin"])
def test_a_manifest_that_lists_other_places_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("INGOT_HOME", str(tmp_path / "home"))
    url = f"memory://{tmp_path.name}"
    listed = {"files": [{"path": name, "bytes": 1, "sha256": "0" * 64}]}
    store.put_bytes(json.dumps(listed).encode(), f"{url}/manifest.json")
    with pytest.raises(SourceError, match="outside the result"):
        store.fetch_result(url)


def test_a_file_that_is_not_what_the_manifest_lists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INGOT_HOME", str(tmp_path / "home"))
    url = f"memory://{tmp_path.name}"
    put_result(url, {"a.bin": b"whole"})
    store.put_bytes(b"other", f"{url}/a.bin")
    with pytest.raises(SourceError, match="is not what the manifest lists"):
        store.fetch_result(url)
