"""One HTTP request to a chat endpoint, bounded in time and size, through the OpenAI client.

What is imported here is heavy; import this module where a request is made.
"""

import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import httpx2
import openai

from ingot.agent.model.endpoint import Endpoint, key
from ingot.converters.errors import ModelError
from ingot.converters.rows import Json

MOST_BYTES = 8 << 20
_PACKED = "the reply is compressed, which was not asked for"


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """What the server answered: status, headers (names in small letters), body."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class NoAnswerError(Exception):
    """No answer came: kind (`unreachable`, `timeout`, `too_large`, `not_openai`), what happened.

    `sent` is whether any of the request's body may have left before that.
    """

    def __init__(
        self,
        kind: str,
        problem: str,
        hint: str = "",
        passing: bool = False,
        *,
        sent: bool = True,
    ) -> None:
        super().__init__(kind, problem, hint, passing)
        self.kind = kind
        self.problem = problem
        self.hint = hint
        self.passing = passing
        self.sent = sent


Post = Callable[[dict[str, Json], float], Answer]


def check_url(endpoint: Endpoint) -> None:
    """Whether the base URL can be asked at all.

    Raises:
        ModelError: it is no http or https URL.
    """
    try:
        url = httpx2.URL(endpoint.url)
        url.host.encode("idna")
    except (httpx2.InvalidURL, UnicodeError) as error:
        raise _no_url(endpoint) from error
    if url.scheme not in ("http", "https") or not url.host:
        raise _no_url(endpoint)


def _no_url(endpoint: Endpoint) -> ModelError:
    hint = "--base-url is such as http://localhost:8000/v1"
    problem = "the base URL is no http or https URL"
    return ModelError(endpoint.host, problem, hint, kind="unreachable")


@contextmanager
def connected(endpoint: Endpoint) -> Iterator[Post]:
    """A function that posts a request body, given the seconds that it may take as a whole.

    Redirects are not followed, so that neither rows nor a key wander to another host; proxies of
    the environment are used. The function raises `NoAnswerError` where no answer comes.
    """
    with _opened(endpoint) as (client, watch):
        chat = client.chat.completions.with_raw_response
        yield lambda body, seconds: _answer(watch, seconds, partial(_said, chat, body, seconds))


def models(endpoint: Endpoint, seconds: float) -> Answer:
    """What the endpoint answers when it is asked for its list of models, under the same bounds.

    Raises:
        NoAnswerError: no answer comes.
        ModelError: the key holds characters that no HTTP header can hold.
    """
    with _opened(endpoint) as (client, watch):
        listed = client.models.with_raw_response
        return _answer(watch, seconds, lambda: listed.list(timeout=seconds))


def _said(chat: Any, body: dict[str, Json], seconds: float) -> Any:  # noqa: ANN401
    return chat.create(**body, timeout=seconds)


@contextmanager
def _opened(endpoint: Endpoint) -> Iterator[tuple[openai.OpenAI, "_Watch"]]:
    watch = _Watch()
    http = openai.DefaultHttpxClient(
        follow_redirects=False,
        event_hooks={"request": [watch.sent], "response": [watch.answered]},
    )
    client = openai.OpenAI(
        api_key=key(endpoint).value,
        base_url=endpoint.url,
        max_retries=0,
        http_client=http,
        # A compressed reply would be small on the wire and large in memory.
        default_headers={"Accept-Encoding": "identity"},
    )
    with client:
        yield client, watch


def _answer(watch: "_Watch", seconds: float, ask: Callable[[], Any]) -> Answer:
    with watch.during(seconds):
        try:
            response = ask().http_response
        except openai.APIStatusError as error:
            response = error.response
        except openai.APITimeoutError as error:
            raise _late(seconds, watch.wrote) from error
        except openai.APIConnectionError as error:
            if watch.over:
                raise _late(seconds, watch.wrote) from error
            raise _unreachable(error, watch.wrote) from error
        if watch.over:  # A body without a length looks whole where it was cut.
            raise _late(seconds, watch.wrote)
        headers = {name.lower(): value for name, value in response.headers.items()}
        return Answer(status=response.status_code, headers=headers, body=response.content)


class _Watch:
    """Ends a request that takes too long as a whole or says too much.

    The client's own time-outs are for one read each: a server that sends a byte a second passes
    them for ever. So the socket is shut when the time is over.
    """

    def __init__(self) -> None:
        self.over = False
        self.wrote = False
        self._socket: socket.socket | None = None

    @contextmanager
    def during(self, seconds: float) -> Iterator[None]:
        self.over = self.wrote = False
        timer = threading.Timer(seconds, self._end)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def sent(self, request: httpx2.Request) -> None:
        request.extensions = {**request.extensions, "trace": self._traced}

    def answered(self, response: httpx2.Response) -> None:
        if response.headers.get("content-encoding", "identity") != "identity":
            raise NoAnswerError("not_openai", _PACKED)
        response.stream = _Bounded(cast(httpx2.SyncByteStream, response.stream))

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

    def __init__(self, stream: httpx2.SyncByteStream) -> None:
        self._stream = stream

    def __iter__(self) -> Iterator[bytes]:
        size = 0
        for chunk in self._stream:
            size += len(chunk)
            if size > MOST_BYTES:
                raise NoAnswerError("too_large", f"the reply is larger than {MOST_BYTES >> 20} MiB")
            yield chunk

    def close(self) -> None:
        self._stream.close()


def _late(seconds: float, sent: bool) -> NoAnswerError:
    problem = f"no whole reply within {seconds:.3g} s"
    return NoAnswerError("timeout", problem, "is the model loaded?", True, sent=sent)


def _unreachable(error: Exception, sent: bool) -> NoAnswerError:
    """What kept the connection from standing, in words; TLS does not mend by waiting."""
    unreachable = partial(NoAnswerError, "unreachable", sent=sent)
    causes = tuple(_causes(error))
    said = " ".join(str(one) for one in causes)
    if "CERTIFICATE_VERIFY_FAILED" in said:
        hint = "SSL_CERT_FILE names a file of certificates to trust"
        return unreachable("its TLS certificate is not trusted", hint)
    if any(isinstance(one, ssl.SSLError) for one in causes) or "SSL" in said:
        hint = "is it http instead of https?"
        return unreachable("the TLS connection failed", hint)
    if any(isinstance(one, httpx2.ProxyError) for one in causes):
        return unreachable("the proxy failed", "check HTTPS_PROXY and NO_PROXY", True)
    if any(isinstance(one, httpx2.RemoteProtocolError | httpx2.ReadError) for one in causes):
        return unreachable("the connection broke off", "", True)
    return unreachable("cannot be reached", "check --base-url", True)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
