"""Tokenizers of the Hub, against a local server that speaks its protocol; never the public one."""

import hashlib
import importlib
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TypeAlias

import huggingface_hub
import huggingface_hub.constants
import pytest

from ingot.converters.errors import ConversionError, StorageError
from ingot.converters.megatron.tokenizer import TokenizerFile, load_tokenizer
from ingot.converters.megatron.tokenizer_files import fetch_tokenizer

GOLDEN_MODEL = Path(__file__).parents[2] / "golden" / "tokenize" / "sp_bpe.model"
OLD, NEW = "a" * 40, "b" * 40

# As a user would: the settings of the library in the environment of a new process.
ASK = """
import json, sys
from ingot.converters.megatron.tokenizer import load_tokenizer
loaded = load_tokenizer(sys.argv[1])
print(json.dumps([loaded.given, str(loaded.path), loaded.kind, loaded.sha256, loaded.config,
                  loaded.chat_template]))
"""


@dataclass
class Hub:
    """What the server has, and what it was asked."""

    commits: dict[str, dict[str, bytes]] = field(default_factory=dict)
    revisions: dict[str, str] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)
    token: str | None = None
    status: int | None = None  # answers everything with it
    cut: bool = False  # breaks off in the middle of a file
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
            self.wfile.write(data[: len(data) // 2] if self.server.hub.cut else data)
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


def settings(home: Path, endpoint: str, **more: str) -> dict[str, str]:
    return {
        "HOME": str(home),
        "HF_HOME": str(home / "hf"),
        "HF_ENDPOINT": endpoint,
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "NO_PROXY": "127.0.0.1",
        **more,
    }


Load: TypeAlias = Callable[..., TokenizerFile]


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Load]:
    """Loads a tokenizer; the library reads its settings when it is imported."""
    monkeypatch.setattr(time, "sleep", lambda seconds: None)  # between the library's attempts

    def loaded(url: str, endpoint: str, **more: str) -> TokenizerFile:
        with monkeypatch.context() as patch:
            for name in ("HF_TOKEN", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
                patch.delenv(name, raising=False)
            for name, value in settings(tmp_path, endpoint, **more).items():
                patch.setenv(name, value)
            importlib.reload(huggingface_hub.constants)
            return load_tokenizer(url)

    yield loaded
    monkeypatch.undo()
    importlib.reload(huggingface_hub.constants)


def dead_endpoint() -> str:
    """An address on which nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{taken.getsockname()[1]}"


@pytest.mark.more
def test_a_repository_is_fetched_once_and_read_from_the_cache_without_the_server(
    hub: Hub, files: dict[str, bytes], tmp_path: Path
) -> None:
    hub.commits, hub.revisions = {OLD: files}, {"main": OLD}

    def asked(endpoint: str, **more: str) -> list[Any]:
        done = subprocess.run(
            [sys.executable, "-c", ASK, "hf://org/model"],
            env={"PATH": os.environ["PATH"], **settings(tmp_path, endpoint, **more)},
            capture_output=True,
            check=True,
        )
        answer: list[Any] = json.loads(done.stdout)
        return answer

    first = asked(hub.url)
    given, path, kind, _, config, template = first
    assert (given, kind, template) == ("hf://org/model", "huggingface", "{{ messages }}")
    assert config == {"eos_token": "<|im_end|>"}
    assert Path(path).read_bytes() == files["tokenizer.json"]
    fetched = {path.rsplit("/", 1)[1] for method, path in hub.asked if method == "GET"}
    assert fetched == {"tokenizer.json", "tokenizer_config.json", "chat_template.jinja"}
    assert asked(dead_endpoint()) == first
    assert asked(dead_endpoint(), HF_HUB_OFFLINE="1") == first


def test_a_sentencepiece_repository_is_found_again_without_the_server(hub: Hub, load: Load) -> None:
    hub.commits = {OLD: {"tokenizer.model": GOLDEN_MODEL.read_bytes()}}
    hub.revisions = {"v1": OLD}
    first = load("hf://org/model@v1", hub.url)
    assert (first.kind, first.config) == ("sentencepiece", {})
    asked = len(hub.asked)
    assert load("hf://org/model@v1", hub.url) == first
    assert len(hub.asked) == asked + 1  # whether the branch moved, nothing else
    assert load("hf://org/model@v1", dead_endpoint()) == first


def test_a_repository_that_got_a_tokenizer_json_later_gives_that(
    hub: Hub, files: dict[str, bytes], load: Load
) -> None:
    model = {"tokenizer.model": GOLDEN_MODEL.read_bytes()}
    hub.commits, hub.revisions = {OLD: model, NEW: {**model, **files}}, {"main": OLD}
    assert load("hf://org/model", hub.url).kind == "sentencepiece"
    hub.revisions["main"] = NEW
    assert load("hf://org/model", hub.url).kind == "huggingface"
    assert load(f"hf://org/model@{OLD}", hub.url).kind == "sentencepiece"


@pytest.mark.more
def test_offline_what_a_cached_commit_lacks_is_not_there(
    hub: Hub, files: dict[str, bytes], tmp_path: Path, load: Load
) -> None:
    hub.commits, hub.revisions = {OLD: files}, {"main": OLD}
    first = load("hf://org/model", hub.url)
    shutil.rmtree(next(tmp_path.rglob(".no_exist")))  # as after fetching the whole repository
    assert load("hf://org/model", dead_endpoint(), HF_HUB_OFFLINE="1") == first
    with pytest.raises(StorageError, match=r"cannot fetch special_tokens_map\.json"):
        load("hf://org/model", dead_endpoint())


def test_all_files_are_of_one_commit_when_the_branch_moves_on_between_them(
    hub: Hub, files: dict[str, bytes], load: Load
) -> None:
    newer = {**files, "tokenizer_config.json": b'{"eos_token": "other"}'}
    hub.commits, hub.revisions, hub.moves = {OLD: files, NEW: newer}, {"main": OLD}, True
    loaded = load("hf://org/model", hub.url)
    assert hub.revisions["main"] == NEW
    assert loaded.config == {"eos_token": "<|im_end|>"}


def test_a_private_repository_needs_the_token(
    hub: Hub, files: dict[str, bytes], load: Load
) -> None:
    hub.commits, hub.revisions, hub.token = {OLD: files}, {"main": OLD}, "hf_secret"
    with pytest.raises(ConversionError, match=r"no access to it \(status 401\)") as caught:
        load("hf://org/model", hub.url)
    assert "HF_TOKEN" in caught.value.hint
    assert load("hf://org/model", hub.url, HF_TOKEN="hf_secret").kind == "huggingface"


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("hf://org/nowhere", r"no such repository, or no access to it \(status 401\)"),
        ("hf://org/model@gone", "no revision 'gone'"),
        ("hf://org/model@bare", r"neither tokenizer\.json nor tokenizer\.model"),
        ("hf://org/model--x", "Cannot have -- or .. in repo_id"),
    ],
)
def test_what_the_hub_does_not_have_is_an_error_of_the_user(
    hub: Hub, load: Load, url: str, problem: str
) -> None:
    hub.commits, hub.revisions = {NEW: {"README.md": b"#"}}, {"bare": NEW}
    with pytest.raises(ConversionError, match=problem) as caught:
        load(url, hub.url)
    assert (caught.value.where, caught.value.exit_code) == (url, 1)
    assert caught.value.hint


@pytest.mark.parametrize("case", ["dead", "offline", "broken", "cut"])
def test_a_hub_that_does_not_answer_is_a_storage_error(
    hub: Hub, files: dict[str, bytes], load: Load, case: str
) -> None:
    hub.commits, hub.revisions, hub.cut = {OLD: files}, {"main": OLD}, case == "cut"
    hub.status = 500 if case == "broken" else None
    endpoint = hub.url if case in ("broken", "cut") else dead_endpoint()
    more = {"HF_HUB_OFFLINE": "1"} if case == "offline" else {}
    with pytest.raises(StorageError, match=r"tokenizer\.json") as caught:
        load("hf://org/model", endpoint, **more)
    assert caught.value.exit_code == 4
    assert "HF_HUB_OFFLINE" in str(caught.value)


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
    with pytest.raises(ConversionError, match="is not a repository of the Hub"):
        fetch_tokenizer(url)


def test_a_missing_library_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ConversionError, match="extra package") as caught:
        load_tokenizer("hf://org/model@refs/pr/1")
    assert "ingot[hf]" in caught.value.hint
