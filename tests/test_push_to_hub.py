"""A push to the Hub, against a local server that speaks its protocol; never the public one."""

import base64
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import datasets
import pyarrow as pa
import pytest
import yaml

import ingot
from ingot.converters.errors import ConversionError
from ingot.converters.records.schema import PT_SCHEMA
from ingot.hub import dataset_card

EXAM = Path(__file__).parents[1] / "examples/zh_exam"
TOKEN = "hf_" + "x" * 34
# As a user would: the settings of the library in the environment of a new process.
PUSH = """
import sys, ingot
try:
    print(ingot.push_to_hub(sys.argv[1], sys.argv[2], license="cc-by-4.0"))
except ingot.IngotError as error:
    print(type(error).__name__, error.where, error.hint, error, sep="|")
"""


class Handler(BaseHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:  # the files of the repository
        if "org/denied" in self.path:
            self.send({"error": "no right to read"}, 403)
            return
        assert "/api/datasets/org/set/tree/main" in self.path
        files = self.server.files.items()
        self.send([{"type": "file", "path": k, "size": len(v), "oid": "c" * 40} for k, v in files])

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        path = self.path.partition("?")[0]
        self.server.asked.append((path, self.headers.get("Authorization")))
        if "org/denied" in path or b"denied" in body:
            self.send({"error": "no right to write"}, 403)
        elif path == "/api/repos/create":
            self.server.created.append(json.loads(body))
            self.send({"url": f"{self.server.url}/datasets/org/set"})
        elif path == "/api/validate-yaml":
            self.send({"errors": [], "warnings": []})
        elif path.endswith("/preupload/main"):
            files = [
                {"path": one["path"], "uploadMode": "regular", "shouldIgnore": False}
                for one in json.loads(body)["files"]
            ]
            self.send({"files": files})
        elif path == "/api/datasets/org/set/commit/main":
            self.commit([json.loads(line) for line in body.splitlines()])
            self.send(
                {"commitUrl": f"{self.server.url}/datasets/org/set/commit/b", "commitOid": "b"}
            )
        else:
            self.send({"error": path}, 404)

    def commit(self, lines: list[dict]) -> None:
        for line in lines:
            if line["key"] == "file":
                self.server.files[line["value"]["path"]] = base64.b64decode(
                    line["value"]["content"]
                )
            elif line["key"] == "deletedFile":
                del self.server.files[line["value"]["path"]]

    def send(self, answer: object, status: int = 200) -> None:
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def hub() -> Iterator[ThreadingHTTPServer]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.asked, server.created, server.files = [], [], {}
    server.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def push(hub: ThreadingHTTPServer, home: Path, out: Path, repo: str = "org/set") -> str:
    more = {"HF_HOME": str(home / "hf"), "HF_HUB_DISABLE_TELEMETRY": "1", "NO_PROXY": "127.0.0.1"}
    kept = {name: one for name, one in os.environ.items() if not name.startswith("HF_")}
    done = subprocess.run(
        [sys.executable, "-c", PUSH, str(out), repo],
        env={**kept, **more, "HF_ENDPOINT": hub.url, "HF_TOKEN": TOKEN, "HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip()


@pytest.mark.more
def test_a_push_is_a_data_set_that_loads_with_exact_features(hub, tmp_path, monkeypatch):
    out = tmp_path / "out"
    result = ingot.convert(EXAM, ingot.propose(EXAM).mapping, out)
    hub.files["records/part-00007.parquet"] = b"of a former push"
    hub.files["LICENSE"] = b"of a person"
    assert push(hub, tmp_path, out) == f"{hub.url}/datasets/org/set/commit/b"
    assert "private" in (
        hub.created[0].get("visibility"),
        *(k for k, v in hub.created[0].items() if v is True),
    )
    names = {"LICENSE", "README.md", "mapping.json", "records/part-00000.parquet"}
    assert set(hub.files) == names
    assert {key for _, key in hub.asked} == {f"Bearer {TOKEN}"}
    for name, data in hub.files.items():
        assert not any(one in data for one in (TOKEN.encode(), bytes(tmp_path), b"only user")), name
        (tmp_path / "copy" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "copy" / name).write_bytes(data)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    datasets.disable_progress_bars()
    loaded = datasets.load_dataset(str(tmp_path / "copy"), split="train")
    ours = ingot.load(result)
    assert loaded.features == ours.features
    assert list(loaded) == list(ours)


def test_a_card_has_a_head_and_the_facts_of_the_manifest(tmp_path):
    out = tmp_path / "out"
    result = ingot.convert(EXAM, ingot.propose(EXAM).mapping, out)
    _, head, body = dataset_card(result, license="cc-by-4.0").decode().split("---\n", 2)
    said = yaml.safe_load(head)
    assert said["license"] == "cc-by-4.0"
    assert said["language"] == ["zh"]
    assert said["size_categories"] == ["n<1K"]
    features = [one["name"] for one in said["dataset_info"]["features"]]
    assert features == ["messages", "system", "tools", "meta"]
    manifest = result.manifest
    for fact in (
        f"| read | {manifest['rows']['read']} |",
        f"| rejected | {manifest['rows']['rejected']} |",
        "| `no_assistant` | 1 |",
        f"{manifest['records']['written']} records written",
        manifest["inputs"][0]["sha256"],
        manifest["mapping_sha256"],
    ):
        assert fact in body


@pytest.mark.parametrize(
    ("rows", "size"),
    [(1, "n<1K"), (999, "n<1K"), (1000, "1K<n<10K"), (10_000, "10K<n<100K")],
)
def test_a_card_of_texts_without_a_language(rows, size, tmp_path):
    table = pa.table({"body": [f"text {number}" for number in range(rows)]})
    options = ingot.ConvertOptions(records="jsonl", language="mix")
    result = ingot.convert(table, {"version": 2, "text": "body"}, tmp_path / "out", options)
    said = yaml.safe_load(dataset_card(result).decode().split("---\n")[1])
    assert said["size_categories"] == [size]
    assert not {"license", "language"} & set(said)
    assert said["configs"][0]["data_files"] == "records/*.jsonl"
    assert [one["name"] for one in said["dataset_info"]["features"]] == PT_SCHEMA.names


@pytest.mark.more
def test_what_goes_wrong_is_an_error_without_the_token(hub, tmp_path):
    ingot.convert(EXAM, ingot.propose(EXAM).mapping, tmp_path / "out")
    kind, where, hint, text = push(hub, tmp_path, tmp_path / "out", "org/denied").split("|")
    assert (kind, where) == ("OutputError", "hf://datasets/org/denied")
    assert "HF_TOKEN" in hint
    assert TOKEN not in text
    assert hub.files == {}
    with pytest.raises(ConversionError, match="no finished result"):
        ingot.push_to_hub(tmp_path, "org/set")
