"""Roles, sides, system texts and loss masks that a model chose against their names."""

from typing import Any

import pytest

from ingot.agent.judging import model_gates
from ingot.converters.mapping.bind import read_tree


def message(role: Any, content: Any = "x", **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **more}


def chat(*messages: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"version": 2, "messages": [*messages], **more}


BY_DATA = {"path": "who", "map": {"a": "user", "b": "assistant"}}


BY_DATA = {"path": "who", "map": {"a": "user", "b": "assistant"}}


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ({"role": {"path": "r", "map": {"human": "assistant", "gpt": "user"}}}, 2),
        ({"role": {"path": "r", "map": {"客服": "user"}}}, 1),
        ({"role": {"split": {"\n\nHuman:": "assistant"}}}, 1),
        ({"role": "assistant", "content": "turn.human"}, 1),
        ({"role": "user", "content": ["x", {"path": "a['assistant']"}]}, 1),
        ({"role": {"path": "r", "map": {"human": "user", "gpt": "assistant"}}}, 0),
        ({"role": {"path": "r", "map": {"A": "user", "B": "assistant"}}}, 0),
        ({"role": {"path": "r", "map": {"Q": "assistant", "A": "user"}}}, 2),
        ({"role": {"path": "r", "map": {"system": "assistant", "human": None}}}, 0),
        ({"role": {"split": {"<bot>:": "assistant"}}}, 0),
        ({"role": ["user", "assistant"]}, 0),
        ({"role": "assistant", "content": "turns[*].user[*]"}, 1),
        ({"role": "user", "content": "turn.question"}, 0),
        ({"role": "user", "content": None}, 0),
    ],
)
def test_roles_against_their_names(message: dict[str, Any], said: int) -> None:
    document = {"version": 2, "messages": [{"content": "x", **message}]}
    assert len(model_gates.swapped_sides(read_tree(document))) == said
    variants = {"version": 2, "any_of": [{"messages": document["messages"]}, {}]}
    assert len(model_gates.swapped_sides(read_tree(variants))) == said


@pytest.mark.parametrize(
    ("role", "mask", "claimed"),
    [
        ("assistant", True, False),
        ("assistant", None, False),
        ("user", False, False),
        ("assistant", False, True),
        ("user", True, True),
        ("system", True, True),
        (["user", "assistant"], True, True),
        (["user", "assistant"], False, True),
        (BY_DATA, True, True),
        (BY_DATA, None, False),
        (BY_DATA, "weight", False),
        (BY_DATA, {"path": "train_on_turn"}, False),
        (BY_DATA, "score", True),
        ("assistant", "spam", True),
    ],
)
def test_what_is_trained_on_is_for_the_roles_or_the_data_to_say(
    role: Any, mask: Any, claimed: bool
) -> None:
    assert bool(model_gates.odd_masks(read_tree(chat(message(role, loss_mask=mask))))) is claimed


@pytest.mark.parametrize(
    ("document", "found"),
    [
        (chat(system="system_prompt"), []),
        (chat(system="conversation[0].system"), []),
        (chat(message("system", "persona")), []),
        (chat(system="note"), ["the field 'note'"]),
        (chat(message("system", ["persona", "note"])), ["the field 'note'"]),
        (chat(message({"path": "from", "map": {"system": "system", "human": "user"}})), []),
        (chat(message({"path": "from", "map": {"note": "system"}})), ["'note'"]),
        ({"version": 2, "any_of": [{"system": "note"}, {}]}, ["the field 'note'"]),
    ],
)
def test_system_texts_that_are_not_named_so(document: dict[str, Any], found: list[str]) -> None:
    assert model_gates.odd_system_texts(read_tree(document)) == found


@pytest.mark.parametrize(
    ("role", "content", "claimed"),
    [
        ("user", "question", False),
        ("user", ["context", "answer"], False),
        ("user", "answer", True),
        ("assistant", ["rationale", "answer"], False),
        ("assistant", "question", True),
        ("assistant", "row.instruction", True),
        ("assistant", ["question", "answer"], False),
        (BY_DATA, "answer", False),
        ({"path": "from", "map": {"human": "user", "gpt": None, "x": "assistant"}}, "value", True),
        ({"path": "from", "map": {"human": "user", "note": None}}, "value", False),
    ],
)
def test_fields_named_for_the_other_side(role: Any, content: Any, claimed: bool) -> None:
    assert bool(model_gates.crossed_messages(read_tree(chat(message(role, content))))) is claimed
