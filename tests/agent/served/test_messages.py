"""Messages of every form that clients send, and what was said last."""

from typing import Any

import pytest

from ingot.agent.served.begin import asked_words
from ingot.agent.state import add_messages, answer_message

HUMAN = {"type": "human", "content": "hello"}


@pytest.mark.parametrize("new", [HUMAN, [HUMAN], "hello", ["hello"]])
def test_what_is_said_is_added_with_a_mark_of_its_own(new: Any) -> None:
    first = add_messages([], new)
    assert first == [{**HUMAN, "id": "message-0"}]
    assert [one["id"] for one in add_messages(first, answer_message("yes"))] == [
        "message-0",
        "message-1",
    ]
    assert add_messages(first, [{**HUMAN, "id": "mine"}])[1]["id"] == "mine"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (" hello ", "hello"),
        ([{"type": "text", "text": "a"}, {"type": "image", "data": "x"}], "a"),
        ([{"type": "text", "text": "a"}, "b"], "a\nb"),
        ([], ""),
        (None, ""),
        ({"text": 3}, ""),
    ],
)
def test_the_words_of_a_message(content: Any, words: str) -> None:
    for one in ({"type": "human"}, {"role": "user"}):
        assert asked_words([answer_message("before"), {**one, "content": content}]) == words


def test_nobody_asked_or_it_is_answered() -> None:
    assert asked_words([]) is None
    assert asked_words([HUMAN, answer_message("yes")]) is None
