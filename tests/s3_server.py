"""A storage that speaks S3 over HTTP, and a proxy before it that makes what goes wrong in networks.

The storage is moto's server in a process of its own; it ends with the one that began it. The proxy
passes requests on as they come and does to answers what a plan says: another status, a body that
is cut off, too short, stalls or trickles. Plans that draw their faults know a request by what it
asks and how often it was asked before, so that nothing depends on threads.
"""

import contextlib
import http.client
import os
import random
import re
import socket
import struct
import subprocess
import sys
import threading
import time
import urllib.parse
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

KEY = "testing"
_CHUNK = 64 << 10
_SERVE = """
import logging, sys
logging.getLogger("werkzeug").setLevel(logging.ERROR)
from moto.s3.models import FakeMultipart
from moto.server import ThreadedMotoServer
# moto loops over the parts themselves: it answers 500 to an abort if a part comes meanwhile.
FakeMultipart.dispose = lambda self: [part.dispose() for part in list(self.parts.values())]
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
"""
_SIGNED = {"authorization": f"AWS4-HMAC-SHA256 Credential={KEY}/20260101/us-east-1/s3/aws4_request"}
_KEPT = ("content-length", "connection", "transfer-encoding", "keep-alive")


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A request: `turn` counts those before it that asked the same."""

    method: str
    path: str
    range: str | None
    turn: int

    @property
    def is_listing(self) -> bool:
        return "list-type=" in self.path or "prefix=" in self.path

    @property
    def is_read(self) -> bool:
        return self.method == "GET" and not self.is_listing


@dataclass(frozen=True, kw_only=True)
class Fault:
    """What happens to one answer.

    Attributes:
        status: this status in place of the answer.
        cut: the connection ends after so many bytes of the body; -1: before the answer.
        short: the body lacks so many bytes at its end, and its headers say so too.
        stall: seconds of silence in the middle of the body.
        rate: bytes a second.
        half: the connection is reset in the middle of the body of the request.
        lost: the request is carried out, and the connection ends before its answer.
    """

    status: int | None = None
    cut: int | None = None
    short: int = 0
    stall: float = 0
    rate: float | None = None
    half: bool = False
    lost: bool = False


_NOTHING = Fault()
Plan = Callable[[Asked], Fault | None]


@dataclass
class Tally:
    """What the proxy did; `sent` are bytes of bodies."""

    requests: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    sent: int = 0


def drawn(seed: int, share: float, faults: tuple[Fault, ...], most: int = 2) -> Plan:
    """Do one of `faults` to a share of all requests, at most `most` times to the same one."""

    def plan(asked: Asked) -> Fault | None:
        chance = random.Random(f"{seed} {asked.method} {asked.path} {asked.range} {asked.turn}")
        hit = asked.turn < most and chance.random() < share
        return chance.choice(faults) if hit else None

    return plan


class Proxy:
    """The proxy: `url` is where it listens, `plan` may be changed at any time."""

    def __init__(self, port: int) -> None:
        self.upstream = port
        self.plan: Plan | None = None
        self.tally = Tally()
        self.lock = threading.Lock()
        self._seen: Counter[tuple[str, str, str | None]] = Counter()
        handler = type("Handler", (_Handler,), {"proxy": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def begin(self, plan: Plan | None = None) -> Tally:
        """Follow this plan from now on, and count anew."""
        with self.lock:
            self.plan, self.tally = plan, Tally()
            self._seen.clear()
            return self.tally

    def asked(self, method: str, path: str, asked_range: str | None) -> Fault:
        """Note a request, and what is to happen to it."""
        with self.lock:
            seen = (method, path, asked_range)
            asked = Asked(method=method, path=path, range=asked_range, turn=self._seen[seen])
            self._seen[seen] += 1
            self.tally.requests["LIST" if asked.is_listing else method] += 1
            fault = (self.plan(asked) if self.plan else None) or _NOTHING
            for kind in ("status", "cut", "short", "stall", "rate", "half", "lost"):
                self.tally.faults[kind] += getattr(fault, kind) != getattr(_NOTHING, kind)
            return fault


class _Handler(BaseHTTPRequestHandler):
    """Passes one connection's requests on."""

    proxy: Proxy
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else each body waits 40 ms for the headers before it
    upstream: http.client.HTTPConnection | None = None

    def setup(self) -> None:
        super().setup()
        self.upstream = http.client.HTTPConnection("127.0.0.1", self.proxy.upstream, timeout=60)

    def handle(self) -> None:
        with contextlib.suppress(ConnectionResetError):  # by a program that was killed
            super().handle()

    def finish(self) -> None:
        if self.upstream is not None:
            self.upstream.close()
        super().finish()

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def _pass(self) -> None:
        fault = self.proxy.asked(self.command, self.path, self.headers.get("range"))
        body = self._body(half=fault.half)
        if fault.cut == -1 or fault.half:
            self.close_connection = True
            return
        try:
            if fault.status is not None:
                self._answer(fault.status, {"content-type": "application/xml"}, b"", 0)
            else:
                self._forward(body, fault)
        except OSError:  # the other side has gone: it waits for nothing any more
            self.close_connection = True

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _pass  # noqa: N815

    def _body(self, *, half: bool) -> bytes:
        if self.headers.get("expect", "").lower() == "100-continue":
            self.send_response_only(100)
            self.end_headers()
        if half:  # a close with a linger of 0 is a reset
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return self.rfile.read(int(self.headers.get("content-length") or 0) // (1 + half))

    def _forward(self, body: bytes, fault: Fault) -> None:
        assert self.upstream is not None
        headers = {name: value for name, value in self.headers.items() if name.lower() != "expect"}
        self.upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in headers.items():
            self.upstream.putheader(name, value)
        self.upstream.endheaders(body or None)
        answer = self.upstream.getresponse()
        data = answer.read()
        if fault.lost:
            self.close_connection = True
            return
        size = int(answer.headers.get("content-length") or 0) if self.command == "HEAD" else 0
        kept = {k: v for k, v in answer.getheaders() if k.lower() not in _KEPT}
        self._answer(answer.status, kept, data[: len(data) - fault.short], size, fault)

    def _answer(
        self,
        status: int,
        headers: Mapping[str, str],
        data: bytes,
        size: int,
        fault: Fault = _NOTHING,
    ) -> None:
        self.send_response_only(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(data) or size))
        self.end_headers()
        self._write(data, fault)

    def _write(self, data: bytes, fault: Fault) -> None:
        end = len(data) if fault.cut is None else min(fault.cut, len(data))
        step = _CHUNK if fault.rate is None else max(1, int(fault.rate / 20))
        for start in range(0, end, step):
            if fault.stall and start <= end // 2 < start + step:
                self.wfile.write(data[start : start + 1])
                self.wfile.flush()
                time.sleep(fault.stall)
                self.wfile.write(data[start + 1 : min(end, start + step)])
            else:
                self.wfile.write(data[start : min(end, start + step)])
            if fault.rate is not None:
                self.wfile.flush()
                time.sleep(step / fault.rate)
        with self.proxy.lock:
            self.proxy.tally.sent += end
        if end < len(data):
            self.close_connection = True


