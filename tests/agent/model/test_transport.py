"""What a server does to the connection: slowness, size, redirects, TLS, proxies; no key wanders."""

import gzip
import socket
from collections.abc import Callable
from typing import Any

import pytest

from ingot.agent.model.budget import Ledger, Limits
from ingot.converters.errors import BudgetReached, ModelError

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
KIB = b"x" * 1024


def drip(chat: Any, head: bytes, piece: bytes) -> Callable[[Any], None]:
    """A head and then a piece every 20 ms, until the test ends; each read of it is quick."""

    def talk(handler: Any) -> None:
        handler.wfile.write(head)
        while not chat.closing.wait(0.02):
            handler.wfile.write(piece)

    return talk


DRIPS = {
    "a body of known length": (HEAD + b"content-length: 100000\r\n\r\n", b" "),
    "a body of unknown length": (HEAD + b"connection: close\r\n\r\n", b" "),
    "chunks": (HEAD + b"transfer-encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
    "headers": (HEAD, b"x-more: y\r\n"),
    "one header": (HEAD + b"x-more: ", b"y"),
    "the status line": (b"HTTP/1.1 200 ", b"O"),
    "an error's body": (b"HTTP/1.1 400 Bad\r\ncontent-length: 100000\r\n\r\n", b" "),
    "nothing": (b"", b""),
}


@pytest.mark.parametrize("kind", DRIPS)
def test_a_server_that_drips_is_stopped_by_total_time(asker: Any, kind: str) -> None:
    head, piece = DRIPS[kind]
    answer = (0, drip(asker.chat, head, piece))
    with pytest.raises(ModelError, match=r"no complete reply within 0\.3 s") as caught:
        asker.ask(answer, timeout_s=0.3, retries=0)
    assert caught.value.kind == "timeout"
    # What was sent may have been worked on, so it counts.
    assert asker.ledger.run.tokens_in > 0


def test_a_time_out_is_asked_again(asker: Any) -> None:
    reply = asker.ask((0, drip(asker.chat, b"", b"")), "{}", timeout_s=0.3)
    assert reply.text == "{}"
    assert reply.notes == ("asked again: no complete reply within 0.3 s",)


def test_the_time_of_the_run_ends_a_request(asker: Any) -> None:
    asker.ledger = Ledger(run=Limits(seconds=0.3))
    with pytest.raises(BudgetReached, match="--llm-max-seconds"):
        asker.ask((0, drip(asker.chat, b"", b"")))
    assert len(asker.chat.requests) == 1


def flood(head: bytes, piece: bytes) -> Callable[[Any], None]:
    """64 MiB of a reply, or as much of it as is taken."""

    def talk(handler: Any) -> None:
        handler.wfile.write(head)
        for _ in range(64 * 1024):
            handler.wfile.write(piece)

    return talk


@pytest.mark.parametrize(
    ("head", "piece"),
    [
        (HEAD + b"content-length: 67108864\r\n\r\n", KIB),
        (HEAD + b"transfer-encoding: chunked\r\n\r\n", b"400\r\n" + KIB + b"\r\n"),
        (HEAD + b"connection: close\r\n\r\n", KIB),
        (b"HTTP/1.1 500 Oh\r\nconnection: close\r\n\r\n", KIB),
    ],
)
def test_a_server_that_floods_is_stopped_by_size(asker: Any, head: bytes, piece: bytes) -> None:
    with pytest.raises(ModelError, match="larger than 8 MiB") as caught:
        asker.ask((0, flood(head, piece)))
    assert (caught.value.kind, len(asker.chat.requests)) == ("too_large", 1)


def test_headers_without_end_are_stopped(asker: Any) -> None:
    with pytest.raises(ModelError) as caught:
        asker.ask((0, flood(HEAD + b"x: ", KIB)), retries=0)
    assert caught.value.kind == "unreachable"


def test_a_small_reply_that_grows_when_unpacked_is_not_unpacked(asker: Any) -> None:
    packed = gzip.compress(b" " * (32 << 20))
    with pytest.raises(ModelError, match="compressed") as caught:
        asker.ask((200, packed, {"content-encoding": "gzip"}))
    assert caught.value.kind == "not_openai"
    assert asker.chat.headers[0]["accept-encoding"] == "identity"


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_rows_and_keys_do_not_follow_a_redirect(
    asker: Any, other_chat: Any, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    elsewhere = other_chat.url.replace("127.0.0.1", "localhost")
    with pytest.raises(ModelError, match="redirect to localhost, which is not") as caught:
        asker.ask((status, b"", {"location": f"{elsewhere}/chat/completions"}))
    assert (caught.value.kind, len(asker.chat.requests)) == ("redirect", 1)
    assert "--base-url" in caught.value.hint
    assert (other_chat.requests, other_chat.headers) == ([], [])


def nothing_sent(asker: Any, calls: int) -> bool:
    spent = asker.ledger.run
    return (spent.calls, spent.chars_sent, spent.tokens_in) == (calls, 0, 0)


def test_nobody_listens(asker: Any) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        with pytest.raises(ModelError, match="cannot be reached") as caught:
            asker.ask(base_url=url)
    assert caught.value.kind == "unreachable"
    assert len(asker.is_waiting) == 2
    assert nothing_sent(asker, calls=3)


def test_a_name_that_is_no_host(asker: Any) -> None:
    with pytest.raises(ModelError, match=r"ingot\.invalid: cannot be reached"):
        asker.ask(base_url="http://ingot.invalid/v1", retries=0)
    assert nothing_sent(asker, calls=1)


def test_tls_to_a_server_without(asker: Any) -> None:
    with pytest.raises(ModelError, match="TLS") as caught:
        asker.ask(base_url=asker.chat.url.replace("http:", "https:"))
    assert (caught.value.kind, asker.is_waiting) == ("unreachable", [])
    assert "http instead of https" in caught.value.hint
    assert nothing_sent(asker, calls=1)


def test_a_server_that_takes_no_connection_in_time(asker: Any) -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(1)
        url = f"https://127.0.0.1:{listening.getsockname()[1]}/v1"  # its TLS never answers
        with pytest.raises(ModelError, match="no complete reply") as caught:
            asker.ask(base_url=url, timeout_s=0.3, retries=0)
    assert caught.value.kind == "timeout"
    assert nothing_sent(asker, calls=1)


def test_what_was_written_before_the_connection_broke_off_counts(asker: Any) -> None:
    with pytest.raises(ModelError, match="connection was lost"):
        asker.ask((0, lambda handler: handler.connection.close()), retries=0)
    sent = sum(len(one["content"]) for one in asker.messages)
    assert (asker.ledger.run.calls, asker.ledger.run.chars_sent) == (1, sent)


def test_a_proxy_that_makes_no_tunnel_was_sent_nothing(
    asker: Any, other_chat: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", other_chat.url.removesuffix("/v1"))
    monkeypatch.setenv("NO_PROXY", "")
    with pytest.raises(ModelError, match="proxy failed"):
        asker.ask(base_url="https://ingot.invalid/v1", retries=0)
    assert nothing_sent(asker, calls=1)


@pytest.mark.parametrize(
    "url",
    [
        "localhost:8000/v1",
        "ftp://h/v1",
        "h",
        "http://[::1",
        "http://h:port/v1",
        "http://",
        "/",
        f"http://{'a' * 70}.b/v1",
    ],
)
def test_a_url_that_is_none(asker: Any, url: str) -> None:
    with pytest.raises(ModelError, match="not an http or https URL") as caught:
        asker.ask(base_url=url)
    assert caught.value.kind == "unreachable"


def test_a_proxy_of_the_environment_is_used(
    asker: Any, other_chat: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", other_chat.url.removesuffix("/v1"))
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    other_chat.queue = ["{}"]
    assert asker.ask(base_url="http://llm.example/v1").text == "{}"
    assert other_chat.paths == ["http://llm.example/v1/chat/completions"]
    assert asker.chat.requests == []


def test_a_proxy_that_does_not_let_through(asker: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", asker.chat.url.removesuffix("/v1"))
    with pytest.raises(ModelError, match="the proxy failed") as caught:
        asker.ask(base_url="https://llm.example/v1")
    assert (caught.value.kind, asker.chat.requests) == ("unreachable", [])
    assert "HTTPS_PROXY" in caught.value.hint


def test_a_url_may_end_with_a_slash(asker: Any) -> None:
    assert asker.ask("{}", base_url=asker.chat.url + "/").text == "{}"
    assert asker.chat.paths == ["/v1/chat/completions"]
