"""One HTTP request to a chat endpoint, bounded in time and size, through the OpenAI client.

What is imported here is heavy; import this module where a request is made.
"""

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, NamedTuple, cast

import httpx2
import openai

from ingot.agent.model.endpoint import Endpoint, endpoint_key
from ingot.agent.model.server_errors import Fault
from ingot.converters.errors import ModelError
from ingot.converters.rows import Json

MOST_BYTES, MOST_STREAMED = 8 << 20, 32 << 20  # an event for each token is mostly frame
EVENT_STREAM = "text/event-stream"
_PACKED = "the reply is compressed, which was not asked for"


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """What the server answered: status, headers (names in small letters), body."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class NoAnswerError(Exception):
    """No answer came: kind (`unreachable`, `timeout`, `too_large`, `not_openai`), what happened."""

    def __init__(self, kind: str, problem: str, hint: str = "", passing: bool = False) -> None:
        super().__init__(kind, problem, hint, passing)
        self.fault = Fault(kind=kind, problem=problem, hint=hint, passing=passing)


Take = Callable[[bytes], bool]


class Times(NamedTuple):
    """Seconds without an event of a stream, and those of a reply as a whole; else the first."""

    silence: float
    whole: float


class Post:
    """Posts request bodies to a chat endpoint, one after the other."""

    def __init__(self, chat: Any, watch: "_Watch") -> None:  # noqa: ANN401
        self._chat = chat
        self._watch = watch

    @property
    def wrote(self) -> bool:
        """Return whether any of the last request's body may have left the machine."""
        return self._watch.wrote

    def __call__(self, body: dict[str, Json], times: Times, take: Take | None = None) -> Answer:
        """The answer, in time.

        `take` gets the bytes of an event stream as they come and says whether more is wanted; the
        answer holds them too. An answer that is none, or an error, is not for it.
        """
        asked = partial(self._chat.create, **body, timeout=times.silence)
        return _await_answer(self._watch, times, asked, take)


def check_url(endpoint: Endpoint) -> None:
    """Check that the base URL can be asked at all."""
    try:
        url = httpx2.URL(endpoint.url)
        url.host.encode("idna")
        is_web = url.scheme in ("http", "https") and bool(url.host)
    except (httpx2.InvalidURL, UnicodeError):
        is_web = False
    if not is_web:
        hint = "--base-url is such as http://localhost:8000/v1"
        problem = "the base URL is not an http or https URL"
        raise ModelError(endpoint.host, problem, hint, kind="unreachable")


@contextmanager
def connect_endpoint(endpoint: Endpoint) -> Iterator[Post]:
    """Yield the function that posts to the endpoint.

    Redirects are not followed, so that rows and keys reach no other host. Proxies are used.
    """
    with _open_client(endpoint) as (client, watch):
        yield Post(client.chat.completions.with_raw_response, watch)


def list_models(endpoint: Endpoint, seconds: float) -> Answer:
    """Return the endpoint's list of models, as it answers, under the same bounds."""
    with _open_client(endpoint) as (client, watch):
        listed = client.models.with_raw_response
        times = Times(seconds, seconds)
        return _await_answer(watch, times, lambda: listed.list(timeout=seconds))


@cache
def _trusted_certificates() -> ssl.SSLContext:
    """The certificates that are trusted, read once: that takes longer than many a request."""
    return httpx2.create_ssl_context()


@contextmanager
def _open_client(endpoint: Endpoint) -> Iterator[tuple[openai.OpenAI, "_Watch"]]:
    watch = _Watch()
    http = openai.DefaultHttpxClient(
        follow_redirects=False,
        verify=_trusted_certificates(),
        event_hooks={"request": [watch.sent], "response": [watch.answered]},
    )
    client = openai.OpenAI(
        api_key=endpoint_key(endpoint).value,
        base_url=endpoint.url,
        max_retries=0,
        http_client=http,
        # A compressed reply would be small on the wire and large in memory.
        default_headers={"Accept-Encoding": "identity"},
    )
    with client:
        yield client, watch


def _await_answer(
    watch: "_Watch", times: Times, ask: Callable[[], Any], take: Take | None = None
) -> Answer:
    with watch.during(times):
        try:
            response = ask().http_response
            body = response.content if take is None else _read_stream(response, take, watch)
        except openai.APIStatusError as error:
            response, body = error.response, error.response.content
        except (openai.APITimeoutError, httpx2.TimeoutException) as error:
            raise watch.timeout_error() from error
        except (openai.APIConnectionError, httpx2.TransportError) as error:
            raise (watch.timeout_error() if watch.over else _connection_error(error)) from error
        if watch.over:  # A body without a length looks whole where it was cut.
            raise watch.timeout_error()
        headers = {name.lower(): value for name, value in response.headers.items()}
        return Answer(status=response.status_code, headers=headers, body=body)


