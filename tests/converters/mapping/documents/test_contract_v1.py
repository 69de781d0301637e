"""The contract of the mapping, version 1: every example and every rule of its sections 1 to 5."""

from collections.abc import Callable
from typing import Any

import pytest

from ingot.converters.errors import MappingError, Problem
from ingot.converters.mapping.bind import bind, bind_tree, read_tree
from ingot.converters.mapping.documents.writer import to_document
from ingot.converters.mapping.rows.executor import UnifiedBatch

Unify = Callable[..., UnifiedBatch]
META = {
    "source": None,
    "language": None,
    "timestamp": None,
    "token_count": None,
    "quality_score": None,
    "original_id": None,
}


def meta(**stated: Any) -> dict[str, Any]:
    return {**META, **stated}


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text, "loss_mask": False}


def assistant(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text, "loss_mask": True}


def problems(document: Any, rows: list[Any]) -> tuple[Problem, ...]:
    with pytest.raises(MappingError) as raised:
        bind(document, rows)
    return raised.value.problems


# --- section 1: PT, the four examples


def test_pt_example_1_one_text_field(unify: Unify) -> None:
    document = {
        "text": "content",
        "meta": {
            "source": "dataset_name",
            "language": "lang",
            "timestamp": None,
            "token_count": None,
            "quality_score": None,
            "original_id": "id",
        },
    }
    rows = [{"content": " 正文 ", "dataset_name": "wiki", "lang": "zh", "id": 7}]
    assert unify(document, rows).records == [
        {"text": " 正文 ", "meta": meta(source="wiki", language="zh", original_id="7")}
    ]


def test_pt_example_2_several_fields_are_joined(unify: Unify) -> None:
    document = {
        "text": ["title", "body", "tags[*]"],
        "meta": {
            "source": "wikipedia",
            "language": "en",
            "timestamp": "created_at",
            "token_count": None,
            "quality_score": "quality_score",
            "original_id": "article_id",
        },
    }
    row = {
        "title": "T",
        "body": "B",
        "tags": ["x", "y"],
        "created_at": "2024-01-02",
        "quality_score": 0.93,
        "article_id": "a1",
    }
    assert unify(document, [row]).records == [
        {
            "text": "T\nB\nx\ny",
            "meta": meta(
                source="wikipedia",
                language="en",
                timestamp="2024-01-02",
                quality_score=0.93,
                original_id="a1",
            ),
        }
    ]


def test_pt_example_3_nested(unify: Unify) -> None:
    document = {
        "text": "articles[*].body",
        "meta": {
            "source": "meta.dataset",
            "language": "meta.lang",
            "timestamp": None,
            "token_count": None,
            "quality_score": None,
            "original_id": "meta.article_id",
        },
    }
    row = {
        "articles": [{"body": "one"}, {"body": "two"}],
        "meta": {"dataset": "news", "lang": "en", "article_id": 12},
    }
    assert unify(document, [row]).records == [
        {"text": "one\ntwo", "meta": meta(source="news", language="en", original_id="12")}
    ]


@pytest.mark.parametrize(
    "document",
    [{"text": None, "meta": None}, {"messages": None, "system": None, "meta": None}],
    ids=["pt example 4", "sft example 6"],
)
def test_not_relevant(document: dict[str, Any]) -> None:
    mapping = bind(document, [{"a": 1}])
    assert mapping.kind == "irrelevant"
    assert bind(to_document(mapping)).kind == "irrelevant"


# --- section 2: SFT, the examples


def test_sft_example_1_a_question_and_its_answer(unify: Unify) -> None:
    document = {
        "messages": [
            {"role": "user", "content": "question", "loss_mask": False},
            {"role": "assistant", "content": "answer", "loss_mask": True},
        ],
        "system": None,
        "meta": {
            "source": "alpaca",
            "language": "en",
            "timestamp": None,
            "token_count": None,
            "quality_score": None,
            "original_id": "id",
        },
    }
    assert unify(document, [{"question": "Q?", "answer": "A.", "id": "q-1"}]).records == [
        {
            "messages": [user("Q?"), assistant("A.")],
            "system": None,
            "meta": meta(source="alpaca", language="en", original_id="q-1"),
        }
    ]


