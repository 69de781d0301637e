"""From the text that a model replied to a valid reply: what is repaired, what is refused."""

import json
from typing import Any

import pytest

from ingot.agent.proposing.llm import reply as replies
from ingot.converters import json_yaml
from ingot.converters.errors import MappingError


def read(text: str, *, cut_off: bool = False) -> dict[str, Any]:
    return replies.read_reply(text, cut_off=cut_off).document


META = dict.fromkeys(
    ("source", "language", "timestamp", "token_count", "quality_score", "original_id")
)
FULL: dict[str, Any] = {
    "decision": "pt",
    "reason": "The body is running text.",
    "root": None,
    "source": None,
    "each": [],
    "group": None,
    "where": [],
    "text": ["title", "body"],
    "messages": None,
    "system": None,
    "meta": {**META, "original_id": "id"},
    "confidence": 0.9,
}
SAID = json.dumps(FULL)


@pytest.mark.parametrize(
    "text",
    [
        SAID,
        f"\n  {SAID}\n",
        f"```json\n{SAID}\n```",
        f"Here it is:\n```\n{SAID}\n```\nDone.",
        f"<think>{{maybe}} this?</think>\n{SAID}",
        SAID.replace("null", "None"),
        SAID.replace('"', "'"),
        SAID[:-1] + ",}",
        SAID.replace('"where"', '/* none */ "where"'),
    ],
)
def test_a_reply_is_read_however_it_is_wrapped_or_spelt(text: str) -> None:
    assert read(text) == FULL


def test_unicode_escapes_are_characters() -> None:
    assert read(json.dumps({**FULL, "text": ["正文"]}, ensure_ascii=True))["text"] == ["正文"]


@pytest.mark.parametrize(
    ("text", "got"),
    [
        ("", "an empty reply"),
        ("   \n", "an empty reply"),
        ("I cannot help with that.", "I cannot help"),
        (f"{SAID}{SAID}", "2 objects"),
        ("[1, 2]", "[1, 2]"),
    ],
)
def test_what_is_not_one_object_is_refused(text: str, got: str) -> None:
    with pytest.raises(MappingError, match="not_json") as caught:
        read(text)
    assert got in str(caught.value)


def test_a_reply_that_was_cut_off_is_not_repaired() -> None:
    half = SAID[: len(SAID) // 2]
    with pytest.raises(MappingError, match="cut off"):
        read(half, cut_off=True)


def test_left_out_nullable_keys_are_completed() -> None:
    reply = read('{"decision": "pt", "text": "body", "meta": {"original_id": "id"}}')
    assert reply == {**FULL, "reason": "", "confidence": 0.5, "text": ["body"]}


def test_an_answer_without_a_mapping_may_leave_everything_null() -> None:
    said = dict.fromkeys(FULL) | {"decision": "irrelevant", "reason": "r", "confidence": 0.9}
    assert read(json.dumps(said)) == {**said, "each": [], "where": [], "meta": META}


def test_a_reply_in_the_form_of_version_1_is_understood() -> None:
    said = {"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": ["a"]}]}
    reply = read(json.dumps(said))
    assert reply["decision"] == "sft"
    assert reply["messages"][0] == {
        "each": [],
        "where": [],
        "role": "user",
        "content": ["q"],
        "loss_mask": None,
    }
    assert read('{"text": null}')["decision"] == "irrelevant"


def test_nested_forms_are_completed() -> None:
    said = {
        "decision": "sft",
        "group": {"by": "chat"},
        "messages": [
            {
                "each": "turns[*]",
                "role": {"path": "from"},
                "content": [{"options": "o[*]"}, {"template": "{{a}}"}],
            }
        ],
    }
    reply = read(json.dumps(said))
    assert reply["group"] == {"by": ["chat"], "sort": None}
    assert reply["messages"] == [
        {
            "each": ["turns[*]"],
            "where": [],
            "role": {"path": "from", "map": []},
            "content": [
                {"options": ["o[*]"], "label": None, "pick": None, "from": 0},
                {"template": "{{a}}", "each": []},
            ],
            "loss_mask": None,
        }
    ]
    assert json_yaml.violations("llm", reply) == []