@dataclass(frozen=True)
class Storage:
    """The storage with its proxy."""

    port: int
    proxy: Proxy

    def environment(self) -> dict[str, str]:
        """What a program needs to find it."""
        return {
            "AWS_ENDPOINT_URL": self.proxy.url,
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": KEY,
            "AWS_DEFAULT_REGION": "us-east-1",
        }

    def get(self, path: str) -> bytes:
        """The answer to a request for a path, such as `/bucket/name`, past the proxy."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request("GET", urllib.parse.quote(path, safe="/?=&"), headers=_SIGNED)
        answer = connection.getresponse()
        data = answer.read()
        connection.close()
        assert answer.status == 200, (path, answer.status)
        return data

    def names(self, bucket: str, prefix: str) -> list[str]:
        """The names of a bucket that begin so (at most 1000), past the proxy."""
        told = self.get(f"/{bucket}?list-type=2&prefix={prefix}").decode()
        return re.findall("<Key>(.*?)</Key>", told)

    def put(self, bucket: str, files: Mapping[str, bytes]) -> None:
        """Put files into a bucket, past the proxy; the bucket is made where it is not there."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        for path, data in {
            "": b"",
            **{f"/{urllib.parse.quote(k)}": v for k, v in files.items()},
        }.items():
            connection.request("PUT", f"/{bucket}{path}", body=data, headers=_SIGNED)
            answer = connection.getresponse()
            answer.read()
            assert answer.status == 200, (path, answer.status)
        connection.close()


@contextmanager
def s3_storage() -> Iterator[Storage]:
    """A storage that lives as long as the block."""
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    process = subprocess.Popen(
        [sys.executable, "-c", _SERVE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        proxy = Proxy(int(process.stdout.readline()))
        try:
            yield Storage(proxy.upstream, proxy)
        finally:
            proxy.close()
    finally:
        process.stdin.close()
        process.stdout.close()
        process.kill()
        process.wait()
