"""Data sets of the Hub, against a local server that speaks its protocol; never the public one."""

import hashlib
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

OLD, NEW = "a" * 40, "b" * 40
LONG = b"".join(b'{"text":"row %d of a long file"}\n' % number for number in range(40_000))
FILES = {
    "README.md": b"---\nconfigs: []\n---\n",
    "en/train-0.jsonl": b'{"text":"one"}\n{"text":"two"}\n',
    "en/test-0.jsonl": b'{"text":"three"}\n',
    "de/train-0.jsonl": b'{"text":"eins"}\n',
    "long/train.jsonl": LONG,
}
COMMITS = {OLD: {**FILES, "en/train-0.jsonl": b'{"text":"old"}\n'}, NEW: FILES}
REVISIONS = {"main": NEW, "v1": OLD, "refs/convert/parquet": OLD}

# As a user would: the settings of the library in the environment of a new process.
ASK = """
import json, sys
from ingot.converters.errors import SourceError
from ingot.converters.sources import open_source
for location in sys.argv[1:]:
    try:
        source = open_source(location)
        rows = [row["text"] for batch in source.batches() for row in batch.values]
        told = [{one.name: [one.bytes, one.etag] for one in source.files}, rows]
    except SourceError as error:
        told = [type(error).__name__, str(error)]
    print(json.dumps(told))
"""


class Handler(BaseHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self.answer()

    def do_GET(self) -> None:
        self.answer()

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.answer(asked.get("paths"))

    def answer(self, paths: list[str] | None = None) -> None:
        path = unquote(urlsplit(self.path).path)
        self.server.asked.append((self.command, path, self.headers.get("Range")))
        found = re.fullmatch(r"/(?:api/)?datasets/org/set(?:/([a-z-]+)/?(.*))?", path)
        what, rest = (found[1] or "revision", found[2] or "main") if found else ("", "")
        revision = next(
            (one for one in (*REVISIONS, OLD, NEW) if f"{rest}/".startswith(f"{one}/")), ""
        )
        commit = REVISIONS.get(revision, revision)
        inner = rest.removeprefix(revision).strip("/")
        if not found or commit not in COMMITS:
            self.send(404, b"{}", {"X-Error-Code": "RevisionNotFound" if found else "RepoNotFound"})
        elif what == "resolve":
            self.send_file(COMMITS[commit].get(inner), commit)
        elif what == "revision":
            told = {"id": "org/set", "sha": commit, "siblings": [], "private": False, "tags": []}
            self.send(200, json.dumps({**told, "downloads": 0, "likes": 0}).encode())
        else:
            self.send(200, json.dumps(list(entries(COMMITS[commit], inner, paths))).encode())

    def send_file(self, data: bytes | None, commit: str) -> None:
        if data is None:
            self.send(404, b"", {"X-Error-Code": "EntryNotFound"})
            return
        named = {"ETag": f'"{oid(data)}"', "X-Repo-Commit": commit, "Accept-Ranges": "bytes"}
        if span := re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range") or ""):
            start, end = int(span[1]), min(int(span[2] or len(data)), len(data) - 1)
            named["Content-Range"] = f"bytes {start}-{end}/{len(data)}"
            self.send(206, data[start : end + 1], named)
        else:
            self.send(200, data, named)

    def send(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {**(headers or {}), "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def oid(data: bytes) -> str:
    return hashlib.sha1(data, usedforsecurity=False).hexdigest()


def entries(files: dict[str, bytes], top: str, paths: list[str] | None) -> Iterator[dict]:
    """The files below a folder, or what some paths are."""
    folders = {one.rpartition("/")[0] for one in files if "/" in one}
    for name in sorted(folders):
        if (name in paths) if paths is not None else not top:
            yield {"type": "directory", "path": name, "size": 0, "oid": oid(name.encode())}
    for name, data in files.items():
        if (name in paths) if paths is not None else name.startswith(f"{top}/" if top else ""):
            yield {"type": "file", "path": name, "size": len(data), "oid": oid(data)}


@pytest.fixture(scope="module")
def hub() -> Iterator[ThreadingHTTPServer]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.asked = []
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def run(hub: ThreadingHTTPServer, home: Path, *words: str) -> str:
    more = {"HF_HOME": str(home / "hf"), "HF_HUB_DISABLE_TELEMETRY": "1", "NO_PROXY": "127.0.0.1"}
    known = {"INGOT_STORAGE_RETRIES": "1", "HF_ENDPOINT": f"http://127.0.0.1:{hub.server_port}"}
    kept = {name: one for name, one in os.environ.items() if not name.startswith("HF_")}
    hub.asked.clear()
    done = subprocess.run(
        [sys.executable, *words],
        env={**kept, **more, **known, "HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.more
def test_configs_splits_and_revisions(hub, tmp_path):
    top = "hf://datasets/org/set"
    asked = [
        *(f"{top}/en", f"{top}/en/train-*", f"{top}/en/test-0.jsonl", f"{top}@v1/en/train-0.jsonl"),
        *(f"{top}@{OLD}/en", f"{top}@gone/en", "hf://datasets/org/nothing"),
    ]
    said = list(map(json.loads, run(hub, tmp_path, "-c", ASK, *asked).splitlines()))
    config, split, single, tag, commit, gone, nothing = said
    assert config[1] == ["three", "one", "two"]
    data = FILES["en/train-0.jsonl"]
    assert split == [{"train-0.jsonl": [len(data), oid(data)]}, ["one", "two"]]
    assert single[1] == ["three"]
    assert tag[1] == ["old"]
    assert commit[1] == ["three", "old"]
    for one in (gone, nothing):
        assert one[0] == "SourceError"
        assert "no such file or folder" in one[1]


def test_a_long_file_is_streamed_in_ranges(hub, tmp_path):
    (line,) = run(hub, tmp_path, "-c", ASK, "hf://datasets/org/set/long").splitlines()
    assert len(json.loads(line)[1]) == 40_000
    spans = [span for _, path, span in hub.asked if "/resolve/" in path and span]
    assert len(spans) > 2
    assert all(int(one.partition("-")[2]) < len(LONG) for one in spans)
    assert not list(tmp_path.rglob("train*"))  # nothing is kept on disk


@pytest.mark.more
def test_a_conversion_names_revision_and_hashes(hub, tmp_path):
    mapping, out = tmp_path / "m.json", tmp_path / "out"
    mapping.write_text('{"version": 2, "text": "text"}')
    location = "hf://datasets/org/set@v1/en"
    run(hub, tmp_path, "-m", "ingot", "convert", str(mapping), location, "--out", str(out))
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["revision"] == OLD
    hashes = {one["name"]: one["sha256"] for one in manifest["inputs"]}
    old = COMMITS[OLD]["en/train-0.jsonl"]
    assert hashes["train-0.jsonl"] == hashlib.sha256(old).hexdigest()
    again = run(hub, tmp_path, "-m", "ingot", "convert", str(mapping), location, "--out", str(out))
    assert "already" in again or "up to date" in again


def test_a_branch_that_moves_is_read_at_one_commit(hub, tmp_path, monkeypatch):
    monkeypatch.setitem(REVISIONS, "main", OLD)
    out = run(hub, tmp_path, "-c", ASK, "hf://datasets/org/set/en")
    assert json.loads(out)[1] == ["three", "old"]
    resolved = {path.split("/")[5] for _, path, _ in hub.asked if "/resolve/" in path}
    assert resolved == {OLD}