def test_the_form_of_a_mapping_file_is_understood() -> None:
    said = {
        "decision": "sft",
        "reason": None,
        "root": ["data[*]"],
        "each": ["qas[*]"],
        "source": {"delimiter": ";"},
        "group": {"by": "chat", "sort": ["turn"]},
        "where": {"path": "good", "in": True},
        "messages": [
            {
                "role": {"path": "from", "map": {1: "user", "bot": "assistant", "log": None}},
                "content": [{"path": "o[*]", "pick": ["key"]}, {"path": "k", "map": {"1": "yes"}}],
                "loss_mask": "weight",
            },
            {"role": ["user", "assistant"], "content": {"path": "j", "as": "json"}},
            {"role": {"split": {"Q:": "user"}}, "content": [{"any_of": ["a", {"literal": 3}]}]},
        ],
        "meta": {"language": {"path": "l", "map": {"English": "en"}}, "original_id": ["id"]},
    }
    found = replies.read_reply(json.dumps(said))
    first, second, third = found.document["messages"]
    table = [
        {"value": value, "role": role}
        for value, role in (("1", "user"), ("bot", "assistant"), ("log", "drop"))
    ]
    plain = {"map": [], "replace": [], "json": False, "html": False, "sep": None}
    assert first == {
        "each": [],
        "where": [],
        "role": {"path": "from", "map": table},
        "content": [
            {"options": ["o[*]"], "label": None, "pick": "key", "from": 0},
            {**plain, "path": "k", "map": [{"value": "1", "becomes": "yes"}]},
        ],
        "loss_mask": {"path": "weight"},
    }
    assert second["role"] == {"in_turn": ["user", "assistant"]}
    assert second["content"] == [{**plain, "path": "j", "json": True}]
    assert third["role"] == {"split": [{"marker": "Q:", "role": "user"}]}
    assert third["content"] == [{"any_of": ["a", {"literal": "3"}]}]
    document = found.document
    assert (document["root"], document["each"]) == ("data[*]", ["qas[*]"])
    assert document["group"] == {"by": ["chat"], "sort": "turn"}
    assert document["where"] == [{"path": "good", "op": "in", "values": [True]}]
    assert document["source"]["delimiter"] == ";"
    assert document["source"]["json_fields"] == []
    assert document["meta"]["original_id"] == "id"
    assert json_yaml.violations("llm", document) == []


@pytest.mark.parametrize(
    ("value", "text"), [(1, "1"), (0.5, "0.5"), (True, "true"), ("True", "True")]
)
def test_numbers_and_booleans_as_keys_of_a_map_are_their_text(value: Any, text: str) -> None:
    role = {"path": "from", "map": [{"value": value, "role": "user"}]}
    part = {"path": "k", "map": [{"value": value, "becomes": value}]}
    message = {"each": [], "role": role, "content": [part], "loss_mask": None}
    found = replies.read_reply(json.dumps({"decision": "sft", "messages": [message]}))
    made = found.document["messages"][0]
    assert made["role"]["map"] == [{"value": text, "role": "user"}]
    assert made["content"][0]["map"] == [{"value": text, "becomes": value}]
    changed = [pointer for pointer, _, _ in found.taken]
    wanted = ["/messages/0/role/map/0/value", "/messages/0/content/0/map/0/value"]
    assert changed == ([] if value == text else wanted)


def test_what_was_taken_otherwise_is_listed_with_its_place() -> None:
    found = replies.read_reply('{"decision": "pt", "text": "body", "meta": {"original_id": "id"}}')
    assert found.taken == (("/text", "body", '["body"]'),)
    assert replies.read_reply(SAID).taken == ()


def test_root_in_source_is_the_root_unless_both_say_another() -> None:
    said = {"decision": "pt", "text": "t", "source": {"root": "data[*]"}}
    assert read(json.dumps(said))["root"] == "data[*]"
    assert read(json.dumps(said))["source"] is None
    with pytest.raises(MappingError, match="root"):
        read(json.dumps({**said, "root": "rows[*]"}))


@pytest.mark.parametrize(
    ("said", "read_as"), [(1.7, 1.0), (-1, 0.0), (None, 0.5), (0, 0.0), (10**400, 1.0)]
)
def test_confidence_is_a_share(said: Any, read_as: float) -> None:
    assert read(json.dumps({**FULL, "confidence": said}))["confidence"] == read_as


