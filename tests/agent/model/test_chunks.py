"""Whatever a stream holds, it is put together as some completion or error."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ingot.agent.model import replies
from ingot.agent.model.replies import ChunkReader

WORDS = (
    "choices", "delta", "message", "content", "text", "index", "finish_reason", "usage", "error",
    "code", "object", "tool_calls", "function", "arguments", "id", "refusal", "reasoning_content",
    "type", "function_call", "prompt_tokens", "completion_tokens",
)  # fmt: skip
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 9) | st.sampled_from(["", "a", "error", "\ud83d"]),
    lambda inside: (
        st.lists(inside, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inside, max_size=4)
    ),
    max_leaves=12,
)
MESSAGES = st.dictionaries(st.sampled_from(WORDS), VALUES, max_size=4)
CHOICES = st.fixed_dictionaries(
    {}, optional={"delta": MESSAGES, "message": MESSAGES, "index": VALUES, "finish_reason": VALUES}
)
CHUNKS = st.fixed_dictionaries(
    {"choices": st.lists(CHOICES, max_size=2)}, optional={"usage": VALUES, "error": VALUES}
)


@given(st.lists(CHUNKS | VALUES, max_size=5), st.sampled_from(["content", "arguments"]))
def test_whatever_chunks_hold_they_are_put_together(chunks: list[Any], part: str) -> None:
    heard: list[str] = []
    read = ChunkReader(part, heard.append)
    for one in chunks:
        read.take(b"data: " + json.dumps(one).encode() + b"\n\n")
    read.end()
    document = read.document()
    assert ("error" in document) is read.failed
    said = replies.read_choice(json.loads(json.dumps(document)))
    told, out = read.tokens()
    assert told is None or told > 0
    assert out >= 0
    if said is not None and part == "content" and not said.source:
        assert said.text in ("", "".join(heard))
    "".join(heard).encode()


@given(st.binary(max_size=200))
def test_bytes_that_are_no_stream(data: bytes) -> None:
    read = ChunkReader("content", [].append)
    read.take(data)
    read.end()
    assert replies.read_choice(read.document()) is None
