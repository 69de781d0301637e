"""Replies that are streamed, over HTTP: what is heard while they come, and what comes of them."""

import json
import random
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingot.agent.model import replies
from ingot.agent.model.budget import Ledger, Limits
from ingot.agent.model.client import estimate_question
from ingot.agent.model.replies import ChunkReader
from ingot.converters.errors import BudgetReached, ModelError

DONE = b"data: [DONE]\n\n"
STREAMED = {"content-type": "text/event-stream"}
USAGE = {"prompt_tokens": 100, "completion_tokens": 50}
KIB = b"x" * 1024


def chunk(content: Any = None, finish: str | None = None, **more: Any) -> dict[str, Any]:
    """A chunk; `more` goes into the delta."""
    delta = more if content is None else {"content": content, **more}
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def message(content: str, finish: str | None = None) -> dict[str, Any]:
    said = {"role": "assistant", "content": content}
    return {"choices": [{"index": 0, "message": said, "finish_reason": finish}]}


def event(document: Any, *, ascii_only: bool = True) -> bytes:
    return b"data: " + json.dumps(document, ensure_ascii=ascii_only).encode() + b"\n\n"


def call(arguments: Any, index: Any = 0, name: str | None = None) -> dict[str, Any]:
    """A chunk of a tool call."""
    function = {"name": "mapping", "arguments": arguments}
    return chunk(tool_calls=[{"index": index, "id": name, "function": function}])


STOP = chunk(finish="stop")
TOLD = {"choices": [], "usage": USAGE}
PLAIN = (chunk("", role="assistant"), chunk('{"a"'), chunk(": 1}"), STOP, TOLD, DONE)
ONE = '{"a": 1}'


@dataclass(frozen=True, kw_only=True)
class Quirk:
    """One stream, and what comes of it."""

    name: str
    pieces: tuple[Any, ...]
    text: str = ONE
    heard: tuple[str | None, ...] = ('{"a"', ": 1}")
    kind: str = "text/event-stream"
    usage: bool = True
    note: str = ""


ACCENTS = '{"a": "h\u00e9 \u4eba\U0001f600"}'

