"""Sources behind an S3 server that fails: the same records, or one clear error in bounded time."""

import bz2
import gzip
import io
import json
import pickle
import random
import tarfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from ingot.cli.app import app
from ingot.converters.errors import SourceError, StorageError
from ingot.converters.sources import open_source
from ingot.converters.sources.storage.listing import list_location
from ingot.converters.sources.storage.remote import MOST_BLOCK, RemoteFile
from tests.s3_server import Asked, Fault, Storage, drawn

FAULTS = (
    Fault(status=500),
    Fault(status=503),
    Fault(status=429),
    Fault(cut=-1),
    Fault(cut=0),
    Fault(cut=1000),
    Fault(short=1),
    Fault(short=777),
)
ROWS = [{"text": f"Line {n} says {'so ' * (n % 40)}and {n * n}.", "n": n} for n in range(3000)]


def tarred(name: str, data: bytes) -> bytes:
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w") as tar:
        info = tarfile.TarInfo(name)
        info.size = len(data)
        tar.addfile(info, io.BytesIO(data))
    return held.getvalue()


def sets() -> dict[str, tuple[str, bytes]]:
    """Per kind a file's name and bytes."""
    lines = b"".join(json.dumps(row).encode() + b"\n" for row in ROWS)
    table = "text,n\n" + "".join(f"{row['text']},{row['n']}\n" for row in ROWS)
    columns = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(ROWS), columns, row_group_size=500)
    return {
        "lines": ("a.jsonl.gz", gzip.compress(lines, mtime=0)),
        "squeezed": ("a.jsonl.bz2", bz2.compress(lines)),
        "table": ("a.csv", table.encode()),
        "columns": ("a.parquet", columns.getvalue()),
        "archive": ("a.tar", tarred("inner/a.jsonl", lines)),
    }


SETS = sets()
MAPPING = {"decision": "pt", "records": {"text": "text"}}


def of_reads(fault: Fault, most: int = 1_000_000) -> Any:
    """Do this to the first reads of every range."""
    return lambda asked: fault if asked.is_read and asked.turn < most else None


def rows(location: str) -> list[Any]:
    return [value for batch in open_source(location).batches() for value in batch.values]


def read(url: str) -> bytes:
    with RemoteFile(url).open() as raw:
        return raw.read()


@pytest.mark.parametrize("kind", SETS)
def test_rows_are_those_of_local_files(kind: str, storage: Storage, tmp_path: Path) -> None:
    name, data = SETS[kind]
    (tmp_path / name).write_bytes(data)
    storage.put("data", {f"{kind}/{name}": data})
    assert rows(f"s3://data/{kind}") == rows(str(tmp_path))


@pytest.mark.more
@pytest.mark.parametrize("kind", SETS)
def test_rows_are_the_same_under_faults(kind: str, storage: Storage, tmp_path: Path) -> None:
    name, data = SETS[kind]
    (tmp_path / name).write_bytes(data)
    storage.put("data", {f"{kind}/{name}": data})
    tally = storage.proxy.begin(drawn(7, 0.6, FAULTS))
    assert rows(f"s3://data/{kind}") == rows(str(tmp_path))
    assert tally.faults.total() >= 2


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_a_read_goes_on_where_it_was(fault: Fault, storage: Storage) -> None:
    data = random.Random(1).randbytes(300_000)
    storage.put("data", {"big": data})
    tally = storage.proxy.begin(of_reads(fault, most=1))
    assert read("s3://data/big") == data
    assert tally.faults.total() >= 2
    assert tally.sent < 2 * len(data)


