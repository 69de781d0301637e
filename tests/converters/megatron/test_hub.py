"""Tokenizers of the Hub, against a local server that speaks its protocol; never the public one."""

import hashlib
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from ingot.converters.errors import ConversionError
from ingot.converters.megatron.hub import fetch_tokenizer
from ingot.converters.megatron.tokenizer import load_tokenizer

GOLDEN_MODEL = Path(__file__).parents[2] / "golden" / "tokenize" / "sp_bpe.model"
OLD, NEW = "a" * 40, "b" * 40

# The library reads its settings when it is imported: every question is asked in a new process.
ASK = """
import json, sys, time
time.sleep = lambda seconds: None  # what the library waits between its attempts
from ingot.converters.errors import IngotError
from ingot.converters.megatron.tokenizer import load_tokenizer
try:
    loaded = load_tokenizer(sys.argv[1])
    answer = {"path": str(loaded.path), "given": loaded.given, "kind": loaded.kind,
              "sha256": loaded.sha256, "config": loaded.config, "template": loaded.chat_template}
except IngotError as error:
    answer = {"error": type(error).__name__, "text": str(error), "exit": error.exit_code}
print(json.dumps(answer))
"""


@dataclass
class Hub:
    """What the server has, and what it was asked."""

    commits: dict[str, dict[str, bytes]] = field(default_factory=dict)
    revisions: dict[str, str] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)
    token: str | None = None
    status: int | None = None  # answers everything with it
    moves: bool = False  # the branch moves on after its first file was asked for
    url: str = ""


class Server(ThreadingHTTPServer):
    """The part of the Hub's protocol that fetches files."""

    def __init__(self, hub: Hub) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.hub = hub


class Handler(BaseHTTPRequestHandler):
    server: Server

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self.answer(body=False)

    def do_GET(self) -> None:
        self.answer(body=True)

    def refuse(self, status: int, code: str, commit: str = "") -> None:
        self.send_response(status)
        if code:
            self.send_header("X-Error-Code", code)
        if commit:
            self.send_header("X-Repo-Commit", commit)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def answer(self, *, body: bool) -> None:
        hub = self.server.hub
        hub.asked.append((self.command, self.path))
        owner, name, _, revision, file = self.path.strip("/").split("/", 4)
        commit = hub.revisions.get(revision, revision)
        if hub.status is not None:
            self.refuse(hub.status, "")
        elif f"{owner}/{name}" != "org/model":
            self.refuse(401, "RepoNotFound")
        elif hub.token and self.headers.get("Authorization") != f"Bearer {hub.token}":
            self.refuse(401, "GatedRepo")
        elif commit not in hub.commits:
            self.refuse(404, "RevisionNotFound")
        elif file not in hub.commits[commit]:
            self.refuse(404, "EntryNotFound", commit)
        else:
            self.send_file(commit, hub.commits[commit][file], body=body)

    def send_file(self, commit: str, data: bytes, *, body: bool) -> None:
        self.send_response(200)
        self.send_header("X-Repo-Commit", commit)
        self.send_header("ETag", f'"{hashlib.sha256(data).hexdigest()}"')
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if body:
            self.wfile.write(data)
            if self.server.hub.moves:
                self.server.hub.revisions["main"] = NEW


@pytest.fixture
def hub() -> Iterator[Hub]:
    state = Hub()
    server = Server(state)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    state.url = f"http://127.0.0.1:{server.server_address[1]}"
    yield state
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def files(tokenizer_file: Path) -> dict[str, bytes]:
    return {
        "tokenizer.json": tokenizer_file.read_bytes(),
        "tokenizer_config.json": json.dumps({"eos_token": "<|im_end|>"}).encode(),
        "chat_template.jinja": b"{{ messages }}",
        "model.safetensors": b"large",
    }


def ask(home: Path, endpoint: str, url: str, **settings: str) -> dict[str, Any]:
    """What a process that has only these settings of the library says about a tokenizer."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    environment = {
        **kept,
        "HOME": str(home),
        "HF_HOME": str(home / "hf"),
        "HF_ENDPOINT": endpoint,
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "NO_PROXY": "127.0.0.1",
        **settings,
    }
    command = [sys.executable, "-c", ASK, url]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def dead_endpoint() -> str:
    """An address on which nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{taken.getsockname()[1]}"


def test_a_repository_is_fetched_once_and_read_from_the_cache_without_the_server(
    hub: Hub, files: dict[str, bytes], tmp_path: Path
) -> None:
    hub.commits, hub.revisions = {OLD: files}, {"main": OLD}
    first = ask(tmp_path, hub.url, "hf://org/model")
    assert (first["kind"], first["given"]) == ("huggingface", "hf://org/model")
    assert Path(first["path"]).read_bytes() == files["tokenizer.json"]
    assert first["config"] == {"eos_token": "<|im_end|>"}
    assert first["template"] == "{{ messages }}"
    fetched = {path.rsplit("/", 1)[1] for method, path in hub.asked if method == "GET"}
    assert fetched == {"tokenizer.json", "tokenizer_config.json", "chat_template.jinja"}
    assert ask(tmp_path, dead_endpoint(), "hf://org/model") == first
    offline = ask(tmp_path, dead_endpoint(), "hf://org/model", HF_HUB_OFFLINE="1")
    assert offline == first