QUIRKS = [
    Quirk(name="as documented", pieces=PLAIN),
    Quirk(
        name="comments and blank lines",
        pieces=(b": ping\n\n", b"\n\n", *PLAIN[:2], b": OPENROUTER PROCESSING\n\n:\n", *PLAIN[2:]),
    ),
    Quirk(
        name="data without a blank, CRLF",
        pieces=tuple(
            event(one).replace(b"data: ", b"data:").replace(b"\n", b"\r\n") for one in PLAIN[:-1]
        ),
    ),
    Quirk(name="CR alone", pieces=tuple(event(one).replace(b"\n", b"\r") for one in PLAIN[:-1])),
    Quirk(name="a byte order mark", pieces=(b"\xef\xbb\xbf", *PLAIN)),
    Quirk(
        name="several data lines in one event",
        pieces=(b'data: {"choices": [{"delta":\ndata: {"content": "{\\"a\\""}}]}\n\n', *PLAIN[2:]),
    ),
    Quirk(
        name="a chunk a line, no blank lines between",
        pieces=(b"".join(event(one)[:-1] for one in PLAIN[:-1]) + DONE,),
    ),
    Quirk(name="[DONE] is missing", pieces=PLAIN[:-1]),
    Quirk(name="[DONE] without its blank line", pieces=(*PLAIN[:-1], b"data:[DONE]")),
    Quirk(
        name="the last blank line is missing",
        pieces=(*PLAIN[:3], event(chunk(finish="stop") | {"usage": USAGE})[:-2]),
    ),
    Quirk(name="no reason to end, but [DONE]", pieces=(*PLAIN[:3], DONE), usage=False),
    Quirk(name="neither reason nor [DONE], but an object", pieces=PLAIN[:3], usage=False),
    Quirk(name="no usage", pieces=(*PLAIN[:4], DONE), usage=False),
    Quirk(name="usage null", pieces=(*({**one, "usage": None} for one in PLAIN[:4]), TOLD, DONE)),
    Quirk(
        name="usage in every chunk, growing",
        pieces=(
            {**chunk('{"a"'), "usage": {"prompt_tokens": 100, "completion_tokens": 1}},
            {**chunk(": 1}"), "usage": {"prompt_tokens": 100, "completion_tokens": 50}},
            {**STOP, "usage": {}},
            DONE,
        ),
    ),
    Quirk(
        name="usage inside the choice",
        pieces=(
            *PLAIN[:3],
            {"choices": [{"delta": {}, "finish_reason": "stop", "usage": USAGE}]},
            DONE,
        ),
    ),
    Quirk(name="usage beside the last delta", pieces=(*PLAIN[:3], {**STOP, "usage": USAGE}, DONE)),
    Quirk(
        name="null contents, empty deltas, a role alone",
        pieces=(
            chunk(role="assistant"),
            {"choices": [{"index": 0, "delta": {"content": None}}]},
            *PLAIN[1:3],
            {"choices": [{"index": 0, "delta": None}]},
            {"choices": [{}]},
            STOP,
            TOLD,
            DONE,
        ),
    ),
    Quirk(
        name="no choices first, filters",
        pieces=(
            {"choices": [], "prompt_filter_results": [{"prompt_index": 0}]},
            *PLAIN,
        ),
    ),
    Quirk(
        name="messages instead of deltas",
        pieces=(message('{"a"'), message(": 1}", "stop"), TOLD, DONE),
    ),
    Quirk(name="one message", pieces=(message(ONE, "stop"), TOLD, DONE), heard=(ONE,)),
    Quirk(
        name="the whole message again at the end",
        pieces=(*PLAIN[:3], message(ONE, "stop"), TOLD, DONE),
    ),
    Quirk(
        name="texts of the older kind",
        pieces=(
            {"choices": [{"text": '{"a"'}]},
            {"choices": [{"text": ": 1}", "finish_reason": "stop"}]},
            TOLD,
            DONE,
        ),
    ),
    Quirk(
        name="contents in parts",
        pieces=(
            chunk([{"type": "text", "text": '{"a"'}]),
            chunk([{"type": "text", "text": ": 1}"}]),
            STOP,
            TOLD,
            DONE,
        ),
    ),
    Quirk(
        name="another choice between",
        pieces=(
            *PLAIN[:2],
            {"choices": [{"index": 1, "delta": {"content": "no"}}]},
            *PLAIN[2:],
        ),
    ),
    Quirk(
        name="data that is no JSON, events of other names",
        pieces=(
            b"data: hello\n\n",
            b"event: ping\ndata: {}\n\n",
            b"data: [1]\n\n",
            *PLAIN,
        ),
    ),
    Quirk(name="chunks after [DONE]", pieces=(*PLAIN, event(chunk("more")))),
    Quirk(
        name="cut in characters and lines",
        pieces=tuple(bytes([one]) for one in event(chunk(ACCENTS), ascii_only=False)) + PLAIN[3:],
        text=ACCENTS,
        heard=(ACCENTS,),
    ),
    Quirk(
        name="half of a surrogate pair each",
        pieces=(
            chunk('{"a": "\ud83d'),
            chunk("\ude00"),
            chunk('"}'),
            STOP,
            TOLD,
            DONE,
        ),
        text='{"a": "\U0001f600"}',
        heard=('{"a": "', "\U0001f600", '"}'),
    ),
    Quirk(
        name="half of a surrogate pair alone",
        pieces=(
            chunk('{"a": "\ud83d'),
            chunk('x"}'),
            chunk("\ud83d"),
            STOP,
            TOLD,
            DONE,
        ),
        text='{"a": "\ufffdx"}\ufffd',
        heard=('{"a": "', '\ufffdx"}', "\ufffd"),
    ),
    Quirk(
        name="one giant chunk",
        pieces=(chunk(json.dumps(["x" * 2_000_000])), STOP, TOLD, DONE),
        text=json.dumps(["x" * 2_000_000]),
        heard=(json.dumps(["x" * 2_000_000]),),
    ),
    Quirk(name="all at once", pieces=(b"".join(event(one) for one in PLAIN[:-1]) + DONE,)),
    Quirk(
        name="a stream that says it is JSON",
        pieces=PLAIN,
        kind="application/json",
        heard=('{"a"', ": 1}"),
    ),
    Quirk(name="a stream of no type", pieces=PLAIN, kind=""),
    Quirk(
        name="a type with a character set, in capitals",
        pieces=PLAIN,
        kind="Text/Event-Stream;charset=UTF-8",
    ),
    Quirk(
        name="reasoning is not heard",
        pieces=(
            chunk(reasoning_content="Let me see: {}"),
            chunk(reasoning="so"),
            *PLAIN,
        ),
    ),
    Quirk(
        name="thoughts in the content are heard as they come",
        pieces=(
            chunk("<think>hm</think>"),
            *PLAIN,
        ),
        text=f"<think>hm</think>{ONE}",
        heard=("<think>hm</think>", '{"a"', ": 1}"),
    ),
    Quirk(
        name="the answer in the reasoning",
        pieces=(
            chunk(reasoning_content='It is {"a"'),
            chunk(reasoning_content=": 1}"),
            STOP,
            TOLD,
            DONE,
        ),
        heard=(ONE,),
        note="the reply was read from reasoning_content",
    ),
    Quirk(
        name="a call that nobody asked for, prose before it",
        pieces=(
            chunk("I call."),
            call('{"a"', name="c1"),
            call(": 1}"),
            STOP,
            TOLD,
            DONE,
        ),
        heard=("I call.", None, ONE),
        note="the reply was read from a tool call",
    ),
    Quirk(
        name="one JSON object under the type of a stream",
        pieces=(json.dumps(message(ONE, "stop") | {"usage": USAGE}, indent=1).encode(),),
        heard=(ONE,),
    ),
]


