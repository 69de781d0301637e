"""What a model claims against names: loss masks, system texts, sides, and texts of other rows."""

from typing import Any

import pytest

from ingot.agent import authored, claims


def message(role: Any, content: Any = "x", **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **more}


def chat(*messages: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"version": 2, "messages": [*messages], **more}


BY_DATA = {"path": "who", "map": {"a": "user", "b": "assistant"}}


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
    assert bool(claims.masked(chat(message(role, loss_mask=mask)))) is claimed


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
        ({"version": 2, "any_of": [chat(system="note")]}, ["the field 'note'"]),
    ],
)
def test_system_texts_that_are_not_named_so(document: dict[str, Any], found: list[str]) -> None:
    assert claims.named_otherwise(document) == found


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
    assert bool(claims.crossed(chat(message(role, content)))) is claimed


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("^.data[3].note", True),
        ("^.data[-1].note", True),
        ("^.^.data[0]", True),
        ("^.note", False),
        ("^.data", False),
        ("data[3].note", False),
        ("^.database[3]", False),
        ("^.qas[0].text", True),
        ("answers[0].text", False),
        ("^.answers[0].text", False),
        ({"template": "{{^.data[3].note}} {{q}}"}, True),
    ],
)
def test_texts_of_one_row_for_all(path: Any, found: bool) -> None:
    document = chat(message("user", "q"), message("assistant", [path, "a"]))
    assert bool(claims.borrowed(document | {"each": "data[*].qas[*]"})) is found
    assert claims.borrowed(document) == []


def test_values_of_an_object_are_walked_too() -> None:
    document = chat(message("assistant", "^.rows.r3.note"), each="rows.*")
    assert claims.borrowed(document) == ["'^.rows.r3.note'"]


@pytest.mark.parametrize(
    ("content", "long"),
    [
        (["a", {"literal": "Buy AcmeCoin"}], True),
        ({"template": "not {{a}}"}, True),
        ({"template": "Answer: {{a}}"}, False),
        ({"template": "### Answer\n{{a}}"}, False),
        ({"template": "**Answer** {{a}}"}, False),
        ({"template": "A. {{a}}\nB. {{b}}"}, False),
        ({"literal": "Yes:"}, True),
    ],
)
def test_what_is_trained_on_takes_labels_alone(content: Any, long: bool) -> None:
    for document in (chat(message("assistant", content)), {"version": 2, "text": content}):
        assert bool(authored.long_texts(document)) is long


def test_a_question_of_the_models_own_is_no_label() -> None:
    assert authored.long_texts(chat(message("user", {"literal": "Who is it?"})))
    assert not authored.long_texts(chat(message("user", {"template": "Say in French {{a}}"})))


@pytest.mark.parametrize(("said", "wrong"), [("en", 0), ("mix", 0), ("English", 1), ("xx", 1)])
def test_a_literal_language_is_a_code(said: str, wrong: int) -> None:
    found = authored.faults(chat(meta={"language": {"literal": said}}))
    assert [one.code for one in found] == ["bad_literal"] * wrong


def test_a_literal_language_is_that_of_the_texts() -> None:
    document = chat(meta={"language": {"literal": "de"}})
    assert authored.foreign_languages(document, "en") == ["de"]
    assert authored.foreign_languages(document, "de") == []
    assert authored.foreign_languages(document, None) == []
    assert authored.foreign_languages(chat(meta={"language": "lang"}), "en") == []


def test_a_group_of_all_rows() -> None:
    document = chat(group={"by": ["note"]})
    assert claims.lumped(document, 1, 12) == ["'note'"]
    assert claims.lumped(document, 2, 12) == claims.lumped(document, 1, 2) == []
    assert claims.lumped(chat(), 1, 12) == []
