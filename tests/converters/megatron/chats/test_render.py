"""The ChatML rendering: exact text, and spans that are the contents with their end marks."""

from typing import Any

import pytest

from ingot.converters.megatron.chat.rendering import render_chat


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