@pytest.mark.parametrize("quirk", QUIRKS, ids=lambda quirk: quirk.name)
def test_streams_as_servers_send_them(asker: Any, quirk: Quirk) -> None:
    reply = asker.hear(asker.chat.stream(*quirk.pieces, kind=quirk.kind))
    assert (reply.text, reply.level, reply.cut_off) == (quirk.text, "json_schema", False)
    assert tuple(asker.heard) == quirk.heard
    assert asker.last_heard() == reply.text
    assert reply.notes == ((quirk.note,) if quirk.note else ())
    spent = asker.ledger.run
    assert (spent.calls, spent.chars_sent) == (1, len(asker.messages[0]["content"]))
    told = (spent.tokens_in, spent.tokens_out) == (100, 50)
    assert told is quirk.usage
    assert min(spent.tokens_in, spent.tokens_out) > 0


@given(
    st.sampled_from([one for one in QUIRKS if len(one.text) < 1000]),
    st.lists(st.integers(0, 1500), max_size=12),
)
def test_any_split_of_the_bytes_says_the_same(quirk: Quirk, cuts: list[int]) -> None:
    data = b"".join(one if isinstance(one, bytes) else event(one) for one in quirk.pieces)
    edges = sorted({0, len(data), *(min(one, len(data)) for one in cuts)})
    heard: list[str] = []
    at_once: list[str] = []
    chunks = ChunkReader("content", heard.append)
    for at, end in pairwise(edges):
        if not chunks.take(data[at:end]):
            break
    chunks.end()
    whole = ChunkReader("content", at_once.append)
    whole.take(data)
    whole.end()
    assert chunks.document() == whole.document()
    assert chunks.tokens() == whole.tokens()
    assert heard == at_once


def test_the_request_asks_for_a_stream_and_its_usage(asker: Any) -> None:
    asker.hear("{}")
    asker.ask("{}")  # also where nobody listens: a server that writes is not silent
    for one in asker.chat.requests:
        assert one["stream"] is True
        assert one["stream_options"] == {"include_usage": True}


def test_a_text_is_heard_before_the_next_is_written(asker: Any) -> None:
    first, second = threading.Event(), threading.Event()

    def hear(text: str | None) -> None:
        (first if not first.is_set() else second).set()

    pieces = (chunk("{"), lambda: first.wait(20), chunk("}"), lambda: second.wait(20), STOP, DONE)
    assert asker.ask(asker.chat.stream(*pieces), hear=hear).text == "{}"
    assert first.is_set()
    assert second.is_set()