def test_sft_example_2_turns_alternate(unify: Unify) -> None:
    document = {
        "messages": [
            {"role": "user", "content": "dialogues[*].user", "loss_mask": False},
            {"role": "assistant", "content": "dialogues[*].assistant", "loss_mask": True},
        ],
        "system": "system_prompt",
        "meta": {
            "source": "sharegpt",
            "language": "mix",
            "timestamp": "created_at",
            "token_count": None,
            "quality_score": "quality",
            "original_id": "conversation_id",
        },
    }
    row = {
        "dialogues": [{"user": "u1", "assistant": "a1"}, {"user": "u2", "assistant": "a2"}],
        "system_prompt": "Be brief.",
        "created_at": "2024",
        "quality": 1,
        "conversation_id": 5,
    }
    assert unify(document, [row]).records == [
        {
            "messages": [user("u1"), assistant("a1"), user("u2"), assistant("a2")],
            "system": "Be brief.",
            "meta": meta(
                source="sharegpt",
                language="mix",
                timestamp="2024",
                quality_score=1.0,
                original_id="5",
            ),
        }
    ]


def test_sft_example_3_a_question_from_several_fields(unify: Unify) -> None:
    document = {
        "messages": [
            {"role": "user", "content": ["stem", "options[*]"], "loss_mask": False},
            {"role": "assistant", "content": "analysis", "loss_mask": True},
        ],
        "system": None,
        "meta": {"source": "exam_dataset", "language": "zh", "original_id": "question_id"},
    }
    row = {"stem": "题", "options": ["甲", "乙"], "analysis": "选甲", "question_id": "1"}
    record = unify(document, [row]).records[0]
    assert record["messages"] == [user("题\n甲\n乙"), assistant("选甲")]


def test_sft_example_4_nested_turns(unify: Unify) -> None:
    document = {
        "messages": [
            {"role": "user", "content": "conversation.turns[*].user_input"},
            {"role": "assistant", "content": "conversation.turns[*].assistant_response"},
        ],
        "system": "conversation.system_instruction",
        "meta": {"source": "meta.dataset_name", "language": "meta.lang", "original_id": "meta.id"},
    }
    row = {
        "conversation": {
            "turns": [
                {"user_input": "u1", "assistant_response": "a1"},
                {"user_input": "u2", "assistant_response": "a2"},
            ],
            "system_instruction": "S",
        },
        "meta": {"dataset_name": "d", "lang": "en", "id": 3},
    }
    record = unify(document, [row]).records[0]
    assert record["messages"] == [user("u1"), assistant("a1"), user("u2"), assistant("a2")]
    assert record["system"] == "S"
    assert record["meta"] == meta(source="d", language="en", original_id="3")


def test_sft_example_5_a_system_message(unify: Unify) -> None:
    document = {
        "messages": [
            {"role": "system", "content": "instruction", "loss_mask": False},
            {"role": "user", "content": "input", "loss_mask": False},
            {"role": "assistant", "content": "output", "loss_mask": True},
        ],
        "system": None,
        "meta": {"source": "custom_dataset", "language": "en", "original_id": "id"},
    }
    row = {"instruction": "Translate.", "input": "chat", "output": "cat", "id": 1}
    record = unify(document, [row]).records[0]
    assert [m["role"] for m in record["messages"]] == ["system", "user", "assistant"]
    assert record["system"] is None


# --- the rules


def test_a_system_literal_may_hold_a_dot(unify: Unify) -> None:
    document = {
        "messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}],
        "system": "You are a helpful assistant.",
    }
    record = unify(document, [{"q": "Q", "a": "A"}]).records[0]
    assert record["system"] == "You are a helpful assistant."


def test_a_system_message_beats_the_system_field(unify: Unify) -> None:
    document = {
        "messages": [
            {"role": "system", "content": "s"},
            {"role": "user", "content": "q"},
            {"role": "assistant", "content": "a"},
        ],
        "system": "other",
    }
    rows = [{"s": "in messages", "q": "Q", "a": "A", "other": "O"}]
    rows.append({"s": "", "q": "Q", "a": "A", "other": "O"})
    first, second = unify(document, rows).records
    assert first["system"] is None
    assert first["messages"][0]["content"] == "in messages"
    assert second["system"] == "O"
    assert [m["role"] for m in second["messages"]] == ["user", "assistant"]


