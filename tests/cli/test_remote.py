"""Commands on an S3 server that fails: the bytes of local files, or one clear error."""

import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from tests.command_line import ingot
from tests.converters.sources.storage.test_storage_faults import FAULTS, ROWS, SETS
from tests.s3_server import Asked, Fault, Storage, drawn, s3_storage

MAPPING = {"version": 2, "text": "text", "meta": {"original_id": "n"}}


@pytest.fixture(scope="module")
def _running() -> Iterator[Storage]:
    with s3_storage() as storage:
        storage.put("data", {f"{kind}/{name}": data for kind, (name, data) in SETS.items()})
        yield storage


@pytest.fixture
def storage(_running: Storage, monkeypatch: pytest.MonkeyPatch) -> Storage:
    for name, value in _running.environment().items():
        monkeypatch.setenv(name, value)
    _running.proxy.begin()
    return _running


@pytest.fixture
def mapping(tmp_path: Path) -> Path:
    file = tmp_path / "mapping.json"
    file.write_text(json.dumps(MAPPING))
    return file


def output(*words: object, code: int = 0) -> str:
    """Run the command; its output, spaces made one."""
    return " ".join(ingot(*words, code=code).output.split())


def files_of(folder: Path, *apart: str) -> dict[str, bytes]:
    """Every file of a result but some, by name."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in apart
    }


def local_copy(kind: str, folder: Path) -> Path:
    name, data = SETS[kind]
    folder.mkdir()
    (folder / name).write_bytes(data)
    return folder


@pytest.mark.more
@pytest.mark.parametrize("kind", SETS)
def test_a_conversion_gives_the_bytes_of_local_files(
    kind: str, storage: Storage, mapping: Path, tmp_path: Path
) -> None:
    output("convert", mapping, local_copy(kind, tmp_path / kind), "--out", tmp_path / "here")
    tally = storage.proxy.begin(drawn(11, 0.5, FAULTS))
    output("convert", mapping, f"s3://data/{kind}", "--out", tmp_path / "there")
    assert tally.faults.total() >= 1
    there = files_of(tmp_path / "there", "run.json")
    assert there == files_of(tmp_path / "here", "run.json")
    assert json.loads(there["manifest.json"])["rows"]["converted"] == 3000


@pytest.mark.more
def test_a_run_gives_the_bytes_of_local_files(storage: Storage, tmp_path: Path) -> None:
    words = ("--mapper", "rules", "--yes", "--min-confidence", "0.8", "--out")
    output("run", local_copy("lines", tmp_path / "lines"), *words, tmp_path / "here")
    tally = storage.proxy.begin(drawn(12, 0.5, FAULTS))
    output("run", "s3://data/lines", *words, tmp_path / "there")
    assert tally.faults.total() >= 1
    apart = ("run.json", "report.md")  # these tell the place and the time
    assert files_of(tmp_path / "there", *apart) == files_of(tmp_path / "here", *apart)


@pytest.mark.more
def test_a_second_conversion_reads_nothing(storage: Storage, mapping: Path, tmp_path: Path) -> None:
    words = ("convert", mapping, "s3://data/table", "--out", tmp_path / "out")
    output(*words)
    tally = storage.proxy.begin()
    assert "nothing to do" in output(*words)
    assert tally.requests["GET"] <= 6  # what it is was looked at, its rows were not read


@pytest.mark.more
def test_a_conversion_that_was_stopped_by_its_storage_goes_on(
    storage: Storage, mapping: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(asked: Asked) -> Fault | None:
        return Fault(status=503) if asked.is_read and asked.turn else None

    monkeypatch.setenv("INGOT_STORAGE_RETRIES", "1")
    storage.proxy.begin(failing)
    words = ("convert", mapping, "s3://data/lines", "--out", tmp_path / "out")
    said = output(*words, code=4)
    assert "s3://data/lines/a.jsonl.gz: cannot be reached" in said
    assert "check the network" in said
    assert not (tmp_path / "out").exists()
    storage.proxy.begin()
    output(*words)


@pytest.mark.more
def test_wrong_keys_are_refused(
    mapping: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with s3_storage() as guarded:
        guarded.put("data", {"a.jsonl": b'{"text": "a"}\n'})
        address = f"http://127.0.0.1:{guarded.port}/moto-api/reset-auth"
        headers = {"content-type": "text/plain"}
        asked = urllib.request.Request(address, data=b"0", method="POST", headers=headers)
        urllib.request.urlopen(asked).close()  # from now on keys count
        for name, value in guarded.environment().items():
            monkeypatch.setenv(name, value)
        words = ("convert", mapping, "s3://data/a.jsonl", "--out", tmp_path / "out")
        tally = guarded.proxy.begin()
        said = output(*words, code=1)
        assert "no permission to read it (check AWS_ACCESS_KEY_ID" in said
        assert tally.requests.total() == 1


class Vault(MemoryFileSystem):
    """A storage whose URLs hold secrets."""

    protocol = "vault"
    store = MemoryFileSystem.store

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        rest = path.partition("://")[2] or path
        return "/" + rest.rpartition("@")[2].partition("?")[0].strip("/")


@pytest.mark.more
def test_secrets_in_a_url_are_in_no_message_and_no_file(mapping: Path, tmp_path: Path) -> None:
    fsspec.register_implementation("vault", Vault, clobber=True)
    with fsspec.open("memory://house/a.jsonl", "wb") as out:
        out.write("".join(json.dumps(row) + "\n" for row in ROWS[:50]).encode())
    url = "vault://me:hidden1@house/{}?access_token=hidden2&part=3"
    sure = ("--yes", "--min-confidence", "0.6")
    said = [
        output("convert", mapping, url.format("a.jsonl"), "--out", tmp_path / "a"),
        output("convert", mapping, url.format("nothing"), "--out", tmp_path / "b", code=1),
        output("run", url.format("a.jsonl"), "--mapper", "rules", *sure, "--out", tmp_path / "c"),
        output("run", url.format("a.jsonl"), "--mapper", "rules", "--out", tmp_path / "d", code=3),
        output("check", mapping, url.format("a.jsonl")),
        output("map", url.format("a.jsonl"), "--mapper", "rules", code=3),
    ]
    assert [text for text in said if "hidden" in text] == []
    files = files_of(tmp_path)
    assert [name for name, data in files.items() if b"hidden" in data] == []
    assert "vault://***@house/nothing?access_token=***&part=3: no such file" in said[1]


WRITERS = {
    "convert": ("convert", "{mapping}", "raw", "--out", "s3://data/o"),
    "run": ("run", "raw", "--mapping", "{mapping}", "--yes", "--out", "s3://data/o"),
    "lake": ("lake", "run", "raw", "--out", "o", "--mapper", "rules", "--results", "s3://data/o"),
    "criteo": ("criteo", "preprocess", "--input-dir", "{criteo}", "--out", "s3://data/o"),
    "monolith": (
        "monolith",
        "convert",
        "{monolith}",
        "s3://data/o",
        "--from",
        "example",
        "--to",
        "parquet",
    ),
    "merge": ("merge", "s3://data/o"),
}
PLACES = {"criteo": "examples/criteo", "monolith": "tests/golden/monolith"}


@pytest.mark.parametrize("name", WRITERS)
def test_a_destination_that_cannot_be_reached_is_worth_the_same_command_again(
    name: str, mapping: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("INGOT_STORAGE_RETRIES", "0")
    for variable in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(variable, "testing")
    (tmp_path / "raw").mkdir()
    rows = [json.dumps({"n": row, "text": "some words " * 9}) for row in range(9)]
    (tmp_path / "raw/a.jsonl").write_text("\n".join(rows))
    top = Path(__file__).parents[2]
    places = {one: top / place for one, place in PLACES.items()}
    words = [word.format(mapping=mapping, **places) for word in WRITERS[name]]
    assert "s3://data/o" in output(*words, code=4)


@pytest.mark.parametrize("place", ["s3://nowhere/a", "s3://nowhere", "s3://nowhere/b/*.jsonl"])
def test_a_missing_bucket_is_named_as_a_source_and_as_a_destination(
    storage: Storage, mapping: Path, tmp_path: Path, place: str
) -> None:
    assert "no such bucket" in output("convert", mapping, place, "--out", tmp_path / "o", code=1)
    (tmp_path / "a.jsonl").write_text('{"n": 1, "text": "a"}\n')
    words = ("convert", mapping, tmp_path / "a.jsonl", "--out", "s3://nowhere/o")
    assert "no such bucket" in output(*words, code=1)