def test_the_arguments_of_a_call_are_heard(asker: Any) -> None:
    asker.ask("{}", below="json_object")
    calls = (
        chunk("I call it.", role="assistant"),
        call("", name="c1"),
        call('{"a"', None),
        call(": 1}"),
        call("no", 1, "c2"),
        chunk(finish="tool_calls"),
        TOLD,
        DONE,
    )
    reply = asker.hear(asker.chat.stream(*calls))
    assert (reply.text, reply.level, asker.heard) == (ONE, "tool", ['{"a"', ": 1}"])


@pytest.mark.parametrize(
    ("calls", "heard"),
    [
        ((call('{"a"', None, "x"), call(": 1}", None), call("{}", None, "y")), ['{"a"', ": 1}"]),
        ((call({"a": 1}),), [ONE]),
        (
            (
                chunk(function_call={"arguments": '{"a"'}),
                chunk(function_call={"arguments": ": 1}"}),
            ),
            ['{"a"', ": 1}"],
        ),
        ((chunk(ONE),), [ONE]),
        ((chunk(tool_calls=[1, {"function": None}, {}]), call(ONE, None)), [ONE]),
    ],
)
def test_calls_as_servers_send_them(asker: Any, calls: tuple[Any, ...], heard: list[str]) -> None:
    asker.ask("{}", below="json_object")
    reply = asker.hear(asker.chat.stream(*calls, STOP, DONE))
    assert (reply.text, asker.heard) == (ONE, heard)


# Servers that do not stream, or not so.


def test_a_server_that_does_not_stream_is_heard_at_once(asker: Any) -> None:
    reply = asker.hear((200, message(ONE, "stop") | {"usage": USAGE}))
    assert (reply.text, asker.heard, reply.notes) == (ONE, [ONE], ())
    assert (asker.ledger.run.tokens_in, asker.ledger.run.tokens_out) == (100, 50)


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"message": "Unrecognized request argument supplied: stream_options"}},
        {"error": {"message": "no", "param": "stream_options"}},
        {"detail": [{"loc": ["body", "stream_options"], "msg": "Extra inputs"}]},
        {"message": "include_usage: unknown field"},
    ],
)
@pytest.mark.parametrize("status", [400, 422])
def test_a_server_without_stream_options(asker: Any, body: Any, status: int) -> None:
    reply = asker.hear((status, body), "{}")
    assert (reply.text, asker.last_heard()) == ("{}", "{}")
    assert reply.notes[0].startswith("asked without stream_options: ")
    asker.hear("{}")
    keys = [(one.get("stream"), "stream_options" in one) for one in asker.chat.requests]
    assert keys == [(True, True), (True, False), (True, False)]


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"message": "Your organization must be verified", "param": "stream"}},
        {"error": {"message": "Cannot use tools with stream"}},
        {"error": "streaming is not supported for this model"},
        {"detail": [{"loc": ["body", "stream"], "msg": "Input should be False"}]},
    ],
)
def test_a_server_that_refuses_to_stream(asker: Any, body: Any) -> None:
    reply = asker.hear((400, body), "{}")
    assert (reply.text, asker.heard, reply.level) == ("{}", ["{}"], "json_schema")
    assert reply.notes[0].startswith("asked without stream: ")
    asker.hear("{}")
    asker.ask("{}")
    assert ["stream" in one for one in asker.chat.requests] == [True, False, False, False]
    assert not any("stream_options" in one for one in asker.chat.requests[1:])


def test_the_ladder_is_gone_down_as_ever(asker: Any) -> None:
    blank = asker.chat.stream(chunk(" "), STOP, DONE)
    refused = (400, {"error": {"message": "json_schema is not supported"}})
    reply = asker.hear(refused, blank, asker.chat.stream(call(ONE), STOP, DONE))
    assert (reply.text, reply.level) == (ONE, "tool")
    assert asker.heard == [" ", None, ONE]
    assert asker.levels() == ["json_schema", "json_object", "tool"]


def test_a_reply_that_is_cut_off_is_heard_anew(asker: Any) -> None:
    short = asker.chat.stream(chunk('{"a'), chunk(finish="length"), DONE)
    reply = asker.hear(short, asker.chat.stream(*PLAIN))
    assert (reply.text, reply.cut_off) == (ONE, False)
    assert asker.heard == ['{"a', None, '{"a"', ": 1}"]
    assert asker.chat.requests[1]["max_tokens"] == 16384