@pytest.mark.parametrize("fault", [Fault(status=500), Fault(cut=1000), Fault(short=1)], ids=str)
def test_a_storage_that_keeps_failing_is_an_error(
    fault: Fault, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INGOT_STORAGE_RETRIES", "1")
    storage.put("data", {"a.jsonl": b'{"text": "a"}\n' * 99})
    tally = storage.proxy.begin(of_reads(fault))
    with pytest.raises(StorageError, match=r"s3://data/a.jsonl: cannot be reached: .*network") as e:
        open_source("s3://data/a.jsonl")
    assert e.value.exit_code == 4
    assert 2 <= tally.requests["GET"] <= 8


@pytest.mark.more
def test_a_short_answer_is_seen_whatever_its_last_byte(storage: Storage) -> None:
    """What is missing of an answer is told by one byte, which any file may have there."""
    ends = [bytes([end]) for end in (0x00, 0x5A, 0xA5, 0xFF)]
    storage.put("data", {f"end{n}": b"some text" * 99 + end for n, end in enumerate(ends)})
    for number, end in enumerate(ends):
        assert read(f"s3://data/end{number}")[-1:] == end
        storage.proxy.begin(of_reads(Fault(short=1), most=1))
        assert read(f"s3://data/end{number}")[-1:] == end
        storage.proxy.begin()


@pytest.mark.more
def test_slow_is_no_error(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INGOT_STORAGE_TIMEOUT", "1")
    data = b"x" * 30_000
    storage.put("data", {"slow": data})
    tally = storage.proxy.begin(of_reads(Fault(rate=20_000)))
    assert read("s3://data/slow") == data
    assert tally.requests["GET"] == 1


@pytest.mark.more
def test_silence_is_one(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INGOT_STORAGE_TIMEOUT", "1")
    data = b"x" * 50_000
    storage.put("data", {"silent": data})
    tally = storage.proxy.begin(of_reads(Fault(stall=20), most=1))
    assert read("s3://data/silent") == data
    assert tally.requests["GET"] == 2  # the silent answer was not waited for


@pytest.mark.more
def test_a_file_that_changes_is_no_longer_the_same(storage: Storage) -> None:
    data = b"x" * (3 * MOST_BLOCK)
    storage.put("data", {"moving": data})
    with RemoteFile("s3://data/moving").open() as raw:
        raw.read(10)
        storage.put("data", {"moving": data[::-1] + b"y"})
        with pytest.raises(SourceError, match="changed while it was read") as caught:
            raw.read()
    assert caught.value.exit_code == 1


def test_a_file_is_the_one_that_was_listed(storage: Storage) -> None:
    storage.put("data", {"listed/a": b"some"})
    (entry,) = list_location("s3://data/listed").entries
    storage.put("data", {"listed/a": b"others"})
    with pytest.raises(SourceError, match="changed while it was read"):
        entry.place.open()


@pytest.mark.more
def test_a_listing_of_many_pages_is_whole_under_faults(storage: Storage) -> None:
    names = [f"many/{n:04}.jsonl" for n in range(1010)]
    storage.put("data", dict.fromkeys(names, b"{}\n"))
    tally = storage.proxy.begin(drawn(3, 0.4, (Fault(status=500), Fault(cut=100), Fault(cut=-1))))
    found = list_location("s3://data/many").entries
    assert [f"many/{entry.name}" for entry in found] == names
    assert tally.faults.total() >= 1
    assert all(entry.bytes == 3 and entry.mtime_ns for entry in found)


@pytest.mark.more
def test_names_of_every_kind(storage: Storage) -> None:
    good = ["a b.jsonl", "中文/ü.jsonl", "100%25.jsonl", "q?x#y&z=1.jsonl", "deep/er/x+y.jsonl"]
    bad = ["x/../c.jsonl", "./d.jsonl", "e//f.jsonl"]
    line = b'{"text": "a"}\n'
    storage.put("names", {f"top/{name}": line for name in (*good, *bad)})
    storage.put("names", {"top/": b"", "top/deep/": b"", "top/hollow/": b""})
    source = open_source("s3://names/top/")
    assert [file.name for file in source.files] == sorted(good)
    assert {one.name for one in source.left_out} == set(bad)
    assert all("no path below a folder" in one.why for one in source.left_out)
    assert sum(len(batch.values) for batch in source.batches()) == len(good)
    assert pickle.loads(pickle.dumps(source)) == source
    assert [entry.name for entry in list_location("s3://names/top/*.jsonl").entries] == [
        name for name in sorted(good) if "/" not in name
    ]
    assert [entry.name for entry in list_location("s3://names/top/**/*+y.jsonl").entries] == [
        "deep/er/x+y.jsonl"
    ]
    assert list_location("s3://names/top/a b.jsonl").direct


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("s3://data/nothing.jsonl", "no such file or folder"),
        ("s3://data/nothing/*.jsonl", "no files in it"),
        ("s3://no-such-bucket/a.jsonl", "no such bucket"),
        ("s3://no-such-bucket", "no such bucket"),
        ("s3://no-such-bucket/*", "no such bucket|no files"),
        ("s3://", "no bucket is named"),
        ("s3://data//a.jsonl", "empty parts"),
        ("s3://key:hidden@data/a.jsonl", "keys are not taken from a URL"),
    ],
)
def test_what_is_not_there_is_asked_for_once(url: str, message: str, storage: Storage) -> None:
    storage.put("data", {"a.jsonl": b"{}\n"})
    tally = storage.proxy.begin()
    with pytest.raises(SourceError, match=message) as caught:
        open_source(url)
    assert caught.value.exit_code == 1
    assert "hidden" not in str(caught.value)
    assert tally.requests.total() <= 4


@pytest.mark.parametrize("where", ["HEAD", "LIST", "GET"])
def test_what_is_not_allowed_is_asked_for_once(where: str, storage: Storage) -> None:
    storage.put("data", {"closed/a.jsonl": b'{"a": 1}\n'})

    def plan(asked: Asked) -> Fault | None:
        kind = "LIST" if asked.is_listing else asked.method
        return Fault(status=403) if kind == where else None

    tally = storage.proxy.begin(plan)
    with pytest.raises(SourceError, match=r"no permission to read it \(check AWS_ACCESS") as caught:
        open_source("s3://data/closed")
    assert caught.value.exit_code == 1
    assert tally.requests[where] == 1


def test_wrong_settings_are_named(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INGOT_STORAGE_TIMEOUT", "soon")
    with pytest.raises(SourceError, match="INGOT_STORAGE_TIMEOUT: 'soon' is not a number"):
        open_source("s3://data/a.jsonl")


@pytest.mark.more
def test_no_server_is_an_error(
    storage: Storage, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("INGOT_STORAGE_RETRIES", "0")
    ran = CliRunner().invoke(app, ["run", "s3://data/a.jsonl", "--out", str(tmp_path / "out")])
    assert ran.exit_code == 4, ran.output
    assert "s3://data/a.jsonl: cannot be reached" in " ".join(ran.output.split())


@pytest.mark.more
def test_reading_on_costs_few_requests(storage: Storage) -> None:
    size = 32 << 20
    storage.put("data", {"long": bytes(size)})
    tally = storage.proxy.begin()
    with RemoteFile("s3://data/long").open() as raw:
        assert sum(len(piece) for piece in iter(lambda: raw.read(64 << 10), b"")) == size
    assert tally.sent == size
    assert tally.requests["GET"] <= 12  # seven to grow, then one per block


def test_a_footer_and_a_glance_cost_little(storage: Storage) -> None:
    held = io.BytesIO()
    chance = random.Random(5)
    table = pa.table({name: [chance.random() for _ in range(400_000)] for name in "ab"})
    pq.write_table(table, held, row_group_size=50_000)
    storage.put("data", {"wide/a.parquet": held.getvalue()})
    tally = storage.proxy.begin()
    with RemoteFile("s3://data/wide/a.parquet").open() as raw:
        assert pq.ParquetFile(raw).metadata.num_rows == 400_000
    assert tally.sent <= 512 << 10
    assert tally.requests["GET"] <= 2


@pytest.mark.more
def test_rows_before_a_failure_are_given(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also through pyarrow, which reads by calling back."""
    monkeypatch.setenv("INGOT_STORAGE_RETRIES", "1")
    held = io.BytesIO()
    noise = random.Random(2)
    table = pa.table({"text": [noise.randbytes(50).hex() for _ in range(60_000)]})
    pq.write_table(table, held, row_group_size=5000)
    storage.put("data", {"half/a.parquet": held.getvalue()})
    source = open_source("s3://data/half")

    def plan(asked: Asked) -> Fault | None:
        start = int((asked.range or "bytes=0-").removeprefix("bytes=").partition("-")[0])
        return Fault(status=500) if asked.is_read and 10**6 < start < 3 * 10**6 else None

    storage.proxy.begin(plan)
    given: list[int] = []
    with pytest.raises(StorageError, match="cannot be reached"):
        given.extend(len(batch.values) for batch in source.batches())
    assert 5000 <= sum(given) < 60_000


@pytest.mark.more
def test_rows_of_a_table_come_before_all_of_it_is_read(storage: Storage) -> None:
    held = io.BytesIO()
    noise = random.Random(4)
    table = pa.table({"text": [noise.randbytes(500).hex() for _ in range(20_000)]})
    pq.write_table(table, held, row_group_size=1000)
    storage.put("data", {"large/a.parquet": held.getvalue()})
    source = open_source("s3://data/large")
    tally = storage.proxy.begin()
    next(source.batches())
    assert tally.sent < len(held.getvalue()) / 4