def test_a_column_called_like_a_literal_is_a_path_with_a_warning(unify: Unify) -> None:
    document = {"text": "text", "meta": {"language": "en"}}
    rows = [{"text": "x", "en": "hello"}]
    assert unify(document, rows).records[0]["meta"]["language"] == "hello"
    assert "'en' is a column" in bind(document, rows).warnings[0]


@pytest.mark.parametrize(
    ("stated", "nearest"),
    [
        ({"language": "langg"}, "lang"),
        ({"source": "metadata.src"}, "metadata.source"),
        ({"source": "dataset_nam"}, "dataset_name"),
        ({"language": "English"}, None),
    ],
)
def test_what_is_neither_a_path_nor_a_literal_is_an_error(
    stated: dict[str, str], nearest: str | None
) -> None:
    rows = [{"text": "x", "lang": "en", "metadata": {"source": "s"}, "dataset_name": "d"}]
    (problem,) = problems({"text": "text", "meta": stated}, rows)
    assert problem.code == "unresolved_path"
    assert problem.pointer == f"/meta/{next(iter(stated))}"
    assert problem.nearest == nearest


def test_a_system_that_is_one_word_is_no_literal() -> None:
    document = {"messages": [{"role": "user", "content": "q"}], "system": "sistem"}
    (problem,) = problems(document, [{"q": "Q", "system": "S"}])
    assert problem.nearest == "system"


def test_a_literal_stands_in_the_saved_mapping_as_one() -> None:
    document = {"text": "text", "meta": {"source": "wiki", "language": "lang"}}
    assert to_document(bind(document, [{"text": "x", "lang": "en"}])) == {
        "version": 2,
        "text": "text",
        "meta": {"source": {"literal": "wiki"}, "language": "lang"},
    }


@pytest.mark.parametrize(
    ("column", "values", "role"),
    [
        ("user_question", ["a", "b"], "user"),
        ("input", ["a", "b"], "user"),
        ("best_answer", ["a", "b"], "assistant"),
        ("output", ["a", "b"], "assistant"),
        ("system", ["a", "b"], "system"),
        ("instruction", ["same", "same"], "system"),
        ("instruction", ["a", "b"], "user"),
        ("instruction", ["a", "b"] * 20, "system"),  # nearly constant: at most 1 of 20 differs
        ("instruction", ["a", "b", "c"] + ["a"] * 37, "user"),
        ("x", ["a", "b"], "user"),
    ],
)
def test_an_absent_role_is_inferred(column: str, values: list[str], role: str) -> None:
    document = {"messages": [{"content": column}, {"content": "z"}]}
    mapping = bind(document, [{column: value, "z": "Z"} for value in values])
    assert [m.role for m in mapping.outer.messages or ()] == [role, "assistant"]
    assert any(f"{role} inferred" in note for note in mapping.warnings)
    assert to_document(mapping)["messages"][0]["role"] == role


def test_a_role_that_is_present_but_unknown_is_an_error() -> None:
    (problem,) = problems({"messages": [{"role": "assist", "content": "a"}]}, [{"a": "x"}])
    assert problem.pointer == "/messages/0/role"
    assert problem.nearest == "assistant"


def test_content_null_leaves_that_message_out(unify: Unify) -> None:
    document = {
        "messages": [
            {"role": "system", "content": None},
            {"role": "user", "content": "q"},
            {"role": "assistant", "content": "a"},
        ]
    }
    assert unify(document, [{"q": "Q", "a": "A"}]).records[0]["messages"] == [
        user("Q"),
        assistant("A"),
    ]


def test_loss_mask_null_is_the_default_of_the_role_and_a_stated_one_wins(unify: Unify) -> None:
    document = {
        "messages": [
            {"role": "user", "content": "q", "loss_mask": True},
            {"role": "assistant", "content": "a", "loss_mask": None},
            {"role": "tool", "content": "t"},
            {"role": "assistant", "content": "b", "loss_mask": False},
        ]
    }
    record = unify(document, [{"q": "Q", "a": "A", "t": "T", "b": "B"}]).records[0]
    assert [m["loss_mask"] for m in record["messages"]] == [True, True, False, False]