def test_a_reply_that_is_cut_off_for_good_stays_heard(asker: Any) -> None:
    short = asker.chat.stream(chunk('{"a'), chunk(finish="length"), DONE)
    no_more = (400, {"error": "max_tokens is too large: 16384"})
    reply = asker.hear(short, no_more)
    assert (reply.text, reply.cut_off, asker.heard) == ('{"a', True, ['{"a'])


# What breaks.


@pytest.mark.parametrize(
    "broken",
    [
        (chunk('{"a'), {"ends": False}),
        (chunk('{"a'), {}),
        (chunk('{"a'), event(chunk("never whole"))[:20], {}),
        (chunk('{"a'), {"error": {"message": "the worker died"}}, DONE, {}),
        (chunk('{"a'), {"error": "the worker died", **chunk("", "error")}, {}),
        (chunk('{"a'), {"error": {"message": "busy", "code": 503}}, {}),
        (chunk('{"a'), chunk(finish="abort"), DONE, {}),
        (chunk('{"a'), {"object": "error", "message": "died", "code": 500}, {}),
        (chunk('{"a'), b'error: {"code": 500, "message": "died"}\n\n', {}),
        (chunk('{"a'), b'event: error\ndata: {"message": "died"}\n\n', {}),
        (chunk('{"a'), b"event: error\ndata: it died\n\n", {}),
    ],
)
def test_a_stream_that_breaks_is_asked_for_again(asker: Any, broken: tuple[Any, ...]) -> None:
    *pieces, how = broken
    reply = asker.hear(asker.chat.stream(*pieces, **how), asker.chat.stream(*PLAIN))
    assert (reply.text, len(asker.is_waiting)) == (ONE, 1)
    assert asker.heard == ['{"a', None, '{"a"', ": 1}"]
    assert reply.notes[0].startswith("asked again: ")
    spent = asker.ledger.run
    # What the broken one had is estimated: the prompt with the schema, and some characters.
    assert spent.calls == 2
    assert spent.chars_sent == 2 * len(asker.messages[0]["content"])
    assert 600 < spent.tokens_in < 6000
    assert 50 < spent.tokens_out < 60


@pytest.mark.parametrize("pieces", [(), (b": ping\n\n",), (b"\n\n",)])
def test_a_stream_of_nothing_is_one_that_broke_off(asker: Any, pieces: tuple[Any, ...]) -> None:
    nothing = asker.chat.stream(*pieces)
    with pytest.raises(ModelError, match="the connection was lost during the reply") as caught:
        asker.hear(nothing, nothing, nothing)
    assert (caught.value.kind, asker.heard) == ("unreachable", [])


def test_a_stream_that_breaks_for_good_takes_back_what_was_heard(asker: Any) -> None:
    broken = asker.chat.stream(chunk('{"a'), ends=False)
    with pytest.raises(ModelError, match="connection was lost"):
        asker.hear(broken, broken, broken)
    assert asker.heard == ['{"a', None] * 3
    assert asker.ledger.run.calls == 3


@pytest.mark.parametrize("after", [(STOP,), (STOP, TOLD), (STOP, TOLD, DONE)])
@pytest.mark.parametrize("ends", [True, False])
def test_a_reply_that_said_why_it_ended_is_whole(
    asker: Any, after: tuple[Any, ...], ends: bool
) -> None:
    waits = None if ends else asker.chat.closing
    answer = asker.chat.stream(chunk(ONE), *after, ends=False, waits=waits)
    reply = asker.hear(answer, timeout_s=20 if ends or len(after) == 3 else 0.3)
    assert (reply.text, asker.heard, reply.notes) == (ONE, [ONE], ())
    assert len(asker.chat.requests) == 1
    assert asker.ledger.run.tokens_out == 50 or len(after) == 1


