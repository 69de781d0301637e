"""The normal form of a mapping: what it says, and what may not be lost in it."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from ingot.agent.review.diff.mapping_changes import compare_mappings
from ingot.converters.errors import MappingError
from ingot.converters.mapping.bind import bind
from ingot.converters.mapping.documents.writer import to_document
from ingot.converters.mapping.rows.executor import RowExecutor
from ingot.converters.rows import Batch
from tests.agent.review.diff.documents import normal_form as normal_tree

V1 = {
    "messages": [
        {"role": "user", "content": "d[*].q", "loss_mask": False},
        {"role": "assistant", "content": ["d[*].a"], "loss_mask": True},
    ],
    "system": "You are helpful.",
    "meta": {"language": "lang", "source": "sharegpt"},
}


def records(document: dict[str, Any], rows: list[Any]) -> list[Any]:
    batch = Batch(file="rows.jsonl", rows=range(len(rows)), values=rows)
    return RowExecutor(bind(document, rows), source_name="rows").batch(batch).records


def normal_form(document: Any, values: Any = ()) -> dict[str, Any]:
    """Return the document of a normal form."""
    return to_document(normal_tree(document, values))


def test_version_1_is_settled_on_the_rows() -> None:
    rows = [{"lang": "de", "d": [{"q": "1", "a": "2"}]}]
    form = normal_form(V1, rows)
    assert form == {
        "messages": [
            {"content": "q", "each": "d[*]", "role": "user"},
            {"content": "a", "each": "d[*]", "role": "assistant"},
        ],
        "meta": {"language": "lang", "source": {"literal": "sharegpt"}},
        "system": {"literal": "You are helpful."},
        "version": 2,
    }
    assert records(form, rows) == records(V1, rows)


def test_a_name_that_is_a_column_is_a_path() -> None:
    document = {"text": "a", "meta": {"source": "name", "language": "en"}}
    assert normal_form(document, [{"a": "x", "name": "n", "en": "de"}])["meta"] == {
        "language": "en",
        "source": "name",
    }
    assert normal_form(document)["meta"] == {
        "language": {"literal": "en"},
        "source": {"literal": "name"},
    }


def test_a_column_that_is_not_there_is_the_path_that_it_is_spelt_as() -> None:
    document = {"text": "a", "meta": {"language": "lang"}}
    assert (
        normal_form(document)["meta"]
        == normal_form(document, [{"a": "x"}])["meta"]
        == {"language": "lang"}
    )


def test_absent_roles_of_version_1_are_inferred() -> None:
    document = {"messages": [{"content": "question"}, {"content": "answer"}]}
    assert [one["role"] for one in normal_form(document)["messages"]] == ["user", "assistant"]


def test_entries_of_maps_are_sorted() -> None:
    table = {"path": "l", "map": {"b": "x", "a": "y"}}
    form = normal_form({"version": 2, "text": "a", "meta": {"language": table}})
    assert [*form["meta"]["language"]["map"]] == ["a", "b"]


def test_provenance_is_gone() -> None:
    assert normal_form({"version": 2, "text": "a", "provenance": {"model": "m"}}) == {
        "text": "a",
        "version": 2,
    }


@pytest.mark.parametrize("document", [{"version": 2}, {"text": "a..b"}, [], "x", None])
def test_what_is_no_mapping_is_an_error(document: Any) -> None:
    with pytest.raises(MappingError):
        normal_form(document)


TURNS = [{"d": [{"q": "1", "a": "2"}, {"q": "3", "a": "4"}]}]


@pytest.mark.parametrize(
    "messages",
    [
        # Neighbours are read in step only where their paths are spelt alike.
        [{"role": "user", "content": "d[*].q"}, {"role": "assistant", "content": "['d'][*].a"}],
        [
            {"each": "d[*]", "role": "user", "content": "q"},
            {"each": "['d'][*]", "role": "assistant", "content": "a"},
        ],
        [
            {"role": "user", "content": {"concat": ["d[*].q"]}},
            {"role": "assistant", "content": "d[*].a"},
        ],
        [{"role": "user", "content": "d[*].q"}, {"role": "assistant", "content": "d[*].a"}],
        [{"role": "user", "content": None}],
    ],
)
def test_messages_that_are_emitted_apart_stay_apart(messages: list[Any]) -> None:
    document = {"version": 2, "messages": messages}
    form = normal_form(document)
    assert records(form, TURNS) == records(document, TURNS)
    assert normal_form(form) == form


def test_braces_in_a_placeholder_stay_quoted() -> None:
    document = {"version": 2, "text": {"template": r"{{['a\u007d\u007d']}}!"}}
    form = normal_form(document)
    assert records(form, [{"a}}": "x"}]) == records(document, [{"a}}": "x"}])


def test_a_concatenation_of_one_part_is_text_where_types_count() -> None:
    document = {"version": 2, "text": "a", "meta": {"original_id": {"concat": ["i"]}}}
    assert normal_form(document)["meta"] == {"original_id": {"concat": ["i"]}}


PAGE = Path(__file__).parents[4] / "docs" / "mapping.md"
WRITTEN = re.findall(r"^```json mapping\n(.*?)^```$", PAGE.read_text("utf-8"), re.M | re.S)


@pytest.mark.parametrize("text", WRITTEN)
def test_the_mappings_of_the_reference_are_what_they_are(text: str) -> None:
    document = json.loads(text)
    form = normal_form(document)
    assert normal_form(form) == form
    assert compare_mappings(normal_tree(form), normal_tree(document)) == ()
