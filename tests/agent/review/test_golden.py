"""Golden rows: which pass, which fail, and in which words."""

import json
from pathlib import Path
from typing import Any

import pytest

from ingot.agent.review.golden_rows import GoldenResult, golden_file, run_golden
from ingot.converters.errors import MappingError, SourceError
from ingot.converters.mapping.bind import read_tree

CHAT: dict[str, Any] = {
    "version": 2,
    "messages": [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": "a"},
    ],
    "meta": {"original_id": "~"},
}
TEXT: dict[str, Any] = {"version": 2, "text": ["title", "body"]}
TALKS: dict[str, Any] = {
    "version": 2,
    "group": {"by": ["talk"], "sort": "turn"},
    "messages": [
        {
            "each": "$[*]",
            "role": {"path": "who", "map": {"A": "user", "B": "assistant"}},
            "content": "said",
        }
    ],
}


def said(user: str, assistant: str, **more: Any) -> dict[str, Any]:
    turns = [{"role": "user", "content": user}, {"role": "assistant", "content": assistant}]
    return {"messages": turns, **more}


def run(tmp_path: Path, document: dict[str, Any], *rows: Any) -> GoldenResult:
    file = tmp_path / "m.golden.jsonl"
    lines = [row if isinstance(row, str) else json.dumps(row, ensure_ascii=False) for row in rows]
    file.write_text("\n".join(lines) + "\n")
    return run_golden(read_tree(document), file, source_name="wells")


def why(tmp_path: Path, document: dict[str, Any], row: Any) -> str:
    result = run(tmp_path, document, row)
    assert result.rows == 1
    return "; ".join(one.why for one in result.failed)


def test_the_file_lies_beside_the_mapping() -> None:
    assert golden_file(Path("x/foo.json")) == Path("x/foo.golden.jsonl")
    assert golden_file(Path("x/foo.v2.json")) == Path("x/foo.v2.golden.jsonl")


@pytest.mark.parametrize(
    ("document", "row"),
    [
        (CHAT, {"row": {"q": "Why?", "a": "So."}, "records": [said("Why?", "So.")]}),
        (CHAT, {"row": {"q": "Why?", "a": ""}, "reject": "no_assistant"}),
        (
            CHAT,
            {
                "row": {"q": "Why?", "a": "So."},
                "key": "k7",
                "records": [said("Why?", "So.", meta={"source": "wells", "original_id": "k7"})],
            },
        ),
        (TEXT, {"row": {"title": "T", "body": "B"}, "records": [{"text": "T\nB"}]}),
        (TEXT, {"row": {"title": "", "body": None}, "reject": "empty_text"}),
        (
            TALKS,
            {
                "rows": [
                    {"talk": 1, "turn": 2, "who": "B", "said": "So."},
                    {"talk": 1, "turn": 1, "who": "A", "said": "Why?"},
                ],
                "records": [said("Why?", "So.")],
            },
        ),
        (
            TALKS,
            {"row": {"talk": 1, "turn": 1, "who": "A", "said": "Why?"}, "reject": "no_assistant"},
        ),
        (
            {**TEXT, "source": {"json_fields": ["body"]}, "text": "body.inner"},
            {"row": {"body": '{"inner": "deep"}'}, "records": [{"text": "deep"}]},
        ),
        (
            {**TEXT, "source": {"json_fields": ["body"]}, "text": "body.inner"},
            {"row": {"body": "{"}, "reject": "bad_json"},
        ),
        (
            {**TEXT, "each": "all[*]", "text": "t"},
            {"row": {"all": [{"t": "x"}, {"t": "y"}]}, "records": [{"text": "x"}, {"text": "y"}]},
        ),
    ],
)
def test_a_golden_row_passes(tmp_path: Path, document: dict[str, Any], row: Any) -> None:
    assert why(tmp_path, document, row) == ""


