"""Show a long job to machines: lines of JSON, and HTTP `/metrics`, `/healthz` and `/readyz`."""

import json
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from socketserver import TCPServer, ThreadingMixIn
from typing import IO, TYPE_CHECKING, Any, Final, Literal, get_args
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

import orjson

from ingot.converters.errors import ConversionError
from ingot.converters.json_yaml import shorten_text
from ingot.converters.settings import Level

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

    from prometheus_client import CollectorRegistry
    from prometheus_client.core import Metric

LogFields = Mapping[str, object]
MetricKind = Literal["counter", "gauge"]
LOG_LEVELS: Final[tuple[Level, ...]] = get_args(Level)


def make_metric(
    kind: MetricKind,
    name: str,
    text: str,
    values: Iterable[tuple[Sequence[str], float | None]],
    labels: Sequence[str] = (),
) -> "Metric":
    """Make a metric of values with their labels; those that are None are left out."""
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    family = CounterMetricFamily if kind == "counter" else GaugeMetricFamily
    metric = family(name, text, labels=labels)
    for label_values, value in values:
        if value is not None:
            metric.add_metric([_label_text(one) for one in label_values], value)
    return metric


def _label_text(text: str) -> str:
    return text[:100].encode("utf-8", "backslashreplace").decode()


def make_registry(collect: Callable[[], Iterable["Metric"]]) -> "CollectorRegistry":
    """A registry of its own whose metrics are what `collect` gives when it is asked."""
    from prometheus_client import CollectorRegistry
    from prometheus_client.registry import Collector

    class Asked(Collector):
        def collect(self) -> Iterable["Metric"]:
            return collect()

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Asked())
    return registry


_MOST_CONNECTIONS: Final = 16
_PATIENCE: Final = 5.0  # seconds for a client to say something
_POLL: Final = 0.1


class _Handler(WSGIRequestHandler):
    """Answers one request; requests are not logged."""

    timeout = _PATIENCE
    server_version = "ingot"

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


