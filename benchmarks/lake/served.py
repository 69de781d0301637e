"""A local server that speaks the OpenAI protocol: it answers by what it is shown, and counts.

    python benchmarks/lake/served.py MODEL.json [--latency 0.3] [--faults 0.1] [--seed 1]

MODEL.json is a list of `{"marks": [...], "reply": {...}}`: the reply is given to a question in
which all marks stand; a question with none of them is told that the data cannot be mapped. Some
first tries end in 429, 500 or nonsense, by the seed: the same question has the same faults.
"""

import argparse
import hashlib
import json
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

_FAULTS: Final = ("busy", "broken", "nonsense")
_META: Final = ("source", "language", "timestamp", "token_count", "quality_score", "original_id")
_NOTHING: Final[dict[str, Any]] = {
    **dict.fromkeys(("root", "each", "group", "text", "messages", "system")),
    "decision": "unmappable",
    "reason": "nothing says what these columns are",
    "confidence": 0.9,
    "where": [],
    "meta": dict.fromkeys(_META),
}


@dataclass
class Call:
    """One request: the question, what was answered, when it came and when it was sent whole."""

    question: str
    marks: str
    first: bool
    fault: str
    came: float
    sent: float | None = None

    @property
    def answered(self) -> bool:
        """Whether the model has said something and it was sent whole, be it nonsense."""
        return self.sent is not None and self.fault in ("", "nonsense")


@dataclass(eq=False)
class Model:
    """What the server says, and the calls it had.

    Attributes:
        replies: by marks, see above.
        latency: seconds that an answer takes.
        faults: share of the questions that are not answered well at once.
        seed: decides which.
    """

    replies: Sequence[dict[str, Any]]
    latency: float = 0.0
    faults: float = 0.0
    seed: int = 1
    calls: list[Call] = field(default_factory=list)
    url: str = ""

    def __post_init__(self) -> None:
        """Nobody has asked yet."""
        self.lock = threading.Lock()

    def begin(self, request: dict[str, Any]) -> tuple[Call, dict[str, Any]]:
        """Count a request and say what it is answered."""
        messages = request["messages"]
        said = json.dumps(messages, ensure_ascii=False)
        key = hashlib.sha256(said.encode()).hexdigest()[:16]
        found = next((one for one in self.replies if all(m in said for m in one["marks"])), None)
        with self.lock:
            tries = sum(call.question == key for call in self.calls)
            first, fault = len(messages) <= 2, self._fault(key)
            if (fault == "nonsense" and not first) or (fault != "nonsense" and tries > 0):
                fault = ""
            marks = found["marks"][0] if found else ""
            call = Call(key, marks, first, fault, time.time())
            self.calls.append(call)
        return call, found["reply"] if found else _NOTHING

    def _fault(self, question: str) -> str:
        number = int(hashlib.sha256(f"{self.seed} {question}".encode()).hexdigest()[:8], 16)
        return _FAULTS[number % 3] if number / 2**32 < self.faults else ""

    def told(self) -> Counter[str]:
        """How often each question was answered."""
        with self.lock:
            return Counter(call.question for call in self.calls if call.answered)


class _Handler(BaseHTTPRequestHandler):
    model: Model

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        call, reply = self.model.begin(request)
        time.sleep(self.model.latency)
        try:
            if call.fault in ("busy", "broken"):
                self._send(429 if call.fault == "busy" else 500, b'{"error": {"message": "later"}}')
            else:
                said = "I would rather not." if call.fault else json.dumps(reply)
                self._answer(said, bool(request.get("stream")))
        except OSError:  # who asked is gone
            self.close_connection = True
            return
        call.sent = time.time()

    def _answer(self, said: str, streamed: bool) -> None:
        usage = {"prompt_tokens": 1000, "completion_tokens": 80, "total_tokens": 1080}
        about: dict[str, Any] = {"id": "c", "created": 1, "model": "m"}
        if not streamed:
            message = {"role": "assistant", "content": said}
            choice = {"index": 0, "finish_reason": "stop", "message": message}
            whole = {**about, "object": "chat.completion", "choices": [choice], "usage": usage}
            self._send(200, json.dumps(whole).encode())
            return
        about["object"] = "chat.completion.chunk"
        pieces: list[dict[str, Any]] = [
            {"choices": [{"index": 0, "delta": {"content": said}, "finish_reason": None}]},
            {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
            {"choices": [], "usage": usage},
        ]
        lines = [f"data: {json.dumps({**about, **piece})}\n\n" for piece in pieces]
        self._send(200, "".join([*lines, "data: [DONE]\n\n"]).encode(), "text/event-stream")

    def _send(self, status: int, body: bytes, kind: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        if status == 429:
            self.send_header("retry-after", "0")
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def log_message(self, *_: object) -> None:
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64


@contextmanager
def serving(model: Model, port: int = 0) -> Iterator[Model]:
    """The model behind its `url`, as long as it is needed."""
    handler = type("Handler", (_Handler,), {"model": model})
    server = _Server(("127.0.0.1", port), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    model.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    try:
        yield model
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def main() -> None:
    """The command."""
    parse = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parse.add_argument("replies", type=Path)
    parse.add_argument("--latency", type=float, default=0.3)
    parse.add_argument("--faults", type=float, default=0.0)
    parse.add_argument("--seed", type=int, default=1)
    parse.add_argument("--port", type=int, default=0)
    given = parse.parse_args()
    model = Model(json.loads(given.replies.read_text()), given.latency, given.faults, given.seed)
    with serving(model, given.port):
        print(model.url, flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main()
