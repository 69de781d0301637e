"""The steps that make a chat fit a trainer: what each does, refuses, and calls it."""

import pytest

from ingot.converters.export.chat_layout import (
    HARMLESS,
    REASONS,
    Chat,
    FittedChat,
    Turn,
    begin_with_user,
    chat_of_record,
    cut_tail,
    end_with_assistant,
    is_tool_list,
    merge_neighbours,
    merge_system,
    move_tools_to_system,
    require_alternating,
    require_still_trained,
    require_tool_list,
    require_trained,
    take_steps,
)

NAMES = {"u": "user", "a": "assistant", "s": "system", "t": "tool"}


def chat(turns: str, tools: str | None = None) -> Chat:
    """`u A` -> an untrained user's turn and a trained assistant's; contents are `u0`, `A1`, ..."""
    said = [
        Turn(role=NAMES[one.lower()], content=f"{one}{place}", trained=one.isupper())
        for place, one in enumerate(turns.split())
    ]
    return Chat(turns=tuple(said), tools=tools)


def shape(fitted: FittedChat) -> str | None:
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
    made = chat_of_record(record)
    assert [turn.role for turn in made.turns] == ["system", "user", "assistant"]
    assert made.trained == (False, False, True)
    assert made.tools is None
    assert chat_of_record({**record, "system": None, "tools": "[]"}).tools == "[]"


@pytest.mark.parametrize(
    ("step", "before", "after", "done"),
    [
        (require_trained, "u A", "u A", ()),
        (require_trained, "u a", None, ("untrained",)),
        (require_still_trained, "u a", None, ("masks",)),
        (cut_tail, "u A", "u A", ()),
        (cut_tail, "u A u a u", "u A", ("tail",)),
        (cut_tail, "u A U", "u A U", ()),
        (end_with_assistant, "u A", "u A", ()),
        (end_with_assistant, "u A U", "u A", ("masks",)),
        (end_with_assistant, "U", None, ("roles",)),
        (merge_system, "s u A", "s u A", ()),
        (merge_system, "s s u A", "s u A", ("two_systems",)),
        (merge_system, "u A s A", None, ("roles",)),
        (merge_system, "s u s A", None, ("roles",)),
        (merge_system, "s s u s A", None, ("roles",)),
        (merge_neighbours("user"), "u u A A", "u A A", ("same_role",)),
        (merge_neighbours("user", "assistant"), "u A A", "u A", ("same_role",)),
        (merge_neighbours("assistant"), "u a A", "u a", ("same_role", "masks")),
        (merge_neighbours("user", "assistant"), "u A t t A", "u A t t A", ()),
        (begin_with_user, "s u A", "s u A", ()),
        (begin_with_user, "A u A", "u A u A", ("opening",)),
        (begin_with_user, "s A", "s u A", ("opening",)),
        (begin_with_user, "S", None, ("roles",)),
        (require_alternating("user", "tool"), "s u A t A", "s u A t A", ()),
        (require_alternating("user", "tool"), "u t A", None, ("roles",)),
        (require_alternating("user"), "u A t A", None, ("roles",)),
        (require_alternating("user"), "A u", None, ("roles",)),
    ],
)
def test_steps(step, before, after, done):
    fitted = step(chat(before))
    assert shape(fitted) == after
    assert fitted.done == done


def test_texts_that_become_one_stand_a_blank_line_apart():
    assert merge_system(chat("s s u A")).chat.turns[0].content == "s0\n\ns1"
    assert merge_neighbours("user")(chat("u u A")).chat.turns[0].content == "u0\n\nu1"


def test_steps_are_taken_in_turn_until_one_gives_nothing():
    steps = (require_trained, merge_system, cut_tail, merge_neighbours("user"))
    fitted = take_steps(chat("s s u u A u"), steps)
    assert shape(fitted) == "s u A"
    assert fitted.done == ("two_systems", "tail", "same_role")
    steps = (require_trained, merge_system, require_alternating("user"), begin_with_user)
    ended = take_steps(chat("s s t A"), steps)
    assert ended == FittedChat(chat=None, done=("two_systems", "roles"))


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
    assert require_tool_list(chat("u A", text)).done == (() if fits else ("tools_text",))


def test_tools_go_into_the_system_text_as_tokens_have_them():
    alone = move_tools_to_system(chat("u A", "[]"))
    assert alone.chat.turns[0] == Turn(role="system", content="# Tools\n[]")
    behind = move_tools_to_system(chat("s u A", "[]"))
    assert behind.chat.turns[0].content == "s0\n\n# Tools\n[]"
    assert (behind.chat.tools, behind.done, shape(behind)) == (None, ("tools",), "s u A")
    assert move_tools_to_system(chat("u A")).done == ()


def test_what_changes_no_trained_token_is_harmless_and_nothing_else_is():
    assert {name for name in REASONS if name in HARMLESS} == {"untrained", "tail"}