class MetricsServer(ThreadingMixIn, WSGIServer):
    """Serves `/metrics`, `/healthz`, `/readyz`, a few connections at a time, until it is closed."""

    daemon_threads = False  # server_close waits for them
    request_queue_size = _MOST_CONNECTIONS

    def __init__(
        self,
        host: str,
        port: int,
        registry: "CollectorRegistry",
        trouble: Callable[[], object],
        ready: Callable[[], bool] = lambda: True,
    ) -> None:
        self._open: set[Any] = set()
        try:
            super().__init__((host, port), _Handler)
        except (OSError, OverflowError) as error:
            hint = "choose another port; 0 takes any free one"
            problem = f"cannot serve metrics there: {error}"
            raise ConversionError(f"{host}:{port}", problem, hint) from error
        self.set_app(_make_app(registry, trouble, ready))
        self.port = self.server_port
        self._thread = threading.Thread(
            target=self.serve_forever, args=(_POLL,), name="metrics", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Stop and end the connections; closing again does no harm."""
        self.shutdown()
        for connection in list(self._open):
            with suppress(OSError):  # it has just ended
                connection.shutdown(socket.SHUT_RDWR)
        self.server_close()
        self._thread.join()

    def server_bind(self) -> None:
        """Bind without asking the name service who we are."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = "", self.server_address[1]
        self.setup_environ()

    def verify_request(self, request: Any, client_address: Any) -> bool:  # noqa: ANN401
        """Whether one more connection is welcome."""
        welcome = len(self._open) < _MOST_CONNECTIONS
        if welcome:
            self._open.add(request)
        return welcome

    def shutdown_request(self, request: Any) -> None:  # noqa: ANN401
        """Forget a connection that ends."""
        self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401
        """A client that goes away is no error."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


def _make_app(
    registry: "CollectorRegistry", trouble: Callable[[], object], ready: Callable[[], bool]
) -> "WSGIApplication":
    from prometheus_client import make_wsgi_app

    metrics = make_wsgi_app(registry)

    def app(environ: "WSGIEnvironment", start: "StartResponse") -> Iterable[bytes]:
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        status, kind = "404 Not Found", "text/plain; charset=utf-8"
        body = b"/metrics, /healthz and /readyz are here\n"
        if method not in ("GET", "HEAD"):
            status, kind = "501 Not Implemented", "text/plain"
            body = b"only GET and HEAD are served\n"
        elif path == "/metrics":
            content = metrics({**environ, "REQUEST_METHOD": "GET"}, start)
            return [] if method == "HEAD" else content
        elif path == "/healthz":
            reason = trouble()
            failing = {"status": "failing", "reason": str(reason)}
            state = {"status": "ok"} if reason is None else failing
            status = "200 OK" if reason is None else "503 Service Unavailable"
            kind, body = "application/json", json.dumps(state).encode() + b"\n"
        elif path == "/readyz":
            is_ready = ready()
            status = "200 OK" if is_ready else "503 Service Unavailable"
            body = b"ready\n" if is_ready else b"not ready\n"
        start(status, [("Content-Type", kind), ("Cache-Control", "no-store")])
        return [] if method == "HEAD" else [body]

    return app


MAX_LINE: Final = 16_384
_LARGEST: Final = 2**63 - 1
# Characters of a text and members of a list or object: as a rule, and where the line is too long.
_ROOMY: Final = (2_000, 64)
_TIGHT: Final = (100, 8)
_DEPTH: Final = 4
_CUT: Final = "…"  # how many more there were follows
_HEAD: Final = ("level", "component", "event")


def log_line(message: LogFields, moment: datetime) -> bytes:
    """The line of a `log` message, with its line break: valid JSON, at most `MAX_LINE` bytes."""
    head_fields = {name: message.get(name, "") for name in _HEAD}
    rest = {n: v for n, v in message.items() if n not in head_fields and n not in ("kind", "ts")}
    ts = moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    for text, members in (_ROOMY, _TIGHT):
        fields = _tidy_fields({**head_fields, **rest}, text, members + len(head_fields), _DEPTH)
        line = _escape_line(orjson.dumps({"ts": ts, **fields}))
        if len(line) <= MAX_LINE:
            return line
    head = _tidy_fields(head_fields, _TIGHT[0], len(head_fields), 1)
    return _escape_line(orjson.dumps({"ts": ts, **head, "fields_left_out": len(rest)}))


class LogStream:
    """Where the lines of a build go; takes messages from any thread and never raises."""

    def __init__(self, stream: IO[bytes] | None, level: Level) -> None:
        self.lost = 0
        self._stream: IO[bytes] | None = _unbuffered_stream(stream)
        self._lowest = LOG_LEVELS.index(level)
        self._torn = False
        self._lock = threading.Lock()

    def log(self, message: LogFields) -> None:
        """Write the line of a `log` message if its level is high enough; an unknown level is."""
        level = message.get("level")
        if level not in LOG_LEVELS or LOG_LEVELS.index(level) >= self._lowest:
            self.write(message)

    def write(self, message: LogFields) -> None:
        """Write the line of a `log` message, whatever its level, or count it as lost."""
        line = log_line(message, datetime.now(UTC))
        with self._lock:
            if self._stream is None:
                self.lost += 1
                return
            try:  # a torn line is ended before the next
                self._torn = not _write_line(self._stream, b"\n" + line if self._torn else line)
            except (BrokenPipeError, ValueError):
                self._stream = None  # nobody reads it any more, or it is closed
                self._torn = True
            except OSError:
                self._torn = True
            self.lost += self._torn


def _unbuffered_stream(stream: IO[bytes] | None) -> IO[bytes] | None:
    """The stream below the buffers: what a failed write leaves in a buffer fails again at exit."""
    buffered = getattr(sys.stdout, "buffer", None) if stream is None else stream
    if buffered is None:
        return None
    try:
        (sys.stdout if stream is None else buffered).flush()
    except (OSError, ValueError):
        return None
    raw: IO[bytes] = getattr(buffered, "raw", buffered)
    return raw


def _write_line(stream: IO[bytes], line: bytes) -> bool:
    """Whether the whole line went out; a stream may take a part of it."""
    remaining = memoryview(line)
    while remaining:
        count = stream.write(remaining)
        if not count:
            return False
        remaining = remaining[count:]
    stream.flush()
    return True


def _tidy_fields(
    fields: dict[str, object], text: int, members: int, depth: int
) -> dict[str, object]:
    items = list(fields.items())[:members]
    tidy = {
        _cut_text(str(k), _TIGHT[0]): _tidy_value(v, text, members, depth - 1) for k, v in items
    }
    return tidy if len(fields) <= members else {**tidy, _CUT: len(fields) - members}


def _tidy_value(value: object, text: int, members: int, depth: int) -> object:
    """The value as orjson takes it: texts valid and cut, few members, no depth."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, float):
        return float(value)
    if isinstance(value, int):
        return int(value) if -_LARGEST <= value <= _LARGEST else _cut_text(hex(value), text)
    if depth and isinstance(value, dict):
        return _tidy_fields(value, text, members, depth)
    if depth and isinstance(value, list | tuple):
        several = [_tidy_value(one, text, members, depth - 1) for one in value[:members]]
        return several if len(value) <= members else [*several, f"{_CUT} {len(value) - members}"]
    return _cut_text(value if isinstance(value, str) else f"({type(value).__name__})", text)


def _cut_text(text: str, limit: int) -> str:
    """The text without lone surrogates, cut with a mark."""
    return shorten_text(text, limit).encode("utf-8", "backslashreplace").decode()


def _escape_line(line: bytes) -> bytes:
    """The line with its break; what no terminal should be sent is escaped as JSON does."""
    text = line.decode()
    if not text.isprintable():
        text = "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)
    return text.encode() + b"\n"
