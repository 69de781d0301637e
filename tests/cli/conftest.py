"""A real HTTP server that speaks for a model: it says a document, as it is at each question."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

META = ("source", "language", "timestamp", "token_count", "quality_score", "original_id")
PLACES = ("root", "each", "group", "text", "messages", "system")

Saying = Callable[[dict[str, Any]], str]


def reply(decision: str, **given: Any) -> dict[str, Any]:
    """A model's answer; what is not given is null."""
    empty = dict.fromkeys(PLACES) | {"where": [], "meta": dict.fromkeys(META)}
    return {"decision": decision, "reason": "because", "confidence": 0.9, **empty, **given}


def turns(asks: str, answers: str) -> list[dict[str, Any]]:
    """The messages of an answer that takes two columns for a question and its answer."""
    said = (("user", asks), ("assistant", answers))
    return [{"each": [], "role": role, "content": [path], "loss_mask": None} for role, path in said]


@contextmanager
def _server(document: dict[str, Any]) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        disable_nagle_algorithm = True  # else each body waits 40 ms for the headers before it

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            message = {"role": "assistant", "content": json.dumps(document)}
            choice = {"finish_reason": "stop", "message": message}
            content = json.dumps({"choices": [choice]}).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def model_saying() -> Iterator[Saying]:
    """Starts a model that says a document; gives the root of its endpoint."""
    with ExitStack() as servers:
        yield lambda document: servers.enter_context(_server(document))


@pytest.fixture
def nothing_to_convert(model_saying: Saying) -> str:
    """The endpoint of a model that finds nothing to convert in any data."""
    return model_saying(reply("irrelevant"))


@pytest.fixture
def turned_round(model_saying: Saying) -> str:
    """The endpoint of a model that takes the column `answer` for what is asked."""
    return model_saying(reply("sft", messages=turns("answer", "question")))


@pytest.fixture
def at_a_loss(model_saying: Saying) -> str:
    """The endpoint of a model that can map no data."""
    return model_saying(reply("unmappable"))