def test_meta_defaults(unify: Unify) -> None:
    record = unify({"text": "t"}, [{"t": "x"}], source_name="news", language="zh").records[0]
    assert record["meta"] == meta(source="news", language="zh")


def test_a_meta_column_that_is_blank_on_a_row_takes_the_default(unify: Unify) -> None:
    document = {"text": "t", "meta": {"source": "s", "language": "l"}}
    rows = [{"t": "x", "s": "", "l": None}, {"t": "y", "s": "here", "l": "de"}]
    first, second = unify(document, rows, source_name="news", language="zh").records
    assert first["meta"] == meta(source="news", language="zh")
    assert second["meta"] == meta(source="here", language="de")


@pytest.mark.parametrize(
    ("document", "pointer"),
    [
        ({"meta": {}}, ""),
        ({"text": ""}, "/text"),
        ({"text": []}, "/text"),
        ({"text": ["a", ""]}, "/text/1"),
        ({"text": 3}, "/text"),
        ({"text": "a", "extra": 1}, "/extra"),
        ({"text": "a", "system": "s"}, "/system"),
        ({"messages": []}, "/messages"),
        ({"messages": [{"role": "user"}]}, "/messages/0/content"),
        (
            {"messages": [{"role": "user", "content": "q", "loss_mask": "yes"}]},
            "/messages/0/loss_mask",
        ),
        ({"text": "a", "meta": {"orignal_id": "id"}}, "/meta/orignal_id"),
        ({"text": "a", "meta": {"source": ""}}, "/meta/source"),
        ([], ""),
        ("text", ""),
    ],
)
def test_structure_is_checked(document: Any, pointer: str) -> None:
    with pytest.raises(MappingError) as raised:
        bind(document, None, where="m.json")
    assert [problem.pointer for problem in raised.value.problems] == [pointer]
    assert raised.value.exit_code == 2


def test_all_problems_are_reported_at_once() -> None:
    document = {
        "messages": [{"role": "human", "content": "q..x"}, {"role": "assistant"}],
        "meta": {"language": "langg", "identity": "id"},
    }
    found = problems(document, [{"q": 1, "lang": "en"}])
    assert [(p.pointer, p.code) for p in found] == [
        ("/messages/0/role", "schema"),
        ("/messages/0/content", "bad_path"),
        ("/messages/1/content", "schema"),
        ("/meta/identity", "schema"),
        ("/meta/language", "unresolved_path"),
    ]


def test_a_row_without_text_is_rejected_and_the_next_one_converts(unify: Unify) -> None:
    done = unify({"text": "t"}, [{"t": None}, {}, {"t": " "}, {"t": "x"}])
    assert [r.reason for r in done.rejects] == ["empty_text"] * 3
    assert [r.row for r in done.rejects] == [0, 1, 2]
    assert (done.converted, done.rejected, done.filtered) == (1, 3, 0)


def test_a_file_is_checked_without_data_and_given_as_it_stands() -> None:
    document = {
        "messages": [{"content": "instruction"}, {"role": "assistant", "content": "a"}],
        "system": "You are a helpful assistant.",
        "meta": {"source": "Dr. No's notes", "language": "lang"},
    }
    with pytest.raises(MappingError) as raised:
        bind(
            {**document, "meta": {"source": "a..b", "language": "x[", "original_id": "i["}},
            where="m",
        )
    assert [p.pointer for p in raised.value.problems] == [
        "/meta/source",
        "/meta/language",
        "/meta/original_id",
    ]
    document["meta"] = {"source": "wikipedia's", "language": "lang"}
    assert to_document(read_tree(document)) == document
    rows = [{"instruction": "Answer.", "a": str(i), "lang": "en"} for i in range(30)]
    mapping = bind_tree(read_tree(document), rows)
    assert [m.role for m in mapping.outer.messages or ()] == ["system", "assistant"]