def test_a_sentencepiece_repository_is_found_again_without_the_server(
    hub: Hub,
    tmp_path: Path,
) -> None:
    hub.commits = {OLD: {"tokenizer.model": GOLDEN_MODEL.read_bytes()}}
    hub.revisions = {"v1": OLD}
    first = ask(tmp_path, hub.url, "hf://org/model@v1")
    assert (first["kind"], first["config"]) == ("sentencepiece", {})
    asked = len(hub.asked)
    assert ask(tmp_path, hub.url, "hf://org/model@v1") == first
    assert len(hub.asked) == asked + 1  # whether the branch moved, nothing else
    assert ask(tmp_path, dead_endpoint(), "hf://org/model@v1") == first


def test_a_repository_that_got_a_tokenizer_json_later_gives_that(
    hub: Hub, files: dict[str, bytes], tmp_path: Path
) -> None:
    model = {"tokenizer.model": GOLDEN_MODEL.read_bytes()}
    hub.commits, hub.revisions = {OLD: model, NEW: {**model, **files}}, {"main": OLD}
    assert ask(tmp_path, hub.url, "hf://org/model")["kind"] == "sentencepiece"
    hub.revisions["main"] = NEW
    assert ask(tmp_path, hub.url, "hf://org/model")["kind"] == "huggingface"


def test_offline_what_a_cached_commit_lacks_is_not_there(
    hub: Hub, files: dict[str, bytes], tmp_path: Path
) -> None:
    hub.commits, hub.revisions = {OLD: files}, {"main": OLD}
    first = ask(tmp_path, hub.url, "hf://org/model")
    shutil.rmtree(next(tmp_path.rglob(".no_exist")))  # as after fetching the whole repository
    assert ask(tmp_path, dead_endpoint(), "hf://org/model", HF_HUB_OFFLINE="1") == first
    answer = ask(tmp_path, dead_endpoint(), "hf://org/model")
    assert answer["error"] == "StorageError"
    assert "cannot fetch special_tokens_map.json" in answer["text"]


def test_all_files_are_of_one_commit_when_the_branch_moves_on_between_them(
    hub: Hub, files: dict[str, bytes], tmp_path: Path
) -> None:
    newer = {**files, "tokenizer_config.json": b'{"eos_token": "other"}'}
    hub.commits, hub.revisions, hub.moves = {OLD: files, NEW: newer}, {"main": OLD}, True
    loaded = ask(tmp_path, hub.url, "hf://org/model")
    assert hub.revisions["main"] == NEW
    assert loaded["config"] == {"eos_token": "<|im_end|>"}


def test_a_private_repository_needs_the_token(
    hub: Hub, files: dict[str, bytes], tmp_path: Path
) -> None:
    hub.commits, hub.revisions, hub.token = {OLD: files}, {"main": OLD}, "hf_secret"
    refused = ask(tmp_path, hub.url, "hf://org/model")
    assert (refused["error"], refused["exit"]) == ("ConversionError", 1)
    assert "no access to it (status 401)" in refused["text"]
    assert "HF_TOKEN" in refused["text"]
    assert ask(tmp_path, hub.url, "hf://org/model", HF_TOKEN="hf_secret")["kind"] == "huggingface"


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("hf://org/nowhere", "no such repository, or no access to it (status 401)"),
        ("hf://org/model@gone", "no revision 'gone'"),
        ("hf://org/model@bare", "neither tokenizer.json nor tokenizer.model"),
        ("hf://org/model--x", "Cannot have -- or .. in repo_id"),
    ],
)
def test_what_the_hub_does_not_have_is_an_error_of_the_user(
    hub: Hub, tmp_path: Path, url: str, problem: str
) -> None:
    hub.commits, hub.revisions = {NEW: {"README.md": b"#"}}, {"bare": NEW}
    answer = ask(tmp_path, hub.url, url)
    assert (answer["error"], answer["exit"]) == ("ConversionError", 1)
    assert problem in answer["text"]


@pytest.mark.parametrize("case", ["dead", "offline", "broken"])
def test_a_hub_that_does_not_answer_is_a_storage_error(hub: Hub, tmp_path: Path, case: str) -> None:
    hub.status = 500
    endpoint = hub.url if case == "broken" else dead_endpoint()
    settings = {"HF_HUB_OFFLINE": "1"} if case == "offline" else {}
    answer = ask(tmp_path, endpoint, "hf://org/model", **settings)
    assert (answer["error"], answer["exit"]) == ("StorageError", 4)
    assert "tokenizer.json" in answer["text"]
    assert "HF_HUB_OFFLINE" in answer["text"]


@pytest.mark.parametrize(
    "url",
    [
        "hf://",
        "hf://a/b/c",
        "hf://../../etc/passwd",
        "hf://org/..",
        "hf:///org/model",
        "hf://org/model@",
        "hf://org/model@../../x",
        "hf://org/model@/abs",
        "hf://org/model@" + "x" * 300,
        "hf://https://elsewhere/x",
        "hf://org/model?x=1",
        "hf://org/model\n",
        "hf://org/mod\u00e9l",
    ],
)
def test_names_that_cannot_be_one_are_refused_before_anything_is_asked(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)  # nobody could ask
    with pytest.raises(ConversionError, match="is no repository of the Hub"):
        fetch_tokenizer(url)


def test_a_missing_library_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ConversionError, match="extra package") as caught:
        load_tokenizer("hf://org/model@refs/pr/1")
    assert "ingot[hf]" in caught.value.hint
