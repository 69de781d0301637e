"""Server-sent events, as the standard has them and as servers send them."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingot.agent.model.replies import EventParser, ServerEvent


def read(*pieces: bytes) -> list[tuple[str, str]]:
    events = EventParser()
    found: list[ServerEvent] = []
    for piece in pieces:
        found += events.feed(piece)
    return [(one.name, one.data) for one in [*found, *events.end()]]


@pytest.mark.parametrize(
    ("stream", "found"),
    [
        (b"data: a\n\ndata: b\n\n", [("", "a"), ("", "b")]),
        (b"data:a\r\n\r\ndata: b\r\n\r\n", [("", "a"), ("", "b")]),
        (b"data: a\r\rdata: b\r\r", [("", "a"), ("", "b")]),
        (b"data:  a \n\n", [("", " a ")]),
        (b"data: a\ndata\ndata: b\n\n", [("", "a\n\nb")]),
        (b": ping\n\n:\n\ndata: a\n: amid\ndata: b\n\n", [("", "a\nb")]),
        (b"\n\n\r\n\n", []),
        (b"event: error\ndata: a\n\ndata: b\n\n", [("error", "a"), ("", "b")]),
        (b'error: {"code": 500}\n\n', [("error", '{"code": 500}')]),
        (b"event: ping\n\ndata: a\n\n", [("", "a")]),
        (b"id: 1\nretry: 5\nfoo: x\nbar\n\ndata: a\n\n", [("", "a")]),
        (b"\xef\xbb\xbfdata: a\n\n", [("", "a")]),
        ("data: h\u00e9\u2028\x85\n\n".encode(), [("", "h\u00e9\u2028\x85")]),
        (b"data: \xff\n\n", [("", "\ufffd")]),
        (b"data: a\n\ndata: b", [("", "a"), ("", "b")]),
        (b"data: a\n\ndata: b\n", [("", "a"), ("", "b")]),
        (b"data: a\n\ndata: b\r", [("", "a"), ("", "b")]),
        (b"", []),
    ],
)
def test_what_a_stream_holds(stream: bytes, found: list[tuple[str, str]]) -> None:
    assert read(stream) == found
    assert read(*(stream[at : at + 1] for at in range(len(stream)))) == found


LINES = st.sampled_from(
    [b"data: ", b"data:", b"event: x", b"error: ", b": ping", b"\n", b"\r\n", b"\r", b"\n\n", b""]
)
BYTES = st.lists(LINES | st.text(max_size=3).map(str.encode) | st.binary(max_size=3)).map(b"".join)


@given(BYTES, st.lists(st.integers(0, 60), max_size=8))
def test_any_split_is_read_alike(stream: bytes, cuts: list[int]) -> None:
    edges = [0, *sorted(min(one, len(stream)) for one in cuts), len(stream)]
    pieces = [stream[a:b] for a, b in pairwise(edges)]
    assert read(*pieces) == read(stream)


def test_one_giant_event_in_many_pieces() -> None:
    piece = b"x" * 8192
    assert read(b"data: ", *([piece] * 1024), b"\n\n") == [("", "x" * (8 << 20))]
