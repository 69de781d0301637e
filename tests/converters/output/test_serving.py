"""The HTTP port with real requests."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection

import pytest
from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
from prometheus_client.parser import text_string_to_metric_families

from ingot.converters.errors import ConversionError
from ingot.converters.output.monitoring import MetricsServer


@contextmanager
def serving(trouble: str | None = None) -> Iterator[MetricsServer]:
    registry = CollectorRegistry()
    Gauge("one", "A number", registry=registry).set(1)
    server = MetricsServer("127.0.0.1", 0, registry, lambda: trouble)
    try:
        yield server
    finally:
        server.close()


def ask(port: int, path: str, method: str = "GET", **headers: str) -> tuple[int, str, str]:
    """Status, content type and body."""
    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    body = answer.read().decode()
    connection.close()
    return answer.status, answer.headers["content-type"], body


def test_metrics_in_the_format_that_is_asked_for() -> None:
    with serving() as server:
        status, kind, body = ask(server.port, "/metrics?debug=1")
        assert status == 200
        assert kind.startswith("text/plain")
        assert [one.name for one in text_string_to_metric_families(body)] == ["one"]
        accept = "application/openmetrics-text; version=1.0.0"
        status, kind, body = ask(server.port, "/metrics", accept=accept)
        assert kind.startswith("application/openmetrics-text")
        assert [one.name for one in open_metrics(body)] == ["one"]


def test_health() -> None:
    with serving() as server:
        assert ask(server.port, "/healthz") == (200, "application/json", '{"status": "ok"}\n')
    with serving("stall: nothing moves") as server:
        status, _, body = ask(server.port, "/healthz")
        assert status == 503
        assert json.loads(body) == {"status": "failing", "reason": "stall: nothing moves"}


@pytest.mark.parametrize("path", ["/", "/metrics/", "/healthz/x", "/%2e%2e/metrics", "*", "//"])
def test_everything_else_is_not_found(path: str) -> None:
    with serving() as server:
        assert ask(server.port, path)[0] == 404


def test_only_reading_is_served() -> None:
    with serving() as server:
        assert ask(server.port, "/metrics", "HEAD")[0::2] == (200, "")
        assert ask(server.port, "/metrics", "POST")[0] == 501


def test_a_port_that_is_taken_is_said() -> None:
    with serving() as server:
        with pytest.raises(ConversionError) as caught:
            MetricsServer("127.0.0.1", server.port, CollectorRegistry(), lambda: None)
        assert f"127.0.0.1:{server.port}" in str(caught.value)
        assert "another port" in str(caught.value)


@pytest.mark.parametrize(("host", "port"), [("127.0.0.1", 70_000), ("256.1.1.1", 0)])
def test_an_impossible_address_is_said(host: str, port: int) -> None:
    with pytest.raises(ConversionError, match="cannot serve metrics there"):
        MetricsServer(host, port, CollectorRegistry(), lambda: None)


def test_no_thread_and_no_connection_is_left_and_closing_again_is_no_harm() -> None:
    before = set(threading.enumerate())
    with serving() as server:
        silent = socket.create_connection(("127.0.0.1", server.port))
        half = socket.create_connection(("127.0.0.1", server.port))
        half.sendall(b"GET /metr")
        assert ask(server.port, "/healthz")[0] == 200
        port = server.port
    assert set(threading.enumerate()) <= before
    assert silent.recv(1) == b""
    for one in (silent, half):
        one.close()
    server.close()
    with pytest.raises(ConnectionRefusedError):
        ask(port, "/healthz")


def test_the_port_is_free_again_at_once() -> None:
    with serving() as server:
        assert ask(server.port, "/metrics")[0] == 200
    MetricsServer("127.0.0.1", server.port, CollectorRegistry(), lambda: None).close()


def test_connections_are_few() -> None:
    with serving() as server:
        idle = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(16)]
        one_more = socket.create_connection(("127.0.0.1", server.port))
        one_more.settimeout(30)
        assert one_more.recv(1) == b""
        idle[0].close()
        while True:  # until the server has seen it
            try:
                assert ask(server.port, "/healthz")[0] == 200
                break
            except OSError:
                continue
        for one in (*idle, one_more):
            one.close()


def test_garbage_does_no_harm(capfd: pytest.CaptureFixture[str]) -> None:
    with serving() as server:
        for garbage in (
            b"\x00\xff\r\n\r\n",
            b"GET\r\n\r\n",
            b"GET / HTTP/9.9\r\n\r\n",
            b"A" * 70_000,
        ):
            with socket.create_connection(("127.0.0.1", server.port)) as one:
                one.sendall(garbage)
                one.shutdown(socket.SHUT_WR)
                one.settimeout(30)
                with suppress(ConnectionResetError):
                    one.recv(100)
        assert ask(server.port, "/metrics")[0] == 200
    assert capfd.readouterr() == ("", "")