@pytest.mark.parametrize(
    ("document", "row", "words"),
    [
        (
            CHAT,
            {"row": {"q": "Why?", "a": "So."}, "records": [said("Why?", "No.")]},
            'messages 2 content: expected "No.", got "So."',
        ),
        (
            CHAT,
            {"row": {"q": "Why?", "a": "So."}, "records": [said("Why?", "So.", system="Be kind.")]},
            'system: expected "Be kind.", got null',
        ),
        (
            CHAT,
            {
                "row": {"q": "Why?", "a": "So."},
                "records": [said("Why?", "So.", meta={"source": "x"})],
            },
            'meta source: expected "x", got "wells"',
        ),
        (
            CHAT,
            {"row": {"q": "Why?", "a": "So."}, "reject": "no_assistant"},
            "expected a reject (no_assistant), got 1 record",
        ),
        (
            CHAT,
            {"row": {"q": "Why?", "a": ""}, "records": [said("Why?", "So.")]},
            "expected 1 record, got 0 (no_assistant)",
        ),
        (
            CHAT,
            {"row": {"q": "Why?", "a": ""}, "reject": "filtered"},
            "reject: expected filtered, got no_assistant",
        ),
        (
            TEXT,
            {
                "row": {"title": "x" * 500 + "A", "body": "B"},
                "records": [{"text": "x" * 500 + "C\nB"}],
            },
            'text: expected ..."xxxxxxxxxxxxxxxxxxxxC\\nB", got ..."xxxxxxxxxxxxxxxxxxxxA\\nB"',
        ),
        (
            {**TEXT, "each": "all[*]", "text": "t"},
            {"row": {"all": [{"t": "x"}, {"t": "y"}]}, "records": [{"text": "x"}, {"text": "z"}]},
            'record 2 text: expected "z", got "y"',
        ),
        (
            TALKS,
            {"rows": [{"talk": 1, "who": "A"}, {"talk": 2, "who": "B"}], "records": []},
            "rows: expected rows of one group, got 2 groups",
        ),
        (
            CHAT,
            {"rows": [{"q": "x"}], "records": []},
            "rows: expected row, since the mapping does not group",
        ),
        (
            TEXT,
            '{"row": {}, "records": [{"text": "a"}], "records": []}',
            "the key 'records' is duplicated in an object",
        ),
        (
            TEXT,
            '{"row": {"title": "a", "title": "b"}, "records": []}',
            "the key 'title' is duplicated in an object",
        ),
        (CHAT, "{", "not valid JSON: unexpected end of data at character 1"),
        (CHAT, "[1]", "not an object"),
        (CHAT, {"row": {}}, "expected one of the keys records and reject"),
        (CHAT, {"records": []}, "expected one of the keys row and rows"),
        (CHAT, {"row": {}, "records": [], "note": 1}, "unknown key 'note'"),
        (CHAT, {"row": {}, "records": {}}, "records: expected a list of objects"),
        (CHAT, {"row": {}, "records": [], "key": 3}, "key: expected text"),
        (
            CHAT,
            {"row": {"q": "mail x@host.example", "a": "So."}, "records": [said("mail", "So.")]},
            'messages 1 content: expected "mail", got "mail [email]"',
        ),
    ],
)
def test_a_failure_says_what_differs(
    tmp_path: Path, document: dict[str, Any], row: Any, words: str
) -> None:
    assert why(tmp_path, document, row) == words


def test_an_unknown_reason_is_told_with_those_that_there_are(tmp_path: Path) -> None:
    said = why(tmp_path, CHAT, {"row": {}, "reject": "nonsense"})
    assert said.startswith("reject: expected one of bad_row, bad_json, ")


def test_failures_name_their_line_and_blank_lines_are_none(tmp_path: Path) -> None:
    good = {"row": {"q": "Why?", "a": "So."}, "records": [said("Why?", "So.")]}
    bad = {"row": {"q": "Why?", "a": "So."}, "records": []}
    result = run(tmp_path, CHAT, good, "", bad, good)
    assert (result.rows, [one.line for one in result.failed]) == (3, [3])
    assert result.file.endswith("m.golden.jsonl")


def test_loss_mask_is_compared_where_it_is_stated(tmp_path: Path) -> None:
    record = said("Why?", "So.")
    record["messages"][0]["loss_mask"] = True
    words = why(tmp_path, CHAT, {"row": {"q": "Why?", "a": "So."}, "records": [record]})
    assert words == "messages 1 loss_mask: expected true, got false"


def test_version_1_is_bound_to_the_golden_rows(tmp_path: Path) -> None:
    row = {"row": {"q": "Why?", "a": "So."}, "records": [said("Why?", "So.")]}
    old = {"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]}
    assert why(tmp_path, old, row) == ""


def test_no_file_no_row_and_no_mapping_are_errors(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="there are no golden rows"):
        run_golden(read_tree(CHAT), tmp_path / "m.golden.jsonl", source_name="x")
    with pytest.raises(SourceError, match="it holds no golden row"):
        run(tmp_path, CHAT, "")
    with pytest.raises(MappingError):
        run(tmp_path, {"version": 2, "text": "a", "source": {"json_fields": 3}}, {"row": 1})
