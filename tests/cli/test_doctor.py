"""`ingot doctor` as people and programs see it: lines, JSON, exit codes, a terminal of 80."""

import json
import os
import pty
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import ingot

STEERING = re.compile(r"\x1b\[[0-9;]*m")


class Handler(BaseHTTPRequestHandler):
    """A server that holds replies to a schema, lists one model and takes one key."""

    def do_GET(self) -> None:
        accepted = self.headers["authorization"] == "Bearer right"
        listed = {"object": "list", "data": [{"id": "m1"}]}
        self.answer(*((200, listed) if accepted else (401, {"error": {"message": "no"}})))

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        message = {"role": "assistant", "content": '{"metal": "copper"}'}
        self.answer(200, {"choices": [{"finish_reason": "stop", "message": message}]})

    def answer(self, status: int, body: dict[str, Any]) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def url() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("INGOT_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("OPENAI_API_KEY", "right")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "state"


def doctor(*words: str, code: int = 0) -> Any:
    return ingot("doctor", *words, code=code)


def by_name(ran: Any) -> dict[str, dict[str, Any]]:
    return {one["name"]: one for one in json.loads(ran.stdout)["checks"]}


def test_without_a_model(home: Path) -> None:
    ran = doctor()
    lines = ran.stdout.splitlines()
    assert [one for one in lines if not one.startswith(" ")] == [
        "Installation",
        "Places",
        "Endpoint",
    ]
    assert lines[-1] == "  skipped  model           none configured: the rules serve offline"
    assert ran.stderr == ""
    assert not home.exists()


@pytest.mark.more
def test_with_a_model(url: str, home: Path) -> None:
    ran = doctor("--model", "m1", "--base-url", url)
    assert f"  ok       address         {url}\n" in ran.stdout
    assert "  ok       begins with     json_schema, remembered for 30 days\n" in ran.stdout
    assert "right" not in ran.output
    assert (home / "models.sqlite").exists()


@pytest.mark.more
def test_as_json(url: str) -> None:
    found = by_name(doctor("--model", "m1", "--base-url", url, "--json"))
    assert set(found["json_schema"]) == {"group", "name", "state", "figure", "hint", "notes"}
    assert found["model"]["state"] == "ok"
    assert found["sent"]["figure"].startswith("4 questions, ")


@pytest.mark.more
def test_a_preset_tells_its_traps(url: str) -> None:
    named = ["--model", "m1", "--base-url", url, "--preset", "ollama"]
    lines = doctor(*named).stdout.splitlines()
    at = next(n for n, line in enumerate(lines) if line.split()[1:2] == ["preset"])
    assert lines[at].split()[2] == "ollama:"
    assert lines[at + 1].startswith(" " * 27 + "The context is small by default")
    assert len(by_name(doctor(*named, "--json"))["preset"]["notes"]) == 3
    assert "preset" not in by_name(doctor(*named[:-2], "--json"))


@pytest.mark.more
def test_settings_of_the_environment_count(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INGOT_MODEL", "m2")
    monkeypatch.setenv("OPENAI_BASE_URL", url)
    found = by_name(doctor("--json"))
    assert found["model"]["hint"] == "nearest: m1"


@pytest.mark.more
def test_an_endpoint_that_refuses_is_4(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "wrong")
    ran = doctor("--model", "m1", "--base-url", url, code=4)
    assert ran.stderr == "error: doctor: 1 check failed: reachable\n"
    assert "set OPENAI_API_KEY to a key that this endpoint accepts" in ran.stdout
    assert "wrong" not in ran.output


@pytest.mark.more
def test_a_broken_database_is_1(url: str, home: Path) -> None:
    home.mkdir(mode=0o700)
    (home / "runs.sqlite").write_text("no database")
    ran = doctor("--model", "m1", "--base-url", url, "--json", code=1)
    assert by_name(ran)["runs.sqlite"]["state"] == "fail"
    assert ran.stderr == "error: doctor: 1 check failed: runs.sqlite\n"


def test_a_state_folder_that_cannot_be_is_1(home: Path) -> None:
    home.write_text("a file")
    assert "state folder" in doctor(code=1).stderr


def test_a_wrong_preset_is_known_before_any_check() -> None:
    ran = doctor("--preset", "nobody", code=2)
    assert ran.stdout == ""
    assert "there are openai" in ran.stderr


@pytest.mark.more
def test_lines_fit_a_terminal_of_80_columns(url: str, tmp_path: Path) -> None:
    master, slave = pty.openpty()
    words = ["doctor", "--model", "m" * 90, "--base-url", url]
    process = subprocess.Popen(
        [sys.executable, "-m", "ingot", *words],
        stdin=slave,
        stdout=slave,
        stderr=subprocess.PIPE,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "80"},
    )
    os.close(slave)
    shown = ""
    try:
        while piece := os.read(master, 65536):
            shown += piece.decode()
    except OSError:  # the terminal is gone with its last process
        pass
    _, errors = process.communicate(timeout=60)
    os.close(master)
    assert (process.returncode, errors) == (0, b"")
    lines = STEERING.sub("", shown).splitlines()
    assert max(map(len, lines)) <= 80
    hints = [one for one in lines if one.strip() == "nearest: m1"]
    assert [one.index("nearest") for one in hints] == [27]
