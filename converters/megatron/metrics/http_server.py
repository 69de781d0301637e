"""The HTTP port of a build: `/metrics` for Prometheus, `/healthz` for whoever restarts pods."""

import json
import socket
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import TYPE_CHECKING, Any, Final

from ingot.converters.errors import ConversionError

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

_MOST_CONNECTIONS: Final = 16
_PATIENCE: Final = 5.0  # seconds for a client to say something
_POLL: Final = 0.1


class MetricsServer:
    """Serves until it is closed; no thread is left behind."""

    def __init__(
        self,
        host: str,
        port: int,
        registry: "CollectorRegistry",
        trouble: Callable[[], str | None],
    ) -> None:
        try:
            self._server = _Server(host, port, registry, trouble)
        except (OSError, OverflowError) as error:
            hint = "choose another with --metrics-port, 0 = any free one"
            raise ConversionError(f"{host}:{port}", f"no metrics there: {error}", hint) from error
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(_POLL,), name="metrics", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Stop, end the connections; again is no harm."""
        self._server.shutdown()
        self._server.hang_up()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    """A few connections at a time, each for one answer."""

    daemon_threads = False  # server_close waits for them
    request_queue_size = _MOST_CONNECTIONS

    def __init__(
        self,
        host: str,
        port: int,
        registry: "CollectorRegistry",
        trouble: Callable[[], str | None],
    ) -> None:
        self.registry = registry
        self.trouble = trouble
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        super().__init__((host, port), _Handler)

    def server_bind(self) -> None:
        """Bind without asking the name service who we are."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = "", self.server_address[1]

    def verify_request(self, request: Any, client_address: Any) -> bool:  # noqa: ANN401
        """Whether one more connection is welcome."""
        with self._lock:
            if len(self._open) >= _MOST_CONNECTIONS:
                return False
            self._open.add(request)
        return True

    def shutdown_request(self, request: Any) -> None:  # noqa: ANN401
        """Forget a connection that ends."""
        with self._lock:
            self._open.discard(request)
        super().shutdown_request(request)

    def hang_up(self) -> None:
        """End the connections that are open."""
        with self._lock:
            waiting = list(self._open)
        for one in waiting:
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:  # it has just ended
                continue

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401
        """A client that goes away is no error."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    server: _Server
    timeout = _PATIENCE
    server_version = "ingot"
    sys_version = ""

    def do_GET(self) -> None:
        """Answer."""
        match self.path.partition("?")[0]:
            case "/metrics":
                self._metrics()
            case "/healthz":
                self._health()
            case _:
                self._answer(404, "text/plain; charset=utf-8", b"/metrics and /healthz are here\n")

    def do_HEAD(self) -> None:
        """Answer without a body."""
        self.do_GET()

    def log_message(self, format: str, *args: object) -> None:
        """Requests are not logged."""

    def _metrics(self) -> None:
        """The metrics in the format that the client asks for."""
        from prometheus_client.exposition import choose_encoder

        encode, kind = choose_encoder(self.headers.get("accept", ""))
        self._answer(200, kind, encode(self.server.registry))

    def _health(self) -> None:
        """Whether the build is healthy."""
        trouble = self.server.trouble()
        document = {"status": "ok"} if trouble is None else {"status": "failing", "reason": trouble}
        body = json.dumps(document).encode() + b"\n"
        self._answer(200 if trouble is None else 503, "application/json", body)

    def _answer(self, status: int, kind: str, body: bytes) -> None:
        """Send the answer, without its body for HEAD."""
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
