"""Files of any fsspec storage, read in pieces by one that fails at times; secrets in URLs."""

import io
import random
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from ingot.converters.errors import SourceError, StorageError, redact_urls
from ingot.converters.sources import open_source
from ingot.converters.sources.storage.listing import list_location
from ingot.converters.sources.storage.remote import FIRST_BLOCK, TAIL, RemoteFile


class Flaky(MemoryFileSystem):
    """A storage that fails where `chance` says so, and gives what it has in pieces."""

    protocol = "flaky"
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]
    chance = random.Random(0)
    share = 0.0
    seekable = True
    opened = 0

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return "/" + path.removeprefix("flaky://").strip("/")

    def _open(self, path: str, mode: str = "rb", **options: Any) -> Any:
        held = super()._open(path, mode, **options)
        if mode != "rb":
            return held
        type(self).opened += 1
        return Failing(held.getvalue(), type(self))


class Failing(io.BytesIO):
    def __init__(self, data: bytes, of: type[Flaky]) -> None:
        super().__init__(data)
        self.of = of

    def seekable(self) -> bool:
        return self.of.seekable

    def read(self, size: int | None = -1) -> bytes:
        drawn = self.of.chance.random()
        if drawn < self.of.share / 2:
            raise TimeoutError
        if drawn < self.of.share:
            return b""
        if drawn < 0.5 and size and size > 1:
            size = self.of.chance.randrange(1, size)
        return super().read(size)


@pytest.fixture
def flaky(monkeypatch: pytest.MonkeyPatch) -> type[Flaky]:
    monkeypatch.setattr("ingot.converters.sources.storage.remote._FIRST_WAIT", 0.0)
    fsspec.register_implementation("flaky", Flaky, clobber=True)
    monkeypatch.setattr(Flaky, "chance", random.Random(1))
    return Flaky


@pytest.mark.parametrize(
    "size", [0, 1, 1000, FIRST_BLOCK, FIRST_BLOCK + 1, TAIL - 1, TAIL + 1, 700_001]
)
def test_any_piece_of_a_file_is_what_it_is(size: int, flaky: type[Flaky]) -> None:
    data = random.Random(size).randbytes(size)
    fsspec.filesystem("flaky").pipe_file("/a", data)
    flaky.share = 0.2
    chance = random.Random(size + 1)
    with RemoteFile("flaky://a").open() as raw:
        local = io.BytesIO(data)
        for _ in range(60):
            if chance.random() < 0.5:
                whence = chance.choice((0, 1, 2))
                offset = (
                    chance.randrange(-size - 2, size + 2) if whence else chance.randrange(size + 2)
                )
                if offset + (0, local.tell(), size)[whence] < 0:
                    continue
                assert raw.seek(offset, whence) == local.seek(offset, whence)
            wanted = chance.choice((0, 1, 8, 5000, 100_000, -1))
            assert raw.read(wanted) == local.read(wanted)


def test_a_stream_that_cannot_go_back_is_read_anew(flaky: type[Flaky], monkeypatch: Any) -> None:
    data = random.Random(3).randbytes(400_000)
    fsspec.filesystem("flaky").pipe_file("/a", data)
    monkeypatch.setattr(flaky, "seekable", False)
    flaky.share, flaky.opened = 0.1, 0
    with RemoteFile("flaky://a", size=len(data)).open() as raw:
        assert not raw.seekable()
        assert raw.read() == data
    assert flaky.opened > 2


def test_what_keeps_failing_ends(flaky: type[Flaky], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INGOT_STORAGE_RETRIES", "3")
    fsspec.filesystem("flaky").pipe_file("/a", b"data")
    flaky.share, flaky.opened = 1.0, 0
    with (
        RemoteFile("flaky://a").open() as raw,
        pytest.raises(StorageError, match=r"flaky://a: can"),
    ):
        raw.read()
    assert flaky.opened == 4


def test_a_file_that_became_shorter_is_not_read_as_whole(flaky: type[Flaky]) -> None:
    flaky.share = 0.0
    storage = fsspec.filesystem("flaky")
    storage.pipe_file("/dir/a", b"a longer text")
    (entry,) = list_location("flaky://dir").entries
    storage.pipe_file("/dir/a", b"a text")
    with pytest.raises(SourceError, match="changed while it was read"):
        entry.place.open()


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("s3://bucket/a b/c.jsonl", "s3://bucket/a b/c.jsonl"),
        ("s3://key:word@bucket/a", "s3://***@bucket/a"),
        (
            "https://h/a.csv?part=1&X-Amz-Signature=abc",
            "https://h/a.csv?part=1&X-Amz-Signature=***",
        ),
        ("https://h/a?sig=a%2Fb&se=2026#x", "https://h/a?sig=***&se=2026#x"),
        ("https://u@h/p@th?q=a@b", "https://***@h/p@th?q=a@b"),
        ("hdfs://u@h:80/a", "hdfs://***@h:80/a"),
        ("zip://a.csv::https://u:p@h/x.zip?token=1", "zip://a.csv::https://***@h/x.zip?token=***"),
        ("404, url='https://h/a?access_key=1'", "404, url='https://h/a?access_key=***'"),
        ("C:/data/key=value.csv", "C:/data/key=value.csv"),
    ],
)
def test_secrets_in_urls_are_not_shown(url: str, shown: str) -> None:
    assert redact_urls(url) == shown
    assert str(RemoteFile(url)) == shown
    assert "word" not in repr(RemoteFile(url))


class Files(BaseHTTPRequestHandler):
    """A web server with one file, whole or in ranges; other names stand for other answers."""

    protocol_version = "HTTP/1.1"
    data = b'{"text": "a"}\n' * 30_000
    failing = 0

    def answer(self, status: int, data: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"content-length": str(len(data)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def do_GET(self) -> None:
        name = self.path.partition("?")[0].strip("/")
        if Files.failing or name.isdigit():
            Files.failing -= 1
            return self.answer(int(name) if name.isdigit() else 503, b"")
        if name == "whole.jsonl" or "range" not in self.headers:
            return self.answer(200, self.data, accept_ranges="none" if "whole" in name else "bytes")
        first, last = self.headers["range"].removeprefix("bytes=").split("-")
        start, stop = int(first), min(int(last) + 1, len(self.data))
        told = f"bytes {start}-{stop - 1}/{len(self.data)}"
        return self.answer(206, self.data[start:stop], content_range=told)

    do_HEAD = do_GET  # noqa: N815

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def web() -> Iterator[str]:
    pytest.importorskip("aiohttp")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Files)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("name", ["ranges.jsonl", "whole.jsonl"])
def test_a_web_address_with_a_query_is_a_file(
    name: str, web: str, flaky: type[Flaky], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Files, "failing", 2)
    source = open_source(f"{web}/{name}?X-Amz-Credential=a/b&X-Amz-Signature=hidden")
    assert [file.name for file in source.files] == [name]
    assert sum(len(batch.values) for batch in source.batches()) == 30_000
    assert "hidden" not in source.location + str(source.files[0].place) + repr(source)


@pytest.mark.parametrize(
    ("name", "problem", "code"),
    [("404", "no such file", 1), ("403", "no permission", 1), ("500", "cannot be reached", 4)],
)
def test_web_addresses_that_give_nothing(
    name: str, problem: str, code: int, web: str, flaky: type[Flaky]
) -> None:
    with pytest.raises(SourceError, match=rf"{name}\?token=\*\*\*: {problem}") as caught:
        open_source(f"{web}/{name}?token=hidden")
    assert caught.value.exit_code == code