@pytest.mark.parametrize(
    ("error", "kind", "told"),
    [
        ({"message": "Incorrect key", "code": 401}, "unauthorized", "200"),
        ({"message": "insufficient_quota", "code": 429}, "quota", "quota"),
        ({"message": "the stream is bad"}, "bad_request", "the stream is bad"),
        ("Unexpected endpoint", "bad_request", "Unexpected endpoint"),
    ],
)
def test_an_error_instead_of_a_reply(asker: Any, error: Any, kind: str, told: str) -> None:
    with pytest.raises(ModelError, match=told) as caught:
        asker.hear(asker.chat.stream({"error": error}, DONE))
    assert (caught.value.kind, asker.heard, len(asker.chat.requests)) == (kind, [], 1)
    assert (asker.ledger.run.tokens_in, asker.ledger.run.tokens_out) == (0, 0)


def test_an_error_without_words(asker: Any) -> None:
    with pytest.raises(ModelError, match="an error without words"):
        asker.hear(asker.chat.stream(b"event: error\ndata: {}\n\n"))


def test_what_an_error_in_a_stream_refuses_is_stepped_down(asker: Any) -> None:
    error = {"error": {"message": "failed to compile the grammar", "code": 400}}
    assert asker.hear(*[asker.chat.stream(error)] * 2, "{}").level == "json_object"
    assert asker.levels() == ["json_schema", "json_schema", "json_object"]


def test_a_refusal_in_a_stream(asker: Any) -> None:
    pieces = (chunk(refusal="I must "), chunk(refusal="not."), STOP, DONE)
    with pytest.raises(ModelError, match=r"I must not\.") as caught:
        asker.hear(asker.chat.stream(*pieces))
    assert (caught.value.kind, asker.heard) == ("refused", [])


def test_a_content_filter_in_a_stream(asker: Any) -> None:
    with pytest.raises(ModelError, match="content filter"):
        asker.hear(asker.chat.stream(chunk('{"a'), chunk(finish="content_filter"), DONE))


@pytest.mark.parametrize(
    ("pieces", "told"),
    [
        ((DONE,), "no choices"),
        ((TOLD, DONE), "no choices"),
        ((b"<html>hi</html>",), "a web page"),
        ((b"data: hello\n\n",), "no JSON object"),
    ],
)
def test_a_stream_of_something_else(asker: Any, pieces: tuple[Any, ...], told: str) -> None:
    with pytest.raises(ModelError, match=told) as caught:
        asker.hear(asker.chat.stream(*pieces))
    assert caught.value.kind == "not_openai"


# Time, size, redirects, keys.


@pytest.mark.more
def test_a_stream_that_goes_on_and_on_is_stopped_by_total_time(asker: Any) -> None:
    def talk(handler: Any) -> None:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n")
        while not asker.chat.closing.wait(0.02):
            handler.wfile.write(event(chunk("x")))

    with pytest.raises(ModelError, match=r"no complete reply within 6 s") as caught:
        asker.hear((0, talk), timeout_s=0.2, retries=0)
    assert caught.value.kind == "timeout"
    assert asker.heard.count("x") == len(asker.heard) - 1 > 0
    assert asker.heard[-1] is None
    assert asker.ledger.run.tokens_in > 500
    assert asker.ledger.run.tokens_out > 0


def test_a_stream_that_falls_silent_is_stopped(asker: Any) -> None:
    silent = asker.chat.stream(chunk('{"a'), waits=asker.chat.closing)
    reply = asker.hear(silent, "{}", timeout_s=0.3)
    assert (reply.text, reply.notes) == ("{}", ("asked again: the reply fell silent for 0.3 s",))
    assert asker.heard == ['{"a', None, "{}"]


def test_the_time_of_the_run_ends_a_stream(asker: Any) -> None:
    asker.ledger = Ledger(run=Limits(seconds=0.3))
    with pytest.raises(BudgetReached, match="--llm-max-seconds"):
        asker.hear(asker.chat.stream(chunk('{"a'), waits=asker.chat.closing))
    assert len(asker.chat.requests) == 1


@pytest.mark.more
@pytest.mark.parametrize("piece", [event(chunk("x" * 1000)), b": ping\n\n" * 200, KIB])
def test_a_stream_that_floods_is_stopped_by_size(asker: Any, piece: bytes) -> None:
    with pytest.raises(ModelError, match="larger than 32 MiB") as caught:
        asker.hear(asker.chat.stream(*([piece] * 40_000)))
    assert (caught.value.kind, len(asker.chat.requests)) == ("too_large", 1)


