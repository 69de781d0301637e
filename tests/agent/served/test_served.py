"""The graph as `langgraph dev` serves it: a real server, driven over HTTP as its clients do."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from jsonschema import Draft202012Validator
from langgraph_sdk import get_sync_client

pytestmark = pytest.mark.more

QUESTIONS = "en_instructions"
GRAPH = "ingot"
FORM = {"decisions": [{"type": "edit", "edited_action": {"args": {"mapping": "{"}}}]}


class Served:
    """A server and its client; every thread of a test is a conversation of its own."""

    def __init__(self, url: str, client: Any, folder: Path) -> None:
        self.url, self.client, self.folder = url, client, folder

    def thread(self) -> str:
        return str(self.client.threads.create()["thread_id"])

    def go(self, thread: str, **what: Any) -> dict[str, Any]:
        made: dict[str, Any] = self.client.runs.wait(thread, GRAPH, raise_error=False, **what)
        return made

    def order(self, thread: str, **order: Any) -> dict[str, Any]:
        return self.go(thread, input={"order": order})

    def say(self, thread: str, words: str) -> dict[str, Any]:
        """As agent-chat-ui sends what was typed."""
        said = {"id": words[:20], "type": "human", "content": [{"type": "text", "text": words}]}
        return self.go(thread, input={"messages": [said]})

    def answer(self, thread: str, **decision: Any) -> dict[str, Any]:
        return self.go(thread, command={"resume": {"decisions": [decision]}})


@contextmanager
def serving(repository: Path, folder: Path, **settings: str) -> Iterator[Served]:
    """`langgraph dev` with the repository's settings; its own state lies in the folder."""
    document = json.loads((repository / "langgraph.json").read_text())
    document["dependencies"] = [str(repository)]
    document["graphs"] = {k: str(repository / v) for k, v in document["graphs"].items()}
    document["auth"]["path"] = str(repository / document["auth"]["path"])
    folder.mkdir(exist_ok=True)
    (folder / "langgraph.json").write_text(json.dumps(document))
    port = free_port()
    command = [sys.executable, "-m", "langgraph_cli", "dev", "--port", str(port)]
    env = {**os.environ, "LANGGRAPH_CLI_NO_ANALYTICS": "1", **settings}
    with (folder / "log").open("ab") as log:
        server = subprocess.Popen(
            [*command, "--no-browser", "--no-reload", "--n-jobs-per-worker", "4"],
            cwd=folder,
            env=env,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        url = f"http://127.0.0.1:{port}"
        wait_for(url, server, folder / "log")
        with get_sync_client(url=url, api_key=None) as client:
            yield Served(url, client, folder)
    finally:
        server.terminate()
        server.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    while server.poll() is None:
        try:
            if httpx2.get(f"{url}/ok").status_code == 200:
                return
        except httpx2.TransportError:
            time.sleep(0.05)
    pytest.fail(log.read_text()[-3000:])


@pytest.fixture(scope="module")
def served(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(repository, tmp_path_factory.mktemp("served")) as one:
        yield one


@pytest.fixture(scope="module")
def examples(repository: Path) -> Path:
    return repository / "examples"


def asked(state: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The request and its configuration, of the interrupt in which a run has ended."""
    (one,) = state["__interrupt__"]
    (request,), (config,) = one["value"]["action_requests"], one["value"]["review_configs"]
    return request, config


def test_a_proposal_is_edited_approved_and_converted(
    served: Served, examples: Path, tmp_path: Path
) -> None:
    thread, out = served.thread(), tmp_path / "out"
    order = {"source": str(examples / QUESTIONS), "out": str(out), "records": "jsonl"}
    request, config = asked(served.order(thread, **order))
    assert request["name"] == config["action_name"] == "convert"
    assert config["allowed_decisions"] == ["approve", "edit", "reject"]
    Draft202012Validator.check_schema(config["args_schema"])
    Draft202012Validator(config["args_schema"]).validate(request["args"])
    assert "sampled rows" in request["description"]
    mapping = request["args"]["mapping"]
    changed = {**mapping, "system": {"literal": "Answer in one line."}}
    edit = {"name": request["name"], "args": {"mapping": json.dumps(changed)}}  # a form's text
    again, _ = asked(served.answer(thread, type="edit", edited_action=edit))
    assert again["args"]["mapping"]["system"] == {"literal": "Answer in one line."}
    assert not out.exists()
    done = served.answer(thread, type="approve")
    assert done["outcome"]["status"] == "done"
    first = next(iter((out / "records").iterdir())).read_text().splitlines()[0]
    assert json.loads(first)["system"] == "Answer in one line."
    assert served.client.threads.get(thread)["status"] == "idle"


def test_an_answer_that_is_none_is_asked_for_again(
    served: Served, examples: Path, tmp_path: Path
) -> None:
    thread, out = served.thread(), tmp_path / "out"
    served.order(thread, source=str(examples / QUESTIONS), out=str(out))
    for answer, fault in (("yes", "Not an answer"), (FORM, "not JSON")):
        request, _ = asked(served.go(thread, command={"resume": answer}))
        assert fault in request["description"]
    told = served.answer(thread, type="reject", message="wrong column")["outcome"]
    assert (told["status"], told["why"]) == ("rejected", "wrong column")
    assert not out.exists()


def test_an_order_that_is_none_is_an_error_that_says_why(served: Served) -> None:
    def fault(order: dict[str, Any]) -> tuple[str, str]:
        thread = served.thread()
        said = served.order(thread, **order)["__error__"]["message"]
        return said, served.client.threads.get(thread)["status"]

    orders = [{"source": "x", "sauce": 1}, {"source": "x", "limit": "all"}, {"source": "/no/such"}]
    with ThreadPoolExecutor(3) as pool:
        (strange, first), (wrong, _), (missing, last) = pool.map(fault, orders)
    assert "'sauce' was unexpected" in strange
    assert "limit: 'all'" in wrong
    assert "/no/such: no such file" in missing
    assert first == last == "error"


def test_a_conversation_in_words(served: Served, examples: Path, tmp_path: Path) -> None:
    thread, out = served.thread(), tmp_path / "with blank"
    said = served.say(thread, "please convert my data")["messages"]
    assert "one source is needed" in said[-1]["content"]
    said = served.say(thread, f"{examples / 'zh_exam'} --out '{out}' --limit 3")
    assert asked(said)[0]["name"] == "convert"
    assert (said["messages"][-1]["type"], said["order"]["limit"]) == ("ai", 3)
    done = served.answer(thread, type="approve")["messages"]
    assert "converted 3" in done[-1]["content"]
    assert str(out) in done[-1]["content"]
    assert (out / "manifest.json").exists()
    assert len({one["id"] for one in done}) == len(done) == 5
    again = served.say(thread, f"{examples / 'sensor_log'} --dry-run")  # nothing is left of before
    assert (again["outcome"]["status"], again["result"]) == ("irrelevant", {})
    taken = served.say(thread, f"{examples / 'sensor_log'} --out {tmp_path / 'log'}")
    assert "approve records that" in asked(taken)[0]["description"]
    dropped = served.say(thread, f"{examples / 'zh_exam'} --out {tmp_path / 'exam'} --limit 1")
    assert "proposal discarded" in dropped["messages"][-1]["content"]
    (tmp_path / "exam").mkdir()
    (tmp_path / "exam" / "mine").touch()
    failed = served.answer(thread, type="approve")
    assert failed["outcome"]["status"] == "failed"
    assert "did not write" in failed["messages"][-1]["content"]
    assert served.client.threads.get(thread)["status"] == "idle"


def test_runs_beside_each_other(served: Served, examples: Path, tmp_path: Path) -> None:
    def convert(name: str) -> tuple[str, int]:
        thread = served.thread()
        served.order(thread, source=str(examples / name), out=str(tmp_path / name))
        told = served.answer(thread, type="approve")["outcome"]
        return told["source"]["name"], told["result"]["manifest"]["rows"]["converted"]

    names = ["en_chats", "en_field_notes", "zh_exam", "zh_townlife"]
    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(convert, names))
    assert [name for name, _ in done] == names
    assert all(rows for _, rows in done)


def test_pages_of_other_sites_are_refused(served: Served) -> None:
    body = json.dumps({"assistant_id": GRAPH, "input": {"order": {"source": "/"}}})
    where = f"{served.url}/runs/wait"
    plain = {"content-type": "text/plain"}  # what a page may send without being asked for leave
    strange = httpx2.post(where, content=body, headers={**plain, "origin": "https://a.example"})
    assert (strange.status_code, "may not use" in strange.text) == (403, True)
    renamed = httpx2.post(where, content=body, headers={**plain, "host": "a.example"})
    assert (renamed.status_code, "localhost only" in renamed.text) == (403, True)


def test_the_schemas_that_clients_draw_forms_from(served: Served) -> None:
    (one,) = served.client.assistants.search()
    found = served.client.assistants.get_schemas(one["assistant_id"])
    assert {"order", "messages", "outcome"} <= set(found["state_schema"]["properties"])
    assert not found.get("context_schema")


def reply() -> dict[str, Any]:
    """A model's answer that makes conversations of two columns."""
    said = [("user", "c1"), ("assistant", "c2")]
    messages = [
        {"each": [], "role": role, "content": [path], "loss_mask": None} for role, path in said
    ]
    meta = ("source", "language", "timestamp", "token_count", "quality_score", "original_id")
    return {
        "decision": "sft",
        "reason": "c2 answers c1.",
        **dict.fromkeys(("root", "each", "group", "text", "system")),
        "where": [],
        "messages": messages,
        "meta": {**dict.fromkeys(meta), "original_id": "k"},
        "confidence": 0.9,
    }


@pytest.mark.more
def test_a_restarted_server_goes_on_and_keeps_to_its_folder(
    repository: Path, examples: Path, chat: Any, tmp_path: Path
) -> None:
    """What waits survives; a model that refuses leaves a question, and is asked again."""
    folder, root = tmp_path / "server", tmp_path / "root"
    with serving(repository, folder) as one:
        waiting, out = one.thread(), str(root / "out")
        asked(one.order(waiting, source=str(examples / QUESTIONS), out=out))
    source = root / "data" / "set.jsonl"
    source.parent.mkdir(parents=True)
    rows = ({"k": str(n), "c1": f"What is {n}?", "c2": f"It is {n}."} for n in range(12))
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    model = {"INGOT_MODEL": "m", "OPENAI_BASE_URL": chat.url, "OPENAI_API_KEY": "k"}
    chat.queue = [(401, {"error": {"message": "no"}}), reply(), reply(), reply()]
    with serving(repository, folder, INGOT_SERVE_ROOT=str(root), **model) as one:
        refused = one.answer(waiting, type="approve")  # it is asked still, but lies elsewhere
        assert "lies outside" in refused["__error__"]["message"]
        resting = one.thread()
        request, config = asked(one.order(resting, source=str(source), out=out, mapper="llm"))
        assert (request["name"], *request["args"]) == ("ask_again", "why", "hint")
        assert config["allowed_decisions"] == ["approve", "reject"]
        assert "key" in request["description"]
        proposed, _ = asked(one.answer(resting, type="approve"))
        assert proposed["args"]["mapping"]["messages"][1]["content"] == "c2"
    with serving(repository, folder, INGOT_SERVE_ROOT=str(root)) as one:
        done = one.answer(resting, type="approve")["outcome"]
        assert (done["status"], done["mapper"]) == ("done", "llm")
