"""The steps that make a chat fit a trainer: what each does, refuses, and calls it."""

import pytest

from ingot.converters.export.chats import (
    REASONS,
    Chat,
    Fitted,
    Turn,
    alternating,
    assistant_last,
    chat_of,
    cut_tail,
    is_tool_list,
    listed_tools,
    no_neighbours,
    one_system,
    some_trained,
    still_trained,
    tools_in_system,
    user_first,
)

NAMES = {"u": "user", "a": "assistant", "s": "system", "t": "tool"}


def chat(turns: str, tools: str | None = None) -> Chat:
    """`u A` -> an untrained user's turn and a trained assistant's; contents are `u0`, `A1`, ..."""
    said = [
        Turn(role=NAMES[one.lower()], content=f"{one}{place}", trained=one.isupper())
        for place, one in enumerate(turns.split())
    ]
    return Chat(turns=tuple(said), tools=tools)


def shape(fitted: Fitted) -> str | None:
    if fitted.chat is None:
        return None
    letters = {name: letter for letter, name in NAMES.items()}
    return " ".join(
        letters[turn.role].upper() if turn.trained else letters[turn.role]
        for turn in fitted.chat.turns
    )


def test_a_record_becomes_a_chat_with_its_system_in_front():
    record = {
        "messages": [
            {"role": "user", "content": "hi", "loss_mask": False},
            {"role": "assistant", "content": "yo", "loss_mask": True},
        ],
        "system": "be kind",
        "meta": {},
    }
    made = chat_of(record)
    assert [turn.role for turn in made.turns] == ["system", "user", "assistant"]
    assert made.trained == (False, False, True)
    assert made.tools is None
    assert chat_of({**record, "system": None, "tools": "[]"}).tools == "[]"


@pytest.mark.parametrize(
    ("step", "before", "after", "done"),
    [
        (some_trained, "u A", "u A", ()),
        (some_trained, "u a", None, ("untrained",)),
        (still_trained, "u a", None, ("masks",)),
        (cut_tail, "u A", "u A", ()),
        (cut_tail, "u A u a u", "u A", ("tail",)),
        (cut_tail, "u A U", "u A U", ()),
        (assistant_last, "u A", "u A", ()),
        (assistant_last, "u A U", "u A", ("masks",)),
        (assistant_last, "U", None, ("roles",)),
        (one_system, "s u A", "s u A", ()),
        (one_system, "s s u A", "s u A", ("two_systems",)),
        (one_system, "u A s A", None, ("roles",)),
        (one_system, "s u s A", None, ("roles",)),
        (no_neighbours("user"), "u u A A", "u A A", ("same_role",)),
        (no_neighbours("user", "assistant"), "u A A", "u A", ("same_role",)),
        (no_neighbours("assistant"), "u a A", "u a", ("same_role", "masks")),
        (no_neighbours("user", "assistant"), "u A t t A", "u A t t A", ()),
        (user_first, "s u A", "s u A", ()),
        (user_first, "A u A", "u A u A", ("opening",)),
        (user_first, "s A", "s u A", ("opening",)),
        (user_first, "S", None, ("roles",)),
        (alternating("user", "tool"), "s u A t A", "s u A t A", ()),
        (alternating("user", "tool"), "u t A", None, ("roles",)),
        (alternating("user"), "u A t A", None, ("roles",)),
        (alternating("user"), "A u", None, ("roles",)),
    ],
)
def test_steps(step, before, after, done):
    fitted = step(chat(before))
    assert shape(fitted) == after
    assert fitted.done == done


def test_texts_that_become_one_stand_a_blank_line_apart():
    assert one_system(chat("s s u A")).chat.turns[0].content == "s0\n\ns1"
    assert no_neighbours("user")(chat("u u A")).chat.turns[0].content == "u0\n\nu1"


def test_steps_are_taken_in_turn_until_one_gives_nothing():
    fitted = some_trained(chat("s s u u A u")).then(one_system, cut_tail, no_neighbours("user"))
    assert shape(fitted) == "s u A"
    assert fitted.done == ("two_systems", "tail", "same_role")
    ended = some_trained(chat("s s t A")).then(one_system, alternating("user"), user_first)
    assert ended == Fitted(chat=None, done=("two_systems", "roles"))


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ('[{"name": "f"}]', True),
        ("[]", True),
        ('{"name": "f"}', False),
        ('["f"]', False),
        ("search the web", False),
    ],
)
def test_tools_are_a_list_of_objects(text, fits):
    assert is_tool_list(text) == fits
    assert listed_tools(chat("u A", text)).done == (() if fits else ("tools_text",))


def test_tools_go_into_the_system_text_as_tokens_have_them():
    alone = tools_in_system(chat("u A", "[]"))
    assert alone.chat.turns[0] == Turn(role="system", content="# Tools\n[]")
    behind = tools_in_system(chat("s u A", "[]"))
    assert behind.chat.turns[0].content == "s0\n\n# Tools\n[]"
    assert (behind.chat.tools, behind.done, shape(behind)) == (None, ("tools",), "s u A")
    assert tools_in_system(chat("u A")).done == ()


def test_what_changes_no_trained_token_is_harmless_and_nothing_else_is():
    assert {name for name, reason in REASONS.items() if reason.harmless} == {"untrained", "tail"}