@pytest.mark.parametrize(
    ("wrong", "pointer", "expected"),
    [
        ({"decision": "maybe"}, "/decision", "one of pt, sft, irrelevant, unmappable"),
        ({"extra": 1}, "", "Additional properties"),
        ({"text": [3]}, "/text/0", "string or an object with template, each or"),
        (
            {"messages": [{"each": [], "role": "human", "content": ["q"], "loss_mask": None}]},
            "/messages/0/role",
            "one of user, assistant, system, tool",
        ),
        ({"meta": {**META, "id": "x"}}, "/meta", "Additional properties"),
        ({"confidence": "high"}, "/confidence", "type number"),
        ({"where": [{"path": "a", "op": "==", "values": [1]}]}, "/where/0/op", "one of in, not_in"),
    ],
)
def test_what_the_schema_forbids_is_a_problem_that_a_model_can_act_on(
    wrong: dict[str, Any], pointer: str, expected: str
) -> None:
    with pytest.raises(MappingError) as caught:
        read(json.dumps({**FULL, **wrong}))
    found = caught.value.problems[0]
    assert (found.pointer, found.code) == (pointer, "schema")
    assert expected in found.expected


def test_at_most_five_problems_are_told() -> None:
    many = [{"path": "a", "op": "==", "values": [1]}] * 9
    with pytest.raises(MappingError) as caught:
        read(json.dumps({**FULL, "where": many}))
    assert len(caught.value.problems) == 5


HALF = SAID[: len(SAID) // 2]
ROW = '{"text": "a row", "id": 7}'


@pytest.mark.parametrize(
    ("text", "how"),
    [
        (SAID, ()),
        (f"```json\n{SAID}\n```", ("in a fence",)),
        (f"The rows look like {ROW}, so {SAID} it is.", ("amid other text",)),
        (f"<think>{ROW}</think>{SAID}", ("after its thoughts",)),
        (SAID.replace("null", "None"), ("repaired",)),
        ('{"decision": "pt", "text": ["body"]}', ("completed",)),
    ],
)
def test_it_is_recorded_what_was_put_right(text: str, how: tuple[str, ...]) -> None:
    assert replies.read_reply(text).repaired == how


@pytest.mark.parametrize(
    ("text", "got"),
    [
        (HALF, "cut off"),  # and the server did not say so
        (f"```json\n{HALF}\n```", "cut off"),
        (f"{SAID} or rather {SAID.replace('pt', 'sft')}", "2 objects"),
        ((SAID + " or " + SAID).replace("null", "None"), "several objects"),
        (SAID[:-1] + ', "decision": "sft"}', "'decision' twice"),
        ('{"a": ' * 5000 + "1" + "}" * 5000, "one JSON object"),
        ("[" * 90_000, "cut off"),
        (SAID + " " * 10 + "x" * 300_000, "characters"),
        (SAID.replace("title", "\\ud83d"), "surrogate"),
    ],
)
def test_what_could_be_read_in_two_ways_is_not_read(text: str, got: str) -> None:
    with pytest.raises(MappingError) as caught:
        read(text)
    code = "cut_off" if got == "cut off" else "not_json"
    assert [one.code for one in caught.value.problems] == [code]
    assert got in str(caught.value)


@pytest.mark.parametrize(
    ("pointer", "changed", "expected"),
    [
        ("/root", {"root": "1." * 251}, "at most 500 characters"),
        ("/text", {"text": ["a"] * 31}, "at most 30 entries"),
        ("/text/0", {"text": ["a" * 501]}, "at most 500 characters"),
        ("/text/0/any_of/1", {"text": [{"any_of": ["a", "b" * 501]}]}, "at most 500 characters"),
        (
            "/messages/0/role/path",
            {"messages": [{"role": {"path": "a" * 501}, "content": ["b"]}]},
            "at most 500 characters",
        ),
    ],
)
def test_what_is_too_long_says_nothing_of_the_server(
    pointer: str, changed: dict[str, Any], expected: str
) -> None:
    with pytest.raises(MappingError) as caught:
        read(json.dumps({**FULL, **changed}))
    assert [(one.pointer, one.code, one.expected) for one in caught.value.problems] == [
        (pointer, "content", expected)
    ]


def test_what_is_as_long_as_may_be_is_read() -> None:
    said = {**FULL, "root": "r" * 500, "text": [{"literal": "l" * 1900}] * 30, "reason": "w" * 800}
    assert read(json.dumps(said)) == said
