"""A real HTTP server that speaks the OpenAI protocol, for the mapper that asks a model."""

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

Replier = Callable[[dict[str, Any]], tuple[int, dict[str, Any]]]


class ChatServer:
    """Answers POST /v1/chat/completions with what `reply` returns; keeps requests and headers."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.queue: list[Any] = []
        self.extra_headers: dict[str, str] = {}
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers["content-length"])
                request = json.loads(self.rfile.read(length))
                owner.paths.append(self.path)
                owner.requests.append(request)
                owner.headers.append({k.lower(): v for k, v in self.headers.items()})
                status, body = owner.answer(request)
                content = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(content)))
                for name, value in owner.extra_headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self.thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def answer(self, request: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """The next of the queue: a text or an object is said, a callable or a pair answers."""
        following = self.queue.pop(0)
        if callable(following):
            following = following(request)
        if isinstance(following, tuple):
            return following
        return 200, completion(following)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self.thread.join()


def completion(said: Any, *, finish: str = "stop") -> dict[str, Any]:
    """A chat completion that says a text, or an object as JSON."""
    content = said if isinstance(said, str) else json.dumps(said, ensure_ascii=False)
    return {
        "id": "c1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [
            {
                "index": 0,
                "finish_reason": finish,
                "message": {"role": "assistant", "content": content},
            }
        ],
        "usage": {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18},
    }


@pytest.fixture
def chat() -> Iterator[ChatServer]:
    """A chat endpoint with an empty queue."""
    server = ChatServer()
    yield server
    server.close()
