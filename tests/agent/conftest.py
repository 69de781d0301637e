"""A real HTTP server that speaks the OpenAI protocol, for the mapper that asks a model."""

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest


class ChatServer:
    """Answers POST /v1/chat/completions with what `reply` returns; keeps requests and headers.

    A text or an object that is said comes as a stream where one is asked for, else as a whole.
    GET is answered with `models`; None = there is no such route, as at some servers.
    """

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.queue: list[Any] = []
        self.always: Any = None  # is answered when the queue is empty
        self.models: Any = None  # status, body and, if need be, headers
        self.got: list[str] = []  # the paths of GET
        self.closing = threading.Event()  # ends what waits on purpose
        self.extra_headers: dict[str, str] = {}
        owner = self

        class Handler(BaseHTTPRequestHandler):
            disable_nagle_algorithm = True  # else each body waits 40 ms for the headers before it

            def do_POST(self) -> None:
                length = int(self.headers["content-length"])
                request = json.loads(self.rfile.read(length))
                owner.paths.append(self.path)
                owner.requests.append(request)
                owner.headers.append({k.lower(): v for k, v in self.headers.items()})
                try:
                    self.reply(*owner.answer(request))
                except OSError:  # the client went away, as some tests want
                    self.close_connection = True

            def do_GET(self) -> None:
                owner.got.append(self.path)
                owner.headers.append({k.lower(): v for k, v in self.headers.items()})
                try:
                    self.reply(*(owner.models or (404, {"detail": "Not Found"})))
                except OSError:
                    self.close_connection = True

            def reply(self, status: int, body: Any, headers: dict[str, str] | None = None) -> None:
                if callable(body):
                    body(self)
                    self.close_connection = True
                    return
                content = body if isinstance(body, bytes) else json.dumps(body).encode()
                sent = {"content-type": "application/json", "content-length": str(len(content))}
                self.send_response(status)
                for name, value in (sent | owner.extra_headers | (headers or {})).items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        )
        self.thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def answer(self, request: dict[str, Any]) -> tuple[Any, ...]:
        """The next of the queue: a text or an object is said, a callable or a tuple answers.

        A tuple is status, body and, if need be, headers. A body is an object that is sent as JSON,
        bytes, or a function that writes to the handler itself, as `stream` makes one.
        """
        following = self.queue.pop(0) if self.queue or self.always is None else self.always
        if callable(following):
            following = following(request)
        if isinstance(following, tuple):
            return following
        if request.get("stream"):
            return stream(*deltas(following))
        return 200, completion(following)

    @staticmethod
    def deltas(said: Any, **how: Any) -> list[Any]:
        """The chunks of a reply, for `stream`."""
        return deltas(said, **how)

    @staticmethod
    def stream(*pieces: Any, **how: Any) -> tuple[Any, ...]:
        """An answer that is streamed, for the queue."""
        return stream(*pieces, **how)

    def close(self) -> None:
        self.closing.set()
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


def event(document: Any) -> bytes:
    """One event of a stream."""
    return b"data: " + json.dumps(document).encode() + b"\n\n"


def delta(*, finish: str | None = None, **said: Any) -> dict[str, Any]:
    """One chunk of a streamed completion: `content="..."` and whatever else a delta holds."""
    choice = {"index": 0, "delta": said, "finish_reason": finish}
    return {"id": "c1", "object": "chat.completion.chunk", "choices": [choice], "usage": None}


def deltas(said: Any, *, finish: str = "stop", size: int = 5) -> list[Any]:
    """The chunks that say a text, or an object as JSON: `size` characters each, then the usage."""
    whole = completion(said)
    content = whole["choices"][0]["message"]["content"]
    texts = [content[at : at + size] for at in range(0, len(content), size)]
    usage = {**delta(), "choices": [], "usage": whole["usage"]}
    spoken = [delta(content=one) for one in texts]
    return [delta(role="assistant", content=""), *spoken, delta(finish=finish), usage, DONE]


DONE = b"data: [DONE]\n\n"


def stream(
    *pieces: Any,
    kind: str = "text/event-stream; charset=utf-8",
    ends: bool = True,
    waits: threading.Event | None = None,
) -> tuple[int, Callable[[Any], None]]:
    """An answer in HTTP chunks: bytes as they are, an object as an event, a callable is called.

    `ends` False = the connection breaks off where the pieces end; with `waits` it stays open until
    that is set.
    """

    def talk(handler: Any) -> None:
        head = f"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: {kind}\r\n"
        handler.wfile.write(f"{head}transfer-encoding: chunked\r\n\r\n".encode())
        for piece in pieces:
            if callable(piece):
                piece()
                continue
            data = piece if isinstance(piece, bytes) else event(piece)
            handler.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        if waits is not None:
            waits.wait()
        if ends:
            handler.wfile.write(b"0\r\n\r\n")

    return 0, talk


@pytest.fixture
def other_chat() -> Iterator[ChatServer]:
    """A second chat endpoint, on a port of its own."""
    server = ChatServer()
    yield server
    server.close()


@pytest.fixture
def chat() -> Iterator[ChatServer]:
    """A chat endpoint with an empty queue."""
    server = ChatServer()
    yield server
    server.close()
