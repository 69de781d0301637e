"""Serve a build's metrics over HTTP: `/metrics` for Prometheus, `/healthz` for a pod's probe."""

import json
import socket
import sys
import threading
from collections.abc import Callable, Iterable
from socketserver import TCPServer, ThreadingMixIn
from typing import TYPE_CHECKING, Any, Final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from ingot.converters.errors import ConversionError

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

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
            self._server = make_server(host, port, _make_app(registry, trouble), _Server, _Handler)
        except (OSError, OverflowError) as error:
            hint = "choose another port; 0 takes any free one"
            problem = f"cannot serve metrics there: {error}"
            raise ConversionError(f"{host}:{port}", problem, hint) from error
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(_POLL,), name="metrics", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Stop and end the connections; closing again does no harm."""
        self._server.shutdown()
        self._server.hang_up()
        self._server.server_close()
        self._thread.join()


def _make_app(
    registry: "CollectorRegistry", trouble: Callable[[], str | None]
) -> "WSGIApplication":
    from prometheus_client import make_wsgi_app

    metrics = make_wsgi_app(registry)

    def app(environ: "WSGIEnvironment", start: "StartResponse") -> Iterable[bytes]:
        method = environ["REQUEST_METHOD"]
        if method not in ("GET", "HEAD"):
            return _answer(
                start, "501 Not Implemented", "text/plain", b"only GET and HEAD are served\n"
            )
        if environ["PATH_INFO"] == "/metrics":
            body = metrics({**environ, "REQUEST_METHOD": "GET"}, start)
        elif environ["PATH_INFO"] == "/healthz":
            reason = trouble()
            state = {"status": "ok"} if reason is None else {"status": "failing", "reason": reason}
            status = "200 OK" if reason is None else "503 Service Unavailable"
            body = _answer(start, status, "application/json", json.dumps(state).encode() + b"\n")
        else:
            text = b"/metrics and /healthz are here\n"
            body = _answer(start, "404 Not Found", "text/plain; charset=utf-8", text)
        return [] if method == "HEAD" else body

    return app


def _answer(start: "StartResponse", status: str, kind: str, body: bytes) -> Iterable[bytes]:
    start(status, [("Content-Type", kind), ("Cache-Control", "no-store")])
    return [body]


class _Server(ThreadingMixIn, WSGIServer):
    """A few connections at a time, each for one answer."""

    daemon_threads = False  # server_close waits for them
    request_queue_size = _MOST_CONNECTIONS

    def __init__(self, *args: Any) -> None:  # noqa: ANN401
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        super().__init__(*args)

    def server_bind(self) -> None:
        """Bind without asking the name service who we are."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = "", self.server_address[1]
        self.setup_environ()

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
        for connection in waiting:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:  # it has just ended
                continue

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401
        """A client that goes away is no error."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class _Handler(WSGIRequestHandler):
    """Answers one request; requests are not logged."""

    timeout = _PATIENCE
    server_version = "ingot"

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""