@pytest.mark.parametrize("status", [301, 302, 307])
def test_a_stream_does_not_follow_a_redirect(asker: Any, other_chat: Any, status: int) -> None:
    with pytest.raises(ModelError, match="is not followed") as caught:
        asker.hear((status, b"", {"location": f"{other_chat.url}/chat/completions"}))
    assert (caught.value.kind, other_chat.requests) == ("redirect", [])


def test_a_compressed_stream_is_not_unpacked(asker: Any) -> None:
    with pytest.raises(ModelError, match="compressed"):
        asker.hear((200, b"\x1f\x8b", {**STREAMED, "content-encoding": "gzip"}))


def test_no_key_is_told_from_a_stream(asker: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    error = {"error": {"message": "not with sk-very-secret", "code": 400}}
    for pieces in ((error,), (chunk(refusal="not with sk-very-"), chunk(refusal="secret"), STOP)):
        with pytest.raises(ModelError) as caught:
            asker.hear(asker.chat.stream(*pieces))
        assert "very" not in str(caught.value)


def test_a_status_of_error_is_none_of_the_reply(asker: Any) -> None:
    body = b"".join(event(one) for one in PLAIN[:-1])
    busy = (503, body, {**STREAMED, "retry-after-ms": "5"})
    assert asker.hear(busy, "{}").text == "{}"
    assert asker.heard == ["{}"]


def test_an_error_whose_body_breaks_off(asker: Any) -> None:
    def talk(handler: Any) -> None:
        handler.wfile.write(b"HTTP/1.1 503 No\r\ncontent-length: 500\r\n\r\n{")

    reply = asker.hear((0, talk), "{}")
    assert (reply.text, reply.notes) == ("{}", ("asked again: the connection was lost",))


# Who listens may end it.


@pytest.mark.parametrize("error", [KeyboardInterrupt, BrokenPipeError, ValueError])
def test_what_a_listener_raises_ends_the_question_and_counts(
    asker: Any, error: type[BaseException]
) -> None:
    def hear(text: str | None) -> None:
        raise error

    with pytest.raises(error):
        asker.ask(asker.chat.stream(*PLAIN), hear=hear)
    spent = asker.ledger.run
    assert (spent.calls, spent.chars_sent) == (1, len(asker.messages[0]["content"]))
    assert spent.tokens_in > 500
    assert spent.tokens_out > 0
    assert asker.ask("{}").text == "{}"


TROUBLES = [
    (chunk('{"a'), {"ends": False}),
    (chunk('{"a'), {"error": "died"}, {}),
    (chunk(" "), STOP, DONE, {}),
    (chunk(reasoning_content="hm"), STOP, DONE, {}),
    (chunk('{"a'), chunk(finish="length"), DONE, {}),
    (chunk("", "length"), DONE, {}),
    (400, {"error": {"message": "stream_options: unknown field"}}),
    ({"error": {"message": "max_tokens is too large", "code": 400}}, {}),
    ({"error": {"message": "busy", "code": 503}}, {}),
    (chunk("I call."), call(ONE), STOP, DONE, {}),
    (200, message(ONE, "stop")),
    (chunk(ONE), STOP, {"ends": False}),
]


@pytest.mark.parametrize("seed", range(25))
def test_whatever_went_before_what_was_heard_last_is_the_reply(asker: Any, seed: int) -> None:
    for one in random.Random(seed).sample(TROUBLES, k=3):
        answer = one if isinstance(one[0], int) else asker.chat.stream(*one[:-1], **one[-1])
        asker.chat.queue.append(answer)
    asker.chat.always = asker.chat.stream(*PLAIN)
    reply = asker.hear(retries=3)
    assert asker.last_heard() == reply.text
    assert None not in asker.heard[:1]
    assert asker.ledger.run.calls == len(asker.chat.requests)


@pytest.fixture
def interrupts() -> Iterator[Callable[[], None]]:
    """Does what Ctrl-C does to the thread that asks, from another one."""
    former = signal.signal(signal.SIGINT, signal.default_int_handler)
    asking = threading.get_ident()
    yield lambda: signal.pthread_kill(asking, signal.SIGINT)
    signal.signal(signal.SIGINT, former)


@pytest.mark.parametrize("said", [(), (chunk("a thing or two "), chunk("was said"))])
@pytest.mark.parametrize("hears", [True, False])
def test_what_was_sent_before_ctrl_c_counts(
    asker: Any, interrupts: Callable[[], None], said: tuple[Any, ...], hears: bool
) -> None:
    answer = asker.chat.stream(*said, interrupts, waits=asker.chat.closing)
    with pytest.raises(KeyboardInterrupt):
        asker.hear(answer) if hears else asker.ask(answer)
    spent = asker.ledger.run
    assert (spent.calls, spent.chars_sent) == (1, len(asker.messages[0]["content"]))
    assert spent.tokens_in > 500
    assert spent.seconds > 0


def test_what_was_not_sent_before_ctrl_c_does_not_count(
    asker: Any, interrupts: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(1)

        def accept() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(1)  # a tunnel is asked for, and never made
                interrupts()
                asker.chat.closing.wait()

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{listening.getsockname()[1]}")
        monkeypatch.setenv("NO_PROXY", "")
        with pytest.raises(KeyboardInterrupt):
            asker.hear(base_url="https://llm.example/v1")
        asker.chat.closing.set()
        thread.join()
    spent = asker.ledger.run
    assert (spent.calls, spent.chars_sent, spent.tokens_in) == (1, 0, 0)


def test_replies_are_read_as_if_they_were_not_streamed(asker: Any) -> None:
    chunks = ChunkReader("content", [].append)
    for one in PLAIN[:-1]:
        chunks.take(event(one))
    said = replies.read_choice(chunks.document())
    assert said == replies.Reply(text=ONE, tokens_in=100, tokens_out=50)


# What the tries before the last one met is told too.


def test_a_server_that_goes_away_during_its_reply(asker: Any) -> None:
    def gone(handler: Any) -> None:
        raise ConnectionError

    broken = asker.chat.stream(chunk('{"decision": '))
    with pytest.raises(ModelError) as caught:
        asker.hear(broken, (0, gone), (0, gone))
    told = "the connection was lost during the reply, then the connection was lost"
    assert (caught.value.problem, caught.value.hint) == (told, "is the server still running?")


def test_the_same_fault_three_times_is_told_once(asker: Any) -> None:
    busy = (503, {"error": {"message": "Loading model"}}, {"retry-after-ms": "5"})
    with pytest.raises(ModelError) as caught:
        asker.ask(busy, busy, busy)
    assert caught.value.problem == "answered 503 for model 'm1': Loading model"
    assert caught.value.hint == "the server is still loading its model: wait, and try again"


def test_different_faults_are_told_in_their_order(asker: Any) -> None:
    soon = {"retry-after-ms": "5"}
    with pytest.raises(ModelError) as caught:
        asker.ask((429, {}, soon), (500, {}, soon), (429, {}, soon))
    told = "answered 429 for model 'm1', then answered 500 for model 'm1'"
    assert (caught.value.problem, caught.value.kind) == (told, "rate_limited")


def test_a_prompt_that_does_not_fit_names_the_option(asker: Any) -> None:
    full = "request (1290 tokens) exceeds the available context size (1024 tokens)"
    with pytest.raises(ModelError) as caught:
        asker.ask((400, {"error": {"message": full}}))
    assert "`--prompt-tokens 2000`" in caught.value.hint


@pytest.mark.parametrize("preset", [None, "llamacpp", "deepseek", "openai"])
def test_the_estimate_and_the_budget_count_the_same(asker: Any, preset: str | None) -> None:
    endpoint = asker.endpoint(preset=preset)
    about = estimate_question(endpoint, asker.messages, asker.schema, asker.store)
    asker.ledger = Ledger(run=Limits(tokens=about + endpoint.max_tokens - 1))
    with pytest.raises(BudgetReached, match=f"may need {about + endpoint.max_tokens:,}"):
        asker.ask(preset=preset)
    asker.ledger = Ledger(run=Limits(tokens=about + endpoint.max_tokens))
    assert asker.ask("{}", preset=preset).text == "{}"