def _read_stream(response: httpx2.Response, take: Take, watch: "_Watch") -> bytes:
    """The body as far as it is wanted; `take` gets it where it is an event stream."""
    listens = _is_streamed(response) and response.is_success
    pieces = []
    with closing(response):
        for piece in response.iter_raw():
            pieces.append(piece)
            if listens and not piece.startswith(b":"):  # a comment keeps a connection open
                watch.hear()
            if listens and not take(piece):
                break
    return b"".join(pieces)


def _is_streamed(response: httpx2.Response) -> bool:
    """Whether a body is a stream of events."""
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    return bool(kind == EVENT_STREAM)


class _Watch:
    """Shuts the socket of a request that takes too long; time-outs of libraries are for one read.

    A server that writes events is not silent, however long it writes, up to the whole time.
    """

    def __init__(self) -> None:
        self.over = False
        self.wrote = False
        self._socket: socket.socket | None = None
        self._times = Times(0.0, 0.0)
        self._begun = self._until = 0.0
        self._heard = False

    @contextmanager
    def during(self, times: Times) -> Iterator[None]:
        self.over = self.wrote = self._heard = False
        self._times, self._begun = times, time.monotonic()
        self._until = self._begun + min(times)
        done = threading.Event()
        threading.Thread(target=self._guard, args=(done,), daemon=True).start()
        try:
            yield
        finally:
            done.set()

    def hear(self) -> None:
        """Note that an event of a stream arrived."""
        self._heard = True
        silent = time.monotonic() + self._times.silence
        self._until = min(silent, self._begun + self._times.whole)

    def timeout_error(self) -> NoAnswerError:
        """Return what took too long."""
        if self._heard and time.monotonic() < self._begun + self._times.whole:
            problem = f"the reply fell silent for {self._times.silence:.3g} s"
        else:
            seconds = self._times.whole if self._heard else min(self._times)
            problem = f"no complete reply within {seconds:.3g} s"
        hint = "is the model loaded? `--llm-timeout` gives it more time"
        return NoAnswerError("timeout", problem, hint, True)

    def _guard(self, done: threading.Event) -> None:
        while not done.wait(max(0.0, self._until - time.monotonic())):
            if time.monotonic() >= self._until:
                self._end()
                return

    def sent(self, request: httpx2.Request) -> None:
        request.extensions = {**request.extensions, "trace": self._traced}

    def answered(self, response: httpx2.Response) -> None:
        if response.headers.get("content-encoding", "identity") != "identity":
            raise NoAnswerError("not_openai", _PACKED)
        most = MOST_STREAMED if _is_streamed(response) else MOST_BYTES
        response.stream = _Bounded(cast(httpx2.SyncByteStream, response.stream), most)

    def _traced(self, event: str, info: dict[str, Any]) -> None:
        if event.endswith(("connect_tcp.complete", "start_tls.complete")):
            self._socket = info["return_value"].get_extra_info("socket")
            if self.over:
                self._shut()
        elif event.endswith("send_request_body.started"):
            # A proxy is asked for a tunnel first, with a request of its own.
            self.wrote = self.wrote or info["request"].method != b"CONNECT"

    def _end(self) -> None:
        self.over = True
        self._shut()

    def _shut(self) -> None:
        if self._socket is not None:
            try:
                self._socket.shutdown(socket.SHUT_RDWR)
            except OSError:
                return  # It is closed already.


class _Bounded(httpx2.SyncByteStream):
    """A response's stream that ends with an error past the most bytes that a reply may have."""

    def __init__(self, stream: httpx2.SyncByteStream, most: int) -> None:
        self._stream, self._most = stream, most

    def __iter__(self) -> Iterator[bytes]:
        size = 0
        for chunk in self._stream:
            size += len(chunk)
            if size > self._most:
                raise NoAnswerError("too_large", f"the reply is larger than {self._most >> 20} MiB")
            yield chunk

    def close(self) -> None:
        self._stream.close()


def _connection_error(error: Exception) -> NoAnswerError:
    """What kept the connection from standing, in words; TLS does not mend by waiting."""
    unreachable = partial(NoAnswerError, "unreachable")
    causes = tuple(_error_causes(error))
    reason = " ".join(str(cause) for cause in causes)
    if "CERTIFICATE_VERIFY_FAILED" in reason:
        hint = "SSL_CERT_FILE names a file of certificates to trust"
        return unreachable("its TLS certificate is not trusted", hint)
    if any(isinstance(cause, ssl.SSLError) for cause in causes) or "SSL" in reason:
        hint = "is it http instead of https?"
        return unreachable("the TLS connection failed", hint)
    if any(isinstance(cause, httpx2.ProxyError) for cause in causes):
        return unreachable("the proxy failed", "check HTTPS_PROXY and NO_PROXY", True)
    if any(isinstance(cause, httpx2.RemoteProtocolError | httpx2.ReadError) for cause in causes):
        return unreachable("the connection was lost", "", True)
    return unreachable("cannot be reached", "check --base-url", True)


def _error_causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
