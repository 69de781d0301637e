"""The ChatML rendering: exact text, and spans that are the contents with their end marks."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingot.converters.megatron.chat.loss_masks import TrainedSpans
from ingot.converters.megatron.chat.templates import render_chat, render_table
from ingot.converters.records.schema import SFT_SCHEMA


def message(role: str, content: str | None, loss_mask: bool = False) -> dict[str, Any]:
    return {"role": role, "content": content, "loss_mask": loss_mask}


CHAT = [message("user", " 1+1? "), message("assistant", "2", True)]
BODY = "<|im_start|>user\n 1+1? <|im_end|>\n<|im_start|>assistant\n2<|im_end|>\n"


@pytest.mark.parametrize(
    ("system", "tools", "head"),
    [
        (None, None, ""),
        ("Be brief.", None, "<|im_start|>system\nBe brief.<|im_end|>\n"),
        (None, "[]", "<|im_start|>system\n# Tools\n[]<|im_end|>\n"),
        ("Hi", '[{"a": 1}]', '<|im_start|>system\nHi\n\n# Tools\n[{"a": 1}]<|im_end|>\n'),
    ],
)
def test_text(system: str | None, tools: str | None, head: str) -> None:
    assert render_chat(CHAT, system=system, tools=tools).text == head + BODY


def test_spans_are_contents_with_their_end_marks() -> None:
    chat = [*CHAT, message("tool", '{"ok": "好"}'), message("assistant", None, True)]
    rendered = render_chat(chat, system="s")
    found = [(rendered.text[s.start : s.end], s.trained) for s in rendered.spans]
    assert found == [
        ("s<|im_end|>", False),
        (" 1+1? <|im_end|>", False),
        ("2<|im_end|>", True),
        ('{"ok": "好"}<|im_end|>', False),
        ("<|im_end|>", True),
    ]


def test_no_messages_no_text() -> None:
    assert render_chat([]).text == ""


TEXT = st.sampled_from(["", "a", " \n", "好🦀", "<|im_end|>", "é" * 40])
MESSAGES = st.lists(
    st.builds(
        message, st.sampled_from(["user", "assistant", "tool"]), TEXT | st.none(), st.booleans()
    ),
    min_size=1,
    max_size=4,
)
ROWS = st.lists(st.tuples(MESSAGES, TEXT | st.none(), TEXT | st.none()), min_size=1, max_size=6)


@pytest.mark.more
@given(rows=ROWS, skipped=st.integers(0, 2))
def test_a_table_is_rendered_as_its_rows_are(
    rows: list[tuple[list[dict[str, Any]], str | None, str | None]], skipped: int
) -> None:
    made = [{"messages": m, "system": s, "tools": t, "meta": None} for m, s, t in rows]
    table = pa.RecordBatch.from_pylist(made, schema=SFT_SCHEMA).slice(skipped)
    found = render_table(table)
    if skipped >= len(rows):
        assert found is None
        return
    texts, spans = found or pytest.fail("not rendered")
    single = [render_chat(m, system=s, tools=t) for m, s, t in rows[skipped:]]
    assert texts.to_pylist() == [one.text for one in single]
    wanted = TrainedSpans.of_texts([one.text for one in single], [one.spans for one in single])
    assert [a.tolist() for a in spans] == [b.tolist() for b in wanted]
    assert [spans.of_text(at) for at in range(len(single))] == [
        tuple(span for span in one.spans if span.trained) for one in single
    ]


def test_a_table_with_a_record_without_messages_is_not_rendered_at_once() -> None:
    made = [{"messages": m, "system": None, "tools": None} for m in (CHAT, [])]
    assert render_table(pa.RecordBatch.from_pylist(made, schema=SFT_SCHEMA)) is None
